/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/runner_apart.h"

#include "platform/run/child.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "platform/base/until.h"
#include "platform/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum {
	FIRST_AWAY = 0x60000000, /* handles from here on belong to foreign candidates */
	AWAY_NUMBERS = 1 << 24,
	MOST_AWAY = 128,   /* foreign candidates with a handle; the least recently used is evicted */
	MOST_FAILED = 256, /* candidates that died or hung; only the newest are remembered */
};

/* A foreign candidate that has a handle, or is about to get one: it is "away". */
struct away {
	char *task, *cand;     /* malloc'd; task NULL: free slot */
	struct buf code;       /* compiled by the clean worker */
	struct key object;     /* key of the code: equal keys share code */
	struct runner *worker; /* NULL: ended */
	int inner;             /* the worker's handle */
	int number;            /* its handle less FIRST_AWAY */
	int rests;             /* child_rests() at the worker's last answer */
	uint64_t used;         /* value of apart.uses at its last use */
};

struct failed {
	struct key pair; /* of task and candidate */
	enum meas_status how;
};

struct apart {
	struct runner base;
	struct runner *clean;
	struct apart_ways ways;
	struct away away[MOST_AWAY];
	struct failed failed[MOST_FAILED];
	unsigned nfailed; /* number since the start */
	int number;       /* for the next handle */
	uint64_t uses;
	struct rng rng;
};

static struct apart *apart_of(struct runner *r)
{
	return (struct apart *)r;
}

static int64_t patience(const struct apart *w, int64_t deadline_ns)
{
	int64_t end_ns = clock_now(w->base.clock) + APART_PATIENCE_NS;
	return end_ns < deadline_ns ? end_ns : deadline_ns;
}

/* ---- candidates that are away ---- */

static void end_worker(struct away *e)
{
	if (e->worker)
		e->worker->ops->close(e->worker);
	e->worker = NULL;
}

static void forget(struct away *e)
{
	end_worker(e);
	free(e->task);
	free(e->cand);
	buf_free(&e->code);
	*e = (struct away){0};
}

static void forget_all(struct apart *w)
{
	for (int i = 0; i < MOST_AWAY; i++)
		forget(&w->away[i]);
}

/* If the clean worker died, all handles are lost. */
static int clean_error(struct apart *w, int rc)
{
	if (rc == E_CHILD)
		forget_all(w);
	return rc;
}

/* We report E_CHILD ourselves, so no handle survives: the clean worker drops its own, too. */
static int lose_all(struct apart *w, int rc, int64_t deadline_ns)
{
	if (rc == E_CHILD) {
		forget_all(w);
		w->clean->ops->drop(w->clean, -1, deadline_ns);
	}
	return rc;
}

static struct away *find(struct apart *w, int handle)
{
	for (int i = 0; i < MOST_AWAY; i++)
		if (w->away[i].task && w->away[i].number == handle - FIRST_AWAY)
			return &w->away[i];
	return NULL;
}

/* Returns a free slot, or evicts the least recently used candidate. */
static struct away *find_place(struct apart *w)
{
	struct away *oldest = &w->away[0];
	for (int i = 0; i < MOST_AWAY; i++) {
		if (!w->away[i].task)
			return &w->away[i];
		if (w->away[i].used < oldest->used)
			oldest = &w->away[i];
	}
	forget(oldest);
	return oldest;
}

static struct away *add(struct apart *w, const char *task, const char *cand)
{
	struct away *e = find_place(w);
	*e = (struct away){.task = strdup(task), .cand = strdup(cand), .number = w->number};
	w->number = (w->number + 1) % AWAY_NUMBERS;
	if (e->task && e->cand)
		return e;
	forget(e);
	return NULL;
}

/* Ends the workers of other tasks, which are not needed now. */
static void end_others(struct apart *w, const char *task)
{
	for (int i = 0; i < MOST_AWAY; i++)
		if (w->away[i].worker && strcmp(w->away[i].task, task) != 0)
			end_worker(&w->away[i]);
}

/* Ends the least recently used worker if there is no room for one more. */
static void end_oldest(struct apart *w)
{
	struct away *oldest = NULL;
	int living = 0;
	for (int i = 0; i < MOST_AWAY; i++) {
		struct away *e = &w->away[i];
		if (!e->worker)
			continue;
		living++;
		oldest = !oldest || e->used < oldest->used ? e : oldest;
	}
	if (living >= APART_AT_ONCE)
		end_worker(oldest);
}

/* ---- failures ---- */

static struct key pair_key(const char *task, const char *cand)
{
	return hash_join(hash_text(task), hash_text(cand));
}

