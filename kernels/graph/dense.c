/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/dense.h"
#include "kernels/graph/shapes.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { COLUMNS = 256 /* sums per row and filter, doubles: rows for CONV_FILTERS filters stay in the L1 */ };

int conv_open(struct conv *v, const struct filter_window *w, int64_t channels, struct arena *a)
{
	*v = (struct conv){.w = *w, .channels = channels, .taps = channels * span3(w->kernel)};
	struct shape s = {.rank = 4, .d = {channels}};
	for (int i = 0; i < 3; i++)
		s.d[1 + i] = v->padded[i] = w->in[i] + w->begin[i] + w->end[i];
	int rc = shape_check(&s, MAX_ELEMS);
	if (rc < 0)
		return fail_in(rc, "padded input");
	v->offset = arena_try(a, (size_t)v->taps + 1, sizeof *v->offset);
	v->image = arena_try(a, (size_t)shape_count(&s) + 1, sizeof *v->image);
	if (!v->offset || !v->image)
		return E_NOMEM;
	int64_t plane = span3(v->padded), t = 0;
	for (int64_t c = 0; c < channels; c++)
		for (int64_t d = 0; d < w->kernel[0]; d++)
			for (int64_t h = 0; h < w->kernel[1]; h++)
				for (int64_t x = 0; x < w->kernel[2]; x++)
					v->offset[t++] =
					    c * plane + x * w->dilation[2] +
					    (d * w->dilation[0] * v->padded[1] + h * w->dilation[1]) *
						v->padded[2];
	return E_OK;
}

void conv_load(struct conv *v, const struct tensor *x, int64_t at, double zero)
{
	const struct filter_window *w = &v->w;
	for (int64_t c = 0; c < v->channels; c++)
		for (int64_t d = 0; d < w->in[0]; d++)
			for (int64_t h = 0; h < w->in[1]; h++) {
				int64_t row =
				    (c * v->padded[0] + d + w->begin[0]) * v->padded[1] + h + w->begin[1];
				double *to = v->image + row * v->padded[2] + w->begin[2];
				load_f64(x, at, 1, w->in[2], to);
				for (int64_t i = 0; zero != 0 && i < w->in[2]; i++)
					to[i] -= zero;
				at += w->in[2];
			}
}

/* acc[i] += the sum over four taps of f * x[i * step]; bodies of a constant length become vector code. */
#define ADD4(N, STEP)                                                                                        \
	for (int64_t j = 0; j < (N); j++)                                                                    \
	acc[i + j] += f[0] * x0[(i + j) * (STEP)] + f[1] * x1[(i + j) * (STEP)] +                            \
		      f[2] * x2[(i + j) * (STEP)] + f[3] * x3[(i + j) * (STEP)]

static void add4(int64_t n, double *restrict acc, const double *restrict f, const double *const *x,
		 int64_t step)
{
	const double *restrict x0 = x[0], *restrict x1 = x[1], *restrict x2 = x[2], *restrict x3 = x[3];
	int64_t i = 0;
	if (step == 1) {
		for (; i + 8 <= n; i += 8)
			ADD4(8, 1);
		ADD4(n - i, 1);
	} else {
		ADD4(n, step);
	}
}

static void add1(int64_t n, double *restrict acc, double f, const double *restrict x, int64_t step)
{
	for (int64_t i = 0; i < n; i++)
		acc[i] += f * x[i * step];
}

/* One row of n output pixels for nf filters: every input row that is loaded is used for all of them. */
static void conv_row(const struct conv *v, int nf, const double *filter, const double *x, int64_t n,
		     double *acc, int64_t plane)
{
	int64_t t = 0, step = v->w.stride[2];
	for (; t + 4 <= v->taps; t += 4) {
		const double *rows[4];
		for (int i = 0; i < 4; i++)
			rows[i] = x + v->offset[t + i];
		for (int f = 0; f < nf; f++)
			add4(n, acc + f * plane, filter + f * v->taps + t, rows, step);
	}
	for (; t < v->taps; t++)
		for (int f = 0; f < nf; f++)
			add1(n, acc + f * plane, filter[f * v->taps + t], x + v->offset[t], step);
}

void conv_apply(const struct conv *v, int nf, const double *filter, double *out)
{
	const struct filter_window *w = &v->w;
	int64_t rows = w->out[0] * w->out[1], cols = w->out[2], plane = rows * cols;
	/* without padding and stride, rows of a 1x1 convolution are contiguous: one long row */
	if (span3(w->kernel) == 1 && span3(w->stride) == 1 && span3(v->padded) == plane) {
		cols = plane;
		rows = 1;
	}
	for (int64_t r = 0; r < rows; r++) {
		int64_t d = r / w->out[1] * w->stride[0], h = r % w->out[1] * w->stride[1];
		const double *x = v->image + (d * v->padded[1] + h) * v->padded[2];
		for (int64_t i = 0; i < cols; i += COLUMNS)
			conv_row(v, nf, filter, x + i * w->stride[2], cols - i < COLUMNS ? cols - i : COLUMNS,
				 out + r * cols + i, plane);
	}
}

void matmul_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
	memset(c, 0, sizeof *c * (size_t)(m * n));
	for (int64_t j = 0; j < n; j += COLUMNS) {
		int64_t cols = n - j < COLUMNS ? n - j : COLUMNS;
		for (int64_t i = 0; i < m; i++) {
			int64_t p = 0;
			for (; p + 4 <= k; p += 4) {
				const double *row = b + p * n + j;
				const double *rows[4] = {row, row + n, row + 2 * n, row + 3 * n};
				add4(cols, c + i * n + j, a + i * k + p, rows, 1);
			}
			for (; p < k; p++)
				add1(cols, c + i * n + j, a[i * k + p], b + p * n + j, 1);
		}
	}
}
