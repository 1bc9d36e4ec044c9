/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the machine that running a model needs: the target, and the threads of a pool. */
#ifndef AGENT_MACHINE_H
#define AGENT_MACHINE_H

#include "platform/run/pool.h"
#include "platform/machine/target.h"

/* The target with its peaks: kept in the cache folder, measured where nothing is kept (under a second). "":
 * no folder. Nothing is written: a box of hone tune keeps the peaks. */
int machine_target(const char *cache_dir, struct target *t) MUST_CHECK;
/* A pool whose threads take no signals, pinned to one hardware thread per core where `pin` and threads <=
 * cores, those of the fastest cluster first. */
int machine_pool(int threads, bool pin, struct pool **out) MUST_CHECK;

#endif
