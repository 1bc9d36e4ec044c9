/* SPDX-License-Identifier: Apache-2.0 */
/* Random products of matrices by fragments, one program at a time in `l`: the block's threads fill tiles of A
 * and B in shared buffers, one at a time or in a ring of two that copies fill; each warp adds their products
 * to its fragments of C, which go through a shared buffer to the output. Or blocks sum one of two parts of k
 * each, into scratch, from where a second entry adds them. Each barrier and wait is needed. */
#ifndef TESTS_FRAGMENTS_PROGRAM_H
#define TESTS_FRAGMENTS_PROGRAM_H

#include "kernels/loops/loops.h"
#include "kernels/loops/loops_lane.h"
#include "platform/base/rng.h"

#include <math.h>
#include <string.h>

enum { FRAGS_MOST = 2 * 64 * 192 }; /* elements of a matrix, or of the sums of all parts */
enum { A_IN, B_IN, C_OUT, SUMS, A_TILE, B_TILE, C_TILE, FRAGS_BUFS = SUMS + 1 };

static struct arena arena; /* of the program */
static struct loops l;

struct frags_tile { /* a tile of A or B: rows x cols of a matrix of `pitch` columns */
	int from, to;
	int64_t rows, cols, pitch, ld, elems; /* ld: in the shared buffer; elems: of one tile there */
	enum dtype memory, type;              /* of its elements, in the matrix and in fragments */
	bool columns;
};

struct frags_maker {
	struct rng r;
	int warps_m, warps_n, each_m, each_n, blocks, parts, steps /* of a part */, bk, tiles;
	enum dtype type; /* of elements of A; those of B are of the same, or another byte */
	bool relu;
	int64_t m, n, k;
	struct frags_tile a, b;
	const struct ix *block, *part, *thread;
	int threads;
};

static inline const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

static inline int below(struct frags_maker *m, int n)
{
	return (int)rng_below(&m->r, (uint32_t)n);
}

static inline const struct ix *times(const struct ix *x, int64_t by)
{
	return ix_mul(&l, x, c(by));
}

static inline const struct ix *plus(const struct ix *x, const struct ix *y)
{
	return ix_add(&l, x, y);
}

static inline bool frags_whole(const struct frags_maker *m)
{
	return !dtype_is_half(m->type) && m->type != DT_F32;
}

static inline bool frags_copies(const struct frags_tile *t)
{
	return t->memory == t->type && !t->columns;
}

/* Fills the tile whose first element is (row, col), as number `tile` of the ring. */
static inline void frags_fill(const struct frags_maker *m, const struct frags_tile *t, const struct ix *tile,
			      const struct ix *row, const struct ix *col)
{
	int wide = t->columns ? 1 : frags_copies(t) ? 16 / (int)dtype_bytes(t->type) : 4;
	int64_t groups = t->rows * t->cols / wide;
	const struct ix *first, *e;
	struct stmt *f = for_begin(&l, c(0), c(groups), m->threads, true, &first), *s = NULL;
	e = plus(first, m->thread);
	if (groups % m->threads)
		s = if_begin(&l, ix_lt(&l, e, c(groups)));
	const struct ix *i = ix_min(&l, ix_div(&l, e, c(t->cols / wide)), c(t->rows - 1)),
			*j = times(ix_mod(&l, e, c(t->cols / wide)), wide),
			*at = t->columns ? plus(times(j, t->ld), i) : plus(times(i, t->ld), j);
	at = plus(at, times(tile, t->elems));
	struct mem from = {.buf = t->from, .stride = 1};
	from.at = plus(times(plus(row, i), t->pitch), plus(col, j));
	if (frags_copies(t)) {
		lv_copy(&l, t->to, at, from, wide);
	} else {
		int v = frags_whole(m) ? lv_new_s32(&l, wide) : lv_new(&l, wide);
		lv_load(&l, v, from);
		lv_store(&l, v, (struct mem){.buf = t->to, .at = at, .stride = 1});
	}
	if (s)
		if_end(&l, s);
	for_end(&l, f);
}

static inline void frags_fill_both(const struct frags_maker *m, const struct ix *step)
{
	const struct ix *tile = ix_mod(&l, step, c(m->tiles)),
			*at = times(plus(times(m->part, m->steps), step), m->bk);
	frags_fill(m, &m->a, tile, times(m->block, m->a.rows), at);
	frags_fill(m, &m->b, tile, at, c(0));
	lv_commit(&l);
}

