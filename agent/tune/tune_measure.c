/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/lookup.h"
#include "agent/cache/revert.h"
#include "agent/run/plan_device.h"
#include "agent/tune/tune_parts.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	AFTER_RUNS = 12,
	RACE_RUNS = 20, /* runs of the whole networks in a race, kernels timed */
	RACE_LEAST = 7, /* fewer runs cannot tell tuned kernels from default ones */
	FIRST_TRIES = 10,
	POOR = 6,            /* a default schedule takes at most so many times its roofline */
	BEFORE_PART = 25,    /* part of the box in which the network runs as it is: 1/25 */
	FALLBACK_PART = 100, /* part if none of its kernels are worth comparing with: 1/100 */
	PROCESSOR_PART = 20, /* part in which the processor is compared with a device: 1/20 */
	AGREE_PART = 8,      /* part of what is left in which a slow first time is measured again: 1/8 */
	SPARE_PART = 50,     /* part by which a search may end late without taking that time: 1/50 */
	FIRST_PART = 2,      /* part of what is left of the box after which its first run is cut off: 1/2 */
};

/* A network that is slower than with default kernels by less than this stays. */
#define LOSS 0.01
#define MOST_SPARE_NS (400 * NS_PER_MS) /* of SPARE_PART */
#define SAVING_NS (60 * NS_PER_MS) /* time to make the search's results durable, even on a slow disk */

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Opens the network with the kernels that records of `kind` give now. */
static int open_net(struct session *s, enum rec_kind kind, const struct net *beside, struct net *n)
{
	struct kernel_source src;
	int rc = cache_source(s->store.cache, &s->target, s->o->threads, s->o->level, kind, &src);
	if (rc < 0)
		return rc;
	src.device = s->device;
	rc = net_open(n, s->model.graph, s->model.steps, &s->target, &src, s->pool, s->clock, beside);
	cache_source_free(&src);
	return rc;
}

/* Finds the kernels that were the best before the box. */
static int find_before(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		       enum kernel_origin *origin)
{
	const struct bests *b = ctx;
	struct key task = hash_text(text);
	(void)t;
	*origin = FROM_CACHE;
	for (int i = 0; i < b->n; i++)
		if (key_equal(b->rec[i].task, task))
			return out->own ? E_NOTFOUND : code_parse(b->code[i].p, b->code[i].n, a, out);
	return E_NOTFOUND;
}

/* Opens the network before once more. A worker had the device meanwhile, so that its plan was closed. */
static int open_again(struct session *s)
{
	struct net n, *before = &s->start.net;
	const struct kernel_source src = {.ctx = &s->start.best, .find = find_before, .device = s->device};
	if (!s->start.again || before->plan)
		return E_OK;
	int rc = net_open(&n, s->model.graph, s->start.steps, &s->target, &src, s->pool, s->clock, NULL);
	if (rc < 0)
		return rc;
	if (n.nkernels != before->nkernels) { /* the driver takes other kernels now */
		net_close(&n);
		return E_OK;
	}
	net_close(before);
	*before = n;
	plan_deadline(before->plan, s->clock, tune_runs_end_ns(s));
	return E_OK;
}

/* Upper estimate of a run with tuned kernels: a kernel's present time, or, for a fallback, at most that of a
 * poor schedule. */
static int64_t tuned_run_ns(const struct net *n)
{
	const struct plan_kernel *k;
	int64_t sum_ns = 0;
	plan_kernels(n->plan, &k);
	for (int i = 0; i < n->nkernels; i++) {
		int64_t poor_ns = (int64_t)(POOR * k[i].roofline_ns);
		bool tuned = k[i].origin == FROM_CACHE || poor_ns <= 0;
		bool cut = n->kernel_ns[i] <= 0; /* the first run did not come to it */
		sum_ns += cut ? poor_ns : tuned ? n->kernel_ns[i] : least(n->kernel_ns[i], poor_ns);
	}
	return sum_ns;
}

static bool from_cache(const struct net *n)
{
	const struct plan_kernel *k;
	bool cached = false;
	plan_kernels(n->plan, &k);
	for (int i = 0; i < n->nkernels; i++)
		cached |= k[i].origin == FROM_CACHE || k[i].origin == FROM_DEFAULT;
	return cached;
}

