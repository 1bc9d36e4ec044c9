/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of bytes in which each filter reads one channel, without a panel: most of a panel's work would
 * be its packing. The sums and bytes are those of kernels/graph/dense8.h. */
#ifndef KERNELS_DEPTHWISE8_H
#define KERNELS_DEPTHWISE8_H

#include "kernels/graph/dense8.h"
#include "kernels/graph/geometry.h"
#include "platform/base/arena.h"

struct depthwise8 {
	struct filter_window w;
	int64_t images, channels, each; /* filters of a channel */
	const uint8_t *x;               /* [images][channels][in] */
	uint8_t zero, flip;             /* padding; XORed to each byte, as in dense8_pack */
	const int8_t *weights;          /* [channels * each][taps] */
	const uint32_t *add;            /* of a filter's sums, with the zero point of x */
	const float *factor;
	struct dense8_bytes bytes;
	uint8_t *y; /* [images][channels * each][out] */
};

/* Whether the window is of two dimensions, with a stride of 1 or 2 and no dilation along its lines. */
bool depthwise8_fits(const struct filter_window *w);
/* E_NOMEM: no room for a padded channel. */
int depthwise8(const struct depthwise8 *d, struct arena *a) MUST_CHECK;

#endif
