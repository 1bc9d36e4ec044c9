/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd schedules of work items: their only numbers are m, the lanes, the register tile of the products,
 * and the group. */
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd.h"

#include <float.h>

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
