/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of any layout: how a caller's plain tensors and the parts of a Concat or Split come
 * into and out of the buffers that kernels use. A window is such a copy made ready; ranges of its extent may
 * be run by several threads at once. */
#ifndef AGENT_WINDOW_H
#define AGENT_WINDOW_H

#include "kernels/task/task.h"

/* One loop of a copy: n steps of `s` elements in the small tensor and `b` in the big one. */
struct window_loop {
	int64_t n, s, b;
};

/* A dim in one layout. block 1: not split. */
struct window_dim {
	int64_t first; /* the window's first index, halo included */
	int64_t block, outer, inner;
};

struct window {
	int nloops;
	struct window_loop loop[2 * MAX_RANK]; /* outermost first */
	int64_t s0, b0;                        /* offsets of the first element */
	/* Dims that are copied element by element, because the two tensors split them into blocks
	 * differently, or because the window does not begin at a block. A layout splits at most one dim. */
	int nodd;
	struct {
		int64_t n;
		struct window_dim s, b;
	} odd[2];
	int shared; /* the loop that ranges divide; -1: none */
	int unit;   /* bytes of an element */
};

/* The whole of `small` at position at[] of big's logical dims, whatever the two layouts. Both have elements
 * of the same type, which may be any. */
void window_make(const struct operand *small, const struct operand *big, const int64_t *at,
		 struct window *out);
int64_t window_extent(const struct window *w);
/* Checks a window whose numbers may be hostile: it touches only elements [0, small) of one tensor and [0,
 * big) of the other, copies no more than `small` elements, and the ranges that it touches (first to last
 * element) do not overlap. away: elements from the small tensor's beginning to the big one's; WINDOW_APART:
 * in other memory. */
#define WINDOW_APART (INT64_C(1) << 60)
bool window_fits(const struct window *w, int64_t small, int64_t big, int64_t away);
/* Copies from the small tensor into the big one. Copy the parts of one whole in ascending order of at[]:
 * padding lanes after a part may be overwritten. */
void window_in(const struct window *w, const void *small, void *big, int64_t begin, int64_t end);
/* Copies from the big tensor into the small one. */
void window_out(const struct window *w, const void *big, void *small, int64_t begin, int64_t end);

#endif