static inline const struct ix *frags_warp(const struct frags_maker *m, bool along_n)
{
	const struct ix *warp = ix_div(&l, m->thread, c(WARP));
	return along_n ? ix_mod(&l, warp, c(m->warps_n)) : ix_div(&l, warp, c(m->warps_n));
}

/* Loads the fragment that begins at (row, col) of the tile. */
static inline int frags_load(const struct frags_tile *t, enum frag_part part, const struct ix *tile,
			     const struct ix *row, const struct ix *col)
{
	int v = lv_fragment(&l, (struct fragment){part, t->type, t->columns});
	const struct ix *at = t->columns ? plus(times(col, t->ld), row) : plus(times(row, t->ld), col);
	lv_frag_load(&l, v, t->to, plus(at, times(tile, t->elems)), t->ld);
	return v;
}

static inline void frags_multiply(const struct frags_maker *m, const struct ix *step, const int *acc)
{
	const struct ix *tile = ix_mod(&l, step, c(m->tiles)),
			*row = times(frags_warp(m, false), 16 * m->each_m),
			*col = times(frags_warp(m, true), 16 * m->each_n);
	for (int k = 0; k < m->bk; k += 16) {
		int b[4];
		for (int j = 0; j < m->each_n; j++)
			b[j] = frags_load(&m->b, FRAG_B, tile, c(k), plus(col, c(16 * j)));
		for (int i = 0; i < m->each_m; i++) {
			int a = frags_load(&m->a, FRAG_A, tile, plus(row, c(16 * i)), c(k));
			for (int j = 0; j < m->each_n; j++)
				lv_frag_mma(&l, acc[i * m->each_n + j], a, b[j]);
		}
	}
}

/* Tile by tile; with a ring of two, one is filled while the other is used. */
static inline void frags_reduce(const struct frags_maker *m, const int *acc)
{
	const struct ix *k;
	bool ring = m->tiles > 1;
	if (ring)
		frags_fill_both(m, c(0));
	struct stmt *f = for_begin(&l, c(0), c(m->steps), 1, true, &k);
	if (!ring)
		frags_fill_both(m, k);
	lv_wait(&l, 0);
	lv_barrier(&l);
	if (ring) {
		struct stmt *s = if_begin(&l, ix_lt(&l, plus(k, c(1)), c(m->steps)));
		frags_fill_both(m, plus(k, c(1)));
		if_end(&l, s);
	}
	frags_multiply(m, k, acc);
	if (!ring)
		lv_barrier(&l);
	for_end(&l, f);
}

/* The fragments go row of fragments by row of fragments through the shared buffer. */
static inline void frags_finish(const struct frags_maker *m, const int *acc)
{
	int64_t ld = m->n + 8, rows = 16 * m->warps_m;
	const struct ix *row = times(frags_warp(m, false), 16),
			*col = times(frags_warp(m, true), 16 * m->each_n);
	for (int i = 0; i < m->each_m; i++) {
		const struct ix *first, *e;
		for (int j = 0; j < m->each_n; j++) {
			int v = acc[i * m->each_n + j];
			if (m->relu && m->parts == 1) {
				int zero = lv_fragment(&l, l.fragment[v]);
				lv_const(&l, zero, 0);
				lv_set(&l, v, V_MAX, v, zero, -1, -1);
			}
			lv_frag_store(&l, v, C_TILE, plus(times(row, ld), plus(col, c(16 * j))), ld);
		}
		lv_barrier(&l);
		struct stmt *f = for_begin(&l, c(0), c(rows * m->n), m->threads, true, &first);
		e = plus(first, m->thread); /* 16 and 32 divide their number */
		const struct ix *r = ix_div(&l, e, c(m->n)), *at;
		int v = frags_whole(m) ? lv_new_s32(&l, 1) : lv_new(&l, 1);
		lv_load(&l, v,
			(struct mem){
			    .buf = C_TILE, .at = plus(times(r, ld), ix_mod(&l, e, c(m->n))), .stride = 1});
		/* Warp r / 16 has the rows from 16 each_m r / 16 on. */
		at = plus(times(ix_div(&l, r, c(16)), 16 * m->each_m), plus(ix_mod(&l, r, c(16)), c(16 * i)));
		at = plus(at, times(plus(times(m->part, m->blocks), m->block), m->a.rows));
		lv_store(&l, v,
			 (struct mem){.buf = m->parts > 1 ? SUMS : C_OUT,
				      .at = plus(times(at, m->n), ix_mod(&l, e, c(m->n))),
				      .stride = 1});
		for_end(&l, f);
		if (i + 1 < m->each_m)
			lv_barrier(&l);
	}
}

