/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one file for one input of a model: a tensor, or a picture (tools/hone/picture.h). */
#ifndef TOOLS_FEED_FILE_H
#define TOOLS_FEED_FILE_H

#include "kernels/graph/graph.h"
#include "tools/hone/cmd.h"

/* E_USAGE: an option of OPT_PICTURE is given, and none of the n values of --input is a picture. */
int feed_check(const struct args *a, const char *const *word, int n) MUST_CHECK;
/* Whether what was read from `file` has the input's type and shape. E_USAGE: it has not; the text says how to
 * mend it. */
int feed_fits(const struct value *v, const char *file, const struct tensor *t) MUST_CHECK;
/* Path of input_K.pb, else input_K.npy, in a folder that is an example in ONNX's layout for tests; NULL:
 * there is none. */
const char *feed_set_file(struct arena *arena, const char *dir, int k);
bool feed_is_set(const char *path); /* it is such a folder: it has input_0.pb or input_0.npy */
enum { FEED_SET_MOST = 64 /* files that are read of one */ };
/* Reads a tensor file as it is, except that float64 and halves become float32 if that is the input's type,
 * which is logged. A picture becomes a tensor of the input's type and shape by the options OPT_PICTURE. The
 * caller checks the result with feed_fits. want: type and shape of the input `name`. E_USAGE: it is a folder;
 * the text names a file in it. */
int feed_file(const struct args *a, struct arena *arena, const char *path, const char *name,
	      const struct tensor *want, struct tensor *out) MUST_CHECK;

#endif
