/* SPDX-License-Identifier: Apache-2.0 */
/* Checks everything that the emitters and the interpreter rely on. */
#include "kernels/loops/loops.h"
#include "kernels/loops/loops_lane.h"
#include "kernels/loops/loops_threads.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Nodes of all expressions, those that are shared counted at each use: 100 times the most of a random kernel.
 * The interpreter and the emitter of OpenCL walk them as trees, too. */
enum { MAX_NODES = 4 << 20 };

struct check {
	const struct loops *l;
	struct arena *a;
	int nodes; /* of expressions so far */
	const char *entry;
	int64_t at;       /* number of the statement in the entry, from 0 */
	uint8_t *open;    /* per loop variable: in scope */
	uint8_t *defined; /* per vector variable: assigned on every path to here */
	int maybe;        /* number of open statements whose body may not run: then ranges of addresses may
			   * not be reached */
};

__attribute__((format(printf, 2, 3))) static int bad(const struct check *k, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!k->entry)
		return fail(E_CORRUPT, "loops: %s", text);
	return fail(E_CORRUPT, "loops: entry %s, statement %lld: %s", k->entry, (long long)k->at, text);
}

/* Recursion is bounded by IX_MAX_HEIGHT. */
static int check_ix(struct check *k, const struct ix *x)
{
	const struct loops *l = k->l;
	if (++k->nodes > MAX_NODES)
		return bad(k, "its expressions have more than %d nodes", (int)MAX_NODES);
	if (x->height > IX_MAX_HEIGHT)
		return bad(k, "an expression is too deep");
	if (x->op == IX_VAR && (x->id < 0 || x->id >= l->nloopvars || !k->open[x->id]))
		return bad(k, "loop variable i%d is used outside its loop", x->id);
	if (x->op == IX_PARAM && (x->id < 0 || x->id >= l->nparams))
		return bad(k, "there is no parameter %d", x->id);
	if (x->op == IX_TABLE && (x->id < 0 || x->id >= l->nbufs || l->buf[x->id].dtype != DT_I32 ||
				  (l->buf[x->id].role != BUF_CONST && l->buf[x->id].role != BUF_IN)))
		return bad(k, "buffer %d is no table", x->id);
	if ((x->op == IX_DIV || x->op == IX_MOD) && x->b->hi < 1)
		return bad(k, "a division by what is never positive");
	int rc = x->a ? check_ix(k, x->a) : E_OK;
	return rc < 0 || !x->b ? rc : check_ix(k, x->b);
}

/* Whether both ends of x's range are reached: x is a sum of variables of loops with constant bounds. */
static bool range_is_reached(const struct loops *l, const struct ix *x)
{
	int64_t c, coef[IX_MAX_TERMS], v;
	const struct ix *atom[IX_MAX_TERMS];
	int n = ix_terms(x, &c, IX_MAX_TERMS, coef, atom);
	for (int i = 0; i < n; i++) {
		if (atom[i]->op != IX_VAR)
			return false;
		const struct loopvar *lv = &l->loopvar[atom[i]->id];
		if (!ix_is_const(lv->lo, &v) || !ix_is_const(lv->hi, &v))
			return false;
	}
	return n >= 0;
}

static int check_bounds(const struct check *k, const struct mem *m, int lanes)
{
	const struct lbuf *b = &k->l->buf[m->buf];
	int64_t elems, span, lo = m->at->lo, hi = m->at->hi;
	if (!ix_is_const(b->elems, &elems))
		return E_OK;
	/* An address in a shared buffer must be proven to be inside; one elsewhere is refused only if it is
	 * proven to be outside. */
	if (b->role != BUF_SHARED && (k->maybe || m->valid || m->guard || !range_is_reached(k->l, m->at)))
		return E_OK;
	elems *= (int64_t)(dtype_bytes(b->dtype) / dtype_bytes(mem_type(k->l, m)));
	if (__builtin_mul_overflow(m->stride, lanes - 1, &span) ||
	    __builtin_add_overflow(span < 0 ? lo : hi, span, span < 0 ? &lo : &hi) ||
	    __builtin_add_overflow(hi, mem_group(m) - 1, &hi))
		return bad(k, "an address overflows");
	if (lo < 0 || hi >= elems)
		return bad(k, "elements %lld to %lld of %s are outside its %lld", (long long)lo,
			   (long long)hi, b->name, (long long)elems);
	return E_OK;
}

