/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: it walks the tree and is the executable definition of the loop IR. Flush-to-zero is done
 * in software on exact results, whatever mode the calling thread's FPU is in. */
#include "kernels/loops/loops.h"
#include <fenv.h>
#include <math.h>
#include <string.h>

enum { MAX_LANES = 16 };

struct run {
	const struct loops *l;
	struct ix_env env;
	int64_t *vars; /* loop variables: env.vars */
	int64_t elems[LOOPS_MAX_BUFS];
	float (*v)[MAX_LANES];
	uint8_t *set; /* per vector variable: assigned */
	const char *entry;
};

/* The smallest normal number; and 2^-126 - 2^-151: smaller results round (to 24 bits, unbounded exponent) to
 * less than the smallest normal number. */
#define NORMAL 0x1p-126f
#define TINY (0x1p-126 - 0x1p-151)

static float flush(float x)
{
	return fabsf(x) < NORMAL ? copysignf(0, x) : x;
}

/* Flushes an IEEE result r. If r is NORMAL, its exact value may be tiny: `tiny` says so. */
static float result(float r, bool tiny)
{
	float m = fabsf(r);
	return m < NORMAL || (m == NORMAL && tiny) ? copysignf(0, r) : r;
}

static float f_add(float a, float b)
{
	return result(flush(a) + flush(b), false); /* a tiny sum is exact */
}

static float f_sub(float a, float b)
{
	return result(flush(a) - flush(b), false);
}

static float f_mul(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return result(a * b, fabs((double)a * b) < TINY); /* 48 bits: exact */
}

static float f_div(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return result(a / b, fabs((double)a) < TINY * fabs((double)b)); /* 49 bits: exact */
}

/* Whether |p + c| < TINY exactly. If the rounded sum is TINY, its error (Knuth's two-sum) decides. */
static bool sum_is_tiny(double p, double c)
{
	double s = p + c, b = s - p, e = (p - (s - b)) + (c - b);
	if (fabs(s) != TINY)
		return fabs(s) < TINY;
	return s > 0 ? e < 0 : e > 0;
}

static float f_fma(float a, float b, float c)
{
	a = flush(a);
	b = flush(b);
	c = flush(c);
	float r = fmaf(a, b, c);
	return result(r, fabsf(r) == NORMAL && sum_is_tiny((double)a * b, c));
}

static float f_min(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return a < b ? a : b;
}

static float f_max(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return a > b ? a : b;
}

static uint32_t bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return u;
}

static float of_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, 4);
	return x;
}

static float f_neg(float x)
{
	return of_bits(bits(x) ^ 0x80000000u);
}

static float f_abs(float x)
{
	return of_bits(bits(x) & 0x7fffffffu);
}

static float f_sqrt(float x)
{
	return sqrtf(flush(x));
}

static float f_floor(float x)
{
	return floorf(flush(x));
}

static float f_ceil(float x)
{
	return ceilf(flush(x));
}

static float f_rint(float x)
{
	return rintf(flush(x));
}

static float f_pow2(float x)
{
	return of_bits(bits(x) << 23);
}

static float f_getexp(float x)
{
	return (float)((int)(bits(x) >> 23 & 255) - 127);
}

static float f_getmant(float x)
{
	return of_bits((bits(x) & 0x7fffffu) | 0x3f800000u);
}

static float f_copy(float x)
{
	return x;
}

typedef float f1(float);
typedef float f2(float, float);

static f1 *const op1[V_OPS] = {
    [V_COPY] = f_copy, [V_NEG] = f_neg,   [V_ABS] = f_abs,   [V_SQRT] = f_sqrt,     [V_FLOOR] = f_floor,
    [V_CEIL] = f_ceil, [V_RINT] = f_rint, [V_POW2] = f_pow2, [V_GETEXP] = f_getexp, [V_GETMANT] = f_getmant};
static f2 *const op2[V_OPS] = {
    [V_ADD] = f_add, [V_SUB] = f_sub,  [V_MUL] = f_mul,  [V_DIV] = f_div,  [V_MIN] = f_min,
    [V_MAX] = f_max, [V_HADD] = f_add, [V_HMIN] = f_min, [V_HMAX] = f_max, [V_HMUL] = f_mul};

static int wrong(const struct run *r, const char *what, int var)
{
	return fail(E_CORRUPT, "loops: entry %s: %s v%d", r->entry, what, var);
}

