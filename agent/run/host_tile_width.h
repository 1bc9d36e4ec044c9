/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of host_tile.c for one vector width, included once for each. Before, the includer defines:
 *   NAME(x)      x with the width's suffix
 *   LANES        floats of a vector, a divisor of TILE_LANES
 *   MOST, WIDE   rows and vectors of an outer product's accumulators that fit the registers
 *   WALK         vectors of a row that the other loops work on at once, if it has so many
 *   EVEN(a, b)   the even elements of a, then those of b that continue them when b begins at a's last
 *   THIRD(a, b, c)  every third element of a, then those of b and c that continue them, when b continues a
 * and c's last is the last of them SOME(p, n)   a vector of the n <= LANES floats at p, and zeros; reads
 * nothing behind them VERSION      attributes of the functions: the instructions they may use A vector is
 * never longer than the machine's: compilers keep longer ones in memory. No include guard. */

typedef float NAME(vec) __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t NAME(mask) __attribute__((vector_size(LANES * 4)));
#define VEC NAME(vec)
#define MASK NAME(mask)

/* Implements SOME without masks. */
INLINE VERSION VEC NAME(some)(const float *p, int n)
{
	VEC v = {0};
	if (n >= LANES)
		return *(const VEC *)p;
	for (int x = 0; x < n; x++)
		v[x] = p[x];
	return v;
}

/* rows and vectors are constants where this is used, so that the accumulators stay in registers. some: the
 * lanes of a single vector. */
INLINE VERSION void NAME(outer_tile)(int rows, int vectors, int some, const struct tile *t, int r0, int x0,
				     const float *s, const int64_t *row, const int64_t *ds, const float *v,
				     const int64_t *dv)
{
	VEC c[8][WIDE];
	float *acc = t->acc + r0 * t->pitch + x0;
	const float *sr[8];
	UNROLL
	for (int r = 0; r < rows; r++) {
		sr[r] = s + row[r0 + r];
		UNROLL
		for (int x = 0; x < vectors; x++)
			c[r][x] = *(const VEC *)(acc + r * t->pitch + x * LANES);
	}
	for (int64_t p = 0; p < t->points; p++) {
		const float *at = v + dv[p] + x0;
		int64_t d = ds[p];
		VEC b[WIDE];
		UNROLL
		for (int x = 0; x < vectors; x++)
			b[x] = vectors == 1 ? SOME(at, some) : *(const VEC *)(at + x * LANES);
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
			*(VEC *)(acc + r * t->pitch + x * LANES) = c[r][x];
	}
}

#define OUTER_CASE(n)                                                                                        \
	case n:                                                                                              \
		NAME(outer_tile)(n, vectors, some, t, r, x, s, row, ds, v, dv);                              \
		break

/* most: rows whose accumulators fit the registers. The last tiles share the rows that are left. */
INLINE VERSION void NAME(outer_rows)(int most, int vectors, int some, const struct tile *t, int x,
				     const float *s, const int64_t *row, const int64_t *ds, const float *v,
				     const int64_t *dv)
{
	for (int r = 0; r < t->rows;) {
		int left = t->rows - r, n = left <= most ? left : left < 2 * most ? (left + 1) / 2 : most;
		switch (n) {
			OUTER_CASE(1);
			OUTER_CASE(2);
			OUTER_CASE(3);
			OUTER_CASE(4);
			OUTER_CASE(5);
			OUTER_CASE(6);
			OUTER_CASE(7);
		default:
			NAME(outer_tile)(most, vectors, some, t, r, x, s, row, ds, v, dv);
		}
		r += n;
	}
}

#undef OUTER_CASE

static VERSION void NAME(outer)(const struct tile *t, const float *s, const int64_t *row, const int64_t *ds,
				const float *v, const int64_t *dv)
{
	int x = 0;
	for (; x + WIDE * LANES <= t->width; x += WIDE * LANES)
		NAME(outer_rows)(MOST, WIDE, LANES, t, x, s, row, ds, v, dv);
	for (; x < t->width; x += LANES)
		NAME(outer_rows)(8, 1, t->width - x < LANES ? t->width - x : LANES, t, x, s, row, ds, v, dv);
}