/* Whether a lane of type t may be read from (or written to) elements of dtype d, g in a lane. */
static bool moves(enum lv_type t, enum dtype d, int g, bool store)
{
	bool byte = d == DT_I8 || d == DT_U8;
	if (t == LV_F32)
		return g == 1 && (d == DT_F32 || d == DT_F16 || d == DT_BF16);
	if (g == 1)
		return d == DT_I32 || d == DT_I16 || byte;
	return g == 4 ? byte : g == 2 && (d == DT_I16 || dtype_is_half(d) || (byte && !store));
}

/* Whether elements can hold the fill, so that an emitter may load it from memory. */
static bool holds(struct lane_type t, float fill)
{
	if (dtype_is_half(t.elem) && t.type == LV_S32)
		return fill == 0;
	uint32_t bytes = 0;
	double lo = t.elem == DT_U8    ? 0
		    : t.elem == DT_I8  ? INT8_MIN
		    : t.elem == DT_I32 ? INT32_MIN
				       : INT16_MIN;
	double hi = t.elem == DT_U8    ? UINT8_MAX
		    : t.elem == DT_I8  ? INT8_MAX
		    : t.elem == DT_I32 ? INT32_MAX
				       : INT16_MAX;
	if (t.type == LV_S32)
		return fill >= lo && fill <= hi && fill == (double)(int64_t)fill;
	lane_store(t, &bytes, 0, (union lane){.f = fill});
	return lane_load(t, &bytes, 0).f == fill || isnan(fill);
}

static int check_mem(struct check *k, const struct mem *m, int v, bool store)
{
	int lanes = k->l->lanes[v], g = mem_group(m);
	if (m->buf < 0 || m->buf >= k->l->nbufs)
		return bad(k, "there is no buffer %d", m->buf);
	const struct lbuf *b = &k->l->buf[m->buf];
	enum dtype t = mem_type(k->l, m);
	bool narrow = dtype_is_half(m->as) || m->as == DT_U8 || m->as == DT_I8;
	if (m->as != DT_NONE && (!narrow || b->role != BUF_SCRATCH || b->dtype != DT_F32))
		return bad(k, "%s cannot be seen as %s", b->name, dtype_name(m->as));
	if (!moves(k->l->type[v], t, g, store))
		return bad(k, "v%d is %s: no %s in groups of %d %s %s, which holds %s", v,
			   k->l->type[v] == LV_F32 ? "f32" : "s32", store ? "store" : "load", g,
			   store ? "to" : "from", b->name, dtype_name(t));
	if (m->guard && !holds((struct lane_type){k->l->type[v], t, g}, m->fill))
		return bad(k, "%s, of %s, cannot hold the fill %g", b->name, dtype_name(t), (double)m->fill);
	if (!m->at)
		return bad(k, "no address in %s", b->name);
	if (store && b->role != BUF_OUT && b->role != BUF_SCRATCH && b->role != BUF_SHARED)
		return bad(k, "a store to %s, which is not to be written", b->name);
	if (store && m->guard)
		return bad(k, "a store has a guard");
	if (store && m->stride == 0 && lanes > 1)
		return bad(k, "a store of %d lanes to one element", lanes);
	int rc = check_ix(k, m->at);
	if (rc >= 0 && m->valid)
		rc = check_ix(k, m->valid);
	if (rc >= 0 && m->guard)
		rc = check_ix(k, m->guard);
	return rc < 0 ? rc : check_bounds(k, m, lanes);
}

static int check_var(const struct check *k, int v)
{
	return v < 0 || v >= k->l->nvars ? bad(k, "there is no variable v%d", v) : E_OK;
}

static int check_use(const struct check *k, int v)
{
	int rc = check_var(k, v);
	if (rc >= 0 && !k->defined[v])
		rc = bad(k, "v%d may be used before it is set", v);
	return rc;
}