static const struct failed *find_failed(const struct apart *w, const char *task, const char *cand)
{
	struct key k = pair_key(task, cand);
	for (unsigned i = 0; i < MOST_FAILED && i < w->nfailed; i++)
		if (key_equal(w->failed[i].pair, k))
			return &w->failed[i];
	return NULL;
}

static void set_failed(const struct apart *w, struct meas *m, enum meas_status how)
{
	*m = (struct meas){.status = how, .threads = w->base.threads};
}

/* Remembers the failure, so that the candidate is not built again. */
static void remember_failed(struct apart *w, const struct away *e, enum meas_status how, struct meas *m)
{
	w->failed[w->nfailed++ % MOST_FAILED] = (struct failed){pair_key(e->task, e->cand), how};
	set_failed(w, m, how);
}

/* A call of e's worker, which began at start_ns, returned the error rc. The candidate is to blame, unless the
 * deadline came, this process was stopped or told to stop, or all workers were told to rest. */
static int lose(struct apart *w, struct away *e, int rc, int64_t deadline_ns, int64_t stood_ns,
		struct meas *m)
{
	bool late = clock_now(w->base.clock) >= deadline_ns || child_stood_ns() != stood_ns;
	bool rested = child_rests() != e->rests;
	log_more("a worker for strangers' candidates is stopped: %s", err_text());
	end_worker(e);
	bool told = rc == E_STOPPED && until_stopped(0) < 0; /* a worker may say anything */
	if (told || (rc == E_TIMEOUT && late))
		return rc;
	if (rc == E_CHILD && rested)
		return lose_all(w, rc, deadline_ns);
	remember_failed(w, e, rc == E_TIMEOUT ? MEAS_TIMEOUT : MEAS_CRASH, m);
	return E_OK;
}

static int64_t between(int64_t least, int64_t v, int64_t most)
{
	return v < least ? least : v > most ? most : v;
}

/* A worker apart may send any numbers as times, and the search plans with them: they are clamped. */
static void cut_times(struct meas *m, int64_t took_ns, int rounds)
{
	int64_t most = took_ns > 1 ? took_ns : 1, least = m->status == MEAS_OK && rounds > 0;
	m->runs = (int32_t)between(least, m->runs, rounds > 0 ? rounds : 0);
	m->median_ns = between(least, m->median_ns, most);
	m->min_ns = between(least, m->min_ns, least ? m->median_ns : most);
	m->spread_ns = between(0, m->spread_ns, most);
	m->build_ns = between(0, m->build_ns, most);
	m->check_ns = between(0, m->check_ns, most);
	if (!(m->max_rel_err >= 0 && m->max_rel_err <= 1))
		m->max_rel_err = 1;
	if ((unsigned)m->status >= MEAS_STATUSES)
		m->status = MEAS_CRASH;
}

/* ---- building ---- */

/* The clean worker or one of its builders compiles; nothing is run. */
static int compile(struct apart *w, struct away *e, int64_t deadline_ns, struct meas *m)
{
	struct meas none;
	int rc = w->ways.emit(w->clean, e->task, e->cand, patience(w, deadline_ns), &e->object, &e->code, m);
	bool hung = rc == E_TIMEOUT && clock_now(w->base.clock) < deadline_ns;
	if (rc == E_CHILD || hung) /* the candidate kills the compiler: no worker compiles it again */
		remember_failed(w, e, hung ? MEAS_TIMEOUT : MEAS_CRASH, &none);
	return clean_error(w, rc);
}

/* The board has no process or memory for another worker now: the candidate is not timed, which says nothing
 * against it. */
static int not_hired(struct apart *w, struct away *e, struct meas *m)
{
	log_more("cannot start a worker for a stranger's candidate: %s", err_text());
	end_worker(e);
	set_failed(w, m, MEAS_TIMEOUT);
	return E_OK;
}

/* Hires a worker for e, which loads and checks the code. */
static int load(struct apart *w, struct away *e, int64_t deadline_ns, struct meas *m)
{
	const struct blob code = {.p = buf_str(&e->code), .n = e->code.n};
	end_others(w, e->task);
	end_oldest(w);
	e->used = ++w->uses;
	e->rests = child_rests();
	int64_t start_ns = clock_now(w->base.clock), stood_ns = child_stood_ns();
	int rc = w->ways.hire(w->clean, patience(w, deadline_ns), &e->worker);
	if (rc < 0)
		return not_hired(w, e, m);
	rc = w->ways.load(e->worker, e->task, e->object, code, patience(w, deadline_ns), &e->inner, m);
	if (rc < 0)
		return lose(w, e, rc, deadline_ns, stood_ns, m);
	cut_times(m, clock_now(w->base.clock) - start_ns, 0);
	if (m->status == MEAS_OK && e->inner < 0)
		m->status = MEAS_BUILD;
	if (m->status != MEAS_OK)
		end_worker(e);
	return E_OK;
}

