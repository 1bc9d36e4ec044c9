/* SPDX-License-Identifier: Apache-2.0 */
/* The spatial loops of a stage: over blocks, and over tiles (full tiles and a smaller last one). */
#include "kernels/loops/lower_parts.h"

enum { FEW_TILES = 8, MANY_POINTS = 8 };

int nest_unit(const struct nest *k, int axis)
{
	return axis == k->s->lane ? k->s->lanes : 1;
}

/* Runs of a constant axis: full tiles, then one tile with the rest. */
static int runs_const(const struct nest *k, int axis, int64_t extent, int tile, struct run *r)
{
	struct loops *l = k->w->l;
	int64_t u = nest_unit(k, axis), ragged = axis == k->s->lane && k->ragged && extent % u;
	int64_t whole = ragged ? extent / u : (extent + u - 1) / u, main = whole / tile,
		rest = whole % tile + (ragged != 0);
	int n = 0;
	if (main)
		r[n++] = (struct run){ix_c(l, 0), ix_c(l, main), tile, false, true};
	if (rest)
		r[n++] = (struct run){ix_c(l, main * tile * u), ix_c(l, 1), (int)rest, ragged != 0, false};
	return n;
}

/* Runs of a symbolic axis: full tiles; of a tile of up to 7, one tile with what is left of it, for whose
 * size there is a run each; of larger ones tiles of 4 and then single points; last a point or (masked)
 * vector. With 16 registers a tile has 3 to 6 points, and a row of 5 or 7 pixels would mostly be single ones,
 * whose few sums wait for each other. */
static int runs_symbolic(const struct nest *k, int axis, const struct ix *extent, int tile, struct run *r)
{
	struct loops *l = k->w->l;
	int64_t u = nest_unit(k, axis);
	bool ragged = axis == k->s->lane && k->ragged;
	const struct ix *whole =
	    ragged ? ix_div(l, extent, ix_c(l, u)) : ix_div(l, ix_add(l, extent, ix_c(l, u - 1)), ix_c(l, u));
	const struct ix *all = ix_div(l, ix_add(l, extent, ix_c(l, u - 1)), ix_c(l, u));
	const struct ix *done = ix_c(l, 0), *main = ix_div(l, whole, ix_c(l, tile)),
			*rest = ix_mod(l, whole, ix_c(l, tile));
	int n = 0;
	if (tile > 1 || !ragged) {
		r[n++] = (struct run){ix_c(l, 0), main, tile, false, true};
		done = ix_mul(l, main, ix_c(l, tile));
	}
	for (int m = tile - 1; m > 1 && tile < MANY_POINTS && axis < k->ns; m--)
		r[n++] =
		    (struct run){ix_mul(l, done, ix_c(l, u)), ix_eq(l, rest, ix_c(l, m)), m, false, false};
	if (n > 1)
		done = ix_add(l, done, ix_mul(l, rest, ix_lt(l, ix_c(l, 1), rest)));
	if (tile >= MANY_POINTS) {
		const struct ix *four = ix_div(l, rest, ix_c(l, 4));
		r[n++] = (struct run){ix_mul(l, done, ix_c(l, u)), four, 4, false, false};
		done = ix_add(l, done, ix_mul(l, four, ix_c(l, 4)));
	}
	if (tile > 1 || ragged)
		r[n++] =
		    (struct run){ix_mul(l, done, ix_c(l, u)), ix_sub(l, all, done), 1, ragged, tile == 1};
	return n;
}

int nest_runs(const struct nest *k, int axis, int tile, struct run r[MAX_RUNS])
{
	int64_t extent;
	if (ix_is_const(k->extent[axis], &extent))
		return runs_const(k, axis, extent, tile, r);
	return runs_symbolic(k, axis, k->extent[axis], tile, r);
}

/* The size of what an index has of an axis: a tile, or the tiles that an item makes one after the other. */
static int tile_size(const struct nest *k, int axis)
{
	return k->s->tile[axis] * stage_down(k->s, axis);
}

