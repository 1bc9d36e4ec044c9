/* SPDX-License-Identifier: Apache-2.0 */
/* Cost models: how long a candidate takes, before it is built, and how sure that is. One file cost_NAME.c
 * defines `const struct cost cost_NAME`; the Makefile writes cost_table[].
 *
 * A model sees a candidate as its features (kernels/space/features.h) and keeps no state. What a task's
 * measurements say about its other candidates is the strategies' part (search/belief.h).
 *
 * Models that learn the error of the draft across tasks were tried. They order candidates better, but do not
 * shorten a box. On recorded landscapes (16 registers, depthwise, 8 bits), with tasks of networks that the
 * model had not seen, 0.90 to 0.95 of the pairs were in the right order instead of 0.79 to 0.90; the best of
 * the first five was within 3 % of the best in 67 to 90 % of tasks, where the draft has 43 to 89 %. Boxes
 * of 0.2 to 0.65 s a task that learnt from their own measurements took 0.8 to 1.6 times as long for the same
 * quality. Taught before by recordings of the same machine, which boards do not have, they took 0.5 to 0.8
 * times as long for 8 bits, and longer for depthwise convolutions. Fitting the draft's constants to a
 * machine's measurements moves pairs by 0.00 to 0.02. */
#ifndef SEARCH_COST_H
#define SEARCH_COST_H

#include "kernels/space/features.h"

struct guess {
	double ns;
	double sd; /* standard deviation of its logarithm */
};

struct cost {
	const char *name;
	struct guess (*guess)(const float f[FEATURES]);
};

#define COST_DEFAULT "draft"

extern const struct cost *const cost_table[];
const struct cost *cost_find(const char *name); /* NULL: unknown */

#endif
