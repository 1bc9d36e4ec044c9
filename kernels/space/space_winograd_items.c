/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd schedules of work items. Of three launches the only numbers are m, the lanes, the register tile of
 * the products, and the group. */
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd_fused.h"

#include <float.h>
#include <string.h>

static const int tiles[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}, vectors[] = {1, 2, 3, 4, 6, 8};
enum { TILES = sizeof tiles / sizeof *tiles, VECTORS = sizeof vectors / sizeof *vectors };

enum {
	ADDRESSES =
	    8 /* vectors that take the place of addresses and counters: with 4 of 60, 10x4 tiles spill */
};

int winograd_items_most(const struct space *s, const struct sstage *c)
{
	int kv = c->wino.kv, room = (target_vectors(&s->tg, c->lanes) - ADDRESSES - kv) / (kv + 1);
	return room < 1 ? 1 : room;
}

double winograd_items_rule(const struct space *s, struct sstage c, struct sstage *out)
{
	double best = DBL_MAX;
	for (int j = 0; j < VECTORS; j++)
		for (int i = 0; i < TILES; i++) {
			c.wino.px = tiles[i];
			c.wino.kv = vectors[j];
			if (c.wino.px > winograd_items_most(s, &c) || winograd_check(s->t, &s->tg, &c) < 0)
				continue;
			double d = draft_winograd(s->t, &s->tg, &c, 1).cycles;
			if (d < best) {
				best = d;
				*out = c;
			}
		}
	return best;
}

void winograd_items_draw(const struct space *s, struct rng *r, struct sstage *out)
{
	static const int groups[] = {0, 0, 32, 64, 64, 128, 256};
	out->lanes = rng_below(r, 3) ? s->wino_lanes : 2 << rng_below(r, 2);
	out->wino.kv = vectors[rng_below(r, VECTORS)];
	out->wino.px = tiles[rng_below(r, TILES)];
	int most = winograd_items_most(s, out), g = groups[rng_below(r, 7)];
	out->wino.px = out->wino.px < most ? out->wino.px : most;
	out->group = g <= s->tg.group ? g : 0;
}

/* ---- one launch ---- */

static const int fused_px[] = {4, 8, 2, 16, 1, 3, 6}, fused_kv[] = {1, 2, 4, 3},
		 threads_of[] = {1, 2, 4, 8, 16}, shares[] = {8, 4, 16, 2, 3};

static bool fused_fits(const struct space *s, const struct sstage *c)
{
	return winograd_check(s->t, &s->tg, c) >= 0;
}

/* Splits the input channels into so many parts, if that is possible. */
static void fused_parts(const struct space *s, int64_t parts, struct sstage *c)
{
	struct sstage old = *c;
	int64_t channels = s->t->stage[0].axis[c->share_axis].extent;
	c->split_axis = c->share_axis;
	c->split = ceil_div(ceil_div(channels, c->share), parts) * c->share;
	c->spread = true;
	if (!fused_fits(s, c))
		*c = old;
}

/* Keeps the schedule if its draft is the best so far, without parts or in as many as keep all units busy. */
static void keep_fused(const struct space *s, struct sstage c, double *best, struct sstage *out)
{
	if (!fused_fits(s, &c))
		return;
	for (int64_t parts = 1; parts <= 16; parts *= 2) {
		if (parts > 1)
			fused_parts(s, parts, &c);
		if (parts > 1 && !c.spread)
			return;
		double d = draft_winograd(s->t, &s->tg, &c, 1).cycles;
		if (d < *best) {
			*best = d;
			*out = c;
		}
	}
}

double winograd_fused_rule(const struct space *s, struct sstage c, struct sstage *out)
{
	struct winograd_form f;
	double best = DBL_MAX;
	if (s->tg.serial || winograd_form(s->t, &f) < 0)
		return best;
	c.share_axis = f.c;
	for (int i = 0; i < 4 * 3 * 5 * 5 * 3 * 2; i++) {
		int k = i;
		c.boxes = 1 + k % 2, k /= 2;
		c.share = shares[k % 3], k /= 3;
		c.wino.px = fused_px[k % 4], k /= 4;
		c.wino.kv = fused_kv[k % 3], k /= 3;
		c.wino.tiles = c.wino.px * threads_of[k % 5], k /= 5;
		c.wino.chunk = c.wino.kv * threads_of[k % 5];
		keep_fused(s, c, &best, out);
	}
	return best;
}

static int one_of(struct rng *r, const int *list, int n)
{
	return list[rng_below(r, (uint32_t)n)];
}

bool winograd_fused_draw(const struct space *s, struct rng *r, struct sstage *out)
{
	static const int boxes[] = {1, 1, 2, 2, 3}, parts[] = {1, 1, 1, 2, 3, 4, 8},
			 blocks[] = {1, 1, 1, 2, 2, 3, 4};
	struct winograd_form f;
	struct sstage c = *out;
	if (s->tg.serial || winograd_form(s->t, &f) < 0)
		return false;
	c.lanes = rng_below(r, 3) ? s->wino_lanes : 2 << rng_below(r, 2);
	c.share_axis = f.c;
	for (int tries = 0; tries < 16; tries++) {
		c.split_axis = -1;
		c.spread = false;
		c.wino.px = one_of(r, fused_px, 7);
		c.wino.kv = one_of(r, fused_kv, 4);
		c.wino.tiles = c.wino.px * one_of(r, threads_of, 4);
		c.wino.chunk = c.wino.kv * one_of(r, threads_of, 5);
		c.share = one_of(r, shares, 5);
		c.boxes = one_of(r, boxes, 5);
		c.blocks = strcmp(s->tg.isa, "cuda") ? 1 : one_of(r, blocks, 7);
		if (!fused_fits(s, &c))
			continue;
		int n = one_of(r, parts, 7);
		if (n > 1)
			fused_parts(s, n, &c);
		*out = c;
		return true;
	}
	return false;
}
