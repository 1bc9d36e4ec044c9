/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: double precision, straight from the definition in task.h. Exact stages are in binary32. */
#include "kernels/task/ref_exact.h"
#include "kernels/task/ref_sum.h"
#include "kernels/task/reference.h"
#include "kernels/task/task_stage.h"

#include <math.h>
#include <string.h>

enum { MOST_KEPT = 1 << 26 }; /* largest intermediate, in elements, that is remembered */

struct reference {
	const struct task *t;
	void *const *bufs;
	float *tmp[MAX_OPERANDS];           /* tmp operands; NULL: computed point by point */
	unsigned char *known[MAX_OPERANDS]; /* which of its elements are computed; NULL: all */
	struct ref_sum *sum[MAX_STAGES];    /* NULL: computed step by step */
	/* The last point of each stage: chained stages often ask for the same point again. */
	int64_t memo_at[MAX_STAGES][MAX_AXES];
	double memo[MAX_STAGES];
	bool memo_good[MAX_STAGES];
};

static int64_t floor_div(int64_t a, int64_t b)
{
	return a >= 0 ? a / b : -((-a + b - 1) / b);
}

int64_t index_bend(const struct index *x, int64_t v)
{
	if (x->div > 1)
		v = floor_div(v, x->div);
	if (x->mod > 1)
		v -= floor_div(v, x->mod) * x->mod;
	return v;
}

int64_t index_value(const struct stage *s, const struct index *x, void *const *bufs, const int64_t *at)
{
	int64_t v = x->off;
	for (int a = 0; a < s->naxes; a++)
		v += x->coef[a] * at[a];
	v = index_bend(x, v);
	return x->table >= 0 ? ((const int32_t *)bufs[x->table])[v] : v;
}

static double stage_point(struct reference *r, int stage, const int64_t *spatial);

/* The spatial point of a stage that writes element i[]: digits of each dim, largest coefficient first. */
static void invert(const struct reference *r, int stage, const int64_t *i, int64_t *at)
{
	const struct stage *s = &r->t->stage[stage];
	memset(at, 0, sizeof *at * MAX_AXES);
	for (int d = 0; d < r->t->operand[s->out.operand].dims.rank; d++) {
		const struct index *x = &s->out.dim[d];
		int64_t left = i[d] - x->off, below = INT64_MAX;
		for (bool more = true; more;) {
			int best = -1;
			more = false;
			for (int a = 0; a < s->naxes; a++)
				if (s->axis[a].extent > 1 && x->coef[a] > 0 && x->coef[a] < below &&
				    (best < 0 || x->coef[a] > x->coef[best]))
					best = a;
			if (best >= 0) {
				below = x->coef[best];
				at[best] = left / below;
				left %= below;
				more = true;
			}
		}
	}
}

static double element(const void *p, enum dtype t, int64_t off)
{
	switch (t) {
	case DT_U8:
		return ((const uint8_t *)p)[off];
	case DT_I8:
		return ((const int8_t *)p)[off];
	case DT_I32:
		return ((const int32_t *)p)[off];
	default:
		return (double)((const float *)p)[off];
	}
}

static double read_value(struct reference *r, const struct stage *s, const struct read *rd, const int64_t *at)
{
	const struct operand *o = &r->t->operand[rd->operand];
	int64_t i[MAX_RANK], from[MAX_AXES];
	for (int d = 0; d < o->dims.rank; d++) {
		i[d] = index_value(s, &rd->dim[d], r->bufs, at);
		if (i[d] < 0 || i[d] >= o->dims.d[d])
			return (double)o->fill;
	}
	float *tmp = r->tmp[rd->operand];
	const void *p = tmp ? tmp : r->bufs[rd->operand];
	unsigned char *known = r->known[rd->operand];
	int64_t off = p ? operand_offset(o, i) : 0;
	if (p && (!known || known[off]))
		return element(p, tmp ? DT_F32 : o->dtype, off);
	for (int k = 0; k < r->t->nstages; k++) {
		if (r->t->stage[k].out.operand != rd->operand)
			continue;
		invert(r, k, i, from);
		double v = stage_point(r, k, from);
		if (!known)
			return v;
		known[off] = 1;
		return (double)(tmp[off] = (float)v);
	}
	return (double)o->fill;
}

