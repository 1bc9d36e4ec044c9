/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/chosen.h"

#include "agent/cache/chosen_rec.h"
#include "agent/cache/lookup.h"
#include "kernels/graph/optimize.h"
#include "kernels/task/task_stage.h"
#include "platform/base/mix.h"

#include <stdio.h>
#include <string.h>

static struct chosen_rec rec_for(const struct chosen_for *f, struct key model, int threads, enum level level)
{
	struct chosen_rec r = {.model = model,
			       .target_key = target_key(f->target),
			       .threads = threads,
			       .level = level,
			       .choices = ""};
	strcpy(r.device, target_device(f->target));
	return r;
}

/* E_NOTFOUND: there is none, or it is damaged. */
static int load_one(const struct chosen_for *f, enum cache_type t, const struct chosen_rec *r,
		    struct arena *a, struct choices *out)
{
	struct blob b;
	struct chosen_rec got;
	struct key k = chosen_rec_key(r);
	int rc = cache_get(f->cache, t, k, a, &b);
	if (rc >= 0)
		rc = chosen_rec_parse(b.p, &got);
	if (rc >= 0)
		rc = key_equal(chosen_rec_key(&got), k) ? choices_parse(got.choices, a, out) : E_CORRUPT;
	return rc == E_CORRUPT ? E_NOTFOUND : rc;
}

/* Whether chosen_load also reads choices of the former version. The build sets it to 0 for libhone: the code
 * of that version's records must be compiled again, so libhone has no kernels for those choices. */
#ifndef CHOSEN_FORMER
#define CHOSEN_FORMER 1
#endif

static struct key former_key(const struct chosen_rec *r)
{
	char options[64];
	snprintf(options, sizeof options, "%s %d %d", r->device, r->threads, r->level);
	return mix_join(mix_join(r->model, r->target_key), mix_text(options));
}

/* Loads the former version's record, which has only choices. Choices that it took from strangers have a
 * CACHE_SHARED record beside them, and are skipped. */
static int load_former(const struct chosen_for *f, const struct chosen_rec *r, struct arena *a,
		       struct choices *out)
{
	struct blob b;
	struct key k = former_key(r);
	struct key strangers = mix_join(mix_text("strangers"), mix_join(mix_text("choices"), k));
	int rc = cache_get(f->cache, CACHE_SHARED, strangers, a, &b) >= 0
		     ? E_NOTFOUND
		     : cache_get(f->cache, CACHE_CHOICES, k, a, &b);
	if (rc >= 0)
		rc = choices_parse(b.p, a, out);
	return rc == E_CORRUPT ? E_NOTFOUND : rc;
}

int chosen_load(const struct chosen_for *f, const struct graph *g, struct arena *a, struct choices *out)
{
	struct key model = graph_key(g);
	int threads[LOOKUP_THREADS], n = lookup_threads(f->threads, threads);
	*out = (struct choices){0};
	for (int of = (int)f->level; f->cache && of >= 0; of = level_below(of))
		for (int i = 0; i < n; i++) {
			const struct chosen_rec r = rec_for(f, model, threads[i], (enum level)of);
			int rc = load_one(f, CACHE_CHOICES, &r, a, out);
			if (CHOSEN_FORMER && rc == E_NOTFOUND)
				rc = load_former(f, &r, a, out);
			if (rc != E_NOTFOUND)
				return rc;
		}
	return E_OK;
}

int chosen_hint(const struct chosen_for *f, const struct graph *g, struct arena *a, struct choices *out)
{
	const struct chosen_rec r = rec_for(f, graph_key(g), f->threads, f->level);
	*out = (struct choices){0};
	return f->cache ? load_one(f, CACHE_HINT_CHOICES, &r, a, out) : E_NOTFOUND;
}

int chosen_hint_forget(const struct chosen_for *f, const struct graph *g)
{
	const struct chosen_rec r = rec_for(f, graph_key(g), f->threads, f->level);
	return f->cache ? cache_forget(f->cache, CACHE_HINT_CHOICES, chosen_rec_key(&r)) : E_OK;
}

int chosen_save(const struct chosen_for *f, const struct graph *g, const struct choices *c)
{
	struct buf choices = {0}, text = {0};
	struct chosen_rec r = rec_for(f, graph_key(g), f->threads, f->level);
	choices_text(c, &choices);
	r.choices = buf_str(&choices);
	chosen_rec_text(&r, &text);
	int rc = buf_ok(&choices) && buf_ok(&text)
		     ? cache_put(f->cache, CACHE_CHOICES, chosen_rec_key(&r), text.p, text.n)
		     : fail(E_NOMEM, "no memory for the choices");
	buf_free(&choices);
	buf_free(&text);
	return rc;
}

int chosen_forget(const struct chosen_for *f, const struct graph *g)
{
	enum { THREADS = 64 };
	struct key model = graph_key(g);
	int rc = E_OK;
	for (int i = 0; i < LEVELS * THREADS && rc >= 0; i++) {
		const struct chosen_rec r = rec_for(f, model, 1 + i / LEVELS, (enum level)(i % LEVELS));
		rc = cache_forget(f->cache, CACHE_CHOICES, chosen_rec_key(&r));
		if (rc >= 0)
			rc = cache_forget(f->cache, CACHE_CHOICES, former_key(&r));
		if (rc >= 0)
			rc = cache_forget(f->cache, CACHE_HINT_CHOICES, chosen_rec_key(&r));
	}
	return rc;
}

static bool has_kernel(const struct chosen_for *f, int n, const struct task *t)
{
	struct arena scratch = {0};
	struct rec r;
	struct key k = task_key(t);
	bool there = false;
	for (int i = 0; i < n && !there; i++)
		there = f[i].cache &&
			cache_find_rec(f[i].cache, k, f[i].target, f[i].threads, f[i].level, REC_BEST,
				       &scratch, &r) >= 0 &&
			cache_has_code(f[i].cache, f[i].target, &r);
	arena_free(&scratch);
	return there;
}

static bool lacks_bytes(const struct chosen_for *f, int n, const struct steps *s)
{
	for (int i = 0; i < s->nsteps && n; i++) {
		const struct step *st = &s->step[i];
		if (st->kind != STEP_TASK || st->fused || task_floats(st->task))
			continue;
		if (!has_kernel(f, n, st->task) &&
		    (st->fused_by < 0 || !has_kernel(f, n, s->step[st->fused_by].task)))
			return true;
	}
	return false;
}

int chosen_divide(const struct target *t, const struct chosen_for *f, int n, struct graph *g, struct arena *a,
		  struct choices *c, struct steps **out)
{
	int rc = graph_steps(g, t, c, a, out);
	if (rc < 0 && rc != E_NOMEM && c->n) {
		*c = (struct choices){0}; /* a record that does not fit the graph is a miss */
		return graph_steps(g, t, c, a, out);
	}
	if (rc < 0 || !choices_get(c, CHOICE_BYTES, CHOICE_ALL, 0) || !lacks_bytes(f, n, *out))
		return rc;
	choices_set(c, a, CHOICE_BYTES, CHOICE_ALL, -1);
	return graph_steps(g, t, c, a, out);
}

int chosen_steps(const struct chosen_for *f, struct graph *g, struct arena *a, struct choices *c,
		 struct steps **out)
{
	int rc = graph_optimize(g);
	if (rc >= 0)
		rc = chosen_load(f, g, a, c);
	return rc < 0 ? rc : chosen_divide(f->target, f, f->cache != NULL, g, a, c, out);
}
