/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches weights from memory while the arithmetic runs: loops over panels are outermost, the reduction is
 * split into parts that stay in the L1 while all tiles use them, and the next part is fetched meanwhile. With
 * 49 pixels the memory takes half as long as the arithmetic, with 196 an eighth. */
#include "kernels/space/space_rules.h"

#include <math.h>
#include <string.h>

enum {
	FEWEST_STEPS = 64, /* of a part: partial sums are loaded and stored around each part */
	FED_VECTORS = 2,   /* with more vectors, and panels not outermost, FMAs take longer than a line
			    * from the L2 */
	FED_TILES = 4      /* tiles of outputs; one tile would fetch a line for every vector that it loads */
};
/* Times to load the weights from memory, as shares of the time of the arithmetic. Up to SHARE the rule for
 * weights from memory is not worth its cost. FED_SHARE holds instead if inputs are prefetched too (feed): then
 * outermost panels gain more, as outputs are written in order and only one panel at a time is used. Above
 * TO_L2 weights are prefetched into the L2, because lines on their way from memory to the L1 would delay its
 * other misses. Below it the L1 is better: int8 3x3 of 512 channels reaches 93 to 95 % of the peak at 5x5 to
 * 7x7 pixels, and 68 to 78 % with weights in the L2; a 1x1 of 2048 channels at 4x4 takes 1.3 times as long. */
static const double SHARE = .03, FED_SHARE = .005, TO_L2 = 1.5,
		    PART = 1.25 /* of the L1, for a part and its inputs */;

static double operand_bytes(const struct space *s, const struct stage *st, int read)
{
	const struct operand *o = &s->t->operand[st->read[read].operand];
	unsigned axes = read_axes(s->t, st, &st->read[read]);
	double used = 4, all = 4;
	for (int a = 0; a < st->naxes; a++)
		used *= axes >> a & 1 ? (double)extent_guess(st->axis[a].extent) : 1;
	for (int d = 0; d < o->dims.rank; d++)
		all *= (double)extent_guess(o->dims.d[d]);
	return fmin(used, all);
}

/* Whether a read steps over points along x, so that its cache lines hold unused elements. */
static bool skips(const struct stage *st, const struct read *r, int rank)
{
	bool step = false, taps = false;
	for (int a = 0; a < st->naxes; a++)
		*(a < stage_spatial(st) ? &step : &taps) |=
		    r->dim[rank - 1].coef[a] > (a < stage_spatial(st)) && st->axis[a].extent > 1;
	return step && !taps;
}

/* Bytes that the body reads beside the weights. */
static double other_bytes(const struct space *s, const struct stage *st, int weights)
{
	double bytes = 0;
	for (int i = 0; i < st->nreads; i++)
		if (i != weights && stage_in_body(st, i))
			bytes +=
			    operand_bytes(s, st, i) *
			    (skips(st, &st->read[i], s->t->operand[st->read[i].operand].dims.rank) ? 2 : 1);
	return bytes;
}

/* Moves the loops over panels to the front and keeps the order of the others. Returns the number of loops
 * over panels. */
static int panels_first(const struct stage *st, unsigned axes, struct sstage *out)
{
	uint8_t order[MAX_AXES];
	int n = 0, ns = stage_spatial(st), panels = 0;
	for (int pass = 1; pass >= 0; pass--) {
		for (int i = 0; i < ns; i++)
			if ((int)(axes >> out->order[i] & 1) == pass)
				order[n++] = out->order[i];
		panels = pass ? n : panels;
	}
	for (int i = 0; i < ns; i++)
		out->order[i] = order[i];
	return panels;
}

/* Points per part of the first reduction axis; 0: the reduction is not split. */
static int64_t part_size(const struct space *s, const struct stage *st, const struct panel_ahead *h, double others,
			 const struct sstage *out)
{
	int a = out->order[stage_spatial(st)];
	int64_t e = st->axis[a].extent, b = axis_block(s->t, st, a), u = out->unroll[a];
	if (!(h->axes >> a & 1) || e < 2 * b)
		return 0;
	double l1 = s->tg.l1_bytes ? (double)s->tg.l1_bytes : 1 << 15, steps = (double)(h->steps / e),
	       panel = 4 * steps * (double)h->step, x = others / (double)e, fit = PART * l1 / (panel + x);
	if (fit * steps < FEWEST_STEPS)
		fit = fmax(l1 / 2 / panel, FEWEST_STEPS / steps);
	b = b % u ? b * u : b;
	int64_t most = fit < (double)b ? b : (int64_t)fit / b * b, parts = (e + most - 1) / most;
	bool equal = draft_pipes(s->t, &s->tg, st, out, out->tile) == a && e % b == 0;
	while (equal && e / b % parts) /* such a loop has a constant number of steps */
		parts++;
	int64_t part = ((e + parts - 1) / parts + b - 1) / b * b;
	return part < e && e % part % u == 0 ? part : 0;
}

/* Whether the number of panels lets the threads share them. */
static bool shares(const struct space *s, const struct stage *st, const struct sstage *out, int panels)
{
	int64_t n = 1, threads = s->want.threads < 1 ? 1 : s->want.threads;
	for (int i = 0; i < panels; i++) {
		int a = out->order[i];
		int64_t step = (int64_t)out->tile[a] * (a == out->lane ? out->lanes : 1);
		n *= (st->axis[a].extent + step - 1) / step;
	}
	return (double)n / (double)((n + threads - 1) / threads * threads) > .8;
}

