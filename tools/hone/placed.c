/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/placed.h"

#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

bool placed_on_bytes(const char *label)
{
	size_t n = strlen(label);
	return n > 3 && (!strcmp(label + n - 3, " u8") || !strcmp(label + n - 3, " i8"));
}

/* The first word of the label, with the type of bytes that it ends with. */
static void kind_of(const char *label, char out[32])
{
	int n = (int)strcspn(label, " ");
	snprintf(out, 32, "%.*s%s", n < 28 ? n : 28, label,
		 placed_on_bytes(label) ? label + strlen(label) - 3 : "");
}

void placed_add(struct placed *p, const char *label, enum kernel_why why)
{
	char kind[32];
	int i = 0;
	p->kernels++;
	if (why == WHY_NOT)
		return;
	p->here++;
	kind_of(label, kind);
	while (i < p->n && (p->row[i].why != why || strcmp(p->row[i].kind, kind)))
		i++;
	if (i == p->n && i < PLACED_KINDS)
		memcpy(p->row[p->n++].kind, kind, sizeof kind);
	else if (i == p->n)
		snprintf(p->row[i].kind, sizeof p->row[i].kind, "others");
	p->row[i].why = why;
	p->row[i].count++;
}

void placed_plan(struct placed *p, const struct plan *plan)
{
	const struct plan_kernel *k;
	int n = plan_kernels(plan, &k);
	for (int i = 0; i < n; i++)
		placed_add(p, k[i].label, k[i].why);
}

/* Why a kernel runs on the processor. */
static const char *why_words(enum kernel_why why)
{
	static const char *const words[] = {[WHY_OPERATOR] = "no kernels exist for the operator",
					    [WHY_BYTES] = "8-bit integers run there only in tuned kernels",
					    [WHY_NO_KERNEL] = "no kernel of it is known for the device",
					    [WHY_UNFIT] = "the device's driver does not build its kernel",
					    [WHY_FAILED] = "no schedule of it works on the device",
					    [WHY_NO_TURN] = "the box ended before a kernel of it was kept"};
	return words[why];
}

static int rows(const struct placed *p)
{
	return p->n + (p->row[p->n].count > 0 && p->n == PLACED_KINDS);
}

/* Appends the kinds of one reason, with the reason behind them. */
static void add_reason(const struct placed *p, enum kernel_why why, struct buf *out)
{
	bool any = false;
	for (int i = 0; i < rows(p); i++) {
		if (p->row[i].why != why)
			continue;
		buf_printf(out, "%s%d %s", any ? ", " : out->n ? "; " : "", p->row[i].count, p->row[i].kind);
		any = true;
	}
	if (any)
		buf_printf(out, " (%s)", why_words(why));
}

void placed_print(const struct placed *p, const char *device)
{
	struct buf b = {0};
	for (int why = WHY_OPERATOR; why < WHYS; why++)
		add_reason(p, (enum kernel_why)why, &b);
	if (p->here)
		table_say("%s: %d of %d kernel%s run%s on the processor: %s", device, p->here, p->kernels,
			  plural_s(p->kernels), p->kernels == 1 ? "s" : "", buf_str(&b));
	buf_free(&b);
}

json_t *placed_json(const struct placed *p)
{
	json_t *list = json_array();
	for (int i = 0; i < rows(p); i++)
		json_array_append_new(list,
				      json_pack("{so si ss}", "step_kind", json_text(p->row[i].kind), "count",
						p->row[i].count, "why", why_words(p->row[i].why)));
	return list;
}
