/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/revert.h"

#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GAIN 0.02 /* a smaller loss is ignored */
#define SIGMAS                                                                                               \
	2.6 /* of a fair coin's throws: 1 in 200 tasks that are neither faster nor slower is reverted        \
	       by chance */

/* Sums over a task's kernels in round r; false: one has no time. */
static bool sum_round(int n, const struct served *k, struct key task, int r, double *def_ns, double *best_ns)
{
	*def_ns = *best_ns = 0;
	for (int i = 0; i < n; i++) {
		if (!key_equal(k[i].task, task))
			continue;
		if (r >= k[i].rounds || k[i].default_ns[r] <= 0 || k[i].best_ns[r] <= 0)
			return false;
		*def_ns += (double)k[i].default_ns[r];
		*best_ns += (double)k[i].best_ns[r];
	}
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Judges a task at its first kernel; false for its other kernels. */
static bool loses(int n, const struct served *k, int first)
{
	double ratio[SERVED_ROUNDS], def_ns, best_ns;
	int rounds = k[first].rounds, slower = 0;
	for (int i = 0; i < first; i++)
		if (key_equal(k[i].task, k[first].task))
			return false;
	for (int r = 0; r < rounds; r++) {
		if (!sum_round(n, k, k[first].task, r, &def_ns, &best_ns))
			return false;
		ratio[r] = best_ns / def_ns;
		slower += ratio[r] > 1;
	}
	qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
	return rounds > 0 && ratio[rounds / 2] > 1 + GAIN &&
	       slower >= rounds / 2. + SIGMAS / 2 * sqrt(rounds);
}

/* Returns 1: reverted; 0: there is no default, or it is the best already. */
static int put_back(struct cache *c, const struct target *t, int threads, enum level level, struct key task,
		    struct arena *a)
{
	struct rec def, best;
	struct blob code;
	int rc = cache_find_rec(c, task, t, threads, level, REC_BEST, a, &best);
	if (rc >= 0)
		rc = cache_find_rec(c, task, t, threads, level, REC_DEFAULT, a, &def);
	if (rc >= 0)
		rc = kept_code_get(c, &def, a, &code);
	if (rc == E_NOTFOUND || (rc >= 0 && !strcmp(def.cand, best.cand)))
		return 0;
	if (rc < 0)
		return rc;
	def.kind = REC_BEST;
	def.threads = threads;
	def.level = level;
	rc = kept_code_put(c, &def, code);
	if (rc >= 0)
		rc = cache_put_rec(c, &def);
	return rc < 0 ? rc : 1;
}

int revert_all(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
	       const struct key *task)
{
	struct arena scratch = {0};
	int n = 0, rc = E_OK;
	for (int i = 0; i < ntasks && rc >= 0; i++) {
		rc = put_back(c, t, threads, level, task[i], &scratch);
		n += rc > 0;
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return rc < 0 ? rc : n;
}

void bests_keep(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
		const struct key *task, struct arena *a, struct bests *out)
{
	*out = (struct bests){0, ARENA_ARRAY(a, struct rec, ntasks + 1),
			      ARENA_ARRAY(a, struct blob, ntasks + 1)};
	for (int i = 0; i < ntasks; i++) {
		struct rec *r = &out->rec[out->n];
		if (cache_find_rec(c, task[i], t, threads, level, REC_BEST, a, r) < 0 ||
		    kept_code_get(c, r, a, &out->code[out->n]) < 0)
			continue;
		r->threads = threads;
		r->level = level;
		out->n++;
	}
}

int bests_restore(struct cache *c, const struct target *t, const struct bests *b)
{
	struct arena scratch = {0};
	int n = 0, rc = E_OK;
	for (int i = 0; i < b->n && rc >= 0; i++) {
		const struct rec *r = &b->rec[i];
		struct rec now;
		bool same =
		    cache_find_rec(c, r->task, t, r->threads, r->level, REC_BEST, &scratch, &now) >= 0 &&
		    !strcmp(now.cand, r->cand);
		if (!same)
			rc = kept_code_put(c, r, b->code[i]);
		if (!same && rc >= 0)
			rc = cache_put_rec(c, r);
		n += !same;
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return rc < 0 ? rc : n;
}

bool all_at_defaults(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
		     const struct key *task)
{
	struct arena scratch = {0};
	const struct lookup l = {
	    .target_key = target_key(t), .target = t, .threads = threads, .level = level, .kind = REC_BEST};
	bool same = ntasks > 0;
	for (int i = 0; i < ntasks && same; i++) {
		struct rec best;
		same = lookup_find(c, &l, task[i], NULL, &scratch, &best, NULL) >= 0 &&
		       lookup_at_default(c, &l, &best);
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return same;
}

int revert(struct cache *c, const struct target *t, int threads, enum level level, int nkernels,
	   const struct served *kernel)
{
	struct arena a = {0};
	struct key *lost = ARENA_ARRAY(&a, struct key, nkernels + 1);
	int n = 0;
	for (int i = 0; i < nkernels; i++)
		if (loses(nkernels, kernel, i))
			lost[n++] = kernel[i].task;
	int rc = revert_all(c, t, threads, level, n, lost);
	arena_free(&a);
	return rc;
}
