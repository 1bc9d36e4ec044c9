/* SPDX-License-Identifier: Apache-2.0 */
/* Pad: constant, reflect, edge and wrap; negative pads crop. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { D_ATTR, D_INPUT };

/* The padding of a node, on every axis of its input. */
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct padding {
	enum pad_mode mode;
	int rank;
	int64_t begin[MAX_RANK], end[MAX_RANK]; /* negative: cropped */
	int64_t out[MAX_RANK];                  /* extents of the result, >= 0 */
};

static const struct op_row rows[] = {
    {"Pad", 2, 10, 1, 1, 1, 1, D_ATTR, "mode pads value"},
    {"Pad", 11, 17, 2, 3, 1, 1, D_INPUT, "mode"},
    {"Pad", 18, 0, 2, 4, 1, 1, D_INPUT, "mode"},
    {""},
};

/* The list of pads, 2 * n entries: n beginnings, then n ends. */
static int pads_list(const struct opctx *c, int64_t *pads)
{
	bool there = true;
	int n = c->code == D_ATTR ? attr_some(c, "pads", pads, 2 * MAX_RANK, &there)
				  : in_list(c, 1, pads, 2 * MAX_RANK);
	if (n < 0)
		return n;
	return there ? n : fail(E_CORRUPT, "attribute pads is missing");
}

static int pad_axis(struct padding *p, int axis, int64_t extent, int64_t begin, int64_t end)
{
	if (begin < -MAX_ELEMS || begin > MAX_ELEMS || end < -MAX_ELEMS || end > MAX_ELEMS)
		return fail(E_CORRUPT, "pad %lld of axis %d is out of range",
			    (long long)(begin < -MAX_ELEMS || begin > MAX_ELEMS ? begin : end), axis);
	p->begin[axis] = begin;
	p->end[axis] = end;
	p->out[axis] = extent + begin + end;
	if (p->out[axis] < 0)
		return fail(E_CORRUPT, "pads %lld and %lld crop more than the %lld of axis %d",
			    (long long)begin, (long long)end, (long long)extent, axis);
	if (p->mode != PAD_CONSTANT && !extent && p->out[axis])
		return fail(E_CORRUPT, "axis %d is empty and has nothing to repeat", axis);
	return E_OK;
}

static int padding_plan(const struct opctx *c, struct padding *p)
{
	const struct shape *x = &c->in[0].shape;
	int64_t pads[2 * MAX_RANK], axes[MAX_RANK];
	unsigned mask;
	int mode = attr_choice(c, "mode", "constant reflect edge wrap", PAD_CONSTANT), naxes = x->rank;
	int n = pads_list(c, pads), rc = mode < 0 ? mode : n < 0 ? n : E_OK;
	for (int i = 0; i < x->rank; i++)
		axes[i] = i;
	if (rc >= 0 && in_there(c, 3))
		rc = naxes = in_list(c, 3, axes, MAX_RANK);
	if (rc < 0 || (rc = axes_mask(axes, naxes, x->rank, &mask)) < 0)
		return rc;
	if (n != 2 * naxes)
		return fail(E_CORRUPT, "%d pads for %d axes", n, naxes);
	*p = (struct padding){.mode = (enum pad_mode)mode, .rank = x->rank};
	memcpy(p->out, x->d, sizeof p->out);
	for (int i = 0; rc >= 0 && i < naxes; i++) {
		int axis = (int)(axes[i] < 0 ? axes[i] + x->rank : axes[i]);
		rc = pad_axis(p, axis, x->d[axis], pads[i], pads[naxes + i]);
	}
	return rc;
}

/* The input position that output position o of an axis of `extent` reads; -1: the constant. */
static int64_t padding_source(const struct padding *p, int axis, int64_t extent, int64_t o)
{
	int64_t i = o - p->begin[axis], period = p->mode == PAD_WRAP ? extent : 2 * (extent - 1);
	if (i >= 0 && i < extent)
		return i;
	if (p->mode == PAD_CONSTANT)
		return -1;
	if (p->mode == PAD_EDGE || extent == 1)
		return i < 0 ? 0 : extent - 1;
	i %= period;
	i += i < 0 ? period : 0;
	return i < extent ? i : period - i;
}

