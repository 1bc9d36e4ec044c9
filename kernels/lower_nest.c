/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of a stage: blocks, tiles (main ones and a smaller last one), and the reduction around the body.
 */
#include "kernels/lower.h"

#include <string.h>

/* A run of equal tiles along one axis: tile t of `count` starts at start + t * n * unit. */
struct run {
	const struct ix *start, *count;
	int n;       /* points, or vectors on the lane axis */
	bool masked; /* the last vector is partial */
	bool main;
};

enum { MAX_RUNS = 3, FEW_TILES = 8 };

static int unit(const struct nest *k, int axis)
{
	return axis == k->s->lane ? k->s->lanes : 1;
}

/* Runs of a constant axis: full tiles, then one tile of what is left. */
static int runs_const(const struct nest *k, int axis, int64_t extent, int tile, struct run *r)
{
	struct loops *l = k->w->l;
	int64_t u = unit(k, axis), ragged = axis == k->s->lane && k->ragged && extent % u;
	int64_t whole = ragged ? extent / u : (extent + u - 1) / u, main = whole / tile,
		rest = whole % tile + (ragged != 0);
	int n = 0;
	if (main)
		r[n++] = (struct run){ix_c(l, 0), ix_c(l, main), tile, false, true};
	if (rest)
		r[n++] = (struct run){ix_c(l, main * tile * u), ix_c(l, 1), (int)rest, ragged != 0, false};
	return n;
}

/* Runs of a symbolic axis: full tiles, then single points or (masked) vectors, large tiles with a run of 4
 * between. */
static int runs_symbolic(const struct nest *k, int axis, const struct ix *extent, int tile, struct run *r)
{
	struct loops *l = k->w->l;
	int64_t u = unit(k, axis);
	bool ragged = axis == k->s->lane && k->ragged;
	const struct ix *whole =
	    ragged ? ix_div(l, extent, ix_c(l, u)) : ix_div(l, ix_add(l, extent, ix_c(l, u - 1)), ix_c(l, u));
	const struct ix *all = ix_div(l, ix_add(l, extent, ix_c(l, u - 1)), ix_c(l, u));
	const struct ix *done = ix_c(l, 0), *main = ix_div(l, whole, ix_c(l, tile));
	int n = 0;
	if (tile > 1 || !ragged) {
		r[n++] = (struct run){ix_c(l, 0), main, tile, false, true};
		done = ix_mul(l, main, ix_c(l, tile));
	}
	if (tile >= 8) {
		const struct ix *four = ix_div(l, ix_mod(l, whole, ix_c(l, tile)), ix_c(l, 4));
		r[n++] = (struct run){ix_mul(l, done, ix_c(l, u)), four, 4, false, false};
		done = ix_add(l, done, ix_mul(l, four, ix_c(l, 4)));
	}
	if (tile > 1 || ragged)
		r[n++] =
		    (struct run){ix_mul(l, done, ix_c(l, u)), ix_sub(l, all, done), 1, ragged, tile == 1};
	return n;
}

static int make_runs(const struct nest *k, int axis, int tile, struct run *r)
{
	int64_t extent;
	if (ix_is_const(k->extent[axis], &extent))
		return runs_const(k, axis, extent, tile, r);
	return runs_symbolic(k, axis, k->extent[axis], tile, r);
}

/* Number of tiles of a spatial axis, a last smaller one or the run-time tail counting as one. */
static const struct ix *tile_count(const struct nest *k, int axis)
{
	struct loops *l = k->w->l;
	int64_t step = (int64_t)k->s->tile[axis] * unit(k, axis);
	int64_t extent;
	struct run r[MAX_RUNS];
	if (ix_is_const(k->extent[axis], &extent)) {
		int64_t n = 0, c;
		for (int i = runs_const(k, axis, extent, k->s->tile[axis], r); i-- > 0;)
			n += ix_is_const(r[i].count, &c) ? c : 0;
		return ix_c(l, n);
	}
	return ix_div(l, ix_add(l, k->extent[axis], ix_c(l, step - 1)), ix_c(l, step));
}

/* What is undone when a scope ends. */
struct scope {
	int nknown, hoisted;
};

static struct scope enter(const struct nest *k)
{
	return (struct scope){k->nknown, k->w->hoisted};
}

