/* SPDX-License-Identifier: Apache-2.0 */
/* Inner products in double precision: the one reference that float and quantised convolutions and matrix
 * products share. Callers convert operands to doubles first (zero points subtracted), so padding is always
 * plain zero. */
#ifndef KERNELS_DENSE_H
#define KERNELS_DENSE_H

#include "kernels/graph/geometry.h"

/* A window over a padded image of doubles. The weights of one filter address the image by precomputed
 * offsets. */
struct conv {
	struct filter_window w;
	int64_t channels;  /* per group */
	int64_t padded[3]; /* extents of the padded input */
	int64_t taps;      /* channels * kernel */
	int64_t *offset;   /* [taps], in the padded input */
	double *image;     /* [channels][padded], borders zero */
};

/* Allocates in `a`. E_NOMEM: too large. */
int conv_open(struct conv *v, const struct filter_window *w, int64_t channels, struct arena *a) MUST_CHECK;
/* Loads one group of one image, the elements of x from `at` on, as [channels][in]; subtracts `zero`. */
void conv_load(struct conv *v, const struct tensor *x, int64_t at, double zero);
enum { CONV_FILTERS = 8 /* filters computed at a time, for speed */ };
/* out[f][out pixels] += filter[f][taps] applied at every output pixel, for nf filters. */
void conv_apply(const struct conv *v, int nf, const double *filter, double *out);

/* c[m][n] = a[m][k] b[k][n] */
void matmul_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);

#endif
