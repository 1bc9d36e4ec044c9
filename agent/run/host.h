/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in portable C: runs any task without compiling it. For what no kernel covers, and for epilogues after
 * one.
 *
 * A stage is an entry (a barrier lies between two). Maps over plain loops go through agent/run/host_flat.h.
 * Else its extent counts rows: runs along one axis, mostly the one that is innermost in the output's memory.
 * Sums of products, and reductions of one read, are made of tiles (agent/run/host_tile.h), whose addresses
 * come from tables; any other program is interpreted over blocks of up to HOST_BLOCK floats. f32 arithmetic.
 */
#ifndef AGENT_HOST_H
#define AGENT_HOST_H

#include "kernels/task/task.h"

enum { HOST_BLOCK = 512 };

struct host_task;

/* What host_run is for: here; or nothing, because the task is written as C, whose compiler wants indexes
 * that are not divided. */
enum host_use { HOST_RUNS, HOST_TEXT };

/* `t` is kept: the caller owns it, and it must outlive the result. lanes: tile_lanes() of
 * agent/run/host_tile.h, or fewer; constants are packed for that many. table[i]: what is in i32 constant i,
 * or NULL; table NULL: nothing is known. It serves host_make only: without it, runs that look indexes up
 * there are slower, but constants are packed alike. packed[i]: the layout and type that operand i must
 * have in memory: constants may be packed, and intermediates of exact tasks are floats. */
int host_make(const struct task *t, enum host_use use, int lanes, const int32_t *const *table,
	      struct arena *a, struct operand packed[MAX_OPERANDS], struct host_task **out) MUST_CHECK;
/* How fast tiles of the portable path are, compared to a fallback kernel. They are as fast or faster for
 * products with constants that sum up many points for each output, and threads share their rows better. */
enum host_fit { FITS_NOT, FITS_AS_WELL, FITS_BETTER };
enum host_fit host_fit(const struct task *t);
/* Whether the task computes with bytes or whole values. It then runs by the reference
 * (kernels/task/reference.h), with a point as the unit of an extent: the results are right, but a point of a
 * sum takes about 10 ns. */
bool host_is_exact(const struct host_task *h);
int host_entries(const struct host_task *h);
int64_t host_extent(const struct host_task *h, int entry);
size_t host_scratch_bytes(void); /* per thread */
/* bufs: every operand, temporaries too. */
void host_run(const struct host_task *h, int entry, void *const *bufs, int64_t begin, int64_t end,
	      void *scratch);
#endif
