/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/tune_parts.h"

#include <string.h>

/* Of two recipes, whether the cache's stays: examples that leave no layer, without a limit that asked for
 * that, say more of the examples than of the model. */
static bool former_stays(const struct recipe *former, const struct recipe *now)
{
	return former->quantised && !now->quantised && !(now->most > 0);
}

/* Keeps the new recipe, and notes what becomes of another one that the cache has. */
static int keep_recipe(struct session *s, const struct buf *text)
{
	struct arena a = {0};
	struct blob old;
	struct recipe now;
	struct tune_report *r = s->report;
	struct key k = recipe_key(s->model.graph);
	int rc = recipe_summary(buf_str(text), &now);
	if (rc >= 0 && cache_get(s->store.cache, CACHE_RECIPE, k, &a, &old) >= 0 &&
	    (old.n != text->n || memcmp(old.p, text->p, old.n) != 0)) {
		if (recipe_summary(old.p, &r->former) < 0) /* damaged, or of another version */
			r->former = (struct recipe){0};
		r->recipe_stays = former_stays(&r->former, &now);
		r->recipe_replaced = !r->recipe_stays;
	}
	arena_free(&a);
	return rc < 0 || r->recipe_stays ? rc : cache_put(s->store.cache, CACHE_RECIPE, k, text->p, text->n);
}

int tune_quantise(struct session *s)
{
	int rc = s->o->recipe ? keep_recipe(s, s->o->recipe) : E_OK;
	tune_say_recipe(s);
	if (rc >= 0)
		rc = recipe_use(&s->store.cache, 1, s->o->level, s->model.graph, &s->report->recipe);
	return fail_in(rc, "%s", s->o->model);
}