static int outside(const struct run *r, const struct mem *m, int64_t at)
{
	struct buf b = {0};
	ix_print(r->l, m->at, &b);
	int rc = fail(E_CORRUPT, "loops: entry %s: %s[%.200s] is element %lld, outside its %lld", r->entry,
		      r->l->buf[m->buf].name, buf_str(&b), (long long)at, (long long)r->elems[m->buf]);
	buf_free(&b);
	return rc;
}

static int64_t value(struct run *r, const struct ix *x)
{
	return x->op == IX_CONST ? x->c : ix_eval_env(x, &r->env);
}

static int check_tables(const struct run *r)
{
	return r->env.bad ? fail(E_CORRUPT, "loops: entry %s: a table read is outside its buffer", r->entry)
			  : E_OK;
}

/* Number of lanes that an access touches. */
static int valid_lanes(struct run *r, const struct mem *m, int lanes)
{
	int64_t n = m->valid ? value(r, m->valid) : lanes;
	return n < 0 ? 0 : n > lanes ? lanes : (int)n;
}

/* Computes element 0's index and checks that lanes [0, n) are in bounds. */
static int locate(struct run *r, const struct mem *m, int n, int64_t *at)
{
	*at = value(r, m->at);
	if (check_tables(r) < 0)
		return E_CORRUPT;
	for (int i = 0; i<n; i += n> 1 ? n - 1 : 1) {
		int64_t span, k;
		if (__builtin_mul_overflow(i, m->stride, &span) || __builtin_add_overflow(*at, span, &k))
			k = -1;
		if (k < 0 || k >= r->elems[m->buf])
			return outside(r, m, k);
	}
	return E_OK;
}

static int load(struct run *r, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	int lanes = r->l->lanes[s->dst], n = valid_lanes(r, m, lanes);
	bool off = m->guard && !value(r, m->guard);
	float out[MAX_LANES];
	int64_t at = 0;
	if (!off && locate(r, m, n, &at) < 0)
		return E_CORRUPT;
	const float *p = r->env.bufs[m->buf];
	for (int i = 0; i < lanes; i++)
		out[i] = off ? m->fill : i < n ? p[at + i * m->stride] : 0;
	memcpy(r->v[s->dst], out, sizeof out);
	return check_tables(r);
}

static int store(struct run *r, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	int n = valid_lanes(r, m, r->l->lanes[s->a]);
	int64_t at;
	if (!r->set[s->a])
		return wrong(r, "stores the unset", s->a);
	if (locate(r, m, n, &at) < 0)
		return E_CORRUPT;
	float *p = r->env.bufs[m->buf];
	for (int i = 0; i < n; i++)
		p[at + i * m->stride] = r->v[s->a][i];
	return E_OK;
}

static float laced(const struct stmt *s, const float *a, const float *b, int j, int lanes)
{
	int from = lace_lane(lace_of((int)s->imm), j, lanes);
	return from < 0 ? a[j] : b[from];
}

static float select_lane(enum vop op, float a, float b, float c, float d)
{
	a = flush(a);
	b = flush(b);
	bool yes = op == V_SEL_LT ? a < b : op == V_SEL_LE ? a <= b : a == b;
	return yes ? c : d;
}

/* The tree of HADD and friends: halves i and i + n/2 until one is left. */
static float across(f2 *op, const float *in, int n)
{
	float t[MAX_LANES];
	memcpy(t, in, sizeof t);
	while (n > 1) {
		n /= 2;
		for (int i = 0; i < n; i++)
			t[i] = op(t[i], t[i + n]);
	}
	return t[0];
}

