/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to space.c: the rules that make the default schedule and its portfolio, and the choices of random
 * draws. */
#ifndef KERNELS_SPACE_RULES_H
#define KERNELS_SPACE_RULES_H

#include "kernels/space/draft.h"
#include "platform/base/rng.h"

/* Most points per vector of a tile that sums in f16. LLVM loads the pairs of all points at once: 3x8 points
 * spill, 3x7 do not with one step in a body, and 4x6 do not with two. */
enum { HALF_PIXELS = 7 };
enum { MAX_LANES = 16, MANY_ROWS = 16 /* rows of sums along lanes; no registers left for a second step */ };

/* A lane axis that the stage allows. */
struct lane_choice {
	int axis, lanes; /* -1 and 1: scalar */
	double cost;     /* slots per element, of accesses only */
};

struct stage_space {
	int nlanes; /* sorted, best first; always has the scalar one */
	struct lane_choice lane[MAX_LANES];
};

struct space {
	const struct task *t;     /* task_groups() of `whole`, or task_pairs() */
	const struct task *whole; /* from task_keep() */
	struct target tg;
	struct stage_space st[MAX_STAGES];
	struct space_want want;
	int wino_lanes;   /* lanes of Winograd schedules; 0: the space has none */
	bool wino_pixels; /* Winograd schedules prefetch pixels */
	bool w16;         /* schedules may store weights as f16 */
	unsigned quads;   /* set of stages whose schedules may have the key `quads` */
	bool mmla;        /* schedules may have the key `mmla` where their stage is such a sum */
	struct ring ring; /* of the default schedule; rows 0: none */
	/* The space of schedules that multiply pairs of f16 or bf16; NULL: none. The other space has all
	 * others. */
	const struct space *pairs;
	const struct space *tf32; /* the same of schedules that multiply f32 rounded to TF32 */
};

/* The space whose schedules have such a text: s, its pairs or its tf32. */
const struct space *rules_space(const struct space *s, const char *cand);
/* Chooses a ring of rows if that saves most of the scratch: its axis, and as many rows as the L2 holds. */
void rules_ring(struct space *s);
/* Vectors in a head of attention, if the tiles of its products are that wide; 0: no such tiles. */
int rules_head(const struct space *s);
/* The space, with the registers of vectors of so many lanes: itself, or a copy in *room. */
const struct space *rules_width(const struct space *s, int lanes, struct space *room);
/* Makes a schedule with default values and the space's ring. */
void rules_init(const struct space *s, struct sched *out);
/* The row axis of a stage, -1: none. */
int rules_rows(const struct space *s, int stage);
/* Whether no row of the ring needs another row. */
bool rules_apart(const struct space *s);
/* Whether a tile may span rows of the stage. The number of rows must divide the ring's. */
bool rules_row_tiles(const struct space *s, int stage);
void rules_fit_rows(const struct space *s, struct sched *c); /* makes the row tiles divide the ring's rows */
/* Steps of the ring per parallel index if there are `chunks` indexes; 0: all. */
int64_t rules_chunk(const struct space *s, const struct sstage *last, int64_t chunks);
/* Chooses the rows per step and the steps per index that keep all threads busy. */
void rules_thread_ring(const struct space *s, struct sstage *last);
/* Drafted cycles of a schedule; the steps of a ring count with their rows. `of` (may be NULL) gets the terms
 * of each stage. */
double rules_draft(const struct space *s, const struct sched *c, struct draft_terms of[MAX_STAGES]);
void rules_lanes(struct space *s, int stage);
/* Draws whether a stage's weights are stored as f16. */
bool rules_draw_w16(const struct space *s, struct rng *r);
/* The default schedule of a stage, or with `variant` 0, 1, ... that of the portfolio. false: there is no such
 * variant. */
bool rules_stage(const struct space *s, int stage, int variant, struct sstage *out);
/* Completes a schedule whose tiles and lanes are set: reduction unroll, chains, order, parallel loops,
 * blocks. */
void rules_finish(const struct space *s, int stage, struct sstage *out);
/* Returns the axis whose tiles allow a map's strided reads to be transposed, and sets its tile; -1: none. */
int rules_cross(const struct task *t, const struct stage *st, struct sstage *ss);
/* Returns the axis whose points lie between the lanes in the output, and sets its tile; -1: none. */
int rules_weave(const struct task *t, const struct stage *st, struct sstage *ss);
/* Whether a window's tile leaves registers for its filters and for the part of the image that its points
 * share. */
