/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/tune_parts.h"

#include <string.h>

/* Whether the cache's recipe stays, though another one was made. It stays if it quantises layers and the new
 * one quantises none. Then the new examples were probably of no use. With --error (most) the user asked for a
 * limit, and the new recipe is kept even if no layer is within it. */
static bool former_stays(const struct recipe *former, const struct recipe *now)
{
	return former->quantised && !now->quantised && !(now->most > 0);
}

/* Keeps the new recipe under k, and notes what becomes of another one that the cache has. One that is damaged,
 * or of another version, is replaced. */
static int keep_recipe(struct session *s, struct key k, const struct buf *text)
{
	struct arena a = {0};
	struct blob old;
	struct recipe now;
	struct tune_report *r = s->report;
	int rc = recipe_summary(buf_str(text), &now);
	if (rc >= 0 && cache_get(s->store.cache, CACHE_RECIPE, k, &a, &old) >= 0 &&
	    (old.n != text->n || memcmp(old.p, text->p, old.n) != 0)) {
		if (recipe_check(old.p, k) < 0 || recipe_summary(old.p, &r->former) < 0)
			r->former = (struct recipe){0};
		r->recipe_stays = former_stays(&r->former, &now);
		r->recipe_replaced = !r->recipe_stays;
	}
	arena_free(&a);
	return rc < 0 || r->recipe_stays ? rc : cache_put(s->store.cache, CACHE_RECIPE, k, text->p, text->n);
}

/* Tells honed, which started this job, that another try fails, too; the error names the command that helps.
 */
static int needs_examples(struct session *s)
{
	leash_say(s->store.leash, &(struct request){.op = OP_DONE, .promise = -1, .lasting = true});
	return fail(
	    E_NOTFOUND,
	    "%s: level int8 needs examples of inputs, which were not given yet: hone tune %s --level int8 "
	    "--data DIR --cache %s",
	    s->o->model, s->o->model, s->store.dir);
}

int tune_quantise(struct session *s)
{
	const bool tell = s->o->level == LEVEL_INT8 && leash_held(s->store.leash);
	struct key k = {0};
	if (tell || s->o->recipe)
		k = recipe_key(s->model.graph); /* a hash of all weights */
	int rc = s->o->recipe ? keep_recipe(s, k, s->o->recipe) : E_OK;
	if (tell)
		leash_say(s->store.leash, &(struct request){.op = OP_PROGRESS, .key = k});
	if (rc >= 0)
		rc = recipe_use(&s->store.cache, 1, s->o->level, s->model.graph, &s->report->recipe);
	if (rc == E_NOTFOUND && tell && leash_is_child())
		return needs_examples(s);
	return fail_in(rc, "%s", s->o->model);
}
