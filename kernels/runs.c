/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/runs.h"

/* EXPR of a[i] and b[i], with a loop for each pair of steps. */
#define PAIRS(EXPR)                                                                                          \
	if (a_step && b_step)                                                                                \
		for (int64_t i = 0; i < n; i++)                                                              \
			out[i] = a[i] EXPR b[i];                                                             \
	else if (a_step)                                                                                     \
		for (int64_t i = 0; i < n; i++)                                                              \
			out[i] = a[i] EXPR * b;                                                              \
	else                                                                                                 \
		for (int64_t i = 0; i < n; i++)                                                              \
			out[i] = *a EXPR b[b_step * i];                                                      \
	break

void run_test(enum run_test t, const float *a, int64_t a_step, const float *b, int64_t b_step,
	      uint8_t *restrict out, int64_t n)
{
	switch (t) {
	case RUN_LESS:
		PAIRS(<);
	case RUN_LESSEQ:
		PAIRS(<=);
	case RUN_EQUAL:
		PAIRS(==);
	}
}

/* Both are read: a choice of addresses would be no vector. */
static uint32_t either(uint8_t c, uint32_t x, uint32_t y)
{
	uint32_t mask = 0u - (c != 0);
	return (x & mask) | (y & ~mask);
}

void run_select(const uint8_t *c, int64_t c_step, const uint32_t *x, int64_t x_step, const uint32_t *y,
		int64_t y_step, uint32_t *restrict out, int64_t n)
{
	uint32_t x0 = *x, y0 = *y;
	if (c_step && x_step && y_step)
		for (int64_t i = 0; i < n; i++)
			out[i] = either(c[i], x[i], y[i]);
	else if (c_step && x_step)
		for (int64_t i = 0; i < n; i++)
			out[i] = either(c[i], x[i], y0);
	else if (c_step && y_step)
		for (int64_t i = 0; i < n; i++)
			out[i] = either(c[i], x0, y[i]);
	else
		for (int64_t i = 0; i < n; i++)
			out[i] = either(c[c_step * i], x[x_step * i], y[y_step * i]);
}

/* NaN is 0: it is not greater than anything. */
static float within(float v, float lo, float hi)
{
	v = v > lo ? v : v == v ? lo : 0;
	return v < hi ? v : hi;
}

static int32_t to_i32(float v)
{
	return v >= 0x1p31f ? INT32_MAX : v > -0x1p31f ? (int32_t)v : v == v ? INT32_MIN : 0;
}

bool run_cast(const float *x, enum dtype to, void *out, int64_t n)
{
	uint8_t *restrict bytes = out;
	int32_t *restrict words = out;
	switch (to) {
	case DT_BOOL:
		for (int64_t i = 0; i < n; i++)
			bytes[i] = x[i] != 0;
		return true;
	case DT_U8:
		for (int64_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)(int32_t)within(x[i], 0, UINT8_MAX);
		return true;
	case DT_I8:
		for (int64_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)(int32_t)within(x[i], INT8_MIN, INT8_MAX);
		return true;
	case DT_I32:
		for (int64_t i = 0; i < n; i++)
			words[i] = to_i32(x[i]);
		return true;
	default:
		return false;
	}
}

/* x goes before the best so far, t, which came earlier. Without short cuts: they would be branches. */
static bool goes_before(float x, float t, struct run_order o)
{
	if (o.least)
		return o.last ? (x <= t) | (t != t) : (x < t) | ((t != t) & (x == x));
	return o.last ? (x >= t) | (x != x) : (x > t) | ((x != x) & (t == t));
}

/* One loop for each order: the test is a constant in it. */
#define COLUMNS(LEAST, LAST)                                                                                 \
	for (int64_t i = 1; i < n; i++)                                                                      \
		for (int j = 0; j < columns; j++) {                                                          \
			float v = x[i * stride + j];                                                         \
			bool take = goes_before(v, top[j], (struct run_order){LEAST, LAST});                 \
			top[j] = take ? v : top[j];                                                          \
			at[j] = take ? (int32_t)i : at[j];                                                   \
		}

void run_arg_columns(const float *x, int64_t n, int64_t stride, int columns, struct run_order o,
		     int32_t *best)
{
	float top[RUN_COLUMNS];
	int32_t at[RUN_COLUMNS] = {0};
	for (int j = 0; j < columns; j++)
		top[j] = x[j];
	if (o.least && o.last) {
		COLUMNS(true, true)
	} else if (o.least) {
		COLUMNS(true, false)
	} else if (o.last) {
		COLUMNS(false, true)
	} else {
		COLUMNS(false, false)
	}
	for (int j = 0; j < columns; j++)
		best[j] = at[j];
}

/* Element i goes before element k. */
static bool ranks(const float *x, int64_t i, int64_t k, struct run_order o)
{
	return i > k ? goes_before(x[i], x[k], o) : !goes_before(x[k], x[i], o);
}

int64_t run_arg(const float *x, int64_t n, struct run_order o)
{
	int32_t at[RUN_COLUMNS];
	int64_t rows = n / RUN_COLUMNS, best = 0;
	if (rows)
		run_arg_columns(x, rows, RUN_COLUMNS, RUN_COLUMNS, o, at);
	for (int j = 0; j < RUN_COLUMNS && rows; j++) {
		int64_t i = (int64_t)at[j] * RUN_COLUMNS + j;
		best = i != best && ranks(x, i, best, o) ? i : best;
	}
	for (int64_t i = rows ? rows * RUN_COLUMNS : 1; i < n; i++)
		best = ranks(x, i, best, o) ? i : best;
	return best;
}