/* The second entry, of an index for each row: adds the sums of both parts. */
static inline void frags_add(const struct frags_maker *m)
{
	const struct ix *col, *row = ix_var(&l, l.entry[loops_entry(&l, c(m->m))].var);
	struct stmt *f = for_begin(&l, c(0), c(m->n), 1, true, &col);
	int v[2];
	for (int i = 0; i < 2; i++) {
		v[i] = frags_whole(m) ? lv_new_s32(&l, 1) : lv_new(&l, 1);
		lv_load(&l, v[i],
			(struct mem){.buf = SUMS,
				     .at = plus(plus(times(row, m->n), col), c(i * m->m * m->n)),
				     .stride = 1});
	}
	lv_set(&l, v[0], V_ADD, v[0], v[1], -1, -1);
	if (m->relu) {
		lv_const(&l, v[1], 0);
		lv_set(&l, v[0], V_MAX, v[0], v[1], -1, -1);
	}
	lv_store(&l, v[0], (struct mem){.buf = C_OUT, .at = plus(times(row, m->n), col), .stride = 1});
	for_end(&l, f);
	loops_entry_end(&l);
}

static inline void frags_sizes(struct frags_maker *m)
{
	m->threads = WARP * m->warps_m * m->warps_n;
	m->n = 16 * m->warps_n * m->each_n;
	m->k = (int64_t)m->parts * m->steps * m->bk;
	m->a.rows = 16 * m->warps_m * m->each_m;
	m->a.cols = m->b.rows = m->bk;
	m->a.pitch = m->k;
	m->b.cols = m->b.pitch = m->n;
	m->m = m->a.rows * m->blocks;
	struct frags_tile *t[2] = {&m->a, &m->b};
	for (int i = 0; i < 2; i++) {
		t[i]->columns = below(m, 2);
		int64_t in_ld = t[i]->columns ? t[i]->rows : t[i]->cols,
			step = frag_step(t[i]->type, l.narrow);
		t[i]->ld = in_ld + step * below(m, 3);
		t[i]->elems = t[i]->ld * (t[i]->columns ? t[i]->cols : t[i]->rows);
		t[i]->elems = (t[i]->elems + 31) / 32 * 32;
	}
	m->tiles = frags_copies(&m->a) || frags_copies(&m->b) ? 1 + below(m, 2) : 1;
}

/* type: of A and B; DT_NONE: any. narrow: whether their rows may be narrow. */
static inline void random_fragments(struct frags_maker *m, uint64_t seed, enum dtype type, bool narrow)
{
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	l.narrow = narrow;
	static const enum dtype types[] = {DT_F16, DT_I8, DT_BF16, DT_U8, DT_F32};
	rng_seed(&m->r, seed);
	int any = below(m, 5);
	m->type = type == DT_NONE ? types[any] : type;
	m->a = (struct frags_tile){.from = A_IN, .to = A_TILE, .memory = m->type, .type = m->type};
	m->b = (struct frags_tile){.from = B_IN, .to = B_TILE, .memory = m->type, .type = m->type};
	if (frags_whole(m))
		m->b.memory = m->b.type = below(m, 2) ? DT_I8 : DT_U8;
	else if (below(m, 2))
		m->a.memory = m->b.memory = DT_F32;
	m->warps_m = 1 + below(m, 2);
	m->warps_n = 1 + below(m, 2);
	m->each_m = 1 + below(m, 2);
	m->each_n = 1 + below(m, 2);
	m->blocks = 1 + below(m, 2);
	m->parts = 1 + below(m, 2);
	m->steps = 2 + below(m, 2);
	m->bk = 16 * (1 + below(m, 2));
	m->relu = !frags_whole(m) && below(m, 2);
	frags_sizes(m);
	enum dtype sums = frags_whole(m) ? DT_I32 : DT_F32;
	loops_buf(&l, "a", BUF_IN, m->a.memory, c(m->m * m->k));
	loops_buf(&l, "b", BUF_CONST, m->b.memory, c(m->k * m->n));
	loops_buf(&l, "c", BUF_OUT, sums, c(m->m * m->n));
	loops_buf(&l, "sums", BUF_SCRATCH, sums, c(m->parts * m->m * m->n));
	l.buf[SUMS].common = true;
	loops_buf(&l, "ta", BUF_SHARED, m->a.type, c(m->a.elems * m->tiles));
	loops_buf(&l, "tb", BUF_SHARED, m->b.type, c(m->b.elems * m->tiles));
	loops_buf(&l, "tc", BUF_SHARED, sums, c(16 * m->warps_m * (m->n + 8)));
	loops_entry_threads(&l, c((int64_t)m->parts * m->blocks), m->threads, &m->thread);
	m->block = ix_mod(&l, ix_var(&l, l.entry[0].var), c(m->blocks));
	m->part = ix_div(&l, ix_var(&l, l.entry[0].var), c(m->blocks));
	int acc[4];
	for (int i = 0; i < m->each_m * m->each_n; i++) {
		acc[i] = lv_fragment(&l, (struct fragment){FRAG_C, sums, false});
		if (frags_whole(m))
			lv_const_s32(&l, acc[i], 0);
		else
			lv_const(&l, acc[i], 0);
	}
	frags_reduce(m, acc);
	frags_finish(m, acc);
	loops_entry_end(&l);
	if (m->parts > 1)
		frags_add(m);
}

