/* SPDX-License-Identifier: Apache-2.0 */
/* Analytical cost of a schedule on one core, in cycles: FMA and load issue, latency, spills, calls per tile,
 * L2 and L3 traffic, joined by norms of high order. Its constants were fitted to a wide out-of-order core;
 * the measured cache load rates and clock of the board adapt them to that board. A processor that runs work
 * items runs them as tiles, in groups and launches. GPUs have a cost of their own (draft_items.c). */
#ifndef KERNELS_DRAFT_H
#define KERNELS_DRAFT_H

#include "kernels/space/sched.h"

/* The terms of a draft, in cycles. Some of them overlap with the rest. */
enum draft_term {
	DRAFT_ISSUE,
	DRAFT_LOAD,
	DRAFT_LATENCY, /* added by waiting for sums */
	DRAFT_STREAM,  /* added by panels of weights */
	DRAFT_SPILL,   /* added by registers beyond the register file */
	DRAFT_CALL,    /* around tiles */
	DRAFT_END,     /* stores and epilogue */
	DRAFT_TAIL,    /* smaller last tiles, beyond their share of points */
	DRAFT_L2,
	DRAFT_L3,
	DRAFT_COLD,      /* added by weights that come from memory */
	DRAFT_TRANSFORM, /* transforms of a Winograd schedule */
	DRAFT_TERMS
};

struct draft_terms {
	double cycles, of[DRAFT_TERMS];
	double set, panel; /* bytes that a tile touches over its sums; part of them: packed constants */
	int live;          /* registers needed */
};

void draft_add(struct draft_terms *sum, const struct draft_terms *x, double count); /* adds of[] only */
double draft_stage(const struct task *t, const struct target *tg, int stage,
		   const struct sstage *s); /* cycles */
/* Cycles of a Winograd schedule of stage 0 on the busiest of `threads` threads. */
struct draft_terms draft_winograd(const struct task *t, const struct target *tg, const struct sstage *s,
				  int threads);
double draft_join(double a, double b); /* joins two limits: each slows the other before it is reached */
/* Load slots of a vector whose lanes lie `stride` apart: few if neighbours can be loaded and shuffled. */
double draft_slots(int64_t stride, int lanes);
double draft_memory(const struct target *tg); /* bytes a cycle */
/* As draft_stage(), but for `rows` points of axis `axis`, whatever its extent; rows 0: all. */
struct draft_terms draft_rows(const struct task *t, const struct target *tg, int stage,
			      const struct sstage *s, int axis, int64_t rows);
double draft_ghz(const struct target *tg); /* the clock that the measured peak implies; 3 if nothing was
					    * measured */
/* Lanes of a core's instructions. No driver tells those of a processor that runs work items, but the peak
 * does: cores issue two FMA a cycle at about 3 GHz. */
int draft_width(const struct target *tg);
/* Products of bytes that a stage with dot products sums in the time of one FMA: 4 if the target has an
 * instruction for its types. */
double draft_dots(const struct task *t, const struct stage *st, const struct target *tg);
/* Registers that the body needs: accumulators, operands, one broadcast. */
int draft_live(const struct task *t, int stage, const struct sstage *s);
/* Parts of draft_live(): `passing` registers change from step to step; `fixed` ones are loaded once for many
 * steps, or reloaded if registers run out; `waiting` ones are broadcasts that wait for their next tap. */
struct draft_regs {
	int passing, fixed, waiting;
};
struct draft_regs draft_regs(const struct task *t, int stage, const struct sstage *s);
/* Issue slots of a task's arithmetic at full vectors, without loads and stores. An operator costs what its
 * definition takes (kernels/loops/vmath.h); a division costs the time that it keeps its port. Two slots are
 * issued a cycle. */
double draft_arithmetic(const struct task *t, int lanes);
/* Whether it is an AArch64 processor that issues in order: products of two vectors of weights and 2 to
 * PIPED_POINTS points, of four channels at a time, are then loops in assembly (kernels/emit/llvm_pipe.c) of
 * up to PIPED_STEPS steps. */
bool draft_in_order(const struct target *tg);
enum { PIPED_POINTS = 8, PIPED_VECTORS = 2, PIPED_CHANNELS = 4, PIPED_STEPS = 16 };
/* The axis of the channels in such a loop, for tiles of these points and vectors; -1: there is none. */
int draft_pipes(const struct task *t, const struct target *tg, const struct stage *st, const struct sstage *s,
		const int *tile);
bool draft_slides(const struct task *t, int stage,
		  const struct sstage *s); /* some loads of the body overlap */
/* Vectors of filters that stay in registers around all tiles of a sliding window whose taps are all in the
 * body. 0: there are none, or the tile leaves no registers for them. */
int draft_held(const struct task *t, const struct target *tg, int stage, const struct sstage *s);
/* Loads of one body: overlapping windows share loads. */
double draft_loads(const struct task *t, int stage, const struct sstage *s);
double stage_steps(const struct stage *st); /* product of reduction extents; symbols count as 16 */
int64_t extent_guess(int64_t extent);       /* 64 for a symbol */

/* Bytes between two points of a read, or of the output, that are n apart along an axis; elements of 4. */
double draft_apart(const struct task *t, const struct read *r, int axis, int64_t n);

#endif
