/* SPDX-License-Identifier: Apache-2.0 */
/* The products of a Winograd convolution. If the packer transforms the filters, they are (m + 2)^2 matrix
 * products. Otherwise each register tile transforms filters and holds some tiles for all points of one row:
 * transformed filters are never stored, and a third to a half of the operations belong to the transform. That
 * pays if few tiles share filters that come from memory. */
#include "kernels/loops/lower_winograd.h"
#include "kernels/space/draft.h"

/* Elements of the weights that the prefetches of two steps reach. */
static int64_t fetched(const struct wino *q)
{
	return (int64_t)q->s->prefetch * stage_line(&q->w->s.st[0]);
}

static int constants(const struct wino *q)
{
	return q->w->at[q->in->st->read[q->f.filter].operand].buf;
}

/* ---- pixels that are prefetched while products are computed ---- */

/* Number of pixels that a block of channels fetches for the register tile: neighbours in a row, starting
 * where aim_inputs and aim_outputs set the nests. The neighbour of a row's end is the next row's start. */
struct pixels {
	int in, out;
};

/* Aims at row xi / points of the windows of the next block's tiles. The register tiles with points of this
 * row share the work; `turn` of `turns` is the number of the register tile among those of its point. */
static int aim_inputs(const struct wino *q, const struct ix *xi, const struct ix *turn, int64_t turns)
{
	struct loops *l = q->l;
	const struct ix *points = ix_c(l, q->points), *m = ix_c(l, q->s->m);
	int64_t wide = (int64_t)q->s->tiles * q->s->m, each = ceil_div(wide, q->points * turns);
	const struct ix *x = ix_mul(l, wino_at(q, ix_mod(l, xi, points), turns, turn), ix_c(l, each));
	wino_tile(q, q->in, ix_add(l, ix_c(l, q->s->tiles), ix_div(l, x, m)));
	q->in->base[q->f.r] = ix_div(l, xi, points);
	q->in->base[q->f.s] = ix_add(l, ix_mod(l, x, m), ix_c(l, 1));
	return (int)each;
}

/* Aims at a row of this chunk's outputs of panel kt; the points for each row share the work. */
static int aim_outputs(const struct wino *q, const struct ix *xi, const struct ix *kt, const struct ix *turn,
		       int64_t turns)
{
	struct loops *l = q->l;
	const struct ix *m = ix_c(l, q->s->m);
	int64_t shares = (int64_t)q->points * q->points / q->s->m, wide = (int64_t)q->s->tiles * q->s->m;
	int64_t each = ceil_div(wide, shares * turns * q->z.cblocks);
	const struct ix *share = wino_at(q, ix_mod(l, xi, ix_c(l, shares)), turns, turn);
	const struct ix *x = ix_mul(l, share, ix_c(l, each * q->z.cblocks));
	struct nest *k = q->out;
	wino_tile(q, k, ix_div(l, x, m));
	k->base[q->f.y] = ix_add(l, k->base[q->f.y], ix_div(l, xi, ix_c(l, shares)));
	k->base[q->f.x] = ix_add(l, k->base[q->f.x], ix_mod(l, x, m));
	k->base[q->f.k] = ix_mul(l, wino_at(q, q->chunk, q->s->chunk, wino_at(q, kt, q->s->kv, ix_c(l, 0))),
				 ix_c(l, q->lanes));
	return (int)each;
}

/* Aims at the pixels for register tile i of point xi and panel kt. */
static struct pixels aim_pixels(const struct wino *q, const struct ix *xi, const struct ix *kt,
				const struct ix *i)
{
	struct loops *l = q->l;
	int64_t tiles = ceil_div(q->s->tiles, q->s->px), panels = q->s->chunk / q->s->kv;
	int64_t each = ceil_div(q->z.chunks, q->s->parts);
	const struct ix *chunk = ix_mod(l, q->chunk, ix_c(l, each));
	const struct ix *turn = wino_at(q, wino_at(q, chunk, panels, kt), tiles, i);
	return (struct pixels){.in = aim_inputs(q, xi, turn, each * panels * tiles),
			       .out = aim_outputs(q, xi, kt, i, tiles)};
}

