/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/relax_parts.h"
#include "kernels/space/frag.h"

#include <math.h>
#include <string.h>

enum {
	MOST_TILE = 32,  /* points or vectors of one axis in a register tile */
	MOST_STEPS = 16, /* steps of one axis in a body */
	MOST_CHAINS = 8,
	MOST_ROWS = 16, /* rows of a ring */
	MOST_BLOCKS = 1 << 20,
	MOST_GROUP = 512,
};

/* ---- which numbers vary ---- */

void relax_add(struct relax *r, enum relax_kind kind, int stage, int axis, int64_t low, int64_t top)
{
	if (r->n < RELAX_MAX && top > low)
		r->var[r->n++] = (struct relax_var){kind, stage, axis, low, top};
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t units_of(const struct relax *r, int stage, int axis)
{
	const struct sstage *s = &r->sketch.st[stage];
	int64_t extent = extent_guess(r->space->t->stage[stage].axis[axis].extent);
	return ceil_div(extent, axis == s->lane ? s->lanes : 1);
}

/* Whether shuffled accesses require exactly this tile. */
static bool tile_given(const struct relax *r, int stage, int axis)
{
	const struct task *t = r->space->t;
	const struct stage *st = &t->stage[stage];
	const struct sstage *s = &r->sketch.st[stage];
	if (s->tile[axis] > 1 && (store_weaves(t, st, s) == axis || store_turns(t, st, s) == axis))
		return true;
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i) && read_crosses(t, st, &st->read[i], s) == axis)
			return true;
	return axis == rules_rows(r->space, stage) && !rules_row_tiles(r->space, stage);
}

static void add_tiles(struct relax *r, int k)
{
	const struct task *t = r->space->t;
	const struct sstage *s = &r->sketch.st[k];
	int first = sched_shared(t, r->sketch.st[t->nstages - 1].ring_axis);
	for (int a = first; a < stage_spatial(&t->stage[k]); a++) {
		int64_t units = units_of(r, k, a);
		if (!tile_given(r, k, a))
			relax_add(r, RELAX_TILE, k, a, 1, larger(smaller(units, MOST_TILE), s->tile[a]));
		if (s->outer[a] && s->block[a])
			relax_add(r, RELAX_BLOCK, k, a, 1, larger(smaller(units, MOST_BLOCKS), s->block[a]));
	}
}

static void add_steps(struct relax *r, int k)
{
	const struct stage *st = &r->space->t->stage[k];
	const struct sstage *s = &r->sketch.st[k];
	int64_t steps = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		int64_t e = st->axis[a].extent, top = e;
		steps *= s->unroll[a];
		if (IS_SYM(e) || s->unroll[a] == e)
			continue;
		top = larger(smaller(a == s->lane ? e / s->lanes : e, MOST_STEPS), s->unroll[a]);
		relax_add(r, RELAX_UNROLL, k, a, 1, top);
		steps *= larger(top, 1);
		if (a == s->split_axis)
			relax_add(r, RELAX_SPLIT, k, a, axis_block(r->space->t, st, a),
				  larger(e / 2, s->split));
	}
	if (st->comb != COMB_NONE && s->split_axis < 0)
		relax_add(r, RELAX_CHAINS, k, 0, 1, larger(smaller(steps, MOST_CHAINS), s->chains));
}

static void add_all(struct relax *r)
{
	const struct task *t = r->space->t;
	const struct sstage *last = &r->sketch.st[t->nstages - 1];
	if (r->sketch.st[0].wino.m) {
		relax_winograd_vars(r);
		return;
	}
	if (last->ring_axis >= 0)
		relax_add(
		    r, RELAX_RING, t->nstages - 1, last->ring_axis, 1,
		    larger(smaller(units_of(r, t->nstages - 1, last->ring_axis), MOST_ROWS), last->ring));
	for (int k = 0; k < t->nstages; k++)
		add_tiles(r, k);
	for (int k = 0; k < t->nstages; k++)
		add_steps(r, k);
	if (last->down_axis >= 0) { /* of a task of one stage */
		int64_t tiles = smaller(units_of(r, 0, last->down_axis), SCHED_DOWN);
		relax_add(r, RELAX_DOWN, 0, last->down_axis, 2, larger(tiles, last->down));
	}
	if (last->group)
		relax_add(r, RELAX_GROUP, t->nstages - 1, 0, LEAST_GROUP,
			  larger(smaller(r->space->tg.group, MOST_GROUP), last->group));
}

struct relax *relax_new(struct arena *a)
{
	struct relax *r = ARENA_NEW(a, struct relax);
	r->tape.arena = a;
	return r;
}

