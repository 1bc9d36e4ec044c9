/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements by strides: each is one or more strided copies. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { M_TRANSPOSE, M_CONCAT, M_SPLIT, M_SLICE_OLD, M_SLICE, M_EXPAND, M_TILE, M_TO_DEPTH, M_TO_SPACE };

static const struct op_row rows[] = {
    {"Concat", 4, 0, 1, -1, 1, 1, M_CONCAT, "axis"},
    {"DepthToSpace", 1, 0, 1, 1, 1, 1, M_TO_SPACE, "blocksize mode"},
    {"Expand", 8, 0, 2, 2, 1, 1, M_EXPAND},
    {"Slice", 1, 9, 1, 1, 1, 1, M_SLICE_OLD, "axes ends starts"},
    {"Slice", 10, 0, 3, 5, 1, 1, M_SLICE},
    {"SpaceToDepth", 1, 0, 1, 1, 1, 1, M_TO_DEPTH, "blocksize mode"},
    {"Split", 2, 12, 1, 1, 1, -1, M_SPLIT, "axis split"},
    {"Split", 13, 0, 1, 2, 1, -1, M_SPLIT, "axis num_outputs"},
    {"Tile", 6, 0, 2, 2, 1, 1, M_TILE},
    {"Transpose", 1, 0, 1, 1, 1, 1, M_TRANSPOSE, "perm"},
    {""},
};

static int copy(struct opctx *c, int out, int in, int rank, const int64_t *d, int64_t to,
		const int64_t *to_steps, int64_t from, const int64_t *from_steps)
{
	struct walk w;
	walk_open(&w, c->arena, rank, d, 2);
	walk_steps(&w, 0, to, to_steps);
	walk_steps(&w, 1, from, from_steps);
	walk_copy(&w, dtype_bytes(c->out[out].dtype), c->out[out].data, c->in[in].data);
	return E_OK;
}

/* ---- Transpose ---- */

static int permutation(const struct opctx *c, int64_t *perm)
{
	int rank = c->in[0].shape.rank;
	unsigned mask;
	int rc = attr_list(c, "perm", rank, 0, perm);
	if (rc < 0)
		return rc;
	for (int i = 0; i < rank; i++) {
		if (!node_attr(c->node, "perm"))
			perm[i] = rank - 1 - i;
		if (perm[i] < 0)
			return fail(E_CORRUPT, "perm entry %lld is negative", (long long)perm[i]);
	}
	return axes_mask(perm, rank, rank, &mask);
}

static int infer_transpose(struct opctx *c)
{
	int64_t perm[MAX_RANK];
	struct shape out = c->in[0].shape;
	int rc = permutation(c, perm);
	for (int i = 0; rc >= 0 && i < out.rank; i++)
		out.d[i] = c->in[0].shape.d[perm[i]];
	return rc < 0 ? rc : out_set(c, 0, c->in[0].dtype, &out);
}

static int eval_transpose(struct opctx *c)
{
	int64_t perm[MAX_RANK], in[MAX_RANK], to[MAX_RANK], from[MAX_RANK];
	const struct shape *out = &c->out[0].shape;
	int rc = permutation(c, perm);
	if (rc < 0)
		return rc;
	shape_steps(&c->in[0].shape, in);
	shape_steps(out, to);
	for (int i = 0; i < out->rank; i++)
		from[i] = in[perm[i]];
	return copy(c, 0, 0, out->rank, out->d, 0, to, 0, from);
}

/* ---- Concat ---- */

static int infer_concat(struct opctx *c)
{
	int axis, rc = attr_axis(c, "axis", 1, c->in[0].shape.rank, &axis);
	struct shape out = c->in[0].shape;
	if (rc < 0)
		return rc;
	for (int i = 1; i < c->nin; i++) {
		if ((rc = in_need(c, i, DTYPES_ANY)) < 0)
			return rc;
		const struct shape *s = &c->in[i].shape;
		if (c->in[i].dtype != c->in[0].dtype)
			return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[0].dtype),
				    dtype_name(c->in[i].dtype));
		bool fits = s->rank == out.rank;
		for (int j = 0; fits && j < out.rank; j++)
			fits = j == axis || s->d[j] == out.d[j];
		if (!fits)
			return fail(E_CORRUPT, "input %d does not fit the first beside axis %d", i, axis);
		out.d[axis] += s->d[axis];
		if (out.d[axis] > MAX_ELEMS)
			return fail(E_CORRUPT, "extent %lld is too large", (long long)out.d[axis]);
	}
	return out_set(c, 0, c->in[0].dtype, &out);
}

