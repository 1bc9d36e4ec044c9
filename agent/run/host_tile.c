/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_tile.h"

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float v16 __attribute__((vector_size(64), aligned(4)));

typedef int32_t i16 __attribute__((vector_size(64)));

#ifdef __clang__
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#else
#define EVEN(a, b) __builtin_shuffle(a, b, (i16){0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31})
#endif

/* *v = p[0], p[along], p[2 * along] ... Nothing behind the last of these is read. */
#define LOAD(v, p, along)                                                                                    \
	do {                                                                                                 \
		const float *p_ = (p);                                                                       \
		if ((along) == 1)                                                                            \
			v = *(const v16 *)p_;                                                                \
		else if ((along) == 2)                                                                       \
			v = EVEN(*(const v16 *)p_, *(const v16 *)(p_ + TILE_LANES - 1));                     \
		else                                                                                         \
			for (int x_ = 0; x_ < TILE_LANES; x_++)                                              \
				v[x_] = p_[x_ * (along)];                                                    \
	} while (0)
#define SELECT(c, a, b) (v16)(((c) & (i16)(a)) | (~(c) & (i16)(b)))

/* rows and vectors are constants where this is used, so that the accumulators stay in registers. */
INLINE void outer(int rows, int vectors, const struct tile *t, int r0, int x0, const float *s, int64_t step,
		  const int64_t *ds, const float *v, const int64_t *dv)
{
	v16 c[8][2];
	float *acc = t->acc + r0 * t->pitch + x0;
	const float *sr[8];
	UNROLL
	for (int r = 0; r < rows; r++) {
		sr[r] = s + (r0 + r) * step;
		UNROLL
		for (int x = 0; x < vectors; x++)
			c[r][x] = *(const v16 *)(acc + r * t->pitch + x * TILE_LANES);
	}
	for (int64_t p = 0; p < t->points; p++) {
		const float *at = v + dv[p] + x0;
		int64_t d = ds[p];
		v16 b[2];
		UNROLL
		for (int x = 0; x < vectors; x++)
			b[x] = *(const v16 *)(at + x * TILE_LANES);
		UNROLL
		for (int r = 0; r < rows; r++) {
			float f = sr[r][d];
			UNROLL
			for (int x = 0; x < vectors; x++)
				c[r][x] += b[x] * f;
		}
	}
	UNROLL
	for (int r = 0; r < rows; r++) {
		UNROLL
		for (int x = 0; x < vectors; x++)
			*(v16 *)(acc + r * t->pitch + x * TILE_LANES) = c[r][x];
	}
}

#define OUTER_CASE(n)                                                                                        \
	case n:                                                                                              \
		outer(n, vectors, t, r, x, s, step, ds, v, dv);                                              \
		break

/* most: rows whose accumulators fit the registers. */
INLINE void outer_rows(int most, int vectors, const struct tile *t, int x, const float *s, int64_t step,
		       const int64_t *ds, const float *v, const int64_t *dv)
{
	for (int r = 0; r < t->rows;) {
		int n = t->rows - r < most ? t->rows - r : most;
		switch (n) {
			OUTER_CASE(1);
			OUTER_CASE(2);
			OUTER_CASE(3);
			OUTER_CASE(4);
			OUTER_CASE(5);
			OUTER_CASE(6);
			OUTER_CASE(7);
		default:
			outer(most, vectors, t, r, x, s, step, ds, v, dv);
		}
		r += n;
	}
}

INLINE void outer_all(int most, int vectors, const struct tile *t, const float *s, int64_t step,
		      const int64_t *ds, const float *v, const int64_t *dv)
{
	int x = 0;
	for (; vectors == 2 && x + 2 * TILE_LANES <= t->width; x += 2 * TILE_LANES)
		outer_rows(most, 2, t, x, s, step, ds, v, dv);
	for (; x < t->width; x += TILE_LANES)
		outer_rows(vectors == 2 ? 8 : most, 1, t, x, s, step, ds, v, dv);
}

enum shared { NO_SHARED, SHARED_SCALAR, SHARED_VECTOR };