/* rows and groups are constants where this is used. */
INLINE VERSION void NAME(group_tile)(int rows, int groups, int some, const struct tile *t, float *acc,
				     const float *s, const int64_t *row, const int64_t *ds,
				     const float *const v[], const int64_t *dv)
{
	VEC c[8][TILE_GROUP_ROWS];
	UNROLL
	for (int g = 0; g < groups; g++) {
		UNROLL
		for (int r = 0; r < rows; r++)
			c[g][r] = *(const VEC *)(acc + (g * rows + r) * t->pitch);
	}
	for (int64_t p = 0; p < t->points; p++) {
		const float *from = s + ds[p];
		int64_t d = dv[p];
		VEC b[8];
		UNROLL
		for (int g = 0; g < groups; g++)
			b[g] = SOME(v[g] + d, some);
		UNROLL
		for (int r = 0; r < rows; r++) {
			float f = from[row[r]];
			UNROLL
			for (int g = 0; g < groups; g++)
				c[g][r] += b[g] * f;
		}
	}
	UNROLL
	for (int g = 0; g < groups; g++) {
		UNROLL
		for (int r = 0; r < rows; r++)
			*(VEC *)(acc + (g * rows + r) * t->pitch) = c[g][r];
	}
}

/* most: groups whose accumulators fit the registers. */
INLINE VERSION void NAME(group_tiles)(int rows, int most, const struct tile *t, int groups, const float *s,
				      const int64_t *row, const int64_t *ds, const float *const v[],
				      const int64_t *dv)
{
	float *acc = t->acc;
	int g = 0;
	for (; t->width == LANES && g + most <= groups; g += most, acc += most * rows * t->pitch)
		NAME(group_tile)(rows, most, LANES, t, acc, s, row, ds, v + g, dv);
	for (; g + most <= groups; g += most, acc += most * rows * t->pitch)
		NAME(group_tile)(rows, most, t->width, t, acc, s, row, ds, v + g, dv);
	for (; g < groups; g++, acc += rows * t->pitch)
		NAME(group_tile)(rows, 1, t->width, t, acc, s, row, ds, v + g, dv);
}

static VERSION void NAME(groups)(const struct tile *t, int groups, const float *s, const int64_t *row,
				 const int64_t *ds, const float *const v[], const int64_t *dv)
{
	switch (t->rows) {
	case 1:
		NAME(group_tiles)(1, 8, t, groups, s, row, ds, v, dv);
		break;
	case 2:
		NAME(group_tiles)(2, 4, t, groups, s, row, ds, v, dv);
		break;
	case 3:
		NAME(group_tiles)(3, 3, t, groups, s, row, ds, v, dv);
		break;
	case 4:
		NAME(group_tiles)(4, 2, t, groups, s, row, ds, v, dv);
		break;
	default:
		NAME(group_tiles)(5, 2, t, groups, s, row, ds, v, dv);
	}
}

/* *v = p[0], p[along], p[2 * along] ..., `some` of them. Nothing behind the last of these is read. */
INLINE VERSION void NAME(load)(VEC *v, const float *p, int64_t along, int some)
{
	if (along == 1) {
		*v = SOME(p, some);
	} else if (along == 2) {
		int n = 2 * some - 1, behind = 2 * some - LANES;
		VEC a = SOME(p, n < LANES ? n : LANES), b = SOME(p + LANES - 1, behind > 0 ? behind : 0);
		*v = EVEN(a, b);
	} else if (along == 3) {
		int n = 3 * some - 2, second = n - LANES, third = n - (2 * LANES - 2);
		VEC a = SOME(p, n < LANES ? n : LANES), c = SOME(p + 2 * LANES - 2, third > 0 ? third : 0);
		VEC b = SOME(p + LANES, second > LANES ? LANES : second > 0 ? second : 0);
		*v = THIRD(a, b, c);
	} else if (some == LANES) {
		UNROLL
		for (int x = 0; x < LANES; x++)
			(*v)[x] = p[x * along];
	} else {
		float at[LANES] = {0};
		for (int x = 0; x < some; x++)
			at[x] = p[x * along];
		*v = *(const VEC *)at;
	}
}

/* rows, vectors: constants, as in outer_tile. */
INLINE VERSION void NAME(walk)(int rows, int vectors, int some, enum shared shared, enum combiner comb,
			       const struct tile *t, int r0, int x0, const float *const v[],
			       const int64_t *dv, int64_t along, const float *w, const int64_t *dw)
{
	VEC c[4][WALK];
	float *acc = t->acc + r0 * t->pitch + x0;
	const float *vr[4];
	UNROLL
	for (int r = 0; r < rows; r++) {
		vr[r] = v[r0 + r] + x0 * along;
		UNROLL
		for (int k = 0; k < vectors; k++)
			c[r][k] = *(const VEC *)(acc + r * t->pitch + k * LANES);
	}
	for (int64_t p = 0; p < t->points; p++) {
		int64_t d = dv[p];
		VEC b[WALK] = {0};
		float f = shared == SHARED_SCALAR ? w[dw[p]] : 0;
		UNROLL
		for (int k = 0; shared == SHARED_VECTOR && k < vectors; k++)
			b[k] = SOME(w + dw[p] + x0 + k * LANES, some);
		UNROLL
		for (int r = 0; r < rows; r++) {
			UNROLL
			for (int k = 0; k < vectors; k++) {
				VEC x, *at = &c[r][k];
				NAME(load)(&x, vr[r] + d + k * LANES * along, along, some);
				if (shared == SHARED_SCALAR)
					*at += x * f;
				else if (shared == SHARED_VECTOR)
					*at += x * b[k];
				else if (comb == COMB_MAX)
					*at = SELECT(*at > x, *at, x);
				else if (comb == COMB_MIN)
					*at = SELECT(*at < x, *at, x);
				else
					*at = comb == COMB_PROD ? *at * x : *at + x;
			}
		}
	}
	UNROLL
	for (int r = 0; r < rows; r++) {
		UNROLL
		for (int k = 0; k < vectors; k++)
			*(VEC *)(acc + r * t->pitch + k * LANES) = c[r][k];
	}
}

