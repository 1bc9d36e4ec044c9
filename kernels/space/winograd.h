/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's minimal filtering F(m x m, 3x3) as a form of a convolution stage (Lavin and Gray 2016). For
 * tiles of m x m outputs, the (m + 2)^2 inputs and the filters are transformed, multiplied point by point and
 * summed over the channels, which is (m + 2)^2 matrix products, and the sums are transformed back. It needs 9
 * m^2 / (m + 2)^2 times fewer multiplications (2.25, 4) and rounds differently: usual errors are 5e-7 and
 * 4e-6 to 8e-6 of the largest output.
 *
 * Buffers, of L lanes; a panel is what one register tile reads:
 *
 * - weights U[chunk of k][xi][panel][c][vector][L], made by the packer; or filters [k / L][c][r][s][L], made
 *   by the packer and transformed by each register tile: 9 values from memory instead of (m + 2)^2
 * - inputs V[xi][c / L][tile][L], thread scratch, one block of tiles
 * - products M[xi][vector of the chunk][tile][L], thread scratch, one block and chunk
 *
 * On a device of work items there are three launches, with one block of all tiles and one chunk: an item
 * transforms the window of a tile for a vector of input channels; multiplies a register tile of one xi, over
 * all channels; and transforms a tile of products back. V and M are in scratch that all items have in common,
 * for each image of a batch; the tiles in them are whole register tiles, the last of which nobody reads.
 * There is also one launch that does all three: kernels/space/winograd_fused.h. */
#ifndef KERNELS_WINOGRAD_H
#define KERNELS_WINOGRAD_H

#include "kernels/space/sched.h"

/* The roles of a stage's axes, and its reads of input and filters. */
struct winograd_form {
	int k, c, y, x, r, s;
	int in, filter;
	int filter_dim[4]; /* dims of k, c, r, s */
};

/* E_INFEASIBLE: not a 3x3 convolution of stride 1, dilation 1, one group, with constant filters. */
int winograd_form(const struct task *t, struct winograd_form *f) MUST_CHECK;
/* Checks that the schedule of stage 0 is a Winograd schedule that lower() accepts. */
int winograd_check(const struct task *t, const struct target *tg, const struct sstage *s) MUST_CHECK;

enum {
	WINOGRAD_ITEMS = 1 << 24,  /* elements of V and M together on a device of work items: 64 MiB */
	WINOGRAD_WEIGHTS = 1 << 28 /* elements of U: 1 GiB */
};
/* Sets the block and the chunk of a schedule of work items, which says neither; leaves others as they are. */
void winograd_whole(const struct task *t, struct sstage *s);

/* Sizes derived from the schedule. */
struct winograd_sizes {
	int points;         /* m + 2 */
	int64_t down, wide; /* tiles */
	int64_t tiles, blocks, batch;
	int64_t vectors, chunks; /* of k */
	int64_t channels, cblocks;
	int64_t group, groups;    /* channels whose filters stay in the L1; groups of them */
	int64_t v_plane, m_plane; /* vectors from one xi to the next */
	int64_t v_elems, m_elems; /* per thread, or per image on a device of work items */
	int64_t u_elems;          /* constants */
};
struct winograd_sizes winograd_sizes(const struct task *t, const struct sstage *s);

/* Multiplications (additions have the same share) and weights of F(m x m, 3x3), relative to the direct
 * form. */
struct winograd_share {
	double flops, weights;
};
struct winograd_share winograd_share(int m);

#endif