/* The constant of PAD_CONSTANT. If the optional input is present, it must have data. */
static double padding_value(const struct opctx *c)
{
	if (c->code == D_ATTR)
		return node_float(c->node, "value", 0);
	return in_there(c, 2) ? tensor_get(&c->in[2], 0) : 0;
}

static int infer(struct opctx *c)
{
	struct padding p;
	int rc = in_need(c, 0, DTYPES_ANY);
	if (rc >= 0 && in_there(c, 2))
		rc = in_need_scalar(c, 2);
	if (rc >= 0 && in_there(c, 2) && c->in[2].dtype != c->in[0].dtype)
		rc = fail(E_CORRUPT, "value of type %s for %s", dtype_name(c->in[2].dtype),
			  dtype_name(c->in[0].dtype));
	if (rc < 0 || (rc = padding_plan(c, &p)) < 0)
		return rc;
	struct shape out = {.rank = p.rank};
	memcpy(out.d, p.out, sizeof p.out);
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* Per axis, for each output position the offset in the input; -1: the constant. */
static int source_tables(struct opctx *c, const struct padding *p, int64_t **table)
{
	int64_t steps[MAX_RANK];
	shape_steps(&c->in[0].shape, steps);
	for (int i = 0; i < p->rank; i++) {
		table[i] = arena_try(c->arena, (size_t)p->out[i] + 1, sizeof **table);
		if (!table[i])
			return E_NOMEM;
		for (int64_t o = 0; o < p->out[i]; o++) {
			int64_t from = padding_source(p, i, c->in[0].shape.d[i], o);
			table[i][o] = from < 0 ? -1 : from * steps[i];
		}
	}
	return E_OK;
}

/* A row of n elements of the output; from[o]: the element of row x that it reads, -1: the fill. x NULL: all
 * are the fill. */
static void pad_row(char *y, const char *x, const int64_t *from, int64_t n, const void *fill, size_t bytes)
{
	for (int64_t o = 0, run; o < n; o += run, y += (size_t)run * bytes) {
		bool filled = !x || from[o] < 0;
		for (run = 1; !filled && o + run < n && from[o + run] == from[o] + run;)
			run++;
		memcpy(y, filled ? fill : x + (size_t)from[o] * bytes, (size_t)run * bytes);
	}
}

static int eval(struct opctx *c)
{
	static const int64_t only[] = {0};
	struct padding p;
	int64_t *table[MAX_RANK], at[MAX_RANK] = {0}, count = shape_count(&c->out[0].shape);
	int rc = padding_plan(c, &p), last;
	if (rc < 0 || (rc = source_tables(c, &p, table)) < 0)
		return rc;
	last = p.rank - 1;
	size_t bytes = dtype_bytes(c->out[0].dtype);
	struct tensor fill = {c->out[0].dtype, {0}, &(int64_t){0}};
	if (in_there(c, 2))
		memcpy(fill.data, c->in[2].data, bytes);
	else
		tensor_set(&fill, 0, padding_value(c));
	const char *x = c->in[0].data;
	char *y = c->out[0].data;
	int64_t n = p.rank ? p.out[last] : 1;
	for (int64_t o = 0; o < count; o += n, y += (size_t)n * bytes) {
		int64_t from = 0;
		for (int i = 0; i < last && from >= 0; i++)
			from = table[i][at[i]] < 0 ? -1 : from + table[i][at[i]];
		pad_row(y, from < 0 ? NULL : x + (size_t)from * bytes, p.rank ? table[last] : only, n,
			fill.data, bytes);
		for (int i = last - 1; i >= 0 && ++at[i] == p.out[i]; i--)
			at[i] = 0;
	}
	return E_OK;
}

const struct op op_pad = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
