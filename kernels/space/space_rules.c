/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/space_rules.h"

#include <math.h>
#include <string.h>

enum { MAX_WOVEN = 8 }; /* vectors that are interleaved; each needs as many shuffles */

/* Largest gain of a register tile over single points: 1x1 convolutions of 8->4 and 144->24 channels were 2.6
 * and 7 times slower with lanes along their reduction, 64->1 channels 5 times faster. */
#define REUSE 4

/* Steps of a stage that take one thread about as long as it costs to start a range of several threads. */
enum { WORTH_THREADS = 16384 };

/* A vector of twice the lanes of a work item's usual ones is loaded in two parts, and leaves room for half as
 * many points; the usual width comes first. */
#define WIDER 2.05

enum { LONG_BODY = 24 /* slots, at least */ };

bool rules_unfused(const struct space *s)
{
	return !s->tg.fma && !strncmp(s->tg.isa, "x86-64", 6);
}

double stage_points(const struct stage *st)
{
	double n = 1;
	for (int a = 0; a < stage_spatial(st); a++)
		n *= (double)extent_guess(st->axis[a].extent);
	return n;
}

int64_t largest_divisor(int64_t n, int64_t max)
{
	for (int64_t d = max < n ? max : n; d > 1; d--)
		if (n % d == 0)
			return d;
	return 1;
}

/* ---- structure ---- */

bool index_spatial(const struct stage *st, const struct index *x)
{
	for (int b = 0; b < stage_spatial(st); b++)
		if (x->coef[b])
			return true;
	return false;
}

/* Whether the reduction has only taps of windows that slide over vectors: depthwise, with lanes along either
 * axis. */
static bool only_slides(const struct task *t, const struct stage *st, int lane)
{
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		bool slides = false;
		for (int i = 0; i < st->nreads; i++) {
			const struct read *r = &st->read[i];
			for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
				slides |= r->dim[d].coef[a] && (read_axes(t, st, r) >> lane & 1) &&
					  index_spatial(st, &r->dim[d]);
		}
		if (!slides)
			return false;
	}
	return true;
}

bool lane_slides(const struct stage *st, int lane)
{
	for (int i = 0; i < st->nreads && lane >= 0; i++)
		for (int d = 0; d < MAX_RANK; d++)
			for (int a = stage_spatial(st); a < st->naxes && st->read[i].dim[d].coef[lane]; a++)
				if (st->read[i].dim[d].coef[a])
					return true;
	return false;
}

bool stage_contracts(const struct task *t, const struct stage *st, int lane)
{
	if (st->comb == COMB_NONE || lane < 0 || lane >= stage_spatial(st) || only_slides(t, st, lane))
		return false;
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i) && !(read_axes(t, st, &st->read[i]) >> lane & 1))
			return true;
	return false;
}

/* ---- lanes ---- */

/* Points that a vector serves in a tile with lanes along some spatial axis; at most REUSE. */
static int64_t reuse(const struct task *t, const struct stage *st)
{
	int64_t best = 1;
	for (int a = 0; a < stage_spatial(st); a++) {
		if (extent_guess(st->axis[a].extent) < 4 || !stage_contracts(t, st, a))
			continue;
		for (int i = 0; i < st->nreads; i++) {
			unsigned axes = read_axes(t, st, &st->read[i]);
			for (int b = 0; b < stage_spatial(st); b++) {
				int64_t e = extent_guess(st->axis[b].extent);
				bool serves = stage_in_body(st, i) && (axes >> a & 1) && !(axes >> b & 1);
				best = serves && e > best ? e : best;
			}
		}
	}
	return best < REUSE ? best : REUSE;
}

int rules_cross(const struct task *t, const struct stage *st, struct sstage *ss)
{
	for (int b = 0; b < stage_spatial(st) && st->comb == COMB_NONE; b++) {
		int64_t e = st->axis[b].extent;
		int old = ss->tile[b];
		if (b == ss->lane || ss->lane < 0 || (!IS_SYM(e) && e < 3))
			continue;
		ss->tile[b] = IS_SYM(e) || e > ss->lanes ? ss->lanes : (int)e;
		for (int i = 0; i < st->nreads; i++)
			if (stage_in_body(st, i) && read_crosses(t, st, &st->read[i], ss) >= 0)
				return b;
		ss->tile[b] = old;
	}
	return -1;
}

int rules_weave(const struct task *t, const struct stage *st, struct sstage *ss)
{
	for (int b = 0; b < stage_spatial(st); b++) {
		int64_t e = st->axis[b].extent;
		int old = ss->tile[b];
		if (b == ss->lane || ss->lane < 0 || IS_SYM(e) || e < 2 || e > MAX_WOVEN)
			continue;
		ss->tile[b] = (int)e;
		if (store_weaves(t, st, ss) == b)
			return b;
		ss->tile[b] = old;
	}
	return -1;
}

