/* SPDX-License-Identifier: Apache-2.0 */
/* What a `hone compile` that was killed left in the folder that it wrote: a file beside its bundle, or the
 * folder of its C files (agent/bundle/plan_c.h). Nothing else has such a name and such bytes. */
#ifndef TOOLS_LEFTOVER_H
#define TOOLS_LEFTOVER_H

#include <stdbool.h>
#include <time.h>

/* Whether an entry of the folder is such a leftover. */
bool leftover_is(const char *dir, const char *name);
/* Removes those of the folder that nobody has written since `before`: a compile that runs may write others.
 * Errors are ignored: the next compile tries again. */
void leftover_remove(const char *dir, time_t before);

#endif
