/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of a reduction around the body of a tile. */
#include "kernels/loops/lower_parts.h"
#include "kernels/space/draft.h"

/* Lists the reduction loops: loops over blocks stay where the order puts them, loops inside of blocks come
 * last; fully unrolled axes have no loop. */
void nest_list_reductions(struct nest *k)
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
				nest_bind(k, a, ix_c(l, 0), (int)e, false);
				continue;
			} else if (b > 1 && (!fixed || e > b))
				kind = pass ? RED_INNER : RED_OUTER;
			if (pass == (kind == RED_LANE || kind == RED_INNER)) {
				k->red[k->nred].axis = a;
				k->red[k->nred++].kind = kind;
			}
		}
}

/* The channels of a loop in assembly (kernels/emit/llvm_pipe.c) for the tile that is bound. */
static bool pipes(const struct nest *k, int axis)
{
	return draft_pipes(k->w->t, k->w->tg, k->st, k->s, k->n) == axis;
}

/* Steps of a body. Smaller last tiles run seldom but take as long to compile: they get one step, unless
 * chains take several steps in turn, products of matrices need two, or a loop in assembly all four, without
 * which a tile takes three times as long. */
static int steps(const struct nest *k, int axis)
{
	bool whole = k->s->chains > 1 || (k->s->mmla && axis == k->mmla.group) ||
		     (k->rests && k->s->unroll[axis] == PIPED_CHANNELS && pipes(k, axis));
	return k->rests && !whole ? 1 : k->s->unroll[axis];
}

static void red_body(struct nest *k, int i, int axis, const struct ix *base, int n, bool masked)
{
	nest_bind(k, axis, base, n, masked);
	nest_reduce(k, i + 1);
	nest_unbind(k, axis);
}

int nest_red_step(const struct nest *k, int i)
{
	return k->red[i].kind == RED_OUTER ? 1 : steps(k, k->red[i].axis);
}

/* A loop of the reduction; `chunks` is around it if some of its iterations are summed in f16 at a time. */
struct red_for {
	struct stmt *chunks, *loop;
};

static struct red_for red_begin(struct nest *k, int i, const struct ix *lo, const struct ix *hi, int step,
				const struct ix **v)
{
	struct loops *l = k->w->l;
	struct red_for f = {NULL, NULL};
	int64_t all, chunk = k->chunk_trips * step;
	if (team_divides(k, i)) {
		lo = ix_add(l, lo, ix_mul(l, k->member, ix_c(l, step)));
		step *= k->team;
	}
	if (i != k->chunk || k->chunk_trips == 1) {
		f.loop = for_begin(l, lo, hi, step, false, v);
		if (i == k->chunk)
			half_clear(k);
		return f;
	}
	const struct ix *from, *to;
	bool even = ix_is_const(ix_sub(l, hi, lo), &all) && all % chunk == 0;
	f.chunks = for_begin(l, lo, hi, chunk, false, &from);
	half_clear(k);
	to = ix_add(l, from, ix_c(l, chunk));
	f.loop = for_begin(l, from, even ? to : ix_min(l, to, hi), step, true, v);
	return f;
}

static void red_end(struct nest *k, int i, struct red_for f)
{
	struct loops *l = k->w->l;
	if (f.chunks)
		for_end(l, f.loop);
	if (i == k->chunk)
		half_add(k);
	for_end(l, f.chunks ? f.chunks : f.loop);
}

static void red_loop(struct nest *k, int i, const struct ix *lo, const struct ix *hi, int step,
		     const struct ix *add)
{
	const struct ix *v;
	struct scope sc = nest_enter(k);
	struct red_for f = red_begin(k, i, lo, hi, step, &v);
	red_body(k, i, k->red[i].axis, ix_add(k->w->l, add, v), step, false);
	red_end(k, i, f);
	nest_leave(k, sc);
}

/* Bounds of the axis: all of it, or the current part of a split; from share_first on, what the boxes have. */
static void red_bounds(const struct nest *k, int axis, const struct ix **lo, const struct ix **hi)
{
	struct loops *l = k->w->l;
	*lo = ix_c(l, 0);
	*hi = k->extent[axis];
	if (axis == k->s->share_axis)
		*hi = ix_c(l, k->s->share);
	if (axis != k->s->split_axis || axis == k->s->share_axis)
		return;
	*lo = ix_mul(l, k->part, ix_c(l, k->s->split));
	*hi = ix_min(l, ix_add(l, *lo, ix_c(l, k->s->split)), k->extent[axis]);
}

static const struct ix *share_first(const struct nest *k, int axis)
{
	return axis == k->s->share_axis ? k->share_at : ix_c(k->w->l, 0);
}

static void red_plain(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int axis = k->red[i].axis, u = steps(k, axis);
	const struct ix *lo, *hi;
	int64_t extent;
	red_bounds(k, axis, &lo, &hi);
	if (axis == k->s->split_axis || !ix_is_const(hi, &extent) || extent % u == 0) {
		red_loop(k, i, lo, hi, u, share_first(k, axis));
		return;
	}
	if (extent >= u)
		red_loop(k, i, lo, ix_c(l, extent / u * u), u, ix_c(l, 0));
	struct scope sc = nest_enter(k);
	struct stmt *last = team_divides(k, i) ? if_begin(l, ix_eq(l, k->member, ix_c(l, 0))) : NULL;
	if (i == k->chunk)
		half_clear(k);
	red_body(k, i, axis, ix_c(l, extent / u * u), (int)(extent % u), false);
	if (i == k->chunk)
		half_add(k);
	if (last)
		if_end(l, last);
	nest_leave(k, sc);
}

