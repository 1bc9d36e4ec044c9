/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of a Winograd convolution. Each parallel index is a block of tiles and a part of the output
 * channels: it transforms the inputs, then for each chunk of channels computes the products and transforms
 * them back through a small tile in scratch, because (m + 2)^2 values do not fit the registers. With few
 * registers the inputs go through that tile too. */
#include "kernels/loops/lower_winograd.h"

#include <string.h>

bool winograd_packs(const struct lower *w, int read)
{
	struct winograd_form f;
	return winograd_form(w->t, &f) >= 0 && f.filter == read;
}

/* Filters, transformed or raw: one loop per digit, in the order of use. */
int winograd_packing(struct lower *w, struct lower_place *p)
{
	const struct sstage *s = &w->s.st[0];
	struct winograd_form f;
	int rc = winograd_form(w->t, &f);
	if (rc < 0)
		return rc;
	struct winograd_sizes z = winograd_sizes(w->t, s);
	const struct stage *st = &w->t->stage[0];
	const struct operand *o = &w->t->operand[st->read[f.filter].operand];
	bool raw = s->wino.raw, fused = winograd_is_fused(s);
	int kv = fused ? s->wino.chunk : s->wino.kv;
	int64_t points = raw ? 1 : z.points, taps = raw ? 3 : 1, channels = st->axis[f.c].extent,
		depth = fused ? s->share : channels;
	const struct {
		int64_t extent;
		int dim;
		int64_t coef;
	} loop[] = {{z.chunks, f.filter_dim[0], (int64_t)s->wino.chunk * s->lanes},
		    {ceil_div(channels, depth), f.filter_dim[1], depth},
		    {points, -1, 0},
		    {points, -1, 0},
		    {s->wino.chunk / kv, f.filter_dim[0], (int64_t)kv * s->lanes},
		    {depth, f.filter_dim[1], 1},
		    {kv, f.filter_dim[0], s->lanes},
		    {taps, f.filter_dim[2], 1},
		    {taps, f.filter_dim[3], 1},
		    {s->lanes, f.filter_dim[0], 1}};
	struct packing *k = &p->packing;
	*k = (struct packing){.src = o->dims};
	for (size_t i = 0; i < sizeof loop / sizeof *loop; i++) {
		if (i == 1 && !fused) /* one step of all channels */
			continue;
		int j = k->n++;
		k->extent[j] = loop[i].extent;
		if (loop[i].dim >= 0 && loop[i].extent > 1)
			k->coef[loop[i].dim][j] = (int32_t)loop[i].coef;
	}
	k->winograd.m = raw ? 0 : s->wino.m;
	for (int i = 0; i < 2 && !raw; i++) {
		k->winograd.dim[i] = f.filter_dim[2 + i];
		k->winograd.loop[i] = 1 + fused + i;
	}
	p->packed = true;
	return pack_check(k);
}

void winograd_scratch(struct lower *w)
{
	struct winograd_sizes z = winograd_sizes(w->t, &w->s.st[0]);
	bool items = target_runs_items(w->tg);
	int64_t tile = (int64_t)z.points * z.points * w->s.st[0].lanes, each = items ? z.batch : 1;
	const int64_t elems[] = {z.v_elems * each, z.m_elems * each, items ? 0 : tile};
	for (int i = 0; i < 3; i++)
		w->wino[i] = lower_scratch(w, ix_c(w->l, elems[i]));
}

void wino_tile(const struct wino *q, struct nest *k, const struct ix *t)
{
	struct loops *l = q->l;
	const struct ix *tile = ix_add(l, q->first, t), *wide = ix_c(l, q->z.wide), *m = ix_c(l, q->s->m);
	k->base[q->f.y] = ix_mul(l, ix_div(l, tile, wide), m);
	k->base[q->f.x] = ix_mul(l, ix_mod(l, tile, wide), m);
}

/* ---- inputs ---- */

