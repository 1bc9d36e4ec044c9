/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by fragments of matrices (kernels/space/frag.h). Tap by tap and block by block of the channels, the
 * threads of a block fill a tile of both factors in shared buffers, floats rounded to 16
 * bits; they meet; each warp adds the products of its rows and columns to its sums; they meet again. In the
 * end the sums go through a shared buffer, 16 rows of each warp at a time, and the threads apply the stage's
 * program to them and store the results. What lies outside of the product counts as zero. If the reduction
 * has parts, the threads store the sums as they are, and the entry of lower_spread.c does the rest. */
#include "kernels/loops/lower_parts.h"

enum { FOUR = 4 /* bytes of a group; columns of a result */ };

struct matmul {
	struct lower *w;
	struct loops *l;
	struct nest *k; /* of the factors, without lanes */
	struct nest *e; /* of the stage's program */
	const struct frag_plan *p;
	const struct frags *f;
	bool bytes;                         /* are multiplied */
	int buf[2], sums_buf;               /* of the factors' tiles */
	const struct ix *thread, *first[2]; /* row and column of the block */
	const struct ix *part;              /* of the reduction; NULL: it has one */
	int sum[FRAG_SUMS];
};

int frag_view(struct lower *w, struct arena *a)
{
	struct frag_plan *p = ARENA_NEW(a, struct frag_plan);
	const struct sstage from = w->s.st[w->t->nstages - 1];
	int rc = frag_plan_make(w->t, w->tg, &w->s, p);
	if (rc < 0)
		return rc;
	const struct task *one = w->t = frag_task(a, w->t, p);
	sched_init(one, &w->s);
	struct sstage *s = &w->s.st[0];
	int ns = stage_spatial(&one->stage[0]), n = ns;
	for (int r = ns; r < one->stage[0].naxes; r++) /* the channels' weights lie side by side */
		if (r != p->k_axis)
			s->order[n++] = (uint8_t)r;
	s->order[n] = (uint8_t)p->k_axis;
	s->frags = from.frags;
	s->blocks = from.blocks;
	s->split_axis = from.split_axis;
	s->split = from.split;
	s->spread = from.spread;
	w->frags = p;
	return E_OK;
}

void frag_lanes(struct lower *w)
{
	struct sstage *s = &w->s.st[0];
	s->lane = w->frags->col_axis;
	s->lanes = FOUR;
	if (w->frags->cols % FOUR || sched_check_lane(w->t, w->tg, &w->t->stage[0], s) < 0) {
		s->lane = -1;
		s->lanes = 1;
	}
}

static const struct ix *plus(const struct matmul *x, const struct ix *a, const struct ix *b)
{
	return ix_add(x->l, a, b);
}

static const struct ix *times(const struct matmul *x, const struct ix *a, int64_t by)
{
	return ix_mul(x->l, a, ix_c(x->l, by));
}

/* Sets the spatial axes but that of the columns to a row of the product. */
static void bind_row(const struct matmul *x, struct nest *k, const struct ix *row)
{
	for (int a = k->ns - 1; a >= 0; a--) {
		if (a == x->p->col_axis || x->p->both >> a & 1)
			continue;
		nest_bind(k, a, ix_mod(x->l, row, k->extent[a]), 1, false);
		row = ix_div(x->l, row, k->extent[a]);
	}
}

static const struct ix *below(const struct matmul *x, const struct ix *i, int64_t n)
{
	return ix_lt(x->l, i, ix_c(x->l, n));
}

/* The threads do n things side by side: opens a loop, and a branch where some threads have nothing to do. */
struct each {
	struct stmt *loop, *some;
	const struct ix *i;
	struct scope scope;
};

static struct each each_begin(const struct matmul *x, struct nest *k, int64_t n)
{
	const struct ix *first;
	struct each e = {.scope = nest_enter(k)};
	e.loop = for_begin(x->l, ix_c(x->l, 0), ix_c(x->l, n), x->p->threads, true, &first);
	e.i = plus(x, first, x->thread);
	if (n % x->p->threads) {
		e.some = if_begin(x->l, below(x, e.i, n));
		e.i = ix_min(x->l, e.i, ix_c(x->l, n - 1));
	}
	return e;
}

static void each_end(const struct matmul *x, struct nest *k, struct each e)
{
	if (e.some)
		if_end(x->l, e.some);
	for_end(x->l, e.loop);
	nest_leave(k, e.scope);
}

