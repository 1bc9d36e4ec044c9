/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/own.h"

#include "agent/cache/kept_code.h"
#include "kernels/library/library.h"
#include "platform/base/log.h"

void own_keep(struct cache *c, const struct rec *next)
{
	struct arena a = {0};
	struct rec own;
	struct blob code;
	if (next->kind == REC_BEST && library_is_cand(next->cand) &&
	    cache_get_rec(c, rec_key(next), &a, &own) >= 0 && !library_is_cand(own.cand) &&
	    kept_code_get(c, &own, &a, &code) >= 0) {
		own.kind = REC_OWN;
		int rc = kept_code_put(c, &own, code);
		if (rc >= 0 || rc == E_IO) /* then it stays in memory */
			rc = cache_put_rec(c, &own);
		if (rc < 0)
			log_more("hone's own kernel is not kept beside a library's: %s", err_text());
	}
	arena_free(&a);
}

bool own_is_best(struct cache *c, const struct rec *r)
{
	struct arena a = {0};
	struct rec best, key = *r;
	key.kind = REC_BEST;
	bool is = r->kind == REC_OWN &&
		  (cache_get_rec(c, rec_key(&key), &a, &best) < 0 || library_is_cand(best.cand));
	arena_free(&a);
	return is;
}
