/* SPDX-License-Identifier: Apache-2.0 */
/* Imports ONNX: opset 7 to 28, external data (kernels/onnx/import_extern.c), fp16 weights converted to f32,
 * with our own subset of the protobuf schema (onnx.proto: no recursive fields). No file can cause an assert,
 * an overflow or unbounded memory use: sizes are checked against the file, memory is limited, and recursion
 * does not follow the file's depth.
 *
 * An import ends with its thread's limit (platform/base/until.h).
 *
 * Free dimensions, symbolic or unknown ones, are bound by `binds` ("images" = "1x3x320x320", by input name;
 * or by dimension name "N"="4"). A batch size that is not bound is 1 (kernels/onnx/import_free.c says which
 * dimensions are batch sizes); any other makes the import fail with E_USAGE, whose text names the inputs and
 * the options that would give their sizes. An input's bind may also replace sizes that the file fixes. If the
 * nodes do not work with sizes that are given or replaced, the error is E_USAGE and names them. A number that
 * is bound to an integer or bool scalar is that input's value ("sr" = "16000"), and the input becomes a
 * constant.
 *
 * If, Loop and Scan are gone after the import: the branch that an If's condition chooses takes the If's
 * place, and Loop and Scan become copies of their bodies, with IMPORT_MAX_UNROLLED nodes together at most.
 * Conditions and trip counts must follow from constants and shapes; a Loop also ends when its condition
 * becomes false. A branch that is not chosen may hold unsupported nodes. Subgraphs are parsed one level at a
 * time, up to IMPORT_MAX_DEPTH levels. Values and nodes from subgraphs have a number at the end of their
 * names. Nodes of simpler operators replace Attention, RotaryEmbedding, DFT, STFT and
 * MeanVarianceNormalization (kernels/onnx/import_function.c); the masks and tables that are made for these
 * have a limit, too.
 *
 * All unsupported nodes are collected and listed in ONE E_UNSUPPORTED error, one per line: "node 'x' (Type,
 * opset 13): attribute mode=cubic_foo is not supported; remedy". After the import every value has its
 * shape. A file of another program is E_CORRUPT, and the text names its format (kernels/onnx/foreign.h). */
#ifndef KERNELS_IMPORT_H
#define KERNELS_IMPORT_H

#include "kernels/graph/graph.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"

enum {
	IMPORT_MAX_DEPTH = 64,         /* of subgraphs in subgraphs */
	IMPORT_MAX_UNROLLED = 1 << 16, /* nodes from bodies of Loop and Scan */
};

struct import_bind {
	const char *name, *value;
	/* The value is the shape of an input's file: it gives free dimensions only, and it is ignored if it
	 * does not fit. `name` may be "": the model's only input. */
	bool weak;
};

/* An input whose value is known in advance: it becomes a constant instead of an input (its data is
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
	int64_t max_bytes; /* memory limit of the import; 0: 4 GiB */
	/* Set as soon as it is known to what is read in all: the file and its external data. May be NULL;
	 * other threads may look. */
	_Atomic int64_t *all_bytes;
	/* Gets a line, without its end, about batch sizes that are taken as 1, and about sizes that the model
	 * fixes and `binds` replace. NULL: not wanted. */
	struct buf *notes;
	/* Goes before NAME=DIMS in errors, and of it only what follows ": " before further ones; NULL:
	 * "--shape " before each, and NAME is quoted for a shell. */
	const char *shape_option;
	/* One for each bind, set if the model has its input or dimension: the caller says if none of several
	 * models has it. NULL: a bind that the model does not have is an error. */
	bool *taken;
};

/* Begins the text of the E_USAGE error on sizes that are neither in the file nor given. */
#define IMPORT_LEAVES_FREE "the model leaves sizes free: "

int import_file(const char *path, const struct import_opts *o, struct graph **out) MUST_CHECK;
/* Imports from memory; `folder` is where external data may lie (NULL: none allowed). The fuzz target calls
 * this. */
int import_bytes(const void *p, size_t n, const char *folder, const struct import_opts *o,
		 struct graph **out) MUST_CHECK;
/* Writes a graph as an ONNX file, weights inline. */
int export_file(const struct graph *g, const char *path) MUST_CHECK;
/* The same with a producer's name other than "hone". The file begins with ir_version and that name, so that a
 * command knows its own files (tools/hone/output.h); runtimes ignore the name. */
int export_file_by(const struct graph *g, const char *producer, const char *path) MUST_CHECK;

#endif
