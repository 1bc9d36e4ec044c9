/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: layouts, sizes, work, and copies between plain and physical. The text is in task_text.c, invariants
 * in task_check.c, the reference in task_ref.c, labels in task_label.c, the generic form in
 * task_abstract.c. */
#include "kernels/task/task.h"
#include "kernels/task/task_stage.h"
#include "platform/base/until.h"

#include <string.h>

static const struct {
	char name[8];
	uint8_t arity;
} ops[P_OPS] = {
    [P_READ] = {"read", 0},     [P_ACC] = {"acc", 0},     [P_IMM] = {"imm", 0},
    [P_ADD] = {"add", 2},       [P_SUB] = {"sub", 2},     [P_MUL] = {"mul", 2},
    [P_DIV] = {"div", 2},       [P_MIN] = {"min", 2},     [P_MAX] = {"max", 2},
    [P_POW] = {"pow", 2},       [P_NEG] = {"neg", 1},     [P_ABS] = {"abs", 1},
    [P_SQRT] = {"sqrt", 1},     [P_RECIP] = {"recip", 1}, [P_EXP] = {"exp", 1},
    [P_LOG] = {"log", 1},       [P_TANH] = {"tanh", 1},   [P_SIGMOID] = {"sigmoid", 1},
    [P_ERF] = {"erf", 1},       [P_FLOOR] = {"floor", 1}, [P_CEIL] = {"ceil", 1},
    [P_RINT] = {"rint", 1},     [P_SIGN] = {"sign", 1},   [P_LT] = {"lt", 2},
    [P_LE] = {"le", 2},         [P_EQ] = {"eq", 2},       [P_SELECT] = {"select", 3},
    [P_SQUARE] = {"square", 1}, [P_SILU] = {"silu", 1},   [P_GELU] = {"gelu", 1},
};

const char *prog_op_name(enum prog_op op)
{
	return ops[op].name;
}

int prog_op_arity(enum prog_op op)
{
	return ops[op].arity;
}

int operand_axes(const struct operand *o, struct phys_axis ax[MAX_SPLITS])
{
	const struct layout *l = &o->layout;
	int n = l->n ? l->n : o->dims.rank;
	for (int j = 0; j < n; j++) {
		int d = l->n ? l->ax[j].dim : j;
		int64_t div = l->n ? l->ax[j].div : 1, size = o->dims.d[d] + l->lo[d] + l->hi[d], outer = 0;
		for (int i = 0; i < j; i++)
			if (ax[i].dim == d)
				outer = ax[i].div;
		ax[j] = (struct phys_axis){d, div, outer, outer ? outer : (size + div - 1) / div, 1};
	}
	for (int j = n - 2; j >= 0; j--)
		ax[j].stride = ax[j + 1].stride * ax[j + 1].extent;
	return n;
}

int64_t operand_elems(const struct operand *o)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(o, ax);
	return n ? ax[0].stride * ax[0].extent : 1;
}

static int64_t plain_offset(const struct operand *o, const int64_t *i)
{
	const struct layout *l = &o->layout;
	int64_t off = 0;
	for (int d = 0; d < o->dims.rank; d++)
		off = off * (o->dims.d[d] + l->lo[d] + l->hi[d]) + i[d] + l->lo[d];
	return off;
}

/* Horner's rule over the axes of operand_axes: the reference calls this for every element it reads. */
int64_t operand_offset(const struct operand *o, const int64_t *i)
{
	const struct layout *l = &o->layout;
	int64_t off = 0;
	if (!l->n)
		return plain_offset(o, i);
	for (int j = 0; j < l->n; j++) {
		int d = l->ax[j].dim;
		int64_t div = l->ax[j].div, outer = 0, v = i[d] + l->lo[d];
		for (int k = 0; k < j; k++)
			if (l->ax[k].dim == d)
				outer = l->ax[k].div;
		int64_t size = o->dims.d[d] + l->lo[d] + l->hi[d];
		if (div > 1) {
			v /= div;
			size = (size + div - 1) / div;
		}
		off = outer ? off * outer + v % outer : off * size + v;
	}
	return off;
}

