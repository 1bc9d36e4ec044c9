/* SPDX-License-Identifier: Apache-2.0 */
/* Checked access to what an operator is given: attributes, inputs, axes; used by every family's infer.
 *
 * Everything here may be fed by a hostile model: each function either returns values in the promised range or
 * fails with a text that starts with what is wrong. E_CORRUPT: the model is invalid; E_UNSUPPORTED: valid,
 * but not ours. */
#ifndef KERNELS_SHAPES_H
#define KERNELS_SHAPES_H

#include "kernels/graph/op.h"

#define MAX_ELEMS ((int64_t)1 << 31) /* of one tensor */

#define DTYPE_BIT(t) (1u << (t))
#define DTYPES_FLOAT (DTYPE_BIT(DT_F32) | DTYPE_BIT(DT_F64) | DTYPE_BIT(DT_F16) | DTYPE_BIT(DT_BF16))
#define DTYPES_SIGNED (DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_I16) | DTYPE_BIT(DT_I32) | DTYPE_BIT(DT_I64))
#define DTYPES_UNSIGNED (DTYPE_BIT(DT_U8) | DTYPE_BIT(DT_U16) | DTYPE_BIT(DT_U32))
#define DTYPES_INT (DTYPES_SIGNED | DTYPES_UNSIGNED) /* those whose values fit int64 */
#define DTYPES_NUMBER (DTYPES_FLOAT | DTYPES_INT)
#define DTYPES_INDEX (DTYPE_BIT(DT_I32) | DTYPE_BIT(DT_I64))
#define DTYPES_ANY (DTYPES_NUMBER | DTYPE_BIT(DT_U64) | DTYPE_BIT(DT_BOOL))

static inline bool dtype_in(enum dtype t, unsigned set)
{
	return set >> t & 1;
}

/* Input i is there (optional ones may not be). */
static inline bool in_there(const struct opctx *c, int i)
{
	return i < c->nin && c->in[i].dtype != DT_NONE;
}

/* Output i is wanted: only for eval, where the data of absent outputs is NULL. */
static inline bool out_wanted(const struct opctx *c, int i)
{
	return i < c->nout && c->out[i].data;
}

/* Input i must be there with a dtype of the set. */
int in_need(const struct opctx *c, int i, unsigned dtypes) MUST_CHECK;
int in_need_rank(const struct opctx *c, int i, int lo, int hi) MUST_CHECK;
/* Input i has exactly one element (a scalar, or any shape of ones). */
int in_need_scalar(const struct opctx *c, int i) MUST_CHECK;
/* The integers of a constant input of rank 0 or 1: their number (<= max), values in out. */
int in_list(const struct opctx *c, int i, int64_t *out, int max) MUST_CHECK;
/* Sets dtype and shape of output i (ignored where the node has no such output); at most MAX_ELEMS elements.
 */
int out_set(struct opctx *c, int i, enum dtype t, const struct shape *s) MUST_CHECK;

/* -rank <= axis < rank into 0 <= *out < rank. */
int axis_norm(int64_t axis, int rank, int *out) MUST_CHECK;
int attr_axis(const struct opctx *c, const char *name, int64_t fallback, int rank, int *out) MUST_CHECK;
/* n axes as a set; a repeated one is an error. */
int axes_mask(const int64_t *axes, int n, int rank, unsigned *mask) MUST_CHECK;
/* The attribute's integers, exactly n of them; `fallback` n times where it is absent. */
int attr_list(const struct opctx *c, const char *name, int n, int64_t fallback, int64_t *out) MUST_CHECK;
/* The attribute's integers: their number (<= max), 0 where it is absent; *there tells. */
int attr_some(const struct opctx *c, const char *name, int64_t *out, int max, bool *there) MUST_CHECK;
/* Axes from attribute "axes" (old operator sets) or from constant input `input`: their number. *there: given
 * at all. */
int axes_list(const struct opctx *c, int input, int64_t out[MAX_RANK], bool *there) MUST_CHECK;
/* Index of the attribute's value in space-separated `choices`; any other is E_UNSUPPORTED. */
int attr_choice(const struct opctx *c, const char *name, const char *choices, int fallback) MUST_CHECK;
/* ONNX TensorProto.DataType number into a dtype; E_UNSUPPORTED for one that we do not have. */
int dtype_of_onnx(int64_t number, enum dtype *out) MUST_CHECK;

int64_t shape_span(const struct shape *s, int from, int to); /* product of dims [from, to) */
void shape_steps(const struct shape *s, int64_t *steps);     /* row-major, in elements */

#endif
