/* SPDX-License-Identifier: Apache-2.0 */
/* What a block of threads shares: for each read of the reduction's body that several threads make of the same
 * elements, the box of them that belongs to `share` points of the share axis. The block copies a box into a
 * shared buffer, all threads at a time, then each reads from there. A box has a size per dim of the operand;
 * the elements outside of the operand hold its fill. */
#ifndef KERNELS_SHARE_H
#define KERNELS_SHARE_H

#include "kernels/space/sched.h"

/* 0: the program knows default schedules only, which have no threads (libhone); sched_check() refuses others
 * with E_UNSUPPORTED. */
#ifndef SCHED_THREADED
#define SCHED_THREADED 1
#endif

/* Tiles along an axis that an item makes one after the other. */
static inline int stage_down(const struct sstage *s, int axis)
{
	return SCHED_THREADED && axis == s->down_axis ? s->down : 1;
}

enum { SHARE_NEIGHBOURS = 32 /* threads of a direct exchange */ };

struct shared_read {
	bool on;
	int64_t size[MAX_RANK], stride[MAX_RANK]; /* of the box, in elements of the shared buffer */
	int inner;                                /* the dim with stride 1 */
	int wide;      /* elements that are copied at a time along it: they lie side by side in memory */
	int64_t elems; /* of the box */
	int64_t pitch; /* elements from one box of a ring to the next: whole groups of 16 bytes */
};

/* Points of an axis in a box: those of the block, of the share axis, or all. */
int64_t share_span(const struct stage *st, const struct sstage *s, int axis);
/* Whether the last block of threads along a spatial axis of known extent overlaps the one before it. */
bool share_overlaps(const struct stage *st, const struct sstage *s, int axis);
/* The places of each point in the shared buffer in which n threads combine their sums: one per thread, or,
 * where the device exchanges values directly, one per SHARE_NEIGHBOURS of them, who exchange first. 1: no
 * buffer. */
int share_places(const struct target *tg, int n);
/* The threads meet, then the first ones of n that have sums left add up those of all: so many have one then.
 */
int share_left(int n);
/* The most bytes that shared buffers of a block can have: what the architecture allows to kernels that ask
 * for it (NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities"), elsewhere what every device has. */
int64_t share_most(const struct target *tg);
/* E_INFEASIBLE: no two threads read the same elements, or the boxes are too large. */
int stage_share(const struct task *t, const struct target *tg, const struct stage *st, const struct sstage *s,
		struct shared_read out[MAX_READS]) MUST_CHECK;

#endif
