/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs fetched ahead. Blocked channels in front of few outputs: each point of a tile reads a cache line
 * that is new with every block of channels, all in its first step, and few FMAs use it. What later blocks
 * read, or the next tile, is fetched meanwhile, a few lines in each step. */
#include "kernels/lower.h"

/* Address of the first point's first channel of a block. */
static const struct ix *block_at(struct nest *k, const struct feed *f, const struct ix *c, int points)
{
	struct loops *l = k->w->l;
	int at[MAX_AXES] = {0};
	const struct ix *base = k->base[f->points], *from = k->base[f->channels];
	k->base[f->points] = ix_add(l, base, ix_c(l, points));
	k->base[f->channels] = c;
	const struct ix *x = nest_mem(k, f->read, at, k->s->lanes).at;
	k->base[f->points] = base;
	k->base[f->channels] = from;
	return x;
}

void nest_feed(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct feed *f = &k->feed;
	int64_t extent;
	if (!k->s->feed || k->edge || !ix_is_const(k->extent[f->channels], &extent))
		return;
	int points = k->n[f->points];
	int64_t b = f->block < extent ? f->block : extent, u = k->n[f->channels],
		lines = (points * u + b - 1) / b;
	const struct ix *c = axis_value(k, f->channels, 0), *low = ix_mod(l, c, ix_c(l, f->block)),
			*block = ix_sub(l, c, low), *next = block_at(k, f, ix_c(l, 0), points);
	if (extent > f->block) {
		const struct ix *more = ix_lt(l, ix_add(l, block, ix_c(l, f->block)), k->extent[f->channels]);
		const struct ix *beyond = block_at(k, f, ix_add(l, block, ix_c(l, f->block)), 0);
		next = ix_add(l, next, ix_mul(l, more, ix_sub(l, beyond, next)));
	}
	next = ix_add(l, next, ix_mul(l, ix_div(l, low, ix_c(l, u)), ix_c(l, lines * f->step)));
	for (int64_t i = 0; i < lines; i++)
		lv_prefetch(l, k->w->at[k->st->read[f->read].operand].buf,
			    ix_add(l, next, ix_c(l, i * f->step)), 1);
}
