/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

void walk_open(struct walk *w, struct arena *a, int rank, const int64_t *d, int nops)
{
	memset(w, 0, sizeof *w);
	w->rank = rank;
	w->nops = nops;
	memcpy(w->d, d, sizeof *d * (size_t)rank);
	w->step = arena_alloc(a, sizeof *w->step * (size_t)nops);
	w->at = ARENA_ARRAY(a, int64_t, nops);
	w->run = ARENA_ARRAY(a, int64_t, nops);
}

void walk_like(struct walk *w, int k, const struct shape *s)
{
	int64_t n = 1;
	for (int i = s->rank - 1, j = w->rank - 1; i >= 0; i--, j--) {
		w->step[k][j] = s->d[i] == 1 ? 0 : n;
		n *= s->d[i];
	}
}

void walk_steps(struct walk *w, int k, int64_t base, const int64_t *steps)
{
	w->at[k] = base;
	memcpy(w->step[k], steps, sizeof *steps * (size_t)w->rank);
}

static void drop_dim(struct walk *w, int i)
{
	size_t n = sizeof(int64_t) * (size_t)(w->rank - 1 - i);
	memmove(w->d + i, w->d + i + 1, n);
	for (int k = 0; k < w->nops; k++)
		memmove(w->step[k] + i, w->step[k] + i + 1, n);
	w->rank--;
}

/* Whether stepping dimension i + 1 past its end continues in dimension i, so that both can be merged. */
static bool mergeable(const struct walk *w, int i)
{
	for (int k = 0; k < w->nops; k++)
		if (w->step[k][i] != w->step[k][i + 1] * w->d[i + 1])
			return false;
	return true;
}

void walk_start(struct walk *w)
{
	for (int i = w->rank - 1; i >= 0; i--)
		if (w->d[i] == 1)
			drop_dim(w, i);
	for (int i = w->rank - 2; i >= 0; i--)
		if (mergeable(w, i)) {
			w->d[i + 1] *= w->d[i];
			drop_dim(w, i);
		}
	if (!w->rank) {
		w->rank = 1;
		w->d[0] = 1;
		for (int k = 0; k < w->nops; k++)
			w->step[k][0] = 0;
	}
	memset(w->i, 0, sizeof w->i);
	w->done = false;
	for (int i = 0; i < w->rank; i++)
		w->done |= w->d[i] == 0;
	w->n = w->d[w->rank - 1];
	for (int k = 0; k < w->nops; k++)
		w->run[k] = w->step[k][w->rank - 1];
}

void walk_next(struct walk *w)
{
	for (int i = w->rank - 2; i >= 0; i--) {
		for (int k = 0; k < w->nops; k++)
			w->at[k] += w->step[k][i];
		if (++w->i[i] < w->d[i])
			return;
		for (int k = 0; k < w->nops; k++)
			w->at[k] -= w->step[k][i] * w->d[i];
		w->i[i] = 0;
	}
	w->done = true;
}

#define COPY_RUN(T)                                                                                          \
	for (int64_t j = 0; j < w->n; j++)                                                                   \
	((T *)dst)[w->at[0] + j * w->run[0]] = ((const T *)src)[w->at[1] + j * w->run[1]]

void walk_copy(struct walk *w, size_t bytes, void *dst, const void *src)
{
	for (walk_start(w); !w->done; walk_next(w)) {
		if (w->run[0] == 1 && w->run[1] == 1)
			memcpy((char *)dst + w->at[0] * (int64_t)bytes,
			       (const char *)src + w->at[1] * (int64_t)bytes, (size_t)w->n * bytes);
		else if (bytes == 1)
			COPY_RUN(uint8_t);
		else if (bytes == 2)
			COPY_RUN(uint16_t);
		else if (bytes == 4)
			COPY_RUN(uint32_t);
		else
			COPY_RUN(uint64_t);
	}
}

/* One case of a switch over dtypes: EXPR of an element x of type T. */
#define LOAD(D, T, EXPR)                                                                                     \
	case D:                                                                                              \
		for (int64_t j = 0; j < n; j++) {                                                            \
			T x = ((const T *)t->data)[at + j * step];                                           \
			out[j] = EXPR;                                                                       \
		}                                                                                            \
		return