static void fetch_row(const struct wino *q, struct nest *k, int read, int axis, int n)
{
	static const int none[MAX_AXES];
	const struct ix *first = k->base[axis];
	for (int x = 0; x < n; x++) {
		k->base[axis] = ix_add(q->l, first, ix_c(q->l, x));
		struct mem m = nest_mem(k, read, none, q->lanes);
		lv_prefetch(q->l, m.buf, m.at, 2);
	}
	k->base[axis] = first;
}

/* Fetches the pixels for block of channels cb. */
static void fetch_pixels(const struct wino *q, const struct pixels *p, const struct ix *cb)
{
	struct loops *l = q->l;
	struct nest *k = q->out;
	const struct ix *x = k->base[q->f.x], *vector = k->base[q->f.k];
	q->in->base[q->f.c] = ix_mul(l, cb, ix_c(l, q->lanes));
	fetch_row(q, q->in, q->f.in, q->f.s, p->in);
	k->base[q->f.x] = ix_add(l, x, ix_mul(l, cb, ix_c(l, p->out)));
	for (int j = 0; j < q->s->kv; j++) {
		k->base[q->f.k] = ix_add(l, vector, ix_c(l, (int64_t)j * q->lanes));
		fetch_row(q, k, k->st->nreads, q->f.x, p->out);
	}
	k->base[q->f.x] = x;
	k->base[q->f.k] = vector;
}

/* ---- register tiles ---- */

/* What a register tile reads: channels [from, from + n); weights or filters from element `at` on; inputs and
 * sums from vector `tile` of a block on. What it fetches: weights or filters from element `next` on, the
 * inputs of the next tile from `after` on, and pixels (NULL: none). */
struct tile {
	const struct ix *from, *n, *at, *tile, *next, *after;
	const struct pixels *pixels;
	int level;
};

/* The sum of tile `p` of point xi. */
static struct mem sum(const struct wino *q, const struct ix *xi, const struct ix *vector,
		      const struct tile *t, int64_t p)
{
	return wino_scratch(q, SCRATCH_M,
			    wino_at(q, xi, q->z.m_plane, wino_at(q, vector, q->s->tiles, t->tile)),
			    p * q->lanes);
}

/* The loops over the channels. */
struct channels {
	struct stmt *open[2];
	const struct ix *i, *v;       /* channel relative to the first; V's element of point 0 */
	const struct ix *lane, *last; /* channel within its block; whether the block is the last one: 0 or
				       * 1 */
};

static struct channels channels_begin(const struct wino *q, const struct tile *t, int unroll)
{
	struct loops *l = q->l;
	struct channels c;
	const struct ix *cb, *lanes = ix_c(l, q->lanes);
	const struct ix *blocks = ix_div(l, ix_add(l, t->n, ix_c(l, q->lanes - 1)), lanes);
	c.open[0] = for_begin(l, ix_c(l, 0), blocks, 1, true, &cb);
	const struct ix *done = ix_mul(l, cb, lanes), *left = ix_sub(l, t->n, done);
	if (t->pixels)
		fetch_pixels(q, t->pixels, cb);
	c.open[1] = for_begin(l, ix_c(l, 0), ix_min(l, lanes, left), unroll, true, &c.lane);
	c.i = ix_add(l, done, c.lane);
	const struct ix *v = wino_at(q, ix_add(l, ix_div(l, t->from, lanes), cb), q->s->tiles, t->tile);
	c.v = ix_add(l, q->w->wino[SCRATCH_V], wino_at(q, v, q->lanes, c.lane));
	c.last = ix_eq(l, cb, ix_sub(l, blocks, ix_c(l, 1)));
	return c;
}

static void channels_end(const struct wino *q, const struct channels *c)
{
	for_end(q->l, c->open[1]);
	for_end(q->l, c->open[0]);
}