static double apply(enum prog_op op, const double *a)
{
	switch (op) {
	case P_ADD:
		return a[0] + a[1];
	case P_SUB:
		return a[0] - a[1];
	case P_MUL:
		return a[0] * a[1];
	case P_DIV:
		return a[0] / a[1];
	case P_MIN:
		return a[0] < a[1] ? a[0] : a[1];
	case P_MAX:
		return a[0] > a[1] ? a[0] : a[1];
	case P_POW:
		return pow(a[0], a[1]);
	case P_NEG:
		return -a[0];
	case P_ABS:
		return fabs(a[0]);
	case P_SQRT:
		return sqrt(a[0]);
	case P_RECIP:
		return 1 / a[0];
	case P_EXP:
		return exp(a[0]);
	case P_LOG:
		return log(a[0]);
	case P_TANH:
		return tanh(a[0]);
	case P_SIGMOID:
		return 1 / (1 + exp(-a[0]));
	case P_ERF:
		return erf(a[0]);
	case P_FLOOR:
		return floor(a[0]);
	case P_CEIL:
		return ceil(a[0]);
	case P_RINT:
		return nearbyint(a[0]);
	case P_SIGN:
		return (a[0] > 0) - (a[0] < 0);
	case P_LT:
		return a[0] < a[1];
	case P_LE:
		return a[0] <= a[1];
	case P_EQ:
		return a[0] == a[1];
	case P_SELECT:
		return a[0] != 0 ? a[1] : a[2];
	case P_SQUARE:
		return a[0] * a[0];
	case P_SILU: /* at -inf: as in kernels/loops/vmath.h */
		return a[0] == -INFINITY ? a[0] : a[0] / (1 + exp(-a[0]));
	case P_GELU:
		return a[0] == -INFINITY ? 0 : a[0] * erfc(-a[0] * M_SQRT1_2) / 2;
	default:
		return 0;
	}
}

/* A value on the program's stack. */
struct value {
	double v;
	bool whole;
};

static double operate(enum prog_op op, const struct value *x, bool exact)
{
	double a[3];
	for (int i = 0; i < prog_op_arity(op); i++)
		a[i] = exact && x[i].whole ? (double)(float)x[i].v : x[i].v;
	return exact ? ref_exact_op(op, a) : apply(op, a);
}

static struct value prog_value(struct reference *r, const struct stage *s, const struct prog *p,
			       struct value acc, const int64_t *at)
{
	struct value stack[MAX_PROG + 1];
	bool exact = stage_exact(r->t, s);
	int n = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = p->at[i].op;
		n -= prog_op_arity(op);
		struct value *x = &stack[n++];
		if (op == P_READ) {
			const struct read *rd = &s->read[p->at[i].arg];
			*x = (struct value){read_value(r, s, rd, at),
					    dtype_is_whole(r->t->operand[rd->operand].dtype)};
		} else if (op == P_ACC) {
			*x = acc;
		} else if (op == P_IMM) {
			*x = (struct value){(double)p->at[i].imm, false};
		} else if (op == P_ADD && x[0].whole && x[1].whole) {
			x->v += x[1].v;
		} else if (op == P_MUL && x[0].whole && x[1].whole) {
			x->v *= x[1].v;
		} else {
			*x = (struct value){operate(op, x, exact), false};
		}
	}
	return stack[0];
}

static double combine(enum combiner c, double acc, double v)
{
	switch (c) {
	case COMB_SUM:
		return acc + v;
	case COMB_MAX:
		return acc > v ? acc : v;
	case COMB_MIN:
		return acc < v ? acc : v;
	case COMB_PROD:
		return acc * v;
	default:
		return v;
	}
}

static double step_value(struct reference *r, const struct stage *s, const struct ref_sum *sum, int n,
			 const struct ref_bound *b, int32_t step, int64_t *at)
{
	const struct ref_read *x = &sum->read[n];
	int o = x->rd->operand;
	int64_t off = b->base < 0 ? -1 : ref_sum_offset(x, b, step);
	if (off < 0)
		return (double)r->t->operand[o].fill;
	const void *p = r->tmp[o] ? r->tmp[o] : r->bufs[o];
	if (p && (!r->known[o] || r->known[o][off]))
		return element(p, r->tmp[o] ? DT_F32 : r->t->operand[o].dtype, off);
	ref_sum_step(s, sum, step, at);
	return read_value(r, s, x->rd, at);
}

