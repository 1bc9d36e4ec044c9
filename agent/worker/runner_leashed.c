/* SPDX-License-Identifier: Apache-2.0 */
/* A runner between another one and its caller: it builds, checks and times only under a lease, and discards
 * tainted results. A worker that was let go of at a yield loses its handles; they are built again when
 * needed, and the caller does not notice. */
#include "agent/control/leash.h"

#include "platform/run/child.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The candidate behind one of our handles. */
struct entry {
	char *task, *cand; /* malloc'd; NULL: free */
	int inner;         /* -1: lost */
};

struct leashed {
	struct runner base;
	struct runner *inner;
	struct leash *leash;
	struct entry *entry;
	int cap;
};

/* One call of the inner runner. */
struct call {
	enum lease kind;
	int64_t deadline_ns;
	int (*fn)(struct leashed *w, struct call *c);
	bool (*stands)(const struct call *c); /* whether the result is valid even if it was tainted */
	const char *task, *cand;
	int handle; /* handle of the inner runner */
	const int *handles;
	int n, rounds;
	int64_t abort_ns;
	unsigned how;
	struct meas *m;
	struct arena *a;
	struct blob *out;
};

/* Pause before a tainted call is repeated, because the cause is usually still there. */
#define PAUSE_NS (10 * NS_PER_MS)
#define LONGEST_PAUSE_NS NS_PER_S

static struct leashed *leashed_of(struct runner *r)
{
	return (struct leashed *)r;
}

static void free_entry(struct entry *e)
{
	free(e->task);
	free(e->cand);
	*e = (struct entry){.inner = -1};
}

static void forget_all(struct leashed *w)
{
	for (int i = 0; i < w->cap; i++)
		free_entry(&w->entry[i]);
}

static void lose_all(struct leashed *w)
{
	for (int i = 0; i < w->cap; i++)
		w->entry[i].inner = -1;
}

/* Returns a free slot; < 0: no memory. */
static int find_place(struct leashed *w)
{
	int i = 0;
	while (i < w->cap && w->entry[i].task)
		i++;
	if (i < w->cap)
		return i;
	int cap = w->cap ? 2 * w->cap : 32;
	struct entry *p = realloc(w->entry, sizeof *p * (size_t)cap);
	if (!p)
		return fail(E_NOMEM, "no memory for a handle");
	for (int k = w->cap; k < cap; k++)
		p[k] = (struct entry){.inner = -1};
	w->entry = p;
	w->cap = cap;
	return i;
}

static int remember(struct leashed *w, const char *task, const char *cand, int inner)
{
	int i = find_place(w);
	if (i < 0)
		return i;
	struct entry *e = &w->entry[i];
	*e = (struct entry){.task = strdup(task), .cand = strdup(cand), .inner = inner};
	if (e->task && e->cand)
		return i;
	free_entry(e);
	return fail(E_NOMEM, "no memory for a handle");
}

static struct entry *find(struct leashed *w, int handle)
{
	return handle >= 0 && handle < w->cap && w->entry[handle].task ? &w->entry[handle] : NULL;
}

/* Returns 0: try again. A call that stays tainted until the deadline counts as not done. */
static int wait_a_turn(struct leashed *w, int turn, const char *taint, int64_t deadline_ns)
{
	struct clock *clock = w->base.clock;
	int64_t pause_ns = turn > 6 ? LONGEST_PAUSE_NS : PAUSE_NS << turn;
	int64_t left_ns = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - clock_now(clock);
	log_more("tainted result discarded: %s", taint);
	if (turn + 1 == TAINTED_TRIES)
		return fail(E_STOPPED, "%d measurements in a row were disturbed: %s", TAINTED_TRIES, taint);
	if (left_ns > 0)
		clock->sleep(clock, pause_ns < left_ns ? pause_ns : left_ns);
	/* no call shortly before the deadline: its timeout would be blamed on the candidate */
	if (left_ns <= pause_ns)
		return fail(E_TIMEOUT, "no undisturbed measurement before the deadline: %s", taint);
	return 0;
}