/* Cycles to load the weights from memory, relative to the arithmetic's. */
static double waits(const struct space *s, const struct stage *st, const struct sstage *out, int weights)
{
	double memory = operand_bytes(s, st, weights) / draft_memory(&s->tg);
	return memory / (stage_points(st) * stage_steps(st) / (2 * out->lanes));
}

bool rules_panels(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage c = *out;
	struct panel_ahead h;
	int read = stage_weights(s->t, st, c.lane);
	if (read < 0 || s->ring.rows)
		return false;
	int panels = panels_first(st, read_axes(s->t, st, &st->read[read]), &c);
	c.split_axis = -1;
	c.split = 0;
	memset(c.outer, 0, sizeof c.outer);
	memset(c.block, 0, sizeof c.block);
	if (stage_ahead(s->t, st, &c, &h) < 0)
		return false;
	c.prefetch = h.tiles > 1 && waits(s, st, out, read) > TO_L2 ? 2 : 1;
	if (s->t->nstages == 1 && stage_splits(s->t, st) && h.tiles > 1 && c.chains == 1 &&
	    shares(s, st, &c, panels))
		c.split = part_size(s, st, &h, other_bytes(s, st, read), &c);
	if (c.split)
		c.split_axis = c.order[stage_spatial(st)];
	*out = c;
	return true;
}

void rules_panels_first(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int read = stage_weights(s->t, st, out->lane);
	if (read < 0 || s->ring.rows)
		return;
	panels_first(st, read_axes(s->t, st, &st->read[read]), out);
	memset(out->outer, 0, sizeof out->outer);
	memset(out->block, 0, sizeof out->block);
}

bool rules_cold(const struct space *s, int stage, const struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int read = stage_weights(s->t, st, out->lane);
	double l2 = s->tg.l2_bytes ? (double)s->tg.l2_bytes : 1 << 19;
	if (read < 0)
		return false;
	double weights = operand_bytes(s, st, read);
	struct feed f;
	if (stage_streams(s->t, st, out) && weights <= l2 / 2)
		return false;
	bool fed = weights > (double)s->tg.l1_bytes / 2 && stage_feed(s->t, st, out, &f) >= 0;
	return waits(s, st, out, read) > (fed ? FED_SHARE : SHARE) &&
	       other_bytes(s, st, read) < (fed ? 2 * l2 : l2);
}

bool rules_feed(const struct space *s, int stage, const struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	double l1 = s->tg.l1_bytes ? (double)s->tg.l1_bytes : 1 << 15, part = 1;
	struct feed f;
	if (stage_feed(s->t, st, out, &f) < 0)
		return false;
	if (out->split_axis == f.channels)
		part = (double)out->split / (double)st->axis[f.channels].extent;
	if (operand_bytes(s, st, f.read) * part <= 2 * l1)
		return false;
	int64_t tiles = ceil_div(st->axis[f.points].extent, out->tile[f.points]);
	return f.block ? out->tile[out->lane] <= FED_VECTORS || out->prefetch
		       : tiles > 1 && tiles <= FED_TILES;
}

int rules_panel_loops(const struct space *s, int stage, const struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int n = 0;
	int read = stage_weights(s->t, st, out->lane);
	if (!out->prefetch || out->split_axis < 0 || read < 0)
		return 0;
	unsigned axes = read_axes(s->t, st, &st->read[read]);
	while (n < stage_spatial(st) && axes >> out->order[n] & 1)
		n++;
	return n;
}

static bool copies_rows(const struct space *s, int stage)
{
	return stage == 0 && s->ring.rows && ring_copy(s->t) >= 0;
}

void rules_next_rows(const struct space *s, int stage, struct sstage *out)
{
	out->prefetch = copies_rows(s, stage) ? 2 : out->prefetch;
}

void panels_draw(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int units[] = {1, 2, 2, 3, 4, 4, 5, 6, 8, 12, 16};
	const struct stage *st = &s->t->stage[stage];
	if (target_runs_items(&s->tg))
		return;
	if (copies_rows(s, stage))
		out->prefetch = (int)rng_below(r, 3);
	if (!rules_panels(s, stage, out))
		return;
	out->prefetch = 1 + (int)rng_below(r, 2);
	if (out->split_axis < 0 || rng_below(r, 2))
		return;
	int64_t unit = axis_block(s->t, st, out->split_axis), part = unit * units[rng_below(r, 11)];
	out->split = part < st->axis[out->split_axis].extent ? part : 0;
	out->split_axis = out->split ? out->split_axis : -1;
}

void panels_settle(const struct space *s, int stage, struct sstage *out)
{
	struct panel_ahead h;
	struct feed f;
	if (out->prefetch && !copies_rows(s, stage) && stage_ahead(s->t, &s->t->stage[stage], out, &h) < 0)
		out->prefetch = 0;
	out->feed = out->feed && stage_feed(s->t, &s->t->stage[stage], out, &f) >= 0;
}
