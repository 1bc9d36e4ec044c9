/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd schedules in a space: the rules' choice, made with the draft, and the choices of random draws. */
#include "kernels/space/space_rules.h"
#include "kernels/space/share.h"
#include "kernels/space/winograd_fused.h"

#include <float.h>
#include <string.h>

/* Winograd must be this much faster than the direct form to be the default, because it rounds differently and
 * has larger weights. */
#define CLEARLY .95

static int least(int64_t a, int64_t b)
{
	return (int)(a < b ? a : b);
}

static bool has_items(const struct space *s)
{
	return SCHED_THREADED && target_runs_items(&s->tg);
}

static bool fits(const struct space *s, const struct sstage *ss)
{
	return winograd_check(s->t, &s->tg, ss) >= 0;
}

static void start(const struct space *s, struct sstage *out)
{
	struct sched one;
	struct winograd_form f;
	sched_init(s->t, &one);
	*out = one.st[0];
	if (winograd_form(s->t, &f) < 0)
		return;
	out->lane = f.k;
	out->lanes = s->wino_lanes;
	out->wino = (struct winograd){.m = 2, .tiles = 1, .px = 1, .kv = 1, .chunk = 1, .parts = 1};
	if (has_items(s))
		out->wino.tiles = out->wino.chunk = 0;
}

/* Whether images are evicted from the L2 before they are used again; smaller ones cost more to prefetch than
 * to wait for. */
static bool large_images(const struct space *s, const struct winograd_form *f)
{
	enum { LARGE = 4 }; /* L2s: 1.6 of them lost 2 %, 19 gained 7 % */
	const struct stage *st = &s->t->stage[0];
	int64_t in = operand_elems(&s->t->operand[st->read[f->in].operand]),
		out = operand_elems(&s->t->operand[st->out.operand]);
	return 4 * (in + out) > LARGE * (s->tg.l2_bytes ? s->tg.l2_bytes : 1 << 19);
}

void rules_winograd(struct space *s)
{
	struct sstage one;
	struct winograd_form f;
	if (s->want.level == LEVEL_EXACT || winograd_form(s->t, &f) < 0)
		return;
	s->wino_pixels = large_images(s, &f);
	bool none = !SCHED_THREADED && target_runs_items(&s->tg);
	for (s->wino_lanes = none ? 0 : s->tg.lanes; s->wino_lanes >= (has_items(s) ? 2 : 4);
	     s->wino_lanes /= 2) {
		start(s, &one);
		if (fits(s, &one))
			return;
	}
	s->wino_lanes = 0;
}

/* Largest number of tiles in a register tile with kv vectors, or in a row of points that is transformed in
 * registers. */
static int most_tiles(const struct space *s, const struct winograd_sizes *z, const struct winograd *w)
{
	int spare = w->kv > 2 ? 2 : 1; /* as in the rules for other tiles: with three vectors one more
					* register is live */
	int most = least(28, (s->tg.regs - spare - 1 - w->kv) / w->kv);
	/* AArch64: constants and address sums that the transforms hoist take registers from the products. */
	if (s->tg.lanes == 4)
		most = least(most, (w->m == 4 ? 18 : 21) / w->kv);
	/* Without FMA each product needs a register until it is added, and LLVM computes several ahead: with
	 * 16 registers 2x4 and 4x2 tiles fit, 3x3 mostly, and all of 5x2, 6x2 and 8x1 spill. */
	if (!s->tg.fma)
		most = least(most, (s->tg.regs / 2 + 1 - (w->kv == 1 ? 3 : 0)) / w->kv);
	/* The transforms' constants of F(4,3) take registers, too: 14x2 tiles spill with 32 registers, 13x2
	 * and 28x1 do not. */
	if (w->m == 4 && w->kv == 2)
		most = least(most, 13);
	if (w->kv == PIPED_VECTORS && draft_in_order(&s->tg))
		most = least(most, PIPED_POINTS);
	if (w->raw)
		most = (s->tg.regs - 8) / z->points;
	else if (z->cblocks == 1) /* one loop over the channels instead of two: LLVM spills values around it
				   * that it could keep */
		most = most * 3 / 4;
	return most < 1 ? 1 : most;
}