struct mem wino_pixel(const struct wino *q, const struct ix *y, const struct ix *x, bool inside)
{
	static const int none[MAX_AXES];
	struct nest *k = q->in;
	k->base[q->f.r] = y;
	k->base[q->f.s] = x;
	struct mem m = nest_mem(k, q->f.in, none, q->lanes);
	if (!inside)
		m.guard = nest_inside(k, q->f.in, none);
	return m;
}

/* Transforms the columns of the window into the tile in scratch. */
static void input_columns(const struct wino *q, bool inside)
{
	const struct ix *x;
	int d[8], v[8];
	struct stmt *f = wino_loop_n(q, q->points, &x);
	for (int y = 0; y < q->points; y++)
		d[y] = wino_load(q, wino_pixel(q, ix_c(q->l, y), x, inside));
	transform_input(q->l, q->s->m, ~0u, d, v, q->lanes);
	for (int y = 0; y < q->points; y++)
		lv_store(q->l, v[y], wino_scratch(q, SCRATCH_TILE, x, (int64_t)y * q->points * q->lanes));
	for_end(q->l, f);
}

/* Transforms the columns of a row of points and stores it to vector `at` of V's planes. */
static void input_row(const struct wino *q, const struct ix *y, const int *columns, const struct ix *at)
{
	int v[8];
	transform_input(q->l, q->s->m, ~0u, columns, v, q->lanes);
	const struct ix *to = wino_at(q, y, q->points * q->z.v_plane, at);
	for (int x = 0; x < q->points; x++)
		lv_store(q->l, v[x], wino_scratch(q, SCRATCH_V, to, x * q->z.v_plane * q->lanes));
}

/* Transforms the rows of the tile in scratch to V. */
static void input_rows(const struct wino *q, const struct ix *at)
{
	const struct ix *y;
	int d[8];
	struct stmt *f = wino_loop_n(q, q->points, &y);
	const struct ix *from = ix_mul(q->l, y, ix_c(q->l, q->points));
	for (int x = 0; x < q->points; x++)
		d[x] = wino_load(q, wino_scratch(q, SCRATCH_TILE, from, (int64_t)x * q->lanes));
	input_row(q, y, d, at);
	for_end(q->l, f);
}

void wino_input_rows(const struct wino *q, const struct ix *at, int from, int to, bool inside)
{
	struct loops *l = q->l;
	unsigned rows = (1u << to) - (1u << from);
	int row[8][8], d[8], v[8];
	for (int x = 0; x < q->points; x++) {
		for (int y = 0; y < q->points; y++)
			d[y] = transform_input_needs(q->s->m, rows, y)
				   ? wino_load(q, wino_pixel(q, ix_c(l, y), ix_c(l, x), inside))
				   : -1;
		transform_input(l, q->s->m, rows, d, v, q->lanes);
		for (int y = from; y < to; y++)
			row[y][x] = v[y];
	}
	for (int y = from; y < to; y++)
		input_row(q, ix_c(l, y), row[y], at);
}

/* Transforms a tile of one block of channels. With many long registers it stays in registers; elsewhere that
 * would spill. Rows 1 and 2, and 3 and 4, share terms. */
static void input_tile(const struct wino *q, const struct ix *at, bool inside)
{
	if (q->w->tg->regs < 32 || q->lanes < 16) {
		input_columns(q, inside);
		input_rows(q, at);
		return;
	}
	for (int y = 0, n; y < q->points; y += n) {
		n = y > 0 && y + 2 < q->points ? 2 : 1;
		wino_input_rows(q, at, y, y + n, inside);
	}
}

static void inputs(const struct wino *q)
{
	struct loops *l = q->l;
	const struct ix *cb, *t, *last = ix_c(l, q->points - 1), *none = ix_c(l, 0);
	struct stmt *blocks = wino_loop_n(q, q->z.cblocks, &cb), *tiles = wino_loop(q, q->count, &t);
	q->in->base[q->f.c] = ix_mul(l, cb, ix_c(l, q->lanes));
	wino_tile(q, q->in, t);
	const struct ix *inside =
	    ix_mul(l, wino_pixel(q, none, none, false).guard, wino_pixel(q, last, last, false).guard);
	struct stmt *s = if_begin(l, inside);
	const struct ix *at = wino_at(q, cb, q->s->tiles, t);
	input_tile(q, at, true);
	if_else(l, s);
	input_tile(q, at, false);
	if_end(l, s);
	for_end(l, tiles);
	for_end(l, blocks);
}