/* If kernels came from the cache, the network before may be as fast as the one after, and a machine that is
 * busier at the end would look like a loss: measure it again then. A network that is much slower does not
 * have this problem, and its memory is needed. */
static bool worth_measuring_again(const struct net *n)
{
	return from_cache(n) && net_median_ns(n) > 0 && net_median_ns(n) <= 4 * tuned_run_ns(n);
}

/* Reserves time at the end of the box: two plans are built and raced, one is built again, then they run in
 * turns (with the network before, if again_ns > 0): AFTER_RUNS times each, or as often as fits in a 25th of
 * the box, but at least once. If that takes more than an eighth of the box, there is no race. If it still
 * takes more than a sixth of what is left, only the best kernels are measured, in one run; that is reserved
 * even if it takes half of what is left, and not for missing kernels either.
 *
 * The runs of a tiny network take nothing, so what is reserved for it would be no longer than a busy machine
 * may hold up the last trial: where there is room, a part of the box is added. */
void tune_reserve(struct box_times *t, const struct box_costs *c)
{
	int64_t round_ns = 2 * c->run_ns + c->again_ns;
	int64_t some_ns = least(AFTER_RUNS * round_ns, c->budget_ns / 25);
	t->race_ns = least(most(20 * NS_PER_MS, RACE_RUNS * 2 * c->run_ns), c->budget_ns / 25);
	if (t->race_ns < RACE_LEAST * 2 * c->run_ns)
		t->race_ns = 0;
	int64_t want_ns =
	    100 * NS_PER_MS + c->closing_ns + 4 * c->build_ns + most(some_ns, 2 * round_ns) + t->race_ns;
	int64_t most_ns = most(c->budget_ns / 8, 100 * NS_PER_MS);
	t->round_ns = round_ns + c->run_ns + c->again_ns; /* the kernels are timed too */
	t->least_ns = 2 * c->build_ns + t->round_ns + c->closing_ns;
	t->run_ns = 2 * c->run_ns;
	t->alone_ns = c->build_ns + c->build_ns / 4 + t->run_ns + c->closing_ns;
	int64_t alone_ns = t->alone_ns <= c->left_ns / 2 ? t->alone_ns : c->closing_ns;
	t->missing_by_ns = t->end_ns - alone_ns - SAVING_NS;
	int64_t spare_ns = least(c->budget_ns / SPARE_PART, MOST_SPARE_NS);
	t->reserve_ns = want_ns <= most_ns ? least(want_ns + spare_ns, most_ns)
			: t->least_ns + SAVING_NS <= most(most_ns, c->left_ns / 6) ? t->least_ns + SAVING_NS
										   : alone_ns + SAVING_NS;
}

static void reserve_end(struct session *s, const struct net *n, int64_t again_ns)
{
	const struct box_costs c = {
	    .budget_ns = s->o->budget_ns,
	    .left_ns = s->times.end_ns - clock_now(s->clock),
	    .build_ns = most(n->build_ns, s->start.costs.build_ns),
	    .run_ns = most(tuned_run_ns(n), s->start.costs.run_ns),
	    .again_ns = again_ns,
	    .closing_ns = most(tune_closing_ns(s, 2 * plan_bytes(n->plan)), s->start.costs.closing_ns),
	};
	tune_reserve(&s->times, &c);
	if (s->sole) /* its plans are closed while the worker has it */
		s->times.reserve_ns += s->device_ns + (again_ns ? n->build_ns : 0);
	if (!s->o->device)
		return;
	s->times.processor_ns = c.budget_ns / PROCESSOR_PART;
	s->times.reserve_ns += s->times.processor_ns;
}

static int run_before(void *ctx)
{
	struct session *s = ctx;
	return net_run(&s->start.net, s->clock);
}

static int run_before_kernels(void *ctx)
{
	struct session *s = ctx;
	int64_t start_ns = clock_now(s->clock);
	int rc = net_run_kernels(&s->start.net, s->clock);
	s->start.ran_ns = clock_now(s->clock) - start_ns;
	return rc;
}

/* > 0: the run counts. */
static int quietly(struct session *s, int (*fn)(void *ctx))
{
	struct net *const net[] = {&s->start.net};
	return net_quietly(s->store.leash, s->times.end_ns, net, 1, fn, s);
}