/* Lines to prefetch so that the next panel, or the next filters, are there in time. One more line than
 * filters have made raw schedules of 512 channels 10 % faster on a Zen 4, and of 256 channels 3 %. */
static int lines_ahead(const struct space *s, const struct winograd_sizes *z, const struct sstage *c)
{
	const struct winograd *w = &c->wino;
	int64_t lines = ceil_div((int64_t)w->kv * s->wino_lanes, 16), count = ceil_div(w->tiles, w->px);
	int64_t two = c->w16 ? lines : 2 * lines; /* of two steps */
	int64_t ahead = w->raw ? ceil_div(9 * two, z->points * count) + 1 : ceil_div(two, count);
	return least(ahead, 64);
}

/* Completes a schedule whose m, tiles, kv and raw are set: the largest even register tiles that fit, and
 * prefetching of the next panel. */
static void complete(const struct space *s, const struct winograd_sizes *z, struct sstage *c)
{
	struct winograd *w = &c->wino;
	w->px = (int)ceil_div(w->tiles, ceil_div(w->tiles, most_tiles(s, z, w)));
	/* On a processor that issues in order, loops of prefetches within the products keep them from
	 * assembly. */
	w->pixels = s->wino_pixels && !w->raw && !draft_in_order(&s->tg);
	w->prefetch = lines_ahead(s, z, c);
}

int winograd_most(const struct space *s, const struct sstage *c)
{
	if (has_items(s))
		return winograd_items_most(s, c);
	struct winograd_sizes z = winograd_sizes(s->t, c);
	return most_tiles(s, &z, &c->wino);
}

void winograd_settle(const struct space *s, struct sstage *out)
{
	struct winograd *w = &out->wino;
	if (has_items(s))
		return;
	w->px = w->px < w->tiles ? w->px : w->tiles;
	w->chunk = (int)ceil_div(w->chunk, w->kv) * w->kv;
	struct winograd_sizes z = winograd_sizes(s->t, out);
	w->parts = least(w->parts, z.chunks);
	if (w->prefetch)
		w->prefetch = lines_ahead(s, &z, out);
}

static int threads(const struct space *s)
{
	return s->want.threads < 1 ? 1 : s->want.threads;
}

/* Tries numbers of parts, so that a part's weights stay in a thread's cache and all threads have work. */
static void keep_best(const struct space *s, struct sstage c, double *best, struct sstage *out)
{
	static const int parts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
	struct winograd_sizes z = winograd_sizes(s->t, &c);
	if (!fits(s, &c))
		return;
	for (size_t i = 0; i < sizeof parts / sizeof *parts && parts[i] <= z.chunks; i++) {
		c.wino.parts = parts[i];
		double d = draft_winograd(s->t, &s->tg, &c, threads(s)).cycles;
		if (d < *best) {
			*best = d;
			*out = c;
		}
	}
}

/* Tries blocks and chunks for a given kind of register tile. */
static void try_blocks(const struct space *s, struct sstage c, double *best, struct sstage *out)
{
	static const int split[] = {1, 2, 3, 4, 6, 7, 8, 12, 14, 16, 24, 32, 56, 112, 224};
	struct winograd_sizes z = winograd_sizes(s->t, &c);
	struct winograd *w = &c.wino;
	for (size_t i = 0; i < sizeof split / sizeof *split && split[i] <= z.tiles; i++)
		for (w->chunk = w->kv; w->chunk - w->kv < z.vectors && w->chunk <= 4 * w->kv; w->chunk *= 2) {
			w->tiles = least(ceil_div(z.tiles, split[i]), 1 << 20);
			complete(s, &z, &c);
			keep_best(s, c, best, out);
		}
}

/* Without FMA (SSE), as in the rules for other tiles: a broadcast is two instructions, so more vectors are
 * faster (2x4 by 5 % where the draft says 4x2), and prefetches cost more than they save (3 to 10 %), because
 * the products take longer than the weights. */
#define SPLATS 1.01

/* Finds the best schedule for one m by the draft and returns its latency in cycles; DBL_MAX: none fits.
 * fused: on a device of work items, of one launch. */
