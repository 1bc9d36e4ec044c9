/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/revert.h"

#include "agent/source.h"

#include <string.h>

enum { NOISE = 50 }; /* a gain below one part in so many is none */

/* The first kernel of a task answers for all. */
static bool loses(int n, const struct served *k, int first)
{
	int64_t def_ns = 0, best_ns = 0;
	for (int i = 0; i < n; i++) {
		if (!key_equal(k[i].task, k[first].task))
			continue;
		if (i < first || k[i].default_ns <= 0 || k[i].best_ns <= 0)
			return false;
		def_ns += k[i].default_ns;
		best_ns += k[i].best_ns;
	}
	return best_ns - def_ns > best_ns / NOISE;
}

/* 1: it went back; 0: there is no default, or it is the best already. */
static int put_back(struct cache *c, const struct target *t, int threads, bool exact, struct key task,
		    struct arena *a)
{
	struct rec def, best;
	struct blob code;
	int rc = cache_find_rec(c, task, t, threads, exact, REC_BEST, a, &best);
	if (rc >= 0)
		rc = cache_find_rec(c, task, t, threads, exact, REC_DEFAULT, a, &def);
	if (rc >= 0)
		rc = cache_get(c, CACHE_CODE, code_key(&def), a, &code);
	if (rc == E_NOTFOUND || (rc >= 0 && !strcmp(def.cand, best.cand)))
		return 0;
	if (rc < 0)
		return rc;
	def.kind = REC_BEST;
	def.threads = threads;
	def.exact = exact;
	rc = cache_put(c, CACHE_CODE, code_key(&def), code.p, code.n);
	if (rc >= 0)
		rc = cache_put_rec(c, &def);
	return rc < 0 ? rc : 1;
}

int revert(struct cache *c, const struct target *t, int threads, bool exact, int nkernels,
	   const struct served *kernel)
{
	struct arena scratch = {0};
	int n = 0, rc = E_OK;
	for (int i = 0; i < nkernels && rc >= 0; i++) {
		if (!loses(nkernels, kernel, i))
			continue;
		rc = put_back(c, t, threads, exact, kernel[i].task, &scratch);
		n += rc > 0;
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return rc < 0 ? rc : n;
}