/* Number of tiles of a spatial axis; a smaller last tile or the run-time tail counts as one. */
static const struct ix *tile_count(const struct nest *k, int axis)
{
	struct loops *l = k->w->l;
	int64_t step = (int64_t)k->s->tile[axis] * nest_unit(k, axis);
	int64_t extent;
	struct run r[MAX_RUNS];
	if (ix_is_const(k->extent[axis], &extent)) {
		int64_t n = 0, c;
		for (int i = runs_const(k, axis, extent, tile_size(k, axis), r); i-- > 0;)
			n += ix_is_const(r[i].count, &c) ? c : 0;
		return ix_c(l, n);
	}
	return ix_div(l, ix_add(l, k->extent[axis], ix_c(l, step - 1)), ix_c(l, step));
}

struct scope nest_enter(const struct nest *k)
{
	return (struct scope){k->nknown, k->w->hoisted};
}

void nest_leave(struct nest *k, struct scope s)
{
	k->nknown = s.nknown;
	k->w->hoisted = s.hoisted;
}

void nest_bind(struct nest *k, int axis, const struct ix *base, int n, bool masked)
{
	k->base[axis] = base;
	k->n[axis] = n;
	k->bound |= 1u << axis;
	if (axis == k->s->lane)
		k->last_masked = masked;
}

void nest_unbind(struct nest *k, int axis)
{
	k->bound &= ~(1u << axis);
	k->base[axis] = NULL;
	k->n[axis] = 1;
	if (axis == k->s->lane)
		k->last_masked = false;
}

const struct ix *nest_run_base(const struct nest *k, int axis, const struct run *r, const struct ix *t)
{
	struct loops *l = k->w->l;
	return ix_add(l, r->start, ix_mul(l, t, ix_c(l, (int64_t)r->n * nest_unit(k, axis))));
}

static void loops_from(struct nest *k, int i);

/* Whether there are many full tiles for each smaller last one. */
static bool rest_seldom(const struct nest *k, int axis)
{
	int64_t extent;
	return !ix_is_const(k->extent[axis], &extent) ||
	       extent >= FEW_TILES * k->s->tile[axis] * nest_unit(k, axis);
}

/* Makes one run a loop over its tiles [from, to). */
static void run_loop(struct nest *k, int i, const struct run *r, const struct ix *from, const struct ix *to)
{
	struct loops *l = k->w->l;
	const struct ix *t;
	int axis = k->loop[i].axis;
	struct scope sc = nest_enter(k);
	bool divides = k->divider && k->s->threads[axis] > 1;
	struct stmt *f = for_begin(l, divides ? ix_add(l, from, k->divider) : from, to,
				   divides ? k->s->threads[axis] : 1, false, &t);
	nest_bind(k, axis, nest_run_base(k, axis, r, t), r->n, r->masked);
	bool seldom = !r->main && rest_seldom(k, axis);
	k->rests += seldom;
	loops_from(k, i + 1);
	k->rests -= seldom;
	nest_unbind(k, axis);
	for_end(l, f);
	nest_leave(k, sc);
}

/* All tiles of an axis, or those of the block [from, to). */
static void tiles_serial(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	struct run r[MAX_RUNS];
	int axis = k->loop[i].axis, n = nest_runs(k, axis, k->s->tile[axis], r);
	const struct ix *from = k->from[axis], *to = k->to[axis],
			*main = n && r[0].main ? r[0].count : ix_c(l, 0);
	for (int j = 0; j < n; j++) {
		if (!from) {
			run_loop(k, i, &r[j], ix_c(l, 0), r[j].count);
			continue;
		}
		if (r[j].main) {
			run_loop(k, i, &r[j], from, ix_min(l, to, r[j].count));
			continue;
		}
		struct scope sc = nest_enter(k);
		struct stmt *last = if_begin(l, ix_lt(l, main, to));
		run_loop(k, i, &r[j], ix_c(l, 0), r[j].count);
		if_end(l, last);
		nest_leave(k, sc);
	}
}