static int eval_concat(struct opctx *c)
{
	int axis, rc = attr_axis(c, "axis", 1, c->in[0].shape.rank, &axis);
	int64_t to[MAX_RANK], from[MAX_RANK], at = 0;
	if (rc < 0)
		return rc;
	shape_steps(&c->out[0].shape, to);
	for (int i = 0; i < c->nin; i++) {
		const struct shape *s = &c->in[i].shape;
		shape_steps(s, from);
		copy(c, 0, i, s->rank, s->d, at * to[axis], to, 0, from);
		at += s->d[axis];
	}
	return E_OK;
}

/* ---- Split ---- */

/* The extents of all outputs: from the list, or equal parts (with num_outputs the last may be smaller). */
static int split_sizes(const struct opctx *c, int axis, int64_t *size)
{
	int64_t all = c->in[0].shape.d[axis], sum = 0;
	bool there;
	int n = attr_some(c, "split", size, c->nout, &there);
	if (n >= 0 && !there && in_there(c, 1)) {
		n = in_list(c, 1, size, c->nout);
		there = true;
	}
	if (n < 0)
		return n;
	if (there && n != c->nout)
		return fail(E_CORRUPT, "%d parts for %d outputs", n, c->nout);
	if (node_int(c->node, "num_outputs", c->nout) != c->nout)
		return fail(E_CORRUPT, "num_outputs is not the number of outputs, %d", c->nout);
	int64_t part = (all + c->nout - 1) / c->nout;
	for (int i = 0; i < c->nout; i++) {
		if (!there)
			size[i] = all - sum < part ? all - sum : part;
		if (size[i] < 0 || size[i] > all - sum)
			return fail(E_CORRUPT, "part %lld does not fit extent %lld", (long long)size[i],
				    (long long)all);
		sum += size[i];
	}
	return sum == all ? E_OK
			  : fail(E_CORRUPT, "parts add up to %lld of %lld", (long long)sum, (long long)all);
}

static int split_plan(const struct opctx *c, int *axis, int64_t **size)
{
	int rc = attr_axis(c, "axis", 0, c->in[0].shape.rank, axis);
	if (rc < 0)
		return rc;
	if (c->nout < 1)
		return fail(E_CORRUPT, "no outputs");
	*size = arena_try(c->arena, (size_t)c->nout, sizeof **size);
	return *size ? split_sizes(c, *axis, *size) : E_NOMEM;
}

static int infer_split(struct opctx *c)
{
	int64_t *size;
	int axis, rc = split_plan(c, &axis, &size);
	struct shape out = c->in[0].shape;
	for (int i = 0; rc >= 0 && i < c->nout; i++) {
		out.d[axis] = size[i];
		rc = out_set(c, i, c->in[0].dtype, &out);
	}
	return rc;
}

static int eval_split(struct opctx *c)
{
	int64_t *size, from[MAX_RANK], to[MAX_RANK], at = 0;
	int axis, rc = split_plan(c, &axis, &size);
	if (rc < 0)
		return rc;
	shape_steps(&c->in[0].shape, from);
	for (int i = 0; i < c->nout; at += size[i++]) {
		const struct shape *s = &c->out[i].shape;
		if (!out_wanted(c, i))
			continue;
		shape_steps(s, to);
		copy(c, i, 0, s->rank, s->d, 0, to, at * from[axis], from);
	}
	return E_OK;
}

/* ---- Slice ---- */

struct slice {
	int64_t start[MAX_RANK], step[MAX_RANK], count[MAX_RANK];
};

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* As Python's slice.indices(). */
static void slice_axis(int64_t extent, int64_t start, int64_t end, int64_t step, struct slice *s, int axis)
{
	int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? extent : extent - 1;
	start = clamp(start < 0 && start >= -extent ? start + extent : start, lo, hi);
	end = clamp(end < 0 && end >= -extent ? end + extent : end, lo, hi);
	int64_t gap = step > 0 ? end - start : start - end;
	uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
	s->start[axis] = start;
	s->count[axis] = gap > 0 ? (int64_t)(((uint64_t)gap - 1) / stride) + 1 : 0;
	s->step[axis] = s->count[axis] > 1 ? step : 1; /* a step that is never taken must not overflow
						        * offsets */
}

