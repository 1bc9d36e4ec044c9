/* SPDX-License-Identifier: Apache-2.0 */
/* Register tiles: the default of each stage and its portfolio. */
#include "kernels/space/space_rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_REPEATS = 8 };

/* Points of a generic tile for 16 registers: up to 7, each rest of a row is one tile (lower_nest.c), while
 * 13 points leave 7 or 14 pixels mostly to single points, whose sums wait for each other. */
enum { GENERIC_POINTS = 7 };

/* Whether some read of the body has its lanes apart, or a test around each load: then LLVM keeps the values
 * of a whole body alive. */
static bool odd_reads(const struct space *s, const struct stage *st, const struct sstage *out)
{
	for (int i = 0; i < st->nreads; i++) {
		const struct read *r = &st->read[i];
		int64_t stride = 1;
		bool pads;
		if (!stage_in_body(st, i) || operand_packs(s->t, r->operand))
			continue;
		if (out->lane >= 0 && (read_stride(s->t, st, r, out->lane, out->lanes, &stride, &pads) < 0 ||
				       draft_slots(stride, out->lanes) == out->lanes))
			return true;
		for (int d = 0; d < s->t->operand[r->operand].dims.rank; d++)
			if (index_guarded(s->t, st, r, d))
				return true;
	}
	return false;
}

bool rules_fits(const struct space *s, int stage, const struct sstage *ss)
{
	struct sched one;
	rules_init(s, &one);
	int axis = one.st[stage].ring_axis, rows = one.st[stage].ring;
	one.st[stage] = *ss;
	one.st[stage].ring_axis = axis;
	one.st[stage].ring = rows;
	return sched_check(s->t, &s->tg, &one) >= 0;
}

static int64_t units(const struct stage *st, const struct sstage *s, int a)
{
	int64_t u = a == s->lane ? s->lanes : 1;
	return (extent_guess(st->axis[a].extent) + u - 1) / u;
}

/* Whether the stage's program is long and thus applied in its own loop after the sums of the tile. */
static bool post_apart(const struct space *sp, const struct stage *st, const struct sstage *s)
{
	int ns = stage_spatial(st);
	bool points = false;
	for (int a = 0; a < ns; a++)
		points |= a != s->lane && s->tile[a] > 1;
	return points && stage_long_post(st) && st->comb != COMB_NONE && s->lane >= 0 && s->lane < ns &&
	       store_weaves(sp->t, st, s) < 0;
}

/* Limits the loads of a body if points do not share them: the tile gets smaller, not the number of steps. */
static bool body_fits(const struct space *s, int stage, const struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int points = 1, steps = 1, regs = s->tg.regs;
	for (int a = 0; a < st->naxes; a++)
		*(a < stage_spatial(st) ? &points : &steps) *=
		    a < stage_spatial(st) ? out->tile[a] : out->unroll[a];
	bool odd = odd_reads(s, st, out);
	int most = odd && stage_resamples(s->t, st)                 ? regs / 8
		   : odd                                            ? regs / 2
		   : stage_long_post(st) && !post_apart(s, st, out) ? regs * 3 / 4
								    : regs * 3 / 2;
	double loads = odd ? points * steps : draft_loads(s->t, stage, out);
	return points == 1 || stage_contracts(s->t, st, out->lane) || loads <= most;
}

/* The row axis of a tile whose windows overlap: an axis beside `pixel` along which taps slide; -1: none. */
static int window_rows(const struct space *s, int stage, int pixel, int lane)
{
	const struct stage *st = &s->t->stage[stage];
	int found = -1;
	if (pixel < 0 || stage_contracts(s->t, st, lane))
		return -1;
	for (int i = 0; i < st->nreads; i++)
		for (int d = 0; d < s->t->operand[st->read[i].operand].dims.rank; d++) {
			bool tap = false;
			for (int a = stage_spatial(st); a < st->naxes; a++)
				tap |= st->read[i].dim[d].coef[a] != 0;
			for (int a = task_shared(s->t); a < stage_spatial(st) && tap; a++)
				if (st->read[i].dim[d].coef[a] && a != lane && a != pixel &&
				    (a != rules_rows(s, stage) || rules_row_tiles(s, stage)))
					found = a;
		}
	return found;
}