/* ---- outputs ---- */

static void output_columns(const struct wino *q, const struct ix *k, const struct ix *t)
{
	struct loops *l = q->l;
	const struct ix *x;
	int64_t plane = q->z.m_plane;
	int d[8], v[8];
	struct stmt *f = wino_loop_n(q, q->points, &x);
	const struct ix *from = wino_at(q, x, plane, wino_at(q, k, q->s->tiles, t));
	for (int y = 0; y < q->points; y++)
		d[y] = wino_load(q, wino_scratch(q, SCRATCH_M, from, y * q->points * plane * q->lanes));
	transform_output(l, q->s->m, q->s->raw, d, v, q->lanes);
	for (int y = 0; y < q->s->m; y++)
		lv_store(l, v[y], wino_scratch(q, SCRATCH_TILE, x, (int64_t)y * q->points * q->lanes));
	for_end(l, f);
}

void wino_put(const struct wino *q, int x, int sum)
{
	int i[MAX_AXES] = {0};
	i[q->f.x] = x;
	int v = nest_post(q->out, i, sum);
	lv_store(q->l, v, nest_mem(q->out, q->out->st->nreads, i, q->lanes));
}

/* Stores the pixels one at a time, from scratch, because the row leaves the image or the program is long. */
static void put_each(const struct wino *q, const int *v, const struct ix *n)
{
	struct loops *l = q->l;
	struct nest *k = q->out;
	const struct ix *base = k->base[q->f.x], *x, *none = ix_c(l, 0);
	int known = k->nknown;
	for (int i = 0; i < q->s->m; i++)
		lv_store(l, v[i], wino_scratch(q, SCRATCH_TILE, none, (int64_t)i * q->lanes));
	struct stmt *f = wino_loop(q, n, &x);
	k->base[q->f.x] = ix_add(l, base, x);
	wino_put(q, 0, wino_load(q, wino_scratch(q, SCRATCH_TILE, x, 0)));
	for_end(l, f);
	k->base[q->f.x] = base;
	k->nknown = known;
}

static void put_row(const struct wino *q, const int *v)
{
	struct loops *l = q->l;
	struct nest *k = q->out;
	int known = k->nknown, m = q->s->m;
	const struct ix *left = ix_sub(l, k->extent[q->f.x], k->base[q->f.x]);
	const struct ix *n = ix_min(l, ix_c(l, m), left), *whole = ix_lt(l, ix_c(l, m - 1), left);
	if (stage_long_post(k->st)) {
		put_each(q, v, n);
		return;
	}
	struct stmt *s = if_begin(l, whole);
	for (int x = 0; x < m; x++)
		wino_put(q, x, v[x]);
	k->nknown = known;
	if_else(l, s);
	put_each(q, v, n);
	if_end(l, s);
}

/* Computes the rows of the transformed tile. Each is loaded before put_each overwrites row 0. */
static void output_rows(const struct wino *q)
{
	struct loops *l = q->l;
	struct nest *k = q->out;
	const struct ix *y, *top = k->base[q->f.y];
	int d[8], v[8], known = k->nknown;
	const struct ix *rows = ix_min(l, ix_c(l, q->s->m), ix_sub(l, k->extent[q->f.y], top));
	struct stmt *f = wino_loop(q, rows, &y);
	for (int x = 0; x < q->points; x++)
		d[x] = wino_load(q, wino_scratch(q, SCRATCH_TILE, ix_mul(l, y, ix_c(l, q->points)),
						 (int64_t)x * q->lanes));
	transform_output(l, q->s->m, q->s->raw, d, v, q->lanes);
	k->base[q->f.y] = ix_add(l, top, y);
	put_row(q, v);
	k->nknown = known;
	for_end(l, f);
}

