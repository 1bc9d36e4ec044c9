/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a long program to the points of a tile whose sums are in memory. */
#include "kernels/loops/lower_parts.h"

/* Number of points whose steps are interleaved. The steps of one point depend on each other, and a core's
 * window is too small to overlap points that are computed one after the other. SiLU behind 64->64 channels of
 * 52x52 pixels takes 6.9 ns a vector point by point and 5.4 ns interleaved; its division alone takes 4. */
enum { TOGETHER = 4 };

static int together(const struct nest *k)
{
	return k->w->tg->regs >= 32 ? TOGETHER : 1;
}

/* Memory of the point at[]; on the looped axis the point is `first` + at[]. */
typedef struct mem (*place_fn)(const struct nest *k, const int *at, const struct ix *first);

static void post_points(struct nest *k, place_fn place, const struct ix *first)
{
	struct loops *l = k->w->l;
	struct stmt **mark[TOGETHER];
	int at[MAX_AXES] = {0}, n = 0;
	do {
		struct mem m = place(k, at, first);
		int acc = lv_new(l, k->s->lanes);
		mark[n++] = loops_mark(l);
		lv_load(l, acc, m);
		lv_store(l, nest_post(k, at, acc), m);
		if (n == together(k)) {
			loops_interleave(l, mark, n);
			n = 0;
		}
	} while (nest_next(k, 0, k->ns, at));
	loops_interleave(l, mark, n);
}

/* Applies the program to points [from, to) of an axis of the tile, `step` at a time. */
static void post_steps(struct nest *k, int axis, place_fn place, int from, int to, int step)
{
	struct loops *l = k->w->l;
	const struct ix *base = k->base[axis], *i;
	int n = k->n[axis], known = k->nknown, floor = k->floor;
	struct stmt *f = for_begin(l, ix_c(l, from), ix_c(l, to), step, true, &i);
	k->base[axis] = ix_add(l, base, i);
	k->n[axis] = step;
	k->floor = k->nknown; /* known values belong to other points */
	post_points(k, place, i);
	for_end(l, f);
	k->base[axis] = base;
	k->n[axis] = n;
	k->nknown = known;
	k->floor = floor;
}

void nest_post_loop(struct nest *k, int axis, place_fn place)
{
	int n = k->n[axis], others = k->npoints / n, step = others < together(k) ? together(k) / others : 1;
	step = step < n ? step : n;
	int whole = n / step * step;
	post_steps(k, axis, place, 0, whole, step);
	if (whole < n)
		post_steps(k, axis, place, whole, n, n - whole);
}
