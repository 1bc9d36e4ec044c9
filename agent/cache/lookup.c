/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/lookup.h"

#include "agent/cache/kept_code.h"
#include "kernels/library/library.h"

#include <stdlib.h>
#include <string.h>

/* Gets the code of a record. Damaged, missing, of another revision, or with instructions that the target
 * lacks (boards of one class can differ in what their kernels enable): E_NOTFOUND. */
static int find_code(struct cache *c, const struct target *t, const struct rec *r, struct arena *a,
		     struct code *out)
{
	struct blob bytes;
	int rc = kept_code_get(c, r, a, &bytes);
	if (rc >= 0)
		rc = code_parse(bytes.p, bytes.n, a, out);
	if (rc >= 0 && !code_is_current(&out->m))
		return fail(E_NOTFOUND, "code in the cache is of another revision");
	if (rc >= 0 && t && !target_has(t, out->m.features))
		return fail(E_NOTFOUND, "code in the cache needs %.200s, not all of which this machine has",
			    out->m.features);
	return rc == E_CORRUPT ? fail(E_NOTFOUND, "damaged code in the cache") : rc;
}

/* Gets a record of the task with this text; if the text is NULL, of the task with this key. */
static int get_rec(struct cache *c, const struct rec *want, const char *text, struct arena *a,
		   struct rec *out)
{
	int rc = cache_get_rec(c, rec_key(want), a, out);
	return rc >= 0 && text && strcmp(out->task_text, text)
		   ? fail(E_NOTFOUND, "the record in the cache is of another task")
		   : rc;
}

/* Gets the record of this kind, and its code if `code` is not NULL. */
static int get_kind(struct cache *c, const struct lookup *l, struct rec *want, int kind, const char *text,
		    struct arena *a, struct rec *out, struct code *code)
{
	want->kind = kind;
	int rc = get_rec(c, want, text, a, out);
	if (rc >= 0 && l->kind == REC_OWN && library_is_cand(out->cand))
		return E_NOTFOUND;
	return rc >= 0 && code ? find_code(c, l->target, out, a, code) : rc;
}

int lookup_threads(int own, int out[LOOKUP_THREADS])
{
	static const int usual[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64};
	int n = 0;
	out[n++] = own;
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
		int k = n;
		if (usual[i] == own)
			continue;
		for (; k > 1 && abs(out[k - 1] - own) > abs(usual[i] - own); k--)
			out[k] = out[k - 1];
		out[k] = usual[i];
		n++;
	}
	return n;
}

int lookup_find(struct cache *c, const struct lookup *l, struct key task, const char *text, struct arena *a,
		struct rec *out, struct code *code)
{
	struct rec want = {.task = task, .target_key = l->target_key};
	int threads[LOOKUP_THREADS], n = lookup_threads(l->threads, threads);
	strcpy(want.device, l->target ? target_device(l->target) : "cpu");
	for (int kind = l->kind == REC_OWN ? REC_BEST : (int)l->kind; kind >= (int)REC_DEFAULT; kind--)
		for (int of = (int)l->level; of >= 0; of = level_below(of))
			for (int i = 0; i < n; i++) {
				want.level = (enum level)of;
				want.threads = threads[i];
				int rc = get_kind(c, l, &want, kind, text, a, out, code);
				if (rc == E_NOTFOUND && kind == REC_BEST)
					rc = get_kind(c, l, &want, REC_OWN, text, a, out, code);
				if (rc != E_NOTFOUND)
					return rc;
			}
	return fail(E_NOTFOUND, "no record of this task in the cache");
}

bool lookup_at_default(struct cache *c, const struct lookup *l, const struct rec *found)
{
	struct arena scratch = {0};
	struct lookup of_default = *l;
	struct rec r;
	of_default.kind = REC_DEFAULT;
	bool same = lookup_find(c, &of_default, found->task, found->task_text, &scratch, &r, NULL) >= 0 &&
		    !strcmp(r.cand, found->cand);
	arena_free(&scratch);
	return same;
}

bool cache_has_code(struct cache *c, const struct target *t, const struct rec *r)
{
	struct arena scratch = {0};
	struct code code;
	bool there = find_code(c, t, r, &scratch, &code) >= 0;
	arena_free(&scratch);
	return there;
}

int cache_find_rec(struct cache *c, struct key task, const struct target *t, int threads, enum level level,
		   enum rec_kind kind, struct arena *a, struct rec *out)
{
	const struct lookup l = {
	    .target_key = target_key(t), .target = t, .threads = threads, .level = level, .kind = kind};
	return lookup_find(c, &l, task, NULL, a, out, NULL);
}