void layout_blocked(struct layout *l, int rank, int dim, int block)
{
	memset(l, 0, sizeof *l);
	for (int d = 0; d < rank; d++) {
		l->ax[d].dim = (uint8_t)d;
		l->ax[d].div = d == dim ? block : 1;
	}
	l->ax[rank].dim = (uint8_t)dim;
	l->ax[rank].div = 1;
	l->n = rank + 1;
}

bool layout_equal(const struct layout *a, const struct layout *b)
{
	if (a->n != b->n)
		return false;
	for (int j = 0; j < a->n; j++)
		if (a->ax[j].dim != b->ax[j].dim || a->ax[j].div != b->ax[j].div)
			return false;
	return !memcmp(a->lo, b->lo, sizeof a->lo) && !memcmp(a->hi, b->hi, sizeof a->hi);
}

static bool same_index(const struct index *a, const struct index *b)
{
	return !memcmp(a->coef, b->coef, sizeof a->coef) && a->off == b->off && a->div == b->div &&
	       a->mod == b->mod && a->table == b->table;
}

bool task_overwrites(const struct task *t, int i)
{
	const struct stage *s = &t->stage[0];
	const struct operand *in = &t->operand[i], *out = &t->operand[s->out.operand];
	if (t->nstages > 1 || in->role != ROLE_IN || in->dtype != out->dtype ||
	    !shape_equal(&in->dims, &out->dims) || !layout_equal(&in->layout, &out->layout))
		return false;
	for (int k = 0; k < s->nreads; k++)
		for (int d = 0; d < in->dims.rank && s->read[k].operand == i; d++)
			if (!same_index(&s->read[k].dim[d], &s->out.dim[d]))
				return false;
	return true;
}

void index_range(const struct stage *s, const struct index *x, int64_t *lo, int64_t *hi)
{
	*lo = *hi = x->off;
	for (int a = 0; a < s->naxes; a++) {
		int64_t span = x->coef[a] * (s->axis[a].extent - 1);
		*lo += span < 0 ? span : 0;
		*hi += span > 0 ? span : 0;
	}
	if (x->div > 1) {
		*lo = *lo >= 0 ? *lo / x->div : -((-*lo + x->div - 1) / x->div);
		*hi = *hi >= 0 ? *hi / x->div : -((-*hi + x->div - 1) / x->div);
	}
	if (x->mod > 1 && (*lo < 0 || *hi >= x->mod)) {
		*lo = 0;
		*hi = x->mod - 1;
	}
}

bool index_guarded(const struct task *t, const struct stage *s, const struct read *r, int d)
{
	const struct index *x = &r->dim[d];
	const struct operand *o = &t->operand[r->operand];
	if (t->nsyms)
		return x->guard;
	if (x->table >= 0)
		return false;
	int64_t lo, hi;
	index_range(s, x, &lo, &hi);
	return lo < -o->layout.lo[d] || hi >= o->dims.d[d] + o->layout.hi[d];
}

struct key task_key(const struct task *t)
{
	struct buf b = {0};
	task_text(t, &b);
	struct key k = hash_text(buf_str(&b));
	buf_free(&b);
	return k;
}

/* Operations of the polynomials in kernels/loops/vmath.h; an FMA counts as two. A power may be a few
 * products, and counts as one operation like all others. */
static const double function_flops[P_OPS] = {
    [P_EXP] = 18, [P_LOG] = 22, [P_TANH] = 25, [P_SIGMOID] = 20, [P_SILU] = 20, [P_ERF] = 30, [P_GELU] = 23};

static double prog_flops(const struct prog *p)
{
	double n = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		n += function_flops[op] > 0 ? function_flops[op] : prog_op_arity(op) > 0;
	}
	return n;
}

void task_copy(struct task *to, const struct task *from)
{
	to->noperands = from->noperands;
	to->nstages = from->nstages;
	to->nsyms = from->nsyms;
	to->shared = 0;
	to->pairs = from->pairs;
	memcpy(to->operand, from->operand, sizeof *to->operand * (size_t)from->noperands);
	memcpy(to->stage, from->stage, sizeof *to->stage * (size_t)from->nstages);
}

