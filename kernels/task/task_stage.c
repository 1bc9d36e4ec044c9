/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/task_stage.h"

#include <string.h>

int task_reads(const struct task *t, int operand)
{
	int n = 0;
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			n += t->stage[k].read[i].operand == operand;
	return n;
}

int stage_spatial(const struct stage *st)
{
	int n = 0;
	while (n < st->naxes && st->axis[n].kind == AXIS_SPATIAL)
		n++;
	return n;
}

static unsigned index_axes(const struct stage *st, const struct index *x)
{
	unsigned m = 0;
	for (int a = 0; a < st->naxes; a++)
		if (x->coef[a])
			m |= 1u << a;
	return m;
}

unsigned read_axes(const struct task *t, const struct stage *st, const struct read *r)
{
	unsigned m = 0;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
		m |= index_axes(st, &r->dim[d]);
	return m;
}

static bool direct(const struct index *x)
{
	return x->div <= 1 && x->mod <= 1 && x->table < 0;
}

/* The inner block of dim d's split; 0: not split. */
static int64_t dim_block(const struct operand *o, int d)
{
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].dim == d && o->layout.ax[j].div > 1)
			return o->layout.ax[j].div;
	return 0;
}

int64_t axis_block(const struct task *t, const struct stage *st, int a)
{
	int64_t best = 1;
	int image = stage_image(t, st);
	for (int i = 0; i <= st->nreads; i++) {
		const struct read *r = i < st->nreads ? &st->read[i] : &st->out;
		const struct operand *o = &t->operand[r->operand];
		if (operand_packs(t, r->operand))
			continue;
		for (int d = 0; d < o->dims.rank; d++) {
			int64_t b = dim_block(o, d);
			int64_t step = i == image ? r->dim[d].coef[a] : 1;
			b = step > 1 ? b / step : b;
			if (b > best && r->dim[d].coef[a] == step && direct(&r->dim[d]))
				best = b;
		}
	}
	return best;
}

int64_t tmp_row(const struct operand *o, int d, int64_t extent)
{
	bool whole = o->role == ROLE_TMP && extent > TMP_ROW / 4 && !IS_SYM(o->dims.d[d]) &&
		     extent == o->dims.d[d] + o->layout.lo[d] + o->layout.hi[d];
	return whole ? (extent + TMP_ROW - 1) / TMP_ROW * TMP_ROW : extent;
}

/* The innermost physical axis, if it belongs to dim d and is not split; -1: none. */
static int row_axis(const struct operand *o, int d, unsigned without)
{
	for (int j = (o->layout.n ? o->layout.n : o->dims.rank) - 1; j >= 0; j--) {
		int e = o->layout.n ? o->layout.ax[j].dim : j;
		if (!(without >> e & 1))
			return e == d && !dim_block(o, d) ? j : -1;
	}
	return -1;
}

/* `without`: set of dims that are not in memory. */
static int64_t stride_without(const struct operand *o, int layout_axis, unsigned without)
{
	const struct layout *l = &o->layout;
	int n = l->n ? l->n : o->dims.rank;
	int64_t s = 1;
	for (int j = n - 1; j > layout_axis; j--) {
		int d = l->n ? l->ax[j].dim : j;
		if (without >> d & 1)
			continue;
		int64_t div = l->n ? l->ax[j].div : 1, b = l->n ? dim_block(o, d) : 0;
		if (b && div == 1) {
			s *= b;
			continue;
		}
		if (IS_SYM(o->dims.d[d]) || IS_SYM(l->lo[d]) || IS_SYM(l->hi[d]))
			return -1;
		int64_t e = (o->dims.d[d] + l->lo[d] + l->hi[d] + div - 1) / div;
		s *= row_axis(o, d, without) == j ? tmp_row(o, d, e) : e;
	}
	return s;
}

/* Whether no vector of `lanes` neighbours along axis a crosses a block of dim d. */
static bool aligned(const struct operand *o, const struct index *x, int d, int a, int lanes)
{
	if (x->coef[a] != 1 || dim_block(o, d) % lanes || IS_SYM(x->off) || IS_SYM(o->layout.lo[d]))
		return false;
	if ((x->off + o->layout.lo[d]) % lanes)
		return false;
	for (int i = 0; i < MAX_AXES; i++)
		if (i != a && (IS_SYM(x->coef[i]) || x->coef[i] % lanes))
			return false;
	return true;
}

/* Whether the index is one axis that covers the whole dim. */
static bool same_axis(const struct stage *st, const struct operand *o, const struct index *x, int d)
{
	int used = -1, n = 0;
	for (int a = 0; a < st->naxes; a++)
		if (x->coef[a])
			used = a, n++;
	return n == 1 && x->coef[used] == 1 && x->off == 0 && st->axis[used].extent == o->dims.d[d];
}

