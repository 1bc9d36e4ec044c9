/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's fragments. Element e of a fragment, counted by rows, is lane e % 8 of the warp's thread
 * e / 8; one of A or B is kept as its value, in f32 or s32. */
#include "kernels/loops/loops_run.h"

struct matrix {
	union lane e[FRAG_ELEMS];
};

/* The value of `at`, which is the same for all threads of the warp. */
static int place(struct interp *r, const struct stmt *s, int first, int64_t *at)
{
	loops_become(r, first);
	*at = loops_value(r, s->mem.at);
	for (int t = 1; t < WARP; t++) {
		loops_become(r, first + t);
		if (loops_value(r, s->mem.at) != *at)
			return fail(E_CORRUPT, "loops: entry %s: a fragment's place differs in its warp",
				    r->entry);
	}
	return loops_check_tables(r);
}

/* The place in memory of the element that is e-th by rows. */
static int64_t element(const struct stmt *s, const struct fragment *f, int64_t at, int e)
{
	int64_t i = e / FRAG_SIZE, j = e % FRAG_SIZE;
	return f->columns ? at + j * s->mem.stride + i : at + i * s->mem.stride + j;
}

static struct lane_type type_of(const struct fragment *f)
{
	bool whole = f->dtype != DT_F32 && !dtype_is_half(f->dtype);
	return (struct lane_type){whole ? LV_S32 : LV_F32, f->dtype, 1};
}

static int get(struct interp *r, int var, int first, struct matrix *m)
{
	for (int e = 0; e < FRAG_ELEMS; e++) {
		loops_become(r, first + e / FRAG_LANES);
		if (!r->set[var])
			return fail(E_CORRUPT, "loops: entry %s: reads the unset v%d", r->entry, var);
		m->e[e] = r->v[var][e % FRAG_LANES];
	}
	return E_OK;
}

static void put(struct interp *r, int var, int first, const struct matrix *m)
{
	for (int e = 0; e < FRAG_ELEMS; e++) {
		loops_become(r, first + e / FRAG_LANES);
		r->v[var][e % FRAG_LANES] = m->e[e];
		r->set[var] = 1;
	}
}

static int move(struct interp *r, const struct stmt *s, int first, bool store)
{
	const struct fragment *f = &r->l->fragment[store ? s->a : s->dst];
	struct matrix m;
	int64_t base;
	bool rounds = f->part != FRAG_C && f->dtype == DT_F32;
	int rc = place(r, s, first, &base);
	if (rc >= 0 && store)
		rc = get(r, s->a, first, &m);
	for (int e = 0; e < FRAG_ELEMS && rc >= 0; e++) {
		int64_t at = element(s, f, base, e);
		if (at < 0 || at >= r->elems[s->mem.buf])
			return fail(E_CORRUPT, "loops: entry %s: a fragment's element %lld is outside %s",
				    r->entry, (long long)at, r->l->buf[s->mem.buf].name);
		rc = loops_touch_together(r, s->mem.buf, at, store);
		if (store)
			lane_store(type_of(f), r->env.bufs[s->mem.buf], at, m.e[e]);
		else
			m.e[e] = lane_load(type_of(f), r->env.bufs[s->mem.buf], at);
		if (rounds)
			m.e[e].f = tf32_of(m.e[e].f);
	}
	if (rc >= 0 && !store)
		put(r, s->dst, first, &m);
	return rc;
}

static union lane sum_f32(const struct matrix *a, const struct matrix *b, union lane c, int i, int j)
{
	for (int k = 0; k < FRAG_SIZE; k++) /* products of f16, bf16 and TF32 are exact in f64 */
		c.f = (float)(c.f + (double)a->e[i * FRAG_SIZE + k].f * b->e[k * FRAG_SIZE + j].f);
	return c;
}

/* False: the sum overflows. */
static bool sum_s32(const struct matrix *a, const struct matrix *b, union lane *c, int i, int j)
{
	int64_t sum = c->s;
	for (int k = 0; k < FRAG_SIZE; k++)
		sum += a->e[i * FRAG_SIZE + k].s * b->e[k * FRAG_SIZE + j].s;
	c->s = (int32_t)sum;
	return sum == c->s;
}

static int multiply(struct interp *r, const struct stmt *s, int first)
{
	struct matrix a, b, c;
	bool floats = r->l->fragment[s->c].dtype == DT_F32;
	int rc = get(r, s->a, first, &a);
	if (rc >= 0)
		rc = get(r, s->b, first, &b);
	if (rc >= 0)
		rc = get(r, s->c, first, &c);
	for (int e = 0; e < FRAG_ELEMS && rc >= 0; e++)
		if (floats)
			c.e[e] = sum_f32(&a, &b, c.e[e], e / FRAG_SIZE, e % FRAG_SIZE);
		else if (!sum_s32(&a, &b, &c.e[e], e / FRAG_SIZE, e % FRAG_SIZE))
			rc = fail(E_CORRUPT, "loops: entry %s: v%d = frag_mma: the result overflows s32",
				  r->entry, s->dst);
	if (rc >= 0)
		put(r, s->dst, first, &c);
	return rc;
}

int loops_run_warp(struct interp *r, const struct stmt *s, int first)
{
	loops_warp_begins(r);
	if (s->op == ST_SET && s->vop == V_FRAG_MMA)
		return multiply(r, s, first);
	return move(r, s, first, s->op == ST_FRAG_STORE);
}
