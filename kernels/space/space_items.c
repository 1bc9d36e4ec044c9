/* SPDX-License-Identifier: Apache-2.0 */
/* Only schedules of work items have these: groups, parts of a reduction that are items of their own, and
 * threads that share tiles. */
#include "kernels/space/space_rules.h"
#include "kernels/space/draft_parts.h"
#include "kernels/space/resident.h"
#include "kernels/space/share.h"
#include "kernels/space/winograd_fused.h"

#include <string.h>

/* Draws how many blocks a GPU's unit runs side by side, where their threads' registers may be enough. */
static void draw_resident(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int blocks[] = {1, 1, 1, 2, 2, 3, 4, 8};
	int n = out->group ? out->group : stage_threads(&s->t->stage[stage], out);
	out->blocks = 1;
	if (strcmp(s->tg.isa, "cuda") != 0 || n == 1 || s->t->nstages > 1)
		return;
	int b = blocks[rng_below(r, 8)],
	    live = draft_live(s->t, stage, out) * out->lanes + (int)ITEM_REGISTERS;
	if (b * n <= SCHED_RESIDENT && live * b * n <= UNIT_REGISTERS)
		out->blocks = b;
}

void items_draw_group(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int items[] = {0, 16, 32, 32, 64, 64, 128, 256, 512};
	int most = s->t->nstages == 1 ? s->tg.group : 0, g = items[rng_below(r, 9)];
	out->group = g <= most ? g : 0;
	draw_resident(s, stage, r, out);
}

/* Points of a reduction axis that only whole blocks of the layout and whole unrolled steps have. */
static int64_t least_part(const struct space *s, const struct stage *st, const struct sstage *c, int axis)
{
	int64_t b = axis_block(s->t, st, axis), u = c->unroll[axis];
	return b % u ? b * u : b;
}

/* Splits the longest reduction axis into about so many parts. */
static bool spread(const struct space *s, int stage, int64_t parts, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage old = *out;
	int axis = -1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		if (!IS_SYM(st->axis[a].extent) && (axis < 0 || st->axis[a].extent > st->axis[axis].extent))
			axis = a;
	if (axis < 0 || s->t->nstages > 1)
		return false;
	int64_t e = st->axis[axis].extent, unit = least_part(s, st, out, axis);
	out->split_axis = axis;
	out->split = ceil_div(ceil_div(e, parts), unit) * unit;
	out->spread = true;
	bool fits = rules_fits(s, stage, out);
	if (!fits)
		*out = old;
	return fits;
}

/* Most tasks have more items than the device runs at a time. */
void items_draw_parts(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int parts[] = {2, 3, 4, 4, 8, 8, 16, 32};
	rules_settle(s, stage, out);
	if (rng_below(r, 3) == 0)
		(void)spread(s, stage, parts[rng_below(r, 8)], out);
}

/* A random divisor of n, at most `most`. */
static int divisor(struct rng *r, int64_t n, int64_t most)
{
	int64_t v = 1 + (int64_t)rng_below(r, (uint32_t)(most < n ? most : n));
	while (n % v)
		v--;
	return (int)v;
}

/* Whether blocks of that many points of an axis, of which the last may overlap another, repeat few of them.
 */
static bool repeats_few(int64_t e, int64_t span)
{
	return ceil_div(e, span) * span * 4 <= e * 5;
}

/* Draws threads of one axis; the tile shrinks until whole blocks fit. false: its extent is not known. */
static bool draw_axis(const struct stage *st, int a, struct rng *r, int *left, struct sstage *out)
{
	int64_t e = st->axis[a].extent, unit = a == out->lane ? out->lanes : 1;
	out->outer[a] = false;
	out->block[a] = 0;
	if (IS_SYM(e) || e % unit)
		return false;
	int64_t most = *left < 32 ? *left : 32, span;
	if (unit == 1 && e % out->tile[a] && e > out->tile[a]) { /* the last block may overlap another */
		int64_t tiles = e / out->tile[a];
		out->threads[a] = 1 + (int)rng_below(r, (uint32_t)(most < tiles ? most : tiles));
		span = (int64_t)out->threads[a] * out->tile[a];
		if (repeats_few(e, span)) {
			*left /= out->threads[a];
			return true;
		}
	}
	while (e % (out->tile[a] * unit))
		out->tile[a]--;
	out->threads[a] = divisor(r, e / (out->tile[a] * unit), most);
	*left /= out->threads[a];
	return true;
}

/* The axis of the first loop of the reduction, of *units times *unit points. -1: there is none of whole
 * units. */
