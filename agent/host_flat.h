/* SPDX-License-Identifier: Apache-2.0 */
/* Map stages of the portable path whose operands all lie in memory as loops with constant steps: the same or
 * another order of axes, blocked or plain, halos, broadcasts, nearest-neighbour factors; no tables and no
 * guards. Loops that continue each other are one; programs run over blocks of up to HOST_BLOCK floats. */
#ifndef AGENT_HOST_FLAT_H
#define AGENT_HOST_FLAT_H

#include "kernels/task.h"

struct flat;

/* Stage k of t; `operand` are the task's, with constants as they are packed: another layout may be chosen for
 * them if `may_pack`. *out is NULL if the stage has no such form. */
int flat_make(const struct task *t, int k, struct operand operand[MAX_OPERANDS], bool may_pack,
	      struct arena *a, struct flat **out) MUST_CHECK;
int64_t flat_extent(const struct flat *f);
size_t flat_scratch_bytes(void); /* per thread */
void flat_run(const struct flat *f, void *const *bufs, int64_t begin, int64_t end, void *scratch);

#endif