/* One vector of `rows` rows. */
INLINE void walk(int rows, enum shared shared, enum combiner comb, const struct tile *t, int r0, int x0,
		 const float *const v[], const int64_t *dv, int64_t along, const float *w, const int64_t *dw)
{
	v16 c[4];
	float *acc = t->acc + r0 * t->pitch + x0;
	const float *vr[4];
	UNROLL
	for (int r = 0; r < rows; r++) {
		vr[r] = v[r0 + r] + x0 * along;
		c[r] = *(const v16 *)(acc + r * t->pitch);
	}
	for (int64_t p = 0; p < t->points; p++) {
		int64_t d = dv[p];
		v16 b = {0};
		float f = shared == SHARED_SCALAR ? w[dw[p]] : 0;
		if (shared == SHARED_VECTOR)
			b = *(const v16 *)(w + dw[p] + x0);
		UNROLL
		for (int r = 0; r < rows; r++) {
			v16 x;
			LOAD(x, vr[r] + d, along);
			if (shared == SHARED_SCALAR)
				c[r] += x * f;
			else if (shared == SHARED_VECTOR)
				c[r] += x * b;
			else if (comb == COMB_MAX)
				c[r] = SELECT(c[r] > x, c[r], x);
			else if (comb == COMB_MIN)
				c[r] = SELECT(c[r] < x, c[r], x);
			else
				c[r] = comb == COMB_PROD ? c[r] * x : c[r] + x;
		}
	}
	UNROLL
	for (int r = 0; r < rows; r++)
		*(v16 *)(acc + r * t->pitch) = c[r];
}

INLINE void walk_rows(enum shared shared, enum combiner comb, const struct tile *t, const float *const v[],
		      const int64_t *dv, int64_t along, const float *w, const int64_t *dw)
{
	for (int x = 0; x < t->width; x += TILE_LANES) {
		int r = 0;
		for (; along == 1 && r + 4 <= t->rows; r += 4)
			walk(4, shared, comb, t, r, x, v, dv, 1, w, dw);
		for (; along == 2 && r + 2 <= t->rows; r += 2)
			walk(2, shared, comb, t, r, x, v, dv, 2, w, dw);
		for (; r < t->rows; r++)
			walk(1, shared, comb, t, r, x, v, dv, along, w, dw);
	}
}

INLINE void rows_all(const struct tile *t, const float *const v[], const int64_t *dv, int64_t along,
		     const float *w, const int64_t *dw, bool vector)
{
	if (vector)
		walk_rows(SHARED_VECTOR, COMB_SUM, t, v, dv, along, w, dw);
	else
		walk_rows(SHARED_SCALAR, COMB_SUM, t, v, dv, along, w, dw);
}

INLINE void fold_all(const struct tile *t, enum combiner comb, const float *const v[], const int64_t *dv,
		     int64_t along)
{
	if (comb == COMB_MAX)
		walk_rows(NO_SHARED, COMB_MAX, t, v, dv, along, NULL, NULL);
	else if (comb == COMB_SUM)
		walk_rows(NO_SHARED, COMB_SUM, t, v, dv, along, NULL, NULL);
	else
		walk_rows(NO_SHARED, comb, t, v, dv, along, NULL, NULL);
}

/* ---- a version for each width: rows and vectors of accumulators that fit the registers ---- */

#define VERSION(isa, most, vectors, attribute)                                                               \
	static attribute void outer_##isa(const struct tile *t, const float *s, int64_t step,                \
					  const int64_t *ds, const float *v, const int64_t *dv)              \
	{                                                                                                    \
		outer_all(most, vectors, t, s, step, ds, v, dv);                                             \
	}                                                                                                    \
	static attribute void rows_##isa(const struct tile *t, const float *const v[], const int64_t *dv,    \
					 int64_t along, const float *w, const int64_t *dw, bool vector)      \
	{                                                                                                    \
		rows_all(t, v, dv, along, w, dw, vector);                                                    \
	}                                                                                                    \
	static attribute void fold_##isa(const struct tile *t, enum combiner comb, const float *const v[],   \
					 const int64_t *dv, int64_t along)                                   \
	{                                                                                                    \
		fold_all(t, comb, v, dv, along);                                                             \
	}

#if defined(__x86_64__)

VERSION(base, 3, 1, )
VERSION(avx2, 6, 1, __attribute__((target("avx2,fma"))))
VERSION(avx512, 6, 2, __attribute__((target("avx512f"))))

#define BEST(name, ...)                                                                                      \
	do {                                                                                                 \
		if (__builtin_cpu_supports("avx512f"))                                                       \
			name##_avx512(__VA_ARGS__);                                                          \
		else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))                    \
			name##_avx2(__VA_ARGS__);                                                            \
		else                                                                                         \
			name##_base(__VA_ARGS__);                                                            \
	} while (0)

#else

VERSION(base, 6, 1, )
#define BEST(name, ...) name##_base(__VA_ARGS__)

#endif

void tile_outer(const struct tile *t, const float *s, int64_t step, const int64_t *ds, const float *v,
		const int64_t *dv)
{
	BEST(outer, t, s, step, ds, v, dv);
}

void tile_rows(const struct tile *t, const float *const v[], const int64_t *dv, int64_t along, const float *w,
	       const int64_t *dw, bool vector)
{
	BEST(rows, t, v, dv, along, w, dw, vector);
}

void tile_fold(const struct tile *t, enum combiner comb, const float *const v[], const int64_t *dv,
	       int64_t along)
{
	BEST(fold, t, comb, v, dv, along);
}