static int share_axis(const struct space *s, const struct stage *st, const struct sstage *c, int64_t *unit,
		      int64_t *units)
{
	for (int i = stage_spatial(st); i < st->naxes; i++) {
		int a = c->order[i];
		int64_t e = st->axis[a].extent;
		if (e == c->unroll[a])
			continue;
		*unit = least_part(s, st, c, a);
		*units = e / *unit;
		return IS_SYM(e) || e % *unit ? -1 : a;
	}
	return -1;
}

/* Draws how much of the first loop of the reduction is shared at a time, and in how many boxes. */
static bool draw_share(const struct space *s, const struct stage *st, struct rng *r, struct sstage *out)
{
	static const int boxes[] = {1, 1, 2, 2, 3};
	int64_t unit, units;
	int a = share_axis(s, st, out, &unit, &units);
	if (a < 0)
		return false;
	out->share_axis = a;
	out->share = (int)(unit * divisor(r, units, unit < 32 ? 32 / unit : 1));
	out->boxes = boxes[rng_below(r, 5)];
	if (out->boxes > st->axis[a].extent / out->share)
		out->boxes = 1;
	return true;
}

/* Draws the shape of a warp, of the threads of a block. */
static void draw_warp(const struct stage *st, struct rng *r, struct sstage *out)
{
	int left = SCHED_TEAM, ns = stage_spatial(st), first = (int)rng_below(r, (uint32_t)ns);
	if (stage_threads(st, out) <= SCHED_TEAM || rng_below(r, 2))
		return;
	for (int i = 0; i < ns; i++) {
		int a = (first + i) % ns, most = 1 << rng_below(r, 4);
		while (left > 1 && out->warp[a] < most && out->threads[a] % (2 * out->warp[a]) == 0) {
			out->warp[a] *= 2;
			left /= 2;
		}
	}
	for (int a = 0; a < ns && left > 1; a++)
		for (; left > 1 && out->threads[a] % (2 * out->warp[a]) == 0; left /= 2)
			out->warp[a] *= 2;
	for (int a = 0; a < ns && left > 1; a++)
		out->warp[a] = 1;
}

/* Splits the share axis into so many parts, of whole boxes, that are blocks of their own. */
static bool spread_boxes(const struct space *s, int stage, int64_t parts, struct sstage *out)
{
	struct sstage old = *out;
	int64_t boxes = s->t->stage[stage].axis[out->share_axis].extent / out->share;
	out->split_axis = out->share_axis;
	out->split = ceil_div(boxes, parts) * out->share;
	out->spread = true;
	bool fits = rules_fits(s, stage, out);
	if (!fits)
		*out = old;
	return fits;
}

/* Takes away what a schedule of threads cannot have. */
static void clear_for_threads(struct sstage *out)
{
	items_no_threads(out);
	out->group = out->prefetch = 0;
	out->feed = out->quads = out->mmla = out->spread = false;
	out->split_axis = -1;
}

void items_draw_threads(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int most[] = {32, 64, 128, 256, 256}, parts[] = {2, 3, 4, 4, 8, 16};
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), left = most[rng_below(r, 5)];
	struct sstage old = *out;
	bool good = s->t->nstages == 1 && !s->tg.serial && ns < st->naxes;
	clear_for_threads(out);
	for (int i = ns - 1; i >= 0 && good; i--)
		good = draw_axis(st, out->order[i], r, &left, out);
	good = good && draw_share(s, st, r, out);
	rules_parallel(s, stage, out);
	if (good && out->boxes > 1 && !rules_fits(s, stage, out))
		out->boxes = 1; /* the ring may be too large */
	if (!good || stage_threads(st, out) == 1 || !rules_fits(s, stage, out)) {
		*out = old;
		return;
	}
	if (rng_below(r, 3) == 0)
		(void)spread_boxes(s, stage, parts[rng_below(r, 6)], out);
	draw_warp(st, r, out);
	draw_resident(s, stage, r, out);
}

enum { SHARED_POINTS = 16, WAVES = 2 /* blocks of each unit */ };

/* Gives an axis the most threads whose tiles, made smaller, divide it; or, if blocks may overlap and that
 * makes them less than half as large, threads of the rule's own tile. Returns the blocks. */
static int64_t share_along(int64_t e, int64_t points, int a, int left, bool overlap, struct sstage *out)
{
	int64_t tile = out->tile[a], ragged = overlap && points == 1 ? e / tile : 0;
	while (e % (out->tile[a] * points))
		out->tile[a]--;
	int64_t tiles = e / (out->tile[a] * points), threads = largest_divisor(tiles, left);
	for (ragged = ragged < left ? ragged : left; ragged * tile >= 2 * threads * out->tile[a]; ragged--)
		if (repeats_few(e, ragged * tile)) {
			out->tile[a] = (int)tile;
			out->threads[a] = (int)ragged;
			return ceil_div(e, ragged * tile);
		}
	out->threads[a] = (int)threads;
	return tiles / threads;
}

