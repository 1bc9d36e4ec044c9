/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/library/piece.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int no_piece(const char *why)
{
	return fail(E_UNSUPPORTED, "libraries have no such layer: %s", why);
}

/* ---- the program behind the sum ---- */

enum term_kind { TERM_SUM, TERM_READ, TERM_NUMBER };

struct term {
	enum term_kind kind;
	int read;
	float number;
};

struct tail {
	int bias, add; /* reads; -1: none */
	float least, greatest;
	bool limited;
};

static bool same_index(const struct index *a, const struct index *b)
{
	return memcmp(a->coef, b->coef, sizeof a->coef) == 0 && a->off == b->off && a->table < 0 &&
	       b->table < 0 && a->div < 2 && b->div < 2 && a->mod < 2 && b->mod < 2;
}

/* Whether a read is of the element that the stage writes. */
static bool is_addend(const struct task *t, const struct stage *s, const struct read *r)
{
	const struct operand *o = &t->operand[r->operand], *y = &t->operand[s->out.operand];
	bool same = o->role != ROLE_CONST && o->dtype == DT_F32 && shape_equal(&o->dims, &y->dims);
	for (int d = 0; d < o->dims.rank && same; d++)
		same = same_index(&r->dim[d], &s->out.dim[d]);
	return same;
}

static bool is_vector(const struct task *t, const struct read *r)
{
	const struct operand *o = &t->operand[r->operand];
	return o->role == ROLE_CONST && o->dtype == DT_F32 && o->dims.rank == 1 && !o->layout.n;
}

static bool take_read(const struct task *t, const struct stage *s, int read, struct tail *f)
{
	const struct read *r = &s->read[read];
	int *slot = is_vector(t, r) ? &f->bias : is_addend(t, s, r) ? &f->add : NULL;
	if (!slot || *slot >= 0 || f->limited)
		return false;
	*slot = read;
	return true;
}

static bool take_limit(struct tail *f, uint8_t op, float number)
{
	f->limited = true;
	if (op == P_MAX) {
		f->least = fmaxf(f->least, number);
		f->greatest = fmaxf(f->greatest, number);
	} else {
		f->least = fminf(f->least, number);
		f->greatest = fminf(f->greatest, number);
	}
	return true;
}

/* Applies an operator to two values, of which one is the sum so far. */
static bool apply(const struct task *t, const struct stage *s, uint8_t op, struct term a, struct term b,
		  struct tail *f)
{
	if (a.kind != TERM_SUM) {
		struct term swap = a;
		a = b;
		b = swap;
	}
	if (a.kind != TERM_SUM || b.kind == TERM_SUM)
		return false;
	if (op == P_ADD && b.kind == TERM_READ)
		return take_read(t, s, b.read, f);
	return (op == P_MAX || op == P_MIN) && b.kind == TERM_NUMBER && take_limit(f, op, b.number);
}

static bool read_tail(const struct task *t, const struct stage *s, struct tail *f)
{
	struct term stack[MAX_PROG];
	int n = 0;
	*f = (struct tail){-1, -1, -INFINITY, INFINITY, false};
	for (int i = 0; i < s->post.n; i++) {
		uint8_t op = s->post.at[i].op;
		if (op == P_ACC || op == P_READ || op == P_IMM) {
			stack[n++] = (struct term){op == P_ACC    ? TERM_SUM
						   : op == P_READ ? TERM_READ
								  : TERM_NUMBER,
						   s->post.at[i].arg, s->post.at[i].imm};
			continue;
		}
		if (prog_op_arity(op) != 2 || n < 2 || !apply(t, s, op, stack[n - 2], stack[n - 1], f))
			return false;
		stack[--n - 1] = (struct term){TERM_SUM, 0, 0};
	}
	return s->post.n == 0 || (n == 1 && stack[0].kind == TERM_SUM);
}

/* ---- indexes and layouts ---- */

