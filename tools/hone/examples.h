/* SPDX-License-Identifier: Apache-2.0 */
/* Reads examples of a model's inputs from a folder:
 *
 *   DIR/FILE.npy .pb .png .jpg       an example each, if the model has one input; a .npy or .pb whose first
 *                                    dimension is N where the input's is 1 is N examples
 *   DIR/SUB/input_K.pb .npy          else an example for each folder SUB, as ONNX's test_data_set_N: input K,
 *                                    or the one that the .pb names
 *   DIR/SUB/NAME.npy .pb .png .jpg   the same, by names of inputs
 *   DIR/input_0.pb ...               DIR is the only such folder; also with input_0.npy, if the model has
 *                                    more inputs than one, or an output_0.npy lies there
 *
 * Files that no rule names are ignored. */
#ifndef TOOLS_EXAMPLES_H
#define TOOLS_EXAMPLES_H

#include "agent/quantize/quantize.h"
#include "tools/hone/cmd.h"

enum { EXAMPLES_MOST = 4096 };

/* Reads at most `most` examples, from files that are spread evenly over the sorted names; a file of many
 * examples gives its first ones. The command has
 * OPT_PICTURE. Returns their number. E_NOTFOUND: there is no folder, or no example in it. E_USAGE: a file
 * does not fit the model. */
int examples_read(const struct args *a, const char *dir, const struct graph *g, int most, struct arena *arena,
		  struct quantize_example **out) MUST_CHECK;
/* Seeded random examples, as model_inputs makes them. */
int examples_random(const struct graph *g, int n, struct arena *arena,
		    struct quantize_example **out) MUST_CHECK;

#endif