struct task *task_dup(struct arena *a, const struct task *t)
{
	struct task *copy = ARENA_NEW(a, struct task);
	task_copy(copy, t);
	return copy;
}

const struct task *task_keep(struct arena *a, const struct task *t)
{
	struct task *copy =
	    arena_alloc(a, offsetof(struct task, stage) + sizeof *t->stage * (size_t)t->nstages);
	task_copy(copy, t);
	copy->shared = 1 + task_shared(t);
	return copy;
}

double task_flops(const struct task *t)
{
	double sum = 0;
	for (int i = 0; i < t->nstages; i++) {
		const struct stage *s = &t->stage[i];
		double spatial = 1, reduction = 1;
		for (int a = 0; a < s->naxes; a++)
			*(s->axis[a].kind == AXIS_SPATIAL ? &spatial : &reduction) *=
			    (double)s->axis[a].extent;
		sum += spatial *
		       (reduction * (prog_flops(&s->body) + (s->comb != COMB_NONE)) + prog_flops(&s->post));
	}
	return sum;
}

bool stage_resamples(const struct task *t, const struct stage *s)
{
	for (int i = 0; i < s->nreads; i++)
		for (int d = 0; d < t->operand[s->read[i].operand].dims.rank; d++)
			if (s->read[i].dim[d].table >= 0)
				return s->comb != COMB_NONE;
	return false;
}

double task_bytes(const struct task *t, bool constants)
{
	double sum = 0;
	for (int i = 0; i < t->noperands; i++) {
		const struct operand *o = &t->operand[i];
		if (o->role == ROLE_TMP || (o->role == ROLE_CONST && !constants))
			continue;
		double n = 1;
		for (int d = 0; d < o->dims.rank; d++)
			n *= (double)o->dims.d[d];
		sum += n * (double)dtype_bytes(o->dtype);
	}
	return sum;
}

/* The share of index i of dim d in the physical offset. */
static int64_t dim_offset(const struct operand *o, const struct phys_axis *ax, int n, int d, int64_t i)
{
	int64_t off = 0;
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != d)
			continue;
		int64_t v = (i + o->layout.lo[d]) / ax[j].div;
		off += (ax[j].mod ? v % ax[j].mod : v) * ax[j].stride;
	}
	return off;
}

/* The elements that a step along dim d moves, if it is one physical axis; 0: it is split. */
static int64_t dim_stride(const struct phys_axis *ax, int n, int d)
{
	int64_t stride = 0;
	for (int j = 0; j < n; j++)
		if (ax[j].dim == d)
			stride = stride || ax[j].div > 1 || ax[j].mod ? 0 : ax[j].stride;
	return stride;
}

/* Whether the physical order is the plain one, without gaps. */
static bool is_plain(const struct operand *o, const struct phys_axis *ax, int n)
{
	bool plain = n == o->dims.rank;
	for (int j = 0; j < n && plain; j++)
		plain = ax[j].dim == j && ax[j].div == 1 && ax[j].extent == o->dims.d[j];
	return plain;
}

/* Copies n elements of `size` bytes, 1 or 4. */
static void copy_run(void *to, int64_t st, const void *from, int64_t sf, int64_t n, size_t size)
{
	for (int64_t x = 0; x < n && size == 1; x++)
		((uint8_t *)to)[x * st] = ((const uint8_t *)from)[x * sf];
	for (int64_t x = 0; x < n && size == 4; x++)
		((uint32_t *)to)[x * st] = ((const uint32_t *)from)[x * sf];
}

/* Visits the rows of the innermost logical dim that is longer than 1: for each, the row's first physical offset
 * and its plain offset. A split dim is walked block by block, each block with one stride. */