const struct space *rules_width(const struct space *s, int lanes, struct space *room)
{
	if (!target_runs_items(&s->tg) || lanes == s->tg.lanes)
		return s;
	*room = *s;
	room->tg.regs = target_vectors(&s->tg, lanes);
	room->tg.lanes = lanes;
	return room;
}

/* Slots of all accesses per element of the iteration space; < 0: not allowed. */
static double lane_cost(const struct space *s, int stage, int axis, int lanes)
{
	const struct stage *st = &s->t->stage[stage];
	struct sched one;
	rules_init(s, &one);
	struct sstage *ss = &one.st[stage];
	ss->lane = axis;
	ss->lanes = lanes;
	int ns = stage_spatial(st), n = st->naxes;
	if (axis >= ns) { /* the lane axis is innermost */
		for (int i = axis; i < n - 1; i++)
			ss->order[i] = (uint8_t)(i + 1);
		ss->order[n - 1] = (uint8_t)axis;
	}
	if (sched_check(s->t, &s->tg, &one) < 0)
		return -1;
	bool woven = rules_weave(s->t, st, ss) >= 0;
	if (!woven)
		rules_cross(s->t, st, ss);
	double steps = stage_steps(st), cost = 0;
	double e = axis < 0 ? 1 : (double)extent_guess(st->axis[axis].extent),
	       vectors = (double)(int64_t)((e + lanes - 1) / lanes);
	for (int i = 0; i <= st->nreads; i++) {
		const struct read *r = i < st->nreads ? &st->read[i] : &st->out;
		int64_t stride = 0;
		bool pads, body = i < st->nreads && stage_in_body(st, i);
		if (axis >= 0 && !operand_packs(s->t, r->operand) &&
		    read_stride(s->t, st, r, axis, lanes, &stride, &pads) < 0)
			return -1;
		bool apart = i == st->nreads && (stride < 0 || stride > 1);
		double slots = apart && woven ? 2 : apart ? 2 * lanes : draft_slots(stride, lanes);
		if (slots > 6 && i < st->nreads && read_crosses(s->t, st, r, ss) >= 0)
			slots = 6;
		cost += body ? slots : slots / steps;
	}
	if (st->comb == COMB_NONE && stage_long_body(st))
		cost += LONG_BODY;
	if (lanes > 4 && e <= lanes / 2) /* a masked vector, while a narrower one would be full */
		cost *= 1.1;
	if (axis >= ns) /* lanes are combined at the end, and no vector serves more than one point */
		cost = (cost + 10. * lanes / steps) * (double)reuse(s->t, st);
	return cost * vectors / e;
}

static void add_lane(struct stage_space *ss, struct lane_choice c)
{
	int i = ss->nlanes < MAX_LANES ? ss->nlanes++ : MAX_LANES - 1;
	for (; i > 0 && ss->lane[i - 1].cost > c.cost; i--)
		ss->lane[i] = ss->lane[i - 1];
	ss->lane[i] = c;
}

void rules_lanes(struct space *s, int stage)
{
	const struct stage *st = &s->t->stage[stage];
	struct stage_space *ss = &s->st[stage];
	bool items = target_runs_items(&s->tg);
	for (int a = 0; a < st->naxes; a++)
		for (int lanes = target_most_lanes(&s->tg); lanes >= (items ? 2 : 4); lanes /= 2) {
			double c = lane_cost(s, stage, a, lanes);
			for (int n = s->tg.lanes; n < lanes; n *= 2)
				c *= WIDER;
			bool better = ss->nlanes < MAX_LANES || c < ss->lane[MAX_LANES - 1].cost;
			if (c >= 0 && better)
				add_lane(ss, (struct lane_choice){a, lanes, c});
		}
	add_lane(ss, (struct lane_choice){-1, 1, lane_cost(s, stage, -1, 1)});
}