/* Fetches the inputs that n tiles read after a block of channels, a part in each of the block's steps. v: the
 * block's first input. */
static void fetch_inputs(const struct wino *q, const struct tile *t, const struct channels *c,
			 const struct ix *v, int n, int unroll)
{
	struct loops *l = q->l;
	int lines = (unroll * n + q->lanes - 1) / q->lanes;
	const struct ix *block = wino_at(q, ix_c(l, q->s->tiles), q->lanes, ix_sub(l, v, c->lane));
	const struct ix *next = ix_add(l, block, ix_mul(l, c->last, ix_sub(l, t->after, block)));
	next = ix_add(l, next,
		      ix_mul(l, ix_div(l, c->lane, ix_c(l, unroll)), ix_c(l, (int64_t)lines * q->lanes)));
	for (int z = 0; z < lines && q->s->prefetch; z++)
		lv_prefetch(l, q->w->scratch_buf, ix_add(l, next, ix_c(l, (int64_t)z * q->lanes)), 1);
}

static void fetch(const struct wino *q, const struct tile *t, const struct ix *step)
{
	const struct ix *next = wino_at(q, step, fetched(q) / 2, t->next);
	int64_t line = stage_line(&q->w->s.st[0]);
	for (int z = 0; z < q->s->prefetch; z++)
		lv_prefetch(q->l, constants(q), ix_add(q->l, next, ix_c(q->l, z * line)), t->level);
}

static int broadcast(const struct wino *q, const struct ix *at)
{
	return wino_load(q, (struct mem){.buf = q->w->scratch_buf, .at = at});
}

/* One step of the reduction: kv vectors of weights times n broadcast inputs each. */
static void step(const struct wino *q, int n, const int *acc, const struct ix *u, const struct ix *v)
{
	struct loops *l = q->l;
	int w[SCHED_TILE], kv = q->s->kv;
	for (int j = 0; j < kv; j++)
		w[j] = wino_load(q, (struct mem){.buf = constants(q),
						 .at = ix_add(l, u, ix_c(l, (int64_t)j * q->lanes)),
						 .stride = 1});
	for (int p = 0; p < n; p++) {
		int x = broadcast(q, ix_add(l, v, ix_c(l, (int64_t)p * q->lanes)));
		for (int j = 0; j < kv; j++)
			lv_set(l, acc[p * kv + j], V_FMA, x, w[j], acc[p * kv + j], -1);
	}
}

/* The products of n tiles of point xi with panel kt. */
static void product(const struct wino *q, const struct ix *xi, const struct ix *kt, const struct tile *t,
		    int n)
{
	struct loops *l = q->l;
	int kv = q->s->kv, acc[SCHED_TILE];
	bool piped = draft_in_order(q->w->tg) && kv == PIPED_VECTORS && n <= PIPED_POINTS;
	int unroll = q->z.channels % 4 == 0 && (piped || n * kv < 12) ? 4 : q->z.channels % 2 == 0 ? 2 : 1;
	for (int j = 0; j < n * kv; j++)
		lv_const(l, acc[j] = lv_new(l, q->lanes), 0);
	struct channels c = channels_begin(q, t, unroll);
	const struct ix *v = wino_at(q, xi, q->z.v_plane * q->lanes, c.v);
	fetch_inputs(q, t, &c, v, n, unroll);
	for (int j = 0; j < unroll; j++) {
		const struct ix *i = ix_add(l, c.i, ix_c(l, j));
		if (j % 2 == 0)
			fetch(q, t, i);
		step(q, n, acc, wino_at(q, i, (int64_t)kv * q->lanes, t->at), ix_add(l, v, ix_c(l, j)));
	}
	channels_end(q, &c);
	for (int j = 0; j < n * kv; j++)
		lv_store(l, acc[j], sum(q, xi, wino_at(q, kt, kv, ix_c(l, j % kv)), t, j / kv));
}