static void leave(struct nest *k, struct scope s)
{
	k->nknown = s.nknown;
	k->w->hoisted = s.hoisted;
}

static void bind(struct nest *k, int axis, const struct ix *base, int n, bool masked)
{
	k->base[axis] = base;
	k->n[axis] = n;
	k->bound |= 1u << axis;
	if (axis == k->s->lane)
		k->last_masked = masked;
}

static void unbind(struct nest *k, int axis)
{
	k->bound &= ~(1u << axis);
	k->base[axis] = NULL;
	k->n[axis] = 1;
	if (axis == k->s->lane)
		k->last_masked = false;
}

static const struct ix *run_base(const struct nest *k, int axis, const struct run *r, const struct ix *t)
{
	struct loops *l = k->w->l;
	return ix_add(l, r->start, ix_mul(l, t, ix_c(l, (int64_t)r->n * unit(k, axis))));
}

static void loops_from(struct nest *k, int i);

/* There are many full tiles for a smaller last one. */
static bool rest_seldom(const struct nest *k, int axis)
{
	int64_t extent;
	return !ix_is_const(k->extent[axis], &extent) ||
	       extent >= FEW_TILES * k->s->tile[axis] * unit(k, axis);
}

/* One run as a loop over its tiles [from, to). */
static void run_loop(struct nest *k, int i, const struct run *r, const struct ix *from, const struct ix *to)
{
	struct loops *l = k->w->l;
	const struct ix *t;
	int axis = k->loop[i].axis;
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, from, to, 1, false, &t);
	bind(k, axis, run_base(k, axis, r, t), r->n, r->masked);
	bool seldom = !r->main && rest_seldom(k, axis);
	k->rests += seldom;
	loops_from(k, i + 1);
	k->rests -= seldom;
	unbind(k, axis);
	for_end(l, f);
	leave(k, sc);
}

/* All tiles of an axis, or those of the block [from, to). */
static void tiles_serial(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	struct run r[MAX_RUNS];
	int axis = k->loop[i].axis, n = make_runs(k, axis, k->s->tile[axis], r);
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
		struct scope sc = enter(k);
		struct stmt *last = if_begin(l, ix_lt(l, main, to));
		run_loop(k, i, &r[j], ix_c(l, 0), r[j].count);
		if_end(l, last);
		leave(k, sc);
	}
}

/* One tile, its number given: a full one, or all that follows the full ones. */
static void tile_parallel(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	struct run r[MAX_RUNS];
	int axis = k->loop[i].axis, n = make_runs(k, axis, k->s->tile[axis], r);
	struct stmt *s = NULL;
	struct scope sc = enter(k);
	if (n && r[0].main) {
		if (n > 1)
			s = if_begin(l, ix_lt(l, k->par[i], r[0].count));
		bind(k, axis, run_base(k, axis, &r[0], k->par[i]), r[0].n, r[0].masked);
		loops_from(k, i + 1);
		unbind(k, axis);
		leave(k, sc);
	}
	if (s)
		if_else(l, s);
	for (int j = n && r[0].main; j < n; j++)
		run_loop(k, i, &r[j], ix_c(l, 0), r[j].count);
	if (s)
		if_end(l, s);
	leave(k, sc);
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
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), block_count(k, k->loop[i].axis), 1, false, &b);
	block(k, i, b);
	for_end(l, f);
	leave(k, sc);
}

/* Parts of a split reduction: a loop right inside of the parallel ones. */
static void split_parts(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int64_t extent = 0, part = k->s->split;
	ix_is_const(k->extent[k->s->split_axis], &extent);
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, (extent + part - 1) / part), 1, true, &k->part);
	loops_from(k, i);
	for_end(l, f);
	leave(k, sc);
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

/* ---- reduction ---- */

/* Steps of a body. Smaller last tiles that are seldom run take a compiler as long as others: one step, unless
 * chains take several in turn. */
static int steps(const struct nest *k, int axis)
{
	return k->rests && k->s->chains == 1 ? 1 : k->s->unroll[axis];
}

static void red_body(struct nest *k, int i, int axis, const struct ix *base, int n, bool masked)
{
	bind(k, axis, base, n, masked);
	nest_reduce(k, i + 1);
	unbind(k, axis);
}

