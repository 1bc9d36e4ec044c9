/* SPDX-License-Identifier: Apache-2.0 */
#include "search/rows.h"

/* The compilers for which kernels/task/runs.c does the same. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

typedef float columns16 __attribute__((vector_size(4 * ROW), aligned(4), may_alias));

void rows_pick(const float f[FEATURES], struct picked *p)
{
	int n = 1;
	p->row[0] = 0;
	p->x[0] = 1;
	for (int i = 1; i < FEATURES; i++) { /* no branches: they would be mispredicted */
		p->row[n] = i;
		p->x[n] = f[i];
		n += f[i] != 0;
	}
	p->row[n] = 0;
	p->x[n] = 0;
	p->n = n;
}

WIDE void rows_sum(const float *rows, int columns, const struct picked *p, float *out)
{
	for (int at = 0; at < columns; at += ROW) {
		columns16 even = {0}, odd = {0}; /* two sums, because an addition takes four cycles */
		for (int i = 0; i < p->n; i += 2) {
			const float *a = rows + (size_t)p->row[i] * (size_t)columns + at,
				    *b = rows + (size_t)p->row[i + 1] * (size_t)columns + at;
			even += p->x[i] * *(const columns16 *)a;
			odd += p->x[i + 1] * *(const columns16 *)b;
		}
		*(columns16 *)(out + at) = even + odd;
	}
}