/* The axis of a plain index i = axis; -1: a constant 0; -2: another index. */
static int plain_axis(const struct stage *s, const struct index *x)
{
	int axis = -1;
	if (x->table >= 0 || x->div > 1 || x->mod > 1 || x->off)
		return -2;
	for (int a = 0; a < s->naxes; a++) {
		if (!x->coef[a])
			continue;
		if (axis >= 0 || x->coef[a] != 1)
			return -2;
		axis = a;
	}
	return axis;
}

static int64_t extent_of(const struct stage *s, int axis)
{
	return axis < 0 ? 1 : s->axis[axis].extent;
}

static int64_t offset_at(const struct operand *o, int dim, int64_t i)
{
	int64_t at[MAX_RANK] = {0};
	if (dim >= 0)
		at[dim] = i;
	return operand_offset(o, at);
}

/* How far apart two neighbours along a dim lie that is not split. */
static int64_t stride_of(const struct operand *o, int dim)
{
	return dim < 0 || o->dims.d[dim] < 2 ? 0 : offset_at(o, dim, 1) - offset_at(o, -1, 0);
}

/* The number of physical axes of a dim; *block: of the inner one. */
static int splits_of(const struct operand *o, int dim, int64_t *block)
{
	int n = 0;
	*block = 1;
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].dim == dim) {
			n++;
			if (o->layout.ax[j].div > *block)
				*block = o->layout.ax[j].div;
		}
	return o->layout.n ? n : 1;
}

/* Views a tensor of images, whose channels are dim 1, and whose last dim is the width. */
static bool view_image(const struct operand *o, struct hone_view *v, int64_t *at)
{
	int rank = o->dims.rank, height = rank == 4 ? 2 : -1;
	int64_t block, none;
	if (o->dtype != DT_F32 || rank < 3 || rank > 4)
		return false;
	for (int d = 0; d < rank; d++)
		if (splits_of(o, d, d == 1 ? &block : &none) != 1 && d != 1)
			return false;
	*at = offset_at(o, -1, 0);
	*v = (struct hone_view){{stride_of(o, 0), 0, stride_of(o, height), stride_of(o, rank - 1)}, block};
	if (block == 1 && o->dims.d[1] > 1 && stride_of(o, 1) == 1 && o->dims.d[rank - 1] > 1 &&
	    v->stride[3] != 1)
		v->block = block = o->dims.d[1]; /* the channels of a pixel are neighbours */
	v->stride[1] = o->dims.d[1] > block ? offset_at(o, 1, block) - *at : 0;
	if (block == 1)
		return o->dims.d[rank - 1] < 2 || v->stride[3] == 1;
	return o->dims.d[1] < 2 || stride_of(o, 1) == 1;
}

/* ---- convolutions ---- */

/* The index of an image's row or column: stride * (axis of the output) + dilation * (axis of the kernel) -
 * pad. `out` is the output's axis, -1 if it has one element. */
static bool read_window(const struct stage *s, const struct index *x, int out, int kernel, int64_t *stride,
			int64_t *dilation, int64_t *pad)
{
	if (x->table >= 0 || x->div > 1 || x->mod > 1)
		return false;
	*stride = out < 0 ? 1 : x->coef[out];
	*dilation = kernel < 0 ? 1 : x->coef[kernel];
	*pad = -x->off;
	for (int a = 0; a < s->naxes; a++)
		if (x->coef[a] && a != out && a != kernel)
			return false;
	return *stride > 0 && *dilation > 0;
}

struct conv_axes {
	int batch, y, x, r, s;
	struct index k; /* of the output's channel */
};

