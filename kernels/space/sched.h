/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule: how the loops of a task's stages run. The value behind a candidate's text.
 *
 *   lane=k:16 tile=x:14,k:2 unroll=c:2 order=n,k,y,x,c,r,s par=3 outer=y split=c:256 chains=2 | block=y:8
 *
 * Keys in this order, each left out at its default; stages of a chain are separated by "; ". Axes are named
 * as in the task.
 * lane    the axis that lies in vector lanes, and how many (absent: scalar)
 * tile    register tile of spatial axes, in points; in vectors on the lane axis
 * unroll  steps of reduction axes in one body; in vectors on the lane axis
 * order   spatial loops outermost first, then reduction loops (default: as the task names them)
 * par     leading loops that make the parallel extent (outer loops of `outer` axes come first)
 * outer   axes with a second, outer loop over blocks of tiles
 * split   reduction axis summed in parts outside of the register tile, points per part: partial sums in the
 *         output
 * chains  accumulators per point, taken in turn by the unrolled steps
 * hoist   0: loads that do not change in a loop stay inside of it
 * ring    of a chain's last stage: its rows are computed N at a time, and before them the rows of earlier
 *         stages that they need and that are not there yet; intermediates are rings of rows in scratch, or
 *         whole where they are not read by rows
 * winograd  F(m x m, 3x3) instead, m = 2 or 4 (kernels/space/winograd.h): then only lane and these keys stand
 * tiles   of m x m outputs in a block: inputs are transformed, then multiplied, a block at a time
 * gemm    register tile of the products: tiles x vectors
 * chunk   vectors of products that are transformed back at once
 * raw     filters are kept as they are, and each register tile transforms them: it then is gemm's tiles for
 *         a row of points. That many vectors of input channels at a time. Absent: the packer transforms
 * parts   of the output channels, whose weights then stay near a thread while it goes through the
 *         blocks: each part transforms the inputs again
 * pixels  1: while products are computed, the next block's inputs and this one's outputs are fetched
 *         into the L2
 * prefetch  winograd: cache lines of the next panel of weights, or filters, that each two steps fetch;
 *         of the copy that a ring begins with, the level (1 or 2) that the rows of its next step are
 *         fetched into while the next stage is at work; else that of the next panel, evenly over all
 *         tiles that use this one
 * feed    1: what the next block of input channels, or the next tile, reads of the input is fetched
 *         meanwhile
 * block   tiles per block of an `outer` axis, or rings' steps per parallel index: a run-time parameter,
 *         0 or absent: the whole axis
 */
#ifndef KERNELS_SCHED_H
#define KERNELS_SCHED_H

#include "kernels/space/space.h"
#include "kernels/task/task_stage.h"

enum { SCHED_TILE = 64, SCHED_POINTS = 256, LINE_ELEMS = 16 /* elements of a cache line */ };

struct winograd {
	int m; /* 0: another algorithm */
	int tiles, px, kv, chunk, raw, parts, pixels, prefetch;
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
	int chains;
	bool hoist;
	int prefetch; /* level; 0: none */
	bool feed;
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
/* Fits the task and the target's lanes: what lower() relies on. E_INFEASIBLE says why. */
int sched_check(const struct task *t, const struct target *tg, const struct sched *s) MUST_CHECK;

/* The lane axis alone: every access is evenly spaced along it, and no guard is. */
int sched_check_lane(const struct task *t, const struct target *tg, const struct stage *st,
		     const struct sstage *s) MUST_CHECK;

static inline int64_t ceil_div(int64_t a, int64_t b) /* b > 0, a > -b */
{
	return (a + b - 1) / b;
}

/* A map's read that has its lanes apart, but whose neighbours along tiled axis b lie side by side: vectors
 * along b are loaded and transposed. Returns b, -1: none. */
int read_crosses(const struct task *t, const struct stage *st, const struct read *r, const struct sstage *s);
/* An output, of a chain a map's, whose lanes lie `n` apart, with the n points of an axis, all in the tile,
 * side by side between them: vectors of both are interleaved and stored. Returns that axis, -1: none. */
int store_weaves(const struct task *t, const struct stage *st, const struct sstage *s);
/* A sum's output whose lanes lie apart, while neighbours along the only other tiled axis lie side by side:
 * tiles are transposed and stored along it. Returns that axis, -1: none. */
int store_turns(const struct task *t, const struct stage *st, const struct sstage *s);
/* Those that are outside of the loops of a schedule with a ring along this axis (-1: none). */
int sched_shared(const struct task *t, int ring_axis);
/* Steps of a ring: for rows [o, e) of the last stage, a stage's rows [step * o + lo, step * (e - 1) + hi]
 * must be there. */
struct ring {
	int rows; /* of the last stage per step */
	struct {
		int axis; /* of the rows; -1: all of what the stage writes is there before the first step */
		int64_t step, lo, hi;
	} st[MAX_STAGES];
	int dim[MAX_OPERANDS];      /* of a tmp: its rows; -1 */
	int64_t held[MAX_OPERANDS]; /* rows there at once, halo included */
};
/* E_INFEASIBLE: axis `axis` of the last stage is no row of an intermediate that is read by rows. */
int task_ring(const struct task *t, int axis, int rows, struct ring *out) MUST_CHECK;
/* The constant that every use of a sum adds to it, where the sum had better begin with it: a read; -1: none.
 */
int stage_bias(const struct task *t, const struct stage *st, const struct sstage *s);
/* A step makes as many rows of this stage as of the last one, from the same number on: they may be tiled, as
 * their number divides. */
bool ring_whole(const struct ring *r, int stage);
/* Rows of a stage that two neighbouring rows of the last one share: chunks of a ring compute them both. */
int64_t ring_again(const struct ring *r, int stage);
/* No row needs another one's. */
bool ring_apart(const struct task *t, const struct ring *r);
bool stage_in_body(const struct stage *st, int read);
/* The packed operand of a reduction's body that has the lanes along it; -1: none. */
int stage_weights(const struct task *t, const struct stage *st, int lane);
/* The panel of weights that is fetched while all tiles use the present one: `read` is its read, `axes` those
 * that it depends on. Each of `steps` steps of the reduction uses `step` of its elements and fetches lines /
 * 2^shift cache lines. Of a split reduction the next `part` steps instead; where one tile uses a panel, AHEAD
 * elements on. */
struct panel_ahead {
	int read;
	unsigned axes;
	int64_t tiles, steps, part, step, lines;
	int shift;
};
enum { AHEAD = 1024 };
/* E_INFEASIBLE: no packed operand, or its panels do not follow one another. */
int stage_ahead(const struct task *t, const struct stage *st, const struct sstage *s,
		struct panel_ahead *out) MUST_CHECK;
/* The input of which each point of a tile reads a line, `step` elements apart, with every block of channels;
 * or that has the lanes in rows, of which each tile of points uses the same vectors. */
struct feed {
	int read, points, channels; /* the latter are axes */
	int64_t block, step;        /* block 0: rows */
};
/* E_INFEASIBLE: there is none. */
int stage_feed(const struct task *t, const struct stage *st, const struct sstage *s,
	       struct feed *out) MUST_CHECK;
/* Stage 0 copies the task's input as it is for stage 1 alone, which reads neighbouring rows of it: in a ring,
 * the next rows may be fetched meanwhile. Returns stage 1's read of it; -1. */
int ring_copy(const struct task *t);
/* A product with a vector: weights pass by in order, each of them for one FMA. */
bool stage_streams(const struct task *t, const struct stage *st, const struct sstage *s);

#endif