/* Binds the taps of a step of the block's part; returns the first point of its channels. */
static const struct ix *bind_step(const struct matmul *x, const struct ix *step)
{
	struct nest *k = x->k;
	const struct ix *blocks = ix_c(x->l, frag_plan_k_blocks(x->p) / x->p->parts),
			*first = times(x, ix_mod(x->l, step, blocks), x->p->k / x->p->group);
	step = ix_div(x->l, step, blocks);
	for (int i = k->st->naxes - 1; i >= k->ns; i--) {
		int a = k->s->order[i];
		if (a == x->p->k_axis)
			continue;
		nest_bind(k, a, ix_mod(x->l, step, k->extent[a]), 1, false);
		step = ix_div(x->l, step, k->extent[a]);
	}
	return x->part ? plus(x, first, times(x, x->part, x->p->part)) : first;
}

/* Points of the reduction's axis of channels: a group of elements each. */
static const struct ix *channel(const struct matmul *x, const struct ix *first, const struct ix *elem)
{
	return plus(x, first, ix_div(x->l, elem, ix_c(x->l, x->p->group)));
}

/* The first element of a step's tile of a factor. */
static const struct ix *in_ring(const struct matmul *x, bool cols, const struct ix *step)
{
	return times(x, ix_mod(x->l, step, ix_c(x->l, x->p->ring)), frag_tile_elems(x->p, cols));
}

/* A part of a factor's tile that one thread copies in a step: its row or column, its first element along k,
 * and its place in the shared buffer. */
struct part {
	const struct ix *row, *elem, *to;
};

static struct part part_of(const struct matmul *x, bool cols, const struct ix *i, const struct ix *step)
{
	const struct frag_factor *f = &x->p->of[cols];
	const struct ix *wide = ix_c(x->l, (f->along_k ? x->p->k : f->tile) / f->wide),
			*line = ix_div(x->l, i, wide), *in = times(x, ix_mod(x->l, i, wide), f->wide);
	struct part at = {.row = f->along_k ? line : in, .elem = f->along_k ? in : line};
	at.row = plus(x, x->first[cols], at.row);
	at.to = plus(x, in_ring(x, cols, step), plus(x, times(x, line, f->pitch), in));
	return at;
}

static void guard_by(const struct matmul *x, struct mem *m, const struct ix *in)
{
	m->guard = m->guard ? ix_mul(x->l, m->guard, in) : in;
}

/* Elements of a lane of a part: bytes are in groups, if there are several. */
static int lane_elems(const struct matmul *x, bool cols)
{
	return x->bytes && x->p->of[cols].wide > 1 ? FOUR : 1;
}

/* The part in memory, of the step whose channels begin at `first`; guard: whether there is such a step; NULL:
 * there is. */
static struct mem part_mem(const struct matmul *x, bool cols, struct part p, const struct ix *first,
			   const struct ix *guard)
{
	struct nest *k = x->k;
	const struct frag_factor *f = &x->p->of[cols];
	int at[MAX_AXES] = {0};
	int64_t all = cols ? x->p->cols : x->p->rows;
	if (cols)
		nest_bind(k, x->p->col_axis, p.row, 1, false);
	else
		bind_row(x, k, p.row);
	nest_bind(k, x->p->k_axis, channel(x, first, p.elem), 1, false);
	struct mem m = nest_mem(k, f->read, at, 1);
	m.group = lane_elems(x, cols);
	m.stride = m.group;
	if (all % f->tile)
		guard_by(x, &m, below(x, p.row, all));
	if (x->p->depth % x->p->k)
		guard_by(x, &m, below(x, plus(x, times(x, first, x->p->group), p.elem), x->p->depth));
	if (guard)
		guard_by(x, &m, guard);
	return m;
}

/* A variable of a part: floats, groups of four bytes, or a byte. */
static int part_new(const struct matmul *x, bool cols)
{
	int lanes = x->p->of[cols].wide / lane_elems(x, cols);
	return x->bytes ? lv_new_s32(x->l, lanes) : lv_new(x->l, lanes);
}

static void part_store(const struct matmul *x, bool cols, int v, const struct ix *i, const struct ix *step)
{
	struct mem m = {.buf = x->buf[cols], .at = part_of(x, cols, i, step).to};
	m.stride = m.group = lane_elems(x, cols);
	lv_store(x->l, v, m);
}

