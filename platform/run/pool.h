/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool for kernels: pinned workers that spin a 20th of an inference's time, at most 20 us, then
 * sleep; woken once per inference.
 *
 * pool_run splits [0, extent) in contiguous ranges, a few per thread, and returns when all are done (a
 * barrier). A thread takes its own ranges first, then those nobody has begun; the same thread may be called
 * several times. pool_begin wakes the workers at the start of an inference and pool_end lets them sleep:
 * between the two they spin, so one inference never sleeps twice. The caller is thread 0; where workers are
 * pinned, pool_begin moves a caller that is on a worker's cpu to cpus[0], without binding it, and so one that
 * is on another cluster than all of cpus[]. One pool serves one caller at a time. Range functions must not
 * call the pool. Extent 0 calls nothing; extent 1 or one thread runs in the caller without any
 * synchronisation. */
#ifndef PLATFORM_POOL_H
#define PLATFORM_POOL_H

#include "platform/base/err.h"
#include <stdint.h>

struct pool;
typedef void pool_fn(void *ctx, int thread, int64_t begin, int64_t end);

int pool_open(struct pool **out, int threads,
	      const int *cpus /* one per thread or NULL: not pinned */) MUST_CHECK;
int pool_threads(const struct pool *p);
void pool_begin(struct pool *p);
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t extent);
void pool_end(struct pool *p);
void pool_close(struct pool *p);
/* Turns flush-to-zero and denormals-are-zero on for the calling thread; returns the state for fpu_restore. */
unsigned fpu_flush(void);
void fpu_restore(unsigned old);

#endif
