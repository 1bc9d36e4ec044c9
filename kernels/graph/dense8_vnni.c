/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/dense8_vnni.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline)) VNNI
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { W = DENSE8_WIDTH, TILE = 6 /* rows */ };

/* ---- packing ---- */

/* The lowest n bits. */
INLINE __mmask64 first_bits(int64_t n)
{
	return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* Rows, of which nothing is read behind the depth or behind the columns of `mask`: zeros, before `flip`. What
 * they become does not matter, because the weights there are 0. */
struct rows {
	const uint8_t *row[4];
	__mmask64 mask[4];
};

INLINE struct rows rows_at(const uint8_t *b, const int64_t *offset, int64_t t, int64_t depth, __mmask64 mask)
{
	struct rows r;
	UNROLL
	for (int j = 0; j < 4; j++) {
		bool there = t + j < depth;
		r.row[j] = b + offset[there ? t + j : t];
		r.mask[j] = there ? mask : 0;
	}
	return r;
}

INLINE void pack_wide(const struct rows *r, uint8_t flip, uint8_t *to)
{
	__m512i f = _mm512_set1_epi8((char)flip), v[4];
	UNROLL
	for (int j = 0; j < 4; j++)
		v[j] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(r->mask[j], r->row[j]), f);
	__m512i lo01 = _mm512_unpacklo_epi8(v[0], v[1]), hi01 = _mm512_unpackhi_epi8(v[0], v[1]);
	__m512i lo23 = _mm512_unpacklo_epi8(v[2], v[3]), hi23 = _mm512_unpackhi_epi8(v[2], v[3]);
	_mm512_storeu_si512(to, _mm512_unpacklo_epi16(lo01, lo23));
	_mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(lo01, lo23));
	_mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(hi01, hi23));
	_mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(hi01, hi23));
}

INLINE void pack_narrow(const struct rows *r, int width, uint8_t flip, uint8_t *to)
{
	__m128i f = _mm_set1_epi8((char)flip);
	for (int x = 0; x < width; x += 16, to += 64) {
		__m128i v[4];
		UNROLL
		for (int j = 0; j < 4; j++)
			v[j] = _mm_xor_si128(
			    _mm_maskz_loadu_epi8((__mmask16)(r->mask[j] >> x), r->row[j] + x), f);
		__m128i lo01 = _mm_unpacklo_epi8(v[0], v[1]), hi01 = _mm_unpackhi_epi8(v[0], v[1]);
		__m128i lo23 = _mm_unpacklo_epi8(v[2], v[3]), hi23 = _mm_unpackhi_epi8(v[2], v[3]);
		_mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi16(lo01, lo23));
		_mm_storeu_si128((__m128i *)(to + 16), _mm_unpackhi_epi16(lo01, lo23));
		_mm_storeu_si128((__m128i *)(to + 32), _mm_unpacklo_epi16(hi01, hi23));
		_mm_storeu_si128((__m128i *)(to + 48), _mm_unpackhi_epi16(hi01, hi23));
	}
}

static VNNI void pack(int64_t depth, const uint8_t *b, const int64_t *offset, int width, uint8_t flip,
		      uint8_t *panel)
{
	const __mmask64 mask = first_bits(width);
	for (int64_t t = 0; t < depth; t += 4) {
		const struct rows r = rows_at(b, offset, t, depth, mask);
		if (dense8_is_wide(width))
			pack_wide(&r, flip, panel + t * W);
		else
			pack_narrow(&r, width, flip, panel + t * W);
	}
}

/* ---- products ---- */

/* c[r][x] = sums of 16 * vectors columns; rows and vectors are constants where this is used. */
INLINE void add_products(int rows, int vectors, int64_t depth, const int8_t *a, const uint8_t *panel,
			 __m512i c[TILE][4])
{
	int64_t t = 0;
	UNROLL
	for (int r = 0; r < rows; r++) {
		UNROLL
		for (int x = 0; x < vectors; x++)
			c[r][x] = _mm512_setzero_si512();
	}
	for (; t + 4 <= depth; t += 4) {
		__m512i b[4];
		UNROLL
		for (int x = 0; x < vectors; x++)
			b[x] = _mm512_loadu_si512(panel + t * W + x * 64);
		UNROLL
		for (int r = 0; r < rows; r++) {
			int32_t four;
			memcpy(&four, a + r * depth + t, sizeof four);
			__m512i f = _mm512_set1_epi32(four);
			UNROLL
			for (int x = 0; x < vectors; x++)
				c[r][x] = _mm512_dpbusd_epi32(c[r][x], b[x], f);
		}
	}
	if (t == depth)
		return;
	UNROLL
	for (int r = 0; r < rows; r++) {
		int32_t rest = 0;
		for (int64_t j = t; j < depth; j++)
			rest |= (int32_t)((uint32_t)(uint8_t)a[r * depth + j] << 8 * (j - t));
		UNROLL
		for (int x = 0; x < vectors; x++)
			c[r][x] = _mm512_dpbusd_epi32(c[r][x], _mm512_loadu_si512(panel + t * W + x * 64),
						      _mm512_set1_epi32(rest));
	}
}