static void part_copy(const struct matmul *x, bool cols, const struct ix *i, const struct ix *first,
		      const struct ix *step)
{
	int wide = x->p->of[cols].wide;
	struct part p = part_of(x, cols, i, step);
	struct mem m = part_mem(x, cols, p, first, NULL);
	m.valid = m.guard ? times(x, m.guard, wide) : NULL;
	m.guard = NULL;
	m.group = 0;
	m.stride = 1;
	lv_copy(x->l, x->buf[cols], p.to, m, wide);
}

static int64_t parts_of(const struct matmul *x, bool cols)
{
	return x->p->of[cols].tile * x->p->k / x->p->of[cols].wide;
}

/* Fills the step's tile of a factor, or starts to. */
static void fill(const struct matmul *x, bool cols, const struct ix *step)
{
	const struct ix *first = bind_step(x, step);
	struct each e = each_begin(x, x->k, parts_of(x, cols));
	if (x->p->of[cols].moves) {
		part_copy(x, cols, e.i, first, step);
	} else {
		int v = part_new(x, cols);
		lv_load(x->l, v, part_mem(x, cols, part_of(x, cols, e.i, step), first, NULL));
		part_store(x, cols, v, e.i, step);
	}
	each_end(x, x->k, e);
}

/* The same in two parts, between which the loads are under way: what the thread loads for a step, if there is
 * such a step; and its stores. */
static void load_ahead(const struct matmul *x, bool cols, const struct ix *step, int v[FRAG_COPIES])
{
	const struct ix *first = bind_step(x, step), *some = below(x, step, x->p->steps);
	for (int n = 0; n < x->p->of[cols].copies; n++) {
		const struct ix *i = plus(x, x->thread, ix_c(x->l, (int64_t)n * x->p->threads));
		i = ix_min(x->l, i, ix_c(x->l, parts_of(x, cols) - 1));
		v[n] = part_new(x, cols);
		lv_load(x->l, v[n], part_mem(x, cols, part_of(x, cols, i, step), first, some));
	}
}

static void store_ahead(const struct matmul *x, bool cols, const struct ix *step, const int v[FRAG_COPIES])
{
	int64_t all = parts_of(x, cols);
	for (int n = 0; n < x->p->of[cols].copies; n++) {
		const struct ix *i = plus(x, x->thread, ix_c(x->l, (int64_t)n * x->p->threads));
		struct stmt *s = i->hi < all ? NULL : if_begin(x->l, below(x, i, all));
		part_store(x, cols, v[n], ix_min(x->l, i, ix_c(x->l, all - 1)), step);
		if (s)
			if_end(x->l, s);
	}
}

/* The first row (column) of the warp in the tile, of n fragments each. */
static const struct ix *warp_at(const struct matmul *x, bool cols, int n)
{
	const struct ix *warp = ix_div(x->l, x->thread, ix_c(x->l, WARP)), *all = ix_c(x->l, x->f->warp_cols);
	return times(x, cols ? ix_mod(x->l, warp, all) : ix_div(x->l, warp, all), (int64_t)n * FRAG_SIZE);
}

/* The fragment of a factor whose first row or column is `at`. */
static int load(const struct matmul *x, bool cols, const struct ix *at, int k, const struct ix *box)
{
	const struct frag_factor *f = &x->p->of[cols];
	int v = lv_fragment(x->l, (struct fragment){cols ? FRAG_B : FRAG_A, f->type, f->along_k == cols});
	const struct ix *from = ix_c(x->l, k);
	from = f->along_k ? plus(x, times(x, at, f->pitch), from) : plus(x, times(x, from, f->pitch), at);
	lv_frag_load(x->l, v, x->buf[cols], plus(x, from, box), f->pitch);
	return v;
}

/* Adds the products of a step. */
static void multiply(struct matmul *x, const struct ix *step)
{
	const struct frags *f = x->f;
	const struct ix *row = warp_at(x, false, f->rows), *col = warp_at(x, true, f->cols),
			*box[2] = {in_ring(x, false, step), in_ring(x, true, step)};
	for (int k = 0; k < x->p->k; k += FRAG_SIZE) {
		int b[FRAG_SUMS];
		for (int j = 0; j < f->cols; j++)
			b[j] = load(x, true, plus(x, col, ix_c(x->l, (int64_t)j * FRAG_SIZE)), k, box[1]);
		for (int i = 0; i < f->rows; i++) {
			const struct ix *at = plus(x, row, ix_c(x->l, (int64_t)i * FRAG_SIZE));
			int a = load(x, false, at, k, box[0]);
			for (int j = 0; j < f->cols; j++)
				lv_frag_mma(x->l, x->sum[i * f->cols + j], a, b[j]);
		}
	}
}