static struct {
	float a[FRAGS_MOST], b[FRAGS_MOST]; /* of any type */
	float want[FRAGS_MOST], got[FRAGS_MOST], sums[FRAGS_MOST];
	double exact[FRAGS_MOST], size[FRAGS_MOST]; /* the products' sum, and that of their absolute values */
} frags_memory;

static inline double frags_value(const struct frags_tile *f, const void *p, int64_t at)
{
	bool whole = !dtype_is_half(f->type) && f->type != DT_F32;
	struct lane_type t = {whole ? LV_S32 : LV_F32, f->memory, 1}, half = {LV_F32, f->type, 1};
	union lane v = lane_load(t, p, at);
	uint32_t bits;
	if (whole)
		return v.s;
	if (f->type == DT_F32) /* as the fragment has it */
		return tf32_of(lane_load(t, p, at).f);
	lane_store(half, &bits, 0, v);
	return lane_load(half, &bits, 0).f;
}

static inline void fill_frags_memory(struct frags_maker *m)
{
	void *const p[2] = {frags_memory.a, frags_memory.b};
	for (int i = 0; i < 2; i++)
		for (int64_t e = 0; e < FRAGS_MOST; e++) {
			if (frags_whole(m))
				((uint8_t *)p[i])[e] = (uint8_t)below(m, 256);
			else
				lane_store((struct lane_type){LV_F32, m->a.memory, 1}, p[i], e,
					   (union lane){.f = (float)(below(m, 4001) - 2000) / 1000});
		}
	for (int64_t e = 0; e < m->m * m->n; e++) {
		double sum = 0, size = 0;
		for (int64_t k = 0; k < m->k; k++) {
			double v = frags_value(&m->a, p[0], e / m->n * m->k + k) *
				   frags_value(&m->b, p[1], k * m->n + e % m->n);
			sum += v;
			size += fabs(v);
		}
		frags_memory.exact[e] = m->relu && sum < 0 ? 0 : sum;
		frags_memory.size[e] = size;
	}
	memset(frags_memory.want, 0xff, sizeof frags_memory.want);
	memset(frags_memory.got, 0xff, sizeof frags_memory.got);
}

/* Bytes are exact; sums of halves are near the exact ones. */
static inline bool frags_near(const struct frags_maker *m, const float *got, uint64_t seed)
{
	for (int64_t e = 0; e < m->m * m->n; e++) {
		int32_t s;
		memcpy(&s, &got[e], sizeof s);
		double v = frags_whole(m) ? s : got[e],
		       room = frags_whole(m) ? 0 : frags_memory.size[e] * (double)m->k / (1 << 23);
		if (fabs(v - frags_memory.exact[e]) <= room)
			continue;
		printf("seed %llu: element %lld is %g, not %g\n", (unsigned long long)seed, (long long)e, v,
		       frags_memory.exact[e]);
		return false;
	}
	return true;
}

static inline int interpret_fragments(const struct frags_maker *m)
{
	void *bufs[FRAGS_BUFS] = {frags_memory.a, frags_memory.b, frags_memory.want, frags_memory.sums};
	int rc = loops_run(&l, 0, bufs, NULL, 0, (int64_t)m->parts * m->blocks);
	return rc < 0 || m->parts == 1 ? rc : loops_run(&l, 1, bufs, NULL, 0, m->m);
}

#endif
