/* SPDX-License-Identifier: Apache-2.0 */
/* Risky launches: on some devices a candidate may take the machine down (a GPU whose driver hangs, a board
 * that browns out). There, a candidate gets a quarantine mark on flash before it runs for the first time,
 * which is removed after the first answer, whatever that is. A candidate that still has its mark when it is
 * proposed again did not answer: it is not launched again, and every log records it as MEAS_CRASH, or as
 * MEAS_TIMEOUT if it is known to hang. A candidate that hangs later, in a timed run, gets the mark then. hone
 * forget removes these marks, too.
 *
 * When the caller's deadline ends a run, nobody knows whether the candidate hangs or is only slow. Then the
 * mark stays, and counts such ends if the run had taken MARKED_LONG_NS: the candidate is launched again until
 * there are MARKED_ENDS of them. A worker that dies while it times a candidate counts like such an end, for
 * the candidate had run before, and others may have ended the worker (the system lacked memory, or the device
 * was reset). The count goes on when the candidate answers once more in the same process or the next, and is
 * forgotten when a process ends that it has not hurt.
 *
 * A quarantine mark is a CACHE_RISK record, durable before the launch, written through honed if honed writes
 * the cache. Its key is made of task, candidate, target, device and emitter's version, so that kernels of a
 * new driver get a new chance. Its text: "hone-risk 1\n", the task's key, device, emitter and candidate, a
 * line each; then "hung\n" if it hangs, "ended N\n" if a deadline has ended the run, or "crashed N\n" if it
 * lost its worker in a timed run.
 *
 * Cost: one commit (a sync, some 4 KiB of flash) for each candidate that has not answered in this process
 * yet, and one where a deadline ends a run. Marks are removed with the next commit. A run that is interrupted
 * from outside (power, SIGKILL) may leave its mark: each time one candidate is lost without need. */
#ifndef AGENT_MARKED_H
#define AGENT_MARKED_H

#include "agent/cache/cache.h"
#include "platform/run/runner.h"

#define MARKED_LONG_NS NS_PER_S
enum { MARKED_ENDS = 2 };

/* Closes inner. The cache stays the caller's and must outlive the runner; if it cannot be written, builds
 * fail. */
int runner_marked(struct runner *inner, struct cache *c, const char *device, struct runner **out) MUST_CHECK;
/* Removes the quarantine marks of the tasks that are wanted. Returns how many. */
int marked_forget(struct cache *c, bool (*wanted)(void *ctx, struct key task), void *ctx) MUST_CHECK;

#endif
