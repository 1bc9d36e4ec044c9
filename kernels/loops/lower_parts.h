/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to lowering. Shared by lower.c (buffers, entry, manifest), lower_chain.c (the stages of a chain),
 * lower_nest.c (loops), lower_tile.c, lower_post.c, lower_half.c, lower_across.c and lower_turn.c (the
 * register tile), lower_addr.c (addresses and loads), lower_feed.c (prefetch of inputs), lower_quads.c,
 * lower_mmla.c, lower_share.c, lower_team.c and lower_frag.c (blocks of threads), lower_winograd.c,
 * lower_winograd_items.c, lower_winograd_fused.c, lower_products.c and lower_transform.c (the loops of
 * kernels/space/winograd.h), lower_spread.c (split reductions of work items). */
#ifndef KERNELS_LOWER_PARTS_H
#define KERNELS_LOWER_PARTS_H

#include "kernels/loops/loops.h"
#include "kernels/loops/lower.h"
#include "kernels/space/frag.h"
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/sched.h"
#include "kernels/space/share.h"

/* One digit of a physical index: (value / div) % mod, times stride; mod 0: no modulus. */
struct digit {
	int axis;
	int64_t div, mod, stride;
};

/* Location of an operand in memory. */
struct lower_place {
	int buf;               /* -1: not in memory */
	const struct ix *base; /* first element */
	bool packed;           /* addressed by `digit` over the reading stage's axes, else by `ax` over
				* dims */
	int ndigits;
	struct digit digit[PACK_MAX];
	struct packing packing;
	int n;
	struct {
		int dim;
		int64_t div, mod;
		const struct ix *extent, *stride;
	} ax[MAX_SPLITS];
	const struct ix *size[MAX_RANK], *lo[MAX_RANK], *hi[MAX_RANK]; /* dims, halo */
};

struct lower {
	struct loops *l;
	const struct task *t;     /* task_view() of `whole` */
	const struct task *whole; /* as given */
	const struct target *tg;
	struct sched s;
	struct lower_place at[MAX_OPERANDS];
	int shared;               /* leading axes that all stages share */
	struct ring ring;         /* rows 0: no ring */
	const struct ix *scratch; /* elements allocated so far */
	int scratch_buf;
	const struct ix *wino[3];  /* scratch offsets of V, M and a tile; see winograd.h */
	const struct ix *partials; /* scratch offset of the sums of all parts, if s->spread */
	const struct ix *ones;     /* scratch offset of `lanes` ones; NULL: not needed */
	int block_param[MAX_AXES]; /* -1: none */
	int hoisted;
	const struct frag_plan *frags; /* NULL: sums are not made by fragments */
};

/* A load (or constant) that is in a variable already. */
struct known {
	int read; /* read of the stage; -1: a constant */
	int lanes;
	int16_t at[MAX_AXES];
	float imm;
	struct mem mem;
	int var;
};

enum { KNOWN_MAX = 1024 };

/* One reduction loop, or one of its parts: see lower_reduce.c. */
enum red_kind { RED_PLAIN, RED_OUTER, RED_INNER, RED_LANE };

