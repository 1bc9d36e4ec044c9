/* SPDX-License-Identifier: Apache-2.0 */
/* Folds y = scale[c] * x + shift[c] after a Conv, ConvTranspose or Gemm with constant weights into the
 * weights and the bias: W'[c] = W[c] * scale[c], b'[c] = b[c] * scale[c] + shift[c], computed in double and
 * rounded once. */
#include "kernels/graph/pass.h"

#include <math.h>
#include <string.h>

/* An affine map per channel, read from the node that computes it. */
struct affine {
	int64_t n; /* channels */
	double *scale, *shift;
};

static float element(const struct graph *g, int v, int64_t i)
{
	return ((const float *)g->value[v].t.data)[i];
}

static int read_norm(const struct graph *g, const struct node *n, struct affine *out)
{
	if (node_int(n, "training_mode", 0) || n->nin < 5)
		return 0;
	for (int k = 1; k < 5; k++)
		if (!pass_is_f32_constant(g, n->in[k]) || shape_count(&g->value[n->in[k]].t.shape) != out->n)
			return 0;
	double eps = (double)node_float(n, "epsilon", 1e-5f);
	for (int64_t c = 0; c < out->n; c++) {
		double s = (double)element(g, n->in[1], c) / sqrt((double)element(g, n->in[4], c) + eps);
		out->scale[c] = s;
		out->shift[c] = (double)element(g, n->in[2], c) - s * (double)element(g, n->in[3], c);
	}
	return 1;
}

/* Whether the constant operand of Mul, Add or Sub is one value, or one per channel (dim 1) of a tensor of
 * `rank`. */
static bool per_channel(const struct graph *g, int v, int rank, int64_t channels)
{
	if (!pass_is_f32_constant(g, v))
		return false;
	const struct shape *s = &g->value[v].t.shape;
	int64_t count = shape_count(s);
	if (s->rank > rank || (count != 1 && count != channels))
		return false;
	int at = s->rank - (rank - 1); /* the channel dim, counted from the right */
	return count == 1 || (at >= 0 && at < s->rank && s->d[at] == channels);
}

static int read_binary(const struct graph *g, const struct node *n, int through, struct affine *out)
{
	const char *type = node_type(n);
	bool mul = !strcmp(type, "Mul"), add = !strcmp(type, "Add"), sub = !strcmp(type, "Sub");
	if ((!mul && !add && !sub) || n->nin != 2 || (sub && n->in[0] != through))
		return 0;
	int other = n->in[0] == through ? n->in[1] : n->in[0];
	if (!per_channel(g, other, g->value[through].t.shape.rank, out->n))
		return 0;
	int64_t count = shape_count(&g->value[other].t.shape);
	for (int64_t c = 0; c < out->n; c++) {
		double k = (double)element(g, other, count == 1 ? 0 : c);
		out->scale[c] = mul ? k : 1;
		out->shift[c] = mul ? 0 : sub ? -k : k;
	}
	return 1;
}

/* Dim of the weights that runs over output channels; -1: the node cannot take scales. */
static int weight_dim(const struct graph *g, const struct node *n)
{
	const char *type = node_type(n);
	if (n->nin < 2 || !pass_is_f32_constant(g, n->in[1]))
		return -1;
	if (n->nin > 2 && n->in[2] >= 0 && !pass_is_f32_constant(g, n->in[2]))
		return -1;
	if (!strcmp(type, "Conv"))
		return 0;
	if (!strcmp(type, "ConvTranspose"))
		return node_int(n, "group", 1) == 1 ? 1 : -1;
	bool plain = node_float(n, "alpha", 1) == 1 && node_float(n, "beta", 1) == 1;
	if (!strcmp(type, "Gemm") && plain)
		return node_int(n, "transB", 0) ? 0 : 1;
	return -1;
}

