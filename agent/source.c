/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/source.h"

#include "agent/kept_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
	struct cache *cache;
	struct key target_key;
	int threads;
	bool exact;
	enum rec_kind kind;
};

/* The code of a record. Damaged, missing or of another revision: E_NOTFOUND. */
static int find_code(struct cache *c, const struct rec *r, struct arena *a, struct code *out)
{
	struct blob bytes;
	int rc = kept_code_get(c, r, a, &bytes);
	if (rc >= 0)
		rc = code_parse(bytes.p, bytes.n, a, out);
	if (rc >= 0 && !code_is_current(&out->m))
		return fail(E_NOTFOUND, "code in the cache is of another revision");
	return rc == E_CORRUPT ? fail(E_NOTFOUND, "damaged code in the cache") : rc;
}

/* A record of the task with this text; of the task with this key where the text is NULL. */
static int get_rec(const struct source *s, const struct rec *want, const char *text, struct arena *a,
		   struct rec *out)
{
	int rc = cache_get_rec(s->cache, rec_key(want), a, out);
	return rc >= 0 && text && strcmp(out->task_text, text)
		   ? fail(E_NOTFOUND, "the record in the cache is of another task")
		   : rc;
}

/* The best record there is, best first: kind, exactness, threads. With `code`: that has its code. */
static int find_rec(const struct source *s, struct key task, const char *text, struct arena *a, struct rec *out,
		    struct code *code)
{
	struct rec want = {.task = task, .target_key = s->target_key, .device = "cpu"};
	for (int kind = (int)s->kind; kind >= (int)REC_DEFAULT; kind--)
		for (int exact = s->exact; exact <= 1; exact++)
			for (int one = 0; one <= (s->threads != 1); one++) {
				want.kind = kind;
				want.exact = exact;
				want.threads = one ? 1 : s->threads;
				int rc = get_rec(s, &want, text, a, out);
				if (rc >= 0 && code)
					rc = find_code(s->cache, out, a, code);
				if (rc != E_NOTFOUND)
					return rc;
			}
	return fail(E_NOTFOUND, "no record of this task in the cache");
}

bool cache_has_code(struct cache *c, const struct rec *r)
{
	struct arena scratch = {0};
	struct code code;
	bool there = find_code(c, r, &scratch, &code) >= 0;
	arena_free(&scratch);
	return there;
}

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	const struct source *s = ctx;
	struct rec r;
	(void)t;
	int rc = find_rec(s, hash_text(text), text, a, &r, out);
	if (rc >= 0)
		*origin = r.kind == REC_DEFAULT ? FROM_DEFAULT : FROM_CACHE;
	return rc;
}

int cache_source(struct cache *c, const struct target *t, int threads, bool exact, enum rec_kind kind,
		 struct kernel_source *out)
{
	struct source *s = malloc(sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory to read kernels from the cache");
	*s = (struct source){
	    .cache = c, .target_key = target_key(t), .threads = threads, .exact = exact, .kind = kind};
	*out = (struct kernel_source){.ctx = s, .find = find};
	return E_OK;
}

void cache_source_free(struct kernel_source *s)
{
	free(s->ctx);
	s->ctx = NULL;
}

int cache_find_rec(struct cache *c, struct key task, const struct target *t, int threads, bool exact,
		   enum rec_kind kind, struct arena *a, struct rec *out)
{
	const struct source s = {
	    .cache = c, .target_key = target_key(t), .threads = threads, .exact = exact, .kind = kind};
	return find_rec(&s, task, NULL, a, out, NULL);
}
