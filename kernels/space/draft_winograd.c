/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a Winograd schedule: products and transforms run one after the other, so they add up; prefetched
 * weights overlap with them, but not fully. Measured on a Xeon with 148 GFLOP/s, 91 GB/s from L2 and 11 GB/s
 * from memory. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/share.h"
#include "kernels/space/winograd_fused.h"

#include <math.h>
#include <string.h>

const double winograd_along[5] = {[2] = 6, [4] = 11};

/* One register tile of n tiles over all channels; 4 cycles: the latency of an FMA. Each vector of f16 weights
 * is converted. */
static double product(const struct sstage *s, const struct winograd_speeds *v, double n, double channels)
{
	const struct winograd *w = &s->wino;
	double others = v->others, points = n * w->kv, loads = others * n + w->kv,
	       converts = s->w16 ? w->kv : 0;
	double slots = others * (points + n + w->kv + converts), issue = (points + converts) / 2;
	double step = fmax(4, draft_join(issue, draft_join(loads / WINO_LOADS, slots / 4)));
	bool piped = w->kv == PIPED_VECTORS && n > 1 && n <= PIPED_POINTS && !s->w16;
	if (v->in_order)
		step = fmax(4, (points + (piped ? n / PIPED_CHANNELS + w->kv : 0) * VECTOR_CYCLES) /
				   FMA_PER_CYCLE);
	if (v->in_order && !piped)
		step = (points + converts + n + w->kv * VECTOR_CYCLES) * IN_ORDER / FMA_PER_CYCLE;
	return channels * step + WINO_CALL + 1.5 * points;
}

/* Products of a block of `count` tiles: its last full register tile may reach beyond `count`. */
static double block(const struct sstage *s, const struct winograd_speeds *v, int64_t count, double channels)
{
	const struct winograd *w = &s->wino;
	int64_t full = w->tiles / w->px, need = (count + w->px - 1) / w->px;
	double rest = count > full * w->px ? product(s, v, w->tiles % w->px, channels) : 0;
	return (double)(need < full ? need : full) * product(s, v, w->px, channels) + rest;
}

/* The same with untransformed filters: each step transforms one row of points and uses it. Measured. */
static double block_raw(const struct sstage *s, const struct winograd_speeds *v, int64_t count,
			double channels)
{
	const struct winograd *w = &s->wino;
	double points = w->m + 2, tile = points * w->px, steps = points * ceil((double)count / w->px);
	double filter = s->w16 ? 11 + RAW_CONVERTS : 11;
	double step = draft_join(tile / 2, v->others * (.75 * tile + filter));
	if (v->in_order) /* by LLVM's model of the cortex-a53: each load and each transform waits */
		step = (7 * tile + 11 * filter) / FMA_PER_CYCLE;
	return steps * (channels * step + v->others * (WINO_CALL + 3 * tile));
}

static double over(double bytes, double room)
{
	return bytes > room ? bytes - room : 0;
}

/* Zen 4 does a 512-bit FMA in two cycles. */
static bool splits_vectors(const struct target *tg)
{
	return tg->lanes == 16 && strcmp(tg->cpu, "znver4") == 0;
}

struct winograd_speeds winograd_speeds(const struct target *tg, int threads)
{
	double ghz = draft_ghz(tg), memory = draft_memory(tg);
	return (struct winograd_speeds){.l1_room = .6 * (tg->l1_bytes ? (double)tg->l1_bytes : 1 << 15),
					.l2_room = .8 * (tg->l2_bytes ? (double)tg->l2_bytes : 1 << 19),
					.l2 = tg->bw_gbs[1] > 0 ? tg->bw_gbs[1] / ghz : 24,
					.l3 = tg->bw_gbs[2] > 0 ? tg->bw_gbs[2] / ghz / (threads > 1 ? 2 : 1)
								: memory,
					.memory = memory,
					.others = splits_vectors(tg) ? .5 : 1,
					.in_order = draft_in_order(tg)};
}

double winograd_apart(const struct task *t, const struct sstage *s)
{
	const struct stage *st = &t->stage[0];
	double lanes = fmin(s->lanes, (double)st->axis[s->lane].extent), sum = 0;
	for (int i = 0; i <= st->nreads; i++) {
		const struct read *r = i < st->nreads ? &st->read[i] : &st->out;
		int64_t stride;
		bool pads;
		if (!operand_packs(t, r->operand) &&
		    read_stride(t, st, r, s->lane, s->lanes, &stride, &pads) >= 0 && stride > 1)
			sum += lanes;
	}
	return sum;
}

/* Cycles of the transforms of `tiles` tiles with `vectors` vectors of outputs, without loading weights. */
static double transforms(const struct task *t, const struct sstage *s, const struct winograd_sizes *z,
			 double tiles, double vectors)
{
	double m = s->wino.m, points = z->points, along = winograd_along[s->wino.m];
	double in = tiles * (double)z->cblocks * (2 * points * along + WINO_AROUND);
	double pixel = WINO_PIXEL + WINO_APART * winograd_apart(t, s);
	return in + tiles * vectors * ((points + m) * along + pixel * m * m + WINO_AROUND);
}

