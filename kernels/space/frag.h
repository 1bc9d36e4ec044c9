/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices by fragments (kernels/loops/loops.h), of a task as task_pairs() makes it of one stage:
 * a copy of the image, then sums of products with a packed constant; or of a task of one stage that sums
 * products of bytes, as task_groups() makes it. The sums are those of a matrix product: a row for each point
 * of the spatial axes that the image depends on, a column for each point of the one that the constant depends
 * on, k along the reduction. A block of threads makes a tile of it: it fills tiles of both factors in shared
 * buffers, floats rounded to 16 bits, block by block of the channels and tap by tap, and each warp multiplies
 * its part. The last tiles may be partial. */
#ifndef KERNELS_FRAG_H
#define KERNELS_FRAG_H

#include "kernels/space/sched.h"

enum {
	FRAG_WARPS = 16,
	FRAG_SUMS = 16,
	FRAG_COPIES = 16,             /* with a ring: that many vectors are in registers */
	FRAG_SHARED = (48 << 10) - 96 /* bytes of shared buffers: what CUDA has, less their alignment */
};

/* The product of a task and a schedule. */
struct frag_plan {
	int image, weights; /* reads of the last stage */
	int from;           /* the image's operand: of pairs, what the first stage copies */
	enum dtype type[2]; /* of elements in the tiles of the image and of the weights */
	enum dtype sums;    /* f32, or i32 */
	int col_axis, k_axis;
	int group;  /* elements of a point of k: two of 16 bits, or four bytes */
	int wide;   /* elements of the image that a thread moves at once: 4, or 16 bytes */
	bool moves; /* they are moved as they are, and zeros take the place of those outside of the image */
	int64_t rows, cols;              /* of the whole product */
	int64_t tile_rows, tile_cols, k; /* of a block; k: elements of a step */
	int64_t pitch;     /* elements from row to row (column to column) of tiles of the factors */
	int64_t sum_pitch; /* of the tile of sums, which has 16 rows of each warp along the rows */
	int threads;
	int64_t steps; /* of the reduction: taps, and blocks of channels */
	int ring;      /* steps that are in shared buffers: at least 1 */
	int copies;    /* of `wide` elements of the image that a thread makes in a step, at most */
};

/* Whether the schedule has any of the keys. */
bool sched_frags(const struct task *t, const struct sched *s);
/* E_INFEASIBLE: the task is no such product, the schedule has other keys, or it does not fit the target. */
int frag_plan_make(const struct task *t, const struct target *tg, const struct sched *s,
		   struct frag_plan *out) MUST_CHECK;
/* The task's last stage alone, with the image that the first one would copy. */
const struct task *frag_task(struct arena *a, const struct task *t, const struct frag_plan *p);

#endif
