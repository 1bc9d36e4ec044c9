/* SPDX-License-Identifier: Apache-2.0 */
/* Memory map of buffers with lifetimes: two that live at the same time never share bytes. Places are
 * multiples of 64.
 *
 * Greedy, as in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020): in
 * some order, each buffer goes into the smallest gap that fits among the placed buffers that overlap it in
 * time; among equal gaps it goes into the one freed last, whose bytes are warm. The orders are by size, by
 * the most bytes alive during the buffer's life, and by time. While the smallest map is more than 5 % above
 * what lives at once, the buffer that ends the map is moved forward in the order and all are placed again, a
 * bounded number of times. The smallest map is taken. */
#ifndef AGENT_LIFETIMES_H
#define AGENT_LIFETIMES_H

#include "platform/base/err.h"
#include <stdint.h>

struct lifetime {
	int64_t bytes;
	int from, to; /* first and last step that uses it, inclusive */
	int64_t at;   /* result */
};

/* Returns the total bytes, or < 0. */
int64_t lifetimes_place(struct lifetime *l, int n);
/* The most bytes that live at once, each rounded up to 64: no map is smaller. */
int64_t lifetimes_least(const struct lifetime *l, int n);

#endif
