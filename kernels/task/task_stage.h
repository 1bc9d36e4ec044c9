/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a task's stages that schedules and rules depend on: which axes a read depends on, how far
 * apart neighbours along an axis lie in memory, which axes the stages of a chain share. */
#ifndef KERNELS_TASK_STAGE_H
#define KERNELS_TASK_STAGE_H

#include "kernels/task/task.h"

/* Structure of a stage, used by rules, checks and lowering. */
int stage_spatial(const struct stage *st); /* number of spatial axes */
unsigned read_axes(const struct task *t, const struct stage *st,
		   const struct read *r); /* mask of axes it depends on */
/* Block of the layouts that axis `a` indexes directly, the largest one; 1: none. */
int64_t axis_block(const struct task *t, const struct stage *st, int a);
/* Elements between neighbours along axis `a`, where `lanes` of them are evenly spaced: E_INFEASIBLE if not.
 * 0: all the same. *pads: reading a vector past the axis' end stays inside the operand. */
int read_stride(const struct task *t, const struct stage *st, const struct read *r, int a, int lanes,
		int64_t *stride, bool *pads);
/* A constant that lowering packs in the order of use. */
bool operand_packs(const struct task *t, int operand);
/* Axis i goes over an image that does not depend on it, as a convolution's output channels do: a loop over it
 * around the pixels' loops, or a ring of it, would read the image anew for each of its points. */
bool stage_over_image(const struct task *t, const struct stage *st, int i);
/* Every stage makes a vector: one spatial axis has all of its points. */
bool task_vectors(const struct task *t);
/* Leading spatial axes that all stages of a chain share (computed per iteration); 0 for one stage. */
int task_shared(const struct task *t);
/* Vector operations of a program, roughly. */
int prog_weight(const struct prog *p);
/* Programs with exp and the like: many temporaries, so not written out for every point of a tile. */
bool stage_long_post(const struct stage *st);
bool stage_long_body(const struct stage *st);
/* Elements of a tmp's innermost axis, `extent` of dim d with its halo, in scratch: rows that are the whole
 * dim end at a vector's end, so that none is written or read with a mask. (A masked store is not forwarded to
 * the load behind it.) */
enum { TMP_ROW = 16 };
int64_t tmp_row(const struct operand *o, int d, int64_t extent);

#endif