/* The first runs of the network as it is. 1: a run counts. 0: none does, as all were tainted, or the first
 * one took more than its share of the box and was cut off; it gives rough times of kernels to plan the box
 * with. */
static int run_first(struct session *s)
{
	struct net *n = &s->start.net;
	int64_t from_ns = clock_now(s->clock);
	plan_deadline(n->plan, s->clock, from_ns + tune_left_ns(s) / FIRST_PART);
	int rc = 0;
	for (int i = 0; rc == 0 && i < FIRST_TRIES; i++)
		rc = quietly(s, run_before_kernels);
	if (rc == 0)
		rc = run_before_kernels(s) < 0 ? E_TIMEOUT : 0;
	if (rc != E_TIMEOUT)
		return rc;
	log_more("the first run of the network was cut off after %.0f ms",
		 (double)(clock_now(s->clock) - from_ns) / 1e6);
	return until_check();
}

/* Runs the network until limit_ns; then goes on until two runs agree, if a further run of median length ends
 * before agree_ns. The first run is slow where others use the machine, or where the model's file is not in
 * memory yet, and a gain is told of the time before for as long as the model is tuned. A run that is cut off
 * is left out. */
static int run_more(struct session *s, int64_t limit_ns, int64_t agree_ns)
{
	struct net *n = &s->start.net;
	int rc = E_OK;
	for (int i = 0; rc >= 0 && i < 20 && !tune_stopped(s); i++) {
		int64_t now_ns = clock_now(s->clock);
		if (now_ns >= limit_ns && (net_agrees(n) || now_ns + net_median_ns(n) >= agree_ns))
			break;
		rc = quietly(s, run_before);
		if (rc >= 0 && i > 0 && clock_now(s->clock) < limit_ns)
			rc = quietly(s, run_before_kernels);
	}
	return rc == E_TIMEOUT ? E_OK : rc;
}

/* Keeps what the report says of the network before, whose plan may be closed then. */
static struct kept_kernels keep_kernels(const struct session *s)
{
	const struct plan_kernel *k;
	int n = plan_kernels(s->start.net.plan, &k);
	struct kept_kernels kept = {.n = n,
				    .origin = ARENA_ARRAY(s->a, enum kernel_origin, n + 1),
				    .at_default = ARENA_ARRAY(s->a, bool, n + 1),
				    .why = ARENA_ARRAY(s->a, enum kernel_why, n + 1),
				    .name = ARENA_ARRAY(s->a, const char *, n + 1),
				    .label = ARENA_ARRAY(s->a, const char *, n + 1)};
	for (int i = 0; i < n; i++) {
		kept.origin[i] = k[i].origin;
		kept.at_default[i] = k[i].at_default;
		kept.why[i] = k[i].why;
		kept.name[i] = arena_strdup(s->a, k[i].name);
		kept.label[i] = arena_strdup(s->a, k[i].label);
	}
	return kept;
}

/* Opens the processor's own plan instead of the device's, and keeps what planning the box needs of that. */
static int leave_device(struct session *s)
{
	struct net *n = &s->start.net;
	struct target host;
	struct steps *steps;
	s->start.left = s->report->before_left = true;
	s->start.costs = (struct box_costs){.build_ns = n->build_ns,
					    .run_ns = tuned_run_ns(n),
					    .closing_ns = tune_closing_ns(s, 2 * plan_bytes(n->plan))};
	net_close(n);
	*n = (struct net){0};
	int rc = target_host(&host);
	if (rc >= 0)
		rc = tune_processor_open(s, &host, &steps, n);
	if (rc < 0)
		return rc;
	s->start.steps = steps;
	s->start.ran = keep_kernels(s);
	return E_OK;
}

/* Opens the network as hone run would. */
static int open_before(struct session *s)
{
	s->start.steps = s->model.steps;
	int rc = open_net(s, REC_BEST, NULL, &s->start.net);
	if (rc < 0)
		return rc;
	s->start.there = s->start.ran = keep_kernels(s);
	return s->device && !plan_device_use(s->start.net.plan).steps ? leave_device(s) : E_OK;
}

