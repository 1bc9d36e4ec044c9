/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of hone quantize and hone tune --level int8: they read examples of inputs and limits of errors,
 * show progress, and describe recipes. */
#ifndef TOOLS_CALIBRATE_H
#define TOOLS_CALIBRATE_H

#include "agent/cache/recipe.h"
#include "agent/quantize/quantize.h"
#include "agent/tune/tune_model.h"
#include "tools/hone/cmd.h"

#include <jansson.h>

/* Parts of most networks make .03 at most. yolox_nano's two worst values make .33 each: with their layers in
 * fp32, 110 of 113 stay quantised, and the error of all together falls from .36 to .11. */
#define CALIBRATE_KEEP_ABOVE "0.05"
enum { CALIBRATE_SCANNED = 4 };

#define OPT_DATA                                                                                             \
	{                                                                                                    \
		"data", OPT_STR, "DIR",                                                                      \
		    "folder with examples of inputs: files or test_data_set_N; or random"                    \
	}
#define OPT_EXAMPLES                                                                                         \
	{                                                                                                    \
		"examples", OPT_INT, "N",                                                                    \
		    "take at most so many examples, spread over the folder (default 32)"                     \
	}

/* An option whose value is a number above 0; 0: it is not given, and fallback is NULL. */
int calibrate_limit(const struct args *a, const char *name, const char *fallback, double *out) MUST_CHECK;
/* An option whose value is a count from `least` to EXAMPLES_MOST. */
int calibrate_count(const struct args *a, const char *name, int fallback, int least, int *out) MUST_CHECK;
/* Reads the examples of --data, --examples and OPT_PICTURE. Returns their number. */
int calibrate_examples(const struct args *a, const struct graph *g, struct arena *arena,
		       struct quantize_example **out) MUST_CHECK;
/* For struct quantize_opts. */
void calibrate_progress(void *ctx, const char *stage, int done, int of);
/* From this error of the outputs on, a warning says what to try before the model is used: the gate of
 * verify for int8 (tools/hone/onnx_case.h). */
#define CALIBRATE_LARGE 0.2
/* Warns where errors say nothing, where those on examples that were held out are much larger, and of
 * CALIBRATE_LARGE, unless --error allows it. */
void calibrate_warn(const struct args *a, const struct quantize_report *r);
/* A recipe in words, a line; and as JSON. r->layers 0: nothing, and null. */
void calibrate_words(const struct recipe *r);
/* What became of another recipe that the cache had, and how to get it back. a: of hone tune. */
void calibrate_former(const struct args *a, const struct tune_report *r);
json_t *calibrate_json(const struct recipe *r);
/* For hone tune with --data: finds the recipe of the model, within --error if that is given. */
int calibrate_recipe(const struct args *a, const struct target *t, int threads, struct arena *arena,
		     struct buf *text) MUST_CHECK;

#endif