/* Whether vectors that reach past the end of dim d stay inside of a row, because rows are longer than the
 * dim. */
static bool row_pads(const struct stage *st, const struct operand *o, const struct index *x, int d,
		     unsigned without)
{
	return row_axis(o, d, without) >= 0 && tmp_row(o, d, o->dims.d[d]) % TMP_ROW == 0 &&
	       o->role == ROLE_TMP && !o->layout.lo[d] && !o->layout.hi[d] && same_axis(st, o, x, d);
}

/* Dims of a tmp that are not in scratch: those that shared axes index. */
static unsigned left_out(const struct task *t, const struct stage *st, const struct read *r)
{
	const struct operand *o = &t->operand[r->operand];
	if (o->role != ROLE_TMP)
		return 0;
	unsigned mask = 0, shared = (1u << task_shared(t)) - 1;
	for (int d = 0; d < o->dims.rank; d++)
		if (index_axes(st, &r->dim[d]) & shared)
			mask |= 1u << d;
	return mask;
}

int read_stride(const struct task *t, const struct stage *st, const struct read *r, int a, int lanes,
		int64_t *stride, bool *pads)
{
	const struct operand *o = &t->operand[r->operand];
	int n = o->layout.n ? o->layout.n : o->dims.rank;
	unsigned without = left_out(t, st, r);
	*stride = 0;
	*pads = true;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (!x->coef[a])
			continue;
		if (IS_SYM(x->coef[a]) || !direct(x))
			return fail(E_INFEASIBLE, "lanes of %s are not evenly spaced in %s", st->axis[a].name,
				    o->name);
		int64_t b = dim_block(o, d), s = 0;
		if (b && !aligned(o, x, d, a, lanes))
			return fail(E_INFEASIBLE, "lanes of %s cross blocks of %s", st->axis[a].name,
				    o->name);
		for (int j = 0; j < n; j++)
			if ((o->layout.n ? o->layout.ax[j].dim : j) == d && (!b || o->layout.ax[j].div == 1))
				s = stride_without(o, j, without);
		if (s < 0 || s * x->coef[a] > INT32_MAX || s * x->coef[a] < INT32_MIN)
			return fail(E_INFEASIBLE, "lanes of %s: stride in %s is not constant",
				    st->axis[a].name, o->name);
		*pads &= b != 0 || row_pads(st, o, x, d, without);
		*stride += s * x->coef[a];
	}
	return E_OK;
}

bool dtype_is_byte(enum dtype t)
{
	return t == DT_U8 || t == DT_I8;
}

bool dtype_is_whole(enum dtype t)
{
	return dtype_is_byte(t) || t == DT_I32;
}

bool task_floats(const struct task *t)
{
	bool floats = true;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *s = &t->stage[k];
		floats &= t->operand[s->out.operand].dtype == DT_F32;
		for (int i = 0; i < s->nreads; i++)
			floats &= t->operand[s->read[i].operand].dtype == DT_F32;
	}
	return floats;
}

float byte_least(enum dtype t)
{
	return t == DT_U8 ? 0 : -128;
}

float byte_greatest(enum dtype t)
{
	return t == DT_U8 ? 255 : 127;
}

bool stage_exact(const struct task *t, const struct stage *st)
{
	return dtype_is_whole(t->operand[st->out.operand].dtype);
}

/* Whether the value that the program p leaves is whole. The caller has checked its stack. */
static bool gives_whole(const struct task *t, const struct stage *st, const struct prog *p)
{
	bool whole[MAX_PROG + 1] = {false};
	int n = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		n -= prog_op_arity(op);
		whole[n] = op == P_READ  ? dtype_is_whole(t->operand[st->read[p->at[i].arg].operand].dtype)
			   : op == P_ACC ? stage_whole(t, st)
					 : (op == P_ADD || op == P_MUL) && whole[n] && whole[n + 1];
		n++;
	}
	return n > 0 && whole[n - 1];
}

bool stage_gives_whole(const struct task *t, const struct stage *st)
{
	if (st->comb == COMB_NONE && !st->post.n)
		return gives_whole(t, st, &st->body);
	return st->comb != COMB_NONE && (st->post.n ? gives_whole(t, st, &st->post) : stage_whole(t, st));
}

static bool reads_byte(const struct task *t, const struct stage *st, const struct prog *p, int i)
{
	return p->at[i].op == P_READ && dtype_is_byte(t->operand[st->read[p->at[i].arg].operand].dtype);
}

bool stage_whole(const struct task *t, const struct stage *st)
{
	const struct prog *p = &st->body;
	return st->comb == COMB_SUM && reads_byte(t, st, p, 0) &&
	       (p->n == 1 || (p->n == 3 && reads_byte(t, st, p, 1) && p->at[2].op == P_MUL));
}

