/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of sliding windows: convolutions and pooling of rank 1 to 3, from a node's attributes.
 *
 * Always three spatial axes, right-aligned: a 2-d window uses [1] and [2]; unused leading axes have extent,
 * kernel, stride and dilation 1 and no padding. All numbers are checked: extents and products fit int64 with
 * room, out > 0 where in > 0, and every window of a convolution lies inside the padded input (one of a pool
 * in ceil mode may reach past its end). */
#ifndef KERNELS_GEOMETRY_H
#define KERNELS_GEOMETRY_H

#include "kernels/graph/op.h"

struct filter_window {
	int rank; /* actual spatial axes: 1..3 */
	int64_t in[3], out[3];
	int64_t kernel[3], stride[3], dilation[3];
	int64_t begin[3], end[3]; /* padding, >= 0, auto_pad resolved */
};

/* Conv and its quantised variants: x [n][c][spatial], weights [k][c/group][kernel]. Also checks channels
 * against groups. */
int conv_window(const struct opctx *c, const struct shape *x, const struct shape *weights,
		struct filter_window *w) MUST_CHECK;
/* ConvTranspose: x [n][c][spatial], weights [c][k/group][kernel]. `out` is the node's output extent, `begin`
 * the number of elements cropped in front. The full result has (in-1)*stride + (kernel-1)*dilation + 1
 * elements; output past it is only bias. */
int deconv_window(const struct opctx *c, const struct shape *x, const struct shape *weights,
		  struct filter_window *w) MUST_CHECK;
/* MaxPool, AveragePool, LpPool. */
int pool_window(const struct opctx *c, const struct shape *x, struct filter_window *w) MUST_CHECK;
int64_t conv_group(const struct opctx *c); /* attribute group; checked by *_window: 1 <= group <= channels */

/* Shape [n][c][w->out...]. */
void window_shape(const struct filter_window *w, int64_t n, int64_t c, struct shape *out);
static inline int64_t window_reach(const struct filter_window *w, int i) /* extent of a dilated kernel */
{
	return (w->kernel[i] - 1) * w->dilation[i] + 1;
}
static inline int64_t span3(const int64_t *d)
{
	return d[0] * d[1] * d[2];
}

#endif
