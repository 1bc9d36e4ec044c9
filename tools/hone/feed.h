/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of files into and out of a model that is ready. What run and the benchmarks share. */
#ifndef TOOLS_FEED_H
#define TOOLS_FEED_H

#include "tools/hone/ready.h"
#include <jansson.h>

/* Rows for the table of options: feed_inputs and feed_outputs need them. */
#define OPT_FEED                                                                                             \
	{"input", OPT_LIST, "NAME=FILE", "tensor for an input, .npy or ONNX .pb"},                           \
	    {"random", OPT_FLAG, NULL, "seeded random numbers for the inputs that are not given"},           \
	    {"output", OPT_STR, "DIR", "folder for the outputs, DIR/NAME.npy", 'o'},                         \
	{                                                                                                    \
		"pb", OPT_FLAG, NULL, "write outputs as ONNX .pb"                                            \
	}

/* The tensors of --input; those not given keep their seeded numbers where --random says so, else E_USAGE. */
int feed_inputs(const struct args *a, struct ready *r) MUST_CHECK;
/* Every output to a file in dir, which is made; a row for each to `list`. Without --json each is named on
 * standard error too. */
int feed_outputs(const struct args *a, struct ready *r, const char *dir, json_t *list) MUST_CHECK;

#endif
