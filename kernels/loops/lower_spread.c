/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction that is spread over work items. In the first entry an index sums one part of the reduction for
 * one register tile, with the part as its outermost loop, and stores the sums as they are. In the second, an
 * index adds the sums of one vector, from the first part to the last, applies the stage's program and stores
 * the result. The sums lie in scratch that all indices share: for each part all points, in the order of the
 * loops, the lane axis innermost and filled up to whole vectors. */
#include "kernels/loops/lower_parts.h"

void spread_scratch(struct lower *w)
{
	const struct stage *st = &w->t->stage[0];
	const struct sstage *s = &w->s.st[0];
	w->partials = lower_scratch(w, ix_c(w->l, stage_parts(st, s) * stage_vector_points(st, s)));
}

struct nest *spread_sums(struct nest *k)
{
	struct sstage *s = arena_memdup(k->w->l->arena, k->s, sizeof *s);
	for (int a = 0; a < MAX_AXES; a++)
		s->tile[a] = s->unroll[a] = 1;
	s->chains = 1;
	for (int a = 0; a < MAX_AXES; a++)
		s->threads[a] = 1;
	s->share_axis = -1;
	s->boxes = s->blocks = 1;
	s->wino = (struct winograd){0};
	s->par = k->ns;
	s->prefetch = 0;
	s->feed = s->hoist = false;
	struct nest *n = nest_new(k->w, 0, s);
	s->split_axis = -1; /* it was split when the nest was made: its program is whole */
	n->sums_parts = true;
	n->guarded = n->versioned = false; /* the reads of the sum are not made again */
	return n;
}

struct mem spread_place(const struct nest *k, const int *at, const struct ix *part)
{
	struct loops *l = k->w->l;
	int lane = k->w->s.st[0].lane, whole = k->w->s.st[0].lanes; /* the nest's may be narrower */
	int64_t stride = 1;
	const struct ix *x = lane < 0 ? ix_c(l, 0) : axis_value(k, lane, at[lane]);
	if (lane >= 0)
		stride = ceil_div(k->st->axis[lane].extent, whole) * whole;
	for (int i = k->ns - 1; i >= 0; i--) {
		int a = k->s->order[i];
		if (a == lane)
			continue;
		x = ix_add(l, x, ix_mul(l, axis_value(k, a, at[a]), ix_c(l, stride)));
		stride *= k->st->axis[a].extent;
	}
	x = ix_add(l, ix_add(l, k->w->partials, x), ix_mul(l, part, ix_c(l, stride)));
	return (struct mem){.buf = k->w->scratch_buf, .at = x, .stride = 1};
}

void spread_store(const struct nest *k)
{
	int at[MAX_AXES] = {0}, point = 0;
	do {
		lv_store(k->w->l, k->acc[point], spread_place(k, at, k->part));
		point += k->s->chains;
	} while (nest_next(k, 0, k->ns, at));
}

void spread_load(const struct nest *k)
{
	struct loops *l = k->w->l;
	int at[MAX_AXES] = {0}, point = 0;
	int64_t parts = stage_parts(k->st, &k->w->s.st[0]);
	do
		lv_load(l, k->acc[point++], spread_place(k, at, ix_c(l, 0)));
	while (nest_next(k, 0, k->ns, at));
	const struct ix *part;
	struct stmt *f = for_begin(l, ix_c(l, 1), ix_c(l, parts), 1, true, &part);
	point = 0;
	do {
		int more = nest_like(l, k->acc[point], k->s->lanes);
		lv_load(l, more, spread_place(k, at, part));
		lv_set(l, k->acc[point], nest_combiner(k), k->acc[point], more, -1, -1);
		point++;
	} while (nest_next(k, 0, k->ns, at));
	for_end(l, f);
}