static double rule(const struct space *s, int m, bool w16, bool fused, struct sstage *out)
{
	struct sstage c, one;
	double best = DBL_MAX;
	start(s, &c);
	c.wino.m = m;
	c.w16 = w16;
	if (has_items(s) && fused)
		return winograd_fused_rule(s, c, out);
	if (has_items(s))
		return winograd_items_rule(s, c, out);
	struct winograd_sizes z = winograd_sizes(s->t, &c);
	for (int i = 1; i <= 5; i++) { /* the last: raw */
		double d = DBL_MAX;
		c.wino.raw = i == 5;
		c.wino.kv = c.wino.raw ? 1 : i;
		if (c.wino.raw || i <= z.vectors)
			try_blocks(s, c, &d, &one);
		if (d < best * (!rules_unfused(s) || c.wino.raw ? 1 : SPLATS)) {
			best = d;
			*out = one;
		}
	}
	if (best < DBL_MAX && rules_unfused(s))
		out->wino.prefetch = 0;
	return best;
}

static double direct_latency(const struct space *s, const struct sstage *direct)
{
	return draft_stage(s->t, &s->tg, 0, direct) / threads(s);
}

/* F(4,3) is the default unless F(2,3) is drafted faster by more than this. With 512 channels, whose weights
 * come from memory, the drafts are equal, and where another core lowered the measured bandwidth from 31 to 17
 * GB/s F(2,3) seems 31 % faster; but F(4,3) was 15 to 40 % faster in all 22 convolutions of ResNet-18 and
 * SqueezeNet, also beside that core. */
#define FEWER_PRODUCTS 1.4

void winograd_default(const struct space *s, struct sstage *out)
{
	struct sstage c;
	if (!s->wino_lanes || has_items(s)) /* no GPU has timed it */
		return;
	double direct = CLEARLY * direct_latency(s, out), two = rule(s, 2, false, false, &c);
	if (two < direct)
		*out = c;
	double four = rule(s, 4, false, false, &c);
	if (four < direct && four < FEWER_PRODUCTS * two)
		*out = c;
}

bool winograd_variant(const struct space *s, int variant, struct sstage *out)
{
	bool fused = variant > 2;
	if (!s->wino_lanes || (fused && !has_items(s)))
		return false;
	if (variant != 2)
		return rule(s, (variant - fused) % 2 ? 2 : 4, false, fused, out) < DBL_MAX;
	if (has_items(s)) /* the direct form is the default */
		return false;
	return rules_stage(s, 0, 0, out);
}

bool winograd_w16(const struct space *s, int m, struct sstage *out)
{
	return s->w16 && s->wino_lanes && rule(s, m, true, false, out) < DBL_MAX;
}

/* ---- draws ---- */

static void draw_gemm(const struct space *s, struct rng *r, const struct winograd_sizes *z,
		      struct sstage *out)
{
	struct winograd *w = &out->wino;
	static const int vectors[] = {1, 2, 2, 2, 3, 4};
	w->raw = rng_below(r, 4) == 0;
	w->kv = w->raw ? 1 : vectors[rng_below(r, 6)];
	complete(s, z, out);
	if (rng_below(r, 3) == 0)
		w->px = 1 + (int)rng_below(r, (uint32_t)w->px);
	if (!w->raw && rng_below(r, 4) == 0)
		w->pixels = !w->pixels;
}

static void draw_tiles(struct rng *r, const struct winograd_sizes *z, struct winograd *w)
{
	static const int split[] = {1, 1, 1, 2, 2, 3, 4, 6, 7, 8, 14, 16, 24, 32, 56, 112};
	int64_t n = ceil_div(z->tiles, split[rng_below(r, sizeof split / sizeof *split)]);
	w->tiles = least(rng_below(r, 4) ? n : 1 + (int64_t)rng_below(r, (uint32_t)n), 1 << 20);
}

static void draw_chunk(struct rng *r, const struct winograd_sizes *z, struct winograd *w)
{
	w->chunk = w->kv << rng_below(r, 4);
	if (rng_below(r, 4) == 0)
		w->chunk = least(ceil_div(z->vectors, w->kv), 1 << 16) * w->kv;
}

