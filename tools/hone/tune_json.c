/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/tune_json.h"
#include "agent/worker/libraries.h"

#include "tools/hone/calibrate.h"
#include "tools/hone/early.h"
#include "tools/hone/floats.h"
#include "tools/hone/headline.h"
#include "tools/hone/processor.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include <math.h>

static const char *const rigor_names[] = {[RIGOR_PATIENT] = "patient",
					  [RIGOR_QUICK] = "quick",
					  [RIGOR_ESTIMATE] = "estimate",
					  [RIGOR_CACHED] = "cached"};

const char *tune_rigor_name(enum rigor r)
{
	return rigor_names[r];
}

double tune_speedup(const struct tune_report *r)
{
	bool both = r->after_ms > 0 && r->default_ms > 0;
	bool clear = r->gain.faster.rounds && !faster_unclear(&r->gain.faster);
	return r->at_defaults ? 1 : clear ? r->gain.faster.ratio : both ? r->default_ms / r->after_ms : NAN;
}

static json_t *ms_or_null(double ms)
{
	return ms > 0 ? json_num(ms) : json_null();
}

static json_t *note_json(const struct roof *r, double pct)
{
	const char *why = roof_why(r, pct);
	return why ? json_text(why) : json_null();
}

static json_t *us_or_null(int64_t ns)
{
	return ns > 0 ? json_num((double)ns / 1e3) : json_null();
}

static json_t *kernels_json(const struct tune_report *r)
{
	json_t *list = json_array();
	for (int i = 0; i < r->nkernels; i++) {
		const struct tune_kernel *k = &r->kernel[i];
		json_array_append_new(
		    list,
		    json_pack("{so so ss ss sb so so so so so}", "name", json_text(k->name), "label",
			      json_text(k->label), "before",
			      ready_origin(kernel_origin_kind(k->before, k->before_default)), "after",
			      ready_origin(kernel_origin_kind(k->after, k->at_default)), "at_default",
			      k->at_default, "before_us", us_or_null(k->before_ns), "after_us",
			      us_or_null(k->after_ns), "alone_us", us_or_null(k->alone_ns), "roofline_pct",
			      json_num(100 * k->roofline), "roofline_note",
			      note_json(&(struct roof){.memory_bound = k->memory_bound}, 100 * k->roofline)));
	}
	return list;
}

static json_t *ms_of(int64_t ns)
{
	return json_num((double)ns / 1e6);
}

static json_t *spent_json(const struct tune_spent *s)
{
	const struct job_spent *j = &s->job;
	return json_pack("{so so so so so so so so so so so sI}", "start_ms", ms_of(s->start_ns),
			 "network_ms", ms_of(s->network_ns), "graph_ms", ms_of(s->graph_ns), "build_ms",
			 ms_of(j->build_ns), "wait_ms", ms_of(j->wait_ns), "check_ms", ms_of(j->check_ns),
			 "time_ms", ms_of(j->time_ns), "race_ms", ms_of(j->race_ns), "own_ms",
			 ms_of(j->own_ns), "builders_ms", ms_of(j->ahead_ns), "libraries_ms",
			 ms_of(j->offer_ns), "state_bytes", (json_int_t)j->state_bytes);
}

/* Those that competed, by name, version and build id. */
static json_t *libraries_json(const struct tune_report *r)
{
	json_t *list = json_array();
	for (int i = 0; i < r->nlibraries; i++)
		if (r->library[i].open)
			json_array_append_new(list, json_text(r->library[i].found.word));
	return list;
}

int tune_json(const struct tune_options *o, const struct tune_report *r, bool unkept, const char *held)
{
	json_t *j = json_pack(
	    "{so ss si si si si si si so so so so so sb si si so so so so so sb so so so so so so sb}",
	    "model", json_text(o->model), "rigor", tune_rigor_name(o->rigor), "task_count", r->tasks,
	    "trials", r->trials, "known_candidates", r->known, "earlier_trials", r->earlier_trials,
	    "stale_count", r->stale, "kept", r->kept, "budget_s", json_num(r->budget_s), "elapsed_s",
	    json_num(r->elapsed_s), "before_ms", ms_or_null(r->before_ms), "default_ms",
	    ms_or_null(r->default_ms), "after_ms", ms_or_null(r->after_ms), "interleaved", r->interleaved,
	    "reverted", r->reverted, "restored", r->restored, "speedup", json_num(tune_speedup(r)), "gain",
	    headline_json(&r->gain.faster, &r->machine), "gain_on_before",
	    headline_json(&r->before, &r->machine), "strategy",
	    r->strategy ? json_text(r->strategy) : json_null(), "cache",
	    unkept ? json_null() : json_text(r->cache), "stopped", r->stopped, "warning",
	    r->warning ? json_text(r->warning) : json_null(), "spent", spent_json(&r->spent), "kernels",
	    kernels_json(r), "held", held ? json_text(held) : json_null(), "early", early_json(r), "recipe",
	    calibrate_json(&r->recipe), "recipe_replaced", r->recipe_replaced);
	struct floats floats;
	floats_find(r, &floats);
	json_object_set_new(j, "recipe_former", calibrate_json(&r->former));
	json_object_set_new(j, "libraries", libraries_json(r));
	json_object_set_new(j, "library_tasks", json_integer(r->library_tasks));
	json_object_set_new(j, "recipe_stays", json_boolean(r->recipe_stays));
	json_object_set_new(j, "fp32_ms", ms_or_null(floats.ms));
	json_object_set_new(j, "slower_than_fp32", floats.ms > 0 ? json_boolean(floats.faster) : json_null());
	json_object_set_new(j, "quantize_s", json_num((double)o->quantised_ns / 1e9));
	json_object_set_new(j, "hints", json_integer(r->hints));
	json_object_set_new(j, "no_turn", json_integer(r->no_turn));
	json_object_set_new(j, "untried", json_integer(r->untried));
	processor_json(j, o->device, r);
	return json_out(j);
}