/* Whether the tile of a factor is filled by copies, for which threads must wait. */
static bool copies(const struct matmul *x)
{
	return x->p->of[0].moves || x->p->of[1].moves;
}

static void commit(const struct matmul *x)
{
	if (copies(x))
		lv_commit(x->l);
}

/* Waits for the present step's copies, of `ahead` steps that are under way; the threads meet. */
static void meet(const struct matmul *x, int ahead)
{
	if (copies(x))
		lv_wait(x->l, ahead);
	lv_barrier(x->l);
}

static void reduce(struct matmul *x)
{
	const struct ix *step;
	struct stmt *f = for_begin(x->l, ix_c(x->l, 0), ix_c(x->l, x->p->steps), 1, true, &step);
	fill(x, false, step);
	fill(x, true, step);
	commit(x);
	meet(x, 0);
	multiply(x, step);
	lv_barrier(x->l);
	for_end(x->l, f);
}

/* The first steps are filled before the loop. In it the threads wait for their copies of the present step,
 * meet, start the copies and loads of the step that takes the place of the one before it, multiply, and store
 * what they loaded. */
static void reduce_ring(struct matmul *x)
{
	const struct ix *step;
	int ahead = x->p->ring - 1, v[2][FRAG_COPIES];
	bool loads = !x->p->of[0].moves || !x->p->of[1].moves;
	for (int i = 0; i < ahead; i++) {
		fill(x, false, ix_c(x->l, i));
		fill(x, true, ix_c(x->l, i));
		commit(x);
	}
	struct stmt *f = for_begin(x->l, ix_c(x->l, 0), ix_c(x->l, x->p->steps), 1, true, &step), *s = NULL;
	const struct ix *next = plus(x, step, ix_c(x->l, ahead)), *some = below(x, next, x->p->steps);
	meet(x, ahead - 1);
	if (copies(x))
		s = if_begin(x->l, some);
	for (int c = 1; c >= 0; c--)
		if (x->p->of[c].moves)
			fill(x, c, next);
	if (copies(x))
		if_end(x->l, s);
	commit(x);
	for (int c = 0; c < 2; c++)
		if (!x->p->of[c].moves)
			load_ahead(x, c, next, v[c]);
	multiply(x, step);
	if (loads)
		s = if_begin(x->l, some);
	for (int c = 0; c < 2; c++)
		if (!x->p->of[c].moves)
			store_ahead(x, c, next, v[c]);
	if (loads)
		if_end(x->l, s);
	for_end(x->l, f);
}

/* Applies the program to sums, and stores the results. */
static void finish_sums(const struct matmul *x, int v)
{
	struct nest *e = x->e;
	int at[MAX_AXES] = {0}, lanes = e->s->lanes;
	if (e->bias >= 0)
		lv_set(x->l, v, V_ADD, v, nest_load(e, e->bias, at, lanes), -1, -1);
	nest_store(e, nest_post(e, at, v), nest_mem(e, e->st->nreads, at, lanes));
}

/* Stores what becomes of the sums of row i of all warps' fragments. */
static void finish_rows(struct matmul *x, int i)
{
	struct loops *l = x->l;
	struct nest *e = x->e;
	int at[MAX_AXES] = {0}, lanes = e->s->lanes, v = (x->bytes ? lv_new_s32 : lv_new)(l, lanes);
	int64_t wide = x->p->of[1].tile / lanes;
	struct each s = each_begin(x, e, (int64_t)FRAG_SIZE * x->f->warp_rows * wide);
	const struct ix *r = ix_div(l, s.i, ix_c(l, wide)), *size = ix_c(l, FRAG_SIZE),
			*c = times(x, ix_mod(l, s.i, ix_c(l, wide)), lanes),
			*warp = times(x, ix_div(l, r, size), (int64_t)FRAG_SIZE * x->f->rows),
			*row = plus(x, warp, plus(x, ix_mod(l, r, size), ix_c(l, (int64_t)i * FRAG_SIZE))),
			*col = plus(x, x->first[1], c), *in = ix_c(l, 1);
	row = plus(x, row, x->first[0]);
	if (x->p->rows % x->p->of[0].tile)
		in = below(x, row, x->p->rows);
	if (x->p->cols % x->p->of[1].tile)
		in = ix_mul(l, in, below(x, col, x->p->cols));
	int64_t all = 0;
	struct stmt *some = ix_is_const(in, &all) && all ? NULL : if_begin(l, in);
	bind_row(x, e, row);
	nest_bind(e, x->p->col_axis, col, 1, false);
	lv_load(
	    l, v,
	    (struct mem){.buf = x->sums_buf, .at = plus(x, times(x, r, x->p->sum_pitch), c), .stride = 1});
	if (x->part)
		lv_store(l, v, spread_place(e, at, x->part));
	else
		finish_sums(x, v);
	if (some)
		if_end(l, some);
	each_end(x, e, s);
}

