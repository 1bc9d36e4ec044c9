/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a Resize or Upsample node: per axis, the input positions and weights that make each output
 * position. Axes are independent: apply them one after the other. */
#ifndef KERNELS_RESAMPLE_H
#define KERNELS_RESAMPLE_H

#include "kernels/graph/op.h"

struct resample_axis {
	int64_t in, out;
	bool same;      /* the axis is not resized and has no tables */
	int64_t taps;   /* number per output position; 1 for nearest */
	int64_t *index; /* [out][taps], each in [0, in) */
	double *weight; /* [out][taps] */
	bool *outside;  /* [out]: gives `fill` instead (tf_crop_and_resize) */
};

struct resample {
	int rank;
	struct resample_axis axis[MAX_RANK];
	double fill;
};

/* Tables live in c->arena. Needs constant scales or sizes, and with tf_crop_and_resize a constant roi. */
int resample_plan(const struct opctx *c, struct resample *r) MUST_CHECK;

#endif
