/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/source.h"

#include "agent/cache/lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
	struct cache *cache;
	struct target target;
	struct lookup want;
};

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	const struct source *s = ctx;
	struct lookup want = s->want;
	struct rec r;
	(void)t;
	if (out->own && want.kind == REC_BEST)
		want.kind = REC_OWN;
	int rc = lookup_find(s->cache, &want, hash_text(text), text, a, &r, out);
	if (rc >= 0 && r.kind != REC_DEFAULT)
		out->at_default = lookup_at_default(s->cache, &s->want, &r);
	if (rc >= 0)
		*origin = r.kind == REC_DEFAULT ? FROM_DEFAULT : FROM_CACHE;
	return rc;
}

int cache_source(struct cache *c, const struct target *t, int threads, enum level level, enum rec_kind kind,
		 struct kernel_source *out)
{
	struct source *s = malloc(sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory to read kernels from the cache");
	*s = (struct source){.cache = c, .target = *t};
	s->want = (struct lookup){.target_key = target_key(t),
				  .target = &s->target,
				  .threads = threads,
				  .level = level,
				  .kind = kind};
	*out = (struct kernel_source){.ctx = s, .find = find};
	return E_OK;
}

void cache_source_free(struct kernel_source *s)
{
	free(s->ctx);
	s->ctx = NULL;
}