static void draw_parts(const struct space *s, struct rng *r, struct winograd *w)
{
	uint32_t most = s->want.threads < 1 ? 1 : (uint32_t)s->want.threads;
	w->parts = rng_below(r, 2) ? 1 : 1 + (int)rng_below(r, most);
}

/* Draws the numbers of one launch or of three. */
static void draw_items(const struct space *s, struct rng *r, struct sstage *out)
{
	if (rng_below(r, 2) || !winograd_fused_draw(s, r, out))
		winograd_items_draw(s, r, out);
}

void winograd_draw(const struct space *s, struct rng *r, struct sstage *out)
{
	for (int tries = 0; tries < 16; tries++) {
		start(s, out);
		struct winograd *w = &out->wino;
		w->m = rng_below(r, 2) ? 2 : 4;
		out->w16 = rules_draw_w16(s, r);
		if (has_items(s)) {
			draw_items(s, r, out);
			if (fits(s, out))
				return;
			continue;
		}
		struct winograd_sizes z = winograd_sizes(s->t, out);
		draw_tiles(r, &z, w);
		draw_gemm(s, r, &z, out);
		draw_chunk(r, &z, w);
		draw_parts(s, r, w);
		if (rng_below(r, 4) == 0)
			w->prefetch = (int)rng_below(r, 5);
		if (fits(s, out))
			return;
	}
	start(s, out);
}

void winograd_change(const struct space *s, struct rng *r, struct sstage *out)
{
	struct winograd_sizes z = winograd_sizes(s->t, out);
	struct winograd *w = &out->wino;
	if (has_items(s)) {
		struct sstage old = *out;
		bool w16 = out->w16;
		start(s, out);
		out->wino.m = old.wino.m;
		out->w16 = w16;
		draw_items(s, r, out);
		if (!fits(s, out))
			*out = old;
		return;
	}
	switch (rng_below(r, s->w16 ? 7 : 6)) {
	case 0:
		draw_tiles(r, &z, w);
		complete(s, &z, out);
		break;
	case 1:
		draw_gemm(s, r, &z, out);
		draw_chunk(r, &z, w);
		break;
	case 2:
		draw_chunk(r, &z, w);
		break;
	case 3:
		draw_parts(s, r, w);
		break;
	case 4:
		w->prefetch = (int)rng_below(r, 6);
		break;
	case 5:
		winograd_draw(s, r, out);
		break;
	default:
		out->w16 = !out->w16;
		winograd_settle(s, out);
	}
}

/* The same of one launch: takes the register tile and the threads from one, and the steps from the other. */
static void cross_fused(struct rng *r, const struct sstage *other, struct sstage *out)
{
	bool steps = rng_below(r, 2), parts = rng_below(r, 2);
	if (steps) {
		out->share = other->share;
		out->boxes = other->boxes;
	} else {
		out->wino = other->wino;
		out->lanes = other->lanes;
	}
	if (parts) {
		out->split_axis = other->split_axis;
		out->split = other->split;
		out->spread = other->spread;
	}
	out->blocks = (rng_below(r, 2) ? other : out)->blocks;
	out->w16 = (rng_below(r, 2) ? other : out)->w16;
}

/* Takes the products' tile from one and the blocks from the other, which must have the same m. */
void winograd_cross(struct rng *r, const struct sstage *other, struct sstage *out)
{
	const struct winograd *o = &other->wino;
	struct winograd *w = &out->wino;
	if (winograd_is_fused(out) && winograd_is_fused(other)) {
		cross_fused(r, other, out);
		return;
	}
	if (rng_below(r, 2))
		w->tiles = o->tiles;
	if (out->w16 != other->w16 && rng_below(r, 2))
		out->w16 = other->w16;
	if (rng_below(r, 2))
		w->parts = o->parts;
	if (rng_below(r, 2))
		w->prefetch = o->prefetch;
	if (rng_below(r, 2)) {
		w->px = o->px;
		w->kv = o->kv;
		w->raw = o->raw;
		w->pixels = o->pixels;
		w->chunk = o->chunk;
	}
}
