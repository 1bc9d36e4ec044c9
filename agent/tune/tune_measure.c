/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/revert.h"
#include "agent/tune/tune_parts.h"

#include <stdio.h>
#include <string.h>

enum {
	AFTER_RUNS = 12,
	RACE_RUNS = 20, /* runs of the whole networks in a race, kernels timed */
	RACE_LEAST = 7, /* fewer runs cannot tell tuned kernels from default ones */
	FIRST_TRIES = 10,
	POOR = 6,            /* a default schedule takes at most so many times its roofline */
	BEFORE_PART = 25,    /* part of the box in which the network runs as it is: 1/25 */
	FALLBACK_PART = 100, /* part if none of its kernels are worth comparing with: 1/100 */
};

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
static int open_net(struct session *s, enum rec_kind kind, struct net *n)
{
	struct kernel_source src;
	int rc = cache_source(s->store.cache, &s->target, s->o->threads, s->o->exact, kind, &src);
	if (rc < 0)
		return rc;
	rc = net_open(n, s->model.graph, s->model.steps, &s->target, &src, s->pool, s->clock);
	cache_source_free(&src);
	return rc;
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
		sum_ns += tuned ? n->kernel_ns[i] : least(n->kernel_ns[i], poor_ns);
	}
	return sum_ns;
}

/* Time to release everything, even on a busy machine. */
static int64_t closing_ns(const struct session *s)
{
	return 40 * NS_PER_MS + s->o->budget_ns / 200;
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
	return from_cache(n) && net_median_ns(n) <= 4 * tuned_run_ns(n);
}

/* Reserves time at the end of the box: two plans are built and raced, one is built again, then they run in
 * turns (with the network before, if again_ns > 0): AFTER_RUNS times each, or as often as fits in a 25th of
 * the box, but at least once. If that takes more than an eighth of the box, there is no race; if it still
 * does, nothing is reserved for measuring, and only the time that remains is used. */