int stage_pixel_axis(const struct space *s, int stage, int lane, int woven)
{
	const struct task *t = s->t;
	const struct stage *st = &t->stage[stage];
	bool contracts = stage_contracts(t, st, lane);
	int best = -1, ns = stage_spatial(st), rows = rules_rows(s, stage);
	int64_t size = 1;
	for (int a = sched_shared(t, rules_rows(s, t->nstages - 1)); a < ns; a++) {
		if (a == lane || a == woven ||
		    (a == rows && !rules_apart(s) && !(rules_row_tiles(s, stage) && lane_slides(st, lane))))
			continue;
		bool reused = st->comb == COMB_NONE; /* the vector operand serves the whole tile */
		for (int i = 0; i < st->nreads; i++) {
			unsigned axes = read_axes(t, st, &st->read[i]);
			reused |=
			    stage_in_body(st, i) && !(axes >> a & 1) && (!contracts || axes >> lane & 1);
		}
		int64_t e = extent_guess(st->axis[a].extent);
		if (!reused && st->nreads > 1 && best >= 0)
			continue;
		if (e >= size && e > 1) {
			best = a;
			size = e > 28 ? 28 : e;
		}
	}
	return best;
}

/* Sets enough independent sums to hide the latency of an FMA. */
static void rules_chains(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int points = 1, steps = 1;
	out->chains = 1;
	if (st->comb == COMB_NONE || out->split_axis >= 0)
		return;
	for (int a = 0; a < stage_spatial(st); a++)
		points *= out->tile[a];
	for (int a = stage_spatial(st); a < st->naxes; a++)
		steps *= out->unroll[a];
	int want = draft_held(s->t, &s->tg, stage, out) ? 4 : 7; /* such tiles overlap */
	while (out->chains * 2 <= steps && points * out->chains < want)
		out->chains *= 2;
}

/* Bytes of the constants that one sweep of the reduction reads, over all lanes. */
static double panel_bytes(const struct space *s, const struct stage *st)
{
	double bytes = 0;
	for (int i = 0; i < st->nreads; i++) {
		double n = 4;
		unsigned axes = read_axes(s->t, st, &st->read[i]);
		for (int a = 0; a < st->naxes; a++)
			n *= axes >> a & 1 ? (double)extent_guess(st->axis[a].extent) : 1;
		if (stage_in_body(st, i) && s->t->operand[st->read[i].operand].role == ROLE_CONST)
			bytes += n;
	}
	return bytes;
}

/* The axis that selects a panel of constants: an axis that only constants depend on, else the lane axis. */
static int panel_axis(const struct space *s, const struct stage *st, int lane)
{
	unsigned of[2] = {0, 0};
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i))
			of[s->t->operand[st->read[i].operand].role == ROLE_CONST] |=
			    read_axes(s->t, st, &st->read[i]);
	for (int a = task_shared(s->t); a < stage_spatial(st) && !(of[1] >> lane & 1); a++)
		if ((of[1] & ~of[0]) >> a & 1)
			return a;
	return lane;
}

/* A filter of more taps than a loop in assembly has steps for is a loop over its taps around one over the
 * channels, which are its first axis. */
static void channels_last(const struct space *s, const struct stage *st, struct sstage *out)
{
	int c = stage_spatial(st);
	double taps = stage_steps(st) / (double)extent_guess(st->axis[c].extent);
	if (taps <= PIPED_STEPS || draft_pipes(s->t, &s->tg, st, out, out->tile) != c)
		return;
	memmove(out->order + c, out->order + c + 1, (size_t)(st->naxes - 1 - c));
	out->order[st->naxes - 1] = (uint8_t)c;
}

/* Loops over pixels are outside of loops over panels if all panels stay in the L2; else each panel serves all
 * pixels before the next panel. */
void rules_order(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), n = 0;
	bool reduces = out->lane >= ns;
	for (int a = 0; a < st->naxes; a++)
		out->order[a] = (uint8_t)a;
	if (reduces) {
		for (int a = ns; a < st->naxes; a++)
			if (a != out->lane)
				out->order[ns + n++] = (uint8_t)a;
		out->order[st->naxes - 1] = (uint8_t)out->lane;
	} else if (stage_contracts(s->t, st, out->lane)) {
		int panel = panel_axis(s, st, out->lane);
		bool inside = panel_bytes(s, st) <= (double)s->tg.l2_bytes / 2;
		if (!inside)
			out->order[n++] = (uint8_t)panel;
		for (int a = 0; a < ns; a++)
			if (a != panel)
				out->order[n++] = (uint8_t)a;
		if (inside)
			out->order[n++] = (uint8_t)panel;
		channels_last(s, st, out);
	}
}

/* Splits panels of B larger than the L2 into blocks that fit a quarter of it, if the other operand is large
 * too. */
