/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of entries with threads, one at a time in `l`: a ring of tiles that copies (or loads and
 * stores) fill while others are summed, an exchange of the sums through a shared buffer, shuffles, and
 * branches and loops that depend on the thread. Each barrier and wait is needed. */
#ifndef TESTS_THREADS_PROGRAM_H
#define TESTS_THREADS_PROGRAM_H

#include "kernels/loops/loops.h"
#include "platform/base/rng.h"

#include <string.h>

enum { THREADS_BUFS = 3, THREADS_ELEMS = 1 << 16 }; /* x, f32 input; y, input of a random type; o, output */
enum { X_IN, Y_IN, O_OUT, S_TILES, S_SUMS };

static struct arena arena; /* of the program */
static struct loops l;

struct threads_maker {
	struct rng r;
	int threads, blocks, steps, stages, from, piece, lanes;
	enum dtype type;
	bool async;
	int64_t tile; /* elements */
	const struct ix *block, *thread;
};

static inline const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

static inline int below(struct threads_maker *m, int n)
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

/* Fills the thread's piece of tile `step`, an expression, in its place of the ring. */
static inline void fill_tile(const struct threads_maker *m, const struct ix *step)
{
	const struct ix *in_tile = times(m->thread, m->piece),
			*from = plus(times(plus(times(m->block, m->steps), step), m->tile), in_tile),
			*to = plus(times(ix_mod(&l, step, c(m->stages)), m->tile), in_tile);
	/* The last tiles end in zeros. */
	const struct ix *valid = ix_sub(&l, c(m->tile * m->blocks * m->steps - 7), from);
	struct mem read = {.buf = m->from, .at = from, .stride = 1, .valid = valid};
	if (m->async) {
		lv_copy(&l, S_TILES, to, read, m->piece);
		return;
	}
	for (int i = 0; i < m->piece; i++) {
		int v = m->type == DT_U8 ? lv_new_s32(&l, 1) : lv_new(&l, 1);
		struct mem one = read;
		one.at = plus(from, c(i));
		one.valid = ix_sub(&l, valid, c(i));
		lv_load(&l, v, one);
		lv_store(&l, v, (struct mem){.buf = S_TILES, .at = plus(to, c(i)), .stride = 1});
	}
}

/* Adds elements of the tile that other threads filled to sum. */
static inline void add_tile(struct threads_maker *m, const struct ix *step, int sum)
{
	const struct ix *ring = times(ix_mod(&l, step, c(m->stages)), m->tile), *turn = c(0);
	struct stmt *loop = NULL;
	if (below(m, 3) == 0) /* a loop whose length depends on the thread */
		loop = for_begin(&l, c(0), plus(ix_mod(&l, m->thread, c(3)), c(1)), 1, false, &turn);
	for (int i = 0; i < 2; i++) {
		int v = m->type == DT_U8 ? lv_new_s32(&l, m->lanes) : lv_new(&l, m->lanes);
		const struct ix *at = plus(times(m->thread, m->piece), c(m->piece * (i + 1) + below(m, 9)));
		at = ix_mod(&l, plus(at, times(turn, 5)), c(m->tile));
		at = ix_min(&l, at, c(m->tile - m->lanes));
		lv_load(&l, v, (struct mem){.buf = S_TILES, .at = plus(ring, at), .stride = 1});
		lv_set(&l, sum, V_ADD, sum, v, -1, -1);
	}
	if (loop)
		for_end(&l, loop);
}

static inline void finish_copies(const struct threads_maker *m, int groups)
{
	if (m->async)
		lv_wait(&l, groups);
	lv_barrier(&l);
}

static inline void commit(const struct threads_maker *m)
{
	if (m->async)
		lv_commit(&l);
}

/* One tile after the other: with one stage, filled and used in turn; else stages - 1 of them ahead. */
static inline void add_tiles(struct threads_maker *m, int sum)
{
	const struct ix *k;
	for (int i = 0; i < m->stages - 1; i++) {
		if (i < m->steps)
			fill_tile(m, c(i));
		commit(m);
	}
	struct stmt *loop = for_begin(&l, c(0), c(m->steps), 1, true, &k);
	if (m->stages == 1) {
		fill_tile(m, k);
		commit(m);
		finish_copies(m, 0);
		add_tile(m, k, sum);
		lv_barrier(&l);
	} else {
		const struct ix *next = plus(k, c(m->stages - 1));
		finish_copies(m, m->stages - 2);
		struct stmt *s = if_begin(&l, ix_lt(&l, next, c(m->steps)));
		fill_tile(m, next);
		if_end(&l, s);
		commit(m);
		add_tile(m, k, sum);
	}
	for_end(&l, loop);
}

