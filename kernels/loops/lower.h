/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: a task and a candidate become a loop nest and a manifest. */
#ifndef KERNELS_LOWER_H
#define KERNELS_LOWER_H

#include "kernels/loops/code.h"
#include "kernels/loops/loops.h"
#include "kernels/task/task.h"
#include "platform/machine/target.h"

/* Makes the loop nest of a task for a candidate (kernels/space/space.h), and its manifest without an object.
 * Everything lives in the arena. Errors are those of space_legal: E_INFEASIBLE, E_CORRUPT. */
int lower(const struct task *t, const char *cand, const struct target *tg, struct arena *a, struct loops **l,
	  struct manifest *m) MUST_CHECK;

#endif
