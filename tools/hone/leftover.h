/* SPDX-License-Identifier: Apache-2.0 */
/* Removes leftovers: a `hone compile` that was killed leaves a file beside its bundle, or the folder of its C
 * files (agent/bundle/plan_c.h). Names alone say little in a folder of others, so a leftover
 * must also belong to this user, be no link, and begin with the bytes with which hone compile begins such
 * files, or be empty. A folder must have the name and the mode that mkdtemp gives, and hold only such files.
 */
#ifndef TOOLS_LEFTOVER_H
#define TOOLS_LEFTOVER_H

#include <stdbool.h>

/* Whether an entry of the open folder is such a leftover, or belongs to a compile that still runs. */
bool leftover_is(int dir, const char *entry);
/* Removes those of the folder in which nothing was written for ten minutes: a compile that runs writes
 * others. Folders stay that hold an earlier file that was put aside. c_name: the folder has a program's own
 * files, so that only folders of the C files of this name are removed; NULL: it is a bundle's. Errors are
 * ignored: the next compile tries again. */
void leftover_remove(const char *dir, const char *c_name);

#endif