void wino_hoist(const struct wino *q)
{
	static const int none[MAX_AXES];
	struct nest *k = q->out;
	for (int i = 0, n = 0; i < k->st->nreads && n < 4; i++)
		if (i != q->f.in && i != q->f.filter && !(k->axes[i] & (1u << q->f.y | 1u << q->f.x))) {
			nest_load(k, i, none, q->lanes);
			n++;
		}
}

static void outputs(const struct wino *q)
{
	struct loops *l = q->l;
	const struct ix *i, *t, *done = ix_mul(l, q->chunk, ix_c(l, q->s->chunk));
	const struct ix *n = ix_min(l, ix_c(l, q->s->chunk), ix_sub(l, ix_c(l, q->z.vectors), done));
	int known = q->out->nknown;
	struct stmt *vectors = wino_loop(q, n, &i);
	q->out->base[q->f.k] = ix_mul(l, ix_add(l, done, i), ix_c(l, q->lanes));
	wino_hoist(q);
	struct stmt *tiles = wino_loop(q, q->count, &t);
	wino_tile(q, q->out, t);
	output_columns(q, i, t);
	output_rows(q);
	for_end(l, tiles);
	for_end(l, vectors);
	q->out->nknown = known;
}

/* ---- the stage ---- */

struct nest *wino_input_nest(struct wino *q, const struct nest *k)
{
	struct nest *in = arena_memdup(q->l->arena, k, sizeof *k);
	struct sstage *s = arena_memdup(q->l->arena, k->s, sizeof *k->s);
	s->lane = q->f.c;
	in->s = s;
	in->stride[q->f.in] = 1;
	in->masks[q->f.in] = false;
	in->unguard = true;
	return in;
}

/* Splits the entry's index into the block of tiles (fastest), the other axes, and the part of the channels
 * (slowest): a thread with consecutive indexes keeps the weights of one part in its cache. */
static const struct ix *bind_index(struct wino *q, const struct ix *p)
{
	struct loops *l = q->l;
	const struct ix *blocks = ix_c(l, q->z.blocks);
	q->first = ix_mul(l, ix_mod(l, p, blocks), ix_c(l, q->s->tiles));
	q->count = ix_min(l, ix_c(l, q->s->tiles), ix_sub(l, ix_c(l, q->z.tiles), q->first));
	p = ix_div(l, p, blocks);
	for (int a = q->out->ns - 1; a >= 0; a--) {
		if (a == q->f.k || a == q->f.y || a == q->f.x)
			continue;
		q->in->base[a] = q->out->base[a] = ix_mod(l, p, q->out->extent[a]);
		p = ix_div(l, p, q->out->extent[a]);
	}
	return p;
}

void winograd_stage(struct nest *k)
{
	struct loops *l = k->w->l;
	struct wino *q = ARENA_NEW(l->arena, struct wino);
	*q = (struct wino){.w = k->w, .l = l, .out = k, .s = &k->s->wino, .lanes = k->s->lanes};
	if (winograd_form(k->w->t, &q->f) < 0) { /* cannot fail: the schedule was checked */
		l->failed = true;
		return;
	}
	q->z = winograd_sizes(k->w->t, k->s);
	q->points = q->z.points;
	k->last_masked = k->ragged;
	q->in = wino_input_nest(q, k);
	if (target_runs_items(k->w->tg)) {
		(winograd_is_fused(k->s) ? wino_fused : wino_items)(q);
		return;
	}
	int64_t each = (q->z.chunks + q->s->parts - 1) / q->s->parts;
	int e = loops_entry(l, ix_c(l, q->z.batch * q->z.blocks * q->s->parts));
	const struct ix *part = bind_index(q, ix_var(l, l->entry[e].var)), *i;
	inputs(q);
	const struct ix *from = ix_mul(l, part, ix_c(l, each));
	struct stmt *f =
	    for_begin(l, from, ix_min(l, ix_add(l, from, ix_c(l, each)), ix_c(l, q->z.chunks)), 1, false, &i);
	q->chunk = i;
	(q->s->raw ? wino_products_raw : wino_products)(q);
	outputs(q);
	for_end(l, f);
	loops_entry_end(l);
}
