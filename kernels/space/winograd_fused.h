/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm (kernels/space/winograd.h) as one launch of blocks of threads, for schedules of work
 * items that have the keys tiles, chunk and share:
 *
 *   lane=k:4 winograd=2 tiles=32 gemm=8x2 chunk=16 share=c:8x2
 *
 * A block computes `tiles` tiles, of all images together, for `chunk` vectors of output channels. Each thread
 * has one of the (m + 2)^2 positions of the transform and a register tile of gemm's tiles and vectors there:
 * a position has tiles / px threads across the tiles, and chunk / kv threads across the vectors. Step by step
 * of `share` input channels, the threads transform the windows of the tiles into V, and copy the transformed
 * weights U, both in one shared buffer; they meet and multiply. A ring ("c:8x2") has room for several steps,
 * and the next one is filled while the present one is multiplied. In the end the sums go through the same
 * buffer, in as many passes as they need, and the threads transform them back, apply the stage's program and
 * store the outputs.
 *
 * With split and spread, the parts of the input channels are blocks of their own, which store sums of
 * outputs; a second launch adds those of all parts.
 *
 * Weights lie as the steps copy them: U[chunk of k][step][xi][c][vector][L], with zeros for channels that
 * fill up the last step. In the shared buffer, a step has V[c][xi][tile], whose channels are `pitch` elements
 * apart, and then U as it is. */
#ifndef KERNELS_WINOGRAD_FUSED_H
#define KERNELS_WINOGRAD_FUSED_H

#include "kernels/space/share.h"
#include "kernels/space/winograd.h"

enum {
	FUSED_PASSES = 16, /* the most through which sums go */
	FUSED_COPIES = 2,  /* windows that a thread holds while it multiplies */
	FUSED_SHARE = 64,  /* input channels of a step, at most */
	/* A thread has these registers beside the values that are counted, for addresses, counters and
	 * guards, and more of them with a ring. */
	FUSED_REGISTERS = 26,
	FUSED_AHEAD = 22
};

static inline bool winograd_is_fused(const struct sstage *s)
{
	return SCHED_THREADED && s->wino.m && s->share_axis >= 0;
}

struct winograd_fused {
	int positions;                    /* (m + 2)^2 */
	int tile_threads, vector_threads; /* of a position */
	int threads;
	int tile_lanes;          /* neighbouring tiles that a thread loads at once */
	int in_lanes, out_lanes; /* channels of a window, or of a tile of sums, that a thread transforms */
	int pass_tiles, pass_vectors, passes; /* of a thread's register tile */
	int64_t all_tiles;                    /* of all images */
	int64_t blocks, chunks;               /* blocks of tiles, chunks of vectors */
	int64_t steps;                        /* of all input channels */
	int64_t part_steps, parts;
	int64_t pitch, v_elems, u_elems; /* of a step, in the shared buffer */
	int64_t windows;                 /* of in_lanes channels each, in a step */
	int64_t shared;                  /* elements of the buffer */
	int64_t weights;                 /* elements of all U */
	/* Estimate for a thread. ptxas 12.4 spilled in none of 280 random schedules of ResNet-18's layers, of
	 * five architectures, that the check accepts. */
	int registers;
};

/* Derives the sizes of a schedule. Of one whose numbers have none, threads is 0. */
struct winograd_fused winograd_fused_sizes(const struct task *t, const struct sstage *s);
/* Checks the keys and sizes of a fused schedule; the caller has checked what all Winograd schedules have. */
int winograd_fused_check(const struct task *t, const struct target *tg, const struct sstage *s,
			 const struct winograd_form *f) MUST_CHECK;

#endif
