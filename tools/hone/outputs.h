/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wants to know of an output without opening its file: its range and, of a vector of scores,
 * the highest. */
#ifndef TOOLS_OUTPUTS_H
#define TOOLS_OUTPUTS_H

#include "kernels/task/tensor.h"
#include <jansson.h>

enum { OUTPUT_TOP = 5 };

struct output_view {
	int64_t n, nans;          /* elements; those of them that are NaN, which the rest leaves out */
	double least, most, mean; /* 0 if there is no number */
	int ntop;                 /* 0 unless it is a vector of 2 real numbers or more, its other sizes 1 */
	int64_t
	    top[OUTPUT_TOP]; /* indexes of the highest, the highest first; of equal ones the lower index */
	double value[OUTPUT_TOP]; /* their values */
};

void output_look(const struct tensor *t, struct output_view *out);
/* Prints it on standard output: one line, and one of the highest, in as many as the terminal needs. */
void output_print(const char *name, const struct tensor *t, const struct output_view *v);
/* Adds min, max, mean (null: no finite number), nan and, of a vector, top to an object. */
void output_add(json_t *to, const struct output_view *v);

#endif