static int compile_and_load(struct apart *w, struct away *e, int64_t deadline_ns, struct meas *m)
{
	int rc = compile(w, e, deadline_ns, m);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	int64_t compile_ns = m->build_ns;
	rc = load(w, e, deadline_ns, m);
	m->build_ns += compile_ns;
	return rc;
}

/* *handle >= 0 if the candidate is built and checked. */
static int build_foreign(struct apart *w, const char *task, const char *cand, int64_t deadline_ns,
			 int *handle, struct meas *m)
{
	const struct failed *f = find_failed(w, task, cand);
	if (f) {
		set_failed(w, m, f->how);
		return E_OK;
	}
	struct away *e = add(w, task, cand);
	if (!e)
		return fail(E_NOMEM, "no memory for a handle");
	int number = e->number, rc = compile_and_load(w, e, deadline_ns, m);
	if (rc >= 0 && m->status == MEAS_OK)
		*handle = FIRST_AWAY + number;
	else
		forget(e);
	return rc < 0 ? rc : E_OK;
}

static int apart_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		       struct meas *m)
{
	struct apart *w = apart_of(r);
	*handle = -1;
	if (w->ways.foreign(w->ways.ctx, task, cand))
		return build_foreign(w, task, cand, deadline_ns, handle, m);
	end_others(w, task);
	return clean_error(w, w->clean->ops->build(w->clean, task, cand, deadline_ns, handle, m));
}

/* Makes sure that e has a living worker with its code; otherwise *m says why not. */
static int revive(struct apart *w, struct away *e, int64_t deadline_ns, struct meas *m)
{
	const struct failed *f = find_failed(w, e->task, e->cand);
	*m = (struct meas){.status = MEAS_OK};
	if (f)
		set_failed(w, m, f->how);
	return f || e->worker ? E_OK : load(w, e, deadline_ns, m);
}

/* ---- timing ---- */

/* A timing call, with what all its runs have in common. */
struct timing {
	const int *handles;
	int n, rounds;
	int64_t abort_ns, deadline_ns;
	unsigned how;
	struct meas *m;
	int64_t *ns; /* [handle][round] */
	int *order;
};

static int time_away(struct apart *w, struct away *e, int rounds, int64_t abort_ns, const struct timing *t,
		     struct meas *m)
{
	int rc = revive(w, e, t->deadline_ns, m);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	int64_t start_ns = clock_now(w->base.clock), stood_ns = child_stood_ns();
	e->used = ++w->uses;
	rc = e->worker->ops->time(e->worker, &e->inner, 1, rounds, abort_ns, t->how,
				  patience(w, t->deadline_ns), m);
	if (rc < 0)
		return lose(w, e, rc, t->deadline_ns, stood_ns, m);
	e->rests = child_rests();
	cut_times(m, clock_now(w->base.clock) - start_ns, rounds);
	m->threads = w->base.threads;
	return E_OK;
}

/* Times one handle, in whichever worker it is. A handle that is away but no longer known counts as failed. */
static int time_one(struct apart *w, int handle, int rounds, int64_t abort_ns, const struct timing *t,
		    struct meas *m)
{
	struct runner *clean = w->clean;
	struct away *e = handle >= FIRST_AWAY ? find(w, handle) : NULL;
	if (e)
		return time_away(w, e, rounds, abort_ns, t, m);
	if (handle < FIRST_AWAY)
		return clean_error(
		    w, clean->ops->time(clean, &handle, 1, rounds, abort_ns, t->how, t->deadline_ns, m));
	set_failed(w, m, MEAS_CRASH);
	return E_OK;
}

static void shuffle(struct apart *w, const struct timing *t)
{
	for (int i = t->n - 1; i > 0; i--) {
		int j = (int)rng_below(&w->rng, (uint32_t)i + 1), keep = t->order[i];
		t->order[i] = t->order[j];
		t->order[j] = keep;
	}
}

static int time_round(struct apart *w, const struct timing *t, int round)
{
	shuffle(w, t);
	for (int i = 0; i < t->n; i++) {
		int k = t->order[i];
		struct meas one, *m = &t->m[k];
		if (m->status != MEAS_OK)
			continue;
		int rc = time_one(w, t->handles[k], 1, round ? 0 : t->abort_ns, t, &one);
		if (rc < 0)
			return rc;
		t->ns[(int64_t)k * t->rounds + round] = one.median_ns;
		if (round) {
			one.mhz_before = m->mhz_before;
			one.mc_before = m->mc_before;
		}
		one.throttled |= m->throttled;
		*m = one;
	}
	return E_OK;
}