static void finish(struct matmul *x)
{
	const struct frags *f = x->f;
	for (int i = 0; i < f->rows; i++) {
		const struct ix *at = times(x, warp_at(x, false, 1), x->p->sum_pitch);
		at = plus(x, at, warp_at(x, true, f->cols));
		for (int j = 0; j < f->cols; j++)
			lv_frag_store(x->l, x->sum[i * f->cols + j], x->sums_buf,
				      plus(x, at, ix_c(x->l, (int64_t)j * FRAG_SIZE)), x->p->sum_pitch);
		lv_barrier(x->l);
		finish_rows(x, i);
		if (i + 1 < f->rows)
			lv_barrier(x->l);
	}
}

/* The nest of the factors. */
static struct nest *factors_nest(struct nest *e)
{
	struct sstage *s = arena_memdup(e->w->l->arena, e->s, sizeof *s);
	s->lane = -1;
	s->lanes = 1;
	return nest_new(e->w, 0, s);
}

/* Binds the axes of the products in both nests; returns the block's number in its product. */
static const struct ix *bind_product(const struct matmul *x, const struct ix *block, int64_t blocks)
{
	const struct ix *product = ix_div(x->l, block, ix_c(x->l, blocks));
	for (int a = x->e->ns - 1; a >= 0; a--) {
		if (!(x->p->both >> a & 1))
			continue;
		const struct ix *at = ix_mod(x->l, product, x->e->extent[a]);
		nest_bind(x->k, a, at, 1, false);
		nest_bind(x->e, a, at, 1, false);
		product = ix_div(x->l, product, x->e->extent[a]);
	}
	return ix_mod(x->l, block, ix_c(x->l, blocks));
}

/* Makes the entry's index; returns the block's number in its part, of so many. */
static const struct ix *blocks_entry(struct matmul *x, int64_t blocks)
{
	struct loops *l = x->l;
	int n = loops_entry_threads(l, ix_c(l, blocks * x->p->parts), x->p->threads, &x->thread);
	const struct ix *index = ix_var(l, l->entry[n].var);
	l->entry[n].blocks = x->e->s->blocks;
	if (x->p->parts == 1)
		return index;
	x->part = ix_div(l, index, ix_c(l, blocks));
	return ix_mod(l, index, ix_c(l, blocks));
}

void frag_stage(struct nest *e)
{
	struct lower *w = e->w;
	const struct frag_plan *p = w->frags;
	struct loops *l = w->l;
	struct matmul x = {.w = w, .l = l, .k = factors_nest(e), .e = e, .p = p, .f = &e->s->frags};
	x.bytes = p->sums == DT_I32;
	for (int c = 0; c < 2; c++)
		x.buf[c] = loops_buf(l, c ? "cols" : "rows", BUF_SHARED, p->of[c].type,
				     ix_c(l, frag_tile_elems(p, c) * p->ring));
	x.sums_buf = loops_buf(l, "sums", BUF_SHARED, p->sums,
			       ix_c(l, (int64_t)FRAG_SIZE * x.f->warp_rows * p->sum_pitch));
	int64_t down = ceil_div(p->rows, p->of[0].tile), across = ceil_div(p->cols, p->of[1].tile);
	const struct ix *block = blocks_entry(&x, p->products * down * across), *all = ix_c(l, across);
	block = bind_product(&x, block, down * across);
	x.first[0] = times(&x, ix_div(l, block, all), p->of[0].tile);
	x.first[1] = times(&x, ix_mod(l, block, all), p->of[1].tile);
	for (int i = 0; i < x.f->rows * x.f->cols; i++) {
		x.sum[i] = lv_fragment(l, (struct fragment){FRAG_C, p->sums, false});
		if (x.bytes)
			lv_const_s32(l, x.sum[i], 0);
		else
			lv_const(l, x.sum[i], 0);
	}
	(p->ring > 1 ? reduce_ring : reduce)(&x);
	finish(&x);
	loops_entry_end(l);
}