/* Writes sums whose columns are in the order of a wide panel. */
INLINE void store_wide(const __m512i c[4], uint32_t *sum)
{
	__m512i low01 = _mm512_shuffle_i32x4(c[0], c[1], 0x44),
		high01 = _mm512_shuffle_i32x4(c[0], c[1], 0xee);
	__m512i low23 = _mm512_shuffle_i32x4(c[2], c[3], 0x44),
		high23 = _mm512_shuffle_i32x4(c[2], c[3], 0xee);
	_mm512_storeu_si512(sum, _mm512_shuffle_i32x4(low01, low23, 0x88));
	_mm512_storeu_si512(sum + 16, _mm512_shuffle_i32x4(low01, low23, 0xdd));
	_mm512_storeu_si512(sum + 32, _mm512_shuffle_i32x4(high01, high23, 0x88));
	_mm512_storeu_si512(sum + 48, _mm512_shuffle_i32x4(high01, high23, 0xdd));
}

INLINE void sums_of(int rows, int vectors, int64_t depth, const int8_t *a, const uint8_t *panel,
		    uint32_t *sum)
{
	__m512i c[TILE][4];
	add_products(rows, vectors, depth, a, panel, c);
	UNROLL
	for (int r = 0; r < rows; r++, sum += W) {
		if (vectors == 4)
			store_wide(c[r], sum);
		UNROLL
		for (int x = 0; x < vectors && vectors < 4; x++)
			_mm512_storeu_si512(sum + x * 16, c[r][x]);
	}
}

INLINE void sums_of_rows(int vectors, int64_t depth, int rows, const int8_t *a, const uint8_t *panel,
			 uint32_t *sum)
{
	int r = 0;
	for (; r + TILE <= rows; r += TILE)
		sums_of(TILE, vectors, depth, a + r * depth, panel, sum + r * W);
	for (; r + 2 <= rows; r += 2)
		sums_of(2, vectors, depth, a + r * depth, panel, sum + r * W);
	for (; r < rows; r++)
		sums_of(1, vectors, depth, a + r * depth, panel, sum + r * W);
}

static VNNI void rows_to_sums(int64_t depth, int rows, const int8_t *a, const uint8_t *panel, int width,
			      uint32_t *sum)
{
	if (width <= 16)
		sums_of_rows(1, depth, rows, a, panel, sum);
	else if (!dense8_is_wide(width))
		sums_of_rows(2, depth, rows, a, panel, sum);
	else
		sums_of_rows(4, depth, rows, a, panel, sum);
}

/* Adds the products of four rows of the matrix to the sums of 64 columns, which are in the order of a wide
 * panel. */
INLINE void add_four_rows(const struct rows *r, uint8_t flip, int32_t four, uint32_t *sum)
{
	uint8_t panel[4 * W] __attribute__((aligned(64)));
	__m512i f = _mm512_set1_epi32(four);
	pack_wide(r, flip, panel);
	UNROLL
	for (int u = 0; u < 4; u++)
		_mm512_storeu_si512(sum + 16 * u, _mm512_dpbusd_epi32(_mm512_loadu_si512(sum + 16 * u),
								      _mm512_load_si512(panel + 64 * u), f));
}

