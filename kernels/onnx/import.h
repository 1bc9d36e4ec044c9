/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX in: opset 7 to 28, external data inside the model's folder, fp16 weights converted to f32, subset of
 * protobuf of our own (onnx.proto: no recursive fields). Nothing in a file reaches an assert, an overflow or
 * unbounded memory: sizes are checked against the file, memory is capped, depth is not recursed on.
 *
 * Symbolic dimensions are bound to 1 or by `binds` ("images" = "1x3x320x320", by input name; or by dimension
 * name "N"="4"). Every unsupported node is collected first: ONE E_UNSUPPORTED error lists them all, a line
 * each: "node 'x' (Type, opset 13): attribute mode=cubic_foo is not supported; remedy". After import every
 * value has its shape. */
#ifndef KERNELS_IMPORT_H
#define KERNELS_IMPORT_H

#include "kernels/graph/graph.h"
#include "platform/base/file.h"

struct import_bind {
	const char *name, *value;
};

/* An input whose value is known beforehand: it becomes a constant and is no input any more (its data is
 * copied). */
struct import_fixed {
	const char *name;
	struct tensor t;
};

struct import_opts {
	int nbinds;
	const struct import_bind *binds;
	int nfixed;
	const struct import_fixed *fixed;
	int64_t max_bytes; /* memory cap of the import; 0 = 4 GiB */
};

int import_file(const char *path, const struct import_opts *o, struct graph **out) MUST_CHECK;
/* From memory; `folder` is where external data may lie (NULL: none allowed). What the fuzz target calls. */
int import_bytes(const void *p, size_t n, const char *folder, const struct import_opts *o,
		 struct graph **out) MUST_CHECK;
/* Writes a graph as an ONNX file (the zoo, bisected models). Weights inline. */
int export_file(const struct graph *g, const char *path) MUST_CHECK;

#endif
