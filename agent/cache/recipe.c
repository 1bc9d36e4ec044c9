/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/recipe.h"
#include "agent/cache/fields.h"
#include "platform/base/mix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "hone-recipe 1\n"

enum { MOST_ZERO = 255, MOST_SHIFT = 1 << 30 };

/* The first lines: whole numbers and bits, which every locale writes alike; errors in 1e-12. */
struct head {
	int values, layers, quantised, examples, held_out;
	int64_t error, held_out_error, most;
};

#define ERROR_UNIT 1e-12
#define MOST_ERROR 1e6 /* a larger error is this one */

static const struct field fields[] = {
    FIELD("values", F_INT, struct head, values),
    FIELD("layers", F_INT, struct head, layers),
    FIELD("quantized", F_INT, struct head, quantised),
    FIELD("examples", F_INT, struct head, examples),
    FIELD("held_out", F_INT, struct head, held_out),
    FIELD("error", F_I64, struct head, error),
    FIELD("held_out_error", F_I64, struct head, held_out_error),
    FIELD("most", F_I64, struct head, most),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

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

static int64_t units(double error)
{
	return (int64_t)rint(fmax(0, fmin(error, MOST_ERROR)) / ERROR_UNIT);
}

static uint32_t bits_of(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	return bits;
}

void recipe_text(const struct recipe *r, const struct qdq *q, const struct qselection *s, struct buf *out)
{
	const struct head h = {r->values,
			       r->layers,
			       r->quantised,
			       r->examples,
			       r->held_out,
			       units(r->error),
			       units(r->held_out_error),
			       units(r->most)};
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, &h, out);
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

/* Reads the first lines, and moves the text behind them. */
static int parse_head(const char **text, struct recipe *out)
{
	struct arena a = {0};
	struct head h = {0};
	*out = (struct recipe){0};
	if (strncmp(*text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not a recipe of this version");
	*text += strlen(FIRST_LINE);
	int rc = fields_parse(fields, NFIELDS, text, &a, &h);
	arena_free(&a);
	if (rc >= 0 && (h.layers < 1 || h.quantised < 0 || h.quantised > h.layers))
		rc = fail(E_CORRUPT, "numbers of layers that no model has");
	if (rc >= 0)
		*out = (struct recipe){h.values,
				       h.layers,
				       h.quantised,
				       h.examples,
				       h.held_out,
				       (double)h.error * ERROR_UNIT,
				       (double)h.held_out_error * ERROR_UNIT,
				       (double)h.most * ERROR_UNIT};
	return rc;
}

/* Reads an integer of the range behind a space. */
static bool take_int(const char **s, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;
	if (**s != ' ' || !strchr("-0123456789", (*s)[1]))
		return false;
	long long v = strtoll(*s + 1, &end, 10);
	if (end == *s + 1 || v < lo || v > hi)
		return false;
	*s = end;
	*out = v;
	return true;
}

static bool take_scale(const char **s, float *out)
{
	enum { DIGITS = 8 };
	if (**s != ' ' || strspn(*s + 1, "0123456789abcdef") != DIGITS)
		return false;
	uint32_t bits = (uint32_t)strtoul(*s + 1, NULL, 16);
	memcpy(out, &bits, sizeof bits);
	*s += 1 + DIGITS;
	return *out >= QDQ_LEAST_SCALE && *out <= (float)QDQ_MOST_VALUE;
}

static bool take_value(struct qdq *q, const char **s, int *last, struct qselection *sel)
{
	int64_t i, zero;
	float scale;
	if (!take_int(s, *last + 1, q->nvalues - 1, &i) || !take_scale(s, &scale) ||
	    !take_int(s, 0, MOST_ZERO, &zero))
		return false;
	*last = (int)i;
	q->value[i].group = (int)i;
	q->group[i] = (struct qgroup){.scale = scale, .zero = (uint8_t)zero};
	sel->value[i] = true;
	return true;
}

/* A layer's values come before it, so its weights can be quantised at once. */
static int take_layer(struct qdq *q, const char **s, int *last, struct qselection *sel)
{
	int64_t i, n, shift;
	if (!take_int(s, *last + 1, q->nlayers - 1, &i))
		return E_CORRUPT;
	struct qlayer *l = &q->layer[i];
	if (l->why || !take_int(s, l->n, l->n, &n) || !sel->value[l->x] || !sel->value[l->y])
		return E_CORRUPT;
	int rc = qdq_weights(q, l);
	for (int64_t k = 0; k < n && rc >= 0; k++) {
		if (!take_int(s, -MOST_SHIFT, MOST_SHIFT, &shift))
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

int recipe_apply(const char *text, struct graph *g, struct recipe *r)
{
	int rc = parse_head(&text, r);
	if (rc >= 0)
		rc = apply(text, r, g);
	if (rc < 0)
		*r = (struct recipe){0};
	return rc < 0 ? fail_in(rc, "recipe") : rc;
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
			rc = recipe_apply(text, g, r);
	}
	arena_free(&a);
	if (rc != E_NOTFOUND)
		return rc;
	return !has_layers(g)
		   ? E_OK
		   : fail(rc, "level int8 needs examples of inputs, which were not given yet: hone tune "
			      "MODEL --level int8 --data DIR");
}
