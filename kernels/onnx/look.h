/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at an ONNX file without importing it: what it declares, also where sizes are free or operators are
 * not supported. Weights in other files are not read. As with an import, no file can cause an assert, an
 * overflow or unbounded memory use. */
#ifndef KERNELS_LOOK_H
#define KERNELS_LOOK_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct look_dim {
	int64_t size;     /* -1: free */
	const char *name; /* of a symbolic dimension; "": none */
};

struct look_value { /* an input or output */
	const char *name;
	const char *type; /* "f32", else ONNX's name of a type that hone does not have; "": not a tensor */
	bool ranked;      /* false: the file does not say its dimensions */
	int rank;
	struct look_dim *dim;
};

struct look_op {
	const char *type, *domain; /* "Conv", "" */
	int uses;
};

struct look_opset {
	const char *domain; /* "ai.onnx" also for "" */
	int64_t version;
};

struct onnx_look {
	const char *producer; /* "": not said */
	int64_t ir;
	int nopsets, nin, nout, nops, nodes;
	struct look_opset *opset;    /* one for each domain, the first 64 */
	struct look_value *in, *out; /* inputs without those that have a constant */
	struct look_op *op;          /* the most frequent first */
	int64_t weights;             /* elements of initializers and constants */
};

/* Everything lives in the arena. */
int look_file(const char *path, struct arena *a, struct onnx_look *out) MUST_CHECK;
int look_bytes(const void *p, size_t n, const char *path, struct arena *a, struct onnx_look *out) MUST_CHECK;

#endif
