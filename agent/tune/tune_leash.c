/* SPDX-License-Identifier: Apache-2.0 */
/* A box under a leash: it writes the cache through honed, and reports its progress to honed. */
#include "agent/tune/tune_parts.h"

#include "agent/cache/seeds.h"
#include "agent/cache/lookup.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_WAIT_NS NS_PER_S

static int put(void *ctx, enum cache_type t, struct key k, const void *p, size_t n)
{
	if (t == CACHE_FORGET)
		return leash_forget(ctx, *(const uint8_t *)p, k);
	return leash_put(ctx, (int)t, k, p, n);
}

static int commit(void *ctx)
{
	return leash_commit(ctx);
}

static bool alive(void *ctx)
{
	return leash_held(ctx);
}

static int again(void *ctx)
{
	return leash_again(ctx);
}

static int open_leash(struct session *s)
{
	char path[PATH_MAX]; /* absolute, as in honed's configuration */
	const struct leash_options o = {.cache = s->o->unkept ? "" : s->store.dir,
					.device = s->o->device ? s->o->device : s->o->cluster,
					.model = realpath(s->o->model, path) ? path : s->o->model,
					.threads = s->o->threads,
					.clock = s->clock,
					.stop = s->o->stop};
	int rc = leash_open(&o, &s->store.leash);
	s->store.through = (struct cache_through){s->store.leash, put, commit, alive, again};
	return rc;
}

int tune_leash_open(struct session *s)
{
	int rc = E_OK;
	if (s->o->cache)
		snprintf(s->store.dir, sizeof s->store.dir, "%s", s->o->cache);
	else
		rc = file_cache_dir(s->store.dir, sizeof s->store.dir);
	return rc < 0 ? rc : open_leash(s);
}

/* The search would be in vain. In the log of the honed that started this job, its name need not precede what
 * it said; the remedy is said once. */
static int nowhere_to_keep(int rc)
{
	static const char of_honed[] = "honed: ", of_conf[] = " (cache in [honed] of honed.conf)";
	char text[1024];
	snprintf(text, sizeof text, "%s", err_text());
	const char *why = text, *named = file_ends_with(text, "another folder") ? "" : "; use another folder";
	if (leash_is_child()) {
		why += strncmp(text, of_honed, sizeof of_honed - 1) ? 0 : sizeof of_honed - 1;
		if (file_ends_with(text, of_conf))
			return fail(rc, "results could not be kept, so nothing was searched: %s", why);
		return fail(rc, "results could not be kept, so nothing was searched: %s%s%s", why, named,
			    of_conf);
	}
	return fail(rc,
		    "results could not be kept, so nothing was searched: %s%s (--cache DIR), or keep nothing "
		    "(--no-cache)",
		    why, named);
}

int tune_cache_open(struct session *s)
{
	if (s->o->unkept) {
		log_info("hone: --no-cache: nothing that is found will be kept");
		return cache_open_memory(&s->store.cache, s->store.dir);
	}
	int64_t left_ns = tune_left_ns(s), wait_ns = left_ns / 2 < LOCK_WAIT_NS ? left_ns / 2 : LOCK_WAIT_NS;
	const struct cache_options o = {.cap_bytes = s->o->cache_bytes,
					.through = &s->store.through,
					.lock_fd = s->o->lock_fd,
					.only_here = true};
	if (leash_held(s->store.leash) && o.lock_fd > 0) /* a honed started meanwhile, and writes it */
		cache_let_go(s->store.dir, o.lock_fd);
	if (leash_held(s->store.leash)) {
		int rc = leash_commit(s->store.leash); /* honed opens its cache, and says if it cannot */
		if (rc == E_IO && leash_held(s->store.leash))
			return nowhere_to_keep(rc);
		return cache_open_with(&s->store.cache, s->store.dir, CACHE_THROUGH, 0, &o);
	}
	int rc = cache_open_with(&s->store.cache, s->store.dir, CACHE_WRITE, wait_ns > 0 ? wait_ns : 0, &o);
	if (rc >= 0)
		rc = cache_try(s->store.cache);
	return rc == E_IO || rc == E_NOTFOUND ? nowhere_to_keep(rc) : rc;
}

