/* SPDX-License-Identifier: Apache-2.0 */
/* A Winograd convolution on a device of work items: three entries, the transform of the inputs, the products
 * and the transform of the sums, with V and M in scratch that all items have in common
 * (kernels/space/winograd.h). Neighbouring items have neighbouring tiles, whose vectors of V and M lie side
 * by side. */
#include "kernels/loops/lower_winograd.h"

enum { MOST_HELD = 24 /* vectors of four lanes of a transform's results */ };

struct place {
	const struct ix *v, *m; /* scratch offsets of V and M */
};

/* Opens an entry of n indexes for each image of the batch. Returns the index within the image, whose V and M
 * and axes are bound. */
static const struct ix *begin(struct wino *q, const struct place *at, int64_t n)
{
	struct loops *l = q->l;
	int e = loops_entry(l, ix_c(l, q->z.batch * n));
	l->entry[e].group = q->w->s.st[0].group;
	const struct ix *p = ix_var(l, l->entry[e].var), *image = ix_div(l, p, ix_c(l, n));
	q->w->wino[SCRATCH_V] = ix_add(l, at->v, ix_mul(l, image, ix_c(l, q->z.v_elems)));
	q->w->wino[SCRATCH_M] = ix_add(l, at->m, ix_mul(l, image, ix_c(l, q->z.m_elems)));
	q->out->nknown = 0;
	for (int a = q->out->ns - 1; a >= 0; a--) {
		if (a == q->f.k || a == q->f.y || a == q->f.x)
			continue;
		q->in->base[a] = q->out->base[a] = ix_mod(l, image, q->out->extent[a]);
		image = ix_div(l, image, q->out->extent[a]);
	}
	return q->z.batch == 1 ? p : ix_mod(l, p, ix_c(l, n));
}

/* Splits *p into its value modulo n, which is returned, and the rest. */
static const struct ix *take(const struct wino *q, const struct ix **p, int64_t n)
{
	const struct ix *low = ix_mod(q->l, *p, ix_c(q->l, n));
	*p = ix_div(q->l, *p, ix_c(q->l, n));
	return low;
}

/* Pixels outside of the input are guarded one by one: a branch around whole windows would make items wait for
 * each other. */
static void inputs(struct wino *q, const struct place *at)
{
	struct loops *l = q->l;
	const struct ix *cb = begin(q, at, q->z.cblocks * q->z.tiles), *t = take(q, &cb, q->z.tiles);
	int rows = q->points * q->points * q->lanes <= 4 * MOST_HELD ? q->points : q->points / 2;
	q->in->base[q->f.c] = ix_mul(l, cb, ix_c(l, q->lanes));
	wino_tile(q, q->in, t);
	for (int y = 0; y < q->points; y += rows)
		wino_input_rows(q, wino_at(q, cb, q->s->tiles, t), y, y + rows, false);
	loops_entry_end(l);
}

/* The products of a block of channels: `steps` of them, from channel `first` on. Vectors of V hold those of
 * one tile. */
static void multiply(const struct wino *q, const struct ix *v, const struct ix *u, int steps, const int *acc)
{
	struct loops *l = q->l;
	int px = q->s->px, kv = q->s->kv, in[SCHED_TILE], w[SCHED_TILE];
	int constants = q->w->at[q->in->st->read[q->f.filter].operand].buf;
	for (int p = 0; p < px; p++)
		in[p] = wino_load(q, wino_scratch(q, SCRATCH_V, v, (int64_t)p * q->lanes));
	for (int c = 0; c < steps; c++) {
		for (int j = 0; j < kv; j++)
			w[j] = wino_load(
			    q, (struct mem){.buf = constants,
					    .at = ix_add(l, u, ix_c(l, ((int64_t)c * kv + j) * q->lanes)),
					    .stride = 1});
		for (int p = 0; p < px; p++) {
			int x = lv_new(l, q->lanes);
			lv_lane(l, x, in[p], c);
			for (int j = 0; j < kv; j++)
				lv_set(l, acc[p * kv + j], V_FMA, x, w[j], acc[p * kv + j], -1);
		}
	}
}

