/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: it walks the tree and is the executable definition of the loop IR. One lane's
 * arithmetic is in loops_lane.c. */
#include "kernels/loops/loops_run.h"
#include <fenv.h>
#include <string.h>

static int wrong(const struct interp *r, const char *what, int var)
{
	return fail(E_CORRUPT, "loops: entry %s: %s v%d", r->entry, what, var);
}

static int outside(const struct interp *r, const struct mem *m, int64_t at)
{
	struct buf b = {0};
	ix_print(r->l, m->at, &b);
	int rc = fail(E_CORRUPT, "loops: entry %s: %s[%.200s] is element %lld, outside its %lld", r->entry,
		      r->l->buf[m->buf].name, buf_str(&b), (long long)at, (long long)r->elems[m->buf]);
	buf_free(&b);
	return rc;
}

int64_t loops_value(struct interp *r, const struct ix *x)
{
	return x->op == IX_CONST ? x->c : ix_eval_env(x, &r->env);
}

int loops_check_tables(const struct interp *r)
{
	return r->env.bad ? fail(E_CORRUPT, "loops: entry %s: a table read is outside its buffer", r->entry)
			  : E_OK;
}

/* Number of lanes that an access touches. */
static int valid_lanes(struct interp *r, const struct mem *m, int lanes)
{
	int64_t n = m->valid ? loops_value(r, m->valid) : lanes;
	return n < 0 ? 0 : n > lanes ? lanes : (int)n;
}

/* Computes element 0's index and checks that lanes [0, n) are in bounds. */
int loops_locate(struct interp *r, const struct mem *m, int n, int64_t *at)
{
	*at = loops_value(r, m->at);
	if (loops_check_tables(r) < 0)
		return E_CORRUPT;
	size_t whole = dtype_bytes(r->l->buf[m->buf].dtype);
	int64_t elems = r->elems[m->buf] * (int64_t)(whole / dtype_bytes(mem_type(r->l, m)));
	for (int i = 0; i<n; i += n> 1 ? n - 1 : 1) {
		int64_t span, k;
		if (__builtin_mul_overflow(i, m->stride, &span) || __builtin_add_overflow(*at, span, &k))
			k = -1;
		if (k < 0 || k >= elems - (mem_group(m) - 1))
			return outside(r, m, k);
	}
	return E_OK;
}

static int load(struct interp *r, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	int lanes = r->l->lanes[s->dst], n = valid_lanes(r, m, lanes);
	bool off = m->guard && !loops_value(r, m->guard);
	struct lane_type t = {r->l->type[s->dst], mem_type(r->l, m), mem_group(m)};
	int64_t at = 0;
	if (!off && (loops_locate(r, m, n, &at) < 0 || loops_touch(r, m, n, at, false) < 0))
		return E_CORRUPT;
	const void *p = r->env.bufs[m->buf];
	for (int i = 0; i < lanes; i++)
		r->v[s->dst][i] = off     ? lane_fill(t, m->fill)
				  : i < n ? lane_load(t, p, at + i * m->stride)
					  : (union lane){.u = 0};
	return loops_check_tables(r);
}

static int store(struct interp *r, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	struct lane_type t = {r->l->type[s->a], mem_type(r->l, m), mem_group(m)};
	int n = valid_lanes(r, m, r->l->lanes[s->a]);
	int64_t at;
	if (!r->set[s->a])
		return wrong(r, "stores the unset", s->a);
	if (loops_locate(r, m, n, &at) < 0 || loops_touch(r, m, n, at, true) < 0)
		return E_CORRUPT;
	for (int i = 0; i < n; i++)
		lane_store(t, r->env.bufs[m->buf], at + i * m->stride, r->v[s->a][i]);
	return E_OK;
}

static union lane laced(const struct stmt *s, const union lane *a, const union lane *b, int j, int lanes)
{
	int from = lace_lane(lace_of((int)s->imm), j, lanes);
	return from < 0 ? a[j] : b[from];
}

/* Byte j & 3 of lane j / 4. */
static uint32_t byte(const union lane *v, int j)
{
	return v[j / 4].u >> j % 4 * 8 & 255;
}

/* Lane i of BTURN (back: of BBACK). */
static union lane bytes_turned(const union lane *a, int i, int lanes, bool back)
{
	union lane r = {.u = 0};
	for (int p = 0; p < 4; p++) {
		int j = 4 * i + p;
		r.u |= byte(a, back ? j % lanes * 4 + j / lanes : p * lanes + i) << 8 * p;
	}
	return r;
}

static void one_lane(struct interp *r, const struct stmt *s, enum lv_type type, const union lane *in,
		     union lane *out)
{
	enum lane_fault f = lane_op(s, type, in, r->l->fma, out);
	r->fault = r->fault ? r->fault : f;
}

/* Lane i of MMLAU or MMLAS; in[]: a, b and c. */
static void block_lane(struct interp *r, enum vop op, union lane (*in)[MAX_LANES], int i, union lane *out)
{
	int first = i & ~3;
	enum lane_fault f = lane_mmla(op, in[0] + first, in[1] + first, in[2] + first, i - first, out);
	r->fault = r->fault ? r->fault : f;
}

/* The tree of HADD and friends: halves i and i + n/2 until one is left. */
static union lane across(struct interp *r, const struct stmt *s, enum lv_type type, const union lane *in)
{
	union lane t[MAX_LANES];
	memcpy(t, in, sizeof t);
	for (int n = r->l->lanes[s->a] / 2; n >= 1; n /= 2)
		for (int i = 0; i < n; i++)
			one_lane(r, s, type, (union lane[]){t[i], t[i + n]}, &t[i]);
	return t[0];
}