/* State of lowering one stage: what is known about each axis where statements are added. */
struct nest {
	struct lower *w;
	const struct stage *st;
	const struct sstage *s;
	int ns;                           /* spatial axes */
	unsigned axes[MAX_OPERANDS + 1];  /* per read, output last: the axes it depends on */
	int64_t stride[MAX_OPERANDS + 1]; /* per read, output last: stride along the lane axis */
	int cross[MAX_OPERANDS];          /* per read: axis whose vectors are transposed; -1: none */
	bool masks[MAX_OPERANDS + 1];     /* a vector that reaches past the end of the lane axis would
					   * leave the operand */
	int woven;                        /* elements from lane to lane there */
	int weave;                        /* axis whose points lie between the lanes in the output; -1:
					   * none */
	int turn;                         /* axis along which sums are stored transposed; -1: none */
	const struct ix *turn_at;         /* scratch offset of a tile's sums, if k->turn */
	bool ragged;                      /* the lane axis may end inside of a vector, and some access is
					   * masked */
	bool guarded, versioned;          /* some read may leave memory; a cheap test tells if none does */
	bool unguard;                     /* inside of the version for which that test holds */
	const struct ix *extent[MAX_AXES];
	unsigned bound;                  /* set of axes whose base and n are final */
	const struct ix *base[MAX_AXES]; /* first point of the tile or step */
	int n[MAX_AXES];                 /* its number of points (vectors on the lane axis) */
	bool last_masked;                /* the last vector on the lane axis is partial */
	int rests;                       /* number of axes that are in a smaller last tile of many */
	int nloops, nred;
	struct {
		int axis;
		bool outer;
	} loop[2 * MAX_AXES];
	struct {
		int axis;
		enum red_kind kind;
	} red[2 * MAX_AXES];
	const struct ix *from[MAX_AXES], *to[MAX_AXES]; /* tiles of a block; NULL: all */
	const struct ix *high[MAX_AXES];                /* the variable of RED_OUTER */
	const struct ix *par[2 * MAX_AXES];             /* indices of parallel loops */
	const struct ix *part;                          /* part number of a split reduction */
	bool sums_parts; /* the second entry of a spread reduction: adds the sums of the parts */
	enum sum_kind sum;
	bool exact;       /* writes bytes or i32 */
	bool gives_s32;   /* writes i32 */
	bool keeps_bytes; /* copies bytes, or takes the largest ones: they are s32 from the load to the store
			   */
	float zero;       /* added to the rounded results of an exact stage: the end of its program */
	int bias;         /* read with which sums start; -1: they start with
			   * 0 */
	struct prog body, post;   /* what remains of the programs */
	struct panel_ahead ahead; /* valid if s->prefetch */
	struct feed feed;         /* valid if s->feed */
	struct quads quads;       /* valid if s->quads */
	struct mmla mmla;         /* valid if s->mmla */
	int next_rows; /* read of a ring's first stage (a copy) whose next rows are prefetched; -1: none */
	bool edge;     /* inside of a tile that needs guards */
	int npoints, nacc;
	int *acc;  /* npoints * chains */
	int *lone; /* per point, if s->mmla: the second half of the sums of a point without a neighbour */
	int *half; /* the same number of pairs of f16 that SUM_HALF sums now; NULL: not in its loops */
	int chunk; /* reduction loop of which SUM_HALF sums chunk_trips iterations in f16; -1: none */
	int64_t chunk_trips;
	const struct ix *sums_at; /* scratch offset of the tile's sums in f32, meanwhile */
	int step;                 /* unrolled steps so far; selects the chain */
	struct shared_read share[MAX_READS]; /* if the stage has threads */
	int share_buf[MAX_READS];            /* -1: not shared */
	const struct ix *thread, *block_at[MAX_AXES]; /* the block's first points; NULL: no threads */
	const struct ix *tile_at[MAX_AXES]; /* the thread's first point, if the axis has a block that overlaps
					     * the one before it; else NULL */
	const struct ix *new_at[MAX_AXES];  /* the first point of such a block that the other one lacks */
	int team, team_buf;          /* threads that share the tile's sums; 1: none */
	const struct ix *member;     /* the thread's number among them; NULL: no team */
	const struct ix *divider;    /* the thread's number, if threads divide a chain's tiles; NULL: no */
	const struct ix *share_at; /* first point of the share axis of the boxes; NULL: before them */
	int nknown, floor;        /* entries below `floor` belong to other points */
	struct known *known;
};

/* lower_addr.c */
const struct ix *axis_value(const struct nest *k, int axis, int at);
struct mem nest_mem(const struct nest *k, int read /* nreads: the output */, const int *at, int lanes);
int nest_load(struct nest *k, int read, const int *at, int lanes);
int nest_const(struct nest *k, float imm, int lanes);
/* An entry for a load of a read at at[] whose place in memory is m; the variable is to be set. */
struct known nest_entry(const struct nest *k, int read, const int *at, struct mem m);
int nest_find(const struct nest *k, const struct known *e); /* the variable that has that value; -1: none */
int nest_know(struct nest *k, struct known e);              /* returns its variable */
void nest_transpose(struct loops *l, int *row, int n);      /* n variables of n lanes */
int nest_like(struct loops *l, int v, int lanes);           /* a new variable of v's type */
int nest_float(struct nest *k, int v);                      /* v, or its value rounded to f32 */
/* The element of a read with these indices of its dims. */
struct mem nest_element(struct nest *k, int read, const struct ix *const *index);
/* A mem of an operand in scratch: f16, bf16 and bytes lie there two or four in the place of a float. */
struct mem nest_scratch(const struct operand *o, struct mem m);
/* 0 or 1: the read is in memory */
const struct ix *nest_inside(const struct nest *k, int read, const int *at);
const struct ix *nest_interior(const struct nest *k); /* 0 or 1: no read of this tile leaves memory */
/* Prefetches the lines of the next panel that belong to step `step` of `steps` of the body. */
void nest_fetch(struct nest *k, int step, int steps);
/* If k->next_rows: prefetches the part of the next step's rows that belongs to this tile. */
void nest_fetch_rows(struct nest *k);
/* Loads values that no longer change into variables. */
void nest_hoist(struct nest *k);