/* Whether the sums and the vectors that a window shares fit the registers. The limits were measured by what
 * spills, as LLVM orders the loads freely. */
static bool window_fits(const struct space *s, int stage, const struct sstage *c)
{
	const struct stage *st = &s->t->stage[stage];
	int points = c->chains, room = s->tg.regs - (s->tg.fma && st->comb == COMB_SUM ? 0 : s->tg.regs / 4);
	bool along = lane_slides(st, c->lane);
	for (int a = 0; a < stage_spatial(st); a++) {
		points *= c->tile[a];
		if (along && a != c->lane && c->tile[a] > 4)
			return false; /* 8 rows of one vector spill, 4 of two do not */
	}
	if (!post_apart(s, st, c)) /* room for its temporaries */
		room -= stage_long_post(st) ? s->tg.regs / 2 : st->post.n > 8 ? 4 : 0;
	int taps = c->unroll[c->order[st->naxes - 1]];
	if (rules_window(s, stage, c))
		return true;
	if (s->tg.lanes == 4 && draft_held(s->t, &s->tg, stage, c))
		return false; /* AArch64 */
	double most = s->tg.regs * 1.25 + (along ? 20 : 14);
	return points * 2 < room && points + draft_loads(s->t, stage, c) + 2 * taps <= most;
}

/* Registers that a contraction needs beside those that the draft counts. Without FMA each product takes one
 * more, and of at most half the registers' points LLVM keeps few products: 4x2 does not spill with 16
 * registers, 3x3 does. */
static int contraction_spare(const struct space *s, const struct stage *st, const struct sstage *c, int v)
{
	int points = 1, usual = v > 2 ? 2 : 1;
	for (int a = 0; a < stage_spatial(st); a++)
		points *= c->tile[a];
	bool half = points <= s->tg.regs / 2 && c->chains == 1 && stage_sum(s->t, st) != SUM_DOT;
	if (!s->tg.fma && !strcmp(s->tg.isa, "armv7-neon"))
		return usual; /* view_of() counts a quarter of the registers less */
	return s->tg.fma ? usual : half && rules_unfused(s) ? 3 : usual + 3;
}

/* Registers that dot products take beside a tile's: constants of the epilogue, which LLVM keeps around all
 * loops, and what takes the place of an instruction for the types that the target lacks: the sums of weights,
 * or the widened halves of both operands. Measured by what spills; AArch64 orders loads and widened values
 * freely. */
static int dot_spare(const struct space *s, const struct stage *st)
{
	bool arm = s->tg.lanes == 4 && s->tg.regs == 32;
	double rate = draft_dots(s->t, st, &s->tg);
	int constants = stage_exact(s->t, st) ? 3 : 1;
	if (stage_sum(s->t, st) != SUM_DOT)
		return 0;
	if (rate == 4)
		return constants + (arm ? 9 : 0);
	return constants + (!arm ? 6 : rate > 1 ? 13 : 22);
}

/* Whether LLVM keeps the sums in f16 in registers: it loads the pairs of all points of a tile at once. */
static bool half_fits(const struct space *s, const struct stage *st, const struct sstage *c, int v)
{
	int points = 1;
	for (int a = 0; a < stage_spatial(st); a++)
		points *= c->tile[a];
	return stage_sum(s->t, st) != SUM_HALF || points <= HALF_PIXELS * v;
}

/* Completes the tile, and returns whether it fits the registers. */
static bool tile_fits(const struct space *s, int stage, struct sstage *c)
{
	const struct stage *st = &s->t->stage[stage];
	rules_finish(s, stage, c);
	int v = c->lane >= 0 && c->lane < stage_spatial(st) ? c->tile[c->lane] : 1;
	bool contracts = stage_contracts(s->t, st, c->lane), odd = odd_reads(s, st, c);
	int spare = (contracts ? contraction_spare(s, st, c, v) : 3 + s->tg.regs / 8) + dot_spare(s, st);
	if (!body_fits(s, stage, c) || !rules_fits(s, stage, c) || !half_fits(s, st, c, v))
		return false;
	if (contracts && stage_picks(s, st, c))
		spare += s->tg.regs / 16;
	if (odd && stage_long_post(st))
		spare = s->tg.regs / 3;
	if (!contracts && !odd && draft_slides(s->t, stage, c))
		return window_fits(s, stage, c);
	/* LLVM reads the weights of unrolled taps again for each step of the channels. */
	int live =
	    contracts && rules_unfused(s) ? draft_regs(s->t, stage, c).passing : draft_live(s->t, stage, c);
	return live <= s->tg.regs - spare;
}

