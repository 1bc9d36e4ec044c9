/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/conf.h"
#include "agent/control/leash.h"
#include "agent/worker/builders.h"
#include "agent/tune/tune_model.h"
#include "agent/tune/tune_replay.h"
#include "kernels/library/library.h"
#include "platform/base/log.h"
#include "platform/base/near.h"
#include "platform/base/out.h"
#include "platform/base/sanitized.h"
#include "platform/machine/board.h"
#include "platform/machine/topo.h"
#include "platform/run/device_name.h"
#include "search/strategy.h"
#include "tools/hone/background.h"
#include "tools/hone/cached.h"
#include "tools/hone/daemon.h"
#include "tools/hone/drivers.h"
#include "tools/hone/early.h"
#include "tools/hone/floats.h"
#include "tools/hone/headline.h"
#include "tools/hone/calibrate.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/keep.h"
#include "tools/hone/picture.h"
#include "tools/hone/next.h"
#include "tools/hone/processor.h"
#include "tools/hone/guard.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include "tools/hone/tune_json.h"
#include "tools/hone/tune_table.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BOX_NS (20 * NS_PER_S)
#define PATIENT_NS (120 * NS_PER_S) /* default box with --rigor patient */

static void progress(void *ctx, const struct job_progress *p)
{
	(void)ctx;
	log_live("task %d of %d, %d trial%s, %.3f -> %.3f ms, %.1f s left: %s", p->task + 1, p->ntasks,
		 p->trials, plural_s(p->trials), p->before_ms, p->now_ms,
		 (double)(p->left_ns > 0 ? p->left_ns : 0) / 1e9, p->label);
}

/* A word that must be one of some names. */
struct one_of {
	struct near near; /* word NULL: the word was not given */
	char names[256];
	bool known;
};

static void one_of_begin(struct one_of *c, const char *word)
{
	*c = (struct one_of){.known = !word};
	near_begin(&c->near, word ? word : "");
}

static void one_of_add(struct one_of *c, const char *name)
{
	size_t n = strlen(c->names);
	c->known |= !strcmp(c->near.word, name);
	near_add(&c->near, name);
	snprintf(c->names + n, sizeof c->names - n, " %s", name);
}

static int one_of_check(const struct one_of *c, const char *what)
{
	if (c->known)
		return E_OK;
	if (c->near.best)
		return fail(E_USAGE, "%s '%s'; did you mean '%s'? Choose one of:%s", what, c->near.word,
			    c->near.best, c->names);
	return fail(E_USAGE, "%s '%s'; choose one of:%s", what, c->near.word, c->names);
}

/* DIR of "replay:DIR"; NULL: another device. */
static const char *replay_folder(const char *device)
{
	return !strncmp(device, "replay:", 7) && device[7] ? device + 7 : NULL;
}

static int check_options(const struct tune_options *o, const char *device, int64_t builders)
{
	if (builders < -1 || builders > MOST_BUILDERS)
		return fail(E_USAGE, "--builders must be 0 to %d", MOST_BUILDERS);
	if (!device_is_processor(device) && !device_is_named(device) && !replay_folder(device))
		return drivers_refuse(device);
	if (replay_folder(device) && o->rigor == RIGOR_CACHED)
		return fail(E_USAGE, "--rigor cached looks for this machine's kernels, not for a replay's");
	if (o->record && (!*o->record || replay_folder(device)))
		return fail(E_USAGE, "--record needs a folder, and cannot record a replay");
	if (o->budget_ns < NS_PER_S / 10)
		return fail(E_USAGE, "--budget must be at least 100ms");
	if (o->libraries && !device_is_processor(device))
		return fail(E_USAGE, "--library: libraries compute on the processor, not on %s", device);
	if (o->cache && !*o->cache)
		return fail(E_USAGE, "--cache: '' is not a folder's name");
	if (o->unkept && (o->careful || o->rigor == RIGOR_CACHED))
		return fail(E_USAGE,
			    "--no-cache keeps nothing: it does not go with --careful or --rigor cached");
	struct one_of word;
	one_of_begin(&word, o->strategy);
	for (int i = 0; strategy_table[i]; i++)
		one_of_add(&word, strategy_table[i]->name);
	int rc = one_of_check(&word, "--strategy: unknown strategy");
	if (rc >= 0 && o->cost && (!strcmp(o->cost, "mlp") || !strcmp(o->cost, "trees")))
		return fail(E_USAGE,
			    "--cost %s: the cost models that learnt are gone, because they did not shorten "
			    "boxes; leave --cost out, or use draft",
			    o->cost);
	one_of_begin(&word, o->cost);
	for (int i = 0; cost_table[i]; i++)
		one_of_add(&word, cost_table[i]->name);
	return rc < 0 ? rc : one_of_check(&word, "--cost: unknown cost model");
}

