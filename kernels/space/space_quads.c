/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and draws for depthwise sums of bytes by dot products (quads.h). */
#include "kernels/space/quads.h"
#include "kernels/space/space_rules.h"

#include <float.h>

/* Points of a tile, at most, for 32 registers: beside them lie the weights of a 3x3 filter and the quads of a
 * row. The tile matters little: 3x3 with 32 channels of 112x112 takes 49 to 52 us with 4 to 16 points on a
 * Zen 4. */
enum { MOST_POINTS = 8, MOST_TAPS = 16 };

bool rules_has_quads(const struct space *s, int stage)
{
	const struct stage_space *ss = &s->st[stage];
	for (int i = 0; i < ss->nlanes; i++)
		if (quads_products(s->t, &s->t->stage[stage], ss->lane[i].axis, ss->lane[i].lanes) > 0)
			return true;
	return false;
}

/* The axis beside the lanes and along the image's rows whose points the tile spans, and one across the rows.
 */
static bool tile_axes(const struct space *s, int stage, const struct sstage *c, int *along, int *across)
{
	struct quads q;
	const struct stage *st = &s->t->stage[stage];
	struct sstage one = *c;
	one.quads = true;
	quads_settle(s->t, st, &one);
	if (!one.quads || stage_quads(s->t, st, &one, &q) < 0 || q.pixel < 0)
		return false;
	*along = q.pixel;
	*across = -1;
	for (int a = sched_shared(s->t, rules_rows(s, s->t->nstages - 1)); a < stage_spatial(st); a++)
		for (int d = 0; d < MAX_RANK; d++)
			for (int b = stage_spatial(st); b < st->naxes; b++)
				if (a != q.pixel && a != c->lane && st->read[q.image].dim[d].coef[a] &&
				    st->read[q.image].dim[d].coef[b])
					*across = a;
	return *along >= sched_shared(s->t, rules_rows(s, s->t->nstages - 1));
}

/* Unrolls the taps across the rows, too, if they are few: neighbouring rows of points then share quads. More
 * spill. */
static void unroll_rows(const struct stage *st, struct sstage *c)
{
	int64_t taps = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		taps *= st->axis[a].extent;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		c->unroll[a] = taps <= MOST_TAPS ? (int)st->axis[a].extent : 1;
}

/* Completes a tile of x points along the rows and y across them. */
static bool make_tile(const struct space *s, int stage, struct sstage *c, int along, int x, int across, int y)
{
	const struct stage *st = &s->t->stage[stage];
	for (int a = 0; a < stage_spatial(st); a++)
		c->tile[a] = 1;
	if (st->axis[along].extent < x || (y > 1 && (across < 0 || st->axis[across].extent < y)))
		return false;
	c->tile[along] = x;
	if (across >= 0)
		c->tile[across] = y;
	rules_finish(s, stage, c);
	unroll_rows(st, c);
	c->quads = true;
	rules_settle(s, stage, c);
	return c->quads && x * y * 32 <= MOST_POINTS * s->tg.regs && rules_fits(s, stage, c);
}

bool quads_rule(const struct space *s, int stage, int skip, struct sstage *out)
{
	static const int tile[][2] = {{4, 1}, {4, 2}, {8, 1}, {2, 2}, {2, 1}, {1, 1}};
	double best = DBL_MAX;
	int along, across, nth = 0;
	struct sstage base = *out;
	if (base.lane < 0 || !tile_axes(s, stage, &base, &along, &across))
		return false;
	for (size_t i = 0; i < sizeof tile / sizeof *tile; i++) {
		struct sstage c = base;
		if (!make_tile(s, stage, &c, along, tile[i][0], across, tile[i][1]) || nth++ == skip)
			continue;
		double d = draft_stage(s->t, &s->tg, stage, &c);
		if (d < best) {
			best = d;
			*out = c;
		}
	}
	return best < DBL_MAX;
}

void quads_default(const struct space *s, int stage, struct sstage *out)
{
	struct sstage c = *out;
	if (draft_dots(s->t, &s->t->stage[stage], &s->tg) == QUAD && quads_rule(s, stage, -1, &c) &&
	    draft_stage(s->t, &s->tg, stage, &c) < draft_stage(s->t, &s->tg, stage, out))
		*out = c;
}

void quads_draw(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	out->quads = (s->quads >> stage & 1) && rng_below(r, 2);
}
