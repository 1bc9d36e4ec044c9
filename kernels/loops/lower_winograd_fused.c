/* SPDX-License-Identifier: Apache-2.0 */
/* A Winograd convolution as one entry of blocks of threads (kernels/space/winograd_fused.h).
 *
 * Without a ring, the threads fill the buffer with a step, meet, multiply and meet again. With a ring of n
 * steps, the first n - 1 are filled before the loop. In the loop the threads wait for their copies of the
 * present step, meet, start to copy the weights of the step that takes the place of the one before it, load
 * its windows, multiply, and then transform and store the windows. */
#include "kernels/loops/lower_winograd.h"

#include <string.h>

enum {
	BODY = 128,     /* vector products that are written out, at most */
	COPY = 4,       /* elements */
	MOST_COPIES = 4 /* at once */
};

struct fused {
	struct lower *w;
	struct loops *l;
	const struct sstage *s;
	const struct winograd *wino;
	struct winograd_fused z;
	struct wino in, out; /* of in_lanes and out_lanes */
	int buf, constants;
	const struct ix *thread, *position;
	const struct ix *tile_thread, *vector_thread; /* of the position */
	const struct ix *first;                       /* tile of the block */
	const struct ix *chunk, *part;                /* part: NULL if there is one */
	int acc[SCHED_TILE];
};

static const struct ix *plus(const struct fused *x, const struct ix *a, const struct ix *b)
{
	return ix_add(x->l, a, b);
}

static const struct ix *times(const struct fused *x, const struct ix *a, int64_t by)
{
	return ix_mul(x->l, a, ix_c(x->l, by));
}

static const struct ix *over(const struct fused *x, const struct ix *a, int64_t by)
{
	return ix_div(x->l, a, ix_c(x->l, by));
}

static const struct ix *rest(const struct fused *x, const struct ix *a, int64_t by)
{
	return ix_mod(x->l, a, ix_c(x->l, by));
}

static const struct ix *below(const struct fused *x, const struct ix *a, int64_t n)
{
	return ix_lt(x->l, a, ix_c(x->l, n));
}

/* A vector of the shared buffer. */
static struct mem shared(const struct fused *x, const struct ix *at, int64_t stride)
{
	return (struct mem){.buf = x->buf, .at = at, .stride = stride};
}

/* Opens a branch, unless the condition always holds: then NULL. */
static struct stmt *branch(const struct fused *x, const struct ix *cond)
{
	int64_t yes = 0;
	return ix_is_const(cond, &yes) && yes ? NULL : if_begin(x->l, cond);
}

static void branch_end(const struct fused *x, struct stmt *s)
{
	if (s)
		if_end(x->l, s);
}

/* Opens a loop from 0 to n, which is there only if it has several iterations: else NULL. */
static struct stmt *loop(const struct fused *x, int64_t n, int64_t step, const struct ix **i)
{
	*i = ix_c(x->l, 0);
	return n <= step ? NULL : for_begin(x->l, *i, ix_c(x->l, n), step, true, i);
}

static void loop_end(const struct fused *x, struct stmt *f)
{
	if (f)
		for_end(x->l, f);
}

/* The threads do n things side by side: opens a loop, and a branch where some threads have nothing to do. */
struct each {
	struct stmt *loop, *some;
	const struct ix *i;
};

static struct each each_begin(const struct fused *x, int64_t n)
{
	const struct ix *first;
	struct each e;
	e.loop = loop(x, n, x->z.threads, &first);
	e.i = plus(x, first, x->thread);
	e.some = n % x->z.threads ? branch(x, below(x, e.i, n)) : NULL;
	e.i = ix_min(x->l, e.i, ix_c(x->l, n - 1));
	return e;
}

static void each_end(const struct fused *x, struct each e)
{
	branch_end(x, e.some);
	loop_end(x, e.loop);
}

/* The buffer's first element of a step. */
static const struct ix *slot_of(const struct fused *x, const struct ix *step)
{
	return times(x, rest(x, step, x->s->boxes), x->z.v_elems + x->z.u_elems);
}

/* Binds the pixels' axes and those of the images to a tile of all images. */
static void bind_tile(const struct fused *x, const struct wino *q, struct nest *k, const struct ix *tile)
{
	const struct ix *image = over(x, tile, q->z.tiles);
	wino_tile(q, k, rest(x, tile, q->z.tiles));
	for (int a = k->ns - 1; a >= 0; a--) {
		if (a == q->f.k || a == q->f.y || a == q->f.x)
			continue;
		k->base[a] = ix_mod(x->l, image, k->extent[a]);
		image = ix_div(x->l, image, k->extent[a]);
	}
}

