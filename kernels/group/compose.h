/* SPDX-License-Identifier: Apache-2.0 */
/* Reading through a map: the output of a stage without reduction is, at any point, a function of what the
 * stage reads there, so a later stage can compute it instead of reading the value between them. */
#ifndef KERNELS_COMPOSE_H
#define KERNELS_COMPOSE_H

#include "kernels/task/task.h"

/* Composes two reads: `outer` reads the output of a map that writes dim d by axis d; `inner` is a read of
 * that map. *out reads inner's operand with an index over outer's axes. False: the index is not affine. */
bool read_through(const struct stage *map, const struct read *inner, const struct read *outer,
		  struct read *out);
/* Rewrites read r, whose index stays inside its dims, to the same elements in order under another shape.
 * False: the index is not affine there. */
bool read_reshaped(const struct stage *s, const struct read *r, const struct shape *now,
		   const struct shape *was, struct read *out);
/* Whether the stage writes dim d by axis d and reduces nothing. */
bool stage_maps(const struct task *t, const struct stage *s);
/* Inlines stage k, a map into a tmp, into the stages that read it. False: this is not possible, and t is
 * unchanged; so it is for a tmp with a fill, because the operands that the map reads have another one. */
bool task_inline(struct task *t, int k);
/* Moves a factor behind a sum: if a map before the last stage only multiplies an operand of the last stage's
 * sum of products by a factor that does not change along the sum, the sum is multiplied instead. Returns the
 * operand that is no longer needed; -1: no such map, t is unchanged. */
int task_delay_factor(struct task *t);
/* Removes operand i, which no stage may read or write. */
void task_drop_operand(struct task *t, int i);

#endif
