/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what entries with threads add: shared buffers, and that all threads meet at the same statements.
 * loops_check has checked everything else before. */
#include "kernels/loops/loops_threads.h"

struct threads {
	const struct loops *l;
	const struct entry *e;
	int64_t at;  /* number of the statement in the entry, as loops_check counts */
	int divided; /* open statements that threads may run differently */
};

static int bad(const struct threads *k, const char *what)
{
	return fail(E_CORRUPT, "loops: entry %s, statement %lld: %s", k->e->name, (long long)k->at, what);
}

/* Whether threads may see different values of x, outside of divided statements: there loop variables are the
 * same for all. Recursion is bounded by IX_MAX_HEIGHT. */
static bool differs(const struct threads *k, const struct ix *x)
{
	if (x->op == IX_VAR)
		return x->id == k->e->thread;
	return (x->a && differs(k, x->a)) || (x->b && differs(k, x->b));
}

bool loops_meets(const struct stmt *s)
{
	return s->op == ST_BARRIER || s->op == ST_COMMIT || s->op == ST_WAIT || s->op == ST_FRAG_STORE ||
	       (s->op == ST_SET && (s->vop == V_SHUF || s->vop == V_FRAG_LOAD || s->vop == V_FRAG_MMA));
}

static bool is_shared(const struct threads *k, int buf)
{
	return k->l->buf[buf].role == BUF_SHARED;
}

static int check_shuffle(const struct threads *k, const struct stmt *s)
{
	int mask = s->imm >= 1 && s->imm < 32 ? (int)s->imm : 0;
	if (!mask || s->imm != (float)mask)
		return bad(k, "a mask of shuf is a whole number from 1 to 31");
	if (k->e->threads % 32)
		return bad(k, "shuf needs a multiple of 32 threads");
	return k->l->lanes[s->a] == k->l->lanes[s->dst] ? E_OK : bad(k, "shuf changes the lanes");
}

static int check_copy(const struct threads *k, const struct stmt *s)
{
	const struct lbuf *from = &k->l->buf[s->mem.buf], *to = &k->l->buf[s->to];
	int64_t bytes = s->s32 * (int64_t)dtype_bytes(to->dtype);
	if (to->role != BUF_SHARED || (from->role != BUF_IN && from->role != BUF_CONST))
		return bad(k, "a copy that is not from an input or constant to a shared buffer");
	if (from->dtype != to->dtype || s->mem.as != DT_NONE)
		return bad(k, "a copy between two types");
	if (s->s32 < 1 || (bytes != 4 && bytes != 8 && bytes != 16))
		return bad(k, "a copy that is not of 4, 8 or 16 bytes");
	return s->mem.stride != 1 || s->mem.guard ? bad(k, "a copy with a stride or a guard") : E_OK;
}

/* Whether x is the thread's number, or its rest of a division by a multiple of 32. */
static bool counts_threads(const struct threads *k, const struct ix *x)
{
	int64_t n;
	if (x->op == IX_MOD)
		return ix_is_const(x->b, &n) && n % WARP == 0 && counts_threads(k, x->a);
	return x->op == IX_VAR && x->id == k->e->thread;
}

/* Whether threads of a warp may see different values of x. Recursion is bounded by IX_MAX_HEIGHT. */
static bool differs_in_warp(const struct threads *k, const struct ix *x)
{
	int64_t n;
	if (x->op == IX_DIV && ix_is_const(x->b, &n) && n % WARP == 0 && counts_threads(k, x->a))
		return false;
	if (x->op == IX_VAR)
		return x->id == k->e->thread;
	return (x->a && differs_in_warp(k, x->a)) || (x->b && differs_in_warp(k, x->b));
}

/* Whether x is a multiple of n because all of its terms are. */
static bool is_multiple(const struct ix *x, int64_t n)
{
	int64_t c, coef[IX_MAX_TERMS];
	const struct ix *atom[IX_MAX_TERMS];
	int terms = ix_terms(x, &c, IX_MAX_TERMS, coef, atom);
	bool all = terms >= 0 && c % n == 0;
	for (int i = 0; i < terms; i++)
		all &= coef[i] % n == 0;
	return all;
}

static int check_fragment_place(const struct threads *k, const struct mem *m, const struct fragment *f)
{
	if (k->l->buf[m->buf].dtype != f->dtype)
		return bad(k, "a fragment and its shared buffer are of two types");
	if (differs_in_warp(k, m->at))
		return bad(k, "a fragment's place may differ between the threads of a warp");
	int step = frag_step(f->dtype, k->l->narrow);
	if (!is_multiple(m->at, step) || m->stride % step)
		return bad(k, "a fragment's place or stride is not aligned");
	return E_OK;
}

static bool is_float(const struct fragment *f)
{
	return dtype_is_half(f->dtype) || f->dtype == DT_F32;
}

static bool is_fragment_type(const struct fragment *f)
{
	if (f->part == FRAG_C)
		return !f->columns && (f->dtype == DT_F32 || f->dtype == DT_I32);
	return is_float(f) || f->dtype == DT_I8 || f->dtype == DT_U8;
}

/* Operations that take each element of fragments alone. */
static const bool takes_elements[V_OPS] = {[V_CONST] = true, [V_COPY] = true, [V_ADD] = true, [V_SUB] = true,
					   [V_MUL] = true,   [V_MIN] = true,  [V_MAX] = true};