/* ---- windows of the input ---- */

struct window {
	const struct ix *channel, *tile; /* of the step, of the block */
	int d[8][8];                     /* [y][x] */
};

/* Window i of a step: neighbouring threads have neighbouring channels, which lie side by side in memory.
 * Tiles behind the last one repeat it. some: 0 or 1, whether there is such a step; NULL: there is. */
static void load_window(struct fused *x, const struct ix *i, const struct ix *step, const struct ix *some,
			struct window *v)
{
	struct wino *q = &x->in;
	int wide = x->s->share / x->z.in_lanes;
	v->channel = times(x, rest(x, i, wide), x->z.in_lanes);
	v->tile = over(x, i, wide);
	const struct ix *last = ix_c(x->l, x->z.all_tiles - 1);
	int64_t yes = 0;
	bind_tile(x, q, q->in, ix_min(x->l, plus(x, x->first, v->tile), last));
	q->in->base[q->f.c] = plus(x, times(x, step, x->s->share), v->channel);
	for (int y = 0; y < q->points; y++)
		for (int c = 0; c < q->points; c++) {
			struct mem m = wino_pixel(q, ix_c(x->l, y), ix_c(x->l, c), false);
			m.guard = some ? ix_mul(x->l, m.guard, some) : m.guard;
			if (ix_is_const(m.guard, &yes) && yes)
				m.guard = NULL;
			v->d[y][c] = wino_load(q, m);
		}
}

static void store_window(const struct fused *x, struct window *v, const struct ix *step)
{
	const struct wino *q = &x->in;
	int points = q->points, n = x->z.in_lanes, column[8], to[8];
	const struct ix *at = plus(x, slot_of(x, step), times(x, v->channel, x->z.pitch));
	at = plus(x, at, v->tile);
	for (int c = 0; c < points; c++) {
		for (int y = 0; y < points; y++)
			column[y] = v->d[y][c];
		transform_input(x->l, x->wino->m, ~0u, column, to, n);
		for (int y = 0; y < points; y++)
			v->d[y][c] = to[y];
	}
	for (int y = 0; y < points; y++) {
		transform_input(x->l, x->wino->m, ~0u, v->d[y], to, n);
		for (int c = 0; c < points; c++) {
			const struct ix *place =
			    plus(x, at, ix_c(x->l, (int64_t)(y * points + c) * x->wino->tiles));
			lv_store(x->l, to[c], shared(x, place, n > 1 ? x->z.pitch : 1));
		}
	}
}

static void fill_windows(struct fused *x, const struct ix *step)
{
	struct window v;
	struct each e = each_begin(x, x->z.windows);
	load_window(x, e.i, step, NULL, &v);
	store_window(x, &v, step);
	each_end(x, e);
}

/* The thread's r-th window of a step; *last: it is one of the step. */
static const struct ix *own_window(const struct fused *x, int r, const struct ix **inside)
{
	const struct ix *i = plus(x, x->thread, ix_c(x->l, (int64_t)r * x->z.threads));
	*inside = below(x, i, x->z.windows);
	return ix_min(x->l, i, ix_c(x->l, x->z.windows - 1));
}

/* ---- weights ---- */

/* Whether the weights are copied while threads multiply. */
static bool copies(const struct fused *x)
{
	return x->s->boxes > 1 && x->l->buf[x->constants].dtype == DT_F32;
}

/* Copies elements i[] of a step's weights, four of each: what is not copied later is loaded all at once. */
static void copy_weights(const struct fused *x, const struct ix *step, const struct ix *const *i, int n)
{
	struct loops *l = x->l;
	const struct ix *to[MOST_COPIES], *slot = plus(x, slot_of(x, step), ix_c(l, x->z.v_elems));
	const struct ix *from = times(x, plus(x, times(x, x->chunk, x->z.steps), step), x->z.u_elems);
	int v[MOST_COPIES];
	for (int k = 0; k < n; k++) {
		const struct ix *at = times(x, i[k], COPY);
		struct mem m = {.buf = x->constants, .at = plus(x, from, at), .stride = 1};
		to[k] = plus(x, slot, at);
		if (copies(x))
			lv_copy(l, x->buf, to[k], m, COPY);
		else
			lv_load(l, v[k] = lv_new(l, COPY), m);
	}
	for (int k = 0; k < n && !copies(x); k++)
		lv_store(l, v[k], shared(x, to[k], 1));
}

