/* SPDX-License-Identifier: Apache-2.0 */
/* `hone explain` on tasks without a kernel at the level that was asked for, which have kernels at other
 * levels. */
#ifndef TOOLS_EXPLAIN_LEVELS_H
#define TOOLS_EXPLAIN_LEVELS_H

#include "agent/cache/lookup.h"
#include "kernels/task/level.h"
#include "tools/hone/cmd.h"
#include <jansson.h>

/* The levels (bit 1 << level) whose kernels of the task the cache has, and which do not serve `level`. */
unsigned explain_levels(struct cache *c, struct key task, const struct target *t, int threads,
			enum level level);
/* Appends their names: "w16, half". */
void explain_levels_names(unsigned levels, struct buf *out);
json_t *explain_levels_json(unsigned levels);
/* Prints that n tasks have kernels at these levels alone, and the command that shows them; nothing if n is 0.
 */
void explain_levels_words(const struct args *a, const char *model, enum level level, int n, unsigned levels);

#endif