/* lower_tile.c */
void nest_tile(struct nest *k);                        /* the whole tile: start, reduction, post, stores */
void nest_steps(struct nest *k);                       /* one body of the reduction */
int nest_post(struct nest *k, const int *at, int acc); /* the stage's result for the sum `acc` */
/* Stores results, f32, into the output; bytes are clamped. */
void nest_store(struct nest *k, int v, struct mem m);
/* The bytes of results, in s32, which may lie outside of the range of bytes if v does. */
int nest_bytes(struct nest *k, int v);
enum vop nest_combiner(const struct nest *k); /* the operation that combines two of the stage's
					       * sums */
/* Whether the body is 0 where its vector loads along the lane axis are 0, so that a sum needs no mask at the
 * end. */
bool lower_zero_safe(const struct nest *k);

/* lower_spread.c: a reduction whose parts are indices of their own. */
void spread_scratch(struct lower *w);     /* allocates the sums of all parts */
struct nest *spread_sums(struct nest *k); /* the nest of the second entry */
void spread_store(const struct nest *k);  /* a tile's sums, acc[point * chains], as those of k->part */
/* The place of the sum at at[] of a part, in vectors of k's lanes or narrower ones. */
struct mem spread_place(const struct nest *k, const int *at, const struct ix *part);
void spread_load(const struct nest *k);   /* if k->sums_parts: the sums of all parts, into acc[point] */
/* A nest of the stage with another schedule of it. */
struct nest *nest_new(struct lower *w, int stage, const struct sstage *s);

/* lower_half.c: SUM_HALF. */
bool half_keeps_sums(const struct stage *st); /* sums in f32 of a tile need scratch: k->sums_at */
/* The sums of a tile, in acc[point * chains]; `start` sets these to what is added to. */
void half_reduce(struct nest *k, void (*start)(struct nest *k));
/* Before and after the iterations that are summed in f16. */
void half_clear(struct nest *k);
void half_add(struct nest *k);

/* lower_post.c: applies the stage's program to sums at place(at), in a loop over an axis of the tile whose
 * points begin at `first`. */
void nest_post_loop(struct nest *k, int axis,
		    struct mem (*place)(const struct nest *k, const int *at, const struct ix *first));

/* lower_feed.c: prefetches the inputs that belong to one body of the reduction. */
void nest_feed(struct nest *k);

/* lower_quads.c, if s->quads: one body of the reduction, */
void nest_quads(struct nest *k);
void nest_quads_hoist(struct nest *k); /* loads of its weights before a loop, if registers are left, */
bool nest_quads_finish(
    struct nest *k); /* and program and stores of four points at once. false: not possible */

/* lower_mmla.c, if s->mmla: makes the variables of half pairs, brings the sums of the tile from the order of
 * points to that of blocks or back, and one body of the reduction. */
void nest_mmla_sums(struct nest *k);
void nest_mmla_turn(struct nest *k);
void nest_mmla(struct nest *k);

/* lower_across.c: combines the lanes of each point's sum, acc[point * chains]. True: the results are stored;
 * false: they are in acc[point * chains]. */
bool nest_across(struct nest *k);

/* lower_turn.c */
void nest_turn(struct nest *k);         /* program and stores of a tile, if k->turn */
bool nest_weaves(const struct nest *k); /* the tile has all points of the woven axis */
void nest_weave(struct nest *k);        /* if nest_weaves: program and stores of its sums */
/* Stores the vectors of the points along the woven axis that begin at at[]; their elements are interleaved in
 * memory. */
void nest_lace(struct nest *k, const int *at, const int *point);

/* lower.c */
/* Allocates scratch, 64-byte aligned, and returns the offset of the first element. */
const struct ix *lower_scratch(struct lower *w, const struct ix *elems);
void lower_ones(struct lower *w); /* stores the mask of ones, once per parallel index */
/* Computes the strides of o's layout without the dims in `without`; dim `ring_dim` (-1: none) has only `held`
 * rows. Returns the number of elements. */
