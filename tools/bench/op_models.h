/* SPDX-License-Identifier: Apache-2.0 */
/* Models that bench-ops times: one node, or one node between 1x1 convolutions. */
#ifndef TOOLS_OP_MODELS_H
#define TOOLS_OP_MODELS_H

#include "kernels/graph/graph.h"

#define OP_MODEL_CONV "conv" /* name of every convolution */
#define OP_MODEL_NODE "node"

/* Inputs: "1x64x40x40" an input of the model, "b:..." a bool one; "w:64x64" normal constants, "i:0,2,1"
 * integers, "f:0.5,1" floats, "-" absent. Attributes: "axis=1 pads=0,0 axes=2, alpha=0.5 mode=linear". */
struct op_model {
	const char *name, *type, *attrs;
	const char *in[2]; /* for a working set in L2, and in L3; NULL: none */
	bool blocked;      /* between convolutions */
	int nout;          /* 0: 1 */
};

extern const struct op_model op_models[]; /* ends with name NULL */

/* Builds the model in a graph that has only a name and an arena, with one of the model's inputs. Returns the
 * node. */
int op_model_make(struct graph *g, const struct op_model *c, const char *inputs) MUST_CHECK;

#endif