/* Takes a board's limit of memory where nobody has set one: workers inherit it. */
static void limit_memory(const struct board_file *b)
{
	struct rlimit data;
	if (!b->memory_bytes || SANITIZED_ADDRESS || getrlimit(RLIMIT_DATA, &data) < 0 ||
	    data.rlim_cur != RLIM_INFINITY)
		return;
	data.rlim_cur = (rlim_t)b->memory_bytes;
	if (setrlimit(RLIMIT_DATA, &data) < 0)
		log_more("the memory is not limited: %s", strerror(errno));
}

/* Reads --rigor, and sets the box that belongs to it. */
static int choose_rigor(const struct args *a, const struct board_file *board, struct tune_options *o)
{
	const char *name = arg_str(a, "rigor", NULL);
	int i = name ? RIGOR_CACHED : RIGOR_PATIENT;
	while (name && i >= 0 && strcmp(name, tune_rigor_name((enum rigor)i)))
		i--;
	if (i < 0)
		return fail(E_USAGE,
			    "--rigor %s is not possible; it takes cached, estimate, quick or patient", name);
	if (arg_flag(a, "resume") && arg_flag(a, "fresh"))
		return fail(E_USAGE, "--resume and --fresh exclude each other");
	o->rigor = (enum rigor)i;
	o->fresh = arg_flag(a, "fresh");
	int64_t usual_ns = board->box_ns ? board->box_ns : BOX_NS;
	o->budget_ns = arg_duration(a, "budget", name && i == RIGOR_PATIENT ? PATIENT_NS : usual_ns);
	return 0;
}

/* " (the processor with its own kernels)", or "with built-in kernels": what ran before a box for a device,
 * which had no kernel there; "": the device, or the same processor. */
static const char *before_words(const struct tune_options *o, const struct tune_report *r)
{
	int there = 0;
	for (int i = 0; i < r->nkernels; i++)
		there += r->kernel[i].before == FROM_CACHE || r->kernel[i].before == FROM_DEFAULT;
	return !o->device || !r->before_left ? ""
	       : there                       ? " (the processor with its own kernels)"
					     : " (the processor with built-in kernels)";
}

/* Where all kernels are at their default schedules, those and what runs now are the same kernels: one time. */
static void whole_network(const struct tune_options *o, const struct tune_report *r)
{
	char ms[24];
	struct buf b = {0};
	buf_puts(&b, "whole network: ");
	if (r->before_ms > 0)
		buf_printf(&b, "before%s %s, ", before_words(o, r), table_ms(r->before_ms, ms));
	if (r->default_ms > 0 && !(r->at_defaults && r->after_ms > 0))
		buf_printf(&b, "default schedules %s, ", table_ms(r->default_ms, ms));
	if (r->after_ms > 0)
		buf_printf(&b, "now %s", table_ms(r->after_ms, ms));
	else
		buf_printf(&b, "not measured%s: %s", r->before_ms > 0 ? " again" : "",
			   r->stopped ? "stopped" : "too little time was left");
	table_say("%s", buf_str(&b));
	buf_free(&b);
}

/* Whether a comparison that is shown says another thing than the medians above it. */
static bool medians_mislead(const struct tune_report *r)
{
	return (r->interleaved && faster_misled(&r->before, r->before_ms, r->after_ms)) ||
	       faster_misled(&r->gain.faster, r->default_ms, r->after_ms);
}

static void quantised(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	calibrate_words(&r->recipe);
	if (o->quantised_ns > 0)
		table_say("int8: quantising took %.1f s before the box, which does not count them",
			  (double)o->quantised_ns / 1e9);
	calibrate_former(a, r);
}

