/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements. Their form is found by probing: the operator's own eval runs on an input
 * whose values are their own positions. If every input dim is a function of one output dim, that function is
 * the index: affine, divided, modulo, or else a table. So the form cannot disagree with the reference. */
#include "kernels/graph/structure.h"

#include <math.h>
#include <string.h>

enum { MAX_PROBE = 1 << 24 }; /* positions must be exact in f32 */

struct probe {
	const struct opctx *c;
	const float *src; /* [output elements]: position in the input */
	int64_t in_stride[MAX_RANK], out_stride[MAX_RANK];
};

static void strides(const struct shape *s, int64_t *stride)
{
	for (int d = s->rank - 1; d >= 0; d--)
		stride[d] = d == s->rank - 1 ? 1 : stride[d + 1] * s->d[d + 1];
}

static int run(struct probe *p, const struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t n = shape_count(x);
	if (n > MAX_PROBE || shape_count(y) > 4 * (int64_t)MAX_PROBE || n < 1 || shape_count(y) < 1 ||
	    !y->rank)
		return fail(E_UNSUPPORTED, "too large or too small to probe");
	for (int i = 1; i < c->nin; i++)
		if (c->in[i].dtype != DT_NONE && !c->in[i].data)
			return fail(E_UNSUPPORTED, "moves by a computed tensor");
	struct opctx call = *c;
	struct tensor out = c->out[0];
	call.in = arena_memdup(c->arena, c->in, sizeof *c->in * (size_t)c->nin);
	call.out = &out;
	call.nout = 1;
	int rc = tensor_alloc(c->arena, DT_F32, x, &call.in[0]);
	if (rc < 0 || (rc = tensor_alloc(c->arena, DT_F32, y, &out)) < 0)
		return rc;
	for (int64_t i = 0; i < n; i++)
		((float *)call.in[0].data)[i] = (float)i;
	*p = (struct probe){.c = c, .src = out.data};
	strides(x, p->in_stride);
	strides(y, p->out_stride);
	return c->node->op->eval(&call);
}

/* Index of input dim e at output element `at`. */
static int64_t source(const struct probe *p, int e, int64_t at)
{
	return (int64_t)p->src[at] / p->in_stride[e] % p->c->in[0].shape.d[e];
}

/* The output dim that input dim e depends on; -1: it is constant. Only a guess, which is checked later over
 * all elements. */
static int follows(const struct probe *p, int e)
{
	const struct shape *y = &p->c->out[0].shape;
	for (int d = 0; d < y->rank; d++)
		for (int64_t i = 1; i < y->d[d]; i++)
			if (source(p, e, i * p->out_stride[d]) != source(p, e, 0))
				return d;
	return -1;
}

/* Tries f(i) = f(0) + slope i, floor(i / div), and i mod m in turn. */
static bool closed_form(const struct probe *p, int e, int d, struct index *x)
{
	int64_t n = p->c->out[0].shape.d[d], step = p->out_stride[d], f0 = source(p, e, 0);
	int64_t slope = source(p, e, step) - f0, div = 1, mod = 1;
	bool affine = true, divided = f0 == 0, wrapped = f0 == 0;
	while (div < n && source(p, e, div * step) == 0)
		div++;
	while (mod < n && source(p, e, mod * step) == mod)
		mod++;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = source(p, e, i * step);
		affine &= v == f0 + slope * i;
		divided &= v == i / div;
		wrapped &= v == i % mod;
	}
	memset(x, 0, sizeof *x);
	x->table = -1;
	x->coef[d] = affine ? slope : 1;
	x->off = affine ? f0 : 0;
	x->div = !affine && divided ? div : 0;
	x->mod = !affine && !divided && wrapped ? mod : 0;
	return affine || divided || wrapped;
}

static int table(const struct probe *p, struct task *t, int e, int d, struct index *x, int *made)
{
	struct shape dims = {1, {p->c->out[0].shape.d[d]}};
	if (*made == OP_MADE)
		return fail(E_UNSUPPORTED, "too many tables");
	int k = (*made)++, rc = tensor_alloc(p->c->arena, DT_I32, &dims, &p->c->made[k]);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < dims.d[0]; i++)
		((int32_t *)p->c->made[k].data)[i] = (int32_t)source(p, e, i * p->out_stride[d]);
	memset(x, 0, sizeof *x);
	x->coef[d] = 1;
	return structure_operand(t, p->c, 'm', k, &x->table);
}

/* The share of index i of output dim d in the input position, from the input dims that depend on d; dim -1:
 * from the constant ones. */
static int64_t part_of(const struct probe *p, const int *dim, int d, int64_t i)
{
	int64_t from = 0;
	for (int e = 0; e < p->c->in[0].shape.rank; e++)
		if (dim[e] == d)
			from += source(p, e, d < 0 ? 0 : i * p->out_stride[d]) * p->in_stride[e];
	return from;
}

/* Checks that every output element is read from the position that its single dims give: goes row by row of
 * the last dim, with a table per dim. */
static int separable(const struct probe *p, const int *dim)
{
	const struct shape *y = &p->c->out[0].shape;
	int last = y->rank - 1;
	int64_t n = shape_count(y), row = y->d[last], at[MAX_RANK] = {0}, *part[MAX_RANK];
	for (int d = 0; d < y->rank; d++) {
		part[d] = arena_try(p->c->arena, (size_t)y->d[d], sizeof *part[d]);
		if (!part[d])
			return E_NOMEM;
		for (int64_t i = 0; i < y->d[d]; i++)
			part[d][i] = part_of(p, dim, d, i);
	}
	for (int64_t begin = 0, fixed = part_of(p, dim, -1, 0); begin < n; begin += row) {
		int64_t from = fixed;
		bool same = true;
		for (int d = 0; d < last; d++)
			from += part[d][at[d]];
		for (int64_t i = 0; i < row; i++)
			same &= (int64_t)p->src[begin + i] == from + part[last][i];
		if (!same)
			return fail(E_UNSUPPORTED, "%s does not move elements by single dims",
				    node_type(p->c->node));
		for (int d = last - 1; d >= 0 && ++at[d] == y->d[d]; d--)
			at[d] = 0;
	}
	return E_OK;
}

