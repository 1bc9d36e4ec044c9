/* SPDX-License-Identifier: Apache-2.0 */
/* A Winograd schedule of one launch (kernels/space/winograd_fused.h), with the costs of draft_items.c; and a
 * second launch that adds the sums of parts. Blocks read windows and weights through the caches: the windows
 * of a tile once for each chunk of channels, the weights once for each block of tiles. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/winograd_fused.h"

#include <math.h>

enum { GUARD = 3 /* slots of a pixel that may lie outside */ };

struct sizes {
	const struct sstage *s;
	struct winograd_fused z;
	double m, points, positions, lanes, threads, steps; /* steps: of a part */
};

/* Slots of a thread for the products of one step. */
static double products(const struct sizes *x)
{
	const struct winograd *w = &x->s->wino;
	double load = w->px / (double)x->z.tile_lanes * draft_item_load(x->z.tile_lanes) +
		      w->kv * draft_item_load(x->s->lanes);
	return x->s->share * (w->px * w->kv * x->lanes + ITEM_NEAR * load) + ITEM_BODY;
}

/* Slots of a thread to fill the buffer with one step. */
static double fill(const struct sizes *x)
{
	double n = x->positions, lanes = x->z.in_lanes,
	       window = n * (draft_item_load(x->z.in_lanes) + GUARD + lanes * ITEM_STORE) +
			2 * lanes * x->points * winograd_along_in[x->s->wino.m] + ITEM_COPY;
	double copy = draft_item_load(4) + draft_item_store(4) + ITEM_COPY;
	return ceil((double)x->z.windows / x->threads) * window +
	       ceil((double)x->z.u_elems / 4 / x->threads) * copy;
}

/* Slots of a thread to transform its sums back. */
static double finish(const struct sizes *x, double post)
{
	double lanes = x->z.out_lanes, sums = x->z.pass_tiles * (double)x->z.pass_vectors,
	       tiles = ceil(sums * x->lanes / lanes / x->positions);
	double tile = x->positions * ITEM_NEAR * draft_item_load(x->z.out_lanes) +
		      lanes * winograd_along_out[x->s->wino.m] * (x->points + x->m) +
		      x->m * x->m * (lanes * post + GUARD + draft_item_store(x->z.out_lanes)) + ITEM_COPY;
	return x->z.passes * (sums * draft_item_store(x->s->lanes) + tiles * tile + 2 * ITEM_BARRIER);
}

/* The second launch: an item adds the parts of one vector of outputs. */
static struct draft_launch sums(const struct sizes *x, double vectors, double post)
{
	double parts = (double)x->z.parts, load = draft_item_load(x->s->lanes);
	return (struct draft_launch){.items = vectors,
				     .slots = parts * (x->lanes + load) + x->lanes * post +
					      draft_item_store(x->s->lanes) + ITEM_AROUND,
				     .chain = parts + post,
				     .bodies = 1,
				     .near = vectors * parts * x->lanes * 4};
}

struct draft_terms draft_winograd_fused(const struct task *t, const struct target *tg, const struct sstage *s)
{
	struct item_rates r = draft_item_rates(tg);
	const struct stage *st = &t->stage[0];
	struct sizes x = {.s = s, .z = winograd_fused_sizes(t, s), .m = s->wino.m, .lanes = s->lanes};
	if (!x.z.threads)
		return (struct draft_terms){.cycles = 1e30};
	struct sstage as = *s;
	double post = draft_post(st), out = stage_vector_points(st, s), parts = (double)x.z.parts;
	x.points = x.m + 2;
	x.positions = x.z.positions;
	x.threads = x.z.threads;
	x.steps = (double)x.z.part_steps;
	as.group = x.z.threads;
	as.blocks = 1;
	struct draft_terms terms = {.live = x.z.registers / s->lanes};
	bool ring = s->boxes > 1;
	double blocks = (double)(x.z.blocks * x.z.chunks) * parts, items = blocks * x.threads,
	       resident = draft_resident(tg, &as, terms.live, 4. * (double)x.z.shared),
	       crowd = resident > 0 ? 1 : draft_crowding(&r, x.threads, 4. * (double)x.z.shared, items),
	       spill = fmax(0, terms.live - target_vectors(tg, s->lanes));
	double step = products(&x) + fill(&x) + (ring ? 1 : 2) * ITEM_BARRIER + spill * ITEM_SPILL;
	double slots = x.steps * step + finish(&x, parts > 1 ? 0 : post) + ITEM_AROUND;
	double windows = 4. * (double)x.z.windows * x.z.in_lanes * x.positions,
	       weights = stage_weight_bytes(s), u = weights * (double)x.z.u_elems;
	double raw = 4. * 9 * (double)st->axis[s->share_axis].extent * (double)x.z.chunks * s->wino.chunk *
		     x.lanes,
	       all = weights * (double)x.z.weights, in = fmax(0, task_bytes(t, true) - 4 * out - raw);
	double again = draft_beyond_cache(tg, all + in);
	struct draft_launch l = {
	    .items = items,
	    .resident = resident,
	    .slots = slots,
	    .chain = slots / (s->wino.px * s->wino.kv),
	    .bodies = ((ring ? ITEM_AHEAD : 1) * x.steps + ITEM_NEAR * x.steps + x.z.passes) * crowd,
	    .near = blocks * x.steps * (windows * ITEM_SHARED + u) + 4 * out * parts,
	    .far = in + all + fmin(again, in) * (double)(x.z.chunks - 1) + 4 * out};
	double ghz = draft_ghz(tg), ns = draft_add_launch(&r, &as, &l, &terms);
	if (parts > 1) {
		struct draft_launch second = sums(&x, out / x.lanes, post);
		ns += draft_add_launch(&r, s, &second, &terms);
	}
	for (int i = 0; i < DRAFT_TERMS; i++)
		terms.of[i] *= ghz;
	terms.cycles = ns * ghz;
	return terms;
}