static double reduce_steps(struct reference *r, const struct stage *s, const struct ref_sum *sum, int64_t *at)
{
	struct ref_bound b[2];
	double acc = 0;
	for (int n = 0; n < sum->nreads; n++)
		ref_sum_bind(s, &sum->read[n], &r->t->operand[sum->read[n].rd->operand], r->bufs, at, &b[n]);
	for (int32_t step = 0; step < sum->steps; step++) {
		double v = step_value(r, s, sum, 0, &b[0], step, at);
		if (sum->nreads > 1)
			v *= step_value(r, s, sum, 1, &b[1], step, at);
		acc = step ? combine(s->comb, acc, v) : v;
	}
	memset(at + sum->nspatial, 0, sizeof *at * (size_t)(s->naxes - sum->nspatial));
	return acc;
}

/* The max or min of an exact stage and one more value. */
static double exact_best(enum combiner c, bool first, double acc, struct value v)
{
	const double best[] = {first ? (c == COMB_MAX ? -INFINITY : INFINITY) : acc,
			       v.whole ? (double)(float)v.v : v.v};
	return ref_exact_op(c == COMB_MAX ? P_MAX : P_MIN, best);
}

static struct value reduce(struct reference *r, const struct stage *s, int nspatial, int64_t *at)
{
	bool first = true, exact = stage_exact(r->t, s) && s->comb != COMB_NONE && !stage_whole(r->t, s);
	struct value acc = {0, stage_whole(r->t, s)};
	int a;
	do {
		struct value v = prog_value(r, s, &s->body, acc, at);
		if (s->comb == COMB_NONE)
			return v;
		acc.v = exact   ? exact_best(s->comb, first, acc.v, v)
			: first ? v.v
				: combine(s->comb, acc.v, v.v);
		first = false;
		for (a = s->naxes - 1; a >= nspatial && ++at[a] == s->axis[a].extent; a--)
			at[a] = 0;
	} while (a >= nspatial);
	return acc;
}

static double stage_point(struct reference *r, int stage, const int64_t *spatial)
{
	const struct stage *s = &r->t->stage[stage];
	int64_t at[MAX_AXES] = {0};
	int nspatial = 0;
	while (nspatial < s->naxes && s->axis[nspatial].kind == AXIS_SPATIAL)
		nspatial++;
	memcpy(at, spatial, sizeof *at * (size_t)nspatial);
	if (r->memo_good[stage] && !memcmp(at, r->memo_at[stage], sizeof *at * (size_t)nspatial))
		return r->memo[stage];
	const struct ref_sum *sum = r->sum[stage];
	struct value acc = {0, stage_whole(r->t, s)};
	if (sum)
		acc.v = reduce_steps(r, s, sum, at);
	else
		acc = reduce(r, s, nspatial, at);
	if (s->post.n)
		acc = prog_value(r, s, &s->post, acc, at);
	enum dtype to = r->t->operand[s->out.operand].dtype;
	if (dtype_is_byte(to))
		acc.v = ref_exact_byte(to, acc.whole ? (double)(float)acc.v : acc.v);
	memcpy(r->memo_at[stage], at, sizeof r->memo_at[stage]);
	r->memo[stage] = acc.v;
	r->memo_good[stage] = true;
	return acc.v;
}

double task_point(const struct task *t, void *const *bufs, const int64_t *spatial)
{
	struct reference r = {.t = t, .bufs = bufs};
	return stage_point(&r, t->nstages - 1, spatial);
}

static void put_element(void *p, enum dtype t, int64_t off, double v)
{
	if (t == DT_U8)
		((uint8_t *)p)[off] = (uint8_t)v;
	else if (t == DT_I8)
		((int8_t *)p)[off] = (int8_t)v;
	else if (t == DT_I32)
		((int32_t *)p)[off] = (int32_t)fmax(INT32_MIN, fmin(v, INT32_MAX));
	else
		((float *)p)[off] = (float)v;
}

