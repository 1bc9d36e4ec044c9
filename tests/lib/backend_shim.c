/* SPDX-License-Identifier: Apache-2.0 */
/* A back end for tests, as t/cli_library compiles it. It computes by the definition, slowly, and remembers
 * the last x and y: where x is the same, it copies y, and so wins against every kernel in a search, which
 * runs kernels on the same values again and again. WAY: 0 good, 1 wrong sums, 2 crashes when it runs, 3 hangs
 * when it runs, 4 says that it failed, 5 crashes when it makes a piece, 6 crashes when it is opened. 7 and 8
 * are good unless $SHIM_FAILS is set: then 7 overwrites y and says that it failed, from run number
 * $SHIM_FAILS on, and 8 says that it cannot make a piece. */
#include "kernels/library/hone_backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef WAY
#define WAY 0
#endif
#ifndef VERSION
#define VERSION "1.0"
#endif

struct made {
	struct hone_piece p;
	float *x, *y; /* rows of the last run */
	int runs;
};

__attribute__((constructor)) static void start(void)
{
	if (WAY == 6)
		abort();
}

static int supports(const struct hone_piece *p)
{
	return p->kind == HONE_PRODUCT && p->constant && p->x.stride[1] == 1 && p->y.stride[1] == 1 &&
	       !p->has_add && p->has_bias < 2;
}

static int make(const struct hone_piece *p, const struct hone_buffers *b, void **made)
{
	struct made *m = calloc(1, sizeof *m);
	(void)b;
	if (WAY == 5)
		abort();
	if (WAY == 8 && getenv("SHIM_FAILS"))
		return 7;
	if (!m)
		return 1;
	m->p = *p;
	m->x = calloc((size_t)(p->rows * p->depth), sizeof *m->x);
	m->y = calloc((size_t)(p->rows * p->columns), sizeof *m->y);
	*made = m;
	return m->x && m->y ? 0 : 1;
}

static void compute(struct made *m, const struct hone_buffers *b)
{
	const struct hone_piece *p = &m->p;
	for (int64_t i = 0; i < p->rows; i++)
		for (int64_t j = 0; j < p->columns; j++) {
			double sum = p->has_bias ? b->bias[j] : 0;
			for (int64_t k = 0; k < p->depth; k++)
				sum += (double)b->x[i * p->x.stride[0] + k] *
				       b->w[k * p->w.stride[0] + j * p->w.stride[1]];
			m->y[i * p->columns + j] = (float)fmin(fmax(sum + (WAY == 1), p->least), p->greatest);
		}
}

static int run(void *made, const struct hone_buffers *b)
{
	struct made *m = made;
	const struct hone_piece *p = &m->p;
	size_t in = (size_t)p->depth * sizeof(float), out = (size_t)p->columns * sizeof(float);
	int same = m->runs++ > 0;
	if (getenv("SHIM_SAYS"))
		fputs("the shim runs\n", stderr);
	if (WAY == 2)
		abort();
	while (WAY == 3)
		m->runs++;
	if (WAY == 4)
		return 1;
	if (WAY == 7 && getenv("SHIM_FAILS") && m->runs >= atoi(getenv("SHIM_FAILS"))) {
		for (int64_t i = 0; i < p->rows; i++)
			memset(b->y + i * p->y.stride[0], 0x55, out);
		return 9;
	}
	for (int64_t i = 0; i < p->rows; i++)
		same = same && !memcmp(m->x + i * p->depth, b->x + i * p->x.stride[0], in);
	if (!same) {
		for (int64_t i = 0; i < p->rows; i++)
			memcpy(m->x + i * p->depth, b->x + i * p->x.stride[0], in);
		compute(m, b);
	}
	for (int64_t i = 0; i < p->rows; i++)
		memcpy(b->y + i * p->y.stride[0], m->y + i * p->columns, out);
	return 0;
}

static void unmake(void *made)
{
	struct made *m = made;
	free(m->x);
	free(m->y);
	free(m);
}

__attribute__((visibility("default"))) const struct hone_backend hone_backend = {
    HONE_BACKEND_ABI, sizeof(struct hone_backend), "shim", VERSION, supports, make, run, unmake};
