/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/tune_table.h"
#include "tools/hone/adds_up.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include <stdio.h>

#define APART 1.15 /* if times of one kernel differ by more, the report says why */

static bool only_alone(const struct tune_kernel *k)
{
	return k->after_ns <= 0 && k->alone_ns > 0;
}

static void time_cell(struct table *t, const struct tune_kernel *k)
{
	table_us(t, only_alone(k) ? "~" : "", (double)(only_alone(k) ? k->alone_ns : k->after_ns));
}

/* How much longer a kernel takes in the network than alone, or the other way round. */
static double apart(const struct tune_kernel *k)
{
	double x = (double)k->after_ns, y = (double)k->alone_ns;
	return x <= 0 || y <= 0 ? 1 : x > y ? x / y : y / x;
}

static int64_t away_ns(const struct tune_kernel *k)
{
	return k->after_ns > k->alone_ns ? k->after_ns - k->alone_ns : k->alone_ns - k->after_ns;
}

/* Whether both times are known and the row may have gained: it has a kernel that can be tuned, or another one
 * than before. */
static bool compares(const struct tune_kernel *k)
{
	bool tunable = k->after == FROM_CACHE || k->after == FROM_DEFAULT;
	return k->before_ns > 0 && k->after_ns > 0 && (tunable || k->before != k->after);
}

/* Whether a kernel that is not built in took the place of one that is, also if it has the default schedule.
 */
static bool over_built_in(const struct tune_kernel *k)
{
	bool own = k->after == FROM_CACHE || k->after == FROM_DEFAULT;
	return compares(k) && own && (k->before == FROM_FALLBACK || k->before == FROM_HOST);
}

/* Says which times the table shows where others of the same kernels exist: of the kernel alone, which explain
 * shows. */
static void quantity_notes(const struct tune_report *r)
{
	int alone = 0, differ = 0, most = 0, regrouped = 0, compared = 0, built_in = 0;
	for (int i = 0; i < r->nkernels; i++) {
		compared += compares(&r->kernel[i]);
		built_in += over_built_in(&r->kernel[i]);
		regrouped += r->before_ms > 0 && r->kernel[i].before_ns <= 0 && r->kernel[i].after_ns > 0;
		alone += only_alone(&r->kernel[i]);
		if (apart(&r->kernel[i]) <= APART || r->kernel[i].alone_ns < NS_PER_US)
			continue;
		most = !differ++ || away_ns(&r->kernel[i]) > away_ns(&r->kernel[most]) ? i : most;
	}
	if (alone)
		table_say("~: of the kernel alone, as the search timed it; it was not timed in the network, "
			  "so it is not compared with \"before us\"");
	if (built_in)
		table_say("gain: over the built-in kernels that ran before this box, also where the default "
			  "schedule runs now");
	if (faster_unclear(&r->before) && compared)
		table_say("(gain): the rounds of the network were too few, or differ too much, so it may be "
			  "chance");
	if (r->before_ms <= 0 && r->after_ms > 0)
		table_say(
		    "before us -: the network was not measured before the search: other load disturbed its "
		    "first runs, or they took more than their share of the box");
	if (regrouped)
		table_say("-: before this box, other kernels did this part of the network");
	if (differ)
		table_say("us: time in the network. Alone, %d kernel%s of 1 us or more took a time that "
			  "differs by over %.0f %%, because the caches hold other data; the largest "
			  "difference: %s (%.1f us alone)",
			  differ, plural_s(differ), 100 * (APART - 1), r->kernel[most].label,
			  (double)r->kernel[most].alone_ns / 1e3);
}

/* In brackets, if the comparison of the whole network is unclear. */
static void gain_cell(struct table *t, const struct tune_report *r, const struct tune_kernel *k)
{
	if (compares(k))
		table_cell(t, faster_unclear(&r->before) ? "(%.2fx)" : "%.2fx",
			   (double)k->before_ns / (double)k->after_ns);
	else
		table_cell(t, "-");
}

static const char *kept_words(const struct tune_kernel *k)
{
	return ready_origin(kernel_origin_kind(k->after, k->at_default));
}

void tune_table_untimed(const struct tune_report *r, bool color)
{
	struct table t = {.align = "lll"};
	if (!r->nkernels)
		return;
	table_cell(&t, "kernels");
	table_cell(&t, "task");
	table_cell(&t, "node");
	for (int i = 0; i < r->nkernels; i++) {
		table_cell(&t, "%s", kept_words(&r->kernel[i]));
		table_cell(&t, "%s", r->kernel[i].label);
		table_cell(&t, "%s", r->kernel[i].name);
	}
	table_print(&t, color);
}

/* Says so if the times of a column do not add up to that of the whole network: those after the box, or those
 * before it where the network was not measured again. Rows without such a time leave nothing to compare. */
static void sum_note(const struct tune_report *r, const char *device)
{
	bool after = r->after_ms > 0;
	double sum_ns = 0;
	struct buf note = {0};
	for (int i = 0; i < r->nkernels; i++) {
		const struct tune_kernel *k = &r->kernel[i];
		int64_t ns = after ? k->after_ns : k->before_ns;
		if (ns <= 0)
			return;
		sum_ns += (double)ns;
	}
	adds_up_note(sum_ns, 1e6 * (after ? r->after_ms : r->before_ms), r->nkernels, device, &note);
	if (note.n)
		table_say("%s", buf_str(&note));
	buf_free(&note);
}

void tune_table(const struct tune_report *r, const char *device, bool color)
{
	static const char *const head[] = {"before us", "after us", "gain", "of roofline",
					   "kernels",   "task",     "node"};
	struct table t = {.align = "rrrrlll", .drop = "4001203"};
	struct roof_notes notes = {0};
	bool shares = false;
	if (!r->nkernels)
		return;
	for (int i = 0; i < 7; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < r->nkernels; i++) {
		const struct tune_kernel *k = &r->kernel[i];
		const struct roof roof = {.memory_bound = k->memory_bound};
		char share[24];
		roof_cell(&notes, &roof, 100 * k->roofline, share);
		shares |= k->roofline > 0;
		table_us(&t, "", (double)k->before_ns);
		time_cell(&t, k);
		gain_cell(&t, r, k);
		table_cell(&t, "%s", share);
		table_cell(&t, "%s", kept_words(k));
		table_cell(&t, "%s", k->label);
		table_cell(&t, "%s", k->name);
	}
	table_print(&t, color);
	quantity_notes(r);
	sum_note(r, device);
	roof_notes_print(&notes, shares && (t.shown & 1 << 3));
}

void tune_joined(const struct tune_report *r, struct buf *out)
{
	bool gained = faster_significant(&r->before) && r->before.ratio > 1;
	if (r->kernels_before <= r->nkernels || !r->nkernels)
		return;
	buf_printf(out, "%d kernels are joined into %d", r->kernels_before, r->nkernels);
	if (r->at_defaults && gained)
		buf_puts(out, ", and the gain is from that: every kernel is at its default schedule");
}