int relax_sketch(struct relax *r, const struct space *s, const char *cand)
{
	int rc = space_legal(s, cand);
	s = rules_space(s, cand);
	if (rc < 0 || (rc = sched_parse(s->t, cand, &r->sketch)) < 0)
		return rc;
	if (stage_threads(&s->t->stage[0], &r->sketch.st[0]) > 1 || sched_frags(s->t, &r->sketch) ||
	    (r->sketch.st[0].wino.m && target_runs_items(&s->tg)))
		return fail(E_NOTFOUND, "the smooth draft knows no threads");
	r->space = s;
	r->n = 0;
	for (int k = 0; k < s->t->nstages; k++)
		draft_open(&r->draft[k], s->t, &s->tg, k, &r->sketch.st[k]);
	add_all(r);
	return r->n ? E_OK : fail(E_NOTFOUND, "no number of this schedule can vary");
}

int relax_size(const struct relax *r)
{
	return r->n;
}

void relax_range(const struct relax *r, int i, double *low, double *top)
{
	*low = log((double)r->var[i].low);
	*top = log((double)r->var[i].top);
}

/* ---- numbers of a schedule ---- */

static int64_t number(const struct sched *c, const struct relax_var *v)
{
	const struct sstage *s = &c->st[v->stage];
	switch (v->kind) {
	case RELAX_TILE:
		return s->tile[v->axis];
	case RELAX_UNROLL:
		return s->unroll[v->axis];
	case RELAX_CHAINS:
		return s->chains;
	case RELAX_BLOCK:
		return s->block[v->axis];
	case RELAX_SPLIT:
		return s->split;
	case RELAX_RING:
		return s->ring;
	case RELAX_GROUP:
		return s->group;
	case RELAX_DOWN:
		return s->down;
	default:
		return *relax_winograd_number((struct winograd *)&s->wino, v->kind);
	}
}

void relax_set(struct sched *c, const struct relax_var *v, int64_t to)
{
	struct sstage *s = &c->st[v->stage];
	switch (v->kind) {
	case RELAX_TILE:
		s->tile[v->axis] = (int)to;
		break;
	case RELAX_UNROLL:
		s->unroll[v->axis] = (int)to;
		break;
	case RELAX_CHAINS:
		s->chains = (int)to;
		break;
	case RELAX_BLOCK:
		s->block[v->axis] = to;
		break;
	case RELAX_SPLIT:
		s->split = to;
		break;
	case RELAX_GROUP:
		s->group = (int)to;
		break;
	case RELAX_DOWN:
		s->down = (int)to;
		break;
	case RELAX_RING: /* keeps the rows per parallel index */
		s->block[v->axis] = s->block[v->axis] ? ceil_div(s->block[v->axis] * s->ring, to) : 0;
		s->ring = (int)to;
		break;
	default:
		*relax_winograd_number(&s->wino, v->kind) = (int)to;
	}
}

void relax_start(const struct relax *r, double *x)
{
	for (int i = 0; i < r->n; i++)
		x[i] = log((double)number(&r->sketch, &r->var[i]));
}

/* ---- cost ---- */

static void constants(const struct relax *r, struct relaxed *v)
{
	for (int k = 0; k < r->space->t->nstages; k++) {
		const struct sstage *s = &r->sketch.st[k];
		struct relaxed_stage *n = &v->st[k];
		int ns = stage_spatial(&r->space->t->stage[k]);
		for (int a = 0; a < r->space->t->stage[k].naxes; a++) {
			n->tile[a] = num(a < ns ? s->tile[a] : s->unroll[a]);
			n->block[a] = num((double)s->block[a]);
		}
		n->split = num((double)s->split);
		n->chains = num(s->chains);
		n->rows = num(s->ring);
		n->group = num(s->group);
		n->down = num(s->down);
	}
	v->wino = (struct relaxed_winograd){num(r->sketch.st[0].wino.tiles), num(r->sketch.st[0].wino.px),
					    num(r->sketch.st[0].wino.kv), num(r->sketch.st[0].wino.chunk),
					    num(r->sketch.st[0].wino.parts)};
}

