/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of space.c: the rules that make the default schedule, its portfolio, and what random draws choose
 * from. */
#ifndef KERNELS_SPACE_RULES_H
#define KERNELS_SPACE_RULES_H

#include "kernels/space/draft.h"
#include "platform/base/rng.h"

enum { MAX_LANES = 8, MANY_ROWS = 16 /* sums along lanes that leave no registers for a second step */ };

/* A lane axis that the stage allows. */
struct lane_choice {
	int axis, lanes; /* -1, 1: scalar */
	double cost;     /* slots per element, accesses only */
};

struct stage_space {
	int nlanes; /* best first; at least the scalar one */
	struct lane_choice lane[MAX_LANES];
};

struct space {
	const struct task *t; /* as task_keep() makes it */
	struct target tg;
	struct stage_space st[MAX_STAGES];
	struct space_want want;
	int wino_lanes;   /* of Winograd schedules; 0: there are none */
	bool wino_pixels; /* they fetch pixels */
	struct ring ring; /* the default's; rows 0: none */
};

/* A ring of rows where it saves most of the scratch: its axis and the rows that the L2 holds. */
void rules_ring(struct space *s);
/* Vectors of a head of attention, where the tiles of its products are as wide; 0: no such tiles. */
int rules_head(const struct space *s);
/* A schedule at its defaults, and the space's ring. */
void rules_init(const struct space *s, struct sched *out);
/* The row axis of a stage, -1: none. */
int rules_rows(const struct space *s, int stage);
/* No row of the ring needs another one's. */
bool rules_apart(const struct space *s);
/* Rows of the stage may be in its tile, where their number divides the ring's. */
bool rules_row_tiles(const struct space *s, int stage);
void rules_fit_rows(const struct space *s, struct sched *c); /* makes it so */
/* Steps of the ring per parallel index for that many indexes; 0: all. */
int64_t rules_chunk(const struct space *s, const struct sstage *last, int64_t chunks);
/* Rows per step and steps per index that keep all threads at work. */
void rules_thread_ring(const struct space *s, struct sstage *last);
/* A schedule's cycles: a ring's steps on their rows. `of` (NULL: not wanted) what each stage's are. */
double rules_draft(const struct space *s, const struct sched *c, struct draft_terms of[MAX_STAGES]);
void rules_lanes(struct space *s, int stage);
/* The default schedule of a stage: `variant` 0, 1, ... the portfolio's; false: there is no such variant. */
bool rules_stage(const struct space *s, int stage, int variant, struct sstage *out);
/* Completes tiles and lanes that are given: reduction unroll, chains, order, parallel loops, blocks. */
void rules_finish(const struct space *s, int stage, struct sstage *out);
/* The axis whose tiles would let the strided reads of a map be transposed, -1; sets its tile. */
int rules_cross(const struct task *t, const struct stage *st, struct sstage *ss);
/* The axis whose points the output has between the lanes', -1; sets its tile. */
int rules_weave(const struct task *t, const struct stage *st, struct sstage *ss);
/* A tile of a window that leaves its filters, and what its points share of the image, in registers. */
bool rules_window(const struct space *s, int stage, const struct sstage *c);
/* space_unroll.c: steps of each reduction axis in the body. */
void rules_unroll(const struct space *s, int stage, struct sstage *out);
void rules_order(const struct space *s, int stage, struct sstage *out);
void rules_parallel(const struct space *s, int stage, struct sstage *out);
/* The parallel loops, and nothing fetched ahead where loops or tiles do not allow it any more. */
void rules_settle(const struct space *s, int stage, struct sstage *out);
/* space_ahead.c: panels of weights outermost and the next one fetched, in parts of the reduction where
 * threads can share the panels; false, and as it was: there are none. */
bool rules_panels(const struct space *s, int stage, struct sstage *out);
/* Weights take long enough to come from memory, and the other operands stay in L2 for all panels. Not those
 * of a product with a vector that half of the L2 holds: from there, fetching ahead makes it take 1.4 times as
 * long, and cold, 12 KB 1.4 times, as it goes past their end, 128 KB as long, 2 MB .92 times. */
bool rules_cold(const struct space *s, int stage, const struct sstage *out);
/* Inputs are fetched ahead: the L1 does not hold them, and few FMAs use each line. */
bool rules_feed(const struct space *s, int stage, const struct sstage *out);
/* The rows that a ring's first stage copies next are fetched into L2. */
void rules_next_rows(const struct space *s, int stage, struct sstage *out);
/* Loops over panels around the parts of one; 0: not parted. */
int rules_panel_loops(const struct space *s, int stage, const struct sstage *out);
void panels_draw(const struct space *s, int stage, struct rng *r, struct sstage *out);
/* Fetches nothing ahead any more where tiles or loops no longer allow it. */
void panels_settle(const struct space *s, int stage, struct sstage *out);
bool stage_contracts(const struct task *t, const struct stage *st,
		     int lane); /* some body read is the same in all lanes */
bool index_spatial(const struct stage *st, const struct index *x); /* some spatial axis is in it */
/* A window slides along the lanes: its taps are vectors of their own. */
bool lane_slides(const struct stage *st, int lane);
/* Some body read has lanes a few apart: each of its vectors is made of several, by shuffles whose patterns
 * take registers too. */
bool stage_picks(const struct space *s, const struct stage *st, const struct sstage *out);
/* Best axis to tile beside lanes and a woven one (-1: none is), -1: none. */
int stage_pixel_axis(const struct space *s, int stage, int lane, int woven);
int64_t largest_divisor(int64_t n, int64_t max);
double stage_points(const struct stage *st);

/* space_winograd.c */
void rules_winograd(struct space *s);
/* Replaces a direct schedule where the draft says that Winograd is clearly faster. */
void winograd_default(const struct space *s, struct sstage *out);
/* Rules worth a try beside the default, 0, 1, ...: each m, and the direct form where it is not the default.
 */
bool winograd_variant(const struct space *s, int variant, struct sstage *out);
void winograd_draw(const struct space *s, struct rng *r, struct sstage *out);
void winograd_change(const struct space *s, struct rng *r, struct sstage *out); /* one aspect */
/* What follows from its numbers: whole panels in a chunk, lines that are fetched ahead. */
void winograd_settle(const struct space *s, struct sstage *out);
/* Most tiles of a register tile, or of a row of points that is transformed in registers. */
int winograd_most(const struct space *s, const struct sstage *c);
void winograd_cross(struct rng *r, const struct sstage *other, struct sstage *out);

#endif
