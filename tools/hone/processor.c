/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/processor.h"

#include "tools/hone/headline.h"
#include "tools/hone/next.h"
#include "tools/hone/placed.h"
#include "tools/hone/table.h"
#include <stdio.h>

#define SURELY 0.9 /* of the other's time: faster without an interval */

bool processor_is_faster(const struct tune_report *r)
{
	const struct tune_processor *p = &r->processor;
	if (!p->faster.rounds)
		return p->ms > 0 && p->ms < SURELY * r->after_ms;
	return p->faster.few ? p->faster.ratio < SURELY : p->faster.high < 1;
}

static bool all_tuned(const struct tune_processor *p)
{
	return p->tuned == p->kernels;
}

static void count(const struct tune_report *r, struct placed *p)
{
	*p = (struct placed){0};
	for (int i = 0; i < r->nkernels; i++)
		placed_add(p, r->kernel[i].label, r->kernel[i].why);
}

static void comparison(const char *device, const struct tune_report *r)
{
	char lead[32], than[128], ms[24];
	const struct tune_processor *p = &r->processor;
	table_ms(p->ms, ms);
	if (p->faster.rounds) {
		snprintf(lead, sizeof lead, "  %s: ", device);
		snprintf(than, sizeof than,
			 "the processor alone, which takes %s with %s kernels on %d thread%s", ms,
			 all_tuned(p) ? "tuned"
			 : p->tuned   ? "tuned and built-in"
				      : "built-in",
			 p->threads, plural_s(p->threads));
		headline_print(lead, &p->faster, than, &r->machine);
	} else if (p->ms > 0)
		table_say(
		    "  the processor alone takes %s with its tuned kernels on %d thread%s (measured %s)", ms,
		    p->threads, plural_s(p->threads), p->date);
	else if (p->threads)
		table_say("  the processor alone was not timed: too little time was left");
}

void processor_advice(const char *device, const struct tune_report *r, struct buf *out)
{
	if (processor_is_faster(r))
		buf_printf(
		    out,
		    "the processor alone runs the whole network faster than with %s: leave --device out%s",
		    device, all_tuned(&r->processor) ? "" : ", or tune its own kernels");
}

void processor_print(const char *device, const struct tune_report *r)
{
	struct placed placed;
	struct buf b = {0};
	if (!device)
		return;
	count(r, &placed);
	placed_print(&placed, device);
	comparison(device, r);
	processor_advice(device, r, &b);
	if (b.n)
		table_say("  %s", buf_str(&b));
	buf_free(&b);
}

void processor_next(const struct args *a, const struct tune_report *r)
{
	bool tuned = all_tuned(&r->processor);
	next_hone(a, tuned ? "bench" : "tune", a->pos[0],
		  tuned ? " --device cpu" : " --budget 20s --device cpu");
}

static json_t *one_json(const struct tune_report *r)
{
	const struct tune_processor *p = &r->processor;
	if (!(p->ms > 0))
		return json_null();
	bool measured = p->faster.rounds > 0;
	return json_pack("{so so si si si sb so so sb}", "ms", json_num(p->ms), "device_ms",
			 json_num(measured ? p->device_ms : r->after_ms), "threads", p->threads,
			 "kernel_count", p->kernels, "tuned", p->tuned, "measured", measured, "date",
			 measured ? json_null() : json_text(p->date), "gain",
			 headline_json(&p->faster, &r->machine), "is_faster", processor_is_faster(r));
}

void processor_json(json_t *to, const char *device, const struct tune_report *r)
{
	struct placed placed;
	count(r, &placed);
	json_object_set_new(
	    to, "device_use",
	    device ? json_pack("{so so}", "name", json_text(device), "on_processor", placed_json(&placed))
		   : json_null());
	json_object_set_new(to, "processor", device ? one_json(r) : json_null());
}
