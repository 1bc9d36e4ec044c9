/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations over groups of consecutive elements (instance, group, layer, RMS), and over the batch
 * (BatchNormalization). */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>

enum { N_BATCH, N_INSTANCE, N_GROUP18, N_GROUP, N_LAYER, N_RMS };

static const struct op_row rows[] = {
    {"BatchNormalization", 7, 8, 5, 5, 1, 5, N_BATCH, "epsilon momentum spatial"},
    {"BatchNormalization", 9, 13, 5, 5, 1, 5, N_BATCH, "epsilon momentum"},
    {"BatchNormalization", 14, 0, 5, 5, 1, 3, N_BATCH, "epsilon momentum training_mode"},
    {"GroupNormalization", 18, 20, 3, 3, 1, 1, N_GROUP18, "epsilon num_groups"},
    {"GroupNormalization", 21, 0, 3, 3, 1, 1, N_GROUP, "epsilon num_groups stash_type"},
    {"InstanceNormalization", 6, 0, 3, 3, 1, 1, N_INSTANCE, "epsilon"},
    {"LayerNormalization", 17, 0, 2, 3, 1, 3, N_LAYER, "axis epsilon stash_type"},
    {"RMSNormalization", 23, 0, 2, 2, 1, 1, N_RMS, "axis epsilon stash_type"},
    {""},
};

/* ---- BatchNormalization ---- */

static bool trains(const struct opctx *c)
{
	return node_int(c->node, "training_mode", 0) != 0;
}

static int need_vector(const struct opctx *c, int i, int64_t n)
{
	int rc = in_need(c, i, DTYPES_FLOAT);
	if (rc < 0)
		return rc;
	if (c->in[i].shape.rank != 1 || c->in[i].shape.d[0] != n)
		return fail(E_CORRUPT, "input %d is not a vector of %lld", i, (long long)n);
	return E_OK;
}

static int infer_batch(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	int64_t channels = x->rank > 1 ? x->d[1] : 1;
	if (!node_int(c->node, "spatial", 1))
		return fail(E_UNSUPPORTED, "attribute spatial=0 is not supported");
	for (int i = 1; i < 5; i++) {
		int rc = need_vector(c, i, channels);
		if (rc < 0)
			return rc;
	}
	for (int i = 1; i < 3 && trains(c); i++) {
		int rc = out_set(c, i, c->in[2 + i].dtype, &c->in[2 + i].shape);
		if (rc < 0)
			return rc;
	}
	return out_set(c, 0, c->in[0].dtype, x);
}

/* Mean and variance of channel k over the batch, into mv. */
static void batch_stats(const struct opctx *c, int64_t k, int64_t images, int64_t channels, int64_t plane,
			double *x, double *mv)
{
	double sum = 0, squares = 0, n = (double)(images * plane);
	for (int64_t i = 0; i < images; i++) {
		load_f64(&c->in[0], (i * channels + k) * plane, 1, plane, x);
		for (int64_t j = 0; j < plane; j++)
			sum += x[j];
	}
	for (int64_t i = 0; i < images; i++) {
		load_f64(&c->in[0], (i * channels + k) * plane, 1, plane, x);
		for (int64_t j = 0; j < plane; j++)
			squares += (x[j] - sum / n) * (x[j] - sum / n);
	}
	mv[0] = sum / n;
	mv[1] = squares / n;
}

static void update_stats(const struct opctx *c, int64_t k, const double *mv)
{
	double momentum = node_float(c->node, "momentum", 0.9f);
	for (int i = 0; i < 2; i++)
		if (out_wanted(c, 1 + i))
			tensor_set(&c->out[1 + i], k,
				   tensor_get(&c->in[3 + i], k) * momentum + mv[i] * (1 - momentum));
}

static int eval_batch(struct opctx *c)
{
	const struct shape *s = &c->in[0].shape;
	int64_t images = s->rank ? s->d[0] : 1, channels = s->rank > 1 ? s->d[1] : 1;
	int64_t plane = s->rank > 2 ? shape_span(s, 2, s->rank) : 1;
	double eps = node_float(c->node, "epsilon", 1e-5f),
	       *x = arena_try(c->arena, (size_t)plane + 1, sizeof *x);
	if (!x)
		return E_NOMEM;
	for (int64_t k = 0; k < channels; k++) {
		double mv[2] = {tensor_get(&c->in[3], k), tensor_get(&c->in[4], k)};
		if (trains(c)) {
			batch_stats(c, k, images, channels, plane, x, mv);
			update_stats(c, k, mv);
		}
		double gain = tensor_get(&c->in[1], k) / sqrt(mv[1] + eps), bias = tensor_get(&c->in[2], k);
		for (int64_t i = 0; i < images; i++) {
			int64_t at = (i * channels + k) * plane;
			load_f64(&c->in[0], at, 1, plane, x);
			for (int64_t j = 0; j < plane; j++)
				x[j] = (x[j] - mv[0]) * gain + bias;
			store_f64(&c->out[0], at, plane, x);
		}
	}
	return E_OK;
}

/* ---- over groups ---- */

/* `count` groups of `size` consecutive elements; element i has gain and bias at (i / div) % mod. */
struct groups {
	int64_t count, size, div, mod;
	struct shape normal; /* layer: the normalised dims, to which gain and bias broadcast */
	int axis;
};