void tune_say_progress(struct session *s, const struct job_progress *p)
{
	struct request r = {.op = OP_PROGRESS,
			    .task = p->task,
			    .ntasks = p->ntasks,
			    .trials = p->trials,
			    .before_ms = p->before_ms,
			    .now_ms = p->now_ms,
			    .net_ms = s->report->before_ms,
			    .left_ms = (double)(p->left_ns > 0 ? p->left_ns : 0) / 1e6};
	snprintf(r.text, sizeof r.text, "%s", p->label ? p->label : "");
	leash_say(s->store.leash, &r);
}

/* A job that ends before it knows its tasks reports one missing kernel, so that honed gives it another box.
 */
#define NOT_KNOWN 1

/* Counts the tasks that can have a kernel but have none that can be run. */
static int missing(struct session *s)
{
	struct arena scratch = {0};
	int n = 0;
	for (int i = 0; i < s->ntasks; i++) {
		struct rec r;
		if (s->result && !s->result[i].standard[0])
			continue;
		int rc = cache_find_rec(s->store.cache, s->task[i].key, &s->target, s->o->threads,
					s->o->level, REC_BEST, &scratch, &r);
		bool own = rc >= 0 && (r.threads == s->o->threads || r.threads == 1);
		n += !own || !cache_has_code(s->store.cache, &s->target, &r);
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return n;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* Share of the run time that another box like this one may gain: the promise of its best slice times the
 * length of the box, limited by what lies above the rooflines. -1: not known, because the box ended before it
 * had timed a kernel of some task that can have one. */
static double promise(const struct session *s)
{
	double now_ns = 0, above_ns = 0, best = 0;
	if (!s->result)
		return -1;
	for (int i = 0; i < s->ntasks; i++) {
		const struct job_result *r = &s->result[i];
		double ns = (double)r->best_ns * s->job[i].uses;
		bool cut = r->end == SEARCH_OPEN || r->end == SEARCH_LATE;
		bool failed = r->end == SEARCH_FAILED || (!cut && r->met && !r->works);
		if (!r->best[0] && !failed)
			return -1;
		now_ns += ns;
		if (r->promise <= 0 || r->best_ns <= 0)
			continue;
		best = r->promise > best ? r->promise : best;
		above_ns += ns - smaller(ns, r->roofline_ns * s->job[i].uses);
	}
	return now_ns > 0 ? smaller(1, smaller(best * (double)s->o->budget_ns, above_ns) / now_ns) : 0;
}

void tune_say_late(struct session *s, const struct tune_report *r)
{
	struct request q = {.op = OP_DONE,
			    .trials = r->trials,
			    .before_ms = r->before_ms,
			    .kept = r->kept,
			    .missing = r->nkernels ? r->missing : NOT_KNOWN,
			    .promise = -1};
	if (!r->trials && !tune_stopped(s))
		snprintf(q.text, sizeof q.text, "%s",
			 r->before_ms > 0 ? "its budget ended before any kernel could be tried"
					  : "its budget ended before it could measure anything");
	leash_say_last(s->store.leash, &q);
}

void tune_say_done(struct session *s, const char *why)
{
	const struct tune_report *t = s->report;
	struct request r = {.op = OP_DONE,
			    .trials = t->trials,
			    .before_ms = t->before_ms,
			    .default_ms = t->default_ms,
			    .now_ms = t->after_ms,
			    .disturbed = t->after_ms > 0 && disturbed(&t->machine),
			    .kept = t->kept,
			    .missing = s->model.steps ? missing(s) : NOT_KNOWN,
			    .promise = promise(s)};
	snprintf(r.text, sizeof r.text, "%s", why ? why : "");
	leash_say(s->store.leash, &r);
}

/* The text names a file besides the model's, whose change honed would not see. */
#define OTHER_FILE "external data" /* import_extern writes it */

int tune_tell_lasting(struct session *s, int rc)
{
	const struct request r = {.op = OP_DONE, .missing = NOT_KNOWN, .promise = -1, .lasting = true};
	char why[4096]; /* telling may fail, too */
	bool lasting = rc == E_CORRUPT || rc == E_UNSUPPORTED || rc == E_USAGE;
	if (!lasting || !leash_is_child() || strstr(err_text(), OTHER_FILE))
		return rc;
	snprintf(why, sizeof why, "%s", err_text());
	if (s->store.leash || tune_leash_open(s) >= 0)
		leash_say(s->store.leash, &r);
	return fail(rc, "%s", why);
}
