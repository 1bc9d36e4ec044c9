/* SPDX-License-Identifier: Apache-2.0 */
/* Items that make several tiles along an axis, for windows on GPUs: while an item moves along that axis, it
 * loads each row once and keeps those in registers that the next tile's window shares. A tile is then small,
 * and so are its sums; but there are fewer items. */
#include "kernels/space/space_rules.h"

/* The last axis beside the lanes along which tiles share rows of a window, or the last one before that. */
static int sliding_axis(const struct space *s, const struct stage *st, const struct sstage *c, int before)
{
	int64_t shared;
	struct sstage one = *c;
	for (one.down_axis = before - 1; one.down_axis >= 0; one.down_axis--)
		if (one.down_axis != c->lane && stage_down_read(s->t, st, &one, &shared) >= 0)
			return one.down_axis;
	return -1;
}

bool down_make(const struct space *s, int stage, int points, int tiles, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage c = *out;
	int ns = stage_spatial(st);
	if (!target_runs_items(&s->tg) || s->t->nstages > 1 || c.wino.m || ns == st->naxes)
		return false;
	items_no_threads(&c);
	for (int a = 0; a < ns; a++)
		c.tile[a] = 1;
	for (int a = ns; a < st->naxes; a++) {
		if (IS_SYM(st->axis[a].extent) || st->axis[a].extent > DOWN_PRODUCTS)
			return false;
		c.unroll[a] = (int)st->axis[a].extent;
	}
	int across = sliding_axis(s, st, &c, ns), axis = sliding_axis(s, st, &c, across);
	axis = axis < 0 ? across : axis;
	if (axis < 0 || IS_SYM(st->axis[axis].extent))
		return false;
	if (across != axis && !IS_SYM(st->axis[across].extent)) {
		int64_t e = st->axis[across].extent, n = largest_divisor(e, points);
		c.tile[across] = (int)(n * 2 > points || e < points ? n : points);
	}
	int64_t e = st->axis[axis].extent, n = largest_divisor(e, tiles);
	c.down_axis = axis;
	c.down = (int)(n * 2 > tiles ? n : e < tiles ? e : tiles);
	c.chains = 1;
	c.split_axis = -1;
	c.spread = c.feed = c.quads = c.mmla = false;
	c.prefetch = 0;
	rules_parallel(s, stage, &c);
	if (!rules_fits(s, stage, &c))
		return false;
	*out = c;
	return true;
}

void down_draw(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int points[] = {1, 2, 4, 4, 6, 7, 8}, tiles[] = {2, 3, 4, 4, 7, 8, 14, 16};
	const struct stage *st = &s->t->stage[stage];
	if (!target_runs_items(&s->tg) || sliding_axis(s, st, out, stage_spatial(st)) < 0 || rng_below(r, 4))
		return;
	(void)down_make(s, stage, points[rng_below(r, 7)], tiles[rng_below(r, 8)], out);
}