static void fill_weights(const struct fused *x, const struct ix *step)
{
	struct loops *l = x->l;
	int64_t all = x->z.u_elems / COPY, threads = x->z.threads;
	const struct ix *first, *i[MOST_COPIES];
	int n = MOST_COPIES;
	while (n > 1 && all % (n * threads))
		n /= 2;
	if (n == 1) {
		struct each e = each_begin(x, all);
		copy_weights(x, step, &e.i, 1);
		each_end(x, e);
		return;
	}
	struct stmt *f = loop(x, all, n * threads, &first);
	for (int k = 0; k < n; k++)
		i[k] = plus(x, first, plus(x, x->thread, ix_c(l, k * threads)));
	copy_weights(x, step, i, n);
	loop_end(x, f);
}

/* ---- products ---- */

/* One input channel: the n-th tile vector of a thread is n times as many threads further on, and so are the
 * vectors of outputs, so that neighbouring threads read neighbours. */
static void multiply_channel(const struct fused *x, const struct ix *slot, const struct ix *channel)
{
	struct loops *l = x->l;
	const struct winograd *w = x->wino;
	int lanes = x->s->lanes, tl = x->z.tile_lanes, in[SCHED_TILE], weight[SCHED_TILE];
	const struct ix *v = plus(x, slot, times(x, channel, x->z.pitch));
	v = plus(x, plus(x, v, times(x, x->position, w->tiles)), times(x, x->tile_thread, tl));
	const struct ix *u = plus(x, times(x, x->position, x->s->share), channel);
	u = times(x, plus(x, times(x, u, w->chunk), x->vector_thread), lanes);
	u = plus(x, plus(x, slot, u), ix_c(l, x->z.v_elems));
	for (int i = 0; i < w->px / tl; i++) {
		in[i] = lv_new(l, tl);
		lv_load(l, in[i], shared(x, plus(x, v, ix_c(l, (int64_t)i * x->z.tile_threads * tl)), 1));
	}
	for (int j = 0; j < w->kv; j++) {
		weight[j] = lv_new(l, lanes);
		lv_load(l, weight[j],
			shared(x, plus(x, u, ix_c(l, (int64_t)j * x->z.vector_threads * lanes)), 1));
	}
	for (int p = 0; p < w->px; p++) {
		int one = lv_new(l, lanes);
		lv_lane(l, one, in[p / tl], p % tl);
		for (int j = 0; j < w->kv; j++)
			lv_set(l, x->acc[p * w->kv + j], V_FMA, one, weight[j], x->acc[p * w->kv + j], -1);
	}
}

static void multiply(const struct fused *x, const struct ix *step)
{
	struct loops *l = x->l;
	int body = x->s->share;
	const struct ix *slot = slot_of(x, step), *c;
	while (body > 1 && (x->s->share % body || body * x->wino->px * x->wino->kv > BODY))
		body--;
	struct stmt *f = loop(x, x->s->share, body, &c);
	for (int i = 0; i < body; i++)
		multiply_channel(x, slot, plus(x, c, ix_c(l, i)));
	loop_end(x, f);
}

static void reduce(struct fused *x, const struct ix *from, const struct ix *to)
{
	const struct ix *step;
	struct stmt *f = for_begin(x->l, from, to, 1, true, &step);
	fill_weights(x, step);
	fill_windows(x, step);
	lv_barrier(x->l);
	multiply(x, step);
	lv_barrier(x->l);
	for_end(x->l, f);
}

static void commit(const struct fused *x)
{
	if (copies(x))
		lv_commit(x->l);
}

static void reduce_ring(struct fused *x, const struct ix *from, const struct ix *to)
{
	struct loops *l = x->l;
	int ahead = x->s->boxes - 1, rounds = (int)ceil_div(x->z.windows, x->z.threads);
	const struct ix *step, *inside[FUSED_COPIES];
	struct window v[FUSED_COPIES];
	for (int i = 0; i < ahead; i++) {
		fill_weights(x, plus(x, from, ix_c(l, i)));
		commit(x);
		fill_windows(x, plus(x, from, ix_c(l, i)));
	}
	struct stmt *f = for_begin(l, from, to, 1, true, &step);
	const struct ix *next = plus(x, step, ix_c(l, ahead)), *some = ix_lt(l, next, to);
	if (copies(x))
		lv_wait(l, ahead - 1);
	lv_barrier(l);
	struct stmt *s = if_begin(l, some);
	fill_weights(x, next);
	if_end(l, s);
	commit(x);
	for (int r = 0; r < rounds; r++)
		load_window(x, own_window(x, r, &inside[r]), next, some, &v[r]);
	multiply(x, step);
	s = if_begin(l, some);
	for (int r = 0; r < rounds; r++) {
		struct stmt *one = branch(x, inside[r]);
		store_window(x, &v[r], next);
		branch_end(x, one);
	}
	if_end(l, s);
	for_end(l, f);
	lv_barrier(l);
}