/* Returns 1: the result is valid; 0: it was tainted. */
static int try_once(struct leashed *w, struct call *c, const char **taint)
{
	int rc = leash_lease(w->leash, c->kind, c->deadline_ns);
	if (rc < 0)
		return rc;
	int64_t start_ns = clock_now(w->base.clock), stood_ns = child_stood_ns();
	int did = c->fn(w, c);
	rc = leash_release(w->leash, taint);
	int64_t now_ns = clock_now(w->base.clock);
	bool early = did == E_TIMEOUT && now_ns < c->deadline_ns; /* the worker was resting */
	if (!*taint && early && child_stood_ns() - stood_ns > (now_ns - start_ns) / 2)
		*taint = "this process was stopped meanwhile";
	if (*taint && (did == E_CHILD || early)) {
		lose_all(w);
		return 0;
	}
	if (did == E_CHILD)
		forget_all(w);
	if (did < 0 || rc < 0)
		return did < 0 ? did : rc;
	return !*taint || (c->stands && c->stands(c));
}

static int run(struct leashed *w, struct call *c)
{
	const char *taint = NULL;
	int rc = 0;
	for (int turn = 0; rc == 0; turn++) {
		rc = try_once(w, c, &taint);
		if (rc == 0)
			rc = wait_a_turn(w, turn, taint, c->deadline_ns);
	}
	return rc < 0 ? rc : E_OK;
}

static int call_build(struct leashed *w, struct call *c)
{
	return w->inner->ops->build(w->inner, c->task, c->cand, c->deadline_ns, &c->handle, c->m);
}

/* A failure may be caused by a rest, but a kernel that passed its check is good even if it was tainted. */
static bool was_built(const struct call *c)
{
	return c->m->status == MEAS_OK;
}

static int build_inner(struct leashed *w, const char *task, const char *cand, int64_t deadline_ns,
		       int *handle, struct meas *m)
{
	struct call c = {.kind = LEASE_COMPUTE,
			 .deadline_ns = deadline_ns,
			 .fn = call_build,
			 .stands = was_built,
			 .task = task,
			 .cand = cand,
			 .handle = -1,
			 .m = m};
	int rc = run(w, &c);
	*handle = rc < 0 ? -1 : c.handle;
	return rc;
}

static int leashed_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			 int *handle, struct meas *m)
{
	struct leashed *w = leashed_of(r);
	int inner, rc = build_inner(w, task, cand, deadline_ns, &inner, m);
	*handle = -1;
	if (rc < 0 || inner < 0)
		return rc;
	rc = *handle = remember(w, task, cand, inner);
	if (rc < 0)
		w->inner->ops->drop(w->inner, inner, deadline_ns);
	return rc < 0 ? rc : E_OK;
}

/* Returns the inner handle of one of ours; a lost one is built again. */
static int revive(struct leashed *w, int handle, int64_t deadline_ns)
{
	struct entry *e = find(w, handle);
	struct meas m;
	if (!e)
		return fail(E_CHILD, "handle %d was lost when its worker died; build it again", handle);
	if (e->inner >= 0)
		return e->inner;
	int inner, rc = build_inner(w, e->task, e->cand, deadline_ns, &inner, &m);
	if (rc >= 0 && inner < 0) {
		forget_all(w);
		rc = fail(E_CHILD, "cannot build a lost kernel again: %s", meas_status_name(m.status));
	}
	e = find(w, handle);
	if (rc >= 0 && e)
		e->inner = inner;
	return rc < 0 ? rc : inner;
}

