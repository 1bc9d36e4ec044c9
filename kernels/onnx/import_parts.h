/* SPDX-License-Identifier: Apache-2.0 */
/* The importer's state, shared by import.c (the order of work) and its parts import_*.c only. */
#ifndef KERNELS_IMPORT_PARTS_H
#define KERNELS_IMPORT_PARTS_H

#include "kernels/onnx/import.h"
#include "kernels/graph/names.h"
#include "kernels/onnx/onnx_pb.h"

struct importer {
	struct graph *g;
	const struct import_opts *o;
	const char *folder; /* for external data; NULL: none allowed */
	int opset;          /* of the default domain */
	struct names names; /* value name -> index; in `scratch` */
	struct arena scratch;
	bool *bind_used;       /* per o->binds */
	bool only_input;       /* the model has one input */
	struct names sizes;    /* of symbolic dimensions, as the given shapes of inputs say */
	struct buf lines;      /* unsupported features, one per line */
	int nlines;            /* number of lines, including those that were cut off */
	struct buf free, give; /* import_free.c: inputs with free sizes, options that would give them */
	int nfree, nbatch;     /* inputs whose sizes are missing, whose batch size is taken as 1 */
};

/* A shape in which dimensions may be free: their size is -1. */
struct free_shape {
	struct shape s;
	const char *name[MAX_RANK]; /* of symbolic dimensions; NULL: none */
};

/* Adds a line to the final E_UNSUPPORTED error: "WHERE: <text of the last failure>; remedy". */
void import_complain(struct importer *im, const char *where, const char *remedy);
/* Adds a value and returns its index; E_CORRUPT: the name is in use. */
int import_value(struct importer *im, const char *name) MUST_CHECK;

/* import_input.c: graph inputs with their bound shapes; outputs. */
int import_inputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_outputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

/* import_free.c: takes a free batch size as 1, and notes inputs that have other free dimensions; those make
 * import_free_finish return E_USAGE. */
void import_free(struct importer *im, const char *input, struct free_shape *f);
int import_free_finish(struct importer *im) MUST_CHECK;

/* import_node.c: values of all nodes first (the file need not be in order), then the nodes. */
int import_declare(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_nodes(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

#endif