/* ---- outputs ---- */

/* The shared buffer has M[xi][tile][vector][L] of a pass, whose tiles and vectors are those of all threads.
 */
struct pass {
	const struct ix *tile, *vector; /* first ones of a thread's register tile */
	int64_t tiles, lanes;
};

/* Stores the sums of a thread's tiles from `tile` on and its vectors from `vector` on. */
static void store_sums(const struct fused *x, const struct pass *p, int tile, int vector)
{
	struct loops *l = x->l;
	const struct ix *at = times(x, x->tile_thread, x->z.pass_tiles);
	at = times(x, plus(x, at, times(x, x->position, p->tiles)), p->lanes);
	at = plus(x, at, times(x, x->vector_thread, x->s->lanes));
	for (int i = 0; i < x->z.pass_tiles; i++)
		for (int j = 0; j < x->z.pass_vectors; j++) {
			int64_t to = i * p->lanes + (int64_t)j * x->z.vector_threads * x->s->lanes;
			lv_store(l, x->acc[(tile + i) * x->wino->kv + vector + j],
				 shared(x, plus(x, at, ix_c(l, to)), 1));
		}
}

/* The block's tile with this number in a pass. */
static const struct ix *tile_of(const struct fused *x, const struct pass *p, const struct ix *number)
{
	int tl = x->z.tile_lanes;
	const struct ix *own = plus(x, rest(x, number, x->z.pass_tiles), p->tile),
			*thread = over(x, number, x->z.pass_tiles);
	const struct ix *vector = plus(x, times(x, over(x, own, tl), x->z.tile_threads), thread);
	return plus(x, times(x, vector, tl), rest(x, own, tl));
}

/* Stores the sums of a row of outputs that lie inside, for the second launch. */
static void store_parts(const struct fused *x, int y, const int *column)
{
	static const int none[MAX_AXES];
	const struct wino *q = &x->out;
	struct nest *k = q->out;
	const struct ix *top = k->base[q->f.y], *left = k->base[q->f.x];
	int v[8];
	transform_output(x->l, x->wino->m, false, column, v, q->lanes);
	k->base[q->f.y] = plus(x, top, ix_c(x->l, y));
	struct stmt *some = branch(x, ix_lt(x->l, k->base[q->f.y], k->extent[q->f.y]));
	for (int i = 0; i < x->wino->m; i++) {
		k->base[q->f.x] = plus(x, left, ix_c(x->l, i));
		struct stmt *one = branch(x, ix_lt(x->l, k->base[q->f.x], k->extent[q->f.x]));
		lv_store(x->l, v[i], spread_place(k, none, x->part));
		branch_end(x, one);
	}
	branch_end(x, some);
	k->base[q->f.y] = top;
	k->base[q->f.x] = left;
}

/* Transforms the tiles of a pass back. Neighbouring threads have neighbouring channels. */
static void outputs(const struct fused *x, const struct pass *p)
{
	struct loops *l = x->l;
	const struct wino *q = &x->out;
	struct nest *k = q->out;
	int64_t wide = p->lanes / q->lanes;
	int points = q->points, column[8][8], d[8], v[8];
	struct each e = each_begin(x, p->tiles * wide);
	const struct ix *number = over(x, e.i, wide), *lane = times(x, rest(x, e.i, wide), q->lanes),
			*tile = plus(x, x->first, tile_of(x, p, number)),
			*first = plus(x, times(x, x->chunk, x->wino->chunk),
				      times(x, p->vector, x->z.vector_threads));
	const struct ix *channel = plus(x, times(x, first, x->s->lanes), lane);
	const struct ix *inside =
	    ix_mul(l, below(x, tile, x->z.all_tiles), ix_lt(l, channel, k->extent[q->f.k]));
	struct stmt *some = branch(x, inside);
	int known = k->nknown;
	bind_tile(x, q, k, ix_min(l, tile, ix_c(l, x->z.all_tiles - 1)));
	k->base[q->f.k] = channel;
	const struct ix *at = plus(x, times(x, number, p->lanes), lane);
	for (int c = 0; c < points; c++) {
		for (int y = 0; y < points; y++) {
			int64_t from = (y * points + c) * p->tiles * p->lanes;
			d[y] = wino_load(q, shared(x, plus(x, at, ix_c(l, from)), 1));
		}
		transform_output(l, x->wino->m, false, d, v, q->lanes);
		for (int y = 0; y < x->wino->m; y++)
			column[y][c] = v[y];
	}
	if (!x->part)
		wino_hoist(q);
	for (int y = 0; y < x->wino->m; y++)
		if (x->part)
			store_parts(x, y, column[y]);
		else
			wino_row(q, y, column[y]);
	k->nknown = known;
	branch_end(x, some);
	each_end(x, e);
}

