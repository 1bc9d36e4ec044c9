/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the draft: its constants and what it derives from a stage before it counts tiles. Used by
 * draft.c and its smooth form (relax_cost.c). */
#ifndef KERNELS_DRAFT_PARTS_H
#define KERNELS_DRAFT_PARTS_H

#include "kernels/space/draft.h"

/* A core issues 2 FMA a cycle. A tile without a reduction costs STEP instead of CALL: copies of 24 blocked
 * channels took a fifth of what CALL would predict. The load rates that were measured alone
 * (platform/machine/target.h) are not reached beside arithmetic and stores: the draft counts LOADS_REACHED of
 * the L1 rate and L2_REACHED of the L2 rate. A loop body takes LOOP more slots for its counters, its branch
 * and lost issue slots. The constants were fitted once, on half of 101 tasks on a Cascade Lake; they rank as
 * well on the other half, and on recorded schedules of a Zen 5 with 32 and 16 registers. */
#define FMA_PER_CYCLE 2.
#define LOADS_REACHED .85
#define LOADS_USUAL 1.45 /* vectors a cycle, if not measured */
#define L2_USUAL 24.     /* bytes a cycle, if not measured */
#define L2_REACHED .5
#define LATENCY 4.5 /* of a sum that waits for itself: that of an FMA, and some slack */
#define CALL 26.
#define LOOP 8.
#define STEP 8.
#define TRANSPOSE 5.   /* a load and four steps a vector */
#define ACROSS 16.     /* cost of combining the lanes of one point, or of a vector of points */
#define QUAD_PIXEL 1.5 /* accesses of a quad: its load, and the turn of its bytes */
#define QUAD_STORE .4  /* of a point's store, if four points are stored at once */
#define MMLA_JOIN .5   /* accesses of a point's group: a quarter of a load, and of a step that joins two */
#define WINDOW 4.      /* overhead of a tile whose filters are in registers: it overlaps with the next tile */
#define WINDOW_LIVE 4. /* vectors of a row that wait for their neighbour */
/* factor for a smaller last tile if there are few tiles: 49 points by 13 take 4 % more than by 7 */
#define REST 1.1
#define BESIDE .25   /* share of the arithmetic that adds to memory time: weights may be in cache */
#define HELD_SPARE 4 /* registers kept free beside the held filters */
#define SPILL 3.     /* cycles a step, if any register is spilled */
#define SPILLED 1.7  /* cycles a step for each spilled register */
/* A working set of up to `safe` caches stays in the cache, one of 1 + safe caches is lost, and in between a
 * part of it is lost. L1: a set slightly too large is not all lost, as it would be under strict LRU: 3x3/2
 * convolutions reach 90 % of the peak. L2: code, tables and other hardware threads share it, and weights that
 * every tile reads again lose 20 % at half of it. */
#define L1_SAFE .85
#define L2_SAFE .8

/* Elements that a read touches. Each axis counts in the first dim that it indexes. */
struct touch_term {
	uint8_t axis, dim;
	bool table;
	double apart;
};
struct touch_form {
	int n;
	struct touch_term term[MAX_AXES]; /* sorted by dim */
};
struct touch_form draft_form(const struct task *t, const struct stage *st, const struct read *r);
/* Elements touched by n[] points of each axis; points of axis `lane` (-1: none) are vectors. Windows that
 * slide overlap. */
double draft_touched(const struct touch_form *f, int lane, int lanes, const double *n);

struct tile_cost {
	const struct task *t;
	const struct stage *st;
	const struct sstage *s;
	const struct target *tg;
	int ns;        /* spatial axes */
	double each;   /* instructions of an operation on a work item's vector; else 1 */
	double narrow; /* dot products for each tap of a row; 1 without the key `quads` */
	int64_t extent[MAX_AXES];
	double body, post, access[MAX_READS + 1];
	double bytes[MAX_READS + 1];  /* of an element */
	double beyond[MAX_READS + 1]; /* draft_lines */
	double converts[MAX_READS];   /* conversions of a vector */
	unsigned axes[MAX_READS + 1];
	struct touch_form form[MAX_READS + 1];
	double body_steps;
	bool straight;
	double passing; /* bytes of all data that the task reads and writes */
	double steps;   /* vector steps of the reduction */
	double parts;   /* parts of a split reduction */
	/* Panels of constants larger than the L1 come from the L2 once per tile. This is the cost of their
	 * bytes relative to other bytes; small panels cost less than the L2's rate because loads run ahead.
	 * 0: no such panel. Measured: 1x1 convolutions with tiles of 4 vectors are the fastest with panels of
	 * 64 and 128 KB, but 20 % slower than tiles of 2 vectors with 250 KB. */
	double streams[MAX_READS];
	double loads, l2, l3;      /* rates: vectors a cycle; bytes a cycle */
	double l1_bytes, l2_bytes; /* sizes of the caches */
	bool once;                 /* each weight is used only once */
	int regs;                  /* vectors that the registers hold */
	int spill, held, live, waiting;
	double reloaded; /* loads per body of values that should have stayed in registers */
	bool ordered;    /* draft_ordered */
};