void wino_products(const struct wino *q)
{
	struct loops *l = q->l;
	const struct ix *xi, *kt, *i;
	int px = q->s->px, full = q->s->tiles / px, rest = q->s->tiles % px, kv = q->s->kv;
	int64_t panels = q->s->chunk / kv, xis = (int64_t)q->points * q->points,
		panel = q->z.channels * kv * q->lanes;
	const struct ix *left = ix_sub(l, ix_c(l, q->z.vectors), ix_mul(l, q->chunk, ix_c(l, q->s->chunk)));
	const struct ix *used =
	    ix_min(l, ix_c(l, panels), ix_div(l, ix_add(l, left, ix_c(l, kv - 1)), ix_c(l, kv)));
	struct stmt *points = wino_loop_n(q, xis, &xi), *ks = wino_loop(q, used, &kt);
	const struct ix *u = ix_mul(l, wino_at(q, wino_at(q, q->chunk, xis, xi), panels, kt), ix_c(l, panel));
	const struct ix *n = ix_div(l, ix_add(l, q->count, ix_c(l, px - 1)), ix_c(l, px));
	int64_t ahead = q->z.channels * fetched(q) / 2;
	struct stmt *tiles = wino_loop(q, ix_min(l, n, ix_c(l, full)), &i);
	struct pixels pixels;
	struct tile t = {.from = ix_c(l, 0),
			 .n = ix_c(l, q->z.channels),
			 .at = u,
			 .pixels = q->s->pixels ? &pixels : NULL,
			 .level = 1};
	const struct ix *one = ix_c(l, 1), *tile = ix_add(l, i, one), *more = ix_lt(l, tile, n);
	const struct ix *turn = ix_eq(l, kt, ix_sub(l, used, one)), *start = q->w->wino[SCRATCH_V];
	const struct ix *after = wino_at(q, ix_add(l, xi, turn), q->z.v_plane * q->lanes, start);
	t.tile = ix_mul(l, i, ix_c(l, px));
	t.next =
	    wino_at(q, i, ahead, ix_add(l, u, ix_c(l, q->s->tiles > px || panel < AHEAD ? panel : AHEAD)));
	t.after = wino_at(q, xi, q->z.v_plane * q->lanes, wino_at(q, tile, (int64_t)px * q->lanes, start));
	t.after = ix_add(l, after, ix_mul(l, more, ix_sub(l, t.after, after)));
	if (t.pixels)
		pixels = aim_pixels(q, xi, kt, i);
	product(q, xi, kt, &t, px);
	for_end(l, tiles);
	if (rest) {
		struct stmt *s = if_begin(l, ix_lt(l, ix_c(l, (int64_t)full * px), q->count));
		t.tile = ix_c(l, (int64_t)full * px);
		t.next = ix_add(l, u, ix_c(l, full * ahead + panel));
		t.after = after;
		if (t.pixels)
			pixels = aim_pixels(q, xi, kt, ix_c(l, full));
		product(q, xi, kt, &t, rest);
		if_end(l, s);
	}
	for_end(l, ks);
	for_end(l, points);
}

/* ---- products with untransformed filters ---- */

/* Row y of the points of the filter vector at `from`. */
static void filter(const struct wino *q, int y, const struct ix *from, int *out)
{
	struct loops *l = q->l;
	int row[3];
	for (int s = 0; s < 3; s++) {
		int g[3] = {-1, -1, -1};
		for (int r = 0; r < 3; r++)
			if (transform_filter_uses(q->s->m, y, r))
				g[r] = wino_load(
				    q, (struct mem){
					   .buf = constants(q),
					   .at = ix_add(l, from, ix_c(l, (3 * r + s) * (int64_t)q->lanes)),
					   .stride = 1});
		row[s] = transform_filter_row(l, q->s->m, y, g, q->lanes);
	}
	transform_filter(l, q->s->m, row, out, q->lanes);
}

/* The products of n tiles, for all points of row y, with one vector of filters that are transformed in
 * registers. */
