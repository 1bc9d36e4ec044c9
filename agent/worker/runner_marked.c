/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/marked.h"

#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERED = 1024 /* candidates that answered and are remembered; the newest, if there are more */ };

static const char first_line[] = "hone-risk 1\n";

/* A built candidate. */
struct launched {
	int handle; /* -1: free */
	int ends;   /* runs that its mark had counted before it answered */
	struct key key;
	char *task, *cand; /* malloc'd */
};

struct marked {
	struct runner base;
	struct runner *inner;
	struct cache *cache;
	char device[16];
	struct key target;
	struct answer {
		struct key key;
		int ends; /* as in struct launched */
	} answered[ANSWERED];
	unsigned nanswered; /* number since the start */
	struct launched *launched;
	int cap;
	struct arena arena;
};

static struct marked *marked_of(struct runner *r)
{
	return (struct marked *)r;
}

static struct key launch_key(const struct marked *w, const char *task, const char *cand)
{
	struct key k = hash_join(hash_text(task), hash_text(cand));
	k = hash_join(k, w->target);
	k = hash_join(k, hash_text(w->device));
	return hash_join(k, hash_text(w->base.emitter));
}

/* NULL: it has not answered. */
static const struct answer *find_answer(const struct marked *w, struct key k)
{
	for (unsigned i = 0; i < ANSWERED && i < w->nanswered; i++)
		if (key_equal(w->answered[i].key, k))
			return &w->answered[i];
	return NULL;
}

static void forget_answer(struct marked *w, struct key k)
{
	for (unsigned i = 0; i < ANSWERED && i < w->nanswered; i++)
		if (key_equal(w->answered[i].key, k))
			w->answered[i] = (struct answer){.ends = 0};
}

/* Whether the last line of a mark begins with these words. */
static const char *last_line(struct blob b, const char *words)
{
	const char *p = b.p, *line = b.n > 1 ? memrchr(p, '\n', b.n - 1) : NULL;
	size_t n = strlen(words);
	return line && (size_t)(p + b.n - line) > n + 1 && !memcmp(line + 1, words, n) ? line + 1 + n : NULL;
}

/* Whether the candidate is marked, and not only because too few of its runs ended badly. *ends: how many of
 * them counted. *how: what the logs say of it. */
static bool is_marked(struct marked *w, struct key k, int *ends, enum meas_status *how)
{
	struct blob b;
	arena_reset(&w->arena);
	*ends = 0;
	*how = MEAS_CRASH;
	if (cache_get(w->cache, CACHE_RISK, k, &w->arena, &b) < 0)
		return false;
	const char *ended = last_line(b, "ended ");
	if (last_line(b, "hung") || ended)
		*how = MEAS_TIMEOUT;
	else
		ended = last_line(b, "crashed ");
	if (!ended || *ended < '0' || *ended > '9')
		return true;
	*ends = *ended - '0';
	return *ends >= MARKED_ENDS;
}

/* Why a candidate is marked; the last two count runs. */
enum cause { NO_ANSWER, HUNG, ENDED, CRASHED };

static int mark(struct marked *w, struct key k, const char *task, const char *cand, enum cause cause,
		int ends)
{
	struct buf text = {0};
	char hex[33];
	key_text(hash_text(task), hex);
	buf_printf(&text, "%s%s\n%s\n%s\n%s\n", first_line, hex, w->device, w->base.emitter, cand);
	if (cause == HUNG)
		buf_puts(&text, "hung\n");
	if (cause == ENDED || cause == CRASHED)
		buf_printf(&text, "%s %d\n", cause == ENDED ? "ended" : "crashed",
			   ends < MARKED_ENDS ? ends : MARKED_ENDS);
	int rc = buf_ok(&text) ? cache_put(w->cache, CACHE_RISK, k, text.p, text.n)
			       : fail(E_NOMEM, "no memory for a quarantine mark");
	buf_free(&text);
	if (rc >= 0)
		rc = cache_commit(w->cache);
	return fail_in(rc, "a candidate is not run on a risky device without a quarantine mark in the cache");
}

/* The worker lives, or was told to stop, so the launch did no harm. */
static bool harmless(int rc)
{
	return rc != E_CHILD && rc != E_TIMEOUT;
}

static int clear(struct marked *w, struct key k, int ends, int rc)
{
	if (rc >= 0)
		w->answered[w->nanswered++ % ANSWERED] = (struct answer){k, ends};
	return cache_forget(w->cache, CACHE_RISK, k);
}

static bool is_over(const struct marked *w, int64_t deadline_ns)
{
	return clock_now(w->base.clock) >= deadline_ns;
}

/* ---- handles ---- */

static void drop_launched(struct launched *l)
{
	free(l->task);
	free(l->cand);
	*l = (struct launched){.handle = -1};
}

static void drop_all(struct marked *w)
{
	for (int i = 0; i < w->cap; i++)
		drop_launched(&w->launched[i]);
}

static struct launched *find(struct marked *w, int handle)
{
	for (int i = 0; i < w->cap; i++)
		if (w->launched[i].handle == handle)
			return &w->launched[i];
	return NULL;
}

/* Without memory, a hang of it in a timed run gets no mark. */
static void remember(struct marked *w, int handle, struct key k, const char *task, const char *cand, int ends)
{
	struct launched *l = find(w, -1);
	if (!l) {
		int cap = w->cap ? 2 * w->cap : 32;
		struct launched *p = realloc(w->launched, sizeof *p * (size_t)cap);
		if (!p)
			return;
		for (int i = w->cap; i < cap; i++)
			p[i] = (struct launched){.handle = -1};
		l = p + w->cap;
		w->launched = p;
		w->cap = cap;
	}
	*l = (struct launched){
	    .handle = handle, .ends = ends, .key = k, .task = strdup(task), .cand = strdup(cand)};
	if (!l->task || !l->cand)
		drop_launched(l);
}

