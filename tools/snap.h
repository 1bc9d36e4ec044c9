/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a cache folder while a tuner writes it: what a robot would have if its box ended now.
 *
 * The writer is neither stopped nor waited for. Its file only grows, so a copy holds every record that was
 * whole when the copy began and at most a part of one behind them, which a reader passes over. */
#ifndef TOOLS_SNAP_H
#define TOOLS_SNAP_H

#include "platform/err.h"
#include <stdint.h>

/* Copies the files of `dir`, but not its lock, into `to`, which is emptied first or made. An absent `dir` is
 * an empty cache. bytes: of the cache's file; equal ones of one tuner mean equal contents. */
int snap_take(const char *dir, const char *to, int64_t *bytes) MUST_CHECK;
/* Removes the files of a folder and the folder. One that is not there is none to remove. */
int snap_remove(const char *dir) MUST_CHECK;

#endif
