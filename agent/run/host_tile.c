/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_tile.h"
#include "agent/run/vec4.h"
#include "platform/machine/target.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define SHUFFLE(a, b, ...) VEC_SHUFFLE(MASK, a, b, __VA_ARGS__)
#define EVEN4(a, b) SHUFFLE(a, b, 0, 2, 5, 7)
#define THIRD4(a, b, c) ((void)(b), SHUFFLE(a, c, 0, 3, 4, 7))
#define SELECT(c, a, b) (VEC)(((c) & (MASK)(a)) | (~(c) & (MASK)(b)))

#if defined(__x86_64__)

/* -1 for the lanes that are read: a mask of n of 8 begins at 8 - n. */
static const int32_t first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#define SOME8(p, n)                                                                                          \
	((NAME(vec))_mm256_maskload_ps(p, _mm256_loadu_si256((const __m256i *)(first_lanes + 8 - (n)))))
#define SOME16(p, n) ((NAME(vec))_mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p))

#endif

enum shared { NO_SHARED, SHARED_SCALAR, SHARED_VECTOR };

#if defined(__x86_64__)

#define NAME(x) x##_base
#define LANES 4
#define MOST 6
#define WIDE 2
#define WALK 2
#define EVEN EVEN4
#define THIRD THIRD4
#define SOME(p, n) NAME(some)(p, n)
#define VERSION
#include "agent/run/host_tile_width.h"

#define NAME(x) x##_avx2
#define LANES 8
#define MOST 6
#define WIDE 2
#define WALK 2
#define EVEN(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define THIRD(a, b, c) SHUFFLE(SHUFFLE(a, b, 0, 3, 6, 9, 12, 15, 0, 0), c, 0, 1, 2, 3, 4, 5, 12, 15)
#define SOME(p, n) ((n) == LANES ? *(const VEC *)(p) : SOME8(p, n))
#define VERSION __attribute__((target("avx2,fma")))
#include "agent/run/host_tile_width.h"

#define NAME(x) x##_avx512
#define LANES 16
#define MOST 6
#define WIDE 2
#define WALK 1
#define EVEN(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#define THIRD(a, b, c)                                                                                       \
	SHUFFLE(SHUFFLE(a, b, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0, 0, 0, 0, 0), c, 0, 1, 2, 3, 4, 5,   \
		6, 7, 8, 9, 10, 19, 22, 25, 28, 31)
#define SOME SOME16
#define VERSION __attribute__((target("avx512f")))
#include "agent/run/host_tile_width.h"

#define BEST(lanes, name, ...)                                                                               \
	do {                                                                                                 \
		if ((lanes) >= 16)                                                                           \
			name##_avx512(__VA_ARGS__);                                                          \
		else if ((lanes) >= 8)                                                                       \
			name##_avx2(__VA_ARGS__);                                                            \
		else                                                                                         \
			name##_base(__VA_ARGS__);                                                            \
	} while (0)

#else

/* NEON of armv8-a has 32 registers, that of armv7 has 16. */
#define NAME(x) x##_base
#define LANES 4
#define MOST 6
#if defined(__aarch64__)
#define WIDE 4
#else
#define WIDE 2
#endif
#define WALK 2
#define EVEN EVEN4
#define THIRD THIRD4
#define SOME(p, n) NAME(some)(p, n)
#define VERSION
#include "agent/run/host_tile_width.h"

#define BEST(lanes, name, ...) ((void)(lanes), name##_base(__VA_ARGS__))

#endif

int tile_lanes(void)
{
	static atomic_int known;
	int lanes = atomic_load_explicit(&known, memory_order_relaxed);
	struct target t;
	if (!lanes) {
		lanes = target_host(&t) >= 0 && t.lanes > TILE_LEAST ? t.lanes : TILE_LEAST;
		atomic_store_explicit(&known, lanes, memory_order_relaxed);
	}
	return lanes;
}

int tile_wide(int lanes)
{
#if defined(__aarch64__)
	return 4 * lanes;
#else
	return 2 * lanes;
#endif
}

/* Half a vector of 16 lanes takes as long as a whole one, one of 8 lanes at most as long as that: half as
 * long on machines that split the former, or have two units for the latter. */
static int fewest_lanes(const struct tile *t)
{
	return t->lanes > TILE_LANES / 2 && t->width <= TILE_LANES / 2 ? TILE_LANES / 2 : t->lanes;
}

void tile_outer(const struct tile *t, const float *s, const int64_t *row, const int64_t *ds, const float *v,
		const int64_t *dv)
{
	int rest = t->width % TILE_LANES, whole = t->width - rest;
	if (t->lanes > TILE_LANES / 2 && rest && rest <= TILE_LANES / 2 && whole) {
		struct tile part = *t;
		part.width = whole;
		BEST(t->lanes, outer, &part, s, row, ds, v, dv);
		part.acc += whole;
		part.width = rest;
		BEST(TILE_LANES / 2, outer, &part, s, row, ds, v + whole, dv);
		return;
	}
	BEST(fewest_lanes(t), outer, t, s, row, ds, v, dv);
}

void tile_groups(const struct tile *t, int groups, const float *s, const int64_t *row, const int64_t *ds,
		 const float *const v[], const int64_t *dv)
{
	BEST(fewest_lanes(t), groups, t, groups, s, row, ds, v, dv);
}

void tile_rows(const struct tile *t, const float *const v[], const int64_t *dv, int64_t along, const float *w,
	       const int64_t *dw, bool vector)
{
	BEST(t->lanes, rows, t, v, dv, along, w, dw, vector);
}

void tile_fold(const struct tile *t, enum combiner comb, const float *const v[], const int64_t *dv,
	       int64_t along)
{
	BEST(t->lanes, fold, t, comb, v, dv, along);
}
