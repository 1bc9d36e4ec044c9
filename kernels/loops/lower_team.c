/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share the sums of a tile: each takes every n-th step of one reduction axis, and so has sums of
 * its own. These are combined into those of thread 0, which applies the stage's program and stores. On
 * devices that exchange values between threads directly, those of 32 threads are combined first. The others
 * go through a shared buffer, which has a place per point and thread that has sums left: of n of them, the
 * first quarter adds up those of all. The tree, and so the order of a sum, depends on the schedule and the
 * target only. An index has one tile, so the places are used once. */
#include "kernels/loops/lower_parts.h"
#include "kernels/space/share.h"

void team_begin(struct nest *k)
{
	struct loops *l = k->w->l;
	int places = share_places(k->w->tg, k->team);
	int64_t elems = (int64_t)places * k->s->lanes;
	for (int a = 0; a < k->ns; a++)
		elems *= k->s->tile[a];
	k->versioned = false; /* PoCL 3.1 mistakes barriers in a branch that a whole group takes */
	k->team_buf = -1;
	if (places > 1)
		k->team_buf = loops_buf(l, "team", BUF_SHARED, DT_F32, ix_c(l, elems));
}

bool team_divides(const struct nest *k, int i)
{
	return k->member && k->red[i].kind != RED_INNER && k->s->threads[k->red[i].axis] > 1;
}

/* The place of a point's sum that has this number. */
static struct mem place(const struct nest *k, int point, const struct ix *number)
{
	struct loops *l = k->w->l;
	const struct ix *at = ix_mul(l, number, ix_c(l, k->s->lanes));
	at = ix_add(l, at, ix_c(l, (int64_t)point * share_places(k->w->tg, k->team) * k->s->lanes));
	return (struct mem){.buf = k->team_buf, .at = at, .stride = 1};
}

static void put(const struct nest *k, const struct ix *number)
{
	for (int p = 0; p < k->npoints; p++)
		lv_store(k->w->l, k->acc[p * k->s->chains], place(k, p, number));
}

static void add(const struct nest *k, int point, int more)
{
	int acc = k->acc[point * k->s->chains];
	lv_set(k->w->l, acc, nest_combiner(k), acc, more, -1, -1);
}

static void take(const struct nest *k, const struct ix *number)
{
	for (int p = 0; p < k->npoints; p++) {
		int more = nest_like(k->w->l, k->acc[p * k->s->chains], k->s->lanes);
		lv_load(k->w->l, more, place(k, p, number));
		add(k, p, more);
	}
}

static void exchange(const struct nest *k)
{
	struct loops *l = k->w->l;
	for (int mask = SHARE_NEIGHBOURS / 2; mask; mask /= 2)
		for (int p = 0; p < k->npoints; p++) {
			int acc = k->acc[p * k->s->chains], more = nest_like(l, acc, k->s->lanes);
			lv_shuffle(l, more, acc, mask);
			add(k, p, more);
		}
}

/* Combines the sums of n threads, one of `each`, whose number is member / each; returns the branch of thread
 * 0. */
static struct stmt *combine(const struct nest *k, int n, int each)
{
	struct loops *l = k->w->l;
	const struct ix *member = k->member, *zero = ix_c(l, 0), *number = ix_div(l, member, ix_c(l, each));
	struct stmt *s;
	while (n > 1) {
		int first = share_left(n);
		const struct ix *gives = ix_lt(l, ix_c(l, first - 1), number);
		gives = ix_mul(l, gives, ix_lt(l, number, ix_c(l, n)));
		gives = ix_mul(l, gives, ix_eq(l, ix_mod(l, member, ix_c(l, each)), zero));
		s = if_begin(l, gives);
		put(k, number);
		if_end(l, s);
		lv_barrier(l);
		s = if_begin(l, first > 1 ? ix_lt(l, member, ix_c(l, (int64_t)first * each))
					  : ix_eq(l, member, zero));
		for (int i = 1; i < n / first; i++)
			take(k, ix_add(l, ix_mod(l, number, ix_c(l, first)), ix_c(l, (int64_t)i * first)));
		if (first == 1)
			return s;
		if_end(l, s);
		n = first;
	}
	return if_begin(l, ix_eq(l, member, zero));
}

struct stmt *team_combine(struct nest *k)
{
	int n = share_places(k->w->tg, k->team);
	if (n < k->team)
		exchange(k);
	return combine(k, n, k->team / n);
}