static int slice_lists(const struct opctx *c, int64_t start[], int64_t end[], int64_t axes[], int64_t step[])
{
	bool there[3] = {true, true, true};
	int n, m[3];
	if (c->code == M_SLICE_OLD) {
		n = attr_some(c, "starts", start, MAX_RANK, &there[0]);
		m[0] = attr_some(c, "ends", end, MAX_RANK, &there[0]);
		m[1] = attr_some(c, "axes", axes, MAX_RANK, &there[1]);
		there[2] = false;
	} else {
		n = in_list(c, 1, start, MAX_RANK);
		m[0] = in_list(c, 2, end, MAX_RANK);
		there[1] = in_there(c, 3);
		there[2] = in_there(c, 4);
		m[1] = there[1] ? in_list(c, 3, axes, MAX_RANK) : 0;
		m[2] = there[2] ? in_list(c, 4, step, MAX_RANK) : 0;
	}
	if (n < 0)
		return n;
	for (int k = 0; k < 3; k++) {
		if (there[k] && m[k] < 0)
			return m[k];
		if (there[k] && m[k] != n)
			return fail(E_CORRUPT, "%d starts but %d ends, axes or steps", n, m[k]);
	}
	for (int i = 0; i < n; i++) {
		axes[i] = there[1] ? axes[i] : i;
		step[i] = there[2] ? step[i] : 1;
	}
	return n;
}

static int slice_plan(const struct opctx *c, struct slice *s)
{
	int64_t start[MAX_RANK], end[MAX_RANK], axes[MAX_RANK], step[MAX_RANK];
	const struct shape *x = &c->in[0].shape;
	unsigned mask;
	int n = slice_lists(c, start, end, axes, step), rc = n < 0 ? n : axes_mask(axes, n, x->rank, &mask);
	if (rc < 0)
		return rc;
	for (int i = 0; i < x->rank; i++)
		slice_axis(x->d[i], 0, x->d[i], 1, s, i);
	for (int i = 0; i < n; i++) {
		int axis = (int)(axes[i] < 0 ? axes[i] + x->rank : axes[i]);
		if (step[i] == 0)
			return fail(E_CORRUPT, "step of axis %d is zero", axis);
		slice_axis(x->d[axis], start[i], end[i], step[i], s, axis);
	}
	return E_OK;
}

static int infer_slice(struct opctx *c)
{
	struct slice s;
	struct shape out = c->in[0].shape;
	int rc = slice_plan(c, &s);
	if (rc < 0)
		return rc;
	memcpy(out.d, s.count, sizeof *s.count * (size_t)out.rank);
	return out_set(c, 0, c->in[0].dtype, &out);
}

static int eval_slice(struct opctx *c)
{
	struct slice s;
	int64_t from[MAX_RANK], to[MAX_RANK], at = 0;
	const struct shape *out = &c->out[0].shape;
	int rc = slice_plan(c, &s);
	if (rc < 0 || !shape_count(out))
		return rc;
	shape_steps(&c->in[0].shape, from);
	shape_steps(out, to);
	for (int i = 0; i < out->rank; i++) {
		at += s.start[i] * from[i];
		from[i] *= s.step[i];
	}
	return copy(c, 0, 0, out->rank, out->d, 0, to, at, from);
}

/* ---- Expand, Tile ---- */

static int infer_expand(struct opctx *c)
{
	struct shape want = {0}, out;
	want.rank = in_list(c, 1, want.d, MAX_RANK);
	if (want.rank < 0)
		return want.rank;
	int rc = shape_check(&want, MAX_ELEMS);
	if (rc < 0 || (rc = shape_broadcast(&c->in[0].shape, &want, &out)) < 0)
		return rc;
	return out_set(c, 0, c->in[0].dtype, &out);
}

static int eval_expand(struct opctx *c)
{
	struct walk w;
	walk_open(&w, c->arena, c->out[0].shape.rank, c->out[0].shape.d, 2);
	walk_like(&w, 0, &c->out[0].shape);
	walk_like(&w, 1, &c->in[0].shape);
	walk_copy(&w, dtype_bytes(c->out[0].dtype), c->out[0].data, c->in[0].data);
	return E_OK;
}

