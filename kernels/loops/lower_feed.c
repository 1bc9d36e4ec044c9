/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch of inputs. With blocked channels and few outputs, each point of a tile reads a new cache line for
 * every block of channels, all in the block's first step, and few FMAs use it. So the lines that later blocks
 * or the next tile read are fetched earlier, a few in each step. With rows of pixels each step reads new
 * lines. */
#include "kernels/loops/lower_parts.h"

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

static void fetch(struct nest *k, const struct ix *at, int64_t lines, int64_t step)
{
	struct loops *l = k->w->l;
	int buf = k->w->at[k->st->read[k->feed.read].operand].buf;
	for (int64_t i = 0; i < lines; i++)
		lv_prefetch(l, buf, ix_add(l, at, ix_c(l, i * step)), 1);
}

/* A shorter last block fetches only a part, because it has fewer steps. */
static void feed_blocks(struct nest *k, int64_t extent)
{
	struct loops *l = k->w->l;
	const struct feed *f = &k->feed;
	int points = k->n[f->points];
	int64_t b = f->block < extent ? f->block : extent, u = k->n[f->channels],
		lines = (points * u + b - 1) / b;
	const struct ix *c = axis_value(k, f->channels, 0), *low = ix_mod(l, c, ix_c(l, f->block)),
			*block = ix_sub(l, c, low),
			*first = k->part ? ix_mul(l, k->part, ix_c(l, k->s->split)) : ix_c(l, 0),
			*next = block_at(k, f, first, points);
	if (extent > f->block) {
		const struct ix *end = k->extent[f->channels], *then = ix_add(l, block, ix_c(l, f->block));
		if (k->part)
			end = ix_min(l, end, ix_mul(l, ix_add(l, k->part, ix_c(l, 1)), ix_c(l, k->s->split)));
		const struct ix *more = ix_lt(l, then, end), *beyond = block_at(k, f, then, 0);
		next = ix_add(l, next, ix_mul(l, more, ix_sub(l, beyond, next)));
	}
	next = ix_add(l, next, ix_mul(l, ix_div(l, low, ix_c(l, u)), ix_c(l, lines * f->step)));
	fetch(k, next, lines, f->step);
}

/* Fetches vectors of the next tile; the tiles of other outputs that use the present vectors share the
 * work. */
static void feed_rows(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct feed *f = &k->feed;
	int lane = k->s->lane, vectors = k->n[lane], at[MAX_AXES] = {0};
	int64_t outputs = 1, tile = k->s->tile[f->points];
	ix_is_const(k->extent[f->points], &outputs);
	int64_t tiles = ceil_div(outputs, tile), lines = ceil_div(vectors, tiles);
	const struct ix *turn = ix_div(l, axis_value(k, f->points, 0), ix_c(l, tile));
	const struct ix *first = ix_min(l, ix_mul(l, turn, ix_c(l, lines)), ix_c(l, vectors - lines));
	at[lane] = vectors;
	for (; at[f->channels] < k->n[f->channels]; at[f->channels]++) {
		const struct ix *next = nest_mem(k, f->read, at, k->s->lanes).at;
		fetch(k, ix_add(l, next, ix_mul(l, first, ix_c(l, k->s->lanes))), lines, k->s->lanes);
	}
}

void nest_feed(struct nest *k)
{
	int64_t extent;
	if (!k->s->feed || k->edge)
		return;
	if (!k->feed.block)
		feed_rows(k);
	else if (ix_is_const(k->extent[k->feed.channels], &extent))
		feed_blocks(k, extent);
}
