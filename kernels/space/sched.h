/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule: how the loops of a task's stages run. The value behind a candidate's text.
 *
 *   lane=k:16 tile=x:14,k:2 unroll=c:2 order=n,k,y,x,c,r,s par=3 outer=y split=c:256 chains=2 | block=y:8
 *
 * Keys stand in this order; a key at its default is left out. Stages of a chain are separated by "; ". Axes
 * have the task's names. "f16; " or "bf16; " in front of all: sums are those of such pairs, and the stages
 * are those of task_pairs(). "tf32; ": the factors are rounded to TF32 (task_inputs).
 * lane    the axis that lies in vector lanes, and the number of lanes (absent: scalar)
 * tile    register tile of spatial axes, in points; in vectors on the lane axis
 * unroll  steps of reduction axes in one body; in vectors on the lane axis
 * order   spatial loops outermost first, then reduction loops (default: the task's order)
 * par     number of leading loops that make the parallel extent (outer loops of `outer` axes come first)
 * outer   axes with a second, outer loop over blocks of tiles
 * split   the reduction axis that is summed in parts outside of the register tile, and points per part; the
 *         output holds the partial sums
 * spread  1: on a device of work items, the parts of a split reduction are items of their own. They keep
 *         their sums in scratch, and a second launch adds the sums of a point, from the first part to the
 *         last. With threads, the parts are blocks of their own, of whole boxes of the share axis; and with
 *         fragments, equal ones of whole steps
 * chains  accumulators per point; the unrolled steps take turns with them
 * hoist   0: loads that do not change in a loop stay inside of it
 * ring    for a chain's last stage: its rows are computed N at a time, and before them the missing rows of
 *         earlier stages that they need; intermediates are rings of rows in scratch, or kept whole if they
 *         are not read by rows
 * winograd  the algorithm is F(m x m, 3x3), m = 2 or 4 (kernels/space/winograd.h); then only lane, w16 and
 *         these keys are allowed, or on a device of work items only lane, gemm, w16 and group, or for one
 *         launch (kernels/space/winograd_fused.h) lane, tiles, gemm, chunk, split with spread, w16, blocks,
 *         and share along the input channels:
 * tiles   tiles of m x m outputs in a block: inputs are transformed and multiplied block by block
 * gemm    register tile of the products: tiles x vectors
 * chunk   vectors of products that are transformed back at once
 * raw     filters are kept untransformed and each register tile transforms them, this many vectors of input
 *         channels at a time; the register tile is then gemm's tiles for a row of points. Absent: the packer
 *         transforms the filters
 * parts   parts of the output channels: a part's weights stay in a thread's cache while the thread goes
 *         through the blocks, but each part transforms the inputs again
 * pixels  1: while products are computed, the next block's inputs and this block's outputs are prefetched
 *         into the L2
 * prefetch  winograd: cache lines of the next panel of weights, or of filters, that every two steps fetch;
 *         for the copy that starts a ring: the level (1 or 2) into which the rows of its next step are
 *         fetched while the next stage runs; else the level into which the next panel is fetched, evenly
 *         over all tiles that use the present panel
 * feed    1: the input that the next block of input channels, or the next tile, reads is prefetched
 * quads   1: a depthwise sum of bytes is made by dot products of four neighbouring pixels
 *         (kernels/space/quads.h)
 * mmla    1: a sum of dot products of bytes is made by products of matrices (kernels/space/mmla.h)
 * w16     1: the weights (stage_stored) are stored as f16, the transformed ones if the packer transforms them
 * texture 1: on a device with textures, the weights (stage_stored) are read as one (kernels/loops/loops.h)
 * down    on a device of work items, "y:7": so many tiles along a spatial axis are of one item, which makes
 *         them one after the other. The taps of the sum are all in the body, and what the window of a tile
 *         shares with the one before it along that axis stays in registers
 * group   on a device of work items: items of a group, which start together and, on a GPU, share a unit; a
 *         power of two. Absent: the program that launches them chooses
 * blocks  on a GPU of CUDA, with group, threads or fragments: the blocks that run on a unit (SM) side by
 *         side, at least. The assembler gives each thread at most its share of the registers, and spills what
 *         does not fit
 * threads tiles along spatial axes that the threads of a block compute, one each (kernels/loops/loops.h);
 *         on a device of work items, of a single stage whose spatial loops are all parallel. Where blocks do
 *         not divide an axis (not the lane axis; not with spread), the last one overlaps the one before it.
 *         Or "k:64" of one reduction axis: the threads of a block share the sums of one tile. Each takes
 *         every 64th step of that axis, and they combine their sums at the end; a power of two from 32 on.
 *         Stages of a chain all have as many threads, each on one axis that is not shared: of a spatial one
 *         they divide the tiles, and of the reduction of a lone tile the steps; intermediates are in shared
 *         buffers
 * warp    with threads along spatial axes: the shape of a warp, so many threads along each axis, 32
 *         together; they divide those of the block. Absent: a warp's threads follow one another in the order
 *         of the loops
 * share   with threads: the reduction axis of whose points, so many at a time, the block copies what several
 *         threads read into shared buffers. "k:16x2" or "k:16x3": a shared buffer holds a ring of so many
 *         boxes, and the next points are copied while the block computes with the present ones
 * fragrows, fragcols, warprows, warpcols, fragk  of the last stage of a task of f16 or bf16 pairs, or of a
 *         task of one stage that sums products of bytes or, after "f16; " or "bf16; ", of two inputs, or of
 *         any after "tf32; ", with no other keys but split with spread, and blocks: the sums are made by
 *         fragments of matrices (kernels/space/frag.h), so many for each warp, by so many warps of a block,
 *         along the rows and the columns of the product; a step takes fragk fragments along the reduction
 * fragring  2 or 3: the shared buffers hold so many steps, and the next ones are filled while the block
 *         multiplies. Absent: one step
 * block   tiles per block of an `outer` axis, or steps of a ring per parallel index: a run-time parameter;
 *         0 or absent: the whole axis
 */
#ifndef KERNELS_SCHED_H
#define KERNELS_SCHED_H

#include "kernels/space/space.h"
#include "kernels/task/task_stage.h"

enum { SCHED_TILE = 64, SCHED_POINTS = 256, LINE_ELEMS = 16 /* elements of a cache line */ };
/* Most steps that SUM_HALF adds in f16: 3 x 3 taps of a block of 16 channels, of two products each. For
 * products of random signs the rounding errors of n steps are about 2^-12 sqrt(n / 2) of their sum: 1.5e-3.
 */
enum { HALF_STEPS = 72 };
enum { SPREAD_PARTS = 64, SPREAD_BYTES = 16 << 20 /* of the sums of all parts */ };
enum { SCHED_THREADS = 1024, SCHED_SHARED = 32 << 10 /* bytes of shared buffers: OpenCL's least */ };
enum { SCHED_TEAM = 32 /* the fewest threads that share sums */ };
enum { SCHED_BOXES = 3 /* of a ring in a shared buffer */ };
enum { SCHED_RESIDENT = 1024 /* threads that each SM runs side by side */, SCHED_BLOCKS = 16 };
enum { SCHED_DOWN = 16, DOWN_PRODUCTS = 512 /* points times taps of an item */ };
enum { LEAST_GROUP = 16 /* work items: fewer leave lanes of most GPUs idle */ };

struct winograd {
	int m; /* 0: another algorithm */
	int tiles, px, kv, chunk, raw, parts, pixels, prefetch;
};

struct frags { /* 0: none */
	int rows, cols, warp_rows, warp_cols, depth, ring;
};

struct sstage {
	int lane;                /* axis, -1: scalar */
	int lanes;               /* 1 where scalar */
	int tile[MAX_AXES];      /* >= 1 */
	int unroll[MAX_AXES];    /* >= 1 */
	uint8_t order[MAX_AXES]; /* a permutation; spatial axes first */
	int par;
	bool outer[MAX_AXES];
	int64_t block[MAX_AXES]; /* tiles; 0: all */
	int split_axis;          /* -1: none */
	int64_t split;           /* points */
	bool spread;
	int chains;
	bool hoist;
	int prefetch; /* level; 0: none */
	bool feed;
	bool quads;
	bool mmla;
	bool w16;
	bool texture;
	int down_axis, down;   /* tiles; -1: none */
	int group;             /* 0: not given */
	int blocks;            /* of a unit; 1: not given */
	int threads[MAX_AXES]; /* tiles; 1: none of this axis */
	int warp[MAX_AXES];    /* of them; all 1: not given */
	int share_axis, share; /* points; -1: none */
	int boxes;             /* of a ring in a shared buffer; 1: no ring */
	struct frags frags;
	struct winograd wino;
	int ring_axis, ring; /* rows; -1: none */
};

struct sched {
	int nstages;
	struct sstage st[MAX_STAGES];
};

void sched_init(const struct task *t, struct sched *s); /* scalar, no tiles, everything at its default */
int sched_text(const struct task *t, const struct sched *s,
	       char out[CAND_MAX]) MUST_CHECK; /* E_INFEASIBLE: too long */
int sched_parse(const struct task *t, const char *text, struct sched *out) MUST_CHECK;
/* Checks that the schedule fits the task and the target's lanes, which lower() relies on. E_INFEASIBLE says
 * why. */
int sched_check(const struct task *t, const struct target *tg, const struct sched *s) MUST_CHECK;

/* Checks the lane axis only: every access is evenly spaced along it, and no guard depends on it. */
int sched_check_lane(const struct task *t, const struct target *tg, const struct stage *st,
		     const struct sstage *s) MUST_CHECK;

static inline int64_t ceil_div(int64_t a, int64_t b) /* b > 0, a > -b */
{
	return (a + b - 1) / b;
}

/* Whether a map's read has its lanes apart, but is contiguous along a tiled axis b. Then vectors along b are
 * loaded and transposed. Returns b; -1: no. */
int read_crosses(const struct task *t, const struct stage *st, const struct read *r, const struct sstage *s);
/* Whether the output (in a chain, of a map) has its lanes `n` apart, and the n points of an axis that is all
 * in the tile lie side by side between them. Then vectors of both axes are interleaved and stored. Returns
 * that axis; -1: no. */
int store_weaves(const struct task *t, const struct stage *st, const struct sstage *s);
/* Whether a sum's output has its lanes apart, but is contiguous along the only other tiled axis. Then tiles
 * are transposed and stored along that axis. Returns that axis; -1: no. */
int store_turns(const struct task *t, const struct stage *st, const struct sstage *s);
/* Number of shared axes outside of the loops of a schedule with a ring along this axis (-1: no ring). */
int sched_shared(const struct task *t, int ring_axis);
/* Steps of a ring: before rows [o, e) of the last stage are computed, rows [step * o + lo, step * (e - 1) +
 * hi] of the earlier stage must be there. */
struct ring {
	int rows; /* rows of the last stage per step */
	struct {
		int axis; /* axis of the rows; -1: the stage writes all of its output before the first step */
		int64_t step, lo, hi;
	} st[MAX_STAGES];
	int dim[MAX_OPERANDS];      /* row dim of a tmp; -1: none */
	int64_t held[MAX_OPERANDS]; /* rows that are kept at once, halo included */
};
/* Derives the ring along axis `axis` of the last stage. E_INFEASIBLE: that axis does not index rows of an
 * intermediate that is read by rows. */
int task_ring(const struct task *t, int axis, int rows, struct ring *out) MUST_CHECK;
/* The read of a constant that every use of a sum adds to it, if the sum should start with it instead of 0;
 * -1: none. */
int stage_bias(const struct task *t, const struct stage *st, const struct sstage *s);
/* Whether a step makes as many rows of this stage as of the last one, starting at the same row. Then rows may
 * be tiled if the tile divides their number. */
bool ring_whole(const struct ring *r, int stage);
/* Rows of a stage that two neighbouring rows of the last stage share: two chunks of a ring both compute
 * them. */
int64_t ring_again(const struct ring *r, int stage);
/* Whether no row needs another row. */
bool ring_apart(const struct task *t, const struct ring *r);
/* The read whose window slides along the down axis, and the rows of it that two neighbouring tiles have in
 * common, in elements of its dim; -1: there is none that has any. */
int stage_down_read(const struct task *t, const struct stage *st, const struct sstage *s, int64_t *shared);
/* Parts of a split reduction; 1: it is not split. */
static inline int64_t stage_parts(const struct stage *st, const struct sstage *s)
{
	return s->split_axis < 0 ? 1 : ceil_div(st->axis[s->split_axis].extent, s->split);
}
/* Points of a stage with lanes that are filled up to whole vectors. Extents are known. */
int64_t stage_vector_points(const struct stage *st, const struct sstage *s);
/* Whether the output can hold partial sums of a split reduction: not whole sums, nor bytes. */
bool stage_splits(const struct task *t, const struct stage *st);
/* Threads of a block: 1 if the schedule has none; and those that share the sums of a tile: 1, or all. */
int stage_threads(const struct stage *st, const struct sstage *s);
int stage_team(const struct stage *st, const struct sstage *s);
bool stage_in_body(const struct stage *st, int read);
/* The packed operand in a reduction's body whose vectors lie along the lanes; -1: none. */
int stage_weights(const struct task *t, const struct stage *st, int lane);
/* The constant of f32 that the schedule may store as f16, or as a texture: the filters of a Winograd
 * schedule, else those of stage_weights, if no other read of the task needs it. Returns the operand; -1:
 * none. */
int stage_stored(const struct task *t, const struct stage *st, const struct sstage *s);
/* Whether a stage of the task may have such a constant, under some schedule. */
bool task_stores(const struct task *t, int operand);
int stage_weight_bytes(const struct sstage *s); /* of an element of the stage's weights */
int stage_line(const struct sstage *s);         /* their elements in a cache line */
/* The panel of weights that is prefetched while all tiles use the present one. `read` is its read, `axes` are
 * the axes that it depends on. Each of `steps` steps of the reduction uses `step` elements of it and fetches
 * lines / 2^shift cache lines. If the reduction is split, the next `part` steps are fetched instead; if only
 * one tile uses a panel, the elements AHEAD further on. */
struct panel_ahead {
	int read;
	unsigned axes;
	int64_t tiles, steps, part, step, lines;
	int shift;
};
enum { AHEAD = 1024 };
/* E_INFEASIBLE: there is no packed operand, or its panels are not contiguous. */
int stage_ahead(const struct task *t, const struct stage *st, const struct sstage *s,
		struct panel_ahead *out) MUST_CHECK;
/* The input to prefetch: either each point of a tile reads a line of it, `step` elements apart, for every
 * block of channels; or its lanes lie in rows, and each tile of points uses the same vectors. */
struct feed {
	int read, points, channels; /* points, channels: axes */
	int64_t block, step;        /* block 0: lanes in rows */
};
/* E_INFEASIBLE: there is no such input. */
int stage_feed(const struct task *t, const struct stage *st, const struct sstage *s,
	       struct feed *out) MUST_CHECK;
/* Whether stage 0 only copies the task's input for stage 1, which reads neighbouring rows of it: in a ring
 * the next rows may then be prefetched. Returns stage 1's read of the copy; -1: no. */
int ring_copy(const struct task *t);
/* Whether a stage multiplies with a vector: it reads the weights in order and uses each of them for one
 * FMA. */
bool stage_streams(const struct task *t, const struct stage *st, const struct sstage *s);

#endif