bool stage_short(const struct task *t, const struct stage *st)
{
	double reach = st->body.n == 1 ? 255 : 255 * 255;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		reach *= IS_SYM(st->axis[a].extent) ? 0x1p24 : (double)st->axis[a].extent;
	return stage_whole(t, st) && reach <= 0x1p24;
}

static int uses(const struct task *t, int operand, const struct stage **stage, const struct read **read)
{
	int n = 0;
	for (int s = 0; s < t->nstages; s++)
		for (int i = 0; i < t->stage[s].nreads; i++) {
			if (t->stage[s].read[i].operand != operand)
				continue;
			*stage = &t->stage[s];
			*read = &t->stage[s].read[i];
			n++;
		}
	return n;
}

bool operand_packs(const struct task *t, int operand)
{
	const struct operand *o = &t->operand[operand];
	const struct stage *st = NULL;
	const struct read *r = NULL;
	if (t->nsyms || o->role != ROLE_CONST || o->dtype == DT_I32 || uses(t, operand, &st, &r) != 1)
		return false;
	if (o->fill != 0) /* a packed constant is 0 outside, which sums over partial vectors rely on */
		return false;
	int terms = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		if (!direct(&r->dim[d]))
			return false;
		for (int a = 0; a < st->naxes; a++)
			terms += r->dim[d].coef[a] != 0;
	}
	return terms > 0 && terms <= 8;
}

/* Whether the operand, if it is a tmp, has a dim that axis i alone indexes. */
static bool tmp_follows(const struct task *t, const struct stage *st, const struct read *r, int i)
{
	const struct operand *o = &t->operand[r->operand];
	if (o->role != ROLE_TMP)
		return true;
	int dims = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (!x->coef[i])
			continue;
		if (!direct(x) || !same_axis(st, o, x, d) || dim_block(o, d) || o->layout.lo[d] ||
		    o->layout.hi[d])
			return false;
		dims++;
	}
	return dims == 1;
}

/* The dim of a tmp that axis i indexes; it must be the same in all accesses. */
static int tmp_dim(const struct read *r, int rank, int i)
{
	for (int d = 0; d < rank; d++)
		if (r->dim[d].coef[i])
			return d;
	return -1;
}

bool stage_over_image(const struct task *t, const struct stage *st, int i)
{
	for (int k = 0; k < st->nreads && st->axis[i].extent != 1; k++) {
		if (t->operand[st->read[k].operand].role == ROLE_CONST)
			continue;
		unsigned axes = read_axes(t, st, &st->read[k]);
		unsigned inner = axes >> (i + 1) & ((1u << (stage_spatial(st) - i - 1)) - 1);
		if (!(axes >> i & 1) && inner & (inner - 1))
			return true;
	}
	return false;
}

static bool shared(const struct task *t, int i)
{
	int dim[MAX_OPERANDS];
	memset(dim, -1, sizeof dim);
	for (int s = 0; s < t->nstages; s++) {
		const struct stage *st = &t->stage[s];
		if (i >= stage_spatial(st) || st->axis[i].extent != t->stage[0].axis[i].extent ||
		    stage_over_image(t, st, i))
			return false;
		for (int k = 0; k <= st->nreads; k++) {
			const struct read *r = k < st->nreads ? &st->read[k] : &st->out;
			if (!tmp_follows(t, st, r, i))
				return false;
			if (t->operand[r->operand].role != ROLE_TMP)
				continue;
			int d = tmp_dim(r, t->operand[r->operand].dims.rank, i);
			if (dim[r->operand] >= 0 && dim[r->operand] != d)
				return false;
			dim[r->operand] = d;
		}
	}
	return true;
}

bool task_vectors(const struct task *t)
{
	for (int k = 0; k < t->nstages; k++) {
		int wide = 0;
		for (int a = 0; a < stage_spatial(&t->stage[k]); a++)
			wide += t->stage[k].axis[a].extent != 1;
		if (wide > 1)
			return false;
	}
	return true;
}

int task_shared(const struct task *t)
{
	int n = 0;
	while (!t->shared && t->nstages > 1 && n < MAX_AXES && shared(t, n))
		n++;
	return t->shared ? t->shared - 1 : n;
}

int prog_weight(const struct prog *p)
{
	int n = 1;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		bool long_ = op == P_EXP || op == P_LOG || op == P_TANH || op == P_SIGMOID || op == P_ERF ||
			     op == P_SILU || op == P_GELU || op == P_POW;
		n += long_ ? 24 : prog_op_arity(op) > 1;
	}
	return n;
}

bool stage_long_post(const struct stage *st)
{
	return prog_weight(&st->post) > 24;
}

bool stage_long_body(const struct stage *st)
{
	return prog_weight(&st->body) > 24;
}
