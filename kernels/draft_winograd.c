/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a Winograd schedule: products and transforms follow one another, so they add up; weights that are
 * fetched ahead come meanwhile, but not quite. Measured on a Xeon of 148 GFLOP/s, 91 GB/s
 * from L2 and 11 GB/s from memory. */
#include "kernels/draft.h"
#include "kernels/winograd.h"

#include <math.h>

/* Cycles: a transform along one axis for each m, around one of a tile and vector, the program of a pixel,
 * around a tile of the products. */
static const double ALONG[5] = {[2] = 6, [4] = 11}, AROUND = 30, PIXEL = 4, CALL = 25;

static double join(double a, double b)
{
	return pow(pow(a, 6) + pow(b, 6), 1. / 6);
}

/* One register tile of n tiles over all channels; 4 cycles: the latency of an FMA. */
static double product(const struct winograd *w, double n, double channels)
{
	double points = n * w->kv, loads = n + w->kv;
	double step = fmax(4, join(points / 2, join(loads / 1.7, (points + loads) / 4)));
	return channels * step + CALL + 1.5 * points;
}

/* A block of `count` tiles: the last main one may run over its end. */
static double block(const struct winograd *w, int64_t count, double channels)
{
	int64_t full = w->tiles / w->px, need = (count + w->px - 1) / w->px;
	double rest = count > full * w->px ? product(w, w->tiles % w->px, channels) : 0;
	return (double)(need < full ? need : full) * product(w, w->px, channels) + rest;
}

/* The same of filters as they are: a step transforms one row of points and uses it. Measured. */
static double block_raw(const struct winograd *w, int64_t count, double channels)
{
	double points = w->m + 2, steps = points * ceil((double)count / w->px);
	return steps * (channels * (.75 * points * w->px + 11) + CALL + 3 * points * w->px);
}

struct winograd_cost draft_winograd(const struct task *t, const struct target *tg, const struct sstage *s)
{
	const struct winograd *w = &s->wino;
	struct winograd_sizes z = winograd_sizes(t, s);
	struct winograd_cost c;
	double ghz = draft_ghz(tg), l2_bytes = tg->l2_bytes ? (double)tg->l2_bytes : 1 << 19,
	       l2 = tg->bw_gbs[1] > 0 ? tg->bw_gbs[1] / ghz : 24, memory = draft_memory(tg),
	       l3 = tg->bw_gbs[2] > 0 ? tg->bw_gbs[2] / ghz : memory;
	double batch = (double)z.batch, rounds = batch * (double)z.blocks, tiles = batch * (double)z.tiles,
	       channels = (double)z.channels, m = w->m, points = z.points,
	       panels = ceil((double)z.vectors / w->kv);
	c.input = tiles * (double)z.cblocks * (2 * points * ALONG[w->m] + AROUND);
	c.rest = tiles * (double)z.vectors * ((points + m) * ALONG[w->m] + PIXEL * m * m + AROUND);
	double (*cost)(const struct winograd *, int64_t, double) = w->raw ? block_raw : block;
	double products = batch * panels * (w->raw ? 1 : points * points) *
			  ((double)(z.blocks - 1) * cost(w, w->tiles, channels) +
			   cost(w, z.tiles - (z.blocks - 1) * w->tiles, channels));
	/* Scratch is written and read; weights come from memory, and again with every block. What the L2 does
	 * not hold of these comes from the L3. */
	double held = 4. * (double)(z.v_elems + z.m_elems), u = 4. * (double)z.u_elems, room = .8 * l2_bytes;
	c.rest += rounds * (held / l2 + 2 * fmax(0, held - room) / l3);
	double weights = u / memory + (rounds - 1) * (1.25 * u / l2 + fmin(u, fmax(0, u + held - room)) / l3);
	double apart = w->raw ? 2 : 1.5;
	c.rest += w->prefetch ? pow(pow(products, apart) + pow(weights, apart), 1 / apart)
			      : products + 1.2 * weights;
	return c;
}
