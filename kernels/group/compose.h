/* SPDX-License-Identifier: Apache-2.0 */
/* Reading through a map: what a stage without reduction writes is, at any point, a function of what it reads
 * there, so that a reader may do without the value between them. */
#ifndef KERNELS_COMPOSE_H
#define KERNELS_COMPOSE_H

#include "kernels/task/task.h"

/* Read `inner` of a map that writes dim d by axis d, at the point that `outer` reads of what it writes: an
 * index over outer's axes, of inner's operand. False: it is not affine. */
bool read_through(const struct stage *map, const struct read *inner, const struct read *outer,
		  struct read *out);
/* Read r of a value, whose index leaves none of its dims, as one of the value's elements in order under
 * another shape. False: it is not affine there. */
bool read_reshaped(const struct stage *s, const struct read *r, const struct shape *now,
		   const struct shape *was, struct read *out);
/* Writes dim d by axis d, and nothing is reduced. */
bool stage_maps(const struct task *t, const struct stage *s);
/* Stage k, a map into a tmp, becomes part of the stages that read it. False: it cannot, t is as it was. */
bool task_inline(struct task *t, int k);
/* A map in front of the last stage that only multiplies what that one sums products of by a factor which does
 * not change along the sum: the sum is multiplied in its place. Returns the operand that goes; -1: there is
 * none, t is as it was. */
int task_delay_factor(struct task *t);
/* Operand i, which no stage reads or writes. */
void task_drop_operand(struct task *t, int i);

#endif
