/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of threads: the reduction goes through the share axis box by box. All threads copy the next boxes
 * into shared buffers, meet, compute with them, and meet again. */
#include "kernels/loops/lower_parts.h"

#include <stdio.h>

void share_begin(struct nest *k)
{
	struct loops *l = k->w->l;
	char name[16];
	if (stage_share(k->w->t, k->st, k->s, k->share) < 0)
		l->failed = true;
	for (int i = 0; i < k->st->nreads; i++) {
		k->share_buf[i] = -1;
		if (!k->share[i].on)
			continue;
		snprintf(name, sizeof name, "sh%d", i);
		k->share_buf[i] = loops_buf(l, name, BUF_SHARED, DT_F32, ix_c(l, k->share[i].elems));
		k->cross[i] = -1;
	}
	/* No version without guards: all threads go the same way. */
	k->guarded = k->versioned = false;
	for (int i = 0; i < k->st->nreads; i++)
		for (int d = 0; d < k->w->t->operand[k->st->read[i].operand].dims.rank; d++)
			k->guarded |= !k->share[i].on && index_guarded(k->w->t, k->st, &k->st->read[i], d);
}

/* The first point of an axis that belongs to the boxes. */
static const struct ix *first_point(const struct nest *k, int axis)
{
	if (axis < k->ns)
		return k->block_at[axis];
	return axis == k->s->share_axis ? k->share_at : ix_c(k->w->l, 0);
}

const struct ix *share_low(const struct nest *k, int read, int d)
{
	struct loops *l = k->w->l;
	const struct index *x = &k->st->read[read].dim[d];
	const struct ix *v = ix_c(l, x->off);
	for (int a = 0; a < k->st->naxes; a++)
		if (x->coef[a])
			v = ix_add(l, v, ix_mul(l, first_point(k, a), ix_c(l, x->coef[a])));
	return v;
}

/* Copies element group e of a box: index[] are its dims in the operand, `at` is its place in the buffer. */
static void copy_element(struct nest *k, int read, const struct ix *e)
{
	struct loops *l = k->w->l;
	const struct shared_read *b = &k->share[read];
	const struct ix *index[MAX_RANK], *at = ix_c(l, 0);
	int rank = k->w->t->operand[k->st->read[read].operand].dims.rank, done = 0;
	for (int j = rank; j >= 0;
	     j--) { /* the inner dim first, then the others from the last to the first */
		int d = j == rank ? b->inner : j;
		if (j == b->inner)
			continue;
		int64_t wide = d == b->inner ? b->wide : 1, n = b->size[d] / wide;
		bool last = ++done == rank;
		/* The last groups of a round may be past the end: they are not copied, but have an address.
		 */
		const struct ix *i = last ? ix_min(l, e, ix_c(l, n - 1)) : ix_mod(l, e, ix_c(l, n));
		i = ix_mul(l, i, ix_c(l, wide));
		e = ix_div(l, e, ix_c(l, n));
		at = ix_add(l, at, ix_mul(l, i, ix_c(l, b->stride[d])));
		index[d] = ix_add(l, share_low(k, read, d), i);
	}
	int v = lv_new(l, b->wide);
	lv_load(l, v, nest_element(k, read, index));
	lv_store(l, v, (struct mem){.buf = k->share_buf[read], .at = at, .stride = 1});
}

static void copy_box(struct nest *k, int read)
{
	struct loops *l = k->w->l;
	int64_t n = k->share[read].elems / k->share[read].wide, threads = stage_threads(k->st, k->s);
	const struct ix *first, *e;
	struct stmt *s = NULL, *f = for_begin(l, ix_c(l, 0), ix_c(l, n), threads, true, &first);
	e = ix_add(l, first, k->thread);
	if (n % threads)
		s = if_begin(l, ix_lt(l, e, ix_c(l, n)));
	copy_element(k, read, e);
	if (s)
		if_end(l, s);
	for_end(l, f);
}

void share_reduce(struct nest *k)
{
	struct loops *l = k->w->l;
	struct scope sc = nest_enter(k);
	struct stmt *f =
	    for_begin(l, ix_c(l, 0), k->extent[k->s->share_axis], k->s->share, true, &k->share_at);
	for (int i = 0; i < k->st->nreads; i++)
		if (k->share[i].on)
			copy_box(k, i);
	lv_barrier(l);
	nest_reduce(k, 0);
	lv_barrier(l);
	for_end(l, f);
	k->share_at = NULL;
	nest_leave(k, sc);
}