static int faulty(const struct interp *r, const struct stmt *s)
{
	static const char *const why[] = {
	    [LANE_OVERFLOW] = "the result overflows s32",
	    [LANE_NOT_NARROW] = "a byte of b is outside of [-64, 64], although it is marked narrow",
	    [LANE_NOT_S32] = "the operand is outside of [-2^31, 2^31 - 128]"};
	return fail(E_CORRUPT, "loops: entry %s: v%d = %s: %s", r->entry, s->dst, vop_info[s->vop].name,
		    why[r->fault]);
}

/* Operations whose imm is a lane or a step. */
static const bool has_step[V_OPS] = {
    [V_LANE] = true, [V_TRN0] = true, [V_TRN1] = true};

static int set_var(struct interp *r, const struct stmt *s)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	union lane in[4][MAX_LANES], *out = r->v[s->dst], one = {.u = 0};
	enum lv_type type = r->l->type[s->dst];
	int lanes = r->l->lanes[s->dst], step = has_step[s->vop] ? (int)s->imm : 0;
	for (int i = 0; i < vop_info[s->vop].args; i++) {
		if (!r->set[arg[i]])
			return wrong(r, "reads the unset", arg[i]);
		memcpy(in[i], r->v[arg[i]], sizeof in[i]);
	}
	r->set[s->dst] = 1;
	if (s->vop == V_LOAD)
		return load(r, s);
	if (vop_across(s->vop))
		one = across(r, s, type, in[0]);
	for (int i = 0; i < lanes; i++) {
		if (vop_across(s->vop))
			out[i] = one;
		else if (s->vop == V_CONST)
			out[i] = type == LV_S32 ? (union lane){.s = s->s32} : (union lane){.f = s->imm};
		else if (s->vop == V_LANE)
			out[i] = in[0][step];
		else if (s->vop == V_TRN0)
			out[i] = i & step ? in[1][i - step] : in[0][i];
		else if (s->vop == V_TRN1)
			out[i] = i & step ? in[1][i] : in[0][i + step];
		else if (s->vop == V_LACE)
			out[i] = laced(s, in[0], in[1], i, lanes);
		else if (s->vop == V_BTURN || s->vop == V_BBACK)
			out[i] = bytes_turned(in[0], i, lanes, s->vop == V_BBACK);
		else if (s->vop == V_MMLAU || s->vop == V_MMLAS)
			block_lane(r, s->vop, in, i, &out[i]);
		else
			one_lane(r, s, type, (union lane[]){in[0][i], in[1][i], in[2][i], in[3][i]}, &out[i]);
	}
	return r->fault ? faulty(r, s) : E_OK;
}

int loops_bounds(struct interp *r, const struct stmt *s, int64_t *lo, int64_t *hi)
{
	*lo = loops_value(r, s->lo);
	*hi = loops_value(r, s->hi);
	if (loops_check_tables(r) < 0)
		return E_CORRUPT;
	if (s->at_least_once && *lo >= *hi)
		return fail(E_CORRUPT, "loops: entry %s: loop i%d runs at least once, but %lld to %lld",
			    r->entry, s->var, (long long)*lo, (long long)*hi);
	return E_OK;
}

static int run_for(struct interp *r, const struct stmt *s)
{
	int64_t lo, hi;
	int rc = loops_bounds(r, s, &lo, &hi);
	for (int64_t i = lo; rc >= 0 && i < hi;) {
		r->vars[s->var] = i;
		rc = loops_run_span(r, s->body, NULL);
		if (__builtin_add_overflow(i, s->step, &i))
			break;
	}
	return rc;
}

static int run_if(struct interp *r, const struct stmt *s)
{
	bool yes = loops_value(r, s->lo) != 0;
	int rc = loops_check_tables(r);
	return rc < 0 ? rc : loops_run_span(r, yes ? s->body : s->other, NULL);
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
int loops_run_span(struct interp *r, const struct stmt *s, const struct stmt *end)
{
	int rc = E_OK;
	for (; s && s != end && rc >= 0; s = s->next)
		rc = s->op == ST_SET     ? set_var(r, s)
		     : s->op == ST_STORE ? store(r, s)
		     : s->op == ST_FOR   ? run_for(r, s)
		     : s->op == ST_IF    ? run_if(r, s)
		     : s->op == ST_COPY  ? loops_start_copy(r, s)
					 : E_OK; /* a prefetch may point anywhere */
	return rc;
}

static int run_entry(struct interp *r, const struct entry *e, int64_t begin, int64_t end)
{
	int rc = E_OK;
	r->entry = e->name;
	for (int i = 0; i < r->l->nbufs; i++)
		r->elems[i] = loops_value(r, r->l->buf[i].elems);
	if (begin < 0 || end > loops_value(r, e->extent))
		return fail(E_CORRUPT, "loops: entry %s: range %lld to %lld is outside its extent", e->name,
			    (long long)begin, (long long)end);
	if (e->threads > 1)
		return loops_run_blocks(r, e, begin, end, (uint64_t)(e->var + begin));
	for (int64_t i = begin; i < end && rc >= 0; i++) {
		memset(r->set, 0, (size_t)r->l->nvars);
		r->vars[e->var] = i;
		rc = loops_run_span(r, e->body, NULL);
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
	struct interp r = {.l = l, .vars = ARENA_ARRAY(&a, int64_t, l->nloopvars + 1)};
	r.v = arena_alloc(&a, sizeof(union lane[MAX_LANES]) * (size_t)(l->nvars + 1));
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