static void red_loop(struct nest *k, int i, const struct ix *lo, const struct ix *hi, int step,
		     const struct ix *add)
{
	struct loops *l = k->w->l;
	const struct ix *v;
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, lo, hi, step, false, &v);
	red_body(k, i, k->red[i].axis, ix_add(l, add, v), step, false);
	for_end(l, f);
	leave(k, sc);
}

/* Bounds of this part of the axis: all of it, or the part of a split. */
static void red_bounds(const struct nest *k, int axis, const struct ix **lo, const struct ix **hi)
{
	struct loops *l = k->w->l;
	*lo = ix_c(l, 0);
	*hi = k->extent[axis];
	if (axis != k->s->split_axis)
		return;
	*lo = ix_mul(l, k->part, ix_c(l, k->s->split));
	*hi = ix_min(l, ix_add(l, *lo, ix_c(l, k->s->split)), k->extent[axis]);
}

static void red_plain(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int axis = k->red[i].axis, u = steps(k, axis);
	const struct ix *lo, *hi;
	int64_t extent;
	red_bounds(k, axis, &lo, &hi);
	if (axis == k->s->split_axis || !ix_is_const(hi, &extent) || extent % u == 0) {
		red_loop(k, i, lo, hi, u, ix_c(l, 0));
		return;
	}
	if (extent >= u)
		red_loop(k, i, lo, ix_c(l, extent / u * u), u, ix_c(l, 0));
	struct scope sc = enter(k);
	red_body(k, i, axis, ix_c(l, extent / u * u), (int)(extent % u), false);
	leave(k, sc);
}

/* Blocks of a split dim; the loop inside of a block is RED_INNER. */
static void red_outer(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int axis = k->red[i].axis;
	int64_t b = axis_block(k->w->t, k->st, axis);
	const struct ix *lo, *hi, *v;
	red_bounds(k, axis, &lo, &hi);
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, ix_div(l, lo, ix_c(l, b)),
				   ix_div(l, ix_add(l, hi, ix_c(l, b - 1)), ix_c(l, b)), 1, false, &v);
	k->high[axis] = ix_mul(l, v, ix_c(l, b));
	nest_reduce(k, i + 1);
	k->high[axis] = NULL;
	for_end(l, f);
	leave(k, sc);
}

static void red_inner(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int axis = k->red[i].axis;
	int64_t b = axis_block(k->w->t, k->st, axis), extent;
	const struct ix *end = ix_c(l, b);
	if (!ix_is_const(k->extent[axis], &extent) || extent % b)
		end = ix_min(l, end, ix_sub(l, k->extent[axis], k->high[axis]));
	red_loop(k, i, ix_c(l, 0), end, steps(k, axis), k->high[axis]);
}

static void red_lane(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	struct run r[MAX_RUNS];
	int axis = k->red[i].axis, n = make_runs(k, axis, k->s->unroll[axis], r);
	for (int j = 0; j < n; j++) {
		const struct ix *t;
		struct scope sc = enter(k);
		struct stmt *f = for_begin(l, ix_c(l, 0), r[j].count, 1, false, &t);
		red_body(k, i, axis, run_base(k, axis, &r[j], t), r[j].n, r[j].masked);
		for_end(l, f);
		leave(k, sc);
	}
}

/* Iterations of a loop of the same body each time; 0: not known, or it has a last part. */
static int64_t trips(const struct nest *k, int i)
{
	int axis = k->red[i].axis;
	int64_t extent,
	    step = k->red[i].kind == RED_OUTER ? axis_block(k->w->t, k->st, axis) : steps(k, axis);
	if (k->red[i].kind > RED_OUTER || axis == k->s->split_axis || !ix_is_const(k->extent[axis], &extent))
		return 0;
	return k->red[i].kind == RED_OUTER ? (extent + step - 1) / step : extent % step ? 0 : extent / step;
}

/* Loops from i on that can be one, as far as another is inside of them and nothing can be loaded between
 * them. */
static int joinable(const struct nest *k, int i)
{
	int n = 0;
	while (i + n + 1 < k->nred && trips(k, i + n)) {
		unsigned moving = 0;
		for (int r = 0; r < k->st->nreads; r++)
			moving |= n && stage_in_body(k->st, r) && !(k->axes[r] >> k->red[i + n].axis & 1);
		if (moving || (k->guarded && !k->unguard))
			break;
		n++;
	}
	return n;
}

