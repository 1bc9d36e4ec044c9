/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/dense8_vnni.h"
#include "platform/machine/target.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { W = DENSE8_WIDTH };

enum dense8_isa dense8_isa(void)
{
	static atomic_int known; /* 1 + the version */
	int isa = atomic_load_explicit(&known, memory_order_relaxed);
	struct target t;
	if (!isa) {
		isa = 1 + DENSE8_BASE;
#if defined(__x86_64__)
		if (target_host(&t) >= 0) {
			isa += t.lanes >= 8 ? DENSE8_AVX2 : DENSE8_BASE;
			isa += t.lanes >= 16 && strstr(t.features, "+avx512vnni") ? 1 : 0;
		}
#else
		(void)t;
#endif
		atomic_store_explicit(&known, isa, memory_order_relaxed);
	}
	return (enum dense8_isa)(isa - 1);
}

/* Rows of a panel lie in groups of four: [row / 4][column][4] bytes, for dot products of four; or in pairs
 * of s16, for products of two. */
size_t dense8_panel_bytes(int64_t depth)
{
	return (size_t)(depth + 3) / 4 * 4 * W * sizeof(int16_t);
}

enum { SLICE = 16 /* rows that dense8_rows widens at a time */ };

size_t dense8_scratch_bytes(int64_t depth)
{
	return (size_t)(depth + 2) * SLICE * sizeof(int16_t);
}

/* ---- packing ---- */

/* The next `n` rows of a panel as rows of W bytes; rows past the depth are zero. */
static const uint8_t *row_at(const uint8_t *b, const int64_t *offset, int64_t t, int64_t depth, int width,
			     uint8_t *room)
{
	static const uint8_t none[W];
	if (t >= depth)
		return none;
	if (width == W)
		return b + offset[t];
	memcpy(room, b + offset[t], (size_t)width);
	return room;
}

static void pack_pair(const uint8_t *restrict r0, const uint8_t *restrict r1, uint8_t flip,
		      int16_t *restrict to)
{
	for (int x = 0; x < W; x++) {
		to[2 * x] = (uint8_t)(r0[x] ^ flip);
		to[2 * x + 1] = (uint8_t)(r1[x] ^ flip);
	}
}

void dense8_pack(enum dense8_isa isa, int64_t depth, const uint8_t *b, const int64_t *offset, int width,
		 uint8_t flip, void *panel)
{
	uint8_t room[2][W] = {{0}};
	if (isa == DENSE8_VNNI) {
		dense8_vnni->pack(depth, b, offset, width, flip, panel);
		return;
	}
	for (int64_t t = 0; t < depth; t += 2)
		pack_pair(row_at(b, offset, t, depth, width, room[0]),
			  row_at(b, offset, t + 1, depth, width, room[1]), flip, (int16_t *)panel + t * W);
}

/* ---- products ---- */

/* Widens rows to s16, an even number of elements each. */
static void widen_rows(int64_t depth, int rows, const int8_t *restrict a, int16_t *restrict to)
{
	int64_t even = (depth + 1) / 2 * 2;
	for (int r = 0; r < rows; r++, a += depth, to += even) {
		for (int64_t t = 0; t < depth; t++)
			to[t] = a[t];
		if (even > depth)
			to[depth] = 0;
	}
}

#if defined(__x86_64__)

/* Sums of `rows` rows, a constant where this is used, and of as many columns as two vectors have. The
 * accumulators stay in registers. */