/* Makes one tile whose number is given: a full one, or everything after the full ones. */
static void tile_parallel(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	struct run r[MAX_RUNS];
	int axis = k->loop[i].axis, n = nest_runs(k, axis, tile_size(k, axis), r);
	struct stmt *s = NULL;
	struct scope sc = nest_enter(k);
	if (k->tile_at[axis]) {
		nest_bind(k, axis, k->tile_at[axis], k->s->tile[axis], false);
		loops_from(k, i + 1);
		nest_unbind(k, axis);
		nest_leave(k, sc);
		return;
	}
	if (n && r[0].main) {
		if (n > 1)
			s = if_begin(l, ix_lt(l, k->par[i], r[0].count));
		nest_bind(k, axis, nest_run_base(k, axis, &r[0], k->par[i]), r[0].n, r[0].masked);
		loops_from(k, i + 1);
		nest_unbind(k, axis);
		nest_leave(k, sc);
	}
	if (s)
		if_else(l, s);
	for (int j = n && r[0].main; j < n; j++)
		run_loop(k, i, &r[j], ix_c(l, 0), r[j].count);
	if (s)
		if_end(l, s);
	nest_leave(k, sc);
}

static const struct ix *block_size(const struct nest *k, int axis)
{
	return ix_param(k->w->l, k->w->block_param[axis]);
}

static const struct ix *block_count(const struct nest *k, int axis)
{
	struct loops *l = k->w->l;
	const struct ix *b = block_size(k, axis);
	return ix_div(l, ix_add(l, tile_count(k, axis), ix_sub(l, b, ix_c(l, 1))), b);
}

static void block(struct nest *k, int i, const struct ix *index)
{
	struct loops *l = k->w->l;
	int axis = k->loop[i].axis;
	k->from[axis] = ix_mul(l, index, block_size(k, axis));
	k->to[axis] = ix_min(l, ix_add(l, k->from[axis], block_size(k, axis)), tile_count(k, axis));
	loops_from(k, i + 1);
	k->from[axis] = k->to[axis] = NULL;
}

static void blocks_serial(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	const struct ix *b;
	struct scope sc = nest_enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), block_count(k, k->loop[i].axis), 1, false, &b);
	block(k, i, b);
	for_end(l, f);
	nest_leave(k, sc);
}

/* Parts of a split reduction: a loop right inside of the parallel loops. */
static void split_parts(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int64_t extent = 0, part = k->s->split;
	ix_is_const(k->extent[k->s->split_axis], &extent);
	struct scope sc = nest_enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, (extent + part - 1) / part), 1, true, &k->part);
	loops_from(k, i);
	for_end(l, f);
	nest_leave(k, sc);
	k->part = NULL;
}

static void loops_from(struct nest *k, int i)
{
	if (i >= k->s->par && k->s->split_axis >= 0 && !k->part) {
		split_parts(k, i);
		return;
	}
	nest_hoist(k);
	if (i == k->nloops) {
		nest_tile(k);
		return;
	}
	bool parallel = i < k->s->par;
	if (k->loop[i].outer && parallel)
		block(k, i, k->par[i]);
	else if (k->loop[i].outer)
		blocks_serial(k, i);
	else if (parallel)
		tile_parallel(k, i);
	else
		tiles_serial(k, i);
}

/* ---- the stage ---- */

static void list_loops(struct nest *k)
{
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < k->ns; i++) {
			int a = k->s->order[i];
			if (a < k->w->shared || (pass == 0 && !k->s->outer[a]))
				continue;
			k->loop[k->nloops].axis = a;
			k->loop[k->nloops++].outer = pass == 0;
		}
}

