/* SPDX-License-Identifier: Apache-2.0 */
/* What bench-ops times: models of one node, or of one between 1x1 convolutions. */
#ifndef TOOLS_OP_MODELS_H
#define TOOLS_OP_MODELS_H

#include "kernels/graph/graph.h"

#define OP_MODEL_CONV "conv" /* every convolution's name */
#define OP_MODEL_NODE "node"

/* Inputs: "1x64x40x40" one from outside, "b:..." a bool one; "w:64x64" normal constants, "i:0,2,1" integers,
 * "f:0.5,1" floats, "-" absent. Attributes: "axis=1 pads=0,0 axes=2, alpha=0.5 mode=linear". */
struct op_model {
	const char *name, *type, *attrs;
	const char *in[2]; /* working set in L2, in L3; NULL: none */
	bool blocked;      /* between convolutions */
	int nout;          /* 0: 1 */
};

extern const struct op_model op_models[]; /* ended by one without a name */

/* Into a graph that has nothing but a name and an arena, with one of the model's inputs. Returns the node. */
int op_model_make(struct graph *g, const struct op_model *c, const char *inputs) MUST_CHECK;

#endif