/* Checks the types of result and operands against vop_info. */
static int check_types(const struct check *k, const struct stmt *s)
{
	const int v[5] = {s->dst, s->a, s->b, s->c, s->d};
	const char *want = vop_info[s->vop].types;
	enum lv_type x = k->l->type[s->dst];
	for (int i = 0; want[i]; i++) {
		enum lv_type t = want[i] == 'f' ? LV_F32 : want[i] == 's' ? LV_S32 : want[i] == 'x' ? x : !x;
		if (k->l->type[v[i]] != t)
			return bad(k, "%s needs v%d to be %s", vop_info[s->vop].name, v[i],
				   t == LV_F32 ? "f32" : "s32");
	}
	if (s->vop == V_BDOT2 && !k->l->fma)
		return bad(k, "bdot2 needs a fused multiply-add");
	if ((s->vop == V_FMA2 || s->vop == V_SUM2) && !k->l->f16)
		return bad(k, "%s needs arithmetic in f16", vop_info[s->vop].name);
	if ((s->vop == V_MMLAU || s->vop == V_MMLAS) && !k->l->blocks)
		return bad(k, "%s needs products of matrices of bytes", vop_info[s->vop].name);
	return E_OK;
}

/* The box in memory of a fragment; loops_check_threads checks the rest. */
static int check_fragment(struct check *k, const struct mem *m)
{
	enum { MOST_STRIDE = LOOPS_MAX_SHARED / FRAG_SIZE };
	if (m->buf < 0 || m->buf >= k->l->nbufs || k->l->buf[m->buf].role != BUF_SHARED || !m->at)
		return bad(k, "a fragment that is not in a shared buffer");
	if (m->stride < FRAG_SIZE || m->stride > MOST_STRIDE || m->valid || m->guard || m->as != DT_NONE ||
	    mem_group(m) > 1)
		return bad(k, "a fragment with stride %lld, a condition or another type",
			   (long long)m->stride);
	const struct mem box = {.buf = m->buf, .at = m->at, .stride = 1};
	int rc = check_ix(k, m->at);
	return rc < 0 ? rc : check_bounds(k, &box, (FRAG_SIZE - 1) * (int)m->stride + FRAG_SIZE);
}

static int check_set(struct check *k, const struct stmt *s)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	const uint8_t *lanes = k->l->lanes;
	if ((unsigned)s->vop >= V_OPS)
		return bad(k, "operation %d", (int)s->vop);
	int rc = check_var(k, s->dst);
	for (int i = 0; rc >= 0 && i < vop_info[s->vop].args; i++) {
		rc = check_use(k, arg[i]);
		if (rc >= 0 && !vop_across(s->vop) && s->vop != V_LANE && lanes[arg[i]] != lanes[s->dst])
			rc = bad(k, "%s of %d lanes from v%d of %d", vop_info[s->vop].name, lanes[s->dst],
				 arg[i], lanes[arg[i]]);
	}
	if (rc >= 0)
		rc = check_types(k, s);
	if (rc >= 0 && (s->vop == V_DOT4U || s->vop == V_DOT4S) && s->imm != 0 && !dot_narrow(s))
		rc = bad(k, "%s: imm is %g, must be 0 or %d", vop_info[s->vop].name, (double)s->imm,
			 (int)DOT_NARROW);
	if (rc >= 0 && (s->vop == V_MMLAU || s->vop == V_MMLAS) && lanes[s->dst] < 4)
		rc = bad(k, "%s of %d lanes: no block of 2 x 2", vop_info[s->vop].name, lanes[s->dst]);
	if (rc >= 0 && s->vop == V_LANE &&
	    !(s->imm >= 0 && s->imm < (float)lanes[s->a] && s->imm == (float)(int)s->imm))
		rc = bad(k, "lane %g of v%d, which has %d", (double)s->imm, s->a, lanes[s->a]);
	if (rc >= 0 && (s->vop == V_TRN0 || s->vop == V_TRN1) &&
	    !(s->imm >= 1 && s->imm < (float)lanes[s->dst] && !((int)s->imm & ((int)s->imm - 1)) &&
	      s->imm == (float)(int)s->imm))
		rc = bad(k, "step %g of %d lanes", (double)s->imm, lanes[s->dst]);
	if (rc >= 0 && s->vop == V_LACE &&
	    !(s->imm >= 0 && s->imm < 8192 && s->imm == (float)(int)s->imm &&
	      lace_good(lace_of((int)s->imm), lanes[s->dst])))
		rc = bad(k, "lace %g of %d lanes", (double)s->imm, lanes[s->dst]);
	if (rc >= 0 && s->vop == V_LOAD)
		rc = check_mem(k, &s->mem, s->dst, false);
	if (rc >= 0 && s->vop == V_FRAG_LOAD)
		rc = check_fragment(k, &s->mem);
	if (rc >= 0)
		k->defined[s->dst] = 1;
	return rc;
}

