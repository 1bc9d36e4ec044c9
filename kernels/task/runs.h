/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over runs of elements, simple enough for a compiler to vectorise. They serve operators that have no
 * structured form because they read or write other types than f32. Steps of inputs are 0 (one element for
 * all) or 1; outputs are contiguous. */
#ifndef KERNELS_RUNS_H
#define KERNELS_RUNS_H

#include "kernels/task/tensor.h"

enum run_test { RUN_LESS, RUN_LESSEQ, RUN_EQUAL };
void run_fill(float *out, int64_t n, float v);
/* out = a < b, a <= b or a == b */
void run_test(enum run_test t, const float *a, int64_t a_step, const float *b, int64_t b_step, uint8_t *out,
	      int64_t n);
/* out = c ? x : y, elements of 4 bytes */
void run_select(const uint8_t *c, int64_t c_step, const uint32_t *x, int64_t x_step, const uint32_t *y,
		int64_t y_step, uint32_t *out, int64_t n);
/* Converts f32 to bool, u8, i8, i32 or i64 as store_f64 does. False: another type. */
bool run_cast(const float *x, enum dtype to, void *out, int64_t n);

/* Widens [*lo, *hi] so that it holds all elements that are numbers. */
void run_range(const float *x, int64_t n, float *lo, float *hi);

struct run_order {
	bool least; /* ArgMin */
	bool last;  /* of equal elements, returns the last one */
};
/* Index of the greatest of n elements; NaN counts as greatest. 0 < n <= INT32_MAX. */
int64_t run_arg(const float *x, int64_t n, struct run_order o);
enum { RUN_COLUMNS = 64 };
/* The same for up to RUN_COLUMNS columns: element i of column j is x[i * stride + j]. */
void run_arg_columns(const float *x, int64_t n, int64_t stride, int columns, struct run_order o,
		     int32_t *best);

/* Maps floats to integers of the same order: equal floats have equal keys, NaN is above all. turned: the
 * order is reversed, and NaN is below all. */
void run_keys(const float *x, int64_t n, bool turned, int32_t *key);
/* Indexes of the k largest of n keys, largest first; among equal keys the earlier comes first. k is at most
 * RUN_TOP and n, n at most INT32_MAX. */
enum { RUN_TOP = 64 };
void run_top(const int32_t *key, int64_t n, int k, int32_t *index);

/* Running sums in double precision along `lines` lines: element i of line j is x[j * line + i * step]; the
 * output has the same layout. Steps may be negative. */
struct run_lines {
	int64_t n, step, lines, line;
	bool exclusive; /* sums only the elements before */
};
void run_sums(const float *x, struct run_lines l, float *out);

#endif