/* Whether all taps are in one body: if not, rows of a tile share little (5x5 with 2 rows and a loop over
 * their taps takes 1.4 times as long). */
static bool whole_window(const struct stage *st, const struct sstage *s)
{
	for (int a = stage_spatial(st); a < st->naxes; a++)
		if (s->unroll[a] != st->axis[a].extent)
			return false;
	return true;
}

/* Whether the stage is a long sum of columns: each step is in another row, so it should read several cache
 * lines of it (4x784x512 along 784: 403 us with one line, 310 with four). */
static bool sums_columns(const struct space *s, const struct stage *st, int lane)
{
	return st->comb != COMB_NONE && st->nreads == 1 && axis_block(s->t, st, lane) <= 1 &&
	       stage_steps(st) >= 64;
}

/* Whether points of a tile share nothing but a vector of weights: windows whose taps are loops, for 16
 * registers. */
static bool loose_window(const struct space *s, const struct stage *st, int pixel, int lane)
{
	bool taps = st->comb == COMB_SUM && s->tg.regs <= 16 && lane < stage_spatial(st);
	if (pixel < 0 || !IS_SYM(st->axis[pixel].extent) || stage_contracts(s->t, st, lane) ||
	    lane_slides(st, lane) || st->nreads < 2)
		return false;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		taps &= IS_SYM(st->axis[a].extent);
	return taps;
}

/* Without FMA (SSE) a broadcast is a load and a shuffle, which the draft does not know: 4x2 points are faster
 * than 2x4 even if the draft says that they take 2 % longer. */
#define SPLATS 1.02

static bool fewer_splats(const struct space *s, const struct sstage *c, const struct sstage *best)
{
	return rules_unfused(s) && c->lane >= 0 && c->tile[c->lane] > best->tile[c->lane];
}

/* On a processor that issues in order, tries tiles of two rows of up to four points: they leave smaller tiles
 * at the ends of fewer images than a row of eight. */
static double two_rows(const struct space *s, int stage, int pixel, const struct sstage *base, double best,
		       struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	for (int a = task_shared(s->t); a < stage_spatial(st) && pixel >= 0; a++)
		for (int p = 2; p <= 4 && a != base->lane && a != pixel && a != rules_rows(s, stage); p++) {
			struct sstage c = *base;
			if (units(st, base, a) < 2 || units(st, base, pixel) < p ||
			    units(st, base, base->lane) < 2)
				continue;
			c.tile[a] = 2;
			c.tile[c.lane] = PIPED_VECTORS;
			c.tile[pixel] = p;
			if (draft_pipes(s->t, &s->tg, st, &c, c.tile) < 0 || !tile_fits(s, stage, &c))
				continue;
			double d = draft_stage(s->t, &s->tg, stage, &c);
			if (d < best * .9999) {
				best = d;
				*out = c;
			}
		}
	return best;
}