#define PAIR_TILE(name, vec, lanes, load, store, set1, madd, add, attributes)                                \
	INLINE attributes void name##_tile(int rows, int64_t pairs, const int16_t *a, const int16_t *panel,  \
					   uint32_t *sum)                                                    \
	{                                                                                                    \
		vec c[4][2];                                                                                 \
		UNROLL                                                                                       \
		for (int r = 0; r < rows; r++)                                                               \
			c[r][0] = c[r][1] = set1(0);                                                         \
		for (int64_t t = 0; t < pairs; t++) {                                                        \
			vec b0 = load((const vec *)(panel + t * 2 * W));                                     \
			vec b1 = load((const vec *)(panel + t * 2 * W + 2 * (lanes)));                       \
			UNROLL                                                                               \
			for (int r = 0; r < rows; r++) {                                                     \
				int32_t both;                                                                \
				memcpy(&both, a + (r * pairs + t) * 2, sizeof both);                         \
				vec f = set1(both);                                                          \
				c[r][0] = add(c[r][0], madd(b0, f));                                         \
				c[r][1] = add(c[r][1], madd(b1, f));                                         \
			}                                                                                    \
		}                                                                                            \
		UNROLL                                                                                       \
		for (int r = 0; r < rows; r++) {                                                             \
			store((vec *)(sum + r * W), c[r][0]);                                                \
			store((vec *)(sum + r * W + (lanes)), c[r][1]);                                      \
		}                                                                                            \
	}                                                                                                    \
	static attributes void name(int64_t pairs, int rows, const int16_t *a, const int16_t *panel,         \
				    int width, uint32_t *sum)                                                \
	{                                                                                                    \
		for (int x = 0; x < width; x += 2 * (lanes)) {                                               \
			int r = 0;                                                                           \
			for (; r + 4 <= rows; r += 4)                                                        \
				name##_tile(4, pairs, a + r * pairs * 2, panel + 2 * x, sum + r * W + x);    \
			for (; r < rows; r++)                                                                \
				name##_tile(1, pairs, a + r * pairs * 2, panel + 2 * x, sum + r * W + x);    \
		}                                                                                            \
	}

PAIR_TILE(pairs_base, __m128i, 4, _mm_loadu_si128, _mm_storeu_si128, _mm_set1_epi32, _mm_madd_epi16,
	  _mm_add_epi32, )
PAIR_TILE(pairs_avx2, __m256i, 8, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32,
	  _mm256_madd_epi16, _mm256_add_epi32, __attribute__((target("avx2"))))

#else

static void pairs_base(int64_t pairs, int rows, const int16_t *a, const int16_t *panel, int width,
		       uint32_t *sum)
{
	(void)width;
	for (int r = 0; r < rows; r++, a += 2 * pairs, sum += W) {
		int32_t c[W] = {0};
		for (int64_t t = 0; t < pairs; t++)
			for (int x = 0; x < W; x++)
				c[x] = (int32_t)((uint32_t)c[x] +
						 (uint32_t)(a[2 * t] * panel[2 * (t * W + x)] +
							    a[2 * t + 1] * panel[2 * (t * W + x) + 1]));
		memcpy(sum, c, sizeof c);
	}
}

#endif

void dense8_rows(enum dense8_isa isa, int64_t depth, int rows, const int8_t *a, const void *panel, int width,
		 void *scratch, uint32_t *sum)
{
	if (isa == DENSE8_VNNI) {
		dense8_vnni->rows(depth, rows, a, panel, width, sum);
		return;
	}
	for (int r = 0; r < rows; r += SLICE) {
		int n = rows - r < SLICE ? rows - r : SLICE;
		widen_rows(depth, n, a + r * depth, scratch);
#if defined(__x86_64__)
		if (isa == DENSE8_AVX2) {
			pairs_avx2((depth + 1) / 2, n, scratch, panel, width, sum + r * W);
			continue;
		}
#endif
		pairs_base((depth + 1) / 2, n, scratch, panel, width, sum + r * W);
	}
}

bool dense8_row(enum dense8_isa isa, int64_t depth, int64_t n, const int8_t *a, const uint8_t *b,
		uint8_t flip, uint32_t *sum)
{
	if (isa == DENSE8_VNNI)
		dense8_vnni->row(depth, n, a, b, flip, sum);
	return isa == DENSE8_VNNI;
}

/* ---- element by element: the same loops for two instruction sets ---- */

#if defined(__x86_64__)
#define VERSIONS(name, params, ...)                                                                          \
	static void name##_base params                                                                       \
	{                                                                                                    \
		name(__VA_ARGS__);                                                                           \
	}                                                                                                    \
	__attribute__((target("avx2"))) static void name##_avx2 params                                       \
	{                                                                                                    \
		name(__VA_ARGS__);                                                                           \
	}
#define BEST(name, ...) (isa >= DENSE8_AVX2 ? name##_avx2(__VA_ARGS__) : name##_base(__VA_ARGS__))
#else
#define VERSIONS(name, params, ...)                                                                          \
	static void name##_base params                                                                       \
	{                                                                                                    \
		name(__VA_ARGS__);                                                                           \
	}
#define BEST(name, ...) ((void)isa, name##_base(__VA_ARGS__))
#endif