/* Reads the matrix row by row, as it lies in memory. */
static VNNI void row_by_matrix(int64_t depth, int64_t n, const int8_t *a, const uint8_t *b, uint8_t flip,
			       uint32_t *sum)
{
	memset(sum, 0, (size_t)(n + W - 1) / W * W * sizeof *sum);
	for (int64_t t = 0; t < depth; t += 4) {
		const int64_t offset[4] = {0, n, 2 * n, 3 * n};
		uint32_t four = 0;
		for (int64_t j = 0; j < 4 && t + j < depth; j++)
			four |= (uint32_t)(uint8_t)a[t + j] << 8 * j;
		for (int64_t x = 0; x < n; x += W) {
			const struct rows r = rows_at(b + t * n + x, offset, 0, depth - t, first_bits(n - x));
			add_four_rows(&r, flip, (int32_t)four, sum + x);
		}
	}
	for (int64_t x = 0; x < n; x += W) {
		__m512i c[4];
		UNROLL
		for (int u = 0; u < 4; u++)
			c[u] = _mm512_loadu_si512(sum + x + 16 * u);
		store_wide(c, sum + x);
	}
}

/* ---- bytes of sums ---- */

/* The constants of a struct dense8_ends, as vectors. */
struct ends {
	__m512 most;
	__m512i zero, low;
	__mmask64 mask; /* of the columns */
	bool sign;
};

INLINE struct ends ends_load(const struct dense8_ends *to)
{
	const struct dense8_bytes *b = &to->bytes;
	return (struct ends){_mm512_set1_ps((float)(b->high - b->zero)), _mm512_set1_epi16((short)b->zero),
			     _mm512_set1_epi8((char)b->low), ~UINT64_C(0) >> (W - to->width), b->sign};
}

/* A NaN and what is below all integers become the lowest one, which the narrowing saturates. */
INLINE __m512i round_sums(__m512i c, __m512i add, __m512 factor, __m512 most)
{
	__m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(c, add)), factor);
	return _mm512_cvtps_epi32(_mm512_min_ps(most, v)); /* v, if it is NaN */
}

/* 64 bytes in the order of columns, of sums in the order of a wide panel. */
INLINE __m512i to_bytes(const __m512i c[4], uint32_t add, float factor, const struct ends *e)
{
	__m512i i[4], plus = _mm512_set1_epi32((int)add);
	__m512 f = _mm512_set1_ps(factor);
	UNROLL
	for (int u = 0; u < 4; u++)
		i[u] = round_sums(c[u], plus, f, e->most);
	__m512i low = _mm512_adds_epi16(_mm512_packs_epi32(i[0], i[1]), e->zero);
	__m512i high = _mm512_adds_epi16(_mm512_packs_epi32(i[2], i[3]), e->zero);
	if (e->sign)
		return _mm512_max_epi8(_mm512_packs_epi16(low, high), e->low);
	return _mm512_max_epu8(_mm512_packus_epi16(low, high), e->low);
}

INLINE void bytes_of(int rows, int64_t depth, const int8_t *a, const uint8_t *panel,
		     const struct dense8_ends *to, int first, const struct ends *e)
{
	__m512i c[TILE][4];
	add_products(rows, 4, depth, a, panel, c);
	__asm__ volatile("" ::: "memory"); /* e needs registers that the sums have until here */
	UNROLL
	for (int r = 0; r < rows; r++)
		_mm512_mask_storeu_epi8(to->out + (first + r) * to->step, e->mask,
					to_bytes(c[r], to->add[first + r], to->factor[first + r], e));
}

static VNNI void rows_to_bytes(int64_t depth, int rows, const int8_t *a, const uint8_t *panel,
			       const struct dense8_ends *to)
{
	const struct ends e = ends_load(to);
	int r = 0;
	for (; r + TILE <= rows; r += TILE)
		bytes_of(TILE, depth, a + r * depth, panel, to, r, &e);
	for (; r + 2 <= rows; r += 2)
		bytes_of(2, depth, a + r * depth, panel, to, r, &e);
	for (; r < rows; r++)
		bytes_of(1, depth, a + r * depth, panel, to, r, &e);
}

/* ---- depthwise: the bytes of four neighbouring taps, for each of 64 outputs ---- */

/* Vector u, lane l begins with the bytes of output 16 l + 4 u. */
INLINE __m512i neighbours(const uint8_t *x, int stride, int u)
{
	const __m512i next =
	    _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
	const __m512i second =
	    _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9));
	if (stride == 1)
		return _mm512_shuffle_epi8(_mm512_loadu_si512(x + 4 * u), next);
	__m512i first = _mm512_loadu_si512(x + 8 * u), last = _mm512_loadu_si512(x + 64 + 8 * u);
	return _mm512_shuffle_epi8(_mm512_shuffle_i32x4(first, last, 0x88), second);
}