static void copy_rows(const struct operand *o, const struct phys_axis *ax, int n, const char *from_plain,
		      char *to_plain, char *physical, int64_t total)
{
	size_t size = dtype_bytes(o->dtype);
	int64_t each = (int64_t)size;
	int last = o->dims.rank - 1;
	while (last > 0 && o->dims.d[last] == 1)
		last--;
	int64_t i[MAX_RANK] = {0}, part[MAX_RANK], plain = 0, width = last < 0 ? 1 : o->dims.d[last];
	int64_t block = width, step = 1, jump = 0;
	int64_t stride[MAX_RANK];
	for (int d = 0; d < o->dims.rank; d++) {
		part[d] = dim_offset(o, ax, n, d, 0);
		stride[d] = dim_stride(ax, n, d);
	}
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != last)
			continue;
		if (ax[j].div > 1) {
			block = ax[j].div;
			jump = ax[j].stride;
		} else {
			step = ax[j].stride;
		}
	}
	for (int64_t next = 0; plain < total && !until_over_at(plain, &next);) {
		char *row = physical;
		for (int d = 0; d < o->dims.rank; d++)
			row += part[d] * each;
		for (int64_t b = 0; b < width; b += block, row += jump * each) {
			int64_t w = width - b < block ? width - b : block;
			if (from_plain)
				copy_run(row, step, from_plain + plain * each, 1, w, size);
			else
				copy_run(to_plain + plain * each, 1, row, step, w, size);
			plain += w;
		}
		for (int d = last - 1; d >= 0; d--) {
			bool carry = ++i[d] == o->dims.d[d];
			i[d] = carry ? 0 : i[d];
			part[d] = stride[d] ? (i[d] + o->layout.lo[d]) * stride[d]
					    : dim_offset(o, ax, n, d, i[d]);
			if (!carry)
				break;
		}
	}
}

static void copy(const struct operand *o, const void *from_plain, void *to_plain, void *physical)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(o, ax);
	int64_t total = shape_count(&o->dims);
	if (!is_plain(o, ax, n))
		copy_rows(o, ax, n, from_plain, to_plain, physical, total);
	else if (from_plain)
		memcpy(physical, from_plain, dtype_bytes(o->dtype) * (size_t)total);
	else
		memcpy(to_plain, physical, dtype_bytes(o->dtype) * (size_t)total);
}

void operand_pack(const struct operand *o, const void *plain, void *physical)
{
	int64_t n = operand_elems(o);
	size_t size = dtype_bytes(o->dtype);
	int whole = o->dtype == DT_F32 ? 0 : (int)o->fill;
	for (int64_t i = 0, next = 0; i < n && !until_over_at(i, &next);) {
		int64_t end = n - i < UNTIL_PIECE ? n : i + UNTIL_PIECE;
		if (size == 1)
			memset((char *)physical + i, whole, (size_t)(end - i));
		for (int64_t j = i; j < end && o->dtype == DT_F32; j++)
			((float *)physical)[j] = o->fill;
		for (int64_t j = i; j < end && o->dtype == DT_I32; j++)
			((int32_t *)physical)[j] = whole;
		i = end;
	}
	copy(o, plain, NULL, physical);
}

void operand_unpack(const struct operand *o, const void *physical, void *plain)
{
	copy(o, NULL, plain, (void *)physical);
}

/* The outermost physical axis of dim d, if no axis outside of it has more than one element and the dim has no
 * halo: then a part along d that begins at a multiple of the axis' div is contiguous. -1: none. */
static int leading_axis(const struct operand *o, int d, struct phys_axis ax[MAX_SPLITS])
{
	int n = operand_axes(o, ax);
	if (o->layout.lo[d] || o->layout.hi[d])
		return -1;
	for (int j = 0; j < n; j++) {
		if (ax[j].dim == d)
			return j;
		if (ax[j].extent > 1)
			return -1;
	}
	return -1;
}

int64_t operand_inside(const struct operand *part, const struct operand *whole, int d, int64_t at)
{
	struct phys_axis ax[MAX_SPLITS];
	bool halo = false;
	int j = leading_axis(whole, d, ax);
	if (j < 0 || at % ax[j].div || part->dtype != whole->dtype ||
	    !layout_equal(&part->layout, &whole->layout) || part->dims.rank != whole->dims.rank)
		return -1;
	for (int e = 0; e < whole->dims.rank; e++) {
		halo |= whole->layout.lo[e] || whole->layout.hi[e];
		if (e != d && part->dims.d[e] != whole->dims.d[e])
			return -1;
	}
	return halo && part->fill != whole->fill ? -1 : at / ax[j].div * ax[j].stride;
}