INLINE uint32_t total(const int8_t *restrict a, int64_t n)
{
	uint32_t sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += (uint32_t)(int32_t)a[i];
	return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint32_t total_avx2(const int8_t *a, int64_t n)
{
	return total(a, n);
}
#else
#define total_avx2 total
#endif

int32_t dense8_total(enum dense8_isa isa, const int8_t *a, int64_t n)
{
	return (int32_t)(isa >= DENSE8_AVX2 ? total_avx2(a, n) : total(a, n));
}

INLINE void correct(const struct dense8_columns *c, uint32_t add, uint32_t factor, uint32_t by,
		    uint32_t *restrict sum)
{
	for (int x = 0; x < W; x++)
		sum[x] += add + c->add[x] + factor * c->zero[x] - by * c->total[x];
}

VERSIONS(correct,
	 (const struct dense8_columns *c, uint32_t add, uint32_t factor, uint32_t by, uint32_t *restrict sum),
	 c, add, factor, by, sum)

void dense8_correct(enum dense8_isa isa, const struct dense8_columns *c, uint32_t add, uint32_t factor,
		    uint32_t by, uint32_t *sum)
{
	BEST(correct, c, add, factor, by, sum);
}

/* Rounds to nearest even and saturates. Adding 1.5 * 2^23 leaves no room for a fraction, so that the sum is
 * rounded to an integer as the hardware rounds; it needs the limits first, and a NaN fails the first test. */
INLINE uint8_t to_byte(float v, float low, float high, int32_t zero)
{
	const float magic = 12582912.0f;
	v = v > low ? v : low;
	v = v < high ? v : high;
	v += magic;
	return (uint8_t)((int32_t)(v - magic) + zero);
}

INLINE void requantise(int64_t n, const uint32_t *restrict sum, const float *restrict factor, float low,
		       float high, int32_t zero, uint8_t *restrict out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = to_byte((float)(int32_t)sum[i] * factor[i], low, high, zero);
}

VERSIONS(requantise,
	 (int64_t n, const uint32_t *restrict sum, const float *restrict factor, float low, float high,
	  int32_t zero, uint8_t *restrict out),
	 n, sum, factor, low, high, zero, out)

void dense8_requantise(enum dense8_isa isa, int64_t n, const uint32_t *sum, const float *factor,
		       struct dense8_bytes to, uint8_t *out)
{
	BEST(requantise, n, sum, factor, (float)(to.low - to.zero), (float)(to.high - to.zero), to.zero, out);
}

INLINE void requantise_row(int64_t n, const uint32_t *restrict sum, uint32_t add, float factor, float low,
			   float high, int32_t zero, uint8_t *restrict out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = to_byte((float)(int32_t)(sum[i] + add) * factor, low, high, zero);
}

VERSIONS(requantise_row,
	 (int64_t n, const uint32_t *restrict sum, uint32_t add, float factor, float low, float high,
	  int32_t zero, uint8_t *restrict out),
	 n, sum, add, factor, low, high, zero, out)

void dense8_requantise_row(enum dense8_isa isa, int64_t n, const uint32_t *sum, uint32_t add, float factor,
			   struct dense8_bytes to, uint8_t *out)
{
	BEST(requantise_row, n, sum, add, factor, (float)(to.low - to.zero), (float)(to.high - to.zero),
	     to.zero, out);
}

void dense8_rows_to_bytes(enum dense8_isa isa, int64_t depth, int rows, const int8_t *a, const void *panel,
			  int width, void *scratch, uint32_t *sum, const struct dense8_ends *e)
{
	uint8_t line[W];
	if (isa == DENSE8_VNNI && dense8_is_wide(width)) {
		dense8_vnni->rows_to_bytes(depth, rows, a, panel, e);
		return;
	}
	dense8_rows(isa, depth, rows, a, panel, width, scratch, sum);
	for (int r = 0; r < rows; r++) {
		bool whole = e->width == W;
		uint8_t *to = e->out + r * e->step;
		dense8_requantise_row(isa, (e->width + 15) / 16 * 16, sum + r * W, e->add[r], e->factor[r],
				      e->bytes, whole ? to : line);
		if (!whole)
			memcpy(to, line, (size_t)e->width);
	}
}

/* The sums of W outputs. */
INLINE void tap_sums(const struct dense8_taps *t, int64_t stride, const uint8_t *restrict x,
		     uint32_t *restrict sum)
{
	memset(sum, 0, W * sizeof *sum);
	for (int q = 0; q < t->n; q++)
		for (int j = 0; j < 4; j++) {
			const uint8_t *from = x + t->at[q] + j;
			int32_t w = (int8_t)(t->four[q] >> 8 * j);
			for (int i = 0; i < W; i++)
				sum[i] += (uint32_t)((uint8_t)(from[i * stride] ^ t->flip) * w);
		}
}

INLINE void tap_sums_strided(const struct dense8_taps *t, const uint8_t *restrict x, uint32_t *restrict sum)
{
	if (t->stride == 1)
		tap_sums(t, 1, x, sum);
	else
		tap_sums(t, 2, x, sum);
}

VERSIONS(tap_sums_strided, (const struct dense8_taps *t, const uint8_t *restrict x, uint32_t *restrict sum),
	 t, x, sum)

void dense8_depthwise(enum dense8_isa isa, const struct dense8_taps *t, const uint8_t *x,
		      const struct dense8_ends *e, int64_t n)
{
	if (isa == DENSE8_VNNI) {
		dense8_vnni->depthwise(t, x, e, n);
		return;
	}
	for (int64_t i = 0; i < n; i += W) {
		uint32_t sum[W];
		BEST(tap_sums_strided, t, x + i * t->stride, sum);
		dense8_requantise_row(isa, W, sum, e->add[0], e->factor[0], e->bytes, e->out + i);
	}
}

INLINE void quantise(int64_t n, const float *restrict x, float scale, float low, float high, int32_t zero,
		     uint8_t *restrict out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = to_byte(x[i] / scale, low, high, zero);
}

VERSIONS(quantise,
	 (int64_t n, const float *restrict x, float scale, float low, float high, int32_t zero,
	  uint8_t *restrict out),
	 n, x, scale, low, high, zero, out)

void dense8_quantise(enum dense8_isa isa, int64_t n, const float *x, float scale, struct dense8_bytes to,
		     uint8_t *out)
{
	BEST(quantise, n, x, scale, (float)(to.low - to.zero), (float)(to.high - to.zero), to.zero, out);
}

/* With s8, flip is 0x80 and the zero point is 128 more. */
INLINE void dequantise(int64_t n, const uint8_t *restrict x, uint8_t flip, float scale, int32_t zero,
		       float *restrict out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = (float)((int32_t)(uint8_t)(x[i] ^ flip) - zero) * scale;
}

VERSIONS(dequantise,
	 (int64_t n, const uint8_t *restrict x, uint8_t flip, float scale, int32_t zero, float *restrict out),
	 n, x, flip, scale, zero, out)

void dense8_dequantise(enum dense8_isa isa, int64_t n, const uint8_t *x, bool sign, float scale, int32_t zero,
		       float *out)
{
	BEST(dequantise, n, x, sign ? 0x80 : 0, scale, sign ? zero + 128 : zero, out);
}

INLINE void maximum(int64_t n, const uint8_t *restrict x, int64_t step, uint8_t flip, uint8_t *restrict best)
{
	for (int64_t i = 0; i < n; i++) {
		uint8_t v = x[i * step] ^ flip;
		best[i] = v > best[i] ? v : best[i];
	}
}

INLINE void maximum_steps(int64_t n, const uint8_t *restrict x, int64_t step, uint8_t flip,
			  uint8_t *restrict best)
{
	if (step == 1)
		maximum(n, x, 1, flip, best);
	else if (step == 2)
		maximum(n, x, 2, flip, best);
	else
		maximum(n, x, step, flip, best);
}

VERSIONS(maximum_steps,
	 (int64_t n, const uint8_t *restrict x, int64_t step, uint8_t flip, uint8_t *restrict best), n, x,
	 step, flip, best)

void dense8_max(enum dense8_isa isa, int64_t n, const uint8_t *x, int64_t step, uint8_t flip, uint8_t *best)
{
	if (isa == DENSE8_VNNI && step <= 2)
		dense8_vnni->max(n, x, step, flip, best);
	else
		BEST(maximum_steps, n, x, step, flip, best);
}

void dense8_every(int64_t n, const uint8_t *restrict x, int64_t step, uint8_t *restrict y)
{
	if (step == 2)
		for (int64_t i = 0; i < n; i++)
			y[i] = x[2 * i];
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = x[i * step];
}
