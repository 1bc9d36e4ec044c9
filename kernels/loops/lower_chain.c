/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a chain, one after the other in one entry, with their intermediates in thread scratch.
 *
 * Without a ring, each index of the shared leading axes runs every stage as a whole. With a ring, a parallel
 * index is a chunk of the last stage's rows, and
 *
 *   for o in chunk step N: for each stage: its rows that [o, o + N) needs and that step o - N has not left
 *
 * where an intermediate holds as many rows as one step needs, row y in slot (y + lo) mod held. Intermediates
 * that are not read by rows are computed before. Every chunk starts from nothing: rows in the overlap of two
 * chunks are computed twice. Halos of intermediates are filled, columns once per chunk and rows when the
 * window reaches them, so that no read of them needs a guard.
 *
 * With threads, each block of them runs the stages for one index of the shared axes, and they meet between
 * two stages; intermediates are in a shared buffer instead of scratch. */
#include "kernels/loops/lower_parts.h"

static unsigned shared_dims(const struct lower *w, int operand)
{
	unsigned mask = 0;
	for (int s = 0; s < w->t->nstages; s++) {
		const struct read *r = &w->t->stage[s].out;
		for (int d = 0; d < MAX_RANK && r->operand == operand; d++)
			for (int a = 0; a < w->shared; a++)
				if (r->dim[d].coef[a])
					mask |= 1u << d;
	}
	return mask;
}

const struct ix *chain_tmp(struct lower *w, int operand)
{
	bool ring = w->ring.rows != 0;
	return lower_layout(w, &w->t->operand[operand], &w->at[operand], shared_dims(w, operand),
			    ring ? w->ring.dim[operand] : -1, ring ? w->ring.held[operand] : 0);
}

/* ---- elements that no stage writes ---- */

/* A box of elements of an intermediate: indexes [from, to), halo included, of dim `dim`, and all of the other
 * dims; dim -1: everything. */
struct box {
	int operand, dim;
	const struct ix *from, *to;
};

/* Number of lanes of the stores along the innermost physical axis. */
static int box_lanes(const struct lower *w, const struct box *b)
{
	const struct lower_place *p = &w->at[b->operand];
	int64_t n;
	int lanes = w->tg->lanes;
	if (!p->n || p->ax[p->n - 1].dim == b->dim || !ix_is_const(p->ax[p->n - 1].extent, &n))
		return 1;
	while (lanes > 1 && n % lanes)
		lanes /= 2;
	return lanes;
}

static void fill_box(struct lower *w, const struct box *b)
{
	struct loops *l = w->l;
	const struct lower_place *p = &w->at[b->operand];
	bool bytes = dtype_is_byte(w->t->operand[b->operand].dtype);
	int lanes = box_lanes(w, b), v = bytes ? lv_new_s32(l, lanes) : lv_new(l, lanes);
	const struct ix *at = p->base;
	struct stmt *f[MAX_SPLITS];
	if (bytes)
		lv_const_s32(l, v, (int32_t)w->t->operand[b->operand].fill);
	else
		lv_const(l, v, w->t->operand[b->operand].fill);
	for (int j = 0; j < p->n; j++) {
		bool in = p->ax[j].dim == b->dim, last = j == p->n - 1;
		const struct ix *x;
		f[j] = for_begin(l, in ? b->from : ix_c(l, 0), in ? b->to : p->ax[j].extent, last ? lanes : 1,
				 !in, &x);
		if (in && p->ax[j].mod)
			x = ix_mod(l, x, ix_c(l, p->ax[j].mod));
		at = ix_add(l, at, ix_mul(l, x, p->ax[j].stride));
	}
	struct mem m = {.buf = p->buf, .at = at, .stride = 1};
	lv_store(l, v, nest_scratch(&w->t->operand[b->operand], m));
	for (int j = p->n - 1; j >= 0; j--)
		for_end(l, f[j]);
}