/* Computes points [begin, end) of a stage into elements of type `t`: an intermediate has floats. */
static void stage_points(struct reference *r, int stage, void *out, enum dtype t, int64_t begin, int64_t end)
{
	const struct stage *s = &r->t->stage[stage];
	const struct operand *o = &r->t->operand[s->out.operand];
	int64_t at[MAX_AXES] = {0}, i[MAX_RANK];
	int nspatial = stage_spatial(s);
	for (int64_t a = nspatial - 1, left = begin; a >= 0; left /= s->axis[a--].extent)
		at[a] = left % s->axis[a].extent;
	for (int64_t k = begin; k < end; k++) {
		for (int d = 0; d < o->dims.rank; d++)
			i[d] = index_value(s, &s->out.dim[d], r->bufs, at);
		put_element(out, t, operand_offset(o, i), stage_point(r, stage, at));
		for (int a = nspatial - 1; a >= 0 && ++at[a] == s->axis[a].extent; a--)
			at[a] = 0;
	}
}

int64_t ref_stage_points(const struct task *t, int stage)
{
	const struct stage *s = &t->stage[stage];
	int64_t n = 1;
	for (int a = 0; a < stage_spatial(s); a++)
		n *= s->axis[a].extent;
	return n;
}

static bool looks_up(const struct task *t, const struct stage *s)
{
	for (int i = 0; i < s->nreads; i++)
		for (int d = 0; d < t->operand[s->read[i].operand].dims.rank; d++)
			if (s->read[i].dim[d].table >= 0)
				return true;
	return false;
}

int ref_stages_make(const struct task *t, struct arena *a, struct ref_sum *sum[MAX_STAGES])
{
	int rc = E_OK;
	for (int k = 0; k < t->nstages && rc >= 0; k++) {
		sum[k] = NULL;
		if (!looks_up(t, &t->stage[k])) /* the contents of tables are not known yet */
			rc = ref_sum_plan(t, k, NULL, a, &sum[k]);
	}
	return rc;
}

void ref_stage_run(const struct task *t, struct ref_sum *const *sum, int stage, void *const *bufs,
		   int64_t begin, int64_t end)
{
	struct reference r = {.t = t, .bufs = bufs};
	int o = t->stage[stage].out.operand;
	r.sum[stage] = sum[stage];
	for (int i = 0; i < t->noperands; i++)
		r.tmp[i] = t->operand[i].role == ROLE_TMP ? bufs[i] : NULL;
	stage_points(&r, stage, bufs[o], r.tmp[o] ? DT_F32 : t->operand[o].dtype, begin, end);
}

int reference_open(const struct task *t, void *const *bufs, struct arena *a, struct reference **out)
{
	struct reference *r = arena_try(a, 1, sizeof *r);
	if (!r)
		return E_NOMEM;
	*r = (struct reference){.t = t, .bufs = bufs};
	for (int k = 0; k < t->nstages; k++) {
		int o = t->stage[k].out.operand, rc = ref_sum_plan(t, k, bufs, a, &r->sum[k]);
		if (rc < 0)
			return rc;
		if (t->operand[o].role != ROLE_TMP || operand_elems(&t->operand[o]) > MOST_KEPT)
			continue;
		r->tmp[o] = arena_try(a, (size_t)operand_elems(&t->operand[o]), sizeof *r->tmp[o]);
		r->known[o] = arena_try(a, (size_t)operand_elems(&t->operand[o]), 1);
		if (!r->tmp[o] || !r->known[o])
			return E_NOMEM;
	}
	*out = r;
	return E_OK;
}

double reference_point(struct reference *r, const int64_t *spatial)
{
	return stage_point(r, r->t->nstages - 1, spatial);
}

int task_reference(const struct task *t, void *const *bufs, struct arena *scratch)
{
	struct reference r = {.t = t, .bufs = bufs};
	for (int k = 0; k < t->nstages; k++) {
		int o = t->stage[k].out.operand, rc = ref_sum_plan(t, k, bufs, scratch, &r.sum[k]);
		bool tmp = t->operand[o].role == ROLE_TMP;
		void *out = bufs[o];
		if (rc < 0)
			return rc;
		if (tmp && !(out = arena_try(scratch, (size_t)operand_elems(&t->operand[o]), sizeof(float))))
			return E_NOMEM;
		stage_points(&r, k, out, tmp ? DT_F32 : t->operand[o].dtype, 0, ref_stage_points(t, k));
		if (tmp)
			r.tmp[o] = out;
	}
	return E_OK;
}