/* The loop over blocks of a split dim; the loop inside of a block is RED_INNER. */
static void red_outer(struct nest *k, int i)
{
	struct loops *l = k->w->l;
	int axis = k->red[i].axis;
	int64_t b = axis_block(k->w->t, k->st, axis);
	const struct ix *lo, *hi, *v;
	red_bounds(k, axis, &lo, &hi);
	struct scope sc = nest_enter(k);
	struct red_for f = red_begin(k, i, ix_div(l, lo, ix_c(l, b)),
				     ix_div(l, ix_add(l, hi, ix_c(l, b - 1)), ix_c(l, b)), 1, &v);
	k->high[axis] = ix_add(l, share_first(k, axis), ix_mul(l, v, ix_c(l, b)));
	nest_reduce(k, i + 1);
	k->high[axis] = NULL;
	red_end(k, i, f);
	nest_leave(k, sc);
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
	int axis = k->red[i].axis, n = nest_runs(k, axis, k->s->unroll[axis], r);
	for (int j = 0; j < n; j++) {
		const struct ix *t;
		struct scope sc = nest_enter(k);
		bool divides = team_divides(k, i);
		struct stmt *f = for_begin(l, divides ? k->member : ix_c(l, 0), r[j].count,
					   divides ? k->team : 1, false, &t);
		red_body(k, i, axis, nest_run_base(k, axis, &r[j], t), r[j].n, r[j].masked);
		for_end(l, f);
		nest_leave(k, sc);
	}
}

/* Iterations of a loop whose body is always the same; 0: not known, or it has a shorter last part. */
static int64_t trips(const struct nest *k, int i)
{
	int axis = k->red[i].axis;
	int64_t extent,
	    step = k->red[i].kind == RED_OUTER ? axis_block(k->w->t, k->st, axis) : steps(k, axis);
	if (k->red[i].kind > RED_OUTER || axis == k->s->split_axis || !ix_is_const(k->extent[axis], &extent))
		return 0;
	return k->red[i].kind == RED_OUTER ? (extent + step - 1) / step : extent % step ? 0 : extent / step;
}

/* Whether loop i over channels is inside of more taps than a loop in assembly may have steps for: it is such
 * a loop by itself (kernels/emit/llvm_pipe.c). */
static bool pipes_alone(const struct nest *k, int i, int64_t around)
{
	return around > PIPED_STEPS && k->red[i].kind == RED_OUTER && i + 2 == k->nred &&
	       pipes(k, k->red[i].axis);
}

/* Number of loops from i on that can be joined into one: another loop must be inside of them, no load may
 * move between them, and none of them is the one whose iterations are summed in f16. */
static int joinable(const struct nest *k, int i)
{
	int n = 0;
	int64_t all = 1;
	while (i + n + 1 < k->nred && i + n != k->chunk && k->red[i + n].axis != k->s->share_axis &&
	       !team_divides(k, i + n) && trips(k, i + n) && !pipes_alone(k, i + n, all)) {
		unsigned moving = 0;
		for (int r = 0; r < k->st->nreads; r++)
			moving |= n && stage_in_body(k->st, r) && !(k->axes[r] >> k->red[i + n].axis & 1);
		if (moving || (k->guarded && !k->unguard))
			break;
		all *= trips(k, i + n);
		n++;
	}
	return n;
}

/* Joins n loops into one over the product of their iterations: each loop carries every sum of the tile, which
 * costs the compiler more time than a few divisions per iteration cost the kernel. */
static void red_joined(struct nest *k, int i, int n)
{
	struct loops *l = k->w->l;
	const struct ix *v;
	int64_t all = 1;
	for (int j = 0; j < n; j++)
		all *= trips(k, i + j);
	struct scope sc = nest_enter(k);
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, all), 1, true, &v);
	for (int j = i + n - 1; j >= i; j--) {
		int axis = k->red[j].axis;
		const struct ix *count = ix_c(l, trips(k, j)), *next = ix_div(l, v, count), *at = v;
		if (j > i) /* v % count, written as terms that can merge with others in an address */
			at = ix_sub(l, v, ix_mul(l, next, count));
		if (k->red[j].kind == RED_OUTER)
			k->high[axis] = ix_mul(l, at, ix_c(l, axis_block(k->w->t, k->st, axis)));
		else
			nest_bind(k, axis, ix_mul(l, at, ix_c(l, steps(k, axis))), steps(k, axis), false);
		v = next;
	}
	nest_reduce(k, i + n);
	for (int j = i; j < i + n; j++) {
		k->high[k->red[j].axis] = NULL;
		if (k->red[j].kind == RED_PLAIN)
			nest_unbind(k, k->red[j].axis);
	}
	for_end(l, f);
	nest_leave(k, sc);
}

void nest_reduce(struct nest *k, int i)
{
	static void (*const kind[])(struct nest *, int) = {red_plain, red_outer, red_inner, red_lane};
	if (k->thread && !k->share_at) {
		share_reduce(k);
		return;
	}
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

int nest_point(const struct nest *k, const int *at)
{
	int i = 0, lane = k->s->lane;
	for (int a = 0; a < k->ns; a++)
		i = a == lane ? i : i * k->n[a] + at[a];
	return i * k->n[lane] + at[lane];
}
