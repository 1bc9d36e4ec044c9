/* SPDX-License-Identifier: Apache-2.0 */
/* Building loops: variables, statements, nesting. Integer expressions are in loops_ix.c, loops_ix_div.c. */
#include "kernels/loops/loops.h"
#include <string.h>

const struct vop_info vop_info[V_OPS] = {
    [V_CONST] = {"const", 0, "x"},
    [V_COPY] = {"copy", 1, "xx"},
    [V_LOAD] = {"load", 0, "x"},
    [V_LANE] = {"lane", 1, "xx"},
    [V_ADD] = {"add", 2, "xxx"},
    [V_SUB] = {"sub", 2, "xxx"},
    [V_MUL] = {"mul", 2, "xxx"},
    [V_DIV] = {"div", 2, "fff"},
    [V_MIN] = {"min", 2, "xxx"},
    [V_MAX] = {"max", 2, "xxx"},
    [V_FMA] = {"fma", 3, "ffff"},
    [V_NEG] = {"neg", 1, "ff"},
    [V_ABS] = {"abs", 1, "ff"},
    [V_SQRT] = {"sqrt", 1, "ff"},
    [V_FLOOR] = {"floor", 1, "ff"},
    [V_CEIL] = {"ceil", 1, "ff"},
    [V_RINT] = {"rint", 1, "ff"},
    [V_SEL_LT] = {"sel_lt", 4, "fffff"},
    [V_SEL_LE] = {"sel_le", 4, "fffff"},
    [V_SEL_EQ] = {"sel_eq", 4, "fffff"},
    [V_POW2] = {"pow2", 1, "ff"},
    [V_GETEXP] = {"getexp", 1, "ff"},
    [V_GETMANT] = {"getmant", 1, "ff"},
    [V_TRN0] = {"trn0", 2, "xxx"},
    [V_TRN1] = {"trn1", 2, "xxx"},
    [V_LACE] = {"lace", 2, "xxx"},
    [V_HADD] = {"hadd", 1, "xx"},
    [V_HMIN] = {"hmin", 1, "xx"},
    [V_HMAX] = {"hmax", 1, "xx"},
    [V_HMUL] = {"hmul", 1, "xx"},
    [V_DOT4U] = {"dot4u", 3, "ssss"},
    [V_DOT4S] = {"dot4s", 3, "ssss"},
    [V_DOT2] = {"dot2", 3, "ssss"},
    [V_BDOT2] = {"bdot2", 3, "fssf"},
    [V_CVT] = {"cvt", 1, "xy"},
    [V_QUADU] = {"quadu", 4, "sssss"},
    [V_QUADS] = {"quads", 4, "sssss"},
    [V_BTURN] = {"bturn", 1, "ss"},
    [V_BBACK] = {"bback", 1, "ss"},
    [V_FMA2] = {"fma2", 3, "ssss"},
    [V_SUM2] = {"sum2", 2, "fsf"},
    [V_MMLAU] = {"mmlau", 3, "ssss"},
    [V_MMLAS] = {"mmlas", 3, "ssss"},
    [V_SHUF] = {"shuf", 1, "xx"},
    [V_FRAG_LOAD] = {"frag_load", 0, "x"},
    [V_FRAG_MMA] = {"frag_mma", 3, "xssx"},
};

bool vop_across(enum vop op)
{
	return op >= V_HADD && op <= V_HMUL;
}

int mem_group(const struct mem *m)
{
	return m->group > 1 ? m->group : 1;
}

void loops_init(struct loops *l, struct arena *a, bool fma)
{
	*l = (struct loops){.arena = a, .fma = fma};
}

/* Returns the next index below cap; if there is none, returns cap - 1 and sets loops.failed. */
static int take(struct loops *l, int *n, int cap)
{
	if (*n < cap)
		return (*n)++;
	l->failed = true;
	return cap - 1;
}

enum dtype mem_type(const struct loops *l, const struct mem *m)
{
	return m->as == DT_NONE ? l->buf[m->buf].dtype : m->as;
}

int loops_param(struct loops *l, const char *name, int64_t lo, int64_t hi)
{
	int p = take(l, &l->nparams, LOOPS_MAX_PARAMS);
	strncpy(l->param[p].name, name, sizeof l->param[p].name - 1);
	l->param[p].lo = lo;
	l->param[p].hi = hi;
	if (lo > hi)
		l->failed = true;
	return p;
}

int loops_buf(struct loops *l, const char *name, enum buf_role role, enum dtype t, const struct ix *elems)
{
	int b = take(l, &l->nbufs, LOOPS_MAX_BUFS);
	l->buf[b] = (struct lbuf){.role = role, .dtype = t, .elems = elems, .lo = INT32_MIN, .hi = INT32_MAX};
	strncpy(l->buf[b].name, name, sizeof l->buf[b].name - 1);
	return b;
}

