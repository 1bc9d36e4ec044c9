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
	return s->op == ST_BARRIER || s->op == ST_COMMIT || s->op == ST_WAIT ||
	       (s->op == ST_SET && s->vop == V_SHUF);
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

static int check_one(const struct threads *k, const struct stmt *s)
{
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
