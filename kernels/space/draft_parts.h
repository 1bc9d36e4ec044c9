/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the draft: its constants and what it derives of a stage before it counts tiles, for draft.c and
 * its smooth form (relax_cost.c). */
#ifndef KERNELS_DRAFT_PARTS_H
#define KERNELS_DRAFT_PARTS_H

#include "kernels/space/draft.h"

/* 2 FMA a cycle; a tile without a reduction costs STEP in place of CALL: copies of 24 blocked channels took a
 * fifth of what they would with that. What a board was measured to load alone (platform/machine/target.h) is
 * not reached beside arithmetic and stores: LOADS_REACHED of its loads from the L1, L2_REACHED of its L2. A
 * body of a loop takes LOOP slots more: its counters, its branch, and what does not issue around that. Set
 * once, on half of 101 tasks of a Cascade Lake; on the others, and on recorded schedules of a Zen 5 with 32
 * and 16 registers, they rank as well. */
#define FMA_PER_CYCLE 2.
#define LOADS_REACHED .85
#define LOADS_USUAL 1.45 /* where nothing was measured: vectors, */
#define L2_USUAL 24.     /* and bytes a cycle */
#define L2_REACHED .5
#define LATENCY 4.5 /* of a sum that waits for itself: an FMA's, and some slack */
#define CALL 26.
#define LOOP 8.
#define STEP 8.
#define TRANSPOSE 5.   /* a load and four steps a vector */
#define ACROSS 16.     /* what lanes take to become one, of one point or of a vector of them */
#define WINDOW 4.      /* around a tile with its filters in registers: the next one overlaps */
#define WINDOW_LIVE 4. /* vectors of a row that wait for a neighbour */
#define REST 1.1       /* a smaller last tile of few: 49 points by 13 take 4 % more than by 7 */
#define BESIDE .25     /* of arithmetic beside memory counts: weights may be in cache */
#define HELD_SPARE 4   /* registers beside those */
#define SPILL 3.       /* cycles a step, */
#define SPILLED 1.7    /* and for each register too many */
/* A set of `safe` caches stays, one of 1 + safe is lost, between them a part of it. L1: a little over it is
 * not all lost, as it were under strict LRU: 3x3/2 convolutions reach 90 % of the peak. L2: is shared with
 * code, tables and other hardware threads, and weights that are read again for every tile lose 20 % at half
 * of it. */
#define L1_SAFE .85
#define L2_SAFE .8

/* Elements that a read touches: each axis counts where it is met first. */
struct touch_term {
	uint8_t axis, dim;
	bool table;
	double apart;
};
struct touch_form {
	int n;
	struct touch_term term[MAX_AXES]; /* by dim */
};
struct touch_form draft_form(const struct task *t, const struct stage *st, const struct read *r);
/* Of n[] points of each axis, where those of axis `lane` (-1: none) are vectors: windows that slide overlap.
 */
double draft_touched(const struct touch_form *f, int lane, int lanes, const double *n);

struct tile_cost {
	const struct task *t;
	const struct stage *st;
	const struct sstage *s;
	const struct target *tg;
	int ns; /* spatial axes */
	int64_t extent[MAX_AXES];
	double body, post, access[MAX_READS + 1];
	unsigned axes[MAX_READS + 1];
	struct touch_form form[MAX_READS + 1];
	double body_steps;
	bool straight;
	double passing; /* bytes of all that the task reads and writes */
	double steps;   /* vector steps of the reduction */
	double parts;   /* of a split reduction */
	/* Panels of constants beyond L1 come from L2 once a tile: cost of their bytes against that of others,
	 * small ones in less than the rate of L2, as loads run ahead; 0: no such panel. Measured: 1x1
	 * convolutions with tiles of 4 vectors are the fastest with panels of 64 and 128 KB, 20 % behind
	 * tiles of 2 with 250 KB. */
	double streams[MAX_READS];
	double loads, l2, l3;      /* vectors, bytes a cycle */
	double l1_bytes, l2_bytes; /* of the caches */
	bool once;                 /* each of the weights is used once */
	int spill, held, live, waiting;
	double reloaded; /* loads a body, of what was to stay in registers */
};

void draft_open(struct tile_cost *c, const struct task *t, const struct target *tg, int stage,
		const struct sstage *s);
/* Bytes of a read, or the output, that n[] points touch. */
double draft_footprint(const struct tile_cost *c, int read, const double *n);
/* Points of one tile over the whole reduction, or a part of it. */
void draft_tile_points(const struct tile_cost *c, double *n);
/* Bytes from the next level into the L1 and the L2, when each holds what inner loops use again; but for the
 * panels that streams[] counts, and, into the L2, for constants, which draft_cold counts. */
enum { DRAFT_LEVELS = 2 };
void draft_traffic(const struct tile_cost *c, double bytes[DRAFT_LEVELS]);
/* A read's vectors that overlap for neighbouring points, as of a window that slides over a tile. */
bool draft_read_slides(const struct stage *st, const struct read *r, int rank, const struct sstage *s);
/* What is read does not change between tiles of the innermost loop and stays in registers: `window`: of a
 * schedule that slides. */
bool draft_read_stays(const struct stage *st, unsigned axes, const struct sstage *s, bool window);
double draft_stream(double panel_bytes, const struct tile_cost *c); /* streams[] of a panel */
/* Cycles that weights take from memory. */
double draft_cold(const struct tile_cost *c);
/* draft_held where registers are left; draft_held is 0 where they are not. */
int draft_window(const struct task *t, int stage, const struct sstage *s);

/* ---- Winograd ---- */

/* Cycles around a transform of a tile and vector, of a pixel's program, around a tile of the products, of a
 * lane that is loaded or stored alone. */
#define WINO_AROUND 30.
#define WINO_PIXEL 4.
#define WINO_CALL 25.
#define WINO_APART 4.
#define WINO_LOADS 1.7                 /* vectors a cycle */
extern const double winograd_along[5]; /* cycles of a transform along one axis, for each m */

/* Of all levels, bytes a cycle. Threads are in each other's way in the L3. */
struct winograd_speeds {
	double l1_room, l2_room, l2, l3, memory;
};
struct winograd_speeds winograd_speeds(const struct target *tg, int threads);
/* Lanes of one pixel that lie apart in the output or in what is added to it. */
double winograd_apart(const struct task *t, const struct sstage *s);

#endif