/* Sets groups, in and out from the channels' indexes. */
static bool read_channels(const struct stage *s, const struct conv_axes *c, const struct index *in,
			  const struct operand *w, const struct read *wr, struct hone_piece *p)
{
	int k = plain_axis(s, &c->k), from = plain_axis(s, in), depth = plain_axis(s, &wr->dim[1]);
	if (!same_index(&wr->dim[0], &c->k) || c->k.off || c->k.table >= 0)
		return false;
	p->in = w->dims.d[1];
	if (k > -2 && from == depth && from > -2 && (from < 0 || s->axis[from].kind == AXIS_REDUCTION)) {
		p->groups = 1;
		p->out = w->dims.d[0];
		return extent_of(s, from) == p->in && extent_of(s, k) == p->out;
	}
	if (k > -1 && from == k && depth == -1 && p->in == 1) {
		p->groups = w->dims.d[0];
		p->out = 1;
		return extent_of(s, k) == p->groups;
	}
	return false;
}

static int read_conv(const struct task *t, const struct stage *s, int xr, int wr, struct task_piece *out)
{
	const struct read *x = &s->read[xr], *w = &s->read[wr], *y = &s->out;
	const struct operand *xo = &t->operand[x->operand], *wo = &t->operand[w->operand],
			     *yo = &t->operand[y->operand];
	struct hone_piece *p = &out->p;
	int rank = xo->dims.rank, last = rank - 1;
	bool deep = rank == 4;
	if (rank != yo->dims.rank || wo->dims.rank < rank || wo->dims.rank > 4 || wo->role != ROLE_CONST ||
	    wo->dtype != DT_F32 || wo->layout.n || rank < 3 || rank > 4)
		return no_piece("its tensors are no images");
	if (rank == 3 && wo->dims.rank == 4 && (wo->dims.d[2] != 1 || wo->dims.d[3] != 1))
		return no_piece("its kernel has other dimensions than its image");
	struct conv_axes c = {.batch = plain_axis(s, &y->dim[0]),
			      .y = deep ? plain_axis(s, &y->dim[2]) : -1,
			      .x = plain_axis(s, &y->dim[last]),
			      .r = deep ? plain_axis(s, &w->dim[2]) : -1,
			      .s = plain_axis(s, &w->dim[wo->dims.rank - 1]),
			      .k = y->dim[1]};
	if (c.batch < -1 || c.y < -1 || c.x < -1 || c.r < -1 || c.s < -1 ||
	    !same_index(&x->dim[0], &y->dim[0]))
		return no_piece("its indexes are no convolution's");
	p->kind = HONE_CONVOLUTION;
	p->batch = yo->dims.d[0];
	p->in_h = deep ? xo->dims.d[2] : 1;
	p->in_w = xo->dims.d[last];
	p->out_h = deep ? yo->dims.d[2] : 1;
	p->out_w = yo->dims.d[last];
	p->kernel_h = deep ? wo->dims.d[2] : 1;
	p->kernel_w = wo->dims.d[wo->dims.rank - 1];
	p->stride_h = p->dilation_h = 1;
	if (!read_window(s, &x->dim[last], c.x, c.s, &p->stride_w, &p->dilation_w, &p->pad_w) ||
	    (deep && !read_window(s, &x->dim[2], c.y, c.r, &p->stride_h, &p->dilation_h, &p->pad_h)) ||
	    !read_channels(s, &c, &x->dim[1], wo, w, p))
		return no_piece("its indexes are no convolution's");
	if (extent_of(s, c.r) != p->kernel_h || extent_of(s, c.s) != p->kernel_w || p->pad_h < 0 ||
	    p->pad_w < 0 || extent_of(s, c.y) != p->out_h || extent_of(s, c.x) != p->out_w ||
	    extent_of(s, c.batch) != p->batch)
		return no_piece("it computes a part of its tensors");
	if (!view_image(xo, &p->x, &out->x_at) || !view_image(yo, &p->y, &out->y_at))
		return no_piece("its tensors have another layout");
	p->halo_left = xo->layout.lo[last];
	p->halo_right = xo->layout.hi[last];
	p->halo_top = deep ? xo->layout.lo[2] : 0;
	p->halo_bottom = deep ? xo->layout.hi[2] : 0;
	p->constant = 1;
	return E_OK;
}