/* Fills rows [from, to), without halo, of a ring. */
static void fill_rows(struct lower *w, int operand, const struct ix *from, const struct ix *to)
{
	int d = w->ring.dim[operand];
	const struct ix *lo = w->at[operand].lo[d];
	fill_box(w, &(struct box){operand, d, ix_add(w->l, from, lo), ix_add(w->l, to, lo)});
}

/* Whether the writer's vectors leave out padding lanes of a split dim, which then must be filled: a reader
 * must find finite values there. */
static bool leaves_lanes(const struct lower *w, int stage)
{
	const struct stage *st = &w->t->stage[stage];
	const struct sstage *s = &w->s.st[stage];
	const struct operand *o = &w->t->operand[st->out.operand];
	for (int j = 0; j < o->layout.n; j++) {
		int64_t b = o->layout.ax[j].div, n = o->dims.d[o->layout.ax[j].dim];
		bool along = s->lane >= 0 && st->out.dim[o->layout.ax[j].dim].coef[s->lane];
		int64_t written = along ? (n + s->lanes - 1) / s->lanes * s->lanes : n;
		if (b > 1 && written < (n + b - 1) / b * b)
			return true;
	}
	return false;
}

/* Fills the halos at the start of each parallel index. */
static void fill_halos(struct lower *w, int stage)
{
	struct loops *l = w->l;
	int i = w->t->stage[stage].out.operand;
	const struct operand *o = &w->t->operand[i];
	const struct lower_place *p = &w->at[i];
	if (leaves_lanes(w, stage)) {
		fill_box(w, &(struct box){i, -1, NULL, NULL});
		return;
	}
	for (int d = 0; d < o->dims.rank; d++) {
		const struct ix *end = ix_add(l, p->lo[d], p->size[d]);
		if (w->ring.rows && d == w->ring.dim[i])
			continue;
		if (o->layout.lo[d])
			fill_box(w, &(struct box){i, d, ix_c(l, 0), p->lo[d]});
		if (o->layout.hi[d])
			fill_box(w, &(struct box){i, d, end, ix_add(l, end, p->hi[d])});
	}
}

/* ---- stages ---- */

static const struct ix *times(struct loops *l, const struct ix *x, int64_t by, int64_t plus)
{
	return ix_add(l, ix_mul(l, x, ix_c(l, by)), ix_c(l, plus));
}

/* Computes rows [from, to) of a stage; rows outside of its axis get the fill value. */
static void stage_rows(struct lower *w, struct nest *k, int stage, const struct ix *from, const struct ix *to)
{
	struct loops *l = w->l;
	int axis = w->ring.st[stage].axis, i = k->st->out.operand;
	const struct ix *zero = ix_c(l, 0), *end = k->extent[axis];
	if (w->t->operand[i].role == ROLE_TMP) {
		const struct ix *lo = w->at[i].lo[w->ring.dim[i]], *hi = w->at[i].hi[w->ring.dim[i]];
		if (w->t->operand[i].layout.lo[w->ring.dim[i]])
			fill_rows(w, i, ix_max(l, from, ix_sub(l, zero, lo)), ix_min(l, to, zero));
		if (w->t->operand[i].layout.hi[w->ring.dim[i]])
			fill_rows(w, i, ix_max(l, from, end), ix_min(l, to, ix_add(l, end, hi)));
	}
	const struct ix *tile = ix_c(l, k->s->tile[axis]); /* a step has whole tiles of rows */
	k->from[axis] = ix_div(l, ix_max(l, from, zero), tile);
	k->to[axis] = ix_div(l, ix_add(l, ix_min(l, to, end), ix_sub(l, tile, ix_c(l, 1))), tile);
	w->hoisted = 0;
	nest_stage(k);
}

