/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of bytes by products of matrices: the schedule's key `mmla`, and MMLA of loops.h.
 *
 * Two neighbouring points p and q of a tile and two channels make one 2 x 2 block of sums; eight bytes along
 * the sum, two groups of four, are multiplied at once. A vector of four channels and two points has two
 * registers of sums:
 *
 *     first:  p c0, p c1, q c0, q c1        second:  p c2, p c3, q c2, q c3
 *
 * TRN0 and TRN1 of step 2 turn these into the channels of p and those of q, and back. The packer orders the
 * weights of a vector and two groups alike: channels 0 and 1, then 2 and 3, each with the bytes of both
 * groups. The image has no such order. If its groups along the sum follow one another in memory, a load has
 * four groups of a point, and those of p and q are joined by the same two operations; else a load has a group
 * of four neighbouring points and is interleaved with the next group. A point without a neighbour is its own;
 * a group without one is multiplied by zeros.
 *
 * A guarded tile, in which a read may leave memory, goes point by point, each of which is its own neighbour:
 * a guard holds for one point, and not for the four of a load. If each load has groups of one point, this is
 * so only where tiles have a second version, without guards, for the interior (nest_tile in
 * kernels/loops/lower_tile.c); else the guarded tile stays whole. */
#ifndef KERNELS_MMLA_H
#define KERNELS_MMLA_H

#include "kernels/space/sched.h"

enum { MMLA_LANES = 4, MMLA_GROUPS = 2 /* of a step */, MMLA_RUN = 4 /* groups, or points, of a load */ };

struct mmla {
	int image, weights; /* reads of the stage */
	int group;          /* the reduction axis whose steps are groups of four bytes */
	int pixel;          /* the spatial axis whose points are neighbours */
	int run;            /* groups of a point in a load, 4; 0: a group of each of four points */
	int64_t stride;     /* run 0: bytes from one point's group to the next point's */
};

/* E_INFEASIBLE: the stage has no dot products with signed weights, or the schedule's lanes are not four
 * channels, the tile has no two points that share the weights, or a body or a panel has half a step. */
int stage_mmla(const struct task *t, const struct stage *st, const struct sstage *s,
	       struct mmla *out) MUST_CHECK;
/* Sets what the key demands: whole steps in a body, and one chain of sums. Clears the key where it is not
 * possible with these lanes and tiles. */
void mmla_settle(const struct task *t, const struct stage *st, struct sstage *s);
/* Whether the stage sums such products, so that on a target with the instruction some tiles may have the key.
 */
bool mmla_possible(const struct task *t, const struct stage *st);

#endif
