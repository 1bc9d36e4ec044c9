/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in portable C: runs any task without compiling it. For what no kernel covers, and for epilogues after
 * one.
 *
 * A stage is an entry (a barrier lies between two). Maps over plain loops go through agent/run/host_flat.h.
 * Else its extent counts rows: runs along the axis that is innermost in the output's memory. Rows are
 * computed a few at a time: products are summed directly, any other program is interpreted over blocks of up
 * to HOST_BLOCK floats. f32 arithmetic. */
#ifndef AGENT_HOST_H
#define AGENT_HOST_H

#include "kernels/task/task.h"

enum { HOST_BLOCK = 512 };

struct host_task;

/* `t` is kept: the caller owns it, and it must outlive the result. packed[i]: the layout that constant
 * operand i must have in memory. */
int host_make(const struct task *t, struct arena *a, struct operand packed[MAX_OPERANDS],
	      struct host_task **out) MUST_CHECK;
int host_entries(const struct host_task *h);
int64_t host_extent(const struct host_task *h, int entry);
size_t host_scratch_bytes(void); /* per thread */
/* bufs: every operand, temporaries too. */
void host_run(const struct host_task *h, int entry, void *const *bufs, int64_t begin, int64_t end,
	      void *scratch);
#endif