/* ---- products ---- */

/* The stride of an axis in an operand that is not split; false: its index is not affine. */
static bool axis_stride(const struct operand *o, const struct read *r, int axis, int64_t *stride)
{
	int64_t none;
	*stride = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (x->table >= 0 || x->div > 1 || x->mod > 1 || splits_of(o, d, &none) != 1)
			return false;
		*stride += axis < 0 ? 0 : x->coef[axis] * stride_of(o, d);
	}
	return true;
}

/* The element that a read begins at. */
static int64_t read_start(const struct operand *o, const struct read *r)
{
	int64_t at[MAX_RANK];
	for (int d = 0; d < o->dims.rank; d++)
		at[d] = r->dim[d].off;
	return operand_offset(o, at);
}

static bool uses_axis(const struct operand *o, const struct read *r, int axis)
{
	for (int d = 0; d < o->dims.rank; d++)
		if (r->dim[d].coef[axis])
			return true;
	return false;
}

static bool view_matrix(const struct operand *o, const struct read *r, int row, int column,
			struct hone_view *v, int64_t *at)
{
	*v = (struct hone_view){.block = 1};
	if (o->dtype != DT_F32 || !axis_stride(o, r, row, &v->stride[0]) ||
	    !axis_stride(o, r, column, &v->stride[1]))
		return false;
	*at = read_start(o, r);
	return v->stride[0] >= 0 && v->stride[1] >= 0;
}

static int read_product(const struct task *t, const struct stage *s, int xr, int wr, struct task_piece *out)
{
	const struct read *x = &s->read[xr], *w = &s->read[wr];
	const struct operand *xo = &t->operand[x->operand], *wo = &t->operand[w->operand],
			     *yo = &t->operand[s->out.operand];
	int row = -1, column = -1, depth = -1;
	for (int a = 0; a < s->naxes; a++) {
		bool in_x = uses_axis(xo, x, a), in_w = uses_axis(wo, w, a);
		int *slot = s->axis[a].kind == AXIS_REDUCTION ? &depth : in_x ? &row : &column;
		if (s->axis[a].extent == 1)
			continue;
		if (*slot >= 0 || (s->axis[a].kind == AXIS_REDUCTION ? !in_x || !in_w : in_x == in_w))
			return no_piece("it is no product of two matrices");
		*slot = a;
	}
	struct hone_piece *p = &out->p;
	p->kind = HONE_PRODUCT;
	p->rows = extent_of(s, row);
	p->columns = extent_of(s, column);
	p->depth = extent_of(s, depth);
	p->constant = wo->role == ROLE_CONST;
	for (int d = 0; d < xo->dims.rank; d++)
		if (index_guarded(t, s, x, d))
			return no_piece("it reads outside of its tensors");
	if (xo->role == ROLE_CONST || !view_matrix(xo, x, row, depth, &p->x, &out->x_at) ||
	    !view_matrix(wo, w, depth, column, &p->w, &out->w_at) ||
	    !view_matrix(yo, &s->out, row, column, &p->y, &out->y_at))
		return no_piece("its matrices have another layout");
	return E_OK;
}

/* ---- both ---- */

