/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/runs.h"

#include <string.h>

/* Compiled for several vector widths; the one for this processor is selected at program start. (Not with
 * clang, as clang 19 crashes on clones of static functions; not with the thread sanitizer, which is not
 * initialised when they are selected; not when optimising for size, which does not vectorise.) */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__OPTIMIZE_SIZE__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

WIDE void run_fill(float *out, int64_t n, float v)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = v;
}

/* EXPR of a[i] and b[i], with one loop for each pair of steps. */
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

WIDE void run_test(enum run_test t, const float *a, int64_t a_step, const float *b, int64_t b_step,
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

/* Reads both values: a choice between addresses would not vectorise. */
static uint32_t either(uint8_t c, uint32_t x, uint32_t y)
{
	uint32_t mask = 0u - (c != 0);
	return (x & mask) | (y & ~mask);
}

WIDE void run_select(const uint8_t *c, int64_t c_step, const uint32_t *x, int64_t x_step, const uint32_t *y,
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

/* NaN becomes 0. */
static float within(float v, float lo, float hi)
{
	v = v > lo ? v : v == v ? lo : 0;
	return v < hi ? v : hi;
}

static int32_t to_i32(float v)
{
	return v >= 0x1p31f ? INT32_MAX : v > -0x1p31f ? (int32_t)v : v == v ? INT32_MIN : 0;
}

static int64_t to_i64(float v)
{
	return v >= 0x1p63f ? INT64_MAX : v > -0x1p63f ? (int64_t)v : v == v ? INT64_MIN : 0;
}

enum { CAST = 64 };

/* Converts in two steps, because not every compiler vectorises a loop from four bytes to one. */
WIDE static void cast_bytes(const float *x, float lo, float hi, uint8_t *restrict out, int64_t n)
{
	int32_t word[CAST];
	for (int64_t i = 0; i < n; i += CAST) {
		int m = n - i < CAST ? (int)(n - i) : CAST;
		for (int j = 0; j < m; j++)
			word[j] = (int32_t)within(x[i + j], lo, hi);
		for (int j = 0; j < m; j++)
			out[i + j] = (uint8_t)word[j];
	}
}

/* Converts by way of 32 bits if all of a few values fit: few machines have vector instructions for the 64-bit
 * conversion. */
WIDE static void cast_longs(const float *x, int64_t *restrict out, int64_t n)
{
	int64_t i = 0;
	for (; i + CAST <= n; i += CAST) {
		int32_t word[CAST];
		uint32_t far = 0;
		for (int j = 0; j < CAST; j++)
			far |= !(x[i + j] > -0x1p31f) | !(x[i + j] < 0x1p31f);
		for (int j = 0; j < CAST && !far; j++)
			word[j] = (int32_t)x[i + j];
		for (int j = 0; j < CAST && !far; j++)
			out[i + j] = word[j];
		for (int j = 0; j < CAST && far; j++)
			out[i + j] = to_i64(x[i + j]);
	}
	for (; i < n; i++)
		out[i] = to_i64(x[i]);
}

WIDE static void cast_words(const float *x, int32_t *restrict out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = to_i32(x[i]);
}

WIDE static void cast_bools(const float *x, uint8_t *restrict out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] != 0;
}

bool run_cast(const float *x, enum dtype to, void *out, int64_t n)
{
	switch (to) {
	case DT_BOOL:
		cast_bools(x, out, n);
		return true;
	case DT_U8:
		cast_bytes(x, 0, UINT8_MAX, out, n);
		return true;
	case DT_I8:
		cast_bytes(x, INT8_MIN, INT8_MAX, out, n);
		return true;
	case DT_I32:
		cast_words(x, out, n);
		return true;
	case DT_I64:
		cast_longs(x, out, n);
		return true;
	default:
		return false;
	}
}

WIDE void run_range(const float *x, int64_t n, float *lo, float *hi)
{
	float low[RUN_COLUMNS], high[RUN_COLUMNS];
	int64_t i = 0;
	for (int j = 0; j < RUN_COLUMNS; j++) {
		low[j] = *lo;
		high[j] = *hi;
	}
	for (; i + RUN_COLUMNS <= n; i += RUN_COLUMNS)
		for (int j = 0; j < RUN_COLUMNS; j++) {
			low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
			high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
		}
	for (int j = 0; i < n; i++, j++) {
		low[j] = x[i] < low[j] ? x[i] : low[j];
		high[j] = x[i] > high[j] ? x[i] : high[j];
	}
	for (int j = 0; j < RUN_COLUMNS; j++) {
		*lo = low[j] < *lo ? low[j] : *lo;
		*hi = high[j] > *hi ? high[j] : *hi;
	}
}

/* Whether x ranks before t, the best of the earlier elements. No short-circuit operators, as these would be
 * branches. */
static bool goes_before(float x, float t, struct run_order o)
{
	if (o.least)
		return o.last ? (x <= t) | (t != t) : (x < t) | ((t != t) & (x == x));
	return o.last ? (x >= t) | (x != x) : (x > t) | ((x != x) & (t == t));
}

/* One loop for each order, so that the order is a constant inside. */
#define COLUMNS(LEAST, LAST)                                                                                 \
	for (int64_t i = 1; i < n; i++)                                                                      \
		for (int j = 0; j < columns; j++) {                                                          \
			float v = x[i * stride + j];                                                         \
			bool take = goes_before(v, top[j], (struct run_order){LEAST, LAST});                 \
			top[j] = take ? v : top[j];                                                          \
			at[j] = take ? (int32_t)i : at[j];                                                   \
		}

WIDE void run_arg_columns(const float *x, int64_t n, int64_t stride, int columns, struct run_order o,
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

/* Whether element i ranks before element k. */
static bool ranks(const float *x, int64_t i, int64_t k, struct run_order o)
{
	return i > k ? goes_before(x[i], x[k], o) : !goes_before(x[k], x[i], o);
}

/* Finds the greatest (or least) of n elements, n a multiple of RUN_COLUMNS; false: there is a NaN. */
WIDE static bool extreme(const float *x, int64_t n, bool least, float *out)
{
	float top[RUN_COLUMNS];
	uint32_t odd[RUN_COLUMNS] = {0}, any = 0;
	memcpy(top, x, sizeof top);
	for (int64_t i = 0; i < n; i += RUN_COLUMNS)
		for (int j = 0; j < RUN_COLUMNS; j++) {
			float v = x[i + j];
			top[j] = (least ? v < top[j] : v > top[j]) ? v : top[j];
			odd[j] |= v != v;
		}
	for (int w = RUN_COLUMNS / 2; w; w /= 2)
		for (int j = 0; j < w; j++) {
			float v = top[j + w];
			top[j] = (least ? v < top[j] : v > top[j]) ? v : top[j];
		}
	for (int j = 0; j < RUN_COLUMNS; j++)
		any |= odd[j];
	*out = top[0];
	return !any;
}

/* Index of the first (or last) of n elements that equals v, which exists; n a multiple of RUN_COLUMNS. */
WIDE static int64_t where(const float *x, int64_t n, float v, bool last)
{
	for (int64_t b = 0; b < n; b += RUN_COLUMNS) {
		const float *at = x + (last ? n - RUN_COLUMNS - b : b);
		uint32_t any = 0;
		for (int j = 0; j < RUN_COLUMNS; j++)
			any |= at[j] == v;
		for (int j = 0; any && j < RUN_COLUMNS; j++) {
			int k = last ? RUN_COLUMNS - 1 - j : j;
			if (at[k] == v)
				return at + k - x;
		}
	}
	return 0;
}

int64_t run_arg(const float *x, int64_t n, struct run_order o)
{
	int64_t whole = n / RUN_COLUMNS * RUN_COLUMNS, best = 0;
	float top;
	if (whole && extreme(x, whole, o.least, &top))
		best = where(x, whole, top, o.last);
	else
		whole = 1;
	for (int64_t i = whole; i < n; i++)
		best = ranks(x, i, best, o) ? i : best;
	return best;
}

WIDE void run_keys(const float *x, int64_t n, bool turned, int32_t *restrict key)
{
	int32_t turn = turned ? -1 : 0;
	for (int64_t i = 0; i < n; i++) {
		int32_t bits;
		memcpy(&bits, x + i, sizeof bits);
		int32_t k = bits < 0 ? (bits ^ INT32_MAX) + (bits == INT32_MIN) : bits;
		key[i] = (x[i] != x[i] ? INT32_MAX : k) ^ turn;
	}
}

enum { TOP_BLOCK = 32 };

static bool some_above(const int32_t *key, int32_t least)
{
	uint32_t any = 0;
	for (int j = 0; j < TOP_BLOCK; j++)
		any |= key[j] > least;
	return any;
}

/* The k largest elements so far, sorted. */
struct top {
	int32_t key[RUN_TOP], *index;
	int have, k;
};

static void top_add(struct top *t, const int32_t *key, int64_t from, int64_t to)
{
	for (int64_t i = from; i < to; i++) {
		int32_t x = key[i];
		if (t->have == t->k && x <= t->key[t->k - 1])
			continue;
		int j = t->have < t->k ? t->have++ : t->k - 1;
		for (; j > 0 && x > t->key[j - 1]; j--) {
			t->key[j] = t->key[j - 1];
			t->index[j] = t->index[j - 1];
		}
		t->key[j] = x;
		t->index[j] = (int32_t)i;
	}
}

WIDE void run_top(const int32_t *key, int64_t n, int k, int32_t *index)
{
	struct top t = {.index = index, .k = k};
	int64_t i = 0;
	for (; k && i + TOP_BLOCK <= n; i += TOP_BLOCK)
		if (t.have < k || some_above(key + i, t.key[k - 1]))
			top_add(&t, key, i, i + TOP_BLOCK);
	if (k)
		top_add(&t, key, i, n);
}

enum { SUM_LINES = 8 };

/* Sums SUM_LINES lines at once: in a single line each sum would wait for the one before. */
WIDE static void sum_lines(const float *x, const struct run_lines *l, float *restrict out)
{
	double sum[SUM_LINES] = {0};
	for (int64_t i = 0; i < l->n; i++)
		for (int j = 0; j < SUM_LINES; j++) {
			int64_t at = j * l->line + i * l->step;
			double before = sum[j];
			sum[j] += x[at];
			out[at] = (float)(l->exclusive ? before : sum[j]);
		}
}

void run_sums(const float *x, struct run_lines l, float *out)
{
	int64_t j = 0;
	for (; j + SUM_LINES <= l.lines; j += SUM_LINES)
		sum_lines(x + j * l.line, &l, out + j * l.line);
	for (; j < l.lines; j++) {
		double sum = 0;
		for (int64_t i = 0; i < l.n; i++) {
			int64_t at = j * l.line + i * l.step;
			double before = sum;
			sum += x[at];
			out[at] = (float)(l.exclusive ? before : sum);
		}
	}
}