/* Makes all handles valid; a yield in between loses those that were, so they are built again. */
static int revive_all(struct leashed *w, const int *handles, int n, int64_t deadline_ns, int *inner)
{
	for (int i = 0, turns = 0; i < n; i++) {
		int rc = inner[i] = revive(w, handles[i], deadline_ns);
		if (rc < 0)
			return rc;
		for (int k = 0; k < i && turns < TAINTED_TRIES; k++)
			if (w->entry[handles[k]].inner < 0) {
				turns++;
				i = -1;
				break;
			}
	}
	return E_OK;
}

static int call_time(struct leashed *w, struct call *c)
{
	return w->inner->ops->time(w->inner, c->handles, c->n, c->rounds, c->abort_ns, c->how, c->deadline_ns,
				   c->m);
}

static int leashed_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
			unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct leashed *w = leashed_of(r);
	int *inner = malloc(sizeof *inner * (size_t)(n > 0 ? n : 1)), rc = 0;
	if (!inner)
		return fail(E_NOMEM, "no memory to time %d kernels", n);
	struct call c = {.kind = how & TIME_QUIET ? LEASE_QUIET : LEASE_MEASURE,
			 .deadline_ns = deadline_ns,
			 .fn = call_time,
			 .handles = inner,
			 .n = n,
			 .rounds = rounds,
			 .abort_ns = abort_ns,
			 .how = how,
			 .m = m};
	const char *taint = NULL;
	for (int turn = 0; rc == 0; turn++) {
		rc = revive_all(w, handles, n, deadline_ns, inner);
		if (rc >= 0)
			rc = try_once(w, &c, &taint);
		if (rc == 0)
			rc = wait_a_turn(w, turn, taint, deadline_ns);
	}
	free(inner);
	return rc < 0 ? rc : E_OK;
}

static enum ahead leashed_ahead(struct runner *r, const char *task, const char *cand)
{
	struct leashed *w = leashed_of(r);
	return w->inner->ops->ahead(w->inner, task, cand);
}

static enum ahead leashed_progress(struct runner *r, const char *task, const char *cand)
{
	struct leashed *w = leashed_of(r);
	return w->inner->ops->progress(w->inner, task, cand);
}

static int call_code(struct leashed *w, struct call *c)
{
	return w->inner->ops->code(w->inner, c->handle, c->deadline_ns, c->a, c->out);
}

static bool always(const struct call *c)
{
	(void)c;
	return true;
}

static int leashed_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct leashed *w = leashed_of(r);
	struct call c = {.kind = LEASE_COMPUTE,
			 .deadline_ns = deadline_ns,
			 .fn = call_code,
			 .stands = always,
			 .a = a,
			 .out = out};
	const char *taint = NULL;
	int rc = 0;
	for (int turn = 0; rc == 0; turn++) {
		rc = c.handle = revive(w, handle, deadline_ns);
		if (rc >= 0)
			rc = try_once(w, &c, &taint);
		if (rc == 0)
			rc = wait_a_turn(w, turn, taint, deadline_ns);
	}
	return rc < 0 ? rc : E_OK;
}

static void leashed_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct leashed *w = leashed_of(r);
	struct entry *e = find(w, handle);
	if (handle < 0) {
		forget_all(w);
		w->inner->ops->drop(w->inner, handle, deadline_ns);
	} else if (e) {
		if (e->inner >= 0)
			w->inner->ops->drop(w->inner, e->inner, deadline_ns);
		free_entry(e);
	}
}

static void leashed_close(struct runner *r)
{
	struct leashed *w = leashed_of(r);
	w->inner->ops->close(w->inner);
	forget_all(w);
	free(w->entry);
	free(w);
}

static const struct runner_ops ops = {
    .build = leashed_build,
    .ahead = leashed_ahead,
    .progress = leashed_progress,
    .time = leashed_time,
    .code = leashed_code,
    .drop = leashed_drop,
    .close = leashed_close,
};

int runner_leashed(struct runner *inner, struct leash *l, struct runner **out)
{
	struct leashed *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	w->inner = inner;
	w->leash = l;
	w->base = *inner;
	w->base.ops = &ops;
	*out = &w->base;
	return E_OK;
}