INLINE void depthwise_block(const struct dense8_taps *t, int stride, uint8_t flip, const uint8_t *x,
			    __m512i c[4])
{
	const __m512i f = _mm512_set1_epi8((char)flip);
	UNROLL
	for (int u = 0; u < 4; u++)
		c[u] = _mm512_setzero_si512();
	for (int q = 0; q < t->n; q++) {
		__m512i w = _mm512_set1_epi32(t->four[q]);
		UNROLL
		for (int u = 0; u < 4; u++)
			c[u] = _mm512_dpbusd_epi32(
			    c[u], _mm512_xor_si512(neighbours(x + t->at[q], stride, u), f), w);
	}
}

INLINE void depthwise_of(const struct dense8_taps *t, int stride, const uint8_t *x,
			 const struct dense8_ends *to, int64_t n)
{
	const struct ends e = ends_load(to);
	for (int64_t i = 0; i < n; i += W) {
		__m512i c[4];
		depthwise_block(t, stride, t->flip, x + i * stride, c);
		_mm512_storeu_si512(to->out + i, to_bytes(c, to->add[0], to->factor[0], &e));
	}
}

static VNNI void depthwise(const struct dense8_taps *t, const uint8_t *x, const struct dense8_ends *e,
			   int64_t n)
{
	if (t->stride == 1)
		depthwise_of(t, 1, x, e, n);
	else
		depthwise_of(t, 2, x, e, n);
}

/* (x - zero) * scale of 64 bytes; vector u has bytes 16 u to 16 u + 15. */
INLINE void load_term(const struct add8_term *t, int64_t i, __m512 v[4])
{
	const __m512 zero = _mm512_set1_ps((float)t->zero), scale = _mm512_set1_ps(t->scale);
	UNROLL
	for (int u = 0; u < 4; u++) {
		__m128i b = _mm_loadu_si128((const __m128i *)(t->x + i + 16 * u));
		__m512i x = t->sign ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
		v[u] = _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(x), zero), scale);
	}
}

static VNNI int64_t add(int64_t n, const struct add8_term *a, const struct add8_term *b, float scale,
			struct dense8_bytes to, uint8_t *y)
{
	const __m512 most = _mm512_set1_ps((float)(to.high - to.zero)), by = _mm512_set1_ps(scale);
	const __m512i zero = _mm512_set1_epi32(to.zero), least = _mm512_set1_epi32(to.low - to.zero);
	int64_t i = 0;
	for (; i + 64 <= n; i += 64) {
		__m512 v[4], w[4];
		load_term(a, i, v);
		load_term(b, i, w);
		UNROLL
		for (int u = 0; u < 4; u++) {
			__m512 q = _mm512_div_ps(_mm512_add_ps(v[u], w[u]), by);
			__m512i k = _mm512_cvtps_epi32(_mm512_min_ps(most, q)); /* q, if it is NaN */
			k = _mm512_max_epi32(k, least);
			_mm_storeu_si128((__m128i *)(y + i + 16 * u),
					 _mm512_cvtepi32_epi8(_mm512_add_epi32(k, zero)));
		}
	}
	return i;
}

static VNNI void maximum(int64_t n, const uint8_t *x, int64_t step, uint8_t flip, uint8_t *best)
{
	const __m512i f = _mm512_set1_epi8((char)flip);
	for (int64_t i = 0; i < n && step == 1; i += 64) {
		__mmask64 m = first_bits(n - i);
		__m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, x + i), f);
		_mm512_mask_storeu_epi8(best + i, m,
					_mm512_max_epu8(_mm512_maskz_loadu_epi8(m, best + i), v));
	}
	for (int64_t i = 0; i < n && step == 2; i += 32) {
		__mmask64 m = first_bits(n - i), both = first_bits(2 * (n - i) - 1);
		__m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(both, x + 2 * i), f);
		__m256i low = _mm512_cvtepi16_epi8(v), old = _mm256_maskz_loadu_epi8((__mmask32)m, best + i);
		_mm256_mask_storeu_epi8(best + i, (__mmask32)m, _mm256_max_epu8(old, low));
	}
}

static const struct dense8_vnni vnni_loops = {.pack = pack,
					      .rows = rows_to_sums,
					      .row = row_by_matrix,
					      .rows_to_bytes = rows_to_bytes,
					      .depthwise = depthwise,
					      .add = add,
					      .max = maximum};
const struct dense8_vnni *const dense8_vnni = &vnni_loops;

#else

const struct dense8_vnni *const dense8_vnni = NULL;

#endif
