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
	bool *bind_used;  /* per o->binds */
	struct buf lines; /* unsupported features, one per line */
	int nlines;       /* number of lines, including those that were cut off */
};

/* Adds a line to the final E_UNSUPPORTED error: "WHERE: <text of the last failure>; remedy". */
void import_complain(struct importer *im, const char *where, const char *remedy);
/* Adds a value and returns its index; E_CORRUPT: the name is in use. */
int import_value(struct importer *im, const char *name) MUST_CHECK;

/* import_input.c: graph inputs with their bound shapes; outputs. */
int import_inputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_outputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

/* import_node.c: values of all nodes first (the file need not be in order), then the nodes. */
int import_declare(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_nodes(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

#endif