/* n loops as one over the product of their iterations: each loop hands on every sum of the tile, which takes
 * a compiler longer than a few divisions an iteration take the kernel. */
static void red_joined(struct nest *k, int i, int n)
{
	struct loops *l = k->w->l;
	const struct ix *v;
	int64_t all = 1;
	for (int j = 0; j < n; j++)
		all *= trips(k, i + j);
	struct scope sc = enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, all), 1, true, &v);
	for (int j = i + n - 1; j >= i; j--) {
		int axis = k->red[j].axis;
		const struct ix *count = ix_c(l, trips(k, j)), *next = ix_div(l, v, count), *at = v;
		if (j > i) /* v % count, as terms that join others in an address */
			at = ix_sub(l, v, ix_mul(l, next, count));
		if (k->red[j].kind == RED_OUTER)
			k->high[axis] = ix_mul(l, at, ix_c(l, axis_block(k->w->t, k->st, axis)));
		else
			bind(k, axis, ix_mul(l, at, ix_c(l, steps(k, axis))), steps(k, axis), false);
		v = next;
	}
	nest_reduce(k, i + n);
	for (int j = i; j < i + n; j++) {
		k->high[k->red[j].axis] = NULL;
		if (k->red[j].kind == RED_PLAIN)
			unbind(k, k->red[j].axis);
	}
	for_end(l, f);
	leave(k, sc);
}

void nest_reduce(struct nest *k, int i)
{
	static void (*const kind[])(struct nest *, int) = {red_plain, red_outer, red_inner, red_lane};
	nest_hoist(k);
	if (i == k->nred) {
		nest_steps(k);
		return;
	}
	int n = joinable(k, i);
	if (n > 1)
		red_joined(k, i, n);
	else
		kind[k->red[i].kind](k, i);
}

bool nest_next(const struct nest *k, int from, int to, int *at)
{
	int lane = k->s->lane;
	if (lane >= from && lane < to && ++at[lane] < k->n[lane])
		return true;
	if (lane >= from && lane < to)
		at[lane] = 0;
	for (int a = to - 1; a >= from; a--) {
		if (a == lane)
			continue;
		if (++at[a] < k->n[a])
			return true;
		at[a] = 0;
	}
	return false;
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

/* Reduction loops: blocks stay where the order puts them, the loops inside of blocks come last; full unrolls
 * have none. */
static void list_reductions(struct nest *k)
{
	struct loops *l = k->w->l;
	for (int pass = 0; pass < 2; pass++)
		for (int i = k->ns; i < k->st->naxes; i++) {
			int a = k->s->order[i];
			int64_t b = axis_block(k->w->t, k->st, a), e = -1;
			enum red_kind kind = RED_PLAIN;
			bool fixed = ix_is_const(k->extent[a], &e);
			if (a == k->s->lane)
				kind = RED_LANE;
			else if (fixed && e == k->s->unroll[a]) {
				bind(k, a, ix_c(l, 0), (int)e, false);
				continue;
			} else if (b > 1 && (!fixed || e > b))
				kind = pass ? RED_INNER : RED_OUTER;
			if (pass == (kind == RED_LANE || kind == RED_INNER)) {
				k->red[k->nred].axis = a;
				k->red[k->nred++].kind = kind;
			}
		}
}

/* The parallel extent, and the index of each parallel loop from the entry's variable. */
static void parallel_loops(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct ix *count[2 * MAX_AXES], *extent = ix_c(l, 1);
	for (int i = 0; i < k->s->par; i++) {
		int a = k->loop[i].axis;
		count[i] = k->loop[i].outer ? block_count(k, a) : tile_count(k, a);
		extent = ix_mul(l, extent, count[i]);
	}
	int e = loops_entry(l, extent);
	const struct ix *p = ix_var(l, l->entry[e].var);
	for (int i = k->s->par - 1; i >= 0; i--) {
		k->par[i] = i ? ix_mod(l, p, count[i]) : p;
		p = ix_div(l, p, count[i]);
	}
}

void nest_stage(struct nest *k)
{
	list_loops(k);
	bool alone = k->w->t->nstages == 1;
	if (alone)
		parallel_loops(k);
	if (k->w->ones && alone)
		lower_ones(k->w);
	list_reductions(k);
	loops_from(k, 0);
	if (alone)
		loops_entry_end(k->w->l);
}
