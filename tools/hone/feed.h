/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a model's inputs from files and writes its outputs to files; shared by `hone run` and the
 * benchmarks. */
#ifndef TOOLS_FEED_H
#define TOOLS_FEED_H

#include "tools/hone/picture.h"
#include "tools/hone/ready.h"
#include <jansson.h>

/* Rows for the table of options: feed_inputs and feed_outputs need them. */
#define OPT_FEED                                                                                             \
	{"input", OPT_LIST, "NAME=FILE",                                                                     \
	 "for an input: a tensor, .npy or ONNX .pb; or a picture, PNG or JPEG; or for all inputs, without "  \
	 "NAME=, a folder with input_0.pb as ONNX's tests have it, or input_0.npy",                          \
	 .also = "i"},                                                                                       \
	    OPT_PICTURE,                                                                                     \
	    {"random", OPT_FLAG, NULL, "seeded random numbers for the inputs that are not given"},           \
	    {"output", OPT_STR, "DIR", "folder for the outputs, DIR/NAME.npy (default: none is written)",    \
	     'o'},                                                                                           \
	{                                                                                                    \
		"pb", OPT_FLAG, NULL, "write outputs as ONNX .pb"                                            \
	}

/* Reads the tensors of --input. Inputs that are not given keep their seeded numbers if --random was given,
 * else E_USAGE. */
int feed_inputs(const struct args *a, struct ready *r) MUST_CHECK;
/* Appends " --shape NAME=DIMS" for the sizes that the model leaves free, if files gave them: a command
 * without --input needs it. Each size is told once. */
void feed_shapes(const struct args *a, const struct ready *r, struct buf *out);
/* Checks, before the model runs, that feed_outputs can write its files, and that those that are there are
 * outputs of earlier runs. */
int feed_check_outputs(const struct args *a, struct ready *r, const char *dir) MUST_CHECK;
/* Writes every output to a file in dir, which is created, and adds a row for each to `list`. Without --json
 * it also names each file on standard error. dir NULL: nothing is written, and the rows name no file. */
int feed_outputs(const struct args *a, struct ready *r, const char *dir, json_t *list) MUST_CHECK;

#endif