bool rules_window(const struct space *s, int stage, const struct sstage *c);
/* space_unroll.c: steps of each reduction axis in the body. */
void rules_unroll(const struct space *s, int stage, struct sstage *out);
void rules_order(const struct space *s, int stage, struct sstage *out);
/* Whether the board is an x86-64 without FMA: products and sums are instructions of their own, with two
 * operands, and a broadcast is two instructions. Its rules were measured with SSE; those of ARM without FMA
 * were not. */
bool rules_unfused(const struct space *s);
void rules_parallel(const struct space *s, int stage, struct sstage *out);
/* Sets the parallel loops, and removes prefetches that the loops or tiles no longer allow. */
void rules_settle(const struct space *s, int stage, struct sstage *out);
/* space_ahead.c: puts the loops over panels of weights outermost and prefetches the next panel, in parts of
 * the reduction if threads can share the panels. false: the stage has no panels, and the schedule is
 * unchanged. */
bool rules_panels(const struct space *s, int stage, struct sstage *out);
/* Only puts those loops outermost, without prefetches. */
void rules_panels_first(const struct space *s, int stage, struct sstage *out);
/* Whether weights take long enough to come from memory, and the other operands stay in the L2 for all panels.
 * Not for a product with a vector whose weights fit in half of the L2: prefetching makes it take 1.4 times as
 * long with weights in the L2; with cold caches 12 KB take 1.4 times as long because it fetches past their
 * end, 128 KB as long, 2 MB .92 times. */
bool rules_cold(const struct space *s, int stage, const struct sstage *out);
/* Whether to prefetch inputs: the L1 does not hold them, and few FMAs use each line. */
bool rules_feed(const struct space *s, int stage, const struct sstage *out);
/* Prefetches into the L2 the rows that a ring's first stage copies next. */
void rules_next_rows(const struct space *s, int stage, struct sstage *out);
/* Number of loops over panels outside of the loop over parts; 0: the reduction is not split. */
int rules_panel_loops(const struct space *s, int stage, const struct sstage *out);
void panels_draw(const struct space *s, int stage, struct rng *r, struct sstage *out);
/* Removes prefetches that tiles or loops no longer allow. */
void panels_settle(const struct space *s, int stage, struct sstage *out);
bool stage_contracts(const struct task *t, const struct stage *st,
		     int lane); /* some read of the body is the same in all lanes */
bool index_spatial(const struct stage *st, const struct index *x); /* the index uses a spatial axis */
/* Whether a window slides along the lanes, so that each tap loads its own vectors. */
bool lane_slides(const struct stage *st, int lane);
/* Whether lanes of some read of the body lie a few elements apart: each such vector is shuffled from several,
 * and the shuffle patterns take registers too. */
bool stage_picks(const struct space *s, const struct stage *st, const struct sstage *out);
/* The best axis to tile beside the lane axis and an interleaved one (-1: none); -1: none. */
int stage_pixel_axis(const struct space *s, int stage, int lane, int woven);
int64_t largest_divisor(int64_t n, int64_t max);
double stage_points(const struct stage *st);

/* space_items.c: draws a group, or none; draws a split reduction, or none, once the tile is drawn; the i-th
 * of the portfolio's schedules. */
void items_draw_group(const struct space *s, int stage, struct rng *r, struct sstage *out);
void items_draw_parts(const struct space *s, int stage, struct rng *r, struct sstage *out);
/* Draws threads that share, if the device and the stage can; else leaves the schedule as it is. And takes
 * them away, or the tiles that an item makes one after the other. */
void items_draw_threads(const struct space *s, int stage, struct rng *r, struct sstage *out);
void items_no_threads(struct sstage *out);
/* Draws threads that share the sums of a tile, likewise. */
void items_draw_team(const struct space *s, int stage, struct rng *r, struct sstage *out);
/* Lets n threads of a block run a chain's stages together. false: it cannot, and the schedule is unchanged.
 */
bool items_crew(const struct space *s, int n, struct sched *c);
bool items_rule(const struct space *s, int i, struct sched *c);
/* space_down.c: lets an item make so many tiles of so many points one after the other, along an axis of a
 * window. false: it cannot, and the schedule is unchanged. */
