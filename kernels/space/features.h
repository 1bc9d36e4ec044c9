/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate in numbers, for models that learn: the draft's time and terms, and what of the schedule those
 * may have wrong. Each but the first is finite and of the order of 1, so that no scaling has to be kept with
 * a model. Of a chain each stage counts by its share of the drafted time, unless it says worst. */
#ifndef KERNELS_FEATURES_H
#define KERNELS_FEATURES_H

#include "kernels/space/space.h"

enum { FEATURE_VERSION = 4 /* one more whenever a feature is added or says something else */ };

enum feature {
	FEATURE_DRAFT, /* log of the drafted time in ns */
	/* Terms of the draft over its whole, in the order of enum draft_term. */
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
	/* The register tile and the body; sizes as logarithms. */
	FEATURE_VECTORS,
	FEATURE_POINTS, /* beside the lanes' axis */
	FEATURE_LIVE,   /* registers over the file */
	FEATURE_EXCESS, /* worst: registers beyond all but two of the file */
	FEATURE_UNROLL,
	FEATURE_BODY, /* operations written out */
	FEATURE_CHAINS,
	FEATURE_IDLE, /* lanes without work */
	FEATURE_ACROSS,
	FEATURE_SCALAR,
	FEATURE_HELD,   /* filters in registers */
	FEATURE_NARROW, /* fewer lanes than the machine's; as a logarithm */
	FEATURE_ROWS,   /* points along the tile's second axis beside the lanes' */
	FEATURE_RAGGED, /* share of tiles that are smaller last ones */
	FEATURE_ALIAS,  /* lines of one operand, in one step, that share a set of the L1 */
	FEATURE_HOIST,
	FEATURE_PREFETCH,
	FEATURE_FEED,
	/* Around the tile. */
	FEATURE_SET,   /* bytes of a tile over its sums against L1 */
	FEATURE_PANEL, /* of those, packed constants */
	FEATURE_SPLIT,
	FEATURE_BLOCK, /* tiles in a block of blocked axes */
	FEATURE_BLOCKS,
	FEATURE_INNER, /* vectors of the lanes' axis change fastest, */
	FEATURE_OUTER, /* slowest */
	FEATURE_ORDER, /* reduction loops in another order than the task's */
	FEATURE_TILES,
	FEATURE_TRIPS,  /* of the innermost reduction loop, */
	FEATURE_NEST,   /* and how many there are */
	FEATURE_STRIDE, /* lines between the operands of two of its trips */
	FEATURE_INDEXES,
	FEATURE_CYCLES,
	FEATURE_RING,
	FEATURE_CHUNK,
	FEATURE_THREADS, /* worst: indexes of the busiest thread over its share */
	/* Of the task: what others hang on. */
	FEATURE_STEPS,
	FEATURE_DEPTH, /* sums that share no operand among lanes */
	FEATURE_MAP,
	FEATURE_WORST, /* share of the dearest stage */
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

/* cand: legal. One that does not parse gets zeros. */
void space_features(const struct space *s, const char *cand, float f[FEATURES]);

#endif