static const struct key *task_keys(const struct session *s)
{
	struct key *task = ARENA_ARRAY(s->a, struct key, s->ntasks + 1);
	for (int i = 0; i < s->ntasks; i++)
		task[i] = s->task[i].key;
	return task;
}

/* Runs the network at least once with every kernel timed, which warms up. A long run counts as a sample too,
 * but waiting for its lease does not. This run also estimates how long measuring at the end takes, so it is
 * used for that even if all runs were tainted. */
int tune_measure_before(struct session *s)
{
	struct net *n = &s->start.net;
	tune_limit(s);
	int rc = open_before(s);
	if (rc < 0)
		return rc;
	int64_t part_ns = s->o->budget_ns / (from_cache(n) ? BEFORE_PART : FALLBACK_PART);
	bests_keep(s->store.cache, &s->target, s->o->threads, s->o->level, s->ntasks, task_keys(s), s->a,
		   &s->start.best);
	tune_limit(s);
	int counts = rc = run_first(s);
	if (counts > 0 && s->start.ran_ns > part_ns)
		net_add(n, s->start.ran_ns);
	if (counts > 0)
		rc = run_more(s, clock_now(s->clock) + part_ns - s->start.ran_ns,
			      clock_now(s->clock) + tune_left_ns(s) / AGREE_PART);
	if (rc < 0)
		return rc;
	if (counts > 0 && net_median_ns(n) <= 0) /* all later runs were tainted or cut off */
		net_add(n, s->start.ran_ns);
	s->model.warm = net_fits(n, &s->target);
	s->start.alone = s->o->threads > 1 && plan_is_alone(n->plan);
	if (s->start.alone)
		log_more("the network has too little work for %d threads: its kernels are timed on one",
			 s->o->threads);
	s->start.nbuilt_in = net_built_in(n, s->start.steps, s->a, &s->start.built_in);
	s->report->before_ms = (double)net_median_ns(n) / 1e6;
	bool again = s->start.again = worth_measuring_again(n);
	reserve_end(s, n, again ? net_median_ns(n) : 0);
	if (!again || (s->sole && !s->start.left))
		net_close_plan(n);
	tune_rows_make(s);
	tune_publish(s, 0);
	tune_say_progress(s, &(struct job_progress){.left_ns = s->times.end_ns - clock_now(s->clock)});
	return E_OK;
}

struct round {
	struct session *s;
	struct net *standard, *after;
	bool timed;
	int64_t took_ns;
};

/* Runs each open network once; those of before and after also with their kernels timed. The one after comes
 * first, as it may be the only one for which there is time. */
static int run_round(void *ctx)
{
	struct round *r = ctx;
	struct session *s = r->s;
	struct net *const turn[] = {r->after, r->standard, &s->start.net};
	int64_t start_ns = clock_now(s->clock);
	int rc = E_OK;
	for (int i = 0; i < 3 && rc >= 0; i++) {
		if (!turn[i]->plan)
			continue;
		rc = net_warm(turn[i], &s->target);
		if (rc >= 0)
			rc = net_run(turn[i], s->clock);
		if (rc >= 0 && r->timed && turn[i] != r->standard)
			rc = net_run_kernels(turn[i], s->clock);
	}
	r->took_ns = clock_now(s->clock) - start_ns;
	return rc;
}

/* A timeout or a stop is no error: the samples so far count. */
static int ended(int rc)
{
	return rc == E_TIMEOUT || rc == E_STOPPED ? E_OK : rc;
}

/* Runs rounds until the box ends, or for as long as was reserved if the search ended early. The first round
 * is begun in any case. */
static int run_rounds(struct session *s, struct net *standard, struct net *after)
{
	int64_t until_ns =
	    least(s->until.end_ns, clock_now(s->clock) + s->times.reserve_ns) - s->times.processor_ns;
	int64_t round_ns = standard->plan ? s->times.round_ns : s->times.run_ns;
	int rc = E_OK;
	if (s->start.net.plan)
		net_forget(&s->start.net);
	struct net *const all[] = {&s->start.net, standard, after};
	struct disturb machine;
	disturb_begin(&machine, NULL);
	for (int i = 0; rc >= 0 && clock_now(s->clock) + (i ? round_ns : 0) < until_ns; i += rc > 0) {
		struct round r = {s, standard, after, .timed = i < 3 || i % 4 == 0};
		rc = net_quietly(s->store.leash, until_ns, all, 3, run_round, &r);
		round_ns = tune_stopped(s) ? INT64_MAX / 2 : most(round_ns, r.took_ns);
	}
	disturb_end(&machine, &s->report->machine);
	return ended(rc);
}

