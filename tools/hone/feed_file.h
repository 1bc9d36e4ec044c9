/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one file for one input of a model: a tensor, or a picture (tools/hone/picture.h). */
#ifndef TOOLS_FEED_FILE_H
#define TOOLS_FEED_FILE_H

#include "kernels/task/tensor.h"
#include "tools/hone/cmd.h"

/* E_USAGE: an option of OPT_PICTURE is given, and none of the n values of --input is a picture. */
int feed_check(const struct args *a, const char *const *word, int n) MUST_CHECK;
/* Reads a tensor file as it is, except that float64 becomes float32 if that is the input's type, which is
 * logged. A picture becomes a tensor of the input's type and shape by the options OPT_PICTURE. The caller
 * checks type and shape of the result. want: type and shape of the input `name`. */
int feed_file(const struct args *a, struct arena *arena, const char *path, const char *name,
	      const struct tensor *want, struct tensor *out) MUST_CHECK;

#endif