static void network(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	char than[128];
	quantised(a, o, r);
	whole_network(o, r);
	snprintf(than, sizeof than, "before%s%s", before_words(o, r),
		 r->interleaved ? "" : ", which was measured at another time");
	headline_print("  ", &r->before, than, &r->machine);
	gain_than(&r->gain, than);
	headline_print("  ", &r->gain.faster, than, &r->machine);
	struct floats floats;
	floats_find(r, &floats);
	floats_print(r, &floats);
	processor_print(o->device, r);
	struct buf joined = {0};
	tune_joined(r, &joined);
	if (joined.n)
		table_say("  %s", buf_str(&joined));
	if (r->at_defaults && !r->untunable && !strstr(buf_str(&joined), "default"))
		printf("  every kernel is at its default schedule\n");
	buf_free(&joined);
	headline_medians(medians_mislead(r));
	if (r->nlibraries)
		table_say("libraries run %d of %d tasks; `hone explain MODEL --placement` shows what each "
			  "one needs",
			  r->library_tasks, r->tasks);
	if (r->reverted)
		table_say("%d task%s went back to the default schedule, which is faster inside the network",
			  r->reverted, plural_s(r->reverted));
	if (r->restored)
		table_say("%d task%s kept the kernel%s from before this box, which %s faster inside the "
			  "network",
			  r->restored, plural_s(r->restored), plural_s(r->restored),
			  r->restored == 1 ? "is" : "are");
	if (r->late && r->trials)
		table_say("the box ended before its last step did; what was found in its last second may be "
			  "lost");
}

/* True if the box was over before it tried any kernel; else there was nothing to try. */
static bool ended_first(const struct tune_report *r)
{
	return !r->untunable && !r->trials && !r->stopped && r->elapsed_s > r->budget_s / 2;
}

/* True if the box ended before it could try a kernel, though there are some to be tried, and the cache had none
 * of this model. What else it measured does not matter. */
static bool tried_nothing(const struct tune_report *r)
{
	return ended_first(r) && !r->cached;
}

/* The default box, or twice the one that was too short. */
static void next_longer(const struct args *a, const struct tune_options *o)
{
	int64_t ns = 2 * o->budget_ns > BOX_NS ? 2 * o->budget_ns : BOX_NS;
	char more[48];
	snprintf(more, sizeof more, " --budget %" PRId64 "s%s", (ns + NS_PER_S - 1) / NS_PER_S,
		 o->unkept ? " --no-cache" : "");
	next_hone(a, "tune", a->pos[0], more);
}

static void next_step(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	char threads[32] = "";
	if (arg_given(a, "cpus") && !arg_given(a, "threads")) /* other commands have no --cpus */
		snprintf(threads, sizeof threads, " --threads %d", o->threads);
	bool in_vain = !r->kept && !r->untunable && !o->unkept && !r->warning;
	next_flush();
	if (in_vain && r->late)
		log_info("the budget ended during the last step, whose kernels may have been kept; give a longer "
			 "--budget");
	else if (in_vain)
		log_info("no new kernel was kept%s", r->stopped ? "" : "; a longer --budget may find more");
	if (o->unkept && keep_can(o->cache))
		next_hone(a, "tune", a->pos[0], "");
	else if (o->unkept || r->warning)
		keep_next(a, a->pos[0], "");
	else if (in_vain && r->stopped)
		next_hone(a, "tune", a->pos[0], "");
	else if (processor_is_faster(r))
		processor_next(a, r);
	else if (in_vain)
		next_longer(a, o);
	else
		next_hone(a, "bench", a->pos[0], threads);
}

/* A box in which honed lent no processors; `why` says the reason. */
static bool was_held(const struct tune_report *r, char *why, size_t n)
{
	return ended_first(r) && r->leashed && daemon_is_closed(NULL, false, why, n);
}

static void report_held(const struct tune_options *o, const struct tune_report *r, const char *why)
{
	table_say("%s: nothing was tuned in %.1f s: honed lent no processors (%s)", o->model, r->elapsed_s,
		  why);
	if (r->cached)
		printf("the kernels of the cache stay as they are\n");
	next_say("hone status");
}