/* Marks a candidate whose launch gave the error rc, after it had answered or because it hangs. Gives that
 * error again, or that of the cache. */
static int mark_again(struct marked *w, struct key k, const char *task, const char *cand, enum cause cause,
		      int ends, int rc)
{
	char why[1024];
	snprintf(why, sizeof why, "%s", err_text());
	forget_answer(w, k);
	int marked = mark(w, k, task, cand, cause, ends);
	return marked < 0 ? marked : fail(rc, "%s", why);
}

static int marked_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct marked *w = marked_of(r);
	struct key k = launch_key(w, task, cand);
	const struct answer *known = find_answer(w, k);
	int ends = known ? known->ends : 0;
	enum meas_status how;
	*handle = -1;
	*m = (struct meas){.threads = r->threads};
	if (!known && is_marked(w, k, &ends, &how)) {
		m->status = how;
		log_more("not run: an earlier run of it never returned: %s", cand);
		return E_OK;
	}
	int rc = known ? E_OK : mark(w, k, task, cand, NO_ANSWER, 0);
	if (rc < 0)
		return rc;
	int64_t start_ns = clock_now(r->clock);
	rc = w->inner->ops->build(w->inner, task, cand, deadline_ns, handle, m);
	if (rc == E_CHILD)
		drop_all(w);
	if (*handle >= 0)
		remember(w, *handle, k, task, cand, ends);
	bool ended = rc == E_TIMEOUT && is_over(w, deadline_ns);
	int kept = E_OK;
	int took_long = clock_now(r->clock) - start_ns >= MARKED_LONG_NS;
	if (rc == E_TIMEOUT && !ended)
		return mark_again(w, k, task, cand, HUNG, 0, rc);
	if (known)
		return ended || harmless(rc) ? rc : mark_again(w, k, task, cand, NO_ANSWER, 0, rc);
	if (ended)
		kept = mark(w, k, task, cand, ENDED, ends + took_long);
	else if (harmless(rc))
		kept = clear(w, k, ends, rc);
	return rc < 0 ? rc : kept;
}

static enum ahead marked_ahead(struct runner *r, const char *task, const char *cand)
{
	struct marked *w = marked_of(r);
	return w->inner->ops->ahead(w->inner, task, cand);
}

static enum ahead marked_progress(struct runner *r, const char *task, const char *cand)
{
	struct marked *w = marked_of(r);
	return w->inner->ops->progress(w->inner, task, cand);
}

static int marked_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
		       unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct marked *w = marked_of(r);
	int rc = w->inner->ops->time(w->inner, handles, n, rounds, abort_ns, how, deadline_ns, m);
	if (rc != E_CHILD)
		return rc;
	int bad = meas_blamed(m, n);
	const struct launched *l = bad < 0 ? NULL : find(w, handles[bad]);
	if (l && is_over(w, deadline_ns))
		rc = mark_again(w, l->key, l->task, l->cand, ENDED, 1, rc);
	else if (l && m[bad].status == MEAS_TIMEOUT)
		rc = mark_again(w, l->key, l->task, l->cand, HUNG, 0, rc);
	else if (l)
		rc = mark_again(w, l->key, l->task, l->cand, CRASHED, l->ends + 1, rc);
	drop_all(w);
	return rc;
}

static int marked_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct marked *w = marked_of(r);
	return w->inner->ops->code(w->inner, handle, deadline_ns, a, out);
}

static void marked_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct marked *w = marked_of(r);
	struct launched *l = handle < 0 ? NULL : find(w, handle);
	if (handle < 0)
		drop_all(w);
	if (l)
		drop_launched(l);
	w->inner->ops->drop(w->inner, handle, deadline_ns);
}

static void marked_close(struct runner *r)
{
	struct marked *w = marked_of(r);
	w->inner->ops->close(w->inner);
	drop_all(w);
	free(w->launched);
	arena_free(&w->arena);
	free(w);
}

static const struct runner_ops ops = {
    .build = marked_build,
    .ahead = marked_ahead,
    .progress = marked_progress,
    .time = marked_time,
    .code = marked_code,
    .drop = marked_drop,
    .close = marked_close,
};

int runner_marked(struct runner *inner, struct cache *c, const char *device, struct runner **out)
{
	struct marked *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	w->base = *inner;
	w->base.ops = &ops;
	w->inner = inner;
	w->cache = c;
	w->target = target_key(inner->target);
	snprintf(w->device, sizeof w->device, "%s", device);
	*out = &w->base;
	return E_OK;
}

/* Reads the task's key of a quarantine mark that may be damaged. */
static bool read_task(struct blob b, struct key *task)
{
	const size_t head = sizeof first_line - 1;
	char hex[33] = "";
	if (b.n < head + 32 || memcmp(b.p, first_line, head) != 0)
		return false;
	memcpy(hex, (const char *)b.p + head, 32);
	return key_parse(hex, task) >= 0;
}

int marked_forget(struct cache *c, bool (*wanted)(void *ctx, struct key task), void *ctx)
{
	struct arena keys = {0}, a = {0};
	struct key *k, task;
	struct blob b;
	int n = cache_keys(c, CACHE_RISK, &keys, &k), rc = 0, gone = 0;
	for (int i = 0; i < n && rc >= 0; i++) {
		arena_reset(&a);
		if (cache_get(c, CACHE_RISK, k[i], &a, &b) < 0 || (read_task(b, &task) && !wanted(ctx, task)))
			continue;
		rc = cache_forget(c, CACHE_RISK, k[i]);
		gone += rc >= 0;
	}
	arena_free(&a);
	arena_free(&keys);
	return rc < 0 ? rc : gone;
}
