/* SPDX-License-Identifier: Apache-2.0 */
/* Risky launches: where a candidate may take the machine down with it (a GPU whose driver hangs, a board that
 * browns out), it is marked on flash before it runs for the first time, and the mark goes with the first
 * answer, whatever that is. What is still marked when it is met again did not answer: it is not launched
 * again, and counts as MEAS_CRASH in every log. hone forget takes marks, too.
 *
 * A mark is a CACHE_RISK record, durable before the launch: through honed where that writes the cache. Its
 * key: task, candidate, target, device and emitter's version, so that a new driver's kernels have their
 * chance. Its text: "hone-risk 1\n", the task's key, device, emitter and candidate, a line each.
 *
 * Cost: one commit (a sync, some 4 KiB of flash) for each candidate that this process has not seen answer.
 * Marks are taken back with the next commit. What is cut short from outside may stay marked (power, the end
 * of the box, SIGKILL): one candidate, lost for nothing, each time. */
#ifndef AGENT_MARKED_H
#define AGENT_MARKED_H

#include "agent/cache/cache.h"
#include "platform/run/runner.h"

/* Closes inner. The cache stays the caller's and outlives it; where nothing can be kept in it, builds fail.
 */
int runner_marked(struct runner *inner, struct cache *c, const char *device, struct runner **out) MUST_CHECK;
/* Those of the tasks that are wanted. Returns how many. */
int marked_forget(struct cache *c, bool (*wanted)(void *ctx, struct key task), void *ctx) MUST_CHECK;

#endif
