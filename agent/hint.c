/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hint.h"

#include "agent/source.h"
#include "search/job.h"

#include <string.h>

bool hint_open(const struct rec *r)
{
	return r->kind == REC_HINT && r->meas.status == MEAS_OK && r->meas.runs == 0;
}

int hint_get(struct cache *c, const struct rec *of, struct arena *a, struct rec *out)
{
	struct rec key = *of;
	key.kind = REC_HINT;
	return cache_get_rec(c, rec_key(&key), a, out);
}

static int find_trial(const struct trials *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, cand))
			return i;
	return -1;
}

/* The log keeps fastest runs alone. */
static struct meas meas_of(const struct trials *l, const struct tried *t)
{
	bool timed = t->ns > 0;
	return (struct meas){.status = t->status,
			     .runs = timed,
			     .min_ns = timed ? t->ns : 0,
			     .median_ns = timed ? t->ns : 0,
			     .build_ns = t->build_ns,
			     .threads = timed ? l->threads : 0};
}

/* The log says what became of it, and so does *h now. */
static bool answer(const struct trials *l, struct rec *h)
{
	int i = find_trial(l, h->cand);
	if (i < 0 || (l->entry[i].t.status == MEAS_OK && l->entry[i].t.ns <= 0))
		return false;
	h->meas = meas_of(l, &l->entry[i].t);
	memcpy(h->emitter, l->emitter, sizeof h->emitter);
	return true;
}

int hint_learn(struct cache *c, const struct trials *l)
{
	struct arena a = {0};
	struct rec of = {
	    .task = l->task, .target_key = l->target_key, .threads = l->threads, .exact = l->exact};
	struct rec h;
	memcpy(of.device, l->device, sizeof of.device);
	int rc = hint_get(c, &of, &a, &h);
	if (rc >= 0)
		rc = hint_open(&h) && answer(l, &h) ? cache_put_rec(c, &h) : E_OK;
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

int hint_put(struct cache *c, const struct rec *of)
{
	struct arena a = {0};
	struct trials *l = ARENA_NEW(&a, struct trials);
	struct rec h = *of;
	bool known = false;
	h.kind = REC_HINT;
	h.meas = (struct meas){.status = MEAS_OK};
	*l = (struct trials){
	    .task = of->task, .target_key = of->target_key, .threads = of->threads, .exact = of->exact};
	memcpy(l->device, of->device, sizeof l->device);
	if (trials_get(c, trials_key(l), l) >= 0) {
		known = answer(l, &h);
		trials_free(l);
	}
	int rc = cache_put_rec(c, &h);
	arena_free(&a);
	if (rc < 0)
		return rc;
	return !known ? HINT_OPEN : h.meas.status == MEAS_OK ? HINT_WORKED : HINT_FAILED;
}

bool hint_claims(struct cache *c, const struct rec *best)
{
	struct arena a = {0};
	struct rec h;
	bool claims = best->kind == REC_BEST && hint_get(c, best, &a, &h) >= 0 && hint_open(&h) &&
		      !strcmp(h.cand, best->cand) && !cache_has_code(c, best);
	arena_free(&a);
	return claims;
}