void draft_open(struct tile_cost *c, const struct task *t, const struct target *tg, int stage,
		const struct sstage *s);

/* ---- a processor that issues in order (draft_order.c) ---- */

/* Cycles of a load of four floats: the L1 has a port of 64 bits, and nothing issues beside a load of a
 * vector. */
#define VECTOR_CYCLES 2.
/* Longer, if LLVM orders the body: loads wait for multiply-adds. LLVM's model of the cortex-a53 says 1.6 to
 * 2.2; nothing was measured. */
#define IN_ORDER 1.5
/* Whether the stage is a sum of products of weights and one value for all lanes on such a processor. */
bool draft_ordered(const struct tile_cost *c);
/* Cycles of one step of its reduction. */
double draft_order(const struct tile_cost *c, const int *n);

/* ---- a device whose work items each compute one register tile (draft_items.c) ---- */

#define ITEM_CLOCK 1.5 /* GHz of a lane */
/* Slots of a load of 16 bytes: its neighbours' loads are often of the same line. A wider one is several of
 * them, a narrower one takes between it and a single float. */
#define ITEM_LOAD 6.
#define ITEM_LOAD_SCALAR 2.
#define ITEM_STORE 4.
#define ITEM_BODY 10. /* loop and addresses */
#define ITEM_AROUND 40.
#define ITEM_SPILL 8.
#define ITEM_LATENCY 4.       /* cycles of an operation that waits for the one before */
#define ITEM_LOAD_LATENCY 60. /* cycles of a body's loads, from the nearest cache */
#define ITEM_SHARED .5        /* share of an item's loads that no neighbour makes */
#define ITEM_LAUNCH_NS 2000.  /* of a device whose launches were not measured */
#define ITEM_NEAR .5          /* of a load's slots and latency, if it is from a shared buffer */
#define ITEM_COPY 6.          /* addresses of an element that is copied into one */
#define ITEM_BARRIER 30.
#define ITEM_EXCHANGE 3.        /* of a value between two threads, and its sum */
#define ITEM_AHEAD .5           /* of the latency of copies that are made while others compute */
#define ITEM_LOCAL_BYTES 65536. /* local memory of a unit */
#define ITEM_HIDE 256.          /* items of a unit that hide the latency of a load */
#define ITEM_USUAL_GROUP 64     /* of a launch without a number */
#define ITEM_REGISTERS 40       /* of an item beside its vectors: addresses and counters */
#define ITEM_WARP 32            /* items that issue together: the rest of a smaller group's are idle */
#define ITEM_USUAL_GFLOPS 100.  /* of a device that was not measured */
#define ITEM_USUAL_GBS 20.
struct item_rates {
	double slots;     /* of all lanes, a ns */
	double near, far; /* bytes a ns, of caches and of memory */
	double fill;      /* items that fill the device */
	double launch;    /* ns that a launch takes by itself: in a graph, where the device has graphs */
	int units;        /* compute units, each of which takes whole groups */
};
struct item_rates draft_item_rates(const struct target *tg);
/* Items of a group, counted with those that idle beside it. */
double draft_item_group(const struct sstage *s);
double draft_item_load(int lanes); /* slots of a vector's load */
double draft_item_store(int lanes);
/* The work of one launch. */
struct draft_launch {
	double items, slots, chain; /* slots of an item, and those of them that wait for each other */
	double bodies;              /* times that an item waits for loads */
	double near, far;           /* bytes of all items */
	double resident; /* items that the device runs side by side; 0: it does not say (resident.h) */
};
/* resident of a launch whose items hold `live` vectors, and whose groups have so much local memory. */
double draft_resident(const struct target *tg, const struct sstage *s, double live, double bytes);
/* The second launch of a spread reduction: an item adds the parts of one vector. Their loads do not wait for
 * each other. */
static inline struct draft_launch draft_sum_parts(double parts, int lanes, double post, double vectors)
{
	return (struct draft_launch){.items = vectors,
				     .slots = parts * (lanes + draft_item_load(lanes)) + lanes * post +
					      draft_item_store(lanes) + ITEM_AROUND,
				     .chain = parts + post,
				     .bodies = 1,
				     .near = vectors * parts * lanes * 4};
}
/* Returns its time in ns, and adds its terms. */
double draft_add_launch(const struct item_rates *r, const struct sstage *s, const struct draft_launch *l,
			struct draft_terms *x);