void loops_table_range(struct loops *l, int buf, int64_t lo, int64_t hi)
{
	l->buf[buf].lo = lo;
	l->buf[buf].hi = hi;
}

/* Copies n elements into an array of twice the size. */
static void *grow(struct loops *l, void *old, int n, int *cap, size_t elem_bytes)
{
	*cap = *cap ? *cap * 2 : 64;
	char *p = arena_alloc(l->arena, (size_t)*cap * elem_bytes);
	if (n)
		memcpy(p, old, (size_t)n * elem_bytes);
	return p;
}

static int new_var(struct loops *l, int lanes, enum lv_type type)
{
	if (l->nvars == l->cap_vars && l->cap_vars < LOOPS_MAX_VARS) {
		int cap = l->cap_vars, same = cap;
		l->type = grow(l, l->type, l->nvars, &cap, sizeof *l->type);
		l->fragment = grow(l, l->fragment, l->nvars, &same, sizeof *l->fragment);
		l->lanes = grow(l, l->lanes, l->nvars, &l->cap_vars, sizeof *l->lanes);
	}
	if (lanes < 1 || lanes > 16 || (lanes & (lanes - 1)))
		l->failed = true;
	int v = take(l, &l->nvars, l->cap_vars);
	l->lanes[v] = (uint8_t)lanes;
	l->type[v] = type;
	l->fragment[v] = (struct fragment){FRAG_NONE, DT_NONE, false};
	return v;
}

int lv_new(struct loops *l, int lanes)
{
	return new_var(l, lanes, LV_F32);
}

int lv_new_s32(struct loops *l, int lanes)
{
	return new_var(l, lanes, LV_S32);
}

static int loopvar_new(struct loops *l, const struct ix *lo, const struct ix *hi, int depth)
{
	if (l->nloopvars == l->cap_loopvars && l->cap_loopvars < LOOPS_MAX_VARS)
		l->loopvar = grow(l, l->loopvar, l->nloopvars, &l->cap_loopvars, sizeof *l->loopvar);
	int v = take(l, &l->nloopvars, l->cap_loopvars);
	l->loopvar[v] = (struct loopvar){.lo = lo, .hi = hi, .depth = depth};
	return v;
}

const struct ix *ix_var(struct loops *l, int loopvar)
{
	return l->loopvar[loopvar].x;
}

/* Largest value of v in for (v = lo; v < hi; v += step); at least lo's largest value, so that the range is
 * never empty. */
static int64_t last_value(const struct ix *lo, const struct ix *hi, int64_t step)
{
	int64_t l, h = hi->hi, end;
	if (h == INT64_MAX)
		return INT64_MAX;
	if (h == INT64_MIN || __builtin_sub_overflow(h, 1, &end))
		return lo->hi;
	if (ix_is_const(lo, &l) && end > l && l >= INT64_MIN / 2 && end <= INT64_MAX / 2)
		end = l + (end - l) / step * step;
	return end > lo->lo ? end : lo->lo;
}

static const struct ix *var_node(struct loops *l, int v, int64_t step)
{
	const struct loopvar *lv = &l->loopvar[v];
	int64_t hi = last_value(lv->lo, lv->hi, step);
	if (lv->lo->lo == hi)
		return ix_c(l, hi);
	struct ix *x = ARENA_NEW(l->arena, struct ix);
	*x = (struct ix){.op = IX_VAR,
			 .id = v,
			 .lo = lv->lo->lo,
			 .hi = hi,
			 .depth = lv->depth,
			 .height = 1,
			 .hash = 0x9e3779b9u * (uint32_t)(v + 1)};
	return x;
}

int loops_entry(struct loops *l, const struct ix *extent)
{
	int n = take(l, &l->nentries, LOOPS_MAX_ENTRIES);
	struct entry *e = &l->entry[n];
	if (l->tail || extent->depth)
		l->failed = true;
	e->name[0] = 'k';
	e->name[1] = (char)('0' + n);
	e->extent = extent;
	e->threads = 1;
	e->thread = -1;
	e->var = loopvar_new(l, ix_c(l, 0), extent, 1);
	l->loopvar[e->var].x = var_node(l, e->var, 1);
	l->depth = 1;
	l->nest = 0;
	l->tail = &e->body;
	return n;
}