/* Runs as many rounds as fit, at least one. */
static int time_rounds(struct apart *w, const struct timing *t)
{
	int done = 0, rc = E_OK;
	for (int k = 0; k < t->n; k++) {
		t->m[k] = (struct meas){.status = MEAS_OK};
		t->order[k] = k;
	}
	while (done < t->rounds && (rc = time_round(w, t, done)) >= 0)
		done++;
	if (rc < 0 && (rc != E_TIMEOUT || done == 0 || clock_now(w->base.clock) < t->deadline_ns))
		return rc;
	for (int k = 0; k < t->n; k++)
		if (t->m[k].status == MEAS_OK)
			meas_summarize(t->ns + (int64_t)k * t->rounds, done, &t->m[k]);
	return E_OK;
}

/* Times candidates in turns, as the header says. */
static int time_mixed(struct apart *w, struct timing *t)
{
	t->rounds = t->rounds > 0 ? t->rounds : 1;
	t->ns = calloc((size_t)t->n, sizeof *t->ns * (size_t)t->rounds);
	t->order = calloc((size_t)t->n, sizeof *t->order);
	int rc = t->ns && t->order ? time_rounds(w, t) : fail(E_NOMEM, "no memory to time %d kernels", t->n);
	free(t->ns);
	free(t->order);
	return rc;
}

/* Builders of the clean worker rest the whole time, not only while it times. */
static int time_with_foreign(struct apart *w, struct timing *t)
{
	bool rest = t->how & TIME_QUIET;
	t->how &= ~(unsigned)TIME_QUIET;
	if (rest)
		w->ways.rest(w->clean, true);
	int rc = t->n == 1 ? time_one(w, t->handles[0], t->rounds, t->abort_ns, t, t->m) : time_mixed(w, t);
	if (rest)
		w->ways.rest(w->clean, false);
	return rc;
}

static int apart_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		      int64_t deadline_ns, struct meas *m)
{
	struct apart *w = apart_of(r);
	struct timing t = {.handles = handles,
			   .n = n,
			   .rounds = rounds,
			   .abort_ns = abort_ns,
			   .deadline_ns = deadline_ns,
			   .how = how,
			   .m = m};
	for (int i = 0; i < n; i++)
		if (handles[i] >= FIRST_AWAY)
			return time_with_foreign(w, &t);
	return clean_error(w,
			   w->clean->ops->time(w->clean, handles, n, rounds, abort_ns, how, deadline_ns, m));
}

/* ---- the other slots ---- */

/* Foreign candidates may be built ahead, too: builders compile but run nothing. */
static enum ahead apart_ahead(struct runner *r, const char *task, const char *cand)
{
	struct runner *clean = apart_of(r)->clean;
	return clean->ops->ahead(clean, task, cand);
}

static enum ahead apart_progress(struct runner *r, const char *task, const char *cand)
{
	struct runner *clean = apart_of(r)->clean;
	return clean->ops->progress(clean, task, cand);
}

static int apart_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct apart *w = apart_of(r);
	if (handle < FIRST_AWAY)
		return clean_error(w, w->clean->ops->code(w->clean, handle, deadline_ns, a, out));
	const struct away *e = find(w, handle);
	if (!e)
		return lose_all(w, fail(E_CHILD, "handle %d was lost; build it again", handle), deadline_ns);
	void *copy = arena_try(a, e->code.n, 1);
	if (!copy)
		return E_NOMEM;
	memcpy(copy, buf_str(&e->code), e->code.n);
	*out = (struct blob){.p = copy, .n = e->code.n};
	return E_OK;
}

static void apart_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct apart *w = apart_of(r);
	struct away *e = handle >= FIRST_AWAY ? find(w, handle) : NULL;
	if (handle < 0)
		forget_all(w);
	if (e)
		forget(e);
	else if (handle < FIRST_AWAY)
		w->clean->ops->drop(w->clean, handle, deadline_ns);
}

static void apart_close(struct runner *r)
{
	struct apart *w = apart_of(r);
	forget_all(w);
	w->clean->ops->close(w->clean);
	free(w);
}

static const struct runner_ops ops = {
    .build = apart_build,
    .ahead = apart_ahead,
    .progress = apart_progress,
    .time = apart_time,
    .code = apart_code,
    .drop = apart_drop,
    .close = apart_close,
};

int runner_apart(struct runner *clean, const struct apart_ways *ways, struct runner **out)
{
	struct apart *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	w->base = *clean;
	w->base.ops = &ops;
	w->clean = clean;
	w->ways = *ways;
	rng_seed(&w->rng, 1);
	*out = &w->base;
	return E_OK;
}
