/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise sums of bytes by dot products of four neighbouring pixels (the schedule's key `quads`).
 *
 * The image's innermost block has as many channels as the lanes, and the pixels of a row follow one another.
 * So a contiguous vector holds four pixels of a row, and BTURN puts those of each channel into one lane: a
 * quad. The taps of a row of the filter reach over at most 4 * n neighbouring pixels, from the first one of a
 * chain of n quads on; the same chain serves neighbouring outputs, whose taps begin `phase` pixels further on
 * in it, up to `phases` - 1. The packer makes weights for every phase, with zeros around the taps. No chain
 * reaches past the pixels that its tile needs, and what a quad has behind them is masked.
 */
#ifndef KERNELS_QUADS_H
#define KERNELS_QUADS_H

#include "kernels/space/sched.h"

enum { QUAD = 4 /* pixels */, QUADS_TAPS = 12 /* most taps of a row */ };

struct quads {
	int image, weights; /* reads of the stage */
	int tap, tap_dim;   /* the reduction axis along a row, and the dim of the weights that it indexes */
	int pixel;          /* the spatial axis whose points share a row's quads; -1: none */
	int64_t stride;     /* pixels between the windows of its points */
	int taps, n, phases;
};

/* E_INFEASIBLE: the stage is no depthwise sum of bytes, or the schedule's lanes are not such a block, taps of
 * a row are not all in the body, reads need guards, or the tile spans another axis along the row. */
int stage_quads(const struct task *t, const struct stage *st, const struct sstage *s,
		struct quads *out) MUST_CHECK;
/* Sets what the key demands: all taps of a row are in the body, there is one chain of sums and no prefetch.
 * Clears the key where it is not possible with these lanes and tiles. */
void quads_settle(const struct task *t, const struct stage *st, struct sstage *s);
/* Products that a dot product of the stage makes for a vector of lanes; 0: it cannot have the key. */
double quads_products(const struct task *t, const struct stage *st, int lane, int lanes);
/* Whether the bytes of four neighbours along `pixel` follow one another in the output, too. */
bool quads_store(const struct task *t, const struct stage *st, const struct sstage *s, const struct quads *q);
/* First pixel of the chain for the point whose window begins at `first`, where the point before it has the
 * chain at `before` (-1: none), and the tile needs `pixels` pixels. */
int64_t quads_chain(const struct quads *q, int64_t first, int64_t before, int64_t pixels);

#endif