const struct ix *lower_layout(struct lower *w, const struct operand *o, struct lower_place *p,
			      unsigned without, int ring_dim, int64_t held);

/* lower_chain.c */
const struct ix *chain_tmp(struct lower *w, int operand); /* sets its layout; returns its number of
							   * elements */
void chain_stages(struct lower *w, struct nest **k);      /* makes the entry of a task of several stages */

/* lower_winograd.c */
bool winograd_packs(const struct lower *w, int read); /* the read is the filters */
int winograd_packing(struct lower *w, struct lower_place *p) MUST_CHECK;
void winograd_scratch(struct lower *w);
void winograd_stage(struct nest *k);

/* lower_transform.c: writes sums of in[] with constant coefficients, m + 2 or m of them, to out[]; the
 * variables are new or those of in[]. The input transform computes only the results in the set `outs` and
 * reads only the in[i] that these need. */
bool transform_input_needs(int m, unsigned outs, int i);
void transform_input(struct loops *l, int m, unsigned outs, const int *in, int *out, int lanes);
/* Row y of m + 2 of a filter from its column g[], and then that row's points from three of these. Both omit
 * the factors, which a scaled output transform applies. */
int transform_filter_row(struct loops *l, int m, int y, const int g[3], int lanes);
bool transform_filter_uses(int m, int y, int r); /* whether row y uses g[r] */
void transform_filter(struct loops *l, int m, const int *in, int *out, int lanes);
void transform_output(struct loops *l, int m, bool scaled, const int *in, int *out, int lanes);

/* lower_share.c, if the stage has threads: makes the shared buffers, and the reduction through them. */
void share_begin(struct nest *k);
void share_reduce(struct nest *k);
const struct ix *share_low(const struct nest *k, int read, int d); /* the least index of dim d in the boxes */
const struct ix *share_box(const struct nest *k, int read); /* the first element of the present box */

/* lower_team.c, if threads share the sums of a tile: makes their shared buffer; */
void team_begin(struct nest *k);
bool team_divides(const struct nest *k, int i); /* whether they take turns with the steps of the i-th loop; */
/* combines their sums, acc[point * chains], into those of thread 0, and begins the branch that only this one
 * takes. */
struct stmt *team_combine(struct nest *k);

/* lower_frag.c: puts the task of one stage that a schedule with fragments computes, its plan and its schedule
 * into w; gives it vectors of columns, once operands have places and if all accesses of the stage's program
 * can be such; makes its entry (e: the nest of the program). */
int frag_view(struct lower *w, struct arena *a) MUST_CHECK;
void frag_lanes(struct lower *w);
void frag_stage(struct nest *e);

/* lower_nest.c */
/* A run of equal tiles along one axis: tile t of `count` starts at start + t * n * unit. */
struct run {
	const struct ix *start, *count;
	int n;       /* points, or vectors on the lane axis */
	bool masked; /* the last vector is partial */
	bool main;
};
enum { MAX_RUNS = 8 };

/* State that is restored when a scope ends. */
struct scope {
	int nknown, hoisted;
};

void nest_stage(struct nest *k);
int nest_unit(const struct nest *k, int axis); /* points per unit of a tile's size: lanes, or 1 */
int nest_runs(const struct nest *k, int axis, int tile, struct run r[MAX_RUNS]); /* returns their number */
const struct ix *nest_run_base(const struct nest *k, int axis, const struct run *r, const struct ix *t);
struct scope nest_enter(const struct nest *k);
void nest_leave(struct nest *k, struct scope s);
void nest_bind(struct nest *k, int axis, const struct ix *base, int n, bool masked);
void nest_unbind(struct nest *k, int axis);

/* lower_reduce.c */
void nest_list_reductions(struct nest *k);
void nest_reduce(struct nest *k, int i); /* makes the loops from the i-th on and their body */
/* Points of the axis in an iteration of the i-th loop; of the loop over blocks: 1. */
int nest_red_step(const struct nest *k, int i);
/* Iterates over the points of the tile or the steps of the body in order: at[] over [0, n) of axes [from,
 * to), the lane axis fastest. */
bool nest_next(const struct nest *k, int from, int to, int *at);
/* Number of the point at[] in that order. */
int nest_point(const struct nest *k, const int *at);

#endif
