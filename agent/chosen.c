/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/chosen.h"

#include <stdio.h>

static struct key choices_key(const struct chosen_for *f, const struct graph *g, int threads, bool exact)
{
	char options[64];
	snprintf(options, sizeof options, "cpu %d %d", threads, exact);
	return hash_join(hash_join(graph_key(g), target_key(f->target)), hash_text(options));
}

/* E_NOTFOUND: none, or damaged. */
static int load_one(const struct chosen_for *f, struct key k, struct arena *a, struct choices *out)
{
	struct blob b;
	int rc = cache_get(f->cache, CACHE_CHOICES, k, a, &b);
	if (rc >= 0)
		rc = choices_parse(arena_strndup(a, b.p, b.n), a, out);
	return rc == E_CORRUPT ? E_NOTFOUND : rc;
}

int chosen_load(const struct chosen_for *f, const struct graph *g, struct arena *a, struct choices *out)
{
	*out = (struct choices){0};
	for (int exact = f->exact; f->cache && exact <= 1; exact++)
		for (int one = 0; one <= (f->threads != 1); one++) {
			struct key k = choices_key(f, g, one ? 1 : f->threads, exact);
			int rc = load_one(f, k, a, out);
			if (rc != E_NOTFOUND)
				return rc;
		}
	return E_OK;
}

int chosen_save(const struct chosen_for *f, const struct graph *g, const struct choices *c)
{
	struct buf text = {0};
	choices_text(c, &text);
	int rc = buf_ok(&text) ? cache_put(f->cache, CACHE_CHOICES, choices_key(f, g, f->threads, f->exact),
					   text.p, text.n)
			       : fail(E_NOMEM, "no memory for the choices");
	buf_free(&text);
	return rc;
}

int chosen_forget(const struct chosen_for *f, const struct graph *g)
{
	enum { THREADS = 64 };
	int rc = E_OK;
	for (int i = 0; i < 2 * THREADS && rc >= 0; i++)
		rc = cache_forget(f->cache, CACHE_CHOICES, choices_key(f, g, 1 + i / 2, i % 2));
	return rc;
}

int chosen_divide(const struct target *t, struct graph *g, struct arena *a, struct choices *c,
		  struct steps **out)
{
	int rc = graph_steps(g, t, c, a, out);
	if (rc >= 0 || rc == E_NOMEM || !c->n)
		return rc;
	*c = (struct choices){0}; /* a record that cannot be followed is a miss */
	return graph_steps(g, t, c, a, out);
}

int chosen_steps(const struct chosen_for *f, struct graph *g, struct arena *a, struct choices *c,
		 struct steps **out)
{
	int rc = graph_optimize(g);
	if (rc >= 0)
		rc = chosen_load(f, g, a, c);
	return rc < 0 ? rc : chosen_divide(f->target, g, a, c, out);
}