/* Chooses the (points, vectors) that the draft ranks best among those that fit the registers. */
static void best_tile(const struct space *s, int stage, int pixel, int skip, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	double best = DBL_MAX;
	struct sstage base = *out;
	int ns = stage_spatial(st), row = window_rows(s, stage, pixel, base.lane),
	    head = s->ring.rows && stage_contracts(s->t, st, base.lane) ? rules_head(s) : 0,
	    vmax = base.lane >= 0 && base.lane < ns && row < 0 ? (int)units(st, &base, base.lane) : 1,
	    pmax =
		pixel < 0 || units(st, &base, pixel) < 1 ? 1 : (int)fmin(28, (double)units(st, &base, pixel)),
	    rmax = row < 0 ? 1 : (int)fmin(3, (double)units(st, &base, row));
	bool ring_row = row >= 0 && row == rules_rows(s, stage);
	int columns = vmax > 1 && sums_columns(s, st, base.lane) ? 4 : 0;
	bool contracts = stage_contracts(s->t, st, base.lane);
	if (contracts && pixel >= 0 && IS_SYM(st->axis[pixel].extent) && s->tg.regs <= 16 &&
	    pmax > GENERIC_POINTS)
		pmax = GENERIC_POINTS;
	if (!skip && !stage_long_body(st) && loose_window(s, st, pixel, base.lane)) {
		out->tile[pixel] = GENERIC_POINTS;
		rules_finish(s, stage, out);
		return;
	}
	for (int v = 1; v <= vmax && v <= 16; v++)
		for (int p = 1; p <= pmax * rmax; p++) {
			struct sstage c = base;
			if (v == skip || (head && !skip && head <= vmax && v != head) ||
			    (stage_long_body(st) && (v > 1 || p > 1)))
				continue;
			if (vmax > 1)
				c.tile[c.lane] = v;
			if (row >= 0)
				c.tile[row] = ring_row ? 1 << (p - 1) / pmax : 1 + (p - 1) / pmax;
			if (pixel >= 0)
				c.tile[pixel] = 1 + (p - 1) % pmax;
			if (contracts && v * p >= s->tg.regs) /* accumulators alone need too many registers,
							       * so no draft is needed */
				break;
			if (!tile_fits(s, stage, &c) ||
			    (ring_row && c.tile[row] > 1 && !whole_window(st, &c)))
				continue;
			double d = draft_stage(s->t, &s->tg, stage, &c);
			double as_fast = p == 1 && v <= columns     ? 1.0001
					 : fewer_splats(s, &c, out) ? SPLATS
								    : .9999;
			if (d < best * as_fast) {
				best = fmin(best, d);
				*out = c;
			}
		}
	if (draft_in_order(&s->tg) && !skip && base.lane >= 0 && base.lane < ns)
		best = two_rows(s, stage, pixel, &base, best, out);
	if (best == DBL_MAX)
		rules_finish(s, stage, out);
}

/* Points that a map with exp or similar computes at once: enough to hide its latency, if its temporaries
 * leave registers. */
static int long_points(const struct space *s, const struct stage *st)
{
	int heavy = 0, exps = 0;
	for (int i = 0; i < st->body.n; i++) {
		heavy +=
		    (st->body.at[i].op >= P_EXP && st->body.at[i].op <= P_ERF) || st->body.at[i].op >= P_SILU;
		exps += st->body.at[i].op == P_EXP;
	}
	bool few = exps && st->nreads <= 2 && st->body.n <= 4;
	return heavy != 1 || s->tg.regs < 32 ? 1 : few ? 8 : 4;
}

/* Number of vectors per tile, at most `want` of n: a divisor, or parts of equal size. */
static int map_vectors(int64_t n, int want)
{
	int64_t d = largest_divisor(n, want), parts = (n + want - 1) / want;
	return (int)(d * 4 > want * 3 ? d
		     : want > 4       ? (n + parts - 1) / parts
		     : d > 1          ? d
		     : n < want       ? n
				      : want);
}

/* An axis along which a map repeats what it reads; -1: none. */
static int repeats(const struct space *s, const struct stage *st, int lane)
{
	unsigned axes = 0;
	for (int i = 0; i < st->nreads; i++)
		axes |= read_axes(s->t, st, &st->read[i]);
	for (int a = task_shared(s->t); a < stage_spatial(st); a++)
		if (a != lane && !(axes >> a & 1) && st->axis[a].extent > 1 &&
		    st->axis[a].extent <= MAX_REPEATS)
			return a;
	return -1;
}

/* Makes a tile that stores all copies of a vector and of its neighbour at once: nearest with factor 8 on 24
 * channels of 80x80 takes 34.4 us with 4 channels per tile and 11.0 us this way. */
static bool repeat_tile(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int a = repeats(s, st, out->lane), beside = out->lane - 1;
	if (a < 0 || IS_SYM(st->axis[a].extent))
		return false;
	out->tile[a] = (int)st->axis[a].extent;
	if (beside > a && st->axis[beside].extent > 1)
		out->tile[beside] = 2;
	return true;
}