/* Cycles to read weights again from the L2 for the next register tile if a panel is too large for the L1: a
 * fifth of this is not hidden. */
static double panels_again(const struct sstage *s, const struct winograd_sizes *z,
			   const struct winograd_speeds *v, int64_t tiles)
{
	const struct winograd *w = &s->wino;
	double panel = (double)stage_weight_bytes(s) * (double)z->channels * w->kv * s->lanes;
	return w->raw || panel < v->l1_room ? 0 : .2 * panel * (double)(ceil_div(tiles, w->px) - 1) / v->l2;
}

static double products(const struct sstage *s, const struct winograd_sizes *z,
		       const struct winograd_speeds *v, int64_t tiles, int64_t vectors)
{
	const struct winograd *w = &s->wino;
	double (*cost)(const struct sstage *, const struct winograd_speeds *, int64_t, double) =
	    w->raw ? block_raw : block;
	double points = w->raw ? 1 : z->points * z->points;
	return points * (double)ceil_div(vectors, w->kv) *
	       (cost(s, v, tiles, (double)z->channels) + panels_again(s, z, v, tiles));
}

/* The share of the busiest of `threads` threads in the parallel indexes, which go through the blocks of tiles
 * for one part of the channels, then for the next part. */
struct shared {
	int64_t indexes, parts;
	int64_t lasts, last; /* indexes with the last block of tiles, and the tiles in that block */
	int64_t vectors;     /* vectors of a part */
};

static struct shared shared(const struct winograd *w, const struct winograd_sizes *z, int threads)
{
	int64_t blocks = z->batch * z->blocks;
	struct shared h = {.indexes = ceil_div(blocks * w->parts, threads),
			   .vectors = ceil_div(z->chunks, w->parts) * w->chunk,
			   .last = z->tiles - (z->blocks - 1) * w->tiles};
	h.parts = ceil_div(h.indexes, blocks);
	h.lasts = h.indexes / z->blocks;
	h.vectors = h.vectors < z->vectors ? h.vectors : z->vectors;
	return h;
}

struct draft_terms draft_winograd(const struct task *t, const struct target *tg, const struct sstage *s,
				  int threads)
{
	struct sstage whole;
	if (SCHED_THREADED && target_runs_items(tg) && !tg->serial)
		return (winograd_is_fused(s) ? draft_winograd_fused : draft_winograd_items)(t, tg, s);
	if (SCHED_THREADED) {
		whole = *s;
		winograd_whole(t, &whole);
		s = &whole;
	}
	const struct winograd *w = &s->wino;
	struct winograd_sizes z = winograd_sizes(t, s);
	struct winograd_speeds v = winograd_speeds(tg, threads);
	struct shared h = shared(w, &z, threads);
	double u = (double)stage_weight_bytes(s) * (double)z.u_elems * (double)h.vectors / (double)z.vectors;
	double lasts = (double)h.lasts, others = (double)(h.indexes - h.lasts);
	double tiles = others * w->tiles + lasts * (double)h.last;
	/* Scratch is written and read, inputs are read by each chunk. Between two uses of the scratch the L2
	 * has to hold all of it, a chunk's weights, and pixels; what does not fit comes from the L3, half of
	 * it while other data is used. */
	double vs = 4. * (double)z.v_elems, ms = 4. * (double)z.m_elems,
	       chunks = (double)ceil_div(h.vectors, w->chunk);
	double in = 4. * w->tiles * w->m * w->m * (double)(z.cblocks * s->lanes),
	       out = 4. * w->tiles * w->m * w->m * (double)(h.vectors * s->lanes);
	double between = vs + ms + u / chunks + (w->pixels ? 2 : 1) * in + out,
	       missed = over(between, v.l2_room) / between;
	double moved = vs + chunks * (.5 * vs + 2 * ms), held = vs + ms,
	       far = threads > 1 ? in : 0; /* inputs in other cores' caches */
	struct draft_terms x = {0};
	x.of[DRAFT_TRANSFORM] = v.others * transforms(t, s, &z, tiles, (double)h.vectors);
	x.of[DRAFT_L2] = (others + lasts) * held / v.l2;
	x.of[DRAFT_L3] = (others + lasts) * (.5 * missed * moved + far) / v.l3;
	double rest =
	    x.of[DRAFT_TRANSFORM] + (others + lasts) * (held / v.l2 + (.5 * missed * moved + far) / v.l3);
	double again = 1.5 * u / v.l2 + fmin(u, over(u + held, v.l2_room)) / v.l3;
	double weights = (double)h.parts * u / v.memory + (double)(h.indexes - h.parts) * again;
	double work = others * products(s, &z, &v, w->tiles, h.vectors) +
		      lasts * products(s, &z, &v, h.last, h.vectors);
	double apart = w->raw || v.others < 1 ? 2 : 1.5;
	double both =
	    w->prefetch ? pow(pow(work, apart) + pow(weights, apart), 1 / apart) : work + 1.2 * weights;
	x.cycles = rest + both;
	x.of[DRAFT_ISSUE] = work;
	x.of[DRAFT_COLD] = both - work;
	return x;
}