/* Computes the parallel extent, and the index of each parallel loop from the entry's variable. */
static void parallel_loops(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct ix *count[2 * MAX_AXES], *extent = ix_c(l, 1);
	for (int i = 0; i < k->s->par; i++) {
		int a = k->loop[i].axis;
		count[i] = k->loop[i].outer ? block_count(k, a) : tile_count(k, a);
		extent = ix_mul(l, extent, count[i]);
	}
	bool parts = k->s->spread && !k->sums_parts; /* before all other loops */
	if (parts)
		extent = ix_mul(l, extent, ix_c(l, stage_parts(k->st, k->s)));
	k->team = stage_team(k->st, k->s);
	int e = k->team > 1 ? loops_entry_threads(l, extent, k->team, &k->member) : loops_entry(l, extent);
	l->entry[e].group = k->s->group;
	l->entry[e].blocks = k->s->blocks;
	if (k->team > 1)
		team_begin(k);
	const struct ix *p = ix_var(l, l->entry[e].var);
	for (int i = k->s->par - 1; i >= 0; i--) {
		k->par[i] = i || parts ? ix_mod(l, p, count[i]) : p;
		p = ix_div(l, p, count[i]);
	}
	k->part = parts ? p : NULL;
}

/* The block that begins at `first` of an axis that does not end with a whole block. The last one begins
 * earlier, so that each thread has whole tiles: it computes points of the block before it again, and does not
 * store them. */
static void overlap(struct nest *k, int axis, const struct ix *first, const struct ix *own)
{
	struct loops *l = k->w->l;
	const struct ix *span = ix_c(l, share_span(k->st, k->s, axis)),
			*last = ix_sub(l, k->extent[axis], span);
	k->new_at[axis] = first;
	k->block_at[axis] = ix_min(l, first, last);
	k->tile_at[axis] = ix_add(l, k->block_at[axis],
				  ix_mul(l, own, ix_c(l, (int64_t)k->s->tile[axis] * nest_unit(k, axis))));
}

/* The same for blocks of threads, of a stage whose spatial loops are all parallel: each thread has a tile. */
static void parallel_blocks(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct ix *count[MAX_AXES], *extent = ix_c(l, 1);
	for (int i = 0; i < k->ns; i++) {
		int a = k->loop[i].axis;
		int64_t span = share_span(k->st, k->s, a);
		count[i] = ix_div(l, ix_add(l, k->extent[a], ix_c(l, span - 1)), ix_c(l, span));
		extent = ix_mul(l, extent, count[i]);
	}
	if (k->s->spread)
		extent = ix_mul(l, extent, ix_c(l, stage_parts(k->st, k->s)));
	int e = loops_entry_threads(l, extent, stage_threads(k->st, k->s), &k->thread);
	l->entry[e].blocks = k->s->blocks;
	int warp = 1;
	for (int a = 0; a < k->ns; a++)
		warp *= k->s->warp[a];
	const struct ix *p = ix_var(l, l->entry[e].var), *in = ix_mod(l, k->thread, ix_c(l, warp)),
			*t = ix_div(l, k->thread, ix_c(l, warp));
	share_begin(k);
	for (int i = k->ns - 1; i >= 0; i--) {
		int a = k->loop[i].axis;
		const struct ix *threads = ix_c(l, k->s->threads[a]), *wide = ix_c(l, k->s->warp[a]),
				*warps = ix_c(l, k->s->threads[a] / k->s->warp[a]),
				*block = i || k->s->spread ? ix_mod(l, p, count[i]) : p,
				*own = i ? ix_mod(l, t, warps) : t;
		own = ix_add(l, ix_mul(l, own, wide), ix_mod(l, in, wide));
		k->block_at[a] = ix_mul(l, block, ix_c(l, share_span(k->st, k->s, a)));
		if (share_overlaps(k->st, k->s, a))
			overlap(k, a, k->block_at[a], own);
		k->par[i] = ix_add(l, ix_mul(l, block, threads), own);
		p = ix_div(l, p, count[i]);
		t = ix_div(l, t, warps);
		in = ix_div(l, in, wide);
	}
	k->part = k->s->spread ? p : NULL;
}

void nest_stage(struct nest *k)
{
	list_loops(k);
	bool alone = k->w->t->nstages == 1;
	if (alone && k->s->share_axis >= 0)
		parallel_blocks(k);
	else if (alone)
		parallel_loops(k);
	if (k->w->ones && alone)
		lower_ones(k->w);
	nest_list_reductions(k);
	loops_from(k, 0);
	if (alone)
		loops_entry_end(k->w->l);
}