int loops_entry_threads(struct loops *l, const struct ix *extent, int threads, const struct ix **thread)
{
	int n = loops_entry(l, extent);
	struct entry *e = &l->entry[n];
	if (threads < 2 || threads > LOOPS_MAX_THREADS) {
		l->failed = true;
		threads = 2;
	}
	e->threads = threads;
	e->thread = loopvar_new(l, ix_c(l, 0), ix_c(l, threads), 1);
	*thread = l->loopvar[e->thread].x = var_node(l, e->thread, 1);
	return n;
}

bool loops_has_threads(const struct loops *l)
{
	for (int i = 0; i < l->nentries; i++)
		if (l->entry[i].threads > 1)
			return true;
	return false;
}

int loops_arguments(const struct loops *l)
{
	int n = l->nbufs;
	while (n > 0 && l->buf[n - 1].role == BUF_SHARED)
		n--;
	return n;
}

void loops_entry_end(struct loops *l)
{
	if (l->nest || !l->tail)
		l->failed = true;
	l->depth = 0;
	l->tail = NULL;
}

static struct stmt *append(struct loops *l, enum st_op op)
{
	struct stmt *s = ARENA_NEW(l->arena, struct stmt);
	s->op = op;
	s->dst = s->a = s->b = s->c = s->d = s->var = -1;
	if (l->failed || !l->tail || ++l->nstmts > LOOPS_MAX_STATEMENTS) {
		l->failed = true;
		return s; /* created, but not part of a body */
	}
	*l->tail = s;
	l->tail = &s->next;
	return s;
}

static struct stmt *set(struct loops *l, int dst, enum vop op, int a, int b, int c, int d)
{
	struct stmt *s = append(l, ST_SET);
	const int arg[4] = {a, b, c, d};
	int *to[4] = {&s->a, &s->b, &s->c, &s->d};
	s->vop = op;
	s->dst = dst;
	for (int i = 0; i < vop_info[op].args; i++)
		*to[i] = arg[i];
	return s;
}

void lv_set(struct loops *l, int dst, enum vop op, int a, int b, int c, int d)
{
	set(l, dst, op, a, b, c, d);
}

void lv_const(struct loops *l, int dst, float imm)
{
	struct stmt *s = append(l, ST_SET);
	s->vop = V_CONST;
	s->dst = dst;
	s->imm = imm;
}

void lv_const_s32(struct loops *l, int dst, int32_t value)
{
	struct stmt *s = append(l, ST_SET);
	s->vop = V_CONST;
	s->dst = dst;
	s->s32 = value;
}

void lv_dot4(struct loops *l, int dst, enum vop op, int a, int b, int c, bool narrow)
{
	struct stmt *s = set(l, dst, op, a, b, c, -1);
	s->imm = narrow ? DOT_NARROW : 0;
}

void lv_lane(struct loops *l, int dst, int a, int lane)
{
	struct stmt *s = append(l, ST_SET);
	s->vop = V_LANE;
	s->dst = dst;
	s->a = a;
	s->imm = (float)lane;
}

void lv_trn(struct loops *l, int dst, enum vop op, int a, int b, int step)
{
	struct stmt *s = append(l, ST_SET);
	s->vop = op;
	s->dst = dst;
	s->a = a;
	s->b = b;
	s->imm = (float)step;
}

bool dot_narrow(const struct stmt *s)
{
	return (s->vop == V_DOT4U || s->vop == V_DOT4S) && s->imm == DOT_NARROW;
}

int lace_imm(int n, int k, int m)
{
	return (n * 16 + k) * 16 + m;
}

struct lace lace_of(int imm)
{
	return (struct lace){imm / 256, imm / 16 % 16, imm % 16};
}

bool lace_good(struct lace x, int lanes)
{
	return x.n >= 2 && x.n <= lanes && x.k >= 0 && x.k < x.n && x.m >= 0 && x.m < x.n;
}

int lace_lane(struct lace x, int j, int lanes)
{
	int i = x.k * lanes + j;
	return i % x.n == x.m ? i / x.n : -1;
}

void lv_lace(struct loops *l, int dst, int a, int b, int n, int k, int m)
{
	lv_trn(l, dst, V_LACE, a, b, lace_imm(n, k, m));
}

void lv_load(struct loops *l, int dst, struct mem m)
{
	struct stmt *s = append(l, ST_SET);
	s->vop = V_LOAD;
	s->dst = dst;
	s->mem = m;
}

void lv_store(struct loops *l, int src, struct mem m)
{
	struct stmt *s = append(l, ST_STORE);
	s->a = src;
	s->mem = m;
}

void lv_prefetch(struct loops *l, int buf, const struct ix *at, int level)
{
	struct stmt *s = append(l, ST_PREFETCH);
	s->mem = (struct mem){.buf = buf, .at = at};
	s->imm = (float)level;
}

void lv_barrier(struct loops *l)
{
	append(l, ST_BARRIER);
}