static int plan_layer(const struct opctx *c, struct groups *g)
{
	const struct shape *x = &c->in[0].shape;
	int rc = attr_axis(c, "axis", -1, x->rank, &g->axis);
	if (rc < 0)
		return rc;
	g->normal = (struct shape){.rank = x->rank - g->axis};
	for (int i = g->axis; i < x->rank; i++)
		g->normal.d[i - g->axis] = x->d[i];
	g->count = shape_span(x, 0, g->axis);
	g->size = g->mod = shape_count(&g->normal);
	g->div = 1;
	for (int i = 1; i < (c->code == N_RMS ? 2 : 3); i++) {
		struct shape both;
		if (i == 2 && !in_there(c, 2))
			continue;
		if ((rc = in_need(c, i, DTYPES_FLOAT)) < 0 ||
		    (rc = shape_broadcast(&c->in[i].shape, &g->normal, &both)) < 0)
			return rc;
		if (!shape_equal(&both, &g->normal))
			return fail(E_CORRUPT, "input %d does not broadcast to the normalised axes", i);
	}
	return E_OK;
}

static int plan(const struct opctx *c, struct groups *g)
{
	*g = (struct groups){0};
	if (c->code >= N_LAYER)
		return plan_layer(c, g);
	const struct shape *x = &c->in[0].shape;
	int rc = in_need_rank(c, 0, 2, MAX_RANK);
	if (rc < 0)
		return rc;
	int64_t channels = x->d[1], plane = shape_span(x, 2, x->rank);
	int64_t parts = c->code == N_INSTANCE ? channels : node_int(c->node, "num_groups", 0);
	if (c->code != N_INSTANCE && (parts < 1 || parts > channels || channels % parts))
		return fail(E_CORRUPT, "num_groups %lld does not divide %lld channels", (long long)parts,
			    (long long)channels);
	g->count = x->d[0] * parts;
	g->size = parts ? channels / parts * plane : 0;
	g->mod = c->code == N_GROUP18 ? parts : channels;
	g->div = c->code == N_GROUP18 ? g->size : plane;
	g->normal = (struct shape){1, {g->mod}};
	for (int i = 1; i < 3; i++)
		if ((rc = need_vector(c, i, g->mod)) < 0)
			return rc;
	return E_OK;
}

static int infer(struct opctx *c)
{
	struct groups g;
	int rc = in_need(c, 0, DTYPES_FLOAT);
	if (rc < 0)
		return rc;
	if (c->code == N_BATCH)
		return infer_batch(c);
	if ((rc = plan(c, &g)) < 0)
		return rc;
	if (c->code >= N_LAYER && node_int(c->node, "stash_type", 1) != 1)
		return fail(E_UNSUPPORTED, "attribute stash_type is supported as 1 only");
	struct shape stats = c->in[0].shape;
	for (int i = g.axis; i < stats.rank; i++)
		stats.d[i] = 1;
	for (int i = 1; i < 3 && c->code == N_LAYER; i++)
		if ((rc = out_set(c, i, DT_F32, &stats)) < 0)
			return rc;
	return out_set(c, 0, c->in[0].dtype, &c->in[0].shape);
}

/* Gains (or biases) broadcast to the normalised dims, as doubles; `fallback` if the input is absent. */
static double *spread(const struct opctx *c, int i, const struct groups *g, double fallback)
{
	int64_t n = shape_count(&g->normal);
	double *v = arena_try(c->arena, (size_t)n + 1, sizeof *v);
	if (!v)
		return NULL;
	for (int64_t j = 0; j < n; j++)
		v[j] = fallback;
	if (!in_there(c, i))
		return v;
	struct walk w;
	walk_open(&w, c->arena, g->normal.rank, g->normal.d, 2);
	walk_like(&w, 0, &g->normal);
	walk_like(&w, 1, &c->in[i].shape);
	for (walk_start(&w); !w.done; walk_next(&w))
		load_f64(&c->in[i], w.at[1], w.run[1], w.n, v + w.at[0]);
	return v;
}

/* Mean (0 for RMS) and 1 / deviation of x[n]. */
static void group_stats(const double *x, int64_t n, bool center, double eps, double *mean, double *inverse)
{
	double sum = 0, squares = 0;
	for (int64_t j = 0; j < n && center; j++)
		sum += x[j];
	*mean = center ? sum / (double)n : 0;
	for (int64_t j = 0; j < n; j++)
		squares += (x[j] - *mean) * (x[j] - *mean);
	*inverse = 1 / sqrt(squares / (double)n + eps);
}

static int eval_groups(struct opctx *c)
{
	struct groups g;
	int rc = plan(c, &g);
	if (rc < 0 || !g.size)
		return rc;
	double eps = node_float(c->node, "epsilon", 1e-5f), *gain = spread(c, 1, &g, 1),
	       *bias = spread(c, 2, &g, 0);
	double *x = arena_try(c->arena, (size_t)g.size, sizeof *x), mean, inverse;
	if (!gain || !bias || !x)
		return E_NOMEM;
	for (int64_t i = 0; i < g.count; i++) {
		int64_t at = i * g.size;
		load_f64(&c->in[0], at, 1, g.size, x);
		group_stats(x, g.size, c->code != N_RMS, eps, &mean, &inverse);
		for (int64_t j = 0; j < g.size; j++) {
			int64_t k = (at + j) / g.div % g.mod;
			x[j] = (x[j] - mean) * inverse * gain[k] + bias[k];
		}
		store_f64(&c->out[0], at, g.size, x);
		if (out_wanted(c, 1))
			store_f64(&c->out[1], i, 1, &mean);
		if (out_wanted(c, 2))
			store_f64(&c->out[2], i, 1, &inverse);
	}
	return E_OK;
}

static int eval(struct opctx *c)
{
	return c->code == N_BATCH ? eval_batch(c) : eval_groups(c);
}

const struct op op_norm = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