static void say_turns(const struct tune_options *o, const struct tune_report *r)
{
	struct buf b = {0};
	early_turns(r, &b);
	table_say("%s%s", buf_str(&b),
		  o->unkept || r->warning || r->stopped ? "" : "; the next box begins with them");
	buf_free(&b);
}

static void report(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	const char *model = o->model;
	if (tried_nothing(r)) {
		table_say("%s on %s: the box of %.1f s ended before any kernel was tried%s; no kernel was kept",
			  model, r->target, r->budget_s,
			  r->tasks ? "" : " and before the cache was searched");
		if (r->before_ms > 0 || r->after_ms > 0)
			printf("whole network: %.3f ms\n", r->after_ms > 0 ? r->after_ms : r->before_ms);
		else
			printf("whole network: not measured: too little time was left\n");
		next_longer(a, o);
		return;
	}
	if (r->stopped && !r->tasks && !r->untunable) {
		table_say(
		    "%s: stopped after %.1f s, before its tasks were known: nothing was tuned or measured",
		    model, r->elapsed_s);
		next_step(a, o, r);
		return;
	}
	tune_table(r, o->device, a->color);
	char known[96] = "";
	if (r->known)
		snprintf(known, sizeof known, " (%d schedule%s known from %d earlier trial%s)", r->known,
			 plural_s(r->known), r->earlier_trials, plural_s(r->earlier_trials));
	table_say("%s on %s: %d task%s, %d trial%s%s in %.1f s of %.1f s, rigor %s%s", model, r->target,
		  r->tasks, plural_s(r->tasks), r->trials, plural_s(r->trials), known, r->elapsed_s,
		  r->budget_s, tune_rigor_name(o->rigor), r->stopped ? " (stopped)" : "");
	early_print(r);
	if (r->no_turn && !ended_first(r))
		say_turns(o, r);
	if (r->stale)
		printf("%d stale kernel%s of the cache timed again\n", r->stale, plural_s(r->stale));
	if (r->hints)
		printf("%d task%s began with a hint\n", r->hints, plural_s(r->hints));
	if (ended_first(r))
		table_say("nothing was tuned: the box ended before any kernel was tried");
	if (r->untunable)
		table_say(UNTUNABLE);
	network(a, o, r);
	if (o->unkept)
		printf("nothing was kept (--no-cache)\n");
	else if (r->warning)
		table_say("what was found is lost: %s", r->warning);
	next_step(a, o, r);
}

static void report_replay(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	tune_table(r, NULL, a->color);
	quantised(a, o, r);
	table_say("%s on %s: %d task%s, %d trial%s in %.1f s of %.1f s of simulated time", o->model,
		  r->target, r->tasks, plural_s(r->tasks), r->trials, plural_s(r->trials), r->elapsed_s,
		  r->budget_s);
	early_print(r);
	double ratio = tune_speedup(r);
	table_say("these tasks: default schedules %.3f ms, now %.3f ms (%.2fx %s than the default)",
		  r->default_ms, r->after_ms, ratio >= 1 ? ratio : 1 / ratio,
		  ratio >= 1 ? "faster" : "slower");
	next_flush();
	log_info("another --strategy, --cost or --seed may find more");
}

/* Returns the exit status. */
static int answer(const struct args *a, const struct tune_options *o, const struct tune_report *r)
{
	char why[DAEMON_CLOSED];
	bool held = was_held(r, why, sizeof why), lost = r->warning && !o->unkept;
	/* honed gives its own job another slice, unless it was held */
	bool empty = tried_nothing(r) && (held || !leash_is_child());
	if (a->json) {
		int rc = tune_json(o, r, o->unkept, held ? why : NULL);
		return rc < 0 ? rc : lost || empty;
	}
	if (arg_given(a, "data") && (!r->recipe.layers || o->unkept || r->warning))
		next_need_examples();
	if (held)
		report_held(o, r, why);
	else
		report(a, o, r);
	return lost || empty;
}

/* What the answer of a job that cannot be cancelled needs. */
struct last_words {
	const struct args *a;
	const struct tune_options *o;
};

