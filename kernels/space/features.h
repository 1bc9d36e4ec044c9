/* SPDX-License-Identifier: Apache-2.0 */
/* Features of a candidate: the draft's time and terms, and properties of the schedule that the draft may
 * misjudge. They tell which candidates are near each other. Each feature but the first is finite and of the
 * order of 1. In a chain each stage counts by its share of the drafted time, unless a feature says
 * "worst". */
#ifndef KERNELS_FEATURES_H
#define KERNELS_FEATURES_H

#include "kernels/space/space.h"

enum feature {
	FEATURE_DRAFT, /* log of the drafted time in ns */
	/* Terms of the draft, each divided by the whole, in the order of enum draft_term. */
	FEATURE_ISSUE,
	FEATURE_LOAD,
	FEATURE_LATENCY,
	FEATURE_STREAM,
	FEATURE_SPILL,
	FEATURE_CALL,
	FEATURE_END,
	FEATURE_TAIL,
	FEATURE_L2,
	FEATURE_L3,
	FEATURE_COLD,
	FEATURE_TRANSFORM,
	/* The register tile and the body; sizes are logarithms. */
	FEATURE_VECTORS,
	FEATURE_POINTS, /* points beside the lane axis */
	FEATURE_LIVE,   /* registers needed over the size of the register file */
	FEATURE_EXCESS, /* worst: registers beyond the file's size minus two */
	FEATURE_UNROLL,
	FEATURE_BODY, /* operations written out */
	FEATURE_CHAINS,
	FEATURE_IDLE, /* lanes without work */
	FEATURE_ACROSS,
	FEATURE_SCALAR,
	FEATURE_HELD,   /* filters kept in registers */
	FEATURE_NARROW, /* log of how many times fewer lanes than the machine has */
	FEATURE_ROWS,   /* points along the tile's second axis beside the lane axis */
	FEATURE_RAGGED, /* share of tiles that are smaller last tiles */
	FEATURE_ALIAS,  /* cache lines of one operand in one step that share an L1 set */
	FEATURE_HOIST,
	FEATURE_PREFETCH,
	FEATURE_FEED,
	/* Loops around the tile. */
	FEATURE_SET,   /* bytes that a tile touches over its sums, relative to the L1 */
	FEATURE_PANEL, /* the packed constants among them */
	FEATURE_SPLIT,
	FEATURE_SPREAD, /* its parts are work items */
	FEATURE_BLOCK, /* tiles in a block of the axes that have an outer loop */
	FEATURE_BLOCKS,
	FEATURE_INNER, /* the lane axis changes fastest among tiles */
	FEATURE_OUTER, /* the lane axis changes slowest */
	FEATURE_ORDER, /* the reduction loops are in another order than the task's */
	FEATURE_TILES,
	FEATURE_TRIPS,  /* trips of the innermost reduction loop */
	FEATURE_NEST,   /* number of reduction loops */
	FEATURE_STRIDE, /* cache lines between the operands of two of its trips */
	FEATURE_INDEXES,
	FEATURE_CYCLES,
	FEATURE_RING,
	FEATURE_CHUNK,
	FEATURE_GROUP,   /* work items of a group */
	FEATURE_THREADS, /* worst: indexes of the busiest thread relative to an even share */
	/* Properties of the task that other features depend on. */
	FEATURE_STEPS,
	FEATURE_DEPTH, /* sums whose lanes share no operand */
	FEATURE_MAP,
	FEATURE_WORST, /* share of the most expensive stage */
	/* Winograd schedules. */
	FEATURE_WINO_2,
	FEATURE_WINO_4,
	FEATURE_WINO_BLOCK,
	FEATURE_WINO_REGS,
	FEATURE_WINO_CHUNK,
	FEATURE_WINO_RAW,
	FEATURE_WINO_PARTS,
	FEATURE_WINO_PIXELS,
	FEATURES
};

/* cand: a legal candidate. If it does not parse, all features are 0. */
void space_features(const struct space *s, const char *cand, float f[FEATURES]);

#endif