static void rules_blocks(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	memset(out->outer, 0, sizeof out->outer);
	memset(out->block, 0, sizeof out->block);
	if (s->t->nstages > 1 || !stage_contracts(s->t, st, out->lane) || IS_SYM(st->axis[out->lane].extent))
		return;
	double bytes = panel_bytes(s, st), l2 = (double)s->tg.l2_bytes;
	int64_t tiles = (st->axis[out->lane].extent + (int64_t)out->tile[out->lane] * out->lanes - 1) /
			((int64_t)out->tile[out->lane] * out->lanes);
	int64_t fit = (int64_t)(l2 / 4 / (bytes / (double)tiles));
	if (bytes <= l2 / 2 || fit < 2 || fit >= tiles)
		return;
	int ns = stage_spatial(st), n = 0;
	out->outer[out->lane] = true;
	out->block[out->lane] = fit;
	for (int a = 0; a < ns; a++)
		if (a != out->lane)
			out->order[n++] = (uint8_t)a;
	out->order[n] = (uint8_t)out->lane;
}

/* Tiles of a register tile's loop; those of a block if the axis has an outer loop. */
static double loop_tiles(const struct stage *st, const struct sstage *s, int a)
{
	return (double)extent_guess(st->axis[a].extent) / (s->tile[a] * (a == s->lane ? s->lanes : 1));
}

/* Whether some thread has less to do than others, or the work is long and the indexes are too few for one
 * thread to take over from a slow one. */
static bool few_for(double indexes, int threads, double all)
{
	double rounds = ceil(indexes / threads);
	return indexes < .9 * rounds * threads || (indexes < 4 * threads && all > 8 * WORTH_THREADS);
}

/* Chooses as many leading loops as leave a few microseconds of work in each index, but never the innermost
 * while others remain; more loops if these are too few for several threads and the work is worth them. Work
 * items: all loops. */
void rules_parallel(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), nouter = 0, threads = s->want.threads, i = 0;
	out->par = 0;
	if (s->t->nstages > 1)
		return;
	if ((out->par = rules_panel_loops(s, stage, out)))
		return;
	if (target_runs_items(&s->tg)) {
		for (int a = 0; a < ns; a++)
			out->par += 1 + out->outer[a];
		return;
	}
	double all = stage_points(st) * (stage_steps(st) + 2), work = all, indexes = 1,
	       least = threads > 1 ? 8192 : 32768;
	for (int a = 0; a < ns; a++)
		nouter += out->outer[a];
	for (int a = 0; a < ns; a++)
		if (out->outer[a]) {
			out->par++;
			indexes *= out->block[a] ? ceil(loop_tiles(st, out, a) / (double)out->block[a]) : 1;
			work = all / indexes;
		}
	for (; i < ns && !out->outer[out->order[i]]; i++) {
		double tiles = loop_tiles(st, out, out->order[i]);
		bool coarse = work / tiles >= least || tiles <= 1;
		if (!coarse && (threads < 2 || all < WORTH_THREADS || !few_for(indexes, threads, all)))
			break;
		work /= tiles < 1 ? 1 : tiles;
		indexes *= ceil(tiles - 1e-9);
		out->par = nouter + i + 1;
	}
}

void rules_settle(const struct space *s, int stage, struct sstage *out)
{
	quads_settle(s->t, &s->t->stage[stage], out);
	mmla_settle(s->t, &s->t->stage[stage], out);
	rules_parallel(s, stage, out);
	panels_settle(s, stage, out);
	rules_parallel(s, stage, out);
	texture_settle(s, stage, out);
	bool more = stage_threads(&s->t->stage[stage], out) > 1 || out->blocks > 1 || out->down_axis >= 0;
	if (more && !rules_fits(s, stage, out))
		items_no_threads(out);
}

/* Whether the registers hold a line's address and more beside the tile: without FMA, 4x2 points spill with
 * prefetches, and are faster than 2x4 with them. */
static bool room_ahead(const struct space *s, int stage, const struct sstage *out)
{
	return !rules_unfused(s) || draft_live(s->t, stage, out) <= s->tg.regs - 4;
}

void rules_finish(const struct space *s, int stage, struct sstage *out)
{
	out->hoist = !stage_long_post(&s->t->stage[stage]); /* the program's constants need the registers */
	rules_order(s, stage, out);
	rules_unroll(s, stage, out);
	rules_chains(s, stage, out);
	if (target_runs_items(&s->tg)) {
		rules_parallel(s, stage, out);
		return;
	}
	rules_blocks(s, stage, out);
	if (rules_cold(s, stage, out) && room_ahead(s, stage, out))
		rules_panels(s, stage, out);
	else if (rules_cold(s, stage, out))
		rules_panels_first(s, stage, out);
	rules_next_rows(s, stage, out);
	out->feed = !rules_unfused(s) &&
		    rules_feed(s, stage, out); /* without, 2x4 points spill, and fewer are slower */
	rules_parallel(s, stage, out);
}