INLINE VERSION void NAME(walk_rows)(int vectors, int some, enum shared shared, enum combiner comb,
				    const struct tile *t, int x, const float *const v[], const int64_t *dv,
				    int64_t along, const float *w, const int64_t *dw)
{
	int r = 0;
	for (; along == 1 && r + 4 <= t->rows; r += 4)
		NAME(walk)(4, vectors, some, shared, comb, t, r, x, v, dv, 1, w, dw);
	for (; along == 2 && r + 2 <= t->rows; r += 2)
		NAME(walk)(2, vectors, some, shared, comb, t, r, x, v, dv, 2, w, dw);
	for (; along == 3 && r + 2 <= t->rows; r += 2)
		NAME(walk)(2, vectors, some, shared, comb, t, r, x, v, dv, 3, w, dw);
	for (; r < t->rows; r++) {
		if (along == 1)
			NAME(walk)(1, vectors, some, shared, comb, t, r, x, v, dv, 1, w, dw);
		else
			NAME(walk)(1, vectors, some, shared, comb, t, r, x, v, dv, along, w, dw);
	}
}

INLINE VERSION void NAME(walk_all)(enum shared shared, enum combiner comb, const struct tile *t,
				   const float *const v[], const int64_t *dv, int64_t along, const float *w,
				   const int64_t *dw)
{
	int x = 0;
	for (; x + WALK * LANES <= t->width; x += WALK * LANES)
		NAME(walk_rows)(WALK, LANES, shared, comb, t, x, v, dv, along, w, dw);
	if (WALK > 1 && x + LANES <= t->width) {
		NAME(walk_rows)(1, LANES, shared, comb, t, x, v, dv, along, w, dw);
		x += LANES;
	}
	if (x < t->width)
		NAME(walk_rows)(1, t->width - x, shared, comb, t, x, v, dv, along, w, dw);
}

/* As walk_all, for combiners that few models have: one loop for all strides and short vectors keeps libhone
 * small. */
INLINE VERSION void NAME(walk_rare)(enum combiner comb, const struct tile *t, const float *const v[],
				    const int64_t *dv, int64_t along)
{
	for (int x = 0; x < t->width; x += LANES) {
		int r = 0, some = t->width - x < LANES ? t->width - x : LANES;
		for (; some == LANES && r + 4 <= t->rows; r += 4)
			NAME(walk)(4, 1, LANES, NO_SHARED, comb, t, r, x, v, dv, along, NULL, NULL);
		for (; r < t->rows; r++)
			NAME(walk)(1, 1, some, NO_SHARED, comb, t, r, x, v, dv, along, NULL, NULL);
	}
}

static VERSION void NAME(rows)(const struct tile *t, const float *const v[], const int64_t *dv, int64_t along,
			       const float *w, const int64_t *dw, bool vector)
{
	if (vector)
		NAME(walk_all)(SHARED_VECTOR, COMB_SUM, t, v, dv, along, w, dw);
	else
		NAME(walk_all)(SHARED_SCALAR, COMB_SUM, t, v, dv, along, w, dw);
}

static VERSION void NAME(fold)(const struct tile *t, enum combiner comb, const float *const v[],
			       const int64_t *dv, int64_t along)
{
	if (comb == COMB_MAX)
		NAME(walk_all)(NO_SHARED, COMB_MAX, t, v, dv, along, NULL, NULL);
	else if (comb == COMB_SUM)
		NAME(walk_all)(NO_SHARED, COMB_SUM, t, v, dv, along, NULL, NULL);
	else
		NAME(walk_rare)(comb, t, v, dv, along);
}

#undef VEC
#undef MASK
#undef NAME
#undef LANES
#undef MOST
#undef WIDE
#undef WALK
#undef EVEN
#undef THIRD
#undef SOME
#undef VERSION