static int check_product(const struct threads *k, const struct fragment *const f[4])
{
	if (f[0]->part != FRAG_C || f[1]->part != FRAG_A || f[2]->part != FRAG_B || f[3]->part != FRAG_C)
		return bad(k, "frag_mma needs fragments C, A, B and C");
	bool floats = is_float(f[1]), match = floats ? f[1]->dtype == f[2]->dtype : !is_float(f[2]);
	if (!match || f[0]->dtype != (floats ? DT_F32 : DT_I32))
		return bad(k, "frag_mma of types that do not go together");
	return E_OK;
}

/* A statement that has a fragment among its variables. */
static int check_fragments(const struct threads *k, const struct stmt *s, const struct fragment *const f[4])
{
	if (k->e->threads % WARP || k->e->threads < WARP)
		return bad(k, "fragments need a multiple of 32 threads");
	if (k->divided)
		return bad(k, "threads meet where a bound or condition depends on the thread");
	for (int i = 0; i < 4; i++)
		if (f[i] && f[i]->part != FRAG_NONE && !is_fragment_type(f[i]))
			return bad(k, "a fragment of a type that it cannot have");
	if (s->op == ST_FRAG_STORE)
		return f[1]->part == FRAG_C ? check_fragment_place(k, &s->mem, f[1])
					    : bad(k, "a store of what is no fragment C");
	if (s->vop == V_FRAG_LOAD)
		return f[0]->part != FRAG_NONE ? check_fragment_place(k, &s->mem, f[0])
					       : bad(k, "frag_load of what is no fragment");
	if (s->vop == V_FRAG_MMA)
		return check_product(k, f);
	for (int i = 0; i < 4; i++)
		if (s->op != ST_SET || !takes_elements[s->vop] || (f[i] && f[i]->part != FRAG_C))
			return bad(k, "an operation that takes no fragment, or not this one");
	return E_OK;
}

/* The fragments of a statement's variables: its result, and operands. True: there are some. */
static bool fragments_of(const struct threads *k, const struct stmt *s, const struct fragment *f[4])
{
	const int v[5] = {s->op == ST_SET ? s->dst : -1, s->a, s->b, s->c, s->d};
	bool some =
	    s->op == ST_FRAG_STORE || (s->op == ST_SET && (s->vop == V_FRAG_LOAD || s->vop == V_FRAG_MMA));
	for (int i = 0; i < 5; i++) {
		const struct fragment *x = v[i] >= 0 ? &k->l->fragment[v[i]] : NULL;
		some |= x && x->part != FRAG_NONE;
		if (i < 4)
			f[i] = x;
	}
	return some;
}

static int check_one(const struct threads *k, const struct stmt *s)
{
	const struct fragment *f[4];
	bool loads = s->op == ST_SET && s->vop == V_LOAD;
	if (k->e->threads < 2 && (loops_meets(s) || s->op == ST_COPY ||
				  ((loads || s->op == ST_STORE) && is_shared(k, s->mem.buf))))
		return bad(k, "it needs an entry with threads");
	if (k->divided && loops_meets(s))
		return bad(k, "threads meet where a bound or condition depends on the thread");
	if (k->e->threads > 1 && (loads || s->op == ST_STORE) && k->l->buf[s->mem.buf].role == BUF_SCRATCH &&
	    !k->l->buf[s->mem.buf].common)
		return bad(k, "threads use an index's scratch");
	if (s->op == ST_WAIT && s->s32 < 0)
		return bad(k, "a wait for fewer than no groups");
	if (s->op == ST_COPY)
		return check_copy(k, s);
	if (fragments_of(k, s, f))
		return check_fragments(k, s, f);
	return s->op == ST_SET && s->vop == V_SHUF ? check_shuffle(k, s) : E_OK;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static int check_body(struct threads *k, const struct stmt *s)
{
	int rc = E_OK;
	for (; s && rc >= 0; s = s->next, k->at++) {
		bool loop = s->op == ST_FOR, part = loop || s->op == ST_IF;
		bool apart = part && (differs(k, s->lo) || (loop && differs(k, s->hi)));
		if (!part) {
			rc = check_one(k, s);
			continue;
		}
		k->divided += apart;
		rc = check_body(k, s->body);
		if (rc >= 0)
			rc = check_body(k, s->other);
		k->divided -= apart;
	}
	return rc;
}

static int check_shared(const struct loops *l)
{
	int64_t bytes = 0, elems;
	for (int i = 0; i < l->nbufs; i++) {
		const struct lbuf *b = &l->buf[i];
		bool last = i == l->nbufs - 1;
		if (b->role != BUF_SHARED)
			continue;
		if (!ix_is_const(b->elems, &elems) || elems < 1 || elems > LOOPS_MAX_SHARED)
			return fail(E_CORRUPT, "loops: shared buffer %s is not of 1 to %d elements", b->name,
				    (int)LOOPS_MAX_SHARED);
		bytes += (elems * (int64_t)dtype_bytes(b->dtype) + 15) / 16 * 16;
		if (!last && l->buf[i + 1].role != BUF_SHARED)
			return fail(E_CORRUPT, "loops: shared buffer %s is before %s", b->name,
				    l->buf[i + 1].name);
	}
	return bytes > LOOPS_MAX_SHARED
		   ? fail(E_CORRUPT, "loops: shared buffers have %lld bytes, %d are allowed",
			  (long long)bytes, (int)LOOPS_MAX_SHARED)
		   : E_OK;
}

int loops_check_threads(const struct loops *l)
{
	struct threads k = {.l = l};
	int rc = check_shared(l);
	for (int i = 0; i < l->nentries && rc >= 0; i++) {
		k.e = &l->entry[i];
		k.at = 0;
		rc = check_body(&k, k.e->body);
	}
	return rc;
}
