/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile whose lanes lie far apart in the output while its points along another axis are
 * contiguous (channels in lanes, a plain image): sums go to scratch and are read back transposed. If the
 * lanes lie a few elements apart with the points of another axis between them, vectors are interleaved
 * instead. */
#include "kernels/loops/lower_parts.h"

#include <string.h>

/* Scratch address of vector `v` of the lane axis at one point. */
static struct mem place_of(const struct nest *k, const struct ix *v, const struct ix *point)
{
	struct loops *l = k->w->l;
	const struct ix *at = ix_add(l, ix_mul(l, v, ix_c(l, k->s->tile[k->turn])), point);
	return (struct mem){.buf = k->w->scratch_buf,
			    .at = ix_add(l, k->turn_at, ix_mul(l, at, ix_c(l, k->s->lanes))),
			    .stride = 1};
}

static void store_sums(struct nest *k, bool post)
{
	struct loops *l = k->w->l;
	int at[MAX_AXES] = {0}, point = 0;
	do {
		int v = post ? nest_post(k, at, k->acc[point]) : nest_float(k, k->acc[point]);
		lv_store(l, v, place_of(k, ix_c(l, at[k->s->lane]), ix_c(l, at[k->turn])));
		point += k->s->chains;
	} while (nest_next(k, 0, k->ns, at));
}

static struct mem point_place(const struct nest *k, const int *at, const struct ix *first)
{
	struct loops *l = k->w->l;
	return place_of(k, ix_c(l, at[k->s->lane]), ix_add(l, first, ix_c(l, at[k->turn])));
}

/* Loads up to `lanes` points from `first` on of one vector, transposes them and stores them along the other
 * axis. */
static void turn(struct nest *k, const struct ix *v, int first)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane, n = k->s->lanes, row[16], at[MAX_AXES] = {0};
	int count = k->n[k->turn] - first < n ? k->n[k->turn] - first : n;
	const struct ix *base = k->base[lane];
	for (int i = 0; i < n; i++) {
		row[i] = i < count ? lv_new(l, n) : row[0];
		if (i < count)
			lv_load(l, row[i], place_of(k, v, ix_c(l, first + i)));
	}
	nest_transpose(l, row, n);
	at[k->turn] = first;
	for (int i = 0; i < n; i++) {
		k->base[lane] = ix_add(l, base, ix_c(l, i));
		struct mem m = nest_mem(k, k->st->nreads, at, n);
		m.stride = 1;
		if (m.valid) /* valid counts lanes: lanes past the end do not exist */
			m.valid = ix_mul(l, ix_lt(l, ix_c(l, 0), m.valid), ix_c(l, count));
		else if (count < n)
			m.valid = ix_c(l, count);
		nest_store(k, row[i], m);
	}
	k->base[lane] = base;
}

void nest_turn(struct nest *k)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane, vectors = k->n[lane];
	bool loop = stage_long_post(k->st);
	store_sums(k, !loop);
	if (loop)
		nest_post_loop(k, k->turn, point_place);
	const struct ix *base = k->base[lane], *v;
	struct scope sc = nest_enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, vectors), 1, true, &v);
	k->base[lane] = ix_add(l, base, ix_mul(l, v, ix_c(l, k->s->lanes)));
	k->n[lane] = 1;
	for (int i = 0; i < k->n[k->turn]; i += k->s->lanes)
		turn(k, v, i);
	for_end(l, f);
	nest_leave(k, sc);
	k->base[lane] = base;
	k->n[lane] = vectors;
}

bool nest_weaves(const struct nest *k)
{
	return k->weave >= 0 && k->n[k->weave] == k->s->tile[k->weave];
}

void nest_lace(struct nest *k, const int *at, const int *point)
{
	struct loops *l = k->w->l;
	int lanes = k->s->lanes, n = k->woven, points = k->n[k->weave];
	struct mem to = nest_mem(k, k->st->nreads, at, lanes);
	const struct ix *first = to.at, *valid = to.valid ? ix_mul(l, to.valid, ix_c(l, n)) : NULL;
	to.stride = 1;
	for (int i = 0; i < n; i++) {
		int v = point[0];
		for (int m = 0; m < n; m++) {
			int laced = nest_like(l, v, lanes);
			lv_lace(l, laced, v, point[m < points ? m : points - 1], n, i, m);
			v = laced;
		}
		to.at = ix_add(l, first, ix_c(l, (int64_t)i * lanes));
		to.valid = valid ? ix_sub(l, valid, ix_c(l, (int64_t)i * lanes)) : NULL;
		nest_store(k, v, to);
	}
}

void nest_weave(struct nest *k)
{
	int at[MAX_AXES] = {0}, point[16];
	do {
		if (at[k->weave])
			continue;
		for (int m = 0; m < k->n[k->weave]; m++) {
			at[k->weave] = m;
			point[m] = nest_post(k, at, k->acc[nest_point(k, at) * k->s->chains]);
		}
		at[k->weave] = 0;
		nest_lace(k, at, point);
	} while (nest_next(k, 0, k->ns, at));
}