void lv_copy(struct loops *l, int to, const struct ix *to_at, struct mem from, int elems)
{
	struct stmt *s = append(l, ST_COPY);
	s->mem = from;
	s->to = to;
	s->to_at = to_at;
	s->s32 = elems;
}

void lv_commit(struct loops *l)
{
	append(l, ST_COMMIT);
}

void lv_wait(struct loops *l, int groups)
{
	append(l, ST_WAIT)->s32 = groups;
}

void lv_shuffle(struct loops *l, int dst, int a, int mask)
{
	set(l, dst, V_SHUF, a, -1, -1, -1)->imm = (float)mask;
}

int lv_fragment(struct loops *l, struct fragment f)
{
	int v = new_var(l, FRAG_LANES, f.part == FRAG_C && f.dtype == DT_F32 ? LV_F32 : LV_S32);
	l->fragment[v] = f;
	return v;
}

void lv_frag_load(struct loops *l, int dst, int buf, const struct ix *at, int64_t stride)
{
	set(l, dst, V_FRAG_LOAD, -1, -1, -1, -1)->mem = (struct mem){.buf = buf, .at = at, .stride = stride};
}

void lv_frag_store(struct loops *l, int src, int buf, const struct ix *at, int64_t stride)
{
	struct stmt *s = append(l, ST_FRAG_STORE);
	s->a = src;
	s->mem = (struct mem){.buf = buf, .at = at, .stride = stride};
}

void lv_frag_mma(struct loops *l, int c, int a, int b)
{
	set(l, c, V_FRAG_MMA, a, b, c, -1);
}

bool loops_has_fragments(const struct loops *l)
{
	for (int v = 0; v < l->nvars; v++)
		if (l->fragment[v].part != FRAG_NONE)
			return true;
	return false;
}

struct stmt **loops_mark(const struct loops *l)
{
	return l->tail;
}

/* Whether the variables that s reads are set, if these runs set them. */
static bool ready(const struct stmt *s, const uint8_t *unset)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	for (int i = 0; i < 4; i++)
		if (arg[i] >= 0 && unset[arg[i]])
			return false;
	return true;
}

void loops_interleave(struct loops *l, struct stmt **const *mark, int n)
{
	if (l->failed || n < 2)
		return;
	struct stmt **next = ARENA_ARRAY(l->arena, struct stmt *, n), **to = mark[0];
	uint8_t *unset = ARENA_ARRAY(l->arena, uint8_t, l->nvars);
	for (struct stmt *s = *mark[0]; s; s = s->next)
		if (s->op == ST_SET)
			unset[s->dst] = 1;
	for (int i = n - 1; i >= 0; i--) { /* each run ends with NULL */
		next[i] = *mark[i];
		*mark[i] = NULL;
	}
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < n; i++) {
			struct stmt *s = next[i];
			if (!s || !ready(s, unset))
				continue;
			next[i] = s->next;
			if (s->op == ST_SET)
				unset[s->dst] = 0;
			*to = s;
			to = &s->next;
			more = true;
		}
	}
	*to = NULL;
	l->tail = to;
}

static void nest(struct loops *l)
{
	if (++l->nest > LOOPS_MAX_DEPTH)
		l->failed = true;
}

struct stmt *for_begin(struct loops *l, const struct ix *lo, const struct ix *hi, int64_t step,
		       bool at_least_once, const struct ix **var)
{
	struct stmt *s = append(l, ST_FOR);
	const struct ix *trips = ix_sub(l, hi, lo);
	if (step < 1) {
		l->failed = true;
		step = 1;
	}
	s->lo = lo;
	s->hi = hi;
	s->step = step;
	s->at_least_once = at_least_once || trips->lo >= 1;
	s->var = loopvar_new(l, lo, hi, l->depth + 1);
	l->loopvar[s->var].x = s->at_least_once && trips->hi <= step ? lo : var_node(l, s->var, step);
	*var = l->loopvar[s->var].x;
	l->depth++;
	nest(l);
	if (l->tail)
		l->tail = &s->body;
	return s;
}

void for_end(struct loops *l, struct stmt *f)
{
	l->depth--;
	l->nest--;
	if (l->tail)
		l->tail = &f->next;
}

struct stmt *if_begin(struct loops *l, const struct ix *cond)
{
	struct stmt *s = append(l, ST_IF);
	s->lo = cond;
	nest(l);
	if (l->tail)
		l->tail = &s->body;
	return s;
}

void if_else(struct loops *l, struct stmt *s)
{
	if (l->tail)
		l->tail = &s->other;
}

void if_end(struct loops *l, struct stmt *s)
{
	l->nest--;
	if (l->tail)
		l->tail = &s->next;
}
