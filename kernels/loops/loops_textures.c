/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops/loops.h"

enum { TEXEL = 4 /* elements */ };

static int bad(const struct loops *l, int buf, const char *what)
{
	return fail(E_INFEASIBLE, "texture %s: %s", l->buf[buf].name, what);
}

/* Whether x is a multiple of TEXEL for all values of its variables. */
static bool is_whole(const struct ix *x)
{
	int64_t c, coef[IX_MAX_TERMS];
	const struct ix *atom[IX_MAX_TERMS];
	int n = ix_terms(x, &c, IX_MAX_TERMS, coef, atom);
	bool whole = n >= 0 && c % TEXEL == 0;
	for (int i = 0; i < n; i++)
		whole &= coef[i] % TEXEL == 0;
	return whole;
}

static int check_load(const struct loops *l, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	if (l->type[s->dst] != LV_F32 || l->lanes[s->dst] % TEXEL || m->stride != 1 || mem_group(m) != 1 ||
	    m->as != DT_NONE || m->valid)
		return bad(l, m->buf, "a load is no vector of 4, 8 or 16 neighbours");
	return is_whole(m->at) ? E_OK : bad(l, m->buf, "a vector may begin inside of a texel");
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static int check_body(const struct loops *l, const struct stmt *s)
{
	int rc = E_OK;
	for (; s && rc >= 0; s = s->next) {
		bool load = s->op == ST_SET && s->vop == V_LOAD,
		     other = s->op == ST_PREFETCH || s->op == ST_COPY || s->op == ST_STORE;
		if ((load || other) && l->buf[s->mem.buf].texture)
			rc = load ? check_load(l, s)
				  : bad(l, s->mem.buf, "it is prefetched, copied or written");
		if ((s->op == ST_FOR || s->op == ST_IF) && rc >= 0)
			rc = check_body(l, s->body);
		if (s->op == ST_IF && rc >= 0)
			rc = check_body(l, s->other);
	}
	return rc;
}

int loops_check_textures(const struct loops *l)
{
	bool any = false;
	int rc = E_OK;
	for (int i = 0; i < l->nbufs && rc >= 0; i++) {
		const struct lbuf *b = &l->buf[i];
		any |= b->texture;
		if (b->texture && (b->role != BUF_CONST || (b->dtype != DT_F32 && b->dtype != DT_F16)))
			rc = bad(l, i, "it is no constant of f32 or f16");
	}
	for (int e = 0; e < l->nentries && any && rc >= 0; e++)
		rc = check_body(l, l->entry[e].body);
	return rc;
}