static int timed_run(struct session *s, struct net *n)
{
	int rc = net_warm(n, &s->target);
	return rc < 0 ? rc : net_run_kernels(n, s->clock);
}

static int run_raced(void *ctx)
{
	const struct round *r = ctx;
	int rc = timed_run(r->s, r->standard);
	return rc < 0 ? rc : timed_run(r->s, r->after);
}

/* Makes what was reverted durable; if the disk has no room, the cache keeps it in memory. */
static int hand_over(struct session *s)
{
	int rc = cache_hand_over(s->store.cache);
	if (rc == E_IO)
		tune_warn(s);
	return rc == E_IO ? E_OK : rc;
}

/* Returns > 0: tasks whose tuned kernels lost to default ones inside the network use these again. */
static int race_inside(struct session *s, struct net *standard, struct net *best)
{
	struct arena scratch = {0};
	struct served *served;
	int64_t until_ns = clock_now(s->clock) + s->times.race_ns;
	int n = net_served(standard, best, s->model.steps, &scratch, &served), rc = n, runs = 0;
	struct net *const both[] = {standard, best};
	struct round r = {.s = s, .standard = standard, .after = best};
	while (rc >= 0 && clock_now(s->clock) < until_ns && !tune_stopped(s)) {
		rc = net_quietly(s->store.leash, s->times.end_ns, both, 2, run_raced, &r);
		if (rc > 0)
			net_served_round(standard, best, n, served);
		runs += rc > 0;
	}
	bool enough = runs >= RACE_LEAST && !tune_stopped(s);
	if (rc >= 0 && enough)
		rc = revert(s->store.cache, &s->target, s->o->threads, s->o->level, n, served);
	arena_free(&scratch);
	if (!enough || rc < 0)
		return ended(rc < 0 ? rc : 0);
	s->report->reverted = rc > 0 ? rc : 0;
	if (rc > 0)
		rc = hand_over(s);
	return rc < 0 ? rc : s->report->reverted;
}

/* Opens a network whose runs end with the box. */
static int open_late(struct session *s, enum rec_kind kind, const struct net *beside, struct net *n)
{
	int rc = open_net(s, kind, beside, n);
	if (rc >= 0)
		plan_deadline(n->plan, s->clock, tune_runs_end_ns(s));
	return rc;
}

static int open_raced(struct session *s, struct net *standard, struct net *after)
{
	int64_t end_ns = s->times.end_ns - tune_commit_ns(s);
	if (clock_now(s->clock) + s->times.least_ns > end_ns) {
		net_close_plan(&s->start.net);
		return open_late(s, REC_BEST, NULL, after);
	}
	int rc = open_again(s);
	if (rc >= 0)
		rc = open_late(s, REC_DEFAULT, &s->start.net, standard);
	if (rc >= 0)
		rc = open_late(s, REC_BEST, standard, after);
	if (rc < 0 || !s->times.race_ns ||
	    clock_now(s->clock) + s->times.race_ns + s->times.least_ns > end_ns - tune_commit_ns(s))
		return rc;
	rc = race_inside(s, standard, after);
	if (rc <= 0)
		return rc;
	net_close(after);
	return open_late(s, REC_BEST, standard, after);
}

/* Compares a network with the one of the best kernels; `turns`: they have run in turn. */
static struct faster compare(const struct net *other, const struct net *after, bool turns)
{
	double x[NET_SAMPLES], y[NET_SAMPLES];
	int apart = net_apart(other, after);
	int nx = net_samples(other, turns ? apart : net_apart(other, other), x);
	int ny = net_samples(after, turns ? apart : net_apart(after, after), y), n = (int)least(nx, ny);
	if (!n)
		return (struct faster){0};
	return turns ? faster_by_rounds(x, y, n) : faster_apart(x, nx, y, ny);
}

/* Kernels of a network that neither the cache nor a compiler gave. */
static int count_fallbacks(const struct net *n)
{
	const struct plan_kernel *k;
	int nkernels = plan_kernels(n->plan, &k), count = 0;
	for (int i = 0; i < nkernels; i++)
		count += k[i].origin == FROM_FALLBACK;
	return count;
}