/* Ends the process; the memory is not given back piece by piece. */
static void answer_late(void *ctx, int rc, const struct tune_report *r)
{
	const struct last_words *w = ctx;
	log_live(NULL);
	if (rc >= 0)
		rc = answer(w->a, w->o, r);
	if (rc < 0)
		rc = cmd_failed(w->a, rc, 1);
	rc = out_end(rc ? rc : interrupt_status(0));
	guard_ends(rc);
	_exit(rc);
}

static int tune(const struct args *a, struct tune_options *o, struct arena *arena)
{
	struct tune_report r = {0};
	struct last_words words = {a, o};
	interrupt_catch(); /* everything is saved */
	const char *replay = replay_folder(arg_str(a, "device", "cpu"));
	o->ctx = &words;
	o->late = answer_late;
	int rc = replay ? tune_replay(o, replay, arena, &r) : tune_model(o, arena, &r);
	log_live(NULL);
	if (rc >= 0 && replay && !a->json)
		report_replay(a, o, &r);
	else if (rc >= 0)
		rc = answer(a, o, &r);
	return interrupt_status(rc);
}

/* Reports what the cache holds. Exit status 1 if something is missing. */
static int look(const struct args *a, struct tune_options *o, struct arena *arena)
{
	struct tune_report r;
	const char *why;
	int missing, rc = cached_report(a, arena, &r, &missing, &why);
	if (rc >= 0 && a->json)
		rc = tune_json(o, &r, false, NULL);
	if (rc >= 0 && !a->json) {
		tune_table_untimed(&r, a->color);
		int there = 0;
		for (int i = 0; i < r.nkernels; i++)
			there += r.kernel[i].after == FROM_CACHE || r.kernel[i].after == FROM_DEFAULT;
		int others = r.nkernels - there - missing;
		table_say("%s on %s: %d of %d kernel%s in cache %s, rigor cached: nothing was measured",
			  o->model, r.target, there, there + missing, plural_s(there + missing), r.cache);
		if (others)
			table_say("not counted: %d operator%s that run%s in portable C and cannot be tuned",
				  others, plural_s(others), others == 1 ? "s" : "");
		if (r.gain.faster.rounds)
			headline_gain("tuning: ", &r.gain);
	}
	return rc >= 0 && missing ? fail(E_NOTFOUND, "%s", why) : rc < 0 ? rc : 0;
}

static int no_such_cpu(const char *list)
{
	struct buf have = {0};
	cpu_set_t set; /* it asks for all, and gets those that it may use */
	memset(&set, 0xff, sizeof set);
	if (sched_setaffinity(0, sizeof set, &set) >= 0 && sched_getaffinity(0, sizeof set, &set) >= 0)
		topo_list_text(&set, &have);
	int rc = fail(E_USAGE, "--cpus %s: this process may use the processors %s", list, buf_str(&have));
	buf_free(&have);
	return rc;
}

/* Refuses processors outside the cluster to which --device has bound this process: kernels would be tuned for
 * and kept under another one. */
static int check_in_cluster(const char *list, const cpu_set_t *set, const char *device)
{
	struct buf has = {0};
	cpu_set_t own, both;
	topo_allowed(&own);
	CPU_AND(&both, &own, set);
	if (!topo_cluster_of(device) || CPU_EQUAL(&both, set))
		return E_OK;
	topo_list_text(&own, &has);
	int rc = fail(E_USAGE, "--cpus %s: of --device %s this process may use the processors %s", list, device,
		      buf_str(&has));
	buf_free(&has);
	return rc;
}

/* Binds this process and its children to the processors of a list such as "0,2-3". */
static int keep_to_cpus(const char *list, const char *device)
{
	cpu_set_t set;
	if (!list)
		return 0;
	if (!topo_list(list, &set))
		return fail(E_USAGE, "--cpus %s is not possible; it takes numbers and ranges, as in 0,2-3",
			    list);
	int rc = check_in_cluster(list, &set, device);
	if (rc < 0)
		return rc;
	cpu_set_t got; /* without the processors that do not exist or are not allowed */
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		return errno == EINVAL ? no_such_cpu(list)
				       : fail(E_USAGE, "--cpus %s: %s", list, strerror(errno));
	return sched_getaffinity(0, sizeof got, &got) >= 0 && CPU_EQUAL(&got, &set) ? 0 : no_such_cpu(list);
}