static int scale_weights(struct graph *g, struct node *n, int dim, const struct affine *f)
{
	float *w;
	int old = n->in[1];
	struct shape s = g->value[old].t.shape;
	int v = pass_constant(g, g->value[old].name, &s, &w);
	if (v < 0)
		return v;
	int64_t inner = 1;
	for (int d = dim + 1; d < s.rank; d++)
		inner *= s.d[d];
	int64_t count = shape_count(&s);
	const float *from = g->value[old].t.data;
	for (int64_t i = 0; i < count; i += inner) {
		double scale = f->scale[i / inner % f->n];
		for (int64_t k = i; k < i + inner; k++)
			w[k] = (float)((double)from[k] * scale);
	}
	n->in[1] = v;
	return E_OK;
}

static int shift_bias(struct graph *g, struct node *n, const struct affine *f)
{
	float *b;
	int old = n->nin > 2 ? n->in[2] : -1;
	struct shape s = {.rank = 1, .d = {f->n}};
	int v = pass_constant(g, n->name, &s, &b);
	if (v < 0)
		return v;
	int64_t count = old >= 0 ? shape_count(&g->value[old].t.shape) : 0;
	for (int64_t c = 0; c < f->n; c++) {
		double was = count ? (double)element(g, old, count == 1 ? 0 : c) : 0;
		b[c] = (float)(was * f->scale[c] + f->shift[c]);
	}
	int *in = arena_try(&g->arena, 3, sizeof *in);
	if (!in)
		return E_NOMEM;
	memcpy(in, (int[]){n->in[0], n->in[1], v}, 3 * sizeof *in);
	n->in = in;
	n->nin = 3;
	return E_OK;
}

/* Whether a Gemm's bias can be folded: it may be a matrix, but must be a row of n or one value. */
static bool bias_is_row(const struct graph *g, const struct node *n, int64_t channels)
{
	if (n->nin < 3 || n->in[2] < 0)
		return true;
	const struct shape *s = &g->value[n->in[2]].t.shape;
	int64_t count = shape_count(s);
	return count == 1 || (count == channels && s->rank > 0 && s->d[s->rank - 1] == channels);
}

/* Folds the only reader of node i's output into node i; returns 1 if it did. */
static int fold_reader(struct graph *g, int i, const int *uses, struct arena *scratch)
{
	struct node *n = &g->node[i];
	int dim = weight_dim(g, n);
	int reader = dim < 0 ? -1 : pass_reader(g, uses, n->out[0]);
	if (reader < 0 || g->value[n->out[0]].t.shape.rank < 2)
		return 0;
	struct node *r = &g->node[reader];
	struct affine f = {.n = g->value[n->in[1]].t.shape.d[dim]};
	if (f.n != g->value[n->out[0]].t.shape.d[1] || !bias_is_row(g, n, f.n) ||
	    !shape_equal(&g->value[r->out[0]].t.shape, &g->value[n->out[0]].t.shape))
		return 0;
	f.scale = ARENA_ARRAY(scratch, double, f.n);
	f.shift = ARENA_ARRAY(scratch, double, f.n);
	bool norm = !strcmp(node_type(r), "BatchNormalization") && r->in[0] == n->out[0];
	int rc = norm ? read_norm(g, r, &f) : read_binary(g, r, n->out[0], &f);
	if (rc <= 0)
		return rc;
	rc = scale_weights(g, n, dim, &f);
	if (rc >= 0)
		rc = shift_bias(g, n, &f);
	if (rc < 0)
		return rc;
	n->out[0] = r->out[0];
	g->value[n->out[0]].producer = i;
	r->dead = true;
	return 1;
}

int pass_scale(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch);
	int folded = 0;
	for (int i = 0; i < g->nnodes; i++) {
		int rc = g->node[i].dead ? 0 : 1;
		while (rc > 0) {
			rc = fold_reader(g, i, uses, scratch);
			folded += rc > 0;
		}
		if (rc < 0)
			return rc;
	}
	return folded;
}