/* Bias and addend. */
static int read_rest(const struct task *t, const struct stage *s, const struct tail *f,
		     struct task_piece *out)
{
	struct hone_piece *p = &out->p;
	p->least = f->least;
	p->greatest = f->greatest;
	if (f->bias >= 0) {
		const struct read *r = &s->read[f->bias];
		int axis = plain_axis(s, &r->dim[0]);
		bool conv = p->kind == HONE_CONVOLUTION;
		if (conv ? !same_index(&r->dim[0], &s->out.dim[1]) : axis < 0)
			return no_piece("its bias has another index");
		p->has_bias = 1;
		if (!conv) {
			int64_t y_row, y_column, own;
			const struct operand *yo = &t->operand[s->out.operand];
			y_row = p->y.stride[0];
			y_column = p->y.stride[1];
			if (!axis_stride(yo, &s->out, axis, &own))
				return no_piece("its bias has another index");
			bool rows = extent_of(s, axis) == p->rows && own == y_row && p->rows > 1;
			bool columns = extent_of(s, axis) == p->columns && own == y_column;
			if (!rows && !columns)
				return no_piece("its bias has another index");
			p->has_bias = columns ? 1 : 2;
		}
		out->bias = r->operand;
	}
	if (f->add < 0)
		return E_OK;
	const struct read *r = &s->read[f->add];
	const struct operand *o = &t->operand[r->operand];
	bool seen = false;
	if (p->kind == HONE_CONVOLUTION) {
		seen = view_image(o, &p->add, &out->add_at);
	} else {
		int row = -1, column = -1;
		for (int a = 0; a < s->naxes; a++) {
			int64_t own;
			if (s->axis[a].kind == AXIS_REDUCTION || s->axis[a].extent == 1 ||
			    !axis_stride(&t->operand[s->out.operand], &s->out, a, &own))
				continue;
			if (own == p->y.stride[0] && s->axis[a].extent == p->rows && row < 0)
				row = a;
			else
				column = a;
		}
		seen = view_matrix(o, r, row, column, &p->add, &out->add_at);
	}
	if (!seen)
		return no_piece("its addend has another layout");
	p->has_add = 1;
	out->add = r->operand;
	return E_OK;
}

int piece_of_task(const struct task *t, struct task_piece *out)
{
	*out = (struct task_piece){.x = -1, .w = -1, .bias = -1, .add = -1, .y = -1};
	out->p.bytes = sizeof out->p;
	if (t->nstages != 1 || t->nsyms)
		return no_piece("it has several stages");
	const struct stage *s = &t->stage[0];
	struct tail tail;
	if (s->comb != COMB_SUM || s->body.n != 3 || s->body.at[0].op != P_READ ||
	    s->body.at[1].op != P_READ || s->body.at[2].op != P_MUL)
		return no_piece("it is no sum of products");
	if (!read_tail(t, s, &tail))
		return no_piece("of what follows the sum they know a bias, an addend and limits alone");
	int xr = s->body.at[0].arg, wr = s->body.at[1].arg;
	const struct operand *y = &t->operand[s->out.operand], *x = &t->operand[s->read[xr].operand];
	if (y->dtype != DT_F32 || x->fill != 0 || xr == wr)
		return no_piece("its types or its padding differ");
	for (int i = 0; i < s->nreads; i++)
		if (i != xr && i != wr && i != tail.bias && i != tail.add)
			return no_piece("it reads more tensors");
	int rc = read_conv(t, s, xr, wr, out);
	if (rc == E_UNSUPPORTED)
		rc = read_product(t, s, xr, wr, out);
	if (rc >= 0)
		rc = read_rest(t, s, &tail, out);
	out->x = s->read[xr].operand;
	out->w = s->read[wr].operand;
	out->y = s->out.operand;
	return rc;
}

/* ---- parts ---- */

/* Channels, groups, rows or columns that parts are made of, and the least that a part may begin at a multiple
 * of. */
static int64_t units(const struct hone_piece *p, int64_t *whole, bool *rows)
{
	*rows = false;
	if (p->kind == HONE_PRODUCT) {
		*rows = p->rows >= 8;
		*whole = *rows ? p->rows : p->columns;
		return *rows ? 4 : 16;
	}
	*whole = p->groups > 1 ? p->groups : p->out;
	if (p->groups > 1 && (p->in != 1 || p->out != 1))
		return *whole; /* not divided */
	int64_t block = p->y.block > p->add.block ? p->y.block : p->add.block;
	return p->groups > 1 && p->x.block > block ? p->x.block : block > 1 ? block : 8;
}