/* Gives blocks of at most n threads the tiles of neighbours, inner loops first. false: an extent is not
 * known. */
static bool share_tiles(const struct space *s, const struct stage *st, int n, bool overlap, int64_t *blocks,
			struct sstage *out)
{
	int ns = stage_spatial(st), left = n;
	clear_for_threads(out);
	*blocks = 1;
	for (int i = ns - 1; i >= 0; i--) {
		int a = out->order[i];
		int64_t e = st->axis[a].extent, points = a == out->lane ? out->lanes : 1;
		if (IS_SYM(e) || e % points)
			return false;
		out->outer[a] = false;
		out->block[a] = 0;
		*blocks *= share_along(e, points, a, left, overlap, out);
		left /= out->threads[a];
	}
	return !s->tg.serial && ns < st->naxes && stage_threads(st, out) > 1;
}

/* Shares two boxes at a time, or one if the ring is too large. Returns how many boxes there are; 0: none. */
static int64_t share_boxes(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int64_t unit, units;
	int a = share_axis(s, st, out, &unit, &units);
	if (a < 0)
		return 0;
	int64_t most = unit < SHARED_POINTS ? SHARED_POINTS / unit : 1, each = largest_divisor(units, most);
	out->share_axis = a;
	out->share = (int)(unit * each);
	out->boxes = units / each > 1 ? 2 : 1;
	rules_parallel(s, stage, out);
	if (!rules_fits(s, stage, out))
		out->boxes = 1;
	return units / each;
}

/* Blocks that share tiles; their reduction is split into parts that keep all units busy. false: there are
 * enough blocks without parts. */
static bool make_shared(const struct space *s, int stage, int n, struct sstage *out)
{
	int64_t blocks, boxes;
	if (!share_tiles(s, &s->t->stage[stage], n, false, &blocks, out) || blocks >= s->tg.cores)
		return false;
	boxes = share_boxes(s, stage, out);
	if (!boxes)
		return false;
	int64_t parts = ceil_div((int64_t)WAVES * s->tg.cores, blocks), whole = boxes / out->boxes;
	whole = whole < SPREAD_PARTS ? whole : SPREAD_PARTS;
	parts = parts < whole ? parts : whole;
	return parts > 1 && spread_boxes(s, stage, parts, out);
}

/* The same for an axis that tiles do not divide: the last block along it overlaps another. Such blocks have
 * no parts, so that there must be enough of them. */
static bool make_ragged(const struct space *s, int stage, int n, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int64_t blocks;
	bool ragged = false;
	if (!share_tiles(s, st, n, true, &blocks, out) || blocks < s->tg.cores)
		return false;
	for (int a = 0; a < stage_spatial(st); a++)
		ragged |= share_overlaps(st, out, a);
	return ragged && share_boxes(s, stage, out) && rules_fits(s, stage, out);
}

/* make_shared, or else make_ragged. */
static bool make_blocks(const struct space *s, int stage, int n, struct sstage *out)
{
	const struct sstage plain = *out;
	if (make_shared(s, stage, n, out))
		return true;
	*out = plain;
	return make_ragged(s, stage, n, out);
}

/* Lets n threads share the sums of each tile, along the longest loop of the reduction. */
static bool make_team(const struct space *s, int stage, int n, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage old = *out;
	int axis = -1;
	double most = 0;
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		double steps = IS_SYM(st->axis[a].extent) ? 0
							  : (double)st->axis[a].extent / out->unroll[a] /
								(a == out->lane ? out->lanes : 1);
		axis = steps > most ? a : axis;
		most = steps > most ? steps : most;
	}
	if (s->tg.serial || s->t->nstages > 1 || most < n)
		return false;
	clear_for_threads(out);
	out->threads[axis] = n;
	for (int a = 0; a < stage_spatial(st); a++) {
		int64_t e = st->axis[a].extent, unit = a == out->lane ? out->lanes : 1;
		out->outer[a] = false;
		while (!IS_SYM(e) && e % unit == 0 && e % (out->tile[a] * unit))
			out->tile[a]--;
	}
	rules_parallel(s, stage, out);
	bool fits = rules_fits(s, stage, out);
	if (!fits)
		*out = old;
	return fits;
}