/* Computes rows [first, last) of the last stage. */
static void ring_steps(struct lower *w, struct nest **k, const struct ix *first, const struct ix *last)
{
	struct loops *l = w->l;
	const struct ix *o;
	struct stmt *f = for_begin(l, first, last, w->ring.rows, false, &o);
	const struct ix *end = ix_min(l, ix_add(l, o, ix_c(l, w->ring.rows)), last);
	for (int s = 0; s < w->t->nstages; s++) {
		if (w->ring.st[s].axis < 0)
			continue;
		int64_t step = w->ring.st[s].step, lo = w->ring.st[s].lo, hi = w->ring.st[s].hi,
			left = hi - lo + 1 - step; /* rows that the previous step has left */
		const struct ix *from = times(l, o, step, lo), *again = ix_lt(l, first, o);
		if (left > 0)
			from = ix_add(l, from, ix_mul(l, again, ix_c(l, left)));
		stage_rows(w, k[s], s, from, times(l, end, step, hi + 1 - step));
	}
	for_end(l, f);
}

static void ring_chunk(struct lower *w, struct nest **k, const struct ix *chunk, const struct ix *steps)
{
	struct loops *l = w->l;
	const struct ix *first = ix_mul(l, ix_mul(l, chunk, steps), ix_c(l, w->ring.rows));
	const struct ix *rows = ix_mul(l, steps, ix_c(l, w->ring.rows));
	int last = w->t->nstages - 1;
	for (int s = 0; s < last; s++) {
		w->hoisted = 0;
		if (w->ring.st[s].axis < 0)
			nest_stage(k[s]);
	}
	ring_steps(w, k, first, ix_min(l, ix_add(l, first, rows), k[last]->extent[w->ring.st[last].axis]));
}

/* Lets the threads of a block divide the stage's tiles, or share the sums of its only tile. */
static void divide_stage(struct nest *k, const struct ix *thread)
{
	k->team = stage_team(k->st, k->s);
	k->divider = k->team > 1 ? NULL : thread;
	k->member = k->team > 1 ? thread : NULL;
	if (k->team > 1)
		team_begin(k);
}

void chain_stages(struct lower *w, struct nest **k)
{
	struct loops *l = w->l;
	int last = w->t->nstages - 1, axis = w->ring.st[last].axis;
	const struct ix *chunks = ix_c(l, 1), *steps = NULL, *at[MAX_AXES];
	if (w->ring.rows) {
		const struct ix *all = ix_add(l, k[last]->extent[axis], ix_c(l, w->ring.rows - 1));
		steps = ix_param(l, w->block_param[axis]);
		all = ix_div(l, all, ix_c(l, w->ring.rows));
		chunks = ix_div(l, ix_add(l, all, ix_sub(l, steps, ix_c(l, 1))), steps);
	}
	const struct ix *extent = chunks;
	for (int a = 0; a < w->shared; a++)
		extent = ix_mul(l, extent, k[0]->extent[a]);
	int crew = stage_threads(k[0]->st, k[0]->s);
	const struct ix *thread = NULL;
	int e = crew > 1 ? loops_entry_threads(l, extent, crew, &thread) : loops_entry(l, extent);
	for (int s = 0; s <= last && thread; s++)
		divide_stage(k[s], thread);
	const struct ix *p = ix_var(l, l->entry[e].var), *chunk = ix_mod(l, p, chunks);
	p = ix_div(l, p, chunks);
	for (int a = w->shared - 1; a >= 0; a--) {
		at[a] = a ? ix_mod(l, p, k[0]->extent[a]) : p;
		p = ix_div(l, p, k[0]->extent[a]);
	}
	if (w->ones)
		lower_ones(w);
	for (int s = 0; s < last; s++)
		fill_halos(w, s);
	for (int s = 0; s <= last; s++)
		for (int a = 0; a < w->shared; a++) {
			k[s]->base[a] = at[a];
			k[s]->bound |= 1u << a;
		}
	if (w->ring.rows)
		ring_chunk(w, k, chunk, steps);
	for (int s = 0; s <= last && !w->ring.rows; s++) {
		w->hoisted = 0;
		nest_stage(k[s]);
		if (thread && s < last)
			lv_barrier(l);
	}
	loops_entry_end(l);
}