/* Returns `div` if output dim d consists of blocks of `div` points with one input index each and only one
 * input dim depends on it, so that it can become a pair of axes; else 0. */
static int64_t blocks_of(const struct probe *p, const struct index *x, const int *dim, int d)
{
	int64_t div = 0;
	int followers = 0;
	for (int e = 0; e < p->c->in[0].shape.rank; e++) {
		if (dim[e] != d)
			continue;
		followers++;
		div = x[e].div;
	}
	return followers == 1 && div > 1 && p->c->out[0].shape.d[d] % div == 0 ? div : 0;
}

/* Makes the stage: x[e] is the index of input dim e as a function of output dim dim[e]. */
static void stage_of(const struct probe *p, struct task *t, int ix, int iy, const struct index *x,
		     const int *dim)
{
	const struct shape *y = &p->c->out[0].shape;
	struct stage *s = structure_stage(t);
	int axis[MAX_RANK];
	int64_t block[MAX_RANK];
	for (int d = 0; d < y->rank; d++) {
		const char name[8] = {'d', (char)('0' + d)}, in[8] = {'e', (char)('0' + d)};
		bool room =
		    s->naxes + y->rank - d < MAX_AXES; /* for two axes here and one for each following dim */
		block[d] = room ? blocks_of(p, x, dim, d) : 0;
		axis[d] = structure_axis(s, name, AXIS_SPATIAL, block[d] ? y->d[d] / block[d] : y->d[d]);
		if (block[d])
			structure_axis(s, in, AXIS_SPATIAL, block[d]);
	}
	struct read *r = structure_read(s, ix);
	for (int e = 0; e < p->c->in[0].shape.rank; e++) {
		struct index *to = &r->dim[e];
		*to = x[e];
		memset(to->coef, 0, sizeof to->coef);
		if (dim[e] < 0)
			continue;
		to->coef[axis[dim[e]]] = x[e].coef[dim[e]];
		to->div = block[dim[e]] ? 0 : x[e].div;
	}
	structure_out(t, s, iy);
	for (int d = 0; d < y->rank; d++) {
		memset(s->out.dim[d].coef, 0, sizeof s->out.dim[d].coef);
		s->out.dim[d].coef[axis[d]] = block[d] ? block[d] : 1;
		if (block[d])
			s->out.dim[d].coef[axis[d] + 1] = 1;
	}
	prog_text(&s->body, p->c->node, "r0");
}

int structure_move(const struct opctx *c, struct task *t)
{
	struct probe p;
	int ix, iy, dim[MAX_RANK], made = 0;
	int rc = structure_operand(t, c, 'i', 0, &ix);
	if (rc < 0 || (rc = run(&p, c)) < 0)
		return rc;
	struct index x[MAX_RANK];
	for (int e = 0; e < c->in[0].shape.rank && rc >= 0; e++) {
		dim[e] = follows(&p, e);
		x[e] = (struct index){.table = -1};
		if (dim[e] < 0)
			x[e].off = source(&p, e, 0);
		else if (!closed_form(&p, e, dim[e], &x[e]))
			rc = table(&p, t, e, dim[e], &x[e], &made);
	}
	if (rc < 0)
		return rc;
	if ((rc = separable(&p, dim)) < 0 || (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	stage_of(&p, t, ix, iy, x, dim);
	return E_OK;
}

/* Constant padding: attributes before opset 11, inputs later. Other modes repeat elements. */
int structure_pad(const struct opctx *c, struct task *t)
{
	if (strcmp(node_str(c->node, "mode", "constant"), "constant"))
		return structure_move(c, t);
	const struct attr *a = node_attr(c->node, "pads"), *v = node_attr(c->node, "value");
	int ix, iy, rank = c->in[0].shape.rank, rc = structure_operand(t, c, 'i', 0, &ix);
	float fill = v ? v->f : 0;
	if (rc < 0)
		return rc;
	if (c->nin > 3 && c->in[3].dtype != DT_NONE)
		return fail(E_UNSUPPORTED, "Pad on named axes");
	if (!a && (c->nin < 2 || !c->in[1].data || shape_count(&c->in[1].shape) != 2 * rank))
		return fail(E_UNSUPPORTED, "Pad by a computed tensor");
	if (c->nin > 2 && c->in[2].dtype != DT_NONE) {
		if (!c->in[2].data)
			return fail(E_UNSUPPORTED, "Pad with a computed value");
		fill = (float)tensor_get(&c->in[2], 0);
	}
	if (!isfinite(fill) || (a && a->n != 2 * rank) || !rank)
		return fail(E_UNSUPPORTED, "Pad of this value or rank");
	struct stage *s = structure_stage(t);
	structure_axes(s, &c->out[0].shape);
	struct read *r = structure_read(s, ix);
	for (int d = 0; d < rank; d++) {
		r->dim[d].coef[d] = 1;
		r->dim[d].off = -(a ? a->ints[d] : tensor_get_i64(&c->in[1], d));
	}
	t->operand[ix].fill = fill;
	prog_text(&s->body, c->node, "r0");
	if ((rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	structure_out(t, s, iy);
	return E_OK;
}