/* Sets threads for the axis of a chain's stage that has the most tiles, or steps of its reduction. */
static void crew_stage(const struct space *s, const struct stage *st, int n, struct sstage *out)
{
	int axis = -1, first = task_shared(s->t), ns = stage_spatial(st);
	int64_t most = 1;
	items_no_threads(out);
	out->prefetch = 0;
	out->feed = out->quads = out->mmla = false;
	for (int a = first; a < st->naxes; a++) {
		int64_t e = st->axis[a].extent, unit = a == out->lane ? out->lanes : 1;
		while (a < ns && !IS_SYM(e) && e % unit == 0 && e % (out->tile[a] * unit))
			out->tile[a]--;
		int64_t parts = e / unit / (a < ns ? out->tile[a] : out->unroll[a]);
		if (parts > most && (a < ns || axis < 0 || axis >= ns)) {
			axis = a;
			most = parts;
		}
	}
	if (axis < 0)
		return;
	out->threads[axis] = n;
	int64_t e = st->axis[axis].extent, unit = axis == out->lane ? out->lanes : 1;
	if (axis >= ns && most < n) /* a step for each thread */
		out->unroll[axis] = out->chains = 1;
	while (axis < ns && e % unit == 0 && out->tile[axis] > 1 &&
	       (e / unit / out->tile[axis] < n || e % (out->tile[axis] * unit)))
		out->tile[axis]--;
}

bool items_crew(const struct space *s, int n, struct sched *c)
{
	struct sched old = *c;
	if (!target_runs_items(&s->tg) || s->tg.serial || s->t->nstages == 1)
		return false;
	struct sstage *last = &c->st[s->t->nstages - 1];
	if (last->ring_axis >= 0)
		last->block[last->ring_axis] = 0;
	last->ring_axis = -1;
	last->ring = 0;
	for (int k = 0; k < s->t->nstages; k++)
		crew_stage(s, &s->t->stage[k], n, &c->st[k]);
	bool fits = sched_check(s->t, &s->tg, c) >= 0;
	if (!fits)
		*c = old;
	return fits;
}

void items_draw_team(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int threads[] = {32, 32, 64, 64, 128, 256};
	if (make_team(s, stage, threads[rng_below(r, 6)], out))
		draw_resident(s, stage, r, out);
}

void items_no_threads(struct sstage *out)
{
	if (winograd_is_fused(out)) { /* three launches */
		out->wino.tiles = out->wino.chunk = 0;
		out->split_axis = -1;
		out->spread = false;
	}
	for (int a = 0; a < MAX_AXES; a++)
		out->threads[a] = out->warp[a] = 1;
	out->share_axis = -1;
	out->share = 0;
	out->boxes = out->blocks = out->down = 1;
	out->down_axis = -1;
}

/* Makes the loop innermost whose neighbouring items write the nearest bytes: a GPU moves the bytes of items
 * that start together at once, if they lie in a line. false: it is innermost already. */
static bool bring_nearest(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), best = -1, last = -1, n = 0;
	double least = 0;
	for (int i = 0; i < ns; i++) {
		int a = out->order[i];
		int64_t points = (int64_t)out->tile[a] * (a == out->lane ? out->lanes : 1);
		double bytes = draft_apart(s->t, &st->out, a, points);
		if (extent_guess(st->axis[a].extent) <= points)
			continue;
		last = a;
		if (best < 0 || bytes < least) {
			best = a;
			least = bytes;
		}
	}
	if (best == last)
		return false;
	for (int i = 0; i < ns; i++)
		if (out->order[i] != best)
			out->order[n++] = out->order[i];
	out->order[n] = (uint8_t)best;
	return true;
}

/* The default in groups, with neighbours nearer, with its reduction in parts, with threads that share its
 * sums or tiles, with a texture, or items that make several tiles. */
bool items_rule(const struct space *s, int i, struct sched *c)
{
	static const struct {
		int group, parts;
		bool nearest;
		int team;
		bool texture;
		int shared, points, down;
	} rule[] = {{32, 1, false},
		    {0, 1, false, 64},
		    {128, 1, false},
		    {0, 1, true},
		    {0, 4, false},
		    {0, 8, true},
		    {0, 2, false},
		    {0, 1, false, 256},
		    {0, 1, false, .texture = true},
		    {0, 1, false, .shared = 64},
		    {0, 1, false, .shared = 256},
		    {0, 1, true, .points = 4, .down = 7},
		    {0, 1, false, .points = 7, .down = 4},
		    {0, 1, true, .points = 2, .down = 16}};
	if (!target_runs_items(&s->tg) || s->t->nstages > 1 || rule[i].group > s->tg.group)
		return false;
	rules_stage(s, 0, 0, &c->st[0]);
	c->st[0].group = rule[i].group;
	if (rule[i].texture)
		return texture_rule(s, 0, &c->st[0]);
	if (rule[i].shared)
		return make_blocks(s, 0, rule[i].shared, &c->st[0]);
	if (rule[i].team)
		return make_team(s, 0, rule[i].team, &c->st[0]);
	if (rule[i].down && !down_make(s, 0, rule[i].points, rule[i].down, &c->st[0]))
		return false;
	bool nearer = rule[i].nearest && bring_nearest(s, 0, &c->st[0]);
	return rule[i].parts == 1 ? nearer || rule[i].group || rule[i].down
				  : spread(s, 0, rule[i].parts, &c->st[0]);
}