static void reserve_end(struct session *s, const struct net *n, int64_t again_ns)
{
	int64_t run_ns = tuned_run_ns(n), round_ns = 2 * run_ns + again_ns;
	int64_t some_ns = least(AFTER_RUNS * round_ns, s->o->budget_ns / 25);
	s->times.race_ns = least(most(20 * NS_PER_MS, RACE_RUNS * 2 * run_ns), s->o->budget_ns / 25);
	if (s->times.race_ns < RACE_LEAST * 2 * run_ns)
		s->times.race_ns = 0;
	int64_t want_ns = 100 * NS_PER_MS + closing_ns(s) + 4 * n->build_ns + most(some_ns, 2 * round_ns) +
			  s->times.race_ns;
	int64_t most_ns = most(s->o->budget_ns / 8, 100 * NS_PER_MS), saving_ns = closing_ns(s) + SAVING_NS;
	s->times.round_ns = round_ns + run_ns + again_ns; /* the kernels are timed too */
	s->times.least_ns = 2 * n->build_ns + s->times.round_ns + closing_ns(s);
	s->times.run_ns = 2 * run_ns;
	s->times.alone_ns = n->build_ns + s->times.run_ns + closing_ns(s);
	s->times.missing_by_ns = s->times.end_ns - saving_ns;
	s->times.reserve_ns = want_ns <= most_ns                         ? want_ns
			      : s->times.least_ns + SAVING_NS <= most_ns ? s->times.least_ns + SAVING_NS
									 : saving_ns;
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

/* Runs the network at least once with every kernel timed, which warms up. A long run counts as a sample too,
 * but waiting for its lease does not. This run also estimates how long measuring at the end takes, so it is
 * used for that even if all runs were tainted. */
int tune_measure_before(struct session *s)
{
	struct net *n = &s->start.net;
	int rc = open_net(s, REC_BEST, n);
	int64_t part_ns = s->o->budget_ns / (rc >= 0 && from_cache(n) ? BEFORE_PART : FALLBACK_PART);
	for (int i = 0; rc == 0 && i < FIRST_TRIES; i++)
		rc = quietly(s, run_before_kernels);
	bool counts = rc > 0;
	if (rc == 0) /* a rough time to plan the box with; it is no sample */
		rc = run_before_kernels(s);
	if (counts && s->start.ran_ns > part_ns)
		n->sample_ns[n->nsamples++] = s->start.ran_ns;
	int64_t limit_ns = clock_now(s->clock) + part_ns - s->start.ran_ns;
	for (int i = 0; rc >= 0 && i < 20 && clock_now(s->clock) < limit_ns && !tune_stopped(s); i++) {
		rc = quietly(s, run_before);
		if (rc >= 0 && i > 0 && clock_now(s->clock) < limit_ns)
			rc = quietly(s, run_before_kernels);
	}
	if (rc < 0)
		return rc;
	s->model.warm = net_fits(n, &s->target);
	s->start.nbuilt_in = net_built_in(n, s->model.steps, s->a, &s->start.built_in);
	s->report->before_ms = (double)net_median_ns(n) / 1e6;
	bool again = worth_measuring_again(n);
	reserve_end(s, n, again ? net_median_ns(n) : 0);
	const struct plan_kernel *k;
	plan_kernels(n->plan, &k);
	s->start.origin = ARENA_ARRAY(s->a, enum kernel_origin, n->nkernels + 1);
	s->start.name = ARENA_ARRAY(s->a, const char *, n->nkernels + 1);
	s->start.label = ARENA_ARRAY(s->a, const char *, n->nkernels + 1);
	for (int i = 0; i < n->nkernels; i++) {
		s->start.origin[i] = k[i].origin;
		s->start.name[i] = arena_strdup(s->a, k[i].name);
		s->start.label[i] = arena_strdup(s->a, k[i].label);
	}
	if (!again)
		net_close_plan(n);
	return E_OK;
}

/* Whether both labels name the same work, by whatever algorithm: " F(4,3)" at the end of a label means
 * Winograd. */
static bool same_work(const char *a, const char *b)
{
	const char *f = strstr(a, " F("), *g = strstr(b, " F(");
	size_t n = f ? (size_t)(f - a) : strlen(a), m = g ? (size_t)(g - b) : strlen(b);
	return n == m && !memcmp(a, b, n);
}

/* Finds the kernel of the network before that did the same work for the same node, searching from `from` on;
 * -1: there was none, for example because a fused block ran in parts. */
static int before_of(const struct session *s, const struct plan_kernel *k, int from)
{
	int n = s->start.net.nkernels;
	for (int i = 0; i < n; i++) {
		int at = (from + i) % n;
		if (!strcmp(s->start.name[at], k->name) && same_work(s->start.label[at], k->label))
			return at;
	}
	return -1;
}

static void make_rows(struct session *s, struct net *after)
{
	const struct plan_kernel *k;
	int n = plan_kernels(after->plan, &k), threads = s->o->threads;
	struct tune_kernel *row = ARENA_ARRAY(s->a, struct tune_kernel, n + 1);
	for (int i = 0, j = 0; i < n; i++, j++) {
		int b = before_of(s, &k[i], j);
		j = b < 0 ? j : b;
		row[i] = (struct tune_kernel){.name = arena_strdup(s->a, k[i].name),
					      .label = arena_strdup(s->a, k[i].label),
					      .after = k[i].origin,
					      .before = b >= 0 ? s->start.origin[b] : FROM_FALLBACK,
					      .before_ns = b >= 0 ? s->start.net.kernel_ns[b] : 0,
					      .after_ns = after->kernel_ns[i]};
		if (row[i].after_ns > 0)
			row[i].roofline = k[i].roofline_ns / threads / (double)row[i].after_ns;
	}
	s->report->nkernels = n;
	s->report->kernel = row;
}

struct round {
	struct session *s;
	struct net *standard, *after;
	bool timed;
	int64_t took_ns;
};

/* Runs each open network once; those of before and after also with their kernels timed. */
static int run_round(void *ctx)
{
	struct round *r = ctx;
	struct session *s = r->s;
	struct net *const turn[] = {&s->start.net, r->standard, r->after};
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

/* Runs rounds until the box ends, or for as long as was reserved if the search ended early. */
static int run_rounds(struct session *s, struct net *standard, struct net *after)
{
	int64_t until_ns = least(s->times.end_ns - closing_ns(s), clock_now(s->clock) + s->times.reserve_ns);
	int64_t round_ns = standard->plan ? s->times.round_ns : s->times.run_ns;
	int rc = E_OK;
	if (s->start.net.plan)
		net_forget(&s->start.net);
	struct net *const all[] = {&s->start.net, standard, after};
	for (int i = 0; rc >= 0 && clock_now(s->clock) + round_ns<until_ns; i += rc> 0) {
		struct round r = {s, standard, after, .timed = i < 3 || i % 4 == 0};
		rc = net_quietly(s->store.leash, until_ns, all, 3, run_round, &r);
		round_ns = tune_stopped(s) ? INT64_MAX / 2 : most(round_ns, r.took_ns);
	}
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
		rc = revert(s->store.cache, &s->target, s->o->threads, s->o->exact, n, served);
	arena_free(&scratch);
	if (!enough || rc < 0)
		return ended(rc < 0 ? rc : 0);
	s->report->reverted = rc > 0 ? rc : 0;
	if (rc > 0)
		rc = cache_hand_over(s->store.cache);
	if (rc == E_IO) { /* the cache keeps it in memory */
		tune_warn(s);
		rc = E_OK;
	}
	return rc < 0 ? rc : s->report->reverted;
}

/* Opens a network whose runs end with the box. */
static int open_late(struct session *s, enum rec_kind kind, struct net *n)
{
	int rc = open_net(s, kind, n);
	if (rc >= 0)
		plan_deadline(n->plan, s->clock, s->times.end_ns - closing_ns(s) / 2);
	return rc;
}

static int open_raced(struct session *s, struct net *standard, struct net *after)
{
	if (clock_now(s->clock) + s->times.least_ns > s->times.end_ns) {
		net_close_plan(&s->start.net);
		return open_late(s, REC_BEST, after);
	}
	int rc = open_late(s, REC_DEFAULT, standard);
	if (rc >= 0)
		rc = open_late(s, REC_BEST, after);
	if (rc < 0 || !s->times.race_ns ||
	    clock_now(s->clock) + s->times.race_ns + s->times.least_ns > s->times.end_ns)
		return rc;
	rc = race_inside(s, standard, after);
	if (rc <= 0)
		return rc;
	net_close(after);
	return open_late(s, REC_BEST, after);
}

int tune_measure_after(struct session *s)
{
	struct net standard = {0}, after = {0};
	if (tune_stopped(s) || clock_now(s->clock) + s->times.alone_ns > s->times.end_ns)
		return E_OK;
	if (s->start.net.plan)
		plan_deadline(s->start.net.plan, s->clock, s->times.end_ns - closing_ns(s) / 2);
	int rc = open_raced(s, &standard, &after);
	if (rc >= 0)
		rc = run_rounds(s, &standard, &after);
	if (rc >= 0 && after.nsamples) {
		s->report->interleaved = s->start.net.plan != NULL;
		if (s->start.net.plan)
			s->report->before_ms = (double)net_median_ns(&s->start.net) / 1e6;
		s->report->default_ms = (double)net_median_ns(&standard) / 1e6;
		s->report->after_ms = (double)net_median_ns(&after) / 1e6;
		make_rows(s, &after);
	}
	net_close(&after);
	net_close(&standard);
	return rc;
}