static void product_raw(const struct wino *q, int y, const struct ix *vector, const struct tile *t, int n)
{
	struct loops *l = q->l;
	int acc[SCHED_TILE], w[8], unroll = q->z.channels % 2 ? 1 : 2;
	for (int j = 0; j < n * q->points; j++)
		if (q->z.groups > 1)
			acc[j] = wino_load(q, sum(q, ix_c(l, y * q->points + j / n), vector, t, j % n));
		else
			lv_const(l, acc[j] = lv_new(l, q->lanes), 0);
	struct channels c = channels_begin(q, t, unroll);
	for (int j = 0; j < unroll; j++) {
		const struct ix *i = ix_add(l, c.i, ix_c(l, j));
		if (j == 0)
			fetch(q, t, i);
		filter(q, y, wino_at(q, i, (int64_t)9 * q->lanes, t->at), w);
		for (int z = 0; z < n * q->points; z++) {
			int64_t off = (y * q->points + z / n) * q->z.v_plane + z % n;
			int x = broadcast(q, ix_add(l, c.v, ix_c(l, off * q->lanes + j)));
			lv_set(l, acc[z], V_FMA, w[z / n], x, acc[z], -1);
		}
	}
	channels_end(q, &c);
	for (int j = 0; j < n * q->points; j++)
		lv_store(l, acc[j], sum(q, ix_c(l, y * q->points + j / n), vector, t, j % n));
}

static void clear_sums(const struct wino *q)
{
	struct loops *l = q->l;
	const struct ix *i;
	int zero = lv_new(l, q->lanes);
	lv_const(l, zero, 0);
	struct stmt *f = wino_loop_n(q, q->z.m_elems / q->lanes, &i);
	lv_store(l, zero, wino_scratch(q, SCRATCH_M, i, 0));
	for_end(l, f);
}

/* The i-th n tiles, for all points. */
static void rows_raw(const struct wino *q, const struct ix *vector, struct tile t, const struct ix *i, int n)
{
	struct loops *l = q->l;
	const struct ix *next = t.next;
	t.tile = ix_mul(l, i, ix_c(l, q->s->px));
	for (int y = 0; y < q->points; y++) {
		const struct ix *done = wino_at(q, i, q->points, ix_c(l, y));
		t.next = wino_at(q, done, q->z.group * fetched(q) / 2, next);
		product_raw(q, y, vector, &t, n);
	}
}

/* The filters of a group of channels stay in the L1 while all tiles use them. */
void wino_products_raw(const struct wino *q)
{
	struct loops *l = q->l;
	const struct ix *k, *g, *i;
	int px = q->s->px, full = q->s->tiles / px, rest = q->s->tiles % px;
	int64_t each = (int64_t)9 * q->lanes;
	if (q->z.groups > 1)
		clear_sums(q);
	const struct ix *first = ix_mul(l, q->chunk, ix_c(l, q->s->chunk));
	const struct ix *used = ix_min(l, ix_c(l, q->s->chunk), ix_sub(l, ix_c(l, q->z.vectors), first));
	struct stmt *ks = wino_loop(q, used, &k), *groups = wino_loop_n(q, q->z.groups, &g);
	struct tile t = {.from = ix_mul(l, g, ix_c(l, q->z.group)), .level = 2};
	t.n = ix_min(l, ix_c(l, q->z.group), ix_sub(l, ix_c(l, q->z.channels), t.from));
	t.at = ix_mul(l, wino_at(q, ix_add(l, first, k), q->z.channels, t.from), ix_c(l, each));
	t.next = ix_add(l, t.at, ix_c(l, q->z.group * each));
	const struct ix *n = ix_div(l, ix_add(l, q->count, ix_c(l, px - 1)), ix_c(l, px));
	struct stmt *tiles = wino_loop(q, ix_min(l, n, ix_c(l, full)), &i);
	rows_raw(q, k, t, i, px);
	for_end(l, tiles);
	if (rest) {
		struct stmt *s = if_begin(l, ix_lt(l, ix_c(l, (int64_t)full * px), q->count));
		rows_raw(q, k, t, ix_c(l, full), rest);
		if_end(l, s);
	}
	for_end(l, groups);
	for_end(l, ks);
}
