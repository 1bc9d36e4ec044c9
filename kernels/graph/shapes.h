/* SPDX-License-Identifier: Apache-2.0 */
/* Checked access to an operator's attributes, inputs and axes; used by every family's infer.
 *
 * A hostile model may pass anything here: each function either returns values in the promised range or fails
 * with a text that starts with the problem. E_CORRUPT: the model is invalid; E_UNSUPPORTED: it is valid but
 * not supported. */
#ifndef KERNELS_SHAPES_H
#define KERNELS_SHAPES_H

#include "kernels/graph/op.h"

#define MAX_ELEMS ((int64_t)1 << 31) /* largest tensor, in elements */

#define DTYPE_BIT(t) (1u << (t))
#define DTYPES_FLOAT (DTYPE_BIT(DT_F32) | DTYPE_BIT(DT_F64) | DTYPE_BIT(DT_F16) | DTYPE_BIT(DT_BF16))
#define DTYPES_SIGNED (DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_I16) | DTYPE_BIT(DT_I32) | DTYPE_BIT(DT_I64))
#define DTYPES_UNSIGNED (DTYPE_BIT(DT_U8) | DTYPE_BIT(DT_U16) | DTYPE_BIT(DT_U32))
#define DTYPES_INT (DTYPES_SIGNED | DTYPES_UNSIGNED) /* dtypes whose values fit int64 */
#define DTYPES_NUMBER (DTYPES_FLOAT | DTYPES_INT)
#define DTYPES_INDEX (DTYPE_BIT(DT_I32) | DTYPE_BIT(DT_I64))
#define DTYPES_ANY (DTYPES_NUMBER | DTYPE_BIT(DT_U64) | DTYPE_BIT(DT_BOOL))

static inline bool dtype_in(enum dtype t, unsigned set)
{
	return set >> t & 1;
}

/* Whether input i is present (optional ones may be absent). */
static inline bool in_there(const struct opctx *c, int i)
{
	return i < c->nin && c->in[i].dtype != DT_NONE;
}

/* Whether output i is needed. Only for eval, where the data of absent outputs is NULL. */
static inline bool out_wanted(const struct opctx *c, int i)
{
	return i < c->nout && c->out[i].data;
}

/* Checks that input i is present and its dtype is in the set. */
int in_need(const struct opctx *c, int i, unsigned dtypes) MUST_CHECK;
int in_need_rank(const struct opctx *c, int i, int lo, int hi) MUST_CHECK;
/* Checks that input i has exactly one element (a scalar, or any shape of ones). */
int in_need_scalar(const struct opctx *c, int i) MUST_CHECK;
/* Reads the integers of a constant input of rank 0 or 1 into out; returns their number (<= max). */
int in_list(const struct opctx *c, int i, int64_t *out, int max) MUST_CHECK;
/* Sets dtype and shape of output i (ignored if the node has no such output). At most MAX_ELEMS elements. */
int out_set(struct opctx *c, int i, enum dtype t, const struct shape *s) MUST_CHECK;

/* Maps -rank <= axis < rank to 0 <= *out < rank. */
int axis_norm(int64_t axis, int rank, int *out) MUST_CHECK;
int attr_axis(const struct opctx *c, const char *name, int64_t fallback, int rank, int *out) MUST_CHECK;
/* Returns n axes as a set; a repeated axis is an error. */
int axes_mask(const int64_t *axes, int n, int rank, unsigned *mask) MUST_CHECK;
/* Reads exactly n integers of an attribute; if it is absent, all are `fallback`. */
int attr_list(const struct opctx *c, const char *name, int n, int64_t fallback, int64_t *out) MUST_CHECK;
/* Reads the integers of an attribute; returns their number (<= max), 0 if it is absent. *there: it is
 * present. */
int attr_some(const struct opctx *c, const char *name, int64_t *out, int max, bool *there) MUST_CHECK;
/* Reads axes from attribute "axes" (old operator sets) or from constant input `input`; returns their number.
 * *there: axes are given at all. */
int axes_list(const struct opctx *c, int input, int64_t out[MAX_RANK], bool *there) MUST_CHECK;
/* Index of the attribute's value in space-separated `choices`; any other is E_UNSUPPORTED. */
int attr_choice(const struct opctx *c, const char *name, const char *choices, int fallback) MUST_CHECK;
/* Converts an ONNX TensorProto.DataType number to a dtype; E_UNSUPPORTED: hone has no such dtype. */
int dtype_of_onnx(int64_t number, enum dtype *out) MUST_CHECK;

int64_t shape_span(const struct shape *s, int from, int to); /* product of dims [from, to) */
void shape_steps(const struct shape *s, int64_t *steps);     /* row-major, in elements */

#endif