/* Passes sums to other threads. */
static inline int exchange(struct threads_maker *m, int sum)
{
	int got = m->type == DT_U8 ? lv_new_s32(&l, m->lanes) : lv_new(&l, m->lanes);
	const struct ix *other = ix_mod(&l, plus(m->thread, c(1 + below(m, m->threads - 1))), c(m->threads));
	lv_store(&l, sum, (struct mem){.buf = S_SUMS, .at = times(m->thread, m->lanes), .stride = 1});
	lv_barrier(&l);
	lv_load(&l, got, (struct mem){.buf = S_SUMS, .at = times(other, m->lanes), .stride = 1});
	struct stmt *s = if_begin(&l, ix_lt(&l, m->thread, c(below(m, m->threads))));
	lv_set(&l, got, V_ADD, got, sum, -1, -1);
	if_end(&l, s);
	return got;
}

/* One value of s32 or f32 per lane is stored for each thread. */
static inline void random_threads(struct threads_maker *m, uint64_t seed)
{
	static const enum dtype types[] = {DT_F32, DT_U8, DT_F16};
	rng_seed(&m->r, seed);
	m->threads = 32 * (1 + below(m, 4));
	m->blocks = 1 + below(m, 3);
	m->steps = 2 + below(m, 4);
	m->stages = 1 + below(m, 4);
	m->type = types[below(m, 3)];
	m->piece = (4 << below(m, 3)) / (int)dtype_bytes(m->type);
	m->lanes = 1 << below(m, 3);
	m->async = m->type == DT_F16 || below(m, 4) > 0;
	m->tile = (int64_t)m->threads * m->piece;
	m->from = m->type == DT_F32 ? X_IN : Y_IN;
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	enum dtype sums = m->type == DT_U8 ? DT_I32 : DT_F32;
	loops_buf(&l, "x", BUF_IN, DT_F32, c(THREADS_ELEMS));
	loops_buf(&l, "y", BUF_CONST, m->type == DT_F32 ? DT_U8 : m->type, c(THREADS_ELEMS));
	loops_buf(&l, "o", BUF_OUT, sums, c(THREADS_ELEMS));
	loops_buf(&l, "tiles", BUF_SHARED, m->type, c(m->tile * m->stages));
	loops_buf(&l, "sums", BUF_SHARED, sums, c(m->threads * m->lanes));
	loops_entry_threads(&l, c(m->blocks), m->threads, &m->thread);
	m->block = ix_var(&l, l.entry[0].var);
	int sum = m->type == DT_U8 ? lv_new_s32(&l, m->lanes) : lv_new(&l, m->lanes);
	if (m->type == DT_U8)
		lv_const_s32(&l, sum, 0);
	else
		lv_const(&l, sum, 0);
	add_tiles(m, sum);
	sum = exchange(m, sum);
	for (int i = 0; i < 2; i++)
		lv_shuffle(&l, sum, sum, 1 + below(m, 31));
	const struct ix *at = times(plus(times(m->block, m->threads), m->thread), m->lanes);
	lv_store(&l, sum, (struct mem){.buf = O_OUT, .at = at, .stride = 1});
	loops_entry_end(&l);
}

static struct {
	float x[THREADS_ELEMS];
	uint8_t y[2 * THREADS_ELEMS];
	float want[THREADS_ELEMS], got[THREADS_ELEMS];
} threads_memory;

/* y of halves holds small finite numbers. */
static inline void fill_threads_memory(const struct threads_maker *m)
{
	struct rng r;
	rng_seed(&r, 11);
	rng_fill(&r, threads_memory.x, THREADS_ELEMS);
	for (size_t i = 0; i < sizeof threads_memory.y; i++)
		threads_memory.y[i] =
		    (uint8_t)(m->type == DT_F16 && i % 2 ? 0x30 + rng_below(&r, 12) : rng_below(&r, 256));
	memset(threads_memory.want, 0xff, sizeof threads_memory.want);
	memset(threads_memory.got, 0xff, sizeof threads_memory.got);
}

static inline int interpret_threads(const struct threads_maker *m)
{
	void *bufs[THREADS_BUFS] = {threads_memory.x, threads_memory.y, threads_memory.want};
	return loops_run(&l, 0, bufs, NULL, 0, m->blocks);
}

#endif