static int check_store(struct check *k, const struct stmt *s)
{
	int rc = check_use(k, s->a);
	return rc < 0 ? rc : check_mem(k, &s->mem, s->a, true);
}

static int check_prefetch(struct check *k, const struct stmt *s)
{
	if (s->mem.buf < 0 || s->mem.buf >= k->l->nbufs || !s->mem.at)
		return bad(k, "a prefetch from nowhere");
	if (s->imm != 1 && s->imm != 2)
		return bad(k, "prefetch level %g", (double)s->imm);
	return check_ix(k, s->mem.at);
}

static int check_fragment_store(struct check *k, const struct stmt *s)
{
	int rc = check_use(k, s->a);
	return rc < 0 ? rc : check_fragment(k, &s->mem);
}

/* The rest of a copy is checked by loops_check_threads. */
static int check_copy(struct check *k, const struct stmt *s)
{
	const struct loops *l = k->l;
	const struct mem to = {.buf = s->to, .at = s->to_at, .stride = 1};
	if (s->to < 0 || s->to >= l->nbufs || s->mem.buf < 0 || s->mem.buf >= l->nbufs || !s->to_at ||
	    !s->mem.at || s->s32 < 1 || s->s32 > 16)
		return bad(k, "a copy from or to nowhere");
	int rc = check_ix(k, s->to_at);
	if (rc >= 0)
		rc = check_ix(k, s->mem.at);
	if (rc >= 0 && s->mem.valid)
		rc = check_ix(k, s->mem.valid);
	if (rc >= 0)
		rc = check_bounds(k, &to, s->s32);
	return rc < 0 ? rc : check_bounds(k, &s->mem, s->s32);
}

static int check_body(struct check *k, const struct stmt *s, int nest);

static int check_for(struct check *k, const struct stmt *s, int nest)
{
	size_t n = (size_t)k->l->nvars;
	if (s->var < 0 || s->var >= k->l->nloopvars || k->open[s->var])
		return bad(k, "a loop needs a variable of its own");
	if (s->step < 1)
		return bad(k, "loop i%d has step %lld", s->var, (long long)s->step);
	int rc = check_ix(k, s->lo);
	if (rc >= 0)
		rc = check_ix(k, s->hi);
	if (rc < 0)
		return rc;
	uint8_t *before = s->at_least_once ? NULL : arena_memdup(k->a, k->defined, n + 1);
	k->open[s->var] = 1;
	k->maybe += !s->at_least_once;
	rc = check_body(k, s->body, nest);
	k->maybe -= !s->at_least_once;
	k->open[s->var] = 0;
	if (before)
		memcpy(k->defined, before, n);
	return rc;
}

