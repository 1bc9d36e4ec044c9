/* SPDX-License-Identifier: Apache-2.0 */
/* Analytical cost of a schedule on one core, in cycles: FMA and load issue, latency, spills, calls per tile,
 * L2 and L3 traffic, joined by norms of high order. Its constants are of a wide out-of-order core; what the
 * board was measured to load from each cache and its clock make them the board's. */
#ifndef KERNELS_DRAFT_H
#define KERNELS_DRAFT_H

#include "kernels/space/sched.h"

/* What a draft is made of, cycles. Some of it hides behind the rest. */
enum draft_term {
	DRAFT_ISSUE,
	DRAFT_LOAD,
	DRAFT_LATENCY, /* what waiting for sums adds to those, */
	DRAFT_STREAM,  /* and panels of weights */
	DRAFT_SPILL,   /* registers too many */
	DRAFT_CALL,    /* around tiles */
	DRAFT_END,     /* stores and epilogue */
	DRAFT_TAIL,    /* smaller last tiles, beyond their share of points */
	DRAFT_L2,
	DRAFT_L3,
	DRAFT_COLD,      /* what weights from memory add */
	DRAFT_TRANSFORM, /* of a Winograd schedule */
	DRAFT_TERMS
};

struct draft_terms {
	double cycles, of[DRAFT_TERMS];
	double set, panel; /* bytes that a tile touches over its sums; of them packed constants */
	int live;          /* registers wanted */
};

void draft_add(struct draft_terms *sum, const struct draft_terms *x, double count); /* of[] alone */
double draft_stage(const struct task *t, const struct target *tg, int stage,
		   const struct sstage *s); /* cycles */
/* A Winograd schedule of stage 0 on the busiest of so many threads, cycles. */
struct draft_terms draft_winograd(const struct task *t, const struct target *tg, const struct sstage *s,
				  int threads);
double draft_join(double a, double b); /* two limits, which slow each other before either is reached */
/* Load slots of a vector whose lanes lie `stride` apart: few where neighbours are loaded and shuffled. */
double draft_slots(int64_t stride, int lanes);
double draft_memory(const struct target *tg); /* bytes a cycle */
/* The same for `rows` of axis `axis` only, whatever its extent; rows 0: all. */
struct draft_terms draft_rows(const struct task *t, const struct target *tg, int stage,
			      const struct sstage *s, int axis, int64_t rows);
double draft_ghz(const struct target *tg); /* clock implied by the measured peak; 3 when not measured */
/* Registers the body wants: accumulators, operands, one broadcast. */
int draft_live(const struct task *t, int stage, const struct sstage *s);
/* Of those, what changes from step to step, and what is loaded once for many of them, or else again; beside
 * them broadcasts that wait for their next tap. */
struct draft_regs {
	int passing, fixed, waiting;
};
struct draft_regs draft_regs(const struct task *t, int stage, const struct sstage *s);
/* Issue slots of a task's arithmetic at full vectors, without loads and stores: what its definition takes
 * (kernels/loops/vmath.h), a division as long as it keeps its port. Two are issued a cycle. */
double draft_arithmetic(const struct task *t, int lanes);
bool draft_slides(const struct task *t, int stage,
		  const struct sstage *s); /* some loads of the body overlap */
/* Vectors of filters that stay in registers around all tiles of a window that slides over them, all of its
 * taps in the body; 0: none, or the tile leaves no room for them. */
int draft_held(const struct task *t, const struct target *tg, int stage, const struct sstage *s);
/* Loads of one body: windows that overlap share theirs. */
double draft_loads(const struct task *t, int stage, const struct sstage *s);
double stage_steps(const struct stage *st); /* product of reduction extents; symbols count as 16 */
int64_t extent_guess(int64_t extent);       /* of a symbol: 64 */

#endif
