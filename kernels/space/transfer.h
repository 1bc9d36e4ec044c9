/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule that was found for one task, for another of the same kind. Register tiles keep most of their
 * speed between shapes, outer tiles do not; so numbers are clipped to the new extents and what does not fit
 * is left out. One of a board with other lanes takes this board's where it took all of its own, and smaller
 * register tiles where they are too many for this board's registers. */
#ifndef KERNELS_TRANSFER_H
#define KERNELS_TRANSFER_H

#include "kernels/space/space.h"

/* Equal for tasks with the same stages, axes, bodies and strides, whatever their extents, layouts' halos and
 * epilogues are. */
struct key task_kind(const struct task *t);
/* How far apart the shapes of two tasks of one kind are: 0 of the same, 1 where one extent is e times the
 * other's. */
double task_away(const struct task *a, const struct task *b);
/* lanes: of the board it was found on; 0: this one. Hostile text. E_CORRUPT: cand is no schedule of `from`;
 * E_INFEASIBLE: nor legal there, the tasks are of different kinds, or nothing of it fits. A legal
 * schedule of the space's own task, of a board with the same lanes, comes back as it is. */
int space_transfer(const struct space *s, const struct task *from, int lanes, const char *cand,
		   char out[CAND_MAX]) MUST_CHECK;

#endif
