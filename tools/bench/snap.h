/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a cache folder while a tuner writes it: what a robot would have if its box ended now.
 *
 * The writer is neither stopped nor waited for: a reader's view of the cache is packed into one file
 * (cache_pack). It has all that the writer has committed, and no record without its code. */
#ifndef TOOLS_SNAP_H
#define TOOLS_SNAP_H

#include "platform/base/err.h"
#include <stdint.h>

/* Copies the cache in `dir`, and the folder's other files except the lock, to `to`, which is emptied first or
 * created. If `dir` does not exist, the cache is empty. */
int snap_copy(const char *dir, const char *to) MUST_CHECK;
/* Generation of the cache in a folder: for caches of one tuner, equal generations mean equal contents; 0:
 * there is no cache. */
uint64_t snap_generation(const char *dir);
/* Removes the files of a folder and the folder. Succeeds if there is no such folder. */
int snap_remove(const char *dir) MUST_CHECK;

#endif