static int64_t part_start(int64_t whole, int64_t unit, int n, int i)
{
	int64_t blocks = (whole + unit - 1) / unit, at = blocks * i / n * unit;
	return at < whole ? at : whole;
}

int piece_parts(const struct task_piece *whole, int n)
{
	int64_t all;
	bool rows;
	int64_t unit = units(&whole->p, &all, &rows), most = (all + unit - 1) / unit;
	return n < 1 ? 1 : most < n ? (int)most : n;
}

static void move_channels(const struct hone_view *v, int64_t channel, int64_t *at)
{
	*at += channel / v->block * v->stride[1] + channel % v->block;
}

void piece_part(const struct task_piece *whole, int n, int i, struct task_piece *out)
{
	int64_t all;
	bool rows;
	*out = *whole;
	struct hone_piece *p = &out->p;
	int64_t unit = units(p, &all, &rows), from = part_start(all, unit, n, i),
		to = part_start(all, unit, n, i + 1);
	if (p->kind == HONE_CONVOLUTION) {
		out->w_at += from * p->in * p->kernel_h * p->kernel_w;
		out->bias_at += from;
		move_channels(&p->y, from, &out->y_at);
		if (p->has_add)
			move_channels(&p->add, from, &out->add_at);
		if (p->groups > 1) {
			move_channels(&p->x, from * p->in, &out->x_at);
			p->groups = to - from;
		} else {
			p->out = to - from;
		}
		return;
	}
	int dim = rows ? 0 : 1;
	*(rows ? &p->rows : &p->columns) = to - from;
	out->y_at += from * p->y.stride[dim];
	out->add_at += from * p->add.stride[dim];
	out->x_at += rows ? from * p->x.stride[0] : 0;
	out->w_at += rows ? 0 : from * p->w.stride[1];
	out->bias_at += p->has_bias == (rows ? 2U : 1U) ? from : 0;
}

/* ---- text ---- */

/* All numbers of a piece, in the order of its text. */
enum { NUMBERS = 62, VIEWS = 4, HEAD = 24 /* numbers before `constant` */ };

static int put_numbers(const struct task_piece *t, int64_t n[NUMBERS])
{
	const struct hone_piece *p = &t->p;
	const int64_t of[] = {
	    p->kind,       p->batch,   p->groups,   p->in,       p->out,       p->in_h,        p->in_w,
	    p->out_h,      p->out_w,   p->kernel_h, p->kernel_w, p->stride_h,  p->stride_w,    p->dilation_h,
	    p->dilation_w, p->pad_h,   p->pad_w,    p->halo_top, p->halo_left, p->halo_bottom, p->halo_right,
	    p->rows,       p->columns, p->depth,    p->constant, p->has_bias,  p->has_add,     t->x,
	    t->w,          t->bias,    t->add,      t->y,        t->x_at,      t->w_at,        t->bias_at,
	    t->add_at,     t->y_at};
	int k = (int)(sizeof of / sizeof *of);
	memcpy(n, of, sizeof of);
	const struct hone_view *v[VIEWS] = {&p->x, &p->w, &p->y, &p->add};
	for (int i = 0; i < VIEWS; i++) {
		for (int d = 0; d < 4; d++)
			n[k++] = v[i]->stride[d];
		n[k++] = v[i]->block;
	}
	return k;
}