/* Tiles vectors along the lanes; if those are few, along the innermost other axis too. */
static void map_tile(const struct space *s, int stage, int pixel, int want, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), woven = rules_weave(s->t, st, out);
	if (woven >= 0)
		want = want > out->tile[woven] ? want / out->tile[woven] : 1;
	else if (want > 1 && rules_cross(s->t, st, out) >= 0) {
		rules_finish(s, stage, out);
		return;
	}
	if (out->lane >= 0 && out->lane < ns && units(st, out, out->lane) > 1) {
		int64_t n = units(st, out, out->lane);
		out->tile[out->lane] = IS_SYM(st->axis[out->lane].extent) ? want : map_vectors(n, want);
	} else if (pixel >= 0 && (want < 4 || out->lane >= ns || !repeat_tile(s, stage, out))) {
		out->tile[pixel] = map_vectors(units(st, out, pixel), want);
	}
	rules_finish(s, stage, out);
}

/* Makes a row of points shorter until LLVM keeps the tile in registers: a candidate that spills is not even
 * timed. On Arm processors another tile than the default's needs more of them than the default's, as LLVM
 * loads the operands of several points first, and those of all steps on cores that issue in order. Measured
 * by what spills. Returns false if no row fits. */
static bool shrink(const struct space *s, int stage, int pixel, struct sstage *c)
{
	int spare = draft_in_order(&s->tg) ? 8 : 3;
	bool contracts = stage_contracts(s->t, &s->t->stage[stage], c->lane);
	do
		if (tile_fits(s, stage, c) &&
		    (!contracts || draft_live(s->t, stage, c) <= s->tg.regs - spare))
			return true;
	while (c->tile[pixel]-- > 1);
	return false;
}

bool rules_stage(const struct space *s, int stage, int variant, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	const struct stage_space *ss = &s->st[stage];
	struct sched one;
	sched_init(s->t, &one);
	*out = one.st[stage];
	int which = variant >= 4 ? 1 : 0; /* the second best lane axis comes after all tiles of the best
					   * one */
	if (variant > 4 || which >= ss->nlanes)
		return false;
	out->lane = ss->lane[which].axis;
	out->lanes = ss->lane[which].lanes;
	struct space wide;
	s = rules_width(s, out->lanes, &wide);
	int pixel = stage_pixel_axis(s, stage, out->lane, -1);
	bool contracts = stage_contracts(s->t, st, out->lane), arm = !strncmp(s->tg.isa, "arm", 3);
	if (out->lane < 0) {
		rules_finish(s, stage, out);
		return variant == 0 || variant == 4;
	}
	if (variant == 4 && arm && contracts && odd_reads(s, st, out))
		return false; /* lanes that lie apart: LLVM keeps all their values, and spills */
	if (!contracts && st->comb == COMB_NONE) {
		static const int want[] = {4, 2, 8, 1, 4};
		int most = stage_long_body(st) ? long_points(s, st) : want[variant];
		map_tile(s, stage, pixel, want[variant] == 2 ? 2 : most, out);
		return true;
	}
	pixel = stage_pixel_axis(s, stage, out->lane, rules_weave(s->t, st, out));
	if (variant == 0 || variant == 4) {
		best_tile(s, stage, pixel, 0, out);
		if (s->quads >> stage & 1 && !variant)
			quads_default(s, stage, out);
		if (s->mmla && !variant)
			mmla_default(s, stage, out);
		return true;
	}
	/* Alternatives like 6x4, 4x4, 14x1: another number of vectors than the default's. */
	static const int other[] = {0, 4, 3, 1};
	best_tile(s, stage, pixel, 2, out);
	if (out->lane < stage_spatial(st) && other[variant] <= units(st, out, out->lane) && pixel >= 0) {
		out->tile[out->lane] = other[variant];
		int64_t room = (s->tg.regs - 2 - other[variant]) / other[variant], n = units(st, out, pixel);
		out->tile[pixel] = (int)(room < 1                              ? 1
					 : room > n                            ? n
					 : largest_divisor(n, room) * 2 > room ? largest_divisor(n, room)
									       : room);
		rules_finish(s, stage, out);
		if (arm && !shrink(s, stage, pixel, out))
			return false;
	}
	return rules_fits(s, stage, out);
}
