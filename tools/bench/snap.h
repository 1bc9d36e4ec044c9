/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a cache folder while a tuner writes it: what a robot would have if its box ended now.
 *
 * The writer is neither stopped nor waited for: a reader's view of the cache becomes one file (cache_pack),
 * with all that the writer has committed, and no record without its code. */
#ifndef TOOLS_SNAP_H
#define TOOLS_SNAP_H

#include "platform/base/err.h"
#include <stdint.h>

/* The cache in `dir`, and its other files, but not its lock, into `to`, which is emptied first or made. An
 * absent `dir` is an empty cache. */
int snap_take(const char *dir, const char *to) MUST_CHECK;
/* Of a cache's folder: equal ones of one tuner mean equal contents; 0: nothing is there. */
uint64_t snap_generation(const char *dir);
/* Removes the files of a folder and the folder. One that is not there is none to remove. */
int snap_remove(const char *dir) MUST_CHECK;

#endif