static void take_numbers(const int64_t n[NUMBERS], struct task_piece *t)
{
	struct hone_piece *p = &t->p;
	int64_t *const to[] = {NULL,           &p->batch,    &p->groups,   &p->in,         &p->out,
			       &p->in_h,       &p->in_w,     &p->out_h,    &p->out_w,      &p->kernel_h,
			       &p->kernel_w,   &p->stride_h, &p->stride_w, &p->dilation_h, &p->dilation_w,
			       &p->pad_h,      &p->pad_w,    &p->halo_top, &p->halo_left,  &p->halo_bottom,
			       &p->halo_right, &p->rows,     &p->columns,  &p->depth};
	int *const index[] = {&t->x, &t->w, &t->bias, &t->add, &t->y};
	int64_t *const at[] = {&t->x_at, &t->w_at, &t->bias_at, &t->add_at, &t->y_at};
	struct hone_view *const v[VIEWS] = {&p->x, &p->w, &p->y, &p->add};
	int k = HEAD;
	p->bytes = sizeof *p;
	p->kind = (uint32_t)n[0];
	for (int i = 1; i < HEAD; i++)
		*to[i] = n[i];
	p->constant = (uint32_t)n[k++];
	p->has_bias = (uint32_t)n[k++];
	p->has_add = (uint32_t)n[k++];
	for (int i = 0; i < 5; i++)
		*index[i] = (int)n[k++];
	for (int i = 0; i < 5; i++)
		*at[i] = n[k++];
	for (int i = 0; i < VIEWS; i++) {
		for (int d = 0; d < 4; d++)
			v[i]->stride[d] = n[k++];
		v[i]->block = n[k++];
	}
}

void piece_text(const struct task_piece *t, struct buf *out)
{
	int64_t n[NUMBERS];
	int count = put_numbers(t, n);
	for (int i = 0; i < count; i++)
		buf_printf(out, "%" PRId64 " ", n[i]);
	buf_printf(out, "%.9g %.9g", (double)t->p.least, (double)t->p.greatest);
}

static bool sizes_are_sane(const struct task_piece *t)
{
	const struct hone_piece *p = &t->p;
	int64_t n[NUMBERS];
	int count = put_numbers(t, n);
	for (int i = 0; i < count; i++)
		if (n[i] < -1 || n[i] > INT64_C(1) << 40)
			return false;
	for (int i = HEAD + 3; i < HEAD + 8; i++)
		if (n[i] >= MAX_OPERANDS)
			return false;
	bool conv = p->kind == HONE_CONVOLUTION;
	for (int i = conv ? 1 : HEAD - 3; i < (conv ? 15 : HEAD); i++)
		if (n[i] < 1)
			return false;
	bool views = p->x.block > 0 && p->y.block > 0 && (p->add.block > 0 || !p->has_add);
	return (conv || p->kind == HONE_PRODUCT) && views && p->constant < 2 && p->has_bias < 3 &&
	       p->has_add < 2 && t->x >= 0 && t->w >= 0 && t->y >= 0 && (t->bias >= 0) == (p->has_bias > 0) &&
	       (t->add >= 0) == (p->has_add > 0) && p->pad_h >= 0 && p->pad_w >= 0 && p->halo_top >= 0 &&
	       p->halo_left >= 0 && p->halo_bottom >= 0 && p->halo_right >= 0 && t->x_at >= 0 &&
	       t->w_at >= 0 && t->bias_at >= 0 && t->add_at >= 0 && t->y_at >= 0 && !(p->least > p->greatest);
}

int piece_parse(const char *text, struct task_piece *out)
{
	int64_t n[NUMBERS];
	struct task_piece none = {0};
	int count = put_numbers(&none, n), used = 0, more;
	for (int i = 0; i < count; i++, used += more)
		if (sscanf(text + used, "%" SCNd64 " %n", &n[i], &more) != 1)
			return fail(E_CORRUPT, "a library's piece lacks numbers");
	*out = none;
	take_numbers(n, out);
	if (sscanf(text + used, "%f %f%n", &out->p.least, &out->p.greatest, &more) != 2 || text[used + more])
		return fail(E_CORRUPT, "a library's piece lacks its limits");
	return sizes_are_sane(out) ? E_OK : fail(E_CORRUPT, "a library's piece has sizes out of range");
}