static void products(struct wino *q, const struct place *at)
{
	struct loops *l = q->l;
	int px = q->s->px, kv = q->s->kv, acc[SCHED_TILE];
	int64_t xis = (int64_t)q->points * q->points, panels = q->s->chunk / kv, across = q->s->tiles / px,
		panel = q->z.channels * kv * q->lanes, block = (int64_t)q->lanes * kv * q->lanes,
		full = q->z.channels / q->lanes;
	const struct ix *xi = begin(q, at, xis * panels * across), *tile = take(q, &xi, across),
			*kt = take(q, &xi, panels), *cb;
	const struct ix *u = ix_mul(l, wino_at(q, xi, panels, kt), ix_c(l, panel));
	const struct ix *v = wino_at(q, xi, q->z.v_plane, ix_mul(l, tile, ix_c(l, px)));
	for (int i = 0; i < px * kv; i++)
		lv_const(l, acc[i] = lv_new(l, q->lanes), 0);
	if (full) {
		struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, full), 1, true, &cb);
		multiply(q, wino_at(q, cb, q->s->tiles, v), wino_at(q, cb, block, u), q->lanes, acc);
		for_end(l, f);
	}
	if (q->z.channels % q->lanes)
		multiply(q, ix_add(l, v, ix_c(l, full * q->s->tiles)), ix_add(l, u, ix_c(l, full * block)),
			 (int)(q->z.channels % q->lanes), acc);
	const struct ix *m = wino_at(q, xi, q->z.m_plane, ix_mul(l, tile, ix_c(l, px)));
	m = wino_at(q, kt, (int64_t)kv * q->s->tiles, m);
	for (int i = 0; i < px * kv; i++)
		lv_store(
		    l, acc[i],
		    wino_scratch(q, SCRATCH_M, m, ((i % kv) * (int64_t)q->s->tiles + i / kv) * q->lanes));
	loops_entry_end(l);
}

/* Opens a branch for a point that may lie behind the end of an axis; NULL: it never does. */
static struct stmt *if_inside(const struct wino *q, int axis, int i)
{
	const struct nest *k = q->out;
	const struct ix *in = ix_lt(q->l, ix_add(q->l, k->base[axis], ix_c(q->l, i)), k->extent[axis]);
	int64_t yes = 0;
	return ix_is_const(in, &yes) && yes ? NULL : if_begin(q->l, in);
}

void wino_row(const struct wino *q, int y, const int *columns)
{
	struct nest *k = q->out;
	const struct ix *top = k->base[q->f.y];
	int v[8], known = k->nknown;
	struct stmt *some = if_inside(q, q->f.y, y);
	transform_output(q->l, q->s->m, false, columns, v, q->lanes);
	k->base[q->f.y] = ix_add(q->l, top, ix_c(q->l, y));
	for (int x = 0; x < q->s->m; x++) {
		int before = k->nknown;
		struct stmt *one = if_inside(q, q->f.x, x);
		wino_put(q, x, v[x]);
		if (one)
			if_end(q->l, one);
		k->nknown = before;
	}
	if (some)
		if_end(q->l, some);
	k->base[q->f.y] = top;
	k->nknown = known;
}

static void outputs(struct wino *q, const struct place *at)
{
	struct loops *l = q->l;
	const struct ix *vector = begin(q, at, q->z.vectors * q->z.tiles), *t = take(q, &vector, q->z.tiles);
	int column[8][8], d[8], v[8];
	q->out->base[q->f.k] = ix_mul(l, vector, ix_c(l, q->lanes));
	wino_tile(q, q->out, t);
	const struct ix *from = wino_at(q, vector, q->s->tiles, t);
	for (int x = 0; x < q->points; x++) {
		for (int y = 0; y < q->points; y++)
			d[y] = wino_load(q, wino_scratch(q, SCRATCH_M, from,
							 (y * q->points + x) * q->z.m_plane * q->lanes));
		transform_output(l, q->s->m, false, d, v, q->lanes);
		for (int y = 0; y < q->s->m; y++)
			column[y][x] = v[y];
	}
	wino_hoist(q);
	for (int y = 0; y < q->s->m; y++)
		wino_row(q, y, column[y]);
	loops_entry_end(l);
}

void wino_items(struct wino *q)
{
	const struct place at = {q->w->wino[SCRATCH_V], q->w->wino[SCRATCH_M]};
	q->first = ix_c(q->l, 0);
	inputs(q, &at);
	products(q, &at);
	outputs(q, &at);
}