/* A replay keeps its results only if a cache is given, but reads the recipe of level int8 from the usual one.
 */
static int choose_cache(const struct args *a, struct tune_options *o, char *dir, size_t n)
{
	int rc = o->cache && !o->unkept ? cache_refuse_other(o->cache) : 0;
	if (rc < 0)
		return rc;
	if (replay_folder(arg_str(a, "device", "cpu")) && o->rigor != RIGOR_CACHED) {
		o->recipes = model_cache_default(dir, n) >= 0 ? dir : NULL;
		return 0;
	}
	if (o->cache || o->rigor == RIGOR_CACHED)
		return 0;
	o->cache = dir;
	rc = model_cache_dir(a, dir, n);
	if (rc < 0 && o->unkept)
		rc = snprintf(dir, n, KEEP_NOWHERE);
	return rc;
}

/* The box begins after the wait. honed writes its own folder for this process, so nothing waits for honed. */
static int wait_for_cache(const struct args *a, struct tune_options *o)
{
	o->lock_fd = -1;
	if (!o->cache || !arg_given(a, "wait") || model_cache_is_daemons(o->cache))
		return 0;
	int64_t start_ns = clock_now(&clock_real);
	int rc = o->unkept ? E_OK : model_cache_wait(a, o->cache, &o->lock_fd);
	o->waited_ns = clock_now(&clock_real) - start_ns;
	return rc;
}

/* Examples are for level int8, which must be given: it changes the model's answers. */
static int read_level(const struct args *a, struct tune_options *o)
{
	bool given = arg_given(a, "data");
	int rc = model_level(a, &o->level);
	if (rc < 0)
		return rc;
	const char *of_data = arg_given(a, "error")      ? "error"
			      : arg_given(a, "examples") ? "examples"
							 : picture_opts_given(a);
	if (of_data && !given)
		return fail(E_USAGE, "--%s needs examples of inputs: --data DIR, with --level int8", of_data);
	if (given && o->level != LEVEL_INT8)
		return arg_given(a, "level") || arg_given(a, "exact")
			   ? fail(E_USAGE, "--data is for --level int8, not for %s",
				  level_name((int)o->level))
			   : fail(E_USAGE, "--data goes with --level int8; add it if 8-bit integers may "
					   "change the model's answers a little");
	if (given && o->rigor == RIGOR_CACHED)
		return fail(E_USAGE, "--data does not go with --rigor cached");
	return 0;
}

/* The box begins after the examples have been run. */
static int calibrate(const struct args *a, const struct target *host, struct tune_options *o,
		     struct arena *arena, struct buf *recipe)
{
	if (!arg_given(a, "data"))
		return 0;
	int64_t start_ns = clock_now(&clock_real);
	interrupt_catch();
	int rc = calibrate_recipe(a, host, o->threads, arena, recipe);
	o->recipe = recipe;
	o->said_notes = true;
	int64_t took_ns = clock_now(&clock_real) - start_ns;
	o->waited_ns += took_ns;
	/* A replay prints the same each time. */
	o->quantised_ns = replay_folder(arg_str(a, "device", "cpu")) ? 0 : took_ns;
	return rc < 0 ? interrupt_status(rc) : rc;
}

/* Says so where a level of 16-bit floats changes nothing. */
static void say_idle_level(const struct target *host, enum level l)
{
	if (level_f16(l) && !target_converts_f16(host))
		log_info("level %s: %s has no instructions for 16-bit floats, so all kernels stay at 32 bits",
			 level_name((int)l), host->isa);
}

/* How a user gives sizes, for errors. honed gives --shape to a job both for the lines of its configuration
 * and for the options of hone tune --background. */
static const char *shape_option(const struct args *a)
{
	return !leash_is_child()       ? NULL
	       : arg_given(a, "shape") ? "with --shape, or " SHAPE_OF_CONF
				       : SHAPE_OF_CONF;
}

