/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in plain row-major layout, as models and callers hold them. */
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <stdbool.h>

enum { MAX_RANK = 8 };

enum dtype {
	DT_NONE,
	DT_F32,
	DT_F64,
	DT_F16,
	DT_BF16,
	DT_I8,
	DT_U8,
	DT_I16,
	DT_U16,
	DT_I32,
	DT_U32,
	DT_I64,
	DT_U64,
	DT_BOOL,
	DTYPES
};

struct shape {
	int rank;            /* 0: a scalar */
	int64_t d[MAX_RANK]; /* >= 0 */
};

struct tensor {
	enum dtype dtype;
	struct shape shape;
	void *data; /* row-major; NULL: unknown */
};

size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* "f32" */
bool dtype_is_half(enum dtype t);     /* f16 or bf16 */
int64_t shape_count(
    const struct shape *s); /* product; 1 for a scalar. Shapes in graphs are checked: never overflows */
/* Product with overflow check against max_elems. E_CORRUPT names the shape. */
int shape_check(const struct shape *s, int64_t max_elems) MUST_CHECK;
bool shape_equal(const struct shape *a, const struct shape *b);
void shape_text(const struct shape *s, char out[160]); /* "1x3x224x224", "scalar" */
int shape_parse(const char *text, struct shape *out) MUST_CHECK;
/* NumPy broadcasting of two shapes. */
int shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out) MUST_CHECK;
int tensor_alloc(struct arena *a, enum dtype t, const struct shape *s, struct tensor *out) MUST_CHECK;
/* Reads element i (flat) as a double or int64, or writes it, whatever the dtype (integers saturate). */
double tensor_get(const struct tensor *t, int64_t i);
void tensor_set(struct tensor *t, int64_t i, double v);
int64_t tensor_get_i64(const struct tensor *t, int64_t i);
void tensor_set_i64(struct tensor *t, int64_t i, int64_t v);
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* to nearest even; a NaN stays one */
/* max|a-b| and max|ref| over f32/f64 (integers and bools: *diff is the number of differing elements). NaN
 * equals NaN. */
int tensor_compare(const struct tensor *got, const struct tensor *ref, double *diff,
		   double *absmax) MUST_CHECK;

/* Files: .npy (read, write; f32 f64 f16 i8 u8 i16 i32 i64 bool) and ONNX TensorProto .pb, chosen by the file
 * name's end. */
int tensor_read(struct arena *a, const char *path, struct tensor *out,
		char *name /* 256 or NULL: the .pb's name */) MUST_CHECK;
int tensor_write(const char *path, const struct tensor *t, const char *name) MUST_CHECK;

#endif