/* Notes by which recipe the network was quantised, if one did. */
static void name_recipe(const struct session *s, struct gain *g)
{
	struct arena a = {0};
	struct blob text;
	const struct recipe *r = &s->report->recipe;
	if (r->layers && cache_get(s->store.cache, CACHE_RECIPE, r->model, &a, &text) >= 0) {
		g->source = r->model;
		g->recipe = hash_bytes(text.p, text.n);
	}
	arena_free(&a);
}

static void name_shapes(const struct session *s, struct gain *g)
{
	struct buf b = {0};
	bool fit = true;
	for (int i = 0; i < s->o->nbinds; i++) {
		const struct import_bind *bind = &s->o->binds[i];
		fit &= !strpbrk(bind->name, " \n") && !strpbrk(bind->value, " \n");
		buf_printf(&b, "%s%s=%s", b.n ? " " : "", bind->name, bind->value);
	}
	fit &= buf_ok(&b) && b.n < sizeof g->shapes;
	snprintf(g->shapes, sizeof g->shapes, "%s", fit ? buf_str(&b) : "?");
	buf_free(&b);
}

static void fill_gain(const struct session *s, const struct net *standard, const struct net *after,
		      struct gain *g)
{
	*g = (struct gain){.threads = s->o->threads,
			   .level = s->o->level,
			   .default_ms = s->report->default_ms,
			   .now_ms = s->report->after_ms,
			   .kernels = standard->nkernels,
			   .fallbacks = count_fallbacks(standard),
			   .faster = compare(standard, after, true),
			   .machine = s->report->machine};
	name_recipe(s, g);
	name_shapes(s, g);
	snprintf(g->device, sizeof g->device, "%s", s->o->device ? s->o->device : s->o->cluster ? s->o->cluster : "");
	char whole[PATH_MAX];
	const char *path = s->o->model;
	size_t n, room = sizeof g->model - 1;
	if (*path != '/' && realpath(path, whole) && strlen(whole) <= room)
		path = whole;
	n = strlen(path);
	snprintf(g->model, sizeof g->model, "%s", path + (n > room ? n - room : 0));
	time_t now = time(NULL);
	struct tm utc;
	strftime(g->date, sizeof g->date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
}

/* Whether every kernel of a task came from the cache and is the default one. */
static bool at_defaults(struct session *s, const struct net *after)
{
	const struct plan_kernel *k;
	int n = plan_kernels(after->plan, &k);
	for (int i = 0; i < n; i++)
		if (s->model.steps->step[k[i].step].kind == STEP_TASK && k[i].origin != FROM_CACHE)
			return false;
	return all_at_defaults(s->store.cache, &s->target, s->o->threads, s->o->level, s->ntasks,
			       task_keys(s));
}

static struct key mix_rec(const struct session *s, struct key of, struct key task, enum rec_kind kind)
{
	struct arena scratch = {0};
	struct rec r;
	if (cache_find_rec(s->store.cache, task, &s->target, s->o->threads, s->o->level, kind, &scratch,
			   &r) >= 0)
		of = mix_join(of, mix_join(mix_text(r.cand), mix_text(r.emitter)));
	arena_free(&scratch);
	return mix_join(of, task);
}

/* Names what a gain compares: each task's best and default kernel. An estimate's tasks are not all of them.
 */
static int name_kernels(const struct session *s, struct gain *g)
{
	struct step_task *task;
	int n = steps_tasks(s->model.steps, s->a, &task);
	for (int i = 0; i < n; i++)
		g->made_of =
		    mix_rec(s, mix_rec(s, g->made_of, task[i].key, REC_BEST), task[i].key, REC_DEFAULT);
	return n < 0 ? n : E_OK;
}

/* Keeps the headline of this box for other commands, unless the stored one is a better one of the same
 * kernels; without a comparison there is none. */
static int put_gain(struct session *s)
{
	struct key k = history_key(s->model.graph, &s->target, s->o->threads, s->o->level);
	struct gain old, *g = &s->report->gain;
	bool none = !g->faster.rounds;
	int rc = name_kernels(s, g);
	if (rc >= 0 && !none && gain_get(s->store.cache, k, &old) && !gain_replaces(&old, g))
		return E_OK;
	if (rc >= 0)
		rc = none ? cache_forget(s->store.cache, CACHE_GAIN, k) : gain_put(s->store.cache, k, g);
	if (rc == E_IO)
		tune_warn(s);
	return rc == E_IO ? E_OK : rc;
}

/* Whether the whole network is slower than another one, though no task alone has lost. */
static bool is_slower(const struct net *than, const struct net *after)
{
	struct faster f = compare(than, after, true);
	return f.rounds && !f.few && f.high < 1 && f.ratio < 1 - LOSS;
}

/* Lets all tasks use their default kernels again. Returns > 0: some did not. */
static int go_back(struct session *s)
{
	int n = revert_all(s->store.cache, &s->target, s->o->threads, s->o->level, s->ntasks, task_keys(s));
	if (n <= 0)
		return n;
	s->report->reverted += n;
	int rc = hand_over(s);
	return rc < 0 ? rc : n;
}

/* Lets all tasks use their kernels from before the box again. Returns > 0: some did not. */
static int restore(struct session *s)
{
	int n = bests_restore(s->store.cache, &s->target, &s->start.best);
	if (n <= 0)
		return n;
	s->report->restored = n;
	s->report->reverted = 0; /* those use their kernels from before again, too */
	int rc = hand_over(s);
	return rc < 0 ? rc : n;
}

/* Lets the fastest of the three networks be the one of the best kernels: *kept gets it. */
static int keep_fastest(struct session *s, const struct net *standard, const struct net *best,
			const struct net **kept)
{
	const struct net *start = &s->start.net;
	bool comparable = start->plan && !s->start.left && !count_fallbacks(start) && !s->model.redivided &&
			  s->start.best.n == s->ntasks;
	int rc = comparable && is_slower(start, best) ? restore(s) : 0;
	*kept = rc > 0 ? start : best;
	if (rc < 0 || !is_slower(standard, *kept))
		return rc;
	rc = go_back(s);
	if (rc > 0) {
		*kept = standard;
		s->report->restored = 0;
	}
	return rc;
}

/* Fills in the report after the last round. */
static int conclude(struct session *s, const struct net *standard, const struct net *best)
{
	struct tune_report *r = s->report;
	const struct net *after;
	int rc = keep_fastest(s, standard, best, &after);
	if (rc < 0)
		return rc;
	r->interleaved = s->start.net.plan != NULL;
	if (r->interleaved)
		r->before_ms = (double)net_median_ns(&s->start.net) / 1e6;
	r->default_ms = (double)net_median_ns(standard) / 1e6;
	r->after_ms = (double)net_median_ns(after) / 1e6;
	if (!r->untunable && after != &s->start.net) /* a difference of the same code is noise */
		r->before = compare(&s->start.net, after, r->interleaved);
	tune_rows_after(s, after, after == standard);
	r->kernels_before = s->start.net.nkernels;
	tune_publish(s, r->trials); /* without the gain, which honed may be slow to take */
	if (!standard->nsamples)
		return E_OK;
	fill_gain(s, standard, after, &r->gain);
	r->at_defaults = r->untunable || at_defaults(s, best);
	if (r->at_defaults) /* a difference of equal kernels is that of places in memory */
		r->gain.faster = (struct faster){0};
	return put_gain(s);
}

int tune_measure_after(struct session *s)
{
	struct net standard = {0}, after = {0};
	tune_limit(s);
	if (tune_stopped(s) || clock_now(s->clock) + s->start.net.build_ns > s->until.end_ns)
		return E_OK;
	if (s->start.net.plan)
		plan_deadline(s->start.net.plan, s->clock, tune_runs_end_ns(s));
	int rc = tune_device_open(s);
	if (rc >= 0)
		rc = open_raced(s, &standard, &after);
	if (rc >= 0)
		rc = run_rounds(s, &standard, &after);
	if (rc >= 0 && after.nsamples)
		rc = conclude(s, &standard, &after);
	if (rc >= 0 && after.nsamples)
		tune_processor_compare(s, s->report->reverted && standard.plan ? &standard : &after);
	net_close(&after);
	net_close(&standard);
	return ended(rc);
}