static struct num *place(struct relaxed *v, const struct relax_var *at)
{
	struct relaxed_stage *s = &v->st[at->stage];
	struct num *const of[RELAX_KINDS] = {
	    [RELAX_TILE] = &s->tile[at->axis],   [RELAX_UNROLL] = &s->tile[at->axis],
	    [RELAX_CHAINS] = &s->chains,         [RELAX_BLOCK] = &s->block[at->axis],
	    [RELAX_SPLIT] = &s->split,           [RELAX_RING] = &s->rows,
	    [RELAX_GROUP] = &s->group,           [RELAX_DOWN] = &s->down,
	    [RELAX_WINO_TILES] = &v->wino.tiles, [RELAX_WINO_PX] = &v->wino.px,
	    [RELAX_WINO_KV] = &v->wino.kv,       [RELAX_WINO_CHUNK] = &v->wino.chunk,
	    [RELAX_WINO_PARTS] = &v->wino.parts};
	return of[at->kind];
}

static void open_point(struct relax *r, const double *x, struct relaxed *v)
{
	struct num leaf[RELAX_MAX];
	v->r = r;
	v->p = &r->tape;
	tape_start(&r->tape);
	constants(r, v);
	for (int i = 0; i < r->n; i++)
		leaf[i] = tape_variable(&r->tape, x[i]);
	for (int i = 0; i < r->n; i++)
		*place(v, &r->var[i]) = num_exp(&r->tape, leaf[i]);
}

static double close_point(struct relax *r, struct num y, double *grad)
{
	if (!grad)
		return y.v;
	tape_gradient(&r->tape, y, r->n, grad);
	for (int i = 0; i < r->n; i++)
		if (!isfinite(grad[i]))
			grad[i] = 0;
	return y.v;
}

/* Parallel indexes along a ring. */
static struct num ring_chunks(const struct relaxed *v)
{
	const struct task *t = v->r->space->t;
	const struct sstage *last = &v->r->sketch.st[t->nstages - 1];
	const struct relaxed_stage *l = &v->st[t->nstages - 1];
	if (!last->block[last->ring_axis])
		return num(1);
	struct num rows = num((double)extent_guess(t->stage[t->nstages - 1].axis[last->ring_axis].extent)),
		   steps = num_div(v->p, rows, l->rows);
	return num_max(v->p, num(1), num_ceil(v->p, num_div(v->p, steps, l->block[last->ring_axis])));
}

/* Cycles of a stage in a ring: its cost for the rows of one step, times the number of steps. */
static struct num stage_cycles(const struct relaxed *v, int k, const struct ring *ring, struct num chunks)
{
	const struct task *t = v->r->space->t;
	int axis = ring->st[k].axis;
	if (axis < 0)
		return num_mul(v->p, relax_stage_cost(v, k, -1, num(0)), chunks);
	double extent = (double)t->stage[k].axis[axis].extent, again = (double)ring_again(ring, k);
	struct num rows = num_scale(v->p, v->st[t->nstages - 1].rows, (double)ring->st[k].step);
	if (rows.v >= extent)
		return relax_stage_cost(v, k, -1, num(0));
	struct num once = relax_stage_cost(v, k, axis, rows), all = num_scale(v->p, chunks, again);
	all.v += extent - again;
	return num_mul(v->p, once, num_div(v->p, all, rows));
}

double relax_cost(struct relax *r, const double *x, double *grad)
{
	struct relaxed v;
	struct ring ring;
	const struct task *t = r->space->t;
	const struct sstage *last = &r->sketch.st[t->nstages - 1];
	open_point(r, x, &v);
	bool rings = last->ring_axis >= 0 && task_ring(t, last->ring_axis, last->ring, &ring) >= 0;
	for (int k = 0; k < MAX_STAGES && !rings; k++)
		ring.st[k].axis = -1;
	struct num cycles = num(0), chunks = rings ? ring_chunks(&v) : num(1);
	for (int k = 0; k < t->nstages && !last->wino.m; k++)
		cycles = num_add(v.p, cycles, stage_cycles(&v, k, &ring, chunks));
	if (r->sketch.st[0].wino.m)
		cycles = relax_winograd_cost(&v);
	if (!isfinite(cycles.v) || cycles.v <= 0) {
		memset(grad, 0, grad ? sizeof *grad * (size_t)r->n : 0);
		return HUGE_VAL;
	}
	return close_point(r, num_log(v.p, cycles), grad);
}

double relax_penalty(struct relax *r, const double *x, double *grad)
{
	struct relaxed v;
	open_point(r, x, &v);
	struct num sum = num(0);
	if (r->sketch.st[0].wino.m)
		sum = relax_winograd_penalty(&v);
	for (int k = 0; k < r->space->t->nstages && !r->sketch.st[0].wino.m; k++)
		sum = num_add(v.p, sum, relax_stage_penalty(&v, k));
	return close_point(r, sum, grad);
}
