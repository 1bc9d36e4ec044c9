/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of threads: the reduction goes through the share axis box by box. All threads copy the next boxes
 * into shared buffers, meet, compute with them, and meet again.
 *
 * With a ring of n boxes they meet once for each: the first n - 1 boxes are copied before the loop. In the
 * loop the threads wait for their copies of the present box, meet, start to copy the box that takes the place
 * of the one before it, which none of them reads any more, and compute. Every step makes one group of copies,
 * which is empty in the last n - 1 of them, so that the same number of groups may always be unfinished.
 *
 * If the parts of the reduction are spread, a block goes through the boxes of its part only. */
#include "kernels/loops/lower_parts.h"

#include <stdio.h>

void share_begin(struct nest *k)
{
	struct loops *l = k->w->l;
	char name[16];
	if (stage_share(k->w->t, k->w->tg, k->st, k->s, k->share) < 0)
		l->failed = true;
	for (int i = 0; i < k->st->nreads; i++) {
		k->share_buf[i] = -1;
		if (!k->share[i].on)
			continue;
		snprintf(name, sizeof name, "sh%d", i);
		int64_t elems = k->s->boxes > 1 ? k->share[i].pitch * k->s->boxes : k->share[i].elems;
		k->share_buf[i] = loops_buf(l, name, BUF_SHARED, DT_F32, ix_c(l, elems));
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

const struct ix *share_box(const struct nest *k, int read)
{
	struct loops *l = k->w->l;
	if (k->s->boxes == 1)
		return ix_c(l, 0);
	const struct ix *box = ix_div(l, k->share_at, ix_c(l, k->s->share));
	return ix_mul(l, ix_mod(l, box, ix_c(l, k->s->boxes)), ix_c(l, k->share[read].pitch));
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

enum { COPY_ELEMS = 4 /* the most of a ST_COPY */ };

/* Moves `wide` elements into the shared buffer: by copies that may run on, where there is a ring and they can
 * express it, else by a load and a store. */
static void move(struct nest *k, int read, struct mem from, const struct ix *to, int wide)
{
	struct loops *l = k->w->l;
	int n = wide < COPY_ELEMS ? wide : COPY_ELEMS;
	if (k->s->boxes == 1 || l->buf[from.buf].dtype != DT_F32 || (from.guard && from.fill != 0) ||
	    !is_multiple(from.at, n) || !is_multiple(to, n)) {
		int v = lv_new(l, wide);
		lv_load(l, v, from);
		lv_store(l, v, (struct mem){.buf = k->share_buf[read], .at = to, .stride = 1});
		return;
	}
	for (int i = 0; i < wide; i += n) {
		struct mem m = {.buf = from.buf, .at = ix_add(l, from.at, ix_c(l, i)), .stride = 1};
		m.valid = from.guard ? ix_mul(l, from.guard, ix_c(l, n)) : NULL;
		lv_copy(l, k->share_buf[read], ix_add(l, to, ix_c(l, i)), m, n);
	}
}

/* Copies element group e of a box: index[] are its dims in the operand, `at` is its place in the buffer. */
static void copy_element(struct nest *k, int read, const struct ix *e)
{
	struct loops *l = k->w->l;
	const struct shared_read *b = &k->share[read];
	const struct ix *index[MAX_RANK], *at = share_box(k, read);
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
	move(k, read, nest_element(k, read, index), at, b->wide);
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

/* Copies the boxes of the points that begin at `first`. */
static void copy_boxes(struct nest *k, const struct ix *first)
{
	const struct ix *present = k->share_at;
	k->share_at = first;
	for (int i = 0; i < k->st->nreads; i++)
		if (k->share[i].on)
			copy_box(k, i);
	k->share_at = present;
}

/* Starts to copy the boxes before `end` that come after the present ones and are not yet in the ring. */
static void copy_ahead(struct nest *k, const struct ix *end)
{
	struct loops *l = k->w->l;
	const struct ix *ahead = ix_add(l, k->share_at, ix_c(l, (int64_t)(k->s->boxes - 1) * k->s->share));
	struct stmt *s = if_begin(l, ix_lt(l, ahead, end));
	copy_boxes(k, ahead);
	if_end(l, s);
	lv_commit(l);
}

void share_reduce(struct nest *k)
{
	struct loops *l = k->w->l;
	struct scope sc = nest_enter(k);
	int boxes = k->s->boxes;
	const struct ix *first = ix_c(l, 0), *end = k->extent[k->s->share_axis];
	if (k->part) {
		first = ix_mul(l, k->part, ix_c(l, k->s->split));
		end = ix_min(l, end, ix_add(l, first, ix_c(l, k->s->split)));
	}
	for (int i = 0; i < boxes - 1; i++) {
		copy_boxes(k, ix_add(l, first, ix_c(l, (int64_t)i * k->s->share)));
		lv_commit(l);
	}
	struct stmt *f = for_begin(l, first, end, k->s->share, true, &k->share_at);
	if (boxes > 1)
		lv_wait(l, boxes - 2);
	else
		copy_boxes(k, k->share_at);
	lv_barrier(l);
	if (boxes > 1)
		copy_ahead(k, end);
	nest_reduce(k, 0);
	if (boxes == 1)
		lv_barrier(l);
	for_end(l, f);
	k->share_at = NULL;
	nest_leave(k, sc);
}