/* How many times longer loads are waited for where a unit's local memory holds fewer threads than hide that
 * latency: blocks of so many threads and bytes, of `items` threads in all. */
double draft_crowding(const struct item_rates *r, double threads, double bytes, double items);
struct draft_terms draft_items(const struct tile_cost *c);
/* draft_winograd_items.c, draft_winograd_fused.c: three launches, or one. */
struct draft_terms draft_winograd_items(const struct task *t, const struct target *tg,
					const struct sstage *s);
struct draft_terms draft_winograd_fused(const struct task *t, const struct target *tg,
					const struct sstage *s);
/* Operations of a transform of one window or tile along one axis, of inputs and of sums; by m. */
extern const double winograd_along_in[5], winograd_along_out[5];
/* Bytes that do not stay in the last cache. */
double draft_beyond_cache(const struct target *tg, double bytes);
double draft_post(const struct stage *st); /* slots of the program of a point */
/* draft_lines.c: sets the bytes of cache lines that an item of a GPU moves for an access of each read, and of
 * the output last, beyond those that it uses; and returns those of a body's mean load from memory that is not
 * shared (box: stage_share). */
void draft_lines(struct tile_cost *c);
struct shared_read;
double draft_beyond(const struct tile_cost *c, const struct shared_read *box);

/* ---- the same on a processor, whose units run the items of a group in turn. draft.c takes them for tiles,
 * whose weights are warm, and adds these. On landscapes of PoCL on an EPYC, 0.87 of the pairs of candidates
 * are in the right order, of tasks with which nothing was fitted 0.85; the best of the first five is within
 * 3 % of the best in three of four tasks. The roofline of GPUs had 0.81 and 0.76, and half of the
 * tasks. ---- */

#define UNIT_GFLOPS 12. /* usual peak of a unit, for each lane of its instructions */
/* Cycles of a group, for which the driver calls a function: 24 ns with PoCL on an EPYC. */
#define UNIT_GROUP 80.
#define UNIT_THREADS 50. /* times longer for threads than for items: measured with PoCL */
/* Bytes that n[] points touch of a read, or of the output. */
double draft_footprint(const struct tile_cost *c, int read, const double *n);
/* Points of one tile over the whole reduction, or over one part of it. */
void draft_tile_points(const struct tile_cost *c, double *n);
/* Bytes loaded from the next level into the L1 and into the L2, if each cache holds what inner loops use
 * again. Panels in streams[] are not included, nor, for the L2, constants, which draft_cold counts. */
enum { DRAFT_LEVELS = 2 };
void draft_traffic(const struct tile_cost *c, double bytes[DRAFT_LEVELS]);
/* Whether vectors of a read overlap for neighbouring points, as for a window that slides over a tile. */
bool draft_read_slides(const struct stage *st, const struct read *r, int rank, const struct sstage *s);
/* Whether a read's values stay in registers because they do not change between tiles of the innermost loop.
 * window: the schedule slides a window. */
bool draft_read_stays(const struct stage *st, unsigned axes, const struct sstage *s, bool window);
double draft_stream(double panel_bytes, const struct tile_cost *c); /* streams[] of a panel */
/* Cycles to load weights from memory. */
double draft_cold(const struct tile_cost *c);
/* draft_held() if registers are left. draft_held() returns 0 if none are. */
int draft_window(const struct task *t, int stage, const struct sstage *s);

/* ---- Winograd ---- */

/* Overhead in cycles: of a transform of one tile and vector, of a pixel's program, of a register tile of the
 * products, and of a lane that is loaded or stored alone. */
#define WINO_AROUND 30.
#define WINO_PIXEL 4.
#define WINO_CALL 25.
#define WINO_APART 4.
#define WINO_LOADS 1.7                 /* vectors a cycle */
#define RAW_CONVERTS 4.                /* slots of a raw step for the conversions of f16 filters */
extern const double winograd_along[5]; /* cycles of a transform along one axis, for each m */

/* Room of the caches in bytes, and rates in bytes a cycle. Threads slow each other down in the L3. A core
 * that splits its widest FMAs takes twice as long for them, in which it issues twice as many other
 * instructions: these count `others` (1 elsewhere). */
struct winograd_speeds {
	double l1_room, l2_room, l2, l3, memory, others;
	bool in_order; /* draft_order.c */
};
struct winograd_speeds winograd_speeds(const struct target *tg, int threads);
/* Lanes per pixel that are not contiguous in the output or in an operand that is added to it. */
double winograd_apart(const struct task *t, const struct sstage *s);

#endif
