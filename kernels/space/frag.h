/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices by fragments (kernels/loops/loops.h), of a task as task_pairs() makes it of one stage:
 * a copy of the image, then sums of products with a packed constant; or of a task of one stage that sums
 * products of bytes, of an input and a constant as task_groups() makes it, or of two inputs of bytes, or of
 * floats as task_inputs() makes it. The sums are
 * those of matrix products: a row for each point of the spatial axes that the image alone depends on, a
 * column for each point of the one that the other factor alone depends on, a product for each point of those
 * that both depend on, k along the reduction. A block of threads makes a tile of a product: it fills tiles of
 * both factors in shared buffers, floats rounded to 16 bits but for TF32, block by block of the channels and
 * tap by tap, and each warp multiplies its part. The last tiles may be partial, and of two inputs the last
 * step.
 *
 * With the keys split, of the axis of k, and spread, each block makes the sums of one part of the steps: all
 * parts have as many steps. They store their sums, f32 or i32, in scratch, and a second launch adds those of
 * each point from the first part to the last, applies the stage's program and stores the results
 * (kernels/loops/lower_spread.c). With the key blocks, a unit of the GPU has room for so many blocks. */
#ifndef KERNELS_FRAG_H
#define KERNELS_FRAG_H

#include "kernels/space/sched.h"

enum {
	FRAG_WARPS = 16,
	FRAG_SUMS = 16,
	FRAG_COPIES = 16,             /* with a ring: that many vectors are in registers */
	FRAG_ALIGNED = 96             /* bytes that the alignment of shared buffers may take */
};

/* A factor: the image, which has the rows, or the other one, which has the columns. */
struct frag_factor {
	int read, operand; /* of the last stage; of the image of pairs, what the first stage copies */
	enum dtype type;   /* of elements in its tiles */
	bool packed;       /* a constant */
	bool along_k;      /* neighbours along k lie side by side, in memory and in the tile; else rows do */
	int wide;          /* elements that a thread moves at once: 4 floats, 16 or 4 bytes, or 1 */
	bool moves;        /* they are moved as they are; zeros take the place of those outside of it */
	int64_t tile;      /* rows (columns) of a block */
	int64_t pitch;     /* elements from one row of the tile to the next, or from one point of k */
	int copies;        /* of `wide` elements that a thread makes in a step, at most */
};

/* The products of a task and a schedule. */
struct frag_plan {
	struct frag_factor of[2];
	enum dtype sums; /* f32, or i32 */
	int col_axis, k_axis, row_axes; /* row_axes: of more than one point, whose points are rows */
	unsigned both;      /* set of the axes of which each point has a product */
	int group;          /* elements of a point of k: one, two of 16 bits, or four bytes */
	int64_t products;   /* points of those axes */
	int64_t rows, cols; /* of a whole product */
	int64_t depth, k;   /* elements of the axis of k, and of a step */
	int64_t sum_pitch;  /* of the tile of sums, which has 16 rows of each warp along the rows */
	int threads, registers; /* of a block; of a thread, about */
	int64_t shared;         /* bytes of a block */
	int64_t parts, part;    /* of the reduction; points of a part on the axis of k: all if there is one */
	int64_t steps;          /* of a part: taps, and blocks of channels */
	int ring;      /* steps that are in shared buffers: at least 1 */
};

/* Whether the schedule has any of the keys. */
bool sched_frags(const struct task *t, const struct sched *s);
/* Products of fragments of a type (DT_F32: TF32) in the time of one of f32, by NVIDIA's data sheets, without
 * sparsity. Later processors than sm_90 count as sm_90, and may have more. */
double frag_rate(const struct target *tg, enum dtype type);
/* E_INFEASIBLE: the task is no such product, the schedule has other keys, or it does not fit the target. */
int frag_plan_make(const struct task *t, const struct target *tg, const struct sched *s,
		   struct frag_plan *out) MUST_CHECK;
/* Blocks of the axis of k, one for each step of a tap: a part has a whole number of them. */
int64_t frag_plan_k_blocks(const struct frag_plan *p);
/* Divides the reduction of a plan without parts into so many. E_INFEASIBLE: they are not equal, have fewer
 * steps than the ring, or have too many sums. */
int frag_plan_divide(struct frag_plan *p, int64_t parts) MUST_CHECK;
/* Blocks that run on a unit side by side, where the schedule asks for so many; 0: the unit is not known. */
int frag_plan_resident(const struct target *tg, int blocks, const struct frag_plan *p);
/* Elements of a factor's tile in shared memory. */
int64_t frag_tile_elems(const struct frag_plan *p, bool cols);
/* The task's last stage alone, with the image that the first one would copy. */
const struct task *frag_task(struct arena *a, const struct task *t, const struct frag_plan *p);

#endif
