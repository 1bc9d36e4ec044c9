/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by lower_winograd.c (the stage, inputs and outputs), lower_products.c, lower_winograd_items.c and
 * lower_winograd_fused.c; internal to the loops of kernels/space/winograd.h. */
#ifndef KERNELS_LOWER_WINOGRAD_H
#define KERNELS_LOWER_WINOGRAD_H

#include "kernels/loops/lower_parts.h"
#include "kernels/space/winograd_fused.h"

enum { SCRATCH_V, SCRATCH_M, SCRATCH_TILE };

struct wino {
	struct lower *w;
	struct loops *l;
	struct nest *in, *out; /* lanes along the input's channels; along the output's */
	struct winograd_form f;
	struct winograd_sizes z;
	const struct winograd *s;
	int lanes, points;
	const struct ix *first, *count; /* first tile and number of tiles of this block */
	const struct ix *chunk;         /* the current chunk */
};

/* a * c + b */
static inline const struct ix *wino_at(const struct wino *q, const struct ix *a, int64_t c,
				       const struct ix *b)
{
	return ix_add(q->l, ix_mul(q->l, a, ix_c(q->l, c)), b);
}

static inline struct mem wino_scratch(const struct wino *q, int part, const struct ix *offset, int64_t elems)
{
	return (struct mem){
	    .buf = q->w->scratch_buf,
	    .at = ix_add(q->l, q->w->wino[part], wino_at(q, offset, q->lanes, ix_c(q->l, elems))),
	    .stride = 1};
}

static inline int wino_load(const struct wino *q, struct mem m)
{
	int v = lv_new(q->l, q->lanes);
	lv_load(q->l, v, m);
	return v;
}

static inline struct stmt *wino_loop(const struct wino *q, const struct ix *n, const struct ix **i)
{
	return for_begin(q->l, ix_c(q->l, 0), n, 1, false, i);
}

static inline struct stmt *wino_loop_n(const struct wino *q, int64_t n, const struct ix **i)
{
	return wino_loop(q, ix_c(q->l, n), i);
}

/* Binds the nest's pixel axes to the first pixel of tile t of the block. */
void wino_tile(const struct wino *q, struct nest *k, const struct ix *t);

/* Computes rows [from, to) of a transformed window, for vector `at` of V's planes: all their columns are held
 * in registers. inside: no pixel needs a guard. */
void wino_input_rows(const struct wino *q, const struct ix *at, int from, int to, bool inside);
/* Loads values that do not depend on the pixel, such as a bias, once for all tiles. */
void wino_hoist(const struct wino *q);
/* Stores pixel x of the tile's row from its sum. */
void wino_put(const struct wino *q, int x, int sum);

/* The input's pixel (y, x) of the window; inside: it needs no guard. */
struct mem wino_pixel(const struct wino *q, const struct ix *y, const struct ix *x, bool inside);
/* A second view of the stage, with lanes along the input's channels. */
struct nest *wino_input_nest(struct wino *q, const struct nest *k);

/* lower_winograd_items.c: the entries on a device of work items; and stores row y of a tile from its m + 2
 * values in columns[], where it lies inside of the output. */
void wino_items(struct wino *q);
void wino_row(const struct wino *q, int y, const int *columns);

/* lower_winograd_fused.c: one entry of blocks of threads. */
void wino_fused(struct wino *q);

/* The products of the block for the current chunk: from U, or from untransformed filters. */
void wino_products(const struct wino *q);
void wino_products_raw(const struct wino *q);

#endif
