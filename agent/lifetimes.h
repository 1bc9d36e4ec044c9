/* SPDX-License-Identifier: Apache-2.0 */
/* Memory map of buffers with lifetimes: two that live at the same time never share bytes. Greedy: the largest
 * first, each into the smallest gap that fits among those placed already that overlap in time. Places are
 * multiples of 64. */
#ifndef AGENT_LIFETIMES_H
#define AGENT_LIFETIMES_H

#include "platform/err.h"
#include <stdint.h>

struct lifetime {
	int64_t bytes;
	int from, to; /* first and last step that uses it, inclusive */
	int64_t at;   /* result */
};

/* Returns the bytes of all, or < 0. */
int64_t lifetimes_place(struct lifetime *l, int n);

#endif