static int run_here(const struct args *a)
{
	struct target host;
	struct topo topo;
	struct arena arena = {0};
	char dir[PATH_MAX], cluster[TOPO_NAME + 8];
	struct tune_options o = {
	    .model = a->pos[0],
	    .shape_option = shape_option(a),
	    .cache = arg_str(a, "cache", NULL),
	    .record = arg_str(a, "record", NULL),
	    .strategy = arg_str(a, "strategy", NULL),
	    .libraries = arg_str(a, "library", NULL),
	    .device = model_device(a),
	    .cost = arg_str(a, "cost", NULL),
	    .builders = (int)arg_int(a, "builders", -1),
	    .careful = arg_flag(a, "careful"),
	    .unkept = arg_flag(a, "no-cache"),
	    .stop = &interrupt_stop,
	    .progress = progress,
	};
	struct buf recipe = {0};
	struct board_file board;
	if (!board_host(&board))
		board = (struct board_file){.box_ns = 0};
	limit_memory(&board);
	int rc = keep_to_cpus(arg_str(a, "cpus", NULL), arg_str(a, "device", "cpu"));
	if (rc >= 0)
		rc = choose_rigor(a, &board, &o);
	if (rc >= 0)
		rc = read_level(a, &o);
	if (rc >= 0)
		rc = model_cache_limit(a, &o.cache_bytes);
	if (rc >= 0)
		rc = check_options(&o, arg_str(a, "device", "cpu"), arg_int(a, "builders", -1));
	if (rc >= 0)
		rc = choose_cache(a, &o, dir, sizeof dir);
	if (rc >= 0)
		rc = arg_seed(a, &o.seed);
	if (rc >= 0)
		rc = o.nbinds = model_binds(a, &arena, &o.binds);
	if (rc >= 0)
		rc = target_host(&host);
	if (rc >= 0)
		rc = o.threads = model_threads(a, &host);
	if (rc >= 0 && !o.device)
		say_idle_level(&host, o.level);
	if (rc >= 0 && o.device) { /* a job of honed has one processor beside the device */
		o.host_threads = leash_is_child() ? 1 : o.threads;
		o.threads = 1;
	}
	topo_device(cluster);
	if (rc >= 0 && !o.device && strcmp(cluster, "cpu") != 0)
		o.cluster = cluster;
	if (rc >= 0 && !o.device && topo_read(&topo, NULL) >= 0 && o.threads <= topo.cores)
		o.cpus = topo.core_cpu;
	if (rc >= 0)
		rc = wait_for_cache(a, &o);
	if (rc >= 0)
		rc = calibrate(a, &host, &o, &arena, &recipe);
	if (rc >= 0)
		rc = o.rigor == RIGOR_CACHED ? look(a, &o, &arena) : tune(a, &o, &arena);
	buf_free(&recipe);
	arena_free(&arena);
	return rc;
}

static int run_tune(const struct args *a)
{
	int rc = background_asked(a);
	return rc < 0 ? rc : rc ? background_tune(a) : guard_run(a, run_here, GUARD_FAILS);
}

static void strategies(struct buf *out)
{
	for (int i = 0; strategy_table[i]; i++)
		buf_printf(out, "%s ", strategy_table[i]->name);
}

static void cost_models(struct buf *out)
{
	for (int i = 0; cost_table[i]; i++)
		buf_printf(out, "%s ", cost_table[i]->name);
}

