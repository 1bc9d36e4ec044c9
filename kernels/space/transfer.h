/* SPDX-License-Identifier: Apache-2.0 */
/* Adapts a schedule that was found for one task to another task of the same kind. Register tiles keep most of
 * their speed between shapes, outer tiles do not; so numbers are clipped to the new extents, and parts that
 * do not fit are removed. A schedule from a board with other lanes gets this board's lanes if it used all of
 * its own, and smaller register tiles if they need more registers than this board has. */
#ifndef KERNELS_TRANSFER_H
#define KERNELS_TRANSFER_H

#include "kernels/space/space.h"

/* A key that is equal for tasks with the same stages, axes, bodies and strides, whatever their extents, their
 * layouts' halos and their epilogues are. */
struct key task_kind(const struct task *t);
/* Distance between the shapes of two tasks of one kind: 0 if they are the same, 1 if one extent is e times
 * the other's. */
double task_away(const struct task *a, const struct task *b);
/* lanes: those of the board that found cand; 0: this board. cand is untrusted text. E_CORRUPT: cand is no
 * schedule of `from`; E_INFEASIBLE: it is not legal there, the tasks are of different kinds, or nothing of it
 * fits. What the space's level does not allow is left out. A legal schedule of the space's own task, from a
 * board with the same lanes, is returned unchanged. */
int space_transfer(const struct space *s, const struct task *from, int lanes, const char *cand,
		   char out[CAND_MAX]) MUST_CHECK;

#endif