void load_f64(const struct tensor *t, int64_t at, int64_t step, int64_t n, double *out)
{
	switch (t->dtype) {
		LOAD(DT_F32, float, x);
		LOAD(DT_F64, double, x);
		LOAD(DT_F16, uint16_t, f16_to_f32(x));
		LOAD(DT_BF16, uint16_t, bf16_to_f32(x));
		LOAD(DT_I8, int8_t, x);
		LOAD(DT_U8, uint8_t, x);
		LOAD(DT_I16, int16_t, x);
		LOAD(DT_U16, uint16_t, x);
		LOAD(DT_I32, int32_t, x);
		LOAD(DT_U32, uint32_t, x);
		LOAD(DT_I64, int64_t, (double)x);
		LOAD(DT_U64, uint64_t, (double)x);
		LOAD(DT_BOOL, uint8_t, x != 0);
	default:
		memset(out, 0, sizeof *out * (size_t)n);
	}
}

/* v clamped to [lo, hi] as an integer; NaN becomes 0. Only for |lo|, |hi| < 2^62. */
static int64_t clamp_int(double v, double lo, double hi)
{
	return v != v ? 0 : (int64_t)(v < lo ? lo : v > hi ? hi : v);
}

static int64_t f64_to_i64(double v)
{
	if (v != v)
		return 0;
	return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static uint64_t f64_to_u64(double v)
{
	return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

void load_i64(const struct tensor *t, int64_t at, int64_t step, int64_t n, int64_t *out)
{
	switch (t->dtype) {
		LOAD(DT_F32, float, f64_to_i64(x));
		LOAD(DT_F64, double, f64_to_i64(x));
		LOAD(DT_F16, uint16_t, f64_to_i64(f16_to_f32(x)));
		LOAD(DT_BF16, uint16_t, f64_to_i64(bf16_to_f32(x)));
		LOAD(DT_I8, int8_t, x);
		LOAD(DT_U8, uint8_t, x);
		LOAD(DT_I16, int16_t, x);
		LOAD(DT_U16, uint16_t, x);
		LOAD(DT_I32, int32_t, x);
		LOAD(DT_U32, uint32_t, x);
		LOAD(DT_I64, int64_t, x);
		LOAD(DT_U64, uint64_t, (int64_t)x);
		LOAD(DT_BOOL, uint8_t, x != 0);
	default:
		memset(out, 0, sizeof *out * (size_t)n);
	}
}

#define STORE(D, T, EXPR)                                                                                    \
	case D:                                                                                              \
		for (int64_t j = 0; j < n; j++) {                                                            \
			((T *)t->data)[at + j] = (T)(EXPR);                                                  \
		}                                                                                            \
		return

void store_f64(struct tensor *t, int64_t at, int64_t n, const double *v)
{
	switch (t->dtype) {
		STORE(DT_F32, float, v[j]);
		STORE(DT_F64, double, v[j]);
		STORE(DT_F16, uint16_t, f32_to_f16((float)v[j]));
		STORE(DT_BF16, uint16_t, f32_to_bf16((float)v[j]));
		STORE(DT_I8, int8_t, clamp_int(v[j], INT8_MIN, INT8_MAX));
		STORE(DT_U8, uint8_t, clamp_int(v[j], 0, UINT8_MAX));
		STORE(DT_I16, int16_t, clamp_int(v[j], INT16_MIN, INT16_MAX));
		STORE(DT_U16, uint16_t, clamp_int(v[j], 0, UINT16_MAX));
		STORE(DT_I32, int32_t, clamp_int(v[j], INT32_MIN, INT32_MAX));
		STORE(DT_U32, uint32_t, clamp_int(v[j], 0, UINT32_MAX));
		STORE(DT_I64, int64_t, f64_to_i64(v[j]));
		STORE(DT_U64, uint64_t, f64_to_u64(v[j]));
		STORE(DT_BOOL, uint8_t, v[j] != 0);
	default:
		return;
	}
}

void store_i64(struct tensor *t, int64_t at, int64_t n, const int64_t *v)
{
	switch (t->dtype) {
		STORE(DT_F32, float, v[j]);
		STORE(DT_F64, double, v[j]);
		STORE(DT_F16, uint16_t, f32_to_f16((float)v[j]));
		STORE(DT_BF16, uint16_t, f32_to_bf16((float)v[j]));
		STORE(DT_I8, int8_t, v[j]);
		STORE(DT_U8, uint8_t, v[j]);
		STORE(DT_I16, int16_t, v[j]);
		STORE(DT_U16, uint16_t, v[j]);
		STORE(DT_I32, int32_t, v[j]);
		STORE(DT_U32, uint32_t, v[j]);
		STORE(DT_I64, int64_t, v[j]);
		STORE(DT_U64, uint64_t, v[j]);
		STORE(DT_BOOL, uint8_t, v[j] != 0);
	default:
		return;
	}
}