static const struct opt opts[] = {
    {"budget", OPT_DURATION, "20s",
     "time box, counted from the start of the process, without what --wait waits and what --data takes to "
     "quantise (default 20s, or what the board's file says; hone doctor names it)",
     .also = "time timeout"},
    {"rigor", OPT_STR, "LEVEL",
     "cached: shows what the cache holds, measures nothing; estimate: default schedules for tasks that are "
     "not in the cache, and stale kernels are compiled and timed again; quick: ends when gains dry up; "
     "patient: uses the whole box, unless each task comes within 3 % of its roofline or has no schedule left "
     "to try (the default; given by name, a box of 2m)",
     .values = "cached estimate quick patient"},
    {"resume", OPT_FLAG, NULL, "resume from the trials of earlier boxes, logged in the cache (default)"},
    {"fresh", OPT_FLAG, NULL, "search as if nothing had been tried before"},
    {"device", OPT_STR, "NAME",
     "device to tune for: cpu (default: its fastest cluster), cpu:CLUSTER, opencl:N or cuda:N as hone "
     "devices "
     "lists it, or replay:DIR, the "
     "landscapes of "
     "a folder (--record): only the "
     "search, on a virtual clock, the same for the same seed; nothing is kept unless --cache is given; a "
     "recipe "
     "of level int8 is read from there, else from the default cache",
     .words = model_devices},
    {"record", OPT_STR, "DIR", "also write all measurements to this folder, a text file for each task"},
    {"library", OPT_STR, "NAMES",
     "libraries whose kernels compete with hone's, layer by layer: openblas, onednn, xnnpack, the absolute "
     "path of one of your own (hone_backend.h), several with commas between, or all that are installed. What "
     "then runs the model needs the same libraries; where one is gone or another one, hone's own kernel "
     "runs",
     .values = LIBRARY_ALL " " LIBRARY_NAMES},
    {"strategy", OPT_STR, "NAME",
     "how candidates are proposed: anneal, auto (default), cluster, evolve, genetic, gradient or random",
     .words = strategies},
    {"cost", OPT_STR, "NAME",
     "cost model that predicts times of candidates: draft (default), or none, which knows nothing",
     .words = cost_models},
    {"seed", OPT_INT, "N", "seed of the search (default 1)"},
    {"builders", OPT_INT, "N",
     "cores that build while others measure (default: what --threads leaves, at most 2)"},
    {"cpus", OPT_STR, "LIST", "processors to use, as in 0,2-3 (default: all that the process may use)"},
    OPT_LEVEL,
    OPT_DATA,
    OPT_EXAMPLES,
    {"error", OPT_STR, "E",
     "with --data: quantise only so many layers that the error of the outputs is at most this, as in 1e-2"},
    OPT_PICTURE,
    {"careful", OPT_FLAG, NULL,
     "for a board that a kernel can crash: each kernel is marked on flash before its first run, and one that "
     "did not return is never run again"},
    {"no-cache", OPT_FLAG, NULL, "search and show, but keep nothing: the cache is only read"},
    OPT_BACKGROUND,
    OPT_NOW,
    OPT_THREADS,
    OPT_CACHE,
    OPT_CACHE_LIMIT,
    OPT_WAIT,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_tune = {
    .usage = "MODEL [--budget 20s] [--rigor LEVEL] [--threads N] [--device cpu[:CLUSTER]|opencl:N|cuda:N] "
	     "[--cache DIR] "
	     "[--strategy NAME] [--seed N] "
	     "[--level LEVEL] [--data DIR [--error E]]",
    .summary = "find fast kernels for a model within a time box",
    .details =
	"The untuned schedule of every task is measured first, and only a kernel that wins a race against "
	"it\n"
	"takes its place.\n"
	"Results and the log of trials are written to the cache at once: an interrupt (Ctrl-C) ends the box\n"
	"and loses nothing, the next box resumes from there, and hone explain shows what was tried. With\n"
	"--rigor cached the exit status is 1 if kernels are missing. A cache folder that cannot be written, "
	"whether\n"
	"named by --cache or the default one, is an error before anything is searched; no other folder takes "
	"its\n"
	"place. With --no-cache nothing is kept.\n"
	"The box ends on time, also while it reads or runs a large network. A box that is too short to read\n"
	"the model changes nothing, says which --budget would do, and exits with status 1. The "
	"status\n"
	"is also 1 if the box ended before it tried any kernel, whatever it measured, and the cache has none\n"
	"of this model, or the box was too short to look; where earlier boxes kept kernels, such a box is a\n"
	"success. A time marked ~\n"
	"(\"alone_us\" in JSON) is that of the kernel alone in the search: the whole network could not be\n"
	"measured again.\n\n"
	"Level int8 quantises a model of floats, as hone quantize does, and keeps how to do so in the "
	"cache,\n"
	"not another model: examples of inputs (--data) are needed once for a model, before the box. With\n"
	"--error, the layers that save the least time for the error that they make stay floats. The other\n"
	"commands, honed and libhone then take --level int8 alone.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_tune,
    .name = "tune",
};