static int infer_tile(struct opctx *c)
{
	struct shape out = c->in[0].shape;
	int64_t times[MAX_RANK];
	int n = in_list(c, 1, times, MAX_RANK);
	if (n < 0)
		return n;
	if (n != out.rank)
		return fail(E_CORRUPT, "%d repeats for rank %d", n, out.rank);
	for (int i = 0; i < n; i++) {
		if (times[i] < 0 || times[i] > MAX_ELEMS)
			return fail(E_CORRUPT, "repeat %lld is out of range", (long long)times[i]);
		out.d[i] *= times[i];
	}
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* Each axis i of the output is split into (repeat, position). */
static int eval_tile(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t in[MAX_RANK], out[MAX_RANK], d[WALK_RANK], to[WALK_RANK], from[WALK_RANK];
	if (!shape_count(y))
		return E_OK;
	shape_steps(x, in);
	shape_steps(y, out);
	for (int i = 0; i < x->rank; i++) {
		d[2 * i] = y->d[i] / x->d[i];
		to[2 * i] = out[i] * x->d[i];
		from[2 * i] = 0;
		d[2 * i + 1] = x->d[i];
		to[2 * i + 1] = out[i];
		from[2 * i + 1] = in[i];
	}
	return copy(c, 0, 0, 2 * x->rank, d, 0, to, 0, from);
}

/* ---- DepthToSpace, SpaceToDepth ---- */

static int infer_blocks(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	int64_t b = node_int(c->node, "blocksize", 0);
	int rc = in_need_rank(c, 0, 4, 4);
	if (rc < 0 || (rc = attr_choice(c, "mode", "DCR CRD", 0)) < 0)
		return rc;
	if (b < 1 || b > 1 << 15)
		return fail(E_CORRUPT, "blocksize %lld is out of range", (long long)b);
	struct shape out = {4, {x->d[0], x->d[1] / (b * b), x->d[2] * b, x->d[3] * b}};
	if (c->code == M_TO_DEPTH)
		out = (struct shape){4, {x->d[0], x->d[1] * b * b, x->d[2] / b, x->d[3] / b}};
	if (c->code == M_TO_DEPTH ? x->d[2] % b || x->d[3] % b : x->d[1] % (b * b))
		return fail(E_CORRUPT, "blocksize %lld does not divide the input", (long long)b);
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* Both are one copy over axes n, c, bh, bw, h, w between a deep [n][c bh bw][h][w] and a wide [n][c][h bh][w
 * bw] tensor. */
static int eval_blocks(struct opctx *c)
{
	bool wide_in = c->code == M_TO_DEPTH, crd = attr_choice(c, "mode", "DCR CRD", 0) == 1;
	const struct shape *deep = wide_in ? &c->out[0].shape : &c->in[0].shape;
	const struct shape *wide = wide_in ? &c->in[0].shape : &c->out[0].shape;
	int64_t b = node_int(c->node, "blocksize", 0), plane = deep->d[2] * deep->d[3], ch = wide->d[1];
	int64_t d[] = {deep->d[0], ch, b, b, deep->d[2], deep->d[3]};
	int64_t in_deep[] = {deep->d[1] * plane,
			     crd ? plane * b * b : plane,
			     crd ? plane * b : plane * ch * b,
			     crd ? plane : plane * ch,
			     deep->d[3],
			     1};
	int64_t row = wide->d[3];
	int64_t in_wide[] = {ch * wide->d[2] * row, wide->d[2] * row, row, 1, row * b, b};
	return wide_in ? copy(c, 0, 0, 6, d, 0, in_deep, 0, in_wide)
		       : copy(c, 0, 0, 6, d, 0, in_wide, 0, in_deep);
}

/* ---- */

static const struct {
	int (*infer)(struct opctx *c);
	int (*eval)(struct opctx *c);
} fns[] = {
    [M_TRANSPOSE] = {infer_transpose, eval_transpose},
    [M_CONCAT] = {infer_concat, eval_concat},
    [M_SPLIT] = {infer_split, eval_split},
    [M_SLICE_OLD] = {infer_slice, eval_slice},
    [M_SLICE] = {infer_slice, eval_slice},
    [M_EXPAND] = {infer_expand, eval_expand},
    [M_TILE] = {infer_tile, eval_tile},
    [M_TO_DEPTH] = {infer_blocks, eval_blocks},
    [M_TO_SPACE] = {infer_blocks, eval_blocks},
};

static int infer(struct opctx *c)
{
	int rc = in_need(c, 0, DTYPES_ANY);
	return rc < 0 ? rc : fns[c->code].infer(c);
}

static int eval(struct opctx *c)
{
	return fns[c->code].eval(c);
}

const struct op op_move = {
    .rows = rows, .infer = infer, .eval = eval, .task = structure_task};
