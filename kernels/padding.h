/* SPDX-License-Identifier: Apache-2.0 */
/* What a Pad node asks for, on every axis of its input, from attributes or constant inputs. */
#ifndef KERNELS_PADDING_H
#define KERNELS_PADDING_H

#include "kernels/op.h"

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct padding {
	enum pad_mode mode;
	int rank;
	int64_t begin[MAX_RANK], end[MAX_RANK]; /* negative: cropped */
	int64_t out[MAX_RANK];                  /* extents of the result, >= 0 */
};

int padding_plan(const struct opctx *c, struct padding *p) MUST_CHECK;
/* Where output position o of an axis of `extent` is read; -1: the constant. */
int64_t padding_source(const struct padding *p, int axis, int64_t extent, int64_t o);
/* The constant of PAD_CONSTANT. Only when the optional input, if there, has data. */
double padding_value(const struct opctx *c);

#endif