static int set_var(struct run *r, const struct stmt *s)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	float in[4][MAX_LANES], *out = r->v[s->dst];
	int lanes = r->l->lanes[s->dst];
	for (int i = 0; i < vop_info[s->vop].args; i++) {
		if (!r->set[arg[i]])
			return wrong(r, "reads the unset", arg[i]);
		memcpy(in[i], r->v[arg[i]], sizeof in[i]);
	}
	r->set[s->dst] = 1;
	if (s->vop == V_LOAD)
		return load(r, s);
	bool whole = s->vop >= V_HADD;
	float one = whole ? across(op2[s->vop], in[0], r->l->lanes[s->a]) : 0;
	for (int i = 0; i < lanes; i++) {
		if (whole)
			out[i] = one;
		else if (s->vop == V_CONST)
			out[i] = s->imm;
		else if (s->vop == V_LANE)
			out[i] = in[0][(int)s->imm];
		else if (s->vop == V_FMA)
			out[i] = r->l->fma ? f_fma(in[0][i], in[1][i], in[2][i])
					   : f_add(f_mul(in[0][i], in[1][i]), in[2][i]);
		else if (s->vop >= V_SEL_LT && s->vop <= V_SEL_EQ)
			out[i] = select_lane(s->vop, in[0][i], in[1][i], in[2][i], in[3][i]);
		else if (s->vop == V_TRN0)
			out[i] = i & (int)s->imm ? in[1][i - (int)s->imm] : in[0][i];
		else if (s->vop == V_TRN1)
			out[i] = i & (int)s->imm ? in[1][i] : in[0][i + (int)s->imm];
		else if (s->vop == V_LACE)
			out[i] = laced(s, in[0], in[1], i, lanes);
		else if (op2[s->vop])
			out[i] = op2[s->vop](in[0][i], in[1][i]);
		else
			out[i] = op1[s->vop](in[0][i]);
	}
	return E_OK;
}

static int run_body(struct run *r, const struct stmt *s);

static int run_for(struct run *r, const struct stmt *s)
{
	int64_t lo = value(r, s->lo), hi = value(r, s->hi);
	if (check_tables(r) < 0)
		return E_CORRUPT;
	if (s->at_least_once && lo >= hi)
		return fail(E_CORRUPT, "loops: entry %s: loop i%d runs at least once, but %lld to %lld",
			    r->entry, s->var, (long long)lo, (long long)hi);
	for (int64_t i = lo; i < hi;) {
		r->vars[s->var] = i;
		int rc = run_body(r, s->body);
		if (rc < 0)
			return rc;
		if (__builtin_add_overflow(i, s->step, &i))
			break;
	}
	return E_OK;
}

static int run_if(struct run *r, const struct stmt *s)
{
	bool yes = value(r, s->lo) != 0;
	int rc = check_tables(r);
	return rc < 0 ? rc : run_body(r, yes ? s->body : s->other);
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static int run_body(struct run *r, const struct stmt *s)
{
	int rc = E_OK;
	for (; s && rc >= 0; s = s->next)
		rc = s->op == ST_SET     ? set_var(r, s)
		     : s->op == ST_STORE ? store(r, s)
		     : s->op == ST_FOR   ? run_for(r, s)
		     : s->op == ST_IF    ? run_if(r, s)
					 : E_OK; /* a prefetch may point anywhere */
	return rc;
}

static int run_entry(struct run *r, const struct entry *e, int64_t begin, int64_t end)
{
	int rc = E_OK;
	r->entry = e->name;
	for (int i = 0; i < r->l->nbufs; i++)
		r->elems[i] = value(r, r->l->buf[i].elems);
	if (begin < 0 || end > value(r, e->extent))
		return fail(E_CORRUPT, "loops: entry %s: range %lld to %lld is outside its extent", e->name,
			    (long long)begin, (long long)end);
	for (int64_t i = begin; i < end && rc >= 0; i++) {
		memset(r->set, 0, (size_t)r->l->nvars);
		r->vars[e->var] = i;
		rc = run_body(r, e->body);
	}
	return rc;
}

int loops_run(const struct loops *l, int entry, void *const *bufs, const int64_t *params, int64_t begin,
	      int64_t end)
{
	struct arena a = {0};
	fenv_t env;
	if (l->failed || entry < 0 || entry >= l->nentries)
		return fail(E_CORRUPT, "loops: no entry %d", entry);
	struct run r = {.l = l, .vars = ARENA_ARRAY(&a, int64_t, l->nloopvars + 1)};
	r.v = arena_alloc(&a, sizeof(float[MAX_LANES]) * (size_t)(l->nvars + 1));
	r.set = ARENA_ARRAY(&a, uint8_t, l->nvars + 1);
	r.env = (struct ix_env){params, r.vars, bufs, r.elems, false};
	/* The default environment: round to nearest, subnormals kept. */
	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	int rc = run_entry(&r, &l->entry[entry], begin, end);
	fesetenv(&env);
	arena_free(&a);
	return rc;
}