/* The passes are a loop, in which a branch for each stores its sums, so that the program of the outputs is
 * there once. */
static void finish(const struct fused *x)
{
	struct loops *l = x->l;
	const struct winograd *w = x->wino;
	const struct ix *i;
	struct pass p = {.tiles = (int64_t)x->z.tile_threads * x->z.pass_tiles,
			 .lanes = (int64_t)x->z.vector_threads * x->z.pass_vectors * x->s->lanes};
	int across = w->kv / x->z.pass_vectors;
	struct stmt *f = loop(x, x->z.passes, 1, &i);
	p.tile = times(x, over(x, i, across), x->z.pass_tiles);
	p.vector = times(x, rest(x, i, across), x->z.pass_vectors);
	for (int n = 0; n < x->z.passes; n++) {
		struct stmt *s = branch(x, ix_eq(l, i, ix_c(l, n)));
		store_sums(x, &p, n / across * x->z.pass_tiles, n % across * x->z.pass_vectors);
		branch_end(x, s);
	}
	lv_barrier(l);
	outputs(x, &p);
	if (f)
		lv_barrier(l);
	loop_end(x, f);
}

/* ---- the entry ---- */

/* Splits the entry's index into the block of tiles (fastest), the chunk and the part, and the thread's number
 * into the position, the part of the tiles and that of the vectors. */
static void bind_index(struct fused *x, const struct ix *index)
{
	int each = x->z.tile_threads * x->z.vector_threads;
	const struct ix *own = rest(x, x->thread, each);
	x->first = times(x, rest(x, index, x->z.blocks), x->wino->tiles);
	index = over(x, index, x->z.blocks);
	x->chunk = rest(x, index, x->z.chunks);
	x->part = x->s->split_axis >= 0 ? over(x, index, x->z.chunks) : NULL;
	x->position = over(x, x->thread, each);
	x->tile_thread = over(x, own, x->z.vector_threads);
	x->vector_thread = rest(x, own, x->z.vector_threads);
}

/* The schedule with vectors of so many lanes of the axis. */
static struct sstage *with_lanes(const struct fused *x, int axis, int lanes)
{
	struct sstage *s = arena_memdup(x->l->arena, x->s, sizeof *s);
	s->lane = lanes > 1 ? axis : -1;
	s->lanes = lanes;
	return s;
}

static void open_views(struct fused *x, const struct wino *q)
{
	x->in = x->out = *q;
	x->in.lanes = x->z.in_lanes;
	x->in.in = wino_input_nest(&x->in, q->out);
	x->in.in->s = with_lanes(x, q->f.c, x->z.in_lanes);
	x->out.lanes = x->z.out_lanes;
	if (x->z.out_lanes == x->s->lanes)
		return;
	x->out.out = nest_new(x->w, 0, with_lanes(x, q->f.k, x->z.out_lanes));
	x->out.out->last_masked = x->out.out->ragged;
}

void wino_fused(struct wino *q)
{
	struct loops *l = q->l;
	struct fused *x = ARENA_NEW(l->arena, struct fused);
	*x = (struct fused){.w = q->w, .l = l, .s = q->out->s, .wino = q->s};
	x->z = winograd_fused_sizes(q->w->t, x->s);
	q->first = ix_c(l, 0);
	x->constants = q->w->at[q->out->st->read[q->f.filter].operand].buf;
	open_views(x, q);
	x->buf = loops_buf(l, "tiles", BUF_SHARED, DT_F32, ix_c(l, x->z.shared));
	int e =
	    loops_entry_threads(l, ix_c(l, x->z.blocks * x->z.chunks * x->z.parts), x->z.threads, &x->thread);
	l->entry[e].blocks = x->s->blocks;
	bind_index(x, ix_var(l, l->entry[e].var));
	for (int i = 0; i < x->wino->px * x->wino->kv; i++)
		lv_const(l, x->acc[i] = lv_new(l, x->s->lanes), 0);
	const struct ix *from = ix_c(l, 0), *to = ix_c(l, x->z.steps);
	if (x->part) {
		from = times(x, x->part, x->z.part_steps);
		to = ix_min(l, to, plus(x, from, ix_c(l, x->z.part_steps)));
	}
	(x->s->boxes > 1 ? reduce_ring : reduce)(x, from, to);
	finish(x);
	loops_entry_end(l);
}
