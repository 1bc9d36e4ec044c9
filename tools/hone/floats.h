/* SPDX-License-Identifier: Apache-2.0 */
/* After a box at level int8: whether the same model is faster as floats, as far as the cache knows. The time
 * of the floats is that of an earlier box; where it is shorter, the user is told how to compare both. */
#ifndef TOOLS_FLOATS_H
#define TOOLS_FLOATS_H

#include "agent/tune/tune_model.h"

struct floats {
	double ms; /* of the whole network at level fp32, by the last box that compared it; 0: not known */
	char date[24];
	bool faster; /* than this box's network */
};

/* Looks for the model of the report, with its shapes, threads and device, in the report's cache. */
void floats_find(const struct tune_report *r, struct floats *out);
/* Prints a line if the floats are faster. */
void floats_print(const struct tune_report *r, const struct floats *f);

#endif
