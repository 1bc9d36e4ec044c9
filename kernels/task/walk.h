/* SPDX-License-Identifier: Apache-2.0 */
/* Walks: one loop nest over several tensors at once, each with its own steps; and typed loads and stores of
 *runs.
 *
 * walk_open(&w, arena, rank, extents, nops);  walk_like / walk_steps for each operand;
 * for (walk_start(&w); !w.done; walk_next(&w))
 *	element j (0 <= j < w.n) of operand k is at w.at[k] + j * w.run[k]
 * Dimensions that all operands step through together are merged, so that runs are long. */
#ifndef KERNELS_WALK_H
#define KERNELS_WALK_H

#include "kernels/task/tensor.h"

enum { WALK_RANK = 2 * MAX_RANK, RUN = 256 /* elements that eval converts at a time */ };

struct walk {
	int rank, nops;
	int64_t d[WALK_RANK], i[WALK_RANK];
	int64_t (*step)[WALK_RANK]; /* [nops] */
	int64_t *at, *run;          /* [nops] */
	int64_t n;
	bool done;
};

void walk_open(struct walk *w, struct arena *a, int rank, const int64_t *d, int nops);
/* Operand k is row-major with shape s, broadcast (right-aligned) to the walk's extents. */
void walk_like(struct walk *w, int k, const struct shape *s);
void walk_steps(struct walk *w, int k, int64_t base, const int64_t *steps);
void walk_start(struct walk *w);
void walk_next(struct walk *w);
/* Copies operand 1 (src) to operand 0 (dst) over a whole walk; elements of `bytes` 1, 2, 4 or 8. */
void walk_copy(struct walk *w, size_t bytes, void *dst, const void *src);

/* n elements of t at `at`, `step` apart, as doubles or int64. bool reads as 0 or 1. u64 reads as its bits in
 * load_i64. */
void load_f64(const struct tensor *t, int64_t at, int64_t step, int64_t n, double *out);
void load_i64(const struct tensor *t, int64_t at, int64_t step, int64_t n, int64_t *out);
/* n consecutive elements. From doubles: integers saturate, NaN gives 0. From int64: integers wrap. bool: v !=
 * 0. */
void store_f64(struct tensor *t, int64_t at, int64_t n, const double *v);
void store_i64(struct tensor *t, int64_t at, int64_t n, const int64_t *v);

#endif