static int check_if(struct check *k, const struct stmt *s, int nest)
{
	size_t n = (size_t)k->l->nvars;
	uint8_t *before = arena_memdup(k->a, k->defined, n + 1);
	int rc = check_ix(k, s->lo);
	k->maybe++;
	if (rc >= 0)
		rc = check_body(k, s->body, nest);
	uint8_t *after = arena_memdup(k->a, k->defined, n + 1);
	memcpy(k->defined, before, n);
	if (rc >= 0)
		rc = check_body(k, s->other, nest);
	k->maybe--;
	for (size_t i = 0; i < n; i++)
		k->defined[i] &= after[i];
	return rc;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static int check_body(struct check *k, const struct stmt *s, int nest)
{
	int rc = E_OK;
	if (nest > LOOPS_MAX_DEPTH)
		return bad(k, "nested too deeply");
	for (; s && rc >= 0; s = s->next, k->at++)
		rc = s->op == ST_SET          ? check_set(k, s)
		     : s->op == ST_STORE      ? check_store(k, s)
		     : s->op == ST_PREFETCH   ? check_prefetch(k, s)
		     : s->op == ST_FOR        ? check_for(k, s, nest + 1)
		     : s->op == ST_IF         ? check_if(k, s, nest + 1)
		     : s->op == ST_COPY       ? check_copy(k, s)
		     : s->op == ST_FRAG_STORE ? check_fragment_store(k, s)
					      : E_OK;
	return rc;
}

static const bool buf_types[DTYPES] = {[DT_F32] = true, [DT_F16] = true, [DT_BF16] = true, [DT_I8] = true,
				       [DT_U8] = true,  [DT_I16] = true, [DT_I32] = true};

static int check_bufs(struct check *k)
{
	const struct loops *l = k->l;
	for (int i = 0; i < l->nbufs; i++) {
		const struct lbuf *b = &l->buf[i];
		if (!buf_types[b->dtype])
			return bad(k, "buffer %s is of %s", b->name, dtype_name(b->dtype));
		if (!b->elems || b->elems->depth || b->elems->hi < 0)
			return bad(k, "the size of buffer %s", b->name);
		int rc = check_ix(k, b->elems);
		if (rc < 0)
			return fail_in(rc, "size of %s", b->name);
		if (b->common && b->role != BUF_SCRATCH)
			return bad(k, "%s is common, but no scratch", b->name);
		if (b->role == BUF_SCRATCH && i != loops_arguments(l) - 1)
			return bad(k, "scratch %s is not the last argument", b->name);
	}
	return E_OK;
}

static int check_entries(struct check *k)
{
	const struct loops *l = k->l;
	int rc = E_OK;
	for (int i = 0; i < l->nentries && rc >= 0; i++) {
		const struct entry *e = &l->entry[i];
		k->entry = e->name;
		k->at = 0;
		memset(k->defined, 0, (size_t)l->nvars);
		rc = check_ix(k, e->extent);
		if (rc >= 0 && e->extent->depth)
			rc = bad(k, "the extent depends on a loop");
		if (rc >= 0 &&
		    ((e->threads > 1) != (e->thread >= 0) || e->thread >= l->nloopvars || e->threads < 1 ||
		     e->threads > LOOPS_MAX_THREADS || (e->threads > 1 && e->group)))
			return bad(k, "it has threads without a number, or no allowed number of them");
		k->open[e->var] = 1;
		if (e->thread >= 0)
			k->open[e->thread] = 1;
		/* The extent may be 0 when it depends on parameters. */
		k->maybe = e->extent->lo < 1;
		if (rc >= 0)
			rc = check_body(k, e->body, 0);
		k->open[e->var] = 0;
		if (e->thread >= 0)
			k->open[e->thread] = 0;
	}
	return rc;
}

int loops_check(const struct loops *l)
{
	struct arena a = {0};
	struct check k = {.l = l, .a = &a};
	if (l->failed)
		return fail(E_INFEASIBLE,
			    "loops: a limit was met while building (statements, variables, terms, depth)");
	k.open = ARENA_ARRAY(&a, uint8_t, l->nloopvars + 1);
	k.defined = ARENA_ARRAY(&a, uint8_t, l->nvars + 1);
	int rc = l->tail ? bad(&k, "the last entry is not closed") : l->nentries ? E_OK : bad(&k, "no entry");
	if (rc >= 0)
		rc = check_bufs(&k);
	if (rc >= 0)
		rc = check_entries(&k);
	if (rc >= 0)
		rc = loops_check_textures(l);
	arena_free(&a);
	return rc < 0 ? rc : loops_check_threads(l);
}
