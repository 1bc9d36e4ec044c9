/* SPDX-License-Identifier: Apache-2.0 */
/* The three launches of a Winograd schedule of work items, with the costs of draft_items.c. V and M stay in
 * the last cache as far as they fit. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/winograd.h"

#include <math.h>

const double winograd_along_in[5] = {[2] = 4, [4] = 13}, winograd_along_out[5] = {[2] = 4, [4] = 12};

enum { LINE = 64 /* bytes, of which a vector of pixels uses a part */ };

struct sizes {
	const struct sstage *s;
	struct winograd_sizes z;
	double lanes, points, xis, tiles; /* tiles: with those that fill the last register tile */
	double v, m, u, in, out;          /* bytes */
};

double draft_beyond_cache(const struct target *tg, double bytes)
{
	double room = tg->l2_bytes ? (double)tg->l2_bytes : 1 << 19;
	return bytes > room ? bytes - room : 0;
}

static struct draft_launch inputs(const struct sizes *x)
{
	double n = x->xis, repeats = n * x->lanes <= 96 ? 1 : 5. / 3, vector = 4 * x->lanes;
	double items = (double)(x->z.batch * x->z.cblocks * x->z.tiles);
	double slots = n * repeats * (draft_item_load((int)x->lanes) + 2) +
		       n * draft_item_store((int)x->lanes) +
		       x->lanes * x->points * winograd_along_in[x->s->wino.m] * (repeats + 1) + ITEM_AROUND;
	return (struct draft_launch){.items = items,
				     .slots = slots,
				     .chain = slots / x->points,
				     .bodies = 1,
				     .near =
					 items * n * (repeats * fmax(vector, LINE) * ITEM_SHARED + vector),
				     .far = x->in};
}

static struct draft_launch products(const struct sizes *x, const struct target *tg)
{
	double px = x->s->wino.px, kv = x->s->wino.kv, channels = (double)x->z.channels,
	       blocks = ceil(channels / x->lanes), vector = 4 * x->lanes,
	       load = draft_item_load((int)x->lanes);
	double items = (double)x->z.batch * x->xis * ceil((double)x->z.vectors / kv) * x->tiles / px;
	double spill = px * kv + px + kv + 1 - target_vectors(tg, x->s->lanes);
	double slots = channels * (px * kv * x->lanes + kv * (load + (x->s->w16 ? x->lanes : 0))) +
		       blocks * (px * load + ITEM_BODY) + px * kv * draft_item_store((int)x->lanes) +
		       ITEM_AROUND + fmax(0, spill) * blocks * ITEM_SPILL;
	return (struct draft_launch){
	    .items = items,
	    .slots = slots,
	    .chain = slots / (px * kv),
	    .bodies = blocks,
	    .near = items * ((channels * kv + blocks * px) * vector * ITEM_SHARED + px * kv * vector),
	    .far = x->u};
}

static struct draft_launch outputs(const struct sizes *x, double post)
{
	double m = x->s->wino.m, vector = 4 * x->lanes;
	double items = (double)(x->z.batch * x->z.vectors * x->z.tiles);
	double slots = x->xis * draft_item_load((int)x->lanes) +
		       x->lanes * winograd_along_out[x->s->wino.m] * (x->points + m) +
		       m * m * (x->lanes * post + draft_item_store((int)x->lanes)) + ITEM_AROUND;
	return (struct draft_launch){.items = items,
				     .slots = slots,
				     .chain = slots / x->points,
				     .bodies = 1,
				     .near = items * (x->xis * vector + m * m * fmax(vector, LINE)),
				     .far = x->out};
}

struct draft_terms draft_winograd_items(const struct task *t, const struct target *tg, const struct sstage *s)
{
	struct item_rates r = draft_item_rates(tg);
	struct sizes x = {.s = s, .z = winograd_sizes(t, s), .lanes = s->lanes};
	const struct stage *st = &t->stage[0];
	struct draft_terms terms = {.live = s->wino.px * s->wino.kv + s->wino.px + s->wino.kv + 1};
	double points = x.points = x.z.points, passing = task_bytes(t, true);
	x.xis = points * points;
	x.tiles = (double)ceil_div(x.z.tiles, s->wino.px) * s->wino.px;
	x.v = 4. * (double)(x.z.batch * x.z.v_elems);
	x.m = 4. * (double)(x.z.batch * x.z.m_elems);
	x.u = (double)stage_weight_bytes(s) * (double)x.z.u_elems;
	double raw = 4. * 9 * (double)(x.z.channels * x.z.vectors * s->lanes);
	x.out = 4. * stage_vector_points(st, s);
	x.in = fmax(0, passing - x.out - raw);
	x.in += draft_beyond_cache(tg, x.v + x.u);
	x.u += draft_beyond_cache(tg, x.v + x.u) + draft_beyond_cache(tg, x.m);
	x.out += draft_beyond_cache(tg, x.m);
	struct draft_launch l[] = {inputs(&x), products(&x, tg), outputs(&x, draft_post(st))};
	const double live[] = {x.xis, terms.live, x.xis};
	double ghz = draft_ghz(tg), ns = 0;
	for (int i = 0; i < 3; i++) {
		l[i].resident = draft_resident(tg, s, live[i], 0);
		ns += draft_add_launch(&r, s, &l[i], &terms);
	}
	for (int i = 0; i < DRAFT_TERMS; i++)
		terms.of[i] *= ghz;
	terms.cycles = ns * ghz;
	return terms;
}
