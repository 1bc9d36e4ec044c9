/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's protobuf messages, only for import, export and tensor files. Messages are unpacked into an arena
 * (its limit bounds the memory that a hostile file can use) and are never freed individually, so tensors may
 * point into them. */
#ifndef KERNELS_ONNX_PB_H
#define KERNELS_ONNX_PB_H

#include "kernels/onnx/onnx.pb-c.h"
#include "kernels/task/tensor.h"

enum { PB_MAX_ELEMS = 1 << 30 }; /* largest tensor */

/* Converts TensorProto.data_type to dtype and back; DT_NONE / 0: not supported (strings, complex, 4- and
 * 8-bit floats). */
enum dtype pb_dtype(int32_t data_type);
int32_t pb_data_type(enum dtype t);
const char *pb_type_name(int32_t data_type); /* "float8e4m3fn", "string"; for messages */

ProtobufCAllocator pb_allocator(struct arena *a);
/* Unpacks a message into the arena. E_CORRUPT, or E_NOMEM beyond the arena's limit. */
int pb_unpack(struct arena *a, const ProtobufCMessageDescriptor *d, const void *p, size_t n,
	      void *out) MUST_CHECK;

/* The folders in which external data may lie: in the folder or below it; through a symbolic link also
 * where `model`, the opened file of the model, really lies, because caches of models consist of links
 * to their files. */
struct pb_home {
	const char *folder; /* NULL: no external data */
	int model;          /* -1: none */
};

/* The tensor of a message that was unpacked into `a`; it points to the message's own data if possible. widen:
 * f16 and bf16 become f32. */
int pb_tensor(struct arena *a, const Onnx__TensorProto *p, const struct pb_home *home, bool widen,
	      struct tensor *out) MUST_CHECK;
int pb_shape(const Onnx__TensorProto *p, struct shape *s) MUST_CHECK;
/* Reads p's external data (kernels/onnx/import_extern.c) into `data`, which has exactly `bytes`. */
int pb_external(const Onnx__TensorProto *p, const struct pb_home *home, void *data, size_t bytes) MUST_CHECK;
/* Makes the message of a tensor; it points to t's data. dims: memory of the caller for MAX_RANK entries. */
void pb_from_tensor(const struct tensor *t, const char *name, int64_t *dims, Onnx__TensorProto *out);

#endif
