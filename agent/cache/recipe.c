/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/recipe_parts.h"
#include "platform/base/mix.h"

#include <math.h>
#include <string.h>

struct key recipe_key(const struct graph *g)
{
	struct key k = mix_join(mix_text("recipe"), graph_key(g));
	for (int i = 0; i < g->nvalues; i++) {
		const struct tensor *t = &g->value[i].t;
		size_t bytes = (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
		if (t->data)
			k = mix_join(k, mix_bytes(t->data, bytes, 0));
	}
	return k;
}

/* ---- writing ---- */

static uint32_t bits_of(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	return bits;
}

void recipe_text(const struct recipe *r, const struct qdq *q, const struct qselection *s, struct buf *out)
{
	recipe_head_text(r, out);
	for (int i = 0; i < q->nvalues; i++) {
		const struct qgroup *p = &q->group[q->value[i].group];
		if (s->value[i])
			buf_printf(out, "v %d %08x %d\n", i, bits_of(p->scale), p->zero);
	}
	for (int i = 0; i < q->nlayers; i++) {
		const struct qlayer *l = &q->layer[i];
		if (!s->weights[i])
			continue;
		buf_printf(out, "l %d %lld", i, (long long)l->n);
		for (int64_t k = 0; k < l->n; k++)
			buf_printf(out, " %.0f", rint(l->shift[k] / (double)qdq_bias_step(q, l, k)));
		buf_puts(out, "\n");
	}
}

/* ---- reading ---- */

static bool take_value(struct qdq *q, const char **s, int *last, struct qselection *sel)
{
	float scale;
	uint8_t zero;
	if (!recipe_take_value(s, last, q->nvalues, &scale, &zero))
		return false;
	q->value[*last].group = *last;
	q->group[*last] = (struct qgroup){.scale = scale, .zero = zero};
	sel->value[*last] = true;
	return true;
}

/* A layer's values come before it, so its weights can be quantised at once. */
static int take_layer(struct qdq *q, const char **s, int *last, struct qselection *sel)
{
	int64_t i, n, shift;
	if (!recipe_take_int(s, *last + 1, q->nlayers - 1, &i))
		return E_CORRUPT;
	struct qlayer *l = &q->layer[i];
	if (l->why || !recipe_take_int(s, l->n, l->n, &n) || !sel->value[l->x] || !sel->value[l->y])
		return E_CORRUPT;
	int rc = qdq_weights(q, l);
	for (int64_t k = 0; k < n && rc >= 0; k++) {
		if (!recipe_take_shift(s, &shift))
			return E_CORRUPT;
		l->shift[k] = (double)shift * (double)qdq_bias_step(q, l, k);
	}
	*last = (int)i;
	sel->weights[i] = rc >= 0;
	return rc;
}

static int take_lines(struct qdq *q, const char *s, struct qselection *sel)
{
	int value = -1, layer = -1, rc = E_OK;
	while (rc >= 0 && *s) {
		char kind = *s++;
		if (kind == 'v')
			rc = layer < 0 && take_value(q, &s, &value, sel) ? E_OK : E_CORRUPT;
		else
			rc = kind == 'l' ? take_layer(q, &s, &layer, sel) : E_CORRUPT;
		if (rc >= 0 && *s++ != '\n')
			rc = E_CORRUPT;
	}
	for (int i = 0; i < q->nlayers; i++)
		if (!sel->weights[i] && !q->layer[i].why)
			q->layer[i].why = "the recipe leaves it";
	return rc == E_CORRUPT ? fail(rc, "not a recipe of this model") : rc;
}

/* r: what the first lines said. */
static int apply(const char *text, const struct recipe *r, struct graph *g)
{
	struct qdq q = {.g = g, .a = &g->arena, .weight_bits = 8};
	struct qselection sel;
	int rc = qdq_find(&q);
	if (rc >= 0 && (q.nvalues != r->values || q.nlayers != r->layers))
		rc = fail(E_CORRUPT, "not a recipe of this model");
	if (rc < 0)
		return rc;
	q.group = ARENA_ARRAY(q.a, struct qgroup, q.nvalues + 1);
	q.ngroups = q.nvalues;
	qdq_select_none(&q, q.a, &sel);
	rc = take_lines(&q, text, &sel);
	return rc < 0 ? rc : qdq_rewrite(&q, &sel, g);
}

/* k: the graph's key. */
static int apply_to(const char *text, struct key k, struct graph *g, struct recipe *r)
{
	int rc = recipe_head_parse(&text, r);
	if (rc >= 0 && !key_equal(r->model, k))
		rc = fail(E_CORRUPT, "not a recipe of this model");
	if (rc >= 0)
		rc = apply(text, r, g);
	if (rc < 0)
		*r = (struct recipe){0};
	return rc < 0 ? fail_in(rc, "recipe") : rc;
}

int recipe_apply(const char *text, struct graph *g, struct recipe *r)
{
	return apply_to(text, recipe_key(g), g, r);
}

/* ---- use ---- */

/* NULL: the cache has no such text. */
static const char *find(struct cache *c, struct key k, struct arena *a)
{
	struct blob b;
	if (!c || cache_get(c, CACHE_RECIPE, k, a, &b) < 0 || memchr(b.p, 0, b.n))
		return NULL;
	return arena_strndup(a, (const char *)b.p, b.n);
}

/* Whether the graph, which is folded for that, has layers that could be quantised. */
static bool has_layers(struct graph *g)
{
	struct arena a = {0};
	struct qdq q = {.g = g, .a = &a, .weight_bits = 8};
	bool any = false;
	int rc = qdq_find(&q);
	for (int i = 0; i < q.nlayers && rc >= 0; i++)
		any |= !q.layer[i].why;
	arena_free(&a);
	return any;
}

int recipe_use(struct cache *const *c, int n, enum level level, struct graph *g, struct recipe *r)
{
	struct arena a = {0};
	struct recipe none;
	int rc = E_NOTFOUND;
	r = r ? r : &none;
	*r = (struct recipe){0};
	if (level != LEVEL_INT8 || qdq_node(g))
		return E_OK;
	struct key k = recipe_key(g);
	for (int i = 0; i < n && (rc == E_NOTFOUND || rc == E_CORRUPT); i++) {
		const char *text = find(c[i], k, &a);
		if (text)
			rc = apply_to(text, k, g, r);
	}
	arena_free(&a);
	if (rc != E_NOTFOUND)
		return rc;
	return !has_layers(g)
		   ? E_OK
		   : fail(rc, "level int8 needs examples of inputs, which were not given yet: hone tune "
			      "MODEL --level int8 --data DIR");
}