bool down_make(const struct space *s, int stage, int points, int tiles, struct sstage *out);
/* Draws such tiles for one in four schedules of a window. */
void down_draw(const struct space *s, int stage, struct rng *r, struct sstage *out);
/* space_texture.c: draws whether the weights are a texture; changes that now and then; makes them a buffer
 * where the schedule no longer allows a texture; and makes them one, if the device has a cache for it. */
void texture_draw(const struct space *s, int stage, struct rng *r, struct sstage *out);
void texture_change(const struct space *s, int stage, struct rng *r, struct sstage *out);
void texture_settle(const struct space *s, int stage, struct sstage *out);
bool texture_rule(const struct space *s, int stage, struct sstage *out);
/* space_frag.c: whether a schedule of the space may have fragments, and whether each must. Sets those of the
 * i-th best draft; false: there is none. Gives one of two schedules fragments, or each that must have them;
 * it was made by sched_init, as for the rule. Changes one of the numbers of a schedule that has fragments;
 * false: it has none. Drafted cycles. */
bool frags_possible(const struct space *s);
bool frags_alone(const struct space *s);
bool frags_rule(const struct space *s, int i, struct sched *c);
bool frags_draw(const struct space *s, struct rng *r, struct sched *c);
bool frags_change(const struct space *s, struct rng *r, struct sched *c);
double frags_draft(const struct space *s, const struct sched *c);
/* Whether the stage's schedule is legal beside default ones of the others. */
bool rules_fits(const struct space *s, int stage, const struct sstage *ss);

/* space_quads.c */
bool rules_has_quads(const struct space *s, int stage);
/* The schedule by dot products with the best draft, with the lanes of *out; without the tile that is number
 * `skip` of the rule (-1: none). false: there is none. */
bool quads_rule(const struct space *s, int stage, int skip, struct sstage *out);
/* Replaces a default schedule if the draft says that dot products are faster. */
void quads_default(const struct space *s, int stage, struct sstage *out);
void quads_draw(const struct space *s, int stage, struct rng *r, struct sstage *out);

/* space_mmla.c */
/* Replaces a default schedule if the draft says that products of matrices are faster. */
void mmla_default(const struct space *s, int stage, struct sstage *out);
void mmla_draw(const struct space *s, struct rng *r, struct sstage *out);

/* space_winograd.c */
void rules_winograd(struct space *s);
/* Replaces a direct schedule if the draft says that Winograd is clearly faster. */
void winograd_default(const struct space *s, struct sstage *out);
/* Alternatives to the default, variant 0, 1, ...: each m, the direct form if it is not the default, and on a
 * device of work items each m as one launch. */
bool winograd_variant(const struct space *s, int variant, struct sstage *out);
/* The rule's choice for F(m x m, 3x3) with weights stored as f16. false: there is none. */
bool winograd_w16(const struct space *s, int m, struct sstage *out);
void winograd_draw(const struct space *s, struct rng *r, struct sstage *out);
void winograd_change(const struct space *s, struct rng *r, struct sstage *out); /* changes one aspect */
/* Sets what follows from the other numbers: whole panels in a chunk, lines to prefetch. */
void winograd_settle(const struct space *s, struct sstage *out);
/* Largest number of tiles in a register tile, or in a row of points that is transformed in registers. */
int winograd_most(const struct space *s, const struct sstage *c);
void winograd_cross(struct rng *r, const struct sstage *other, struct sstage *out);
/* space_winograd_items.c, on a device of work items: the number of tiles that fit the registers with *c's
 * vectors; the register tile of the products with the best draft, which is returned (DBL_MAX: none fits); and
 * a draw of it, the lanes and the group. */
int winograd_items_most(const struct space *s, const struct sstage *c);
double winograd_items_rule(const struct space *s, struct sstage c, struct sstage *out);
void winograd_items_draw(const struct space *s, struct rng *r, struct sstage *out);
/* The same of one launch (kernels/space/winograd_fused.h). The draw returns false if it found none; then *out
 * is unchanged. */
double winograd_fused_rule(const struct space *s, struct sstage c, struct sstage *out);
bool winograd_fused_draw(const struct space *s, struct rng *r, struct sstage *out);

#endif
