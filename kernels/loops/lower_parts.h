/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of lowering: shared by lower.c (buffers, entry, manifest), lower_chain.c (stages one after the
 * other), lower_nest.c (loops), lower_tile.c, lower_post.c, lower_across.c and lower_turn.c (the register
 * tile), lower_addr.c (addresses and loads), lower_feed.c (inputs fetched ahead), lower_winograd.c,
 * lower_products.c and lower_transform.c (the loops of kernels/space/winograd.h). Not for others. */
#ifndef KERNELS_LOWER_PARTS_H
#define KERNELS_LOWER_PARTS_H

#include "kernels/loops/loops.h"
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"

/* Physical index (value / div) % mod, times stride; mod 0: none. */
struct digit {
	int axis;
	int64_t div, mod, stride;
};

/* Where an operand lies. */
struct lower_place {
	int buf;               /* -1: not in memory */
	const struct ix *base; /* first element */
	bool packed;           /* by `digit` over the reading stage's axes, else by `ax` over dims */
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
	const struct task *t;
	const struct target *tg;
	struct sched s;
	struct lower_place at[MAX_OPERANDS];
	int shared;               /* leading axes that all stages share */
	struct ring ring;         /* rows 0: none */
	const struct ix *scratch; /* elements handed out so far */
	int scratch_buf;
	const struct ix *wino[3];  /* scratch offsets of V, M and a tile; see winograd.h */
	const struct ix *ones;     /* scratch offset of `lanes` ones; NULL: not needed */
	int block_param[MAX_AXES]; /* -1: none */
	int hoisted;
};

/* A load (or constant) that is a variable already. */
struct known {
	int read; /* of the stage; -1: a constant */
	int lanes;
	int16_t at[MAX_AXES];
	float imm;
	struct mem mem;
	int var;
};

enum { KNOWN_MAX = 1024 };

/* One reduction loop, or the part of one: see lower_reduce.c. */
enum red_kind { RED_PLAIN, RED_OUTER, RED_INNER, RED_LANE };

/* Lowering of one stage: what is known about each axis at the point where statements are added. */
struct nest {
	struct lower *w;
	const struct stage *st;
	const struct sstage *s;
	int ns;                           /* spatial axes */
	unsigned axes[MAX_OPERANDS + 1];  /* per read, out last: axes it depends on */
	int64_t stride[MAX_OPERANDS + 1]; /* per read, out last: along the lane axis */
	int cross[MAX_OPERANDS];          /* per read: axis whose vectors are transposed, -1 */
	bool masks[MAX_OPERANDS + 1];     /* a vector past the lane axis' end would leave the operand */
	int weave;                        /* axis whose points the output has between the lanes', -1 */
	int turn;                         /* axis along which sums are stored, transposed, -1 */
	const struct ix *turn_at;         /* scratch offset of a tile's sums, where turned */
	bool ragged;                      /* the lane axis may end inside a vector, and some access masks */
	bool guarded, versioned; /* some read may leave memory; and a cheap test tells when none does */
	bool unguard;            /* inside of the version where none does */
	const struct ix *extent[MAX_AXES];
	unsigned bound;                  /* axes whose base and n are final */
	const struct ix *base[MAX_AXES]; /* first point of the tile or step */
	int n[MAX_AXES];                 /* points (vectors on the lane axis) in it */
	bool last_masked;                /* the lane axis' last vector is partial */
	int rests;                       /* axes that are in a smaller last tile of many */
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
	const struct ix *high[MAX_AXES];                /* RED_OUTER's variable */
	const struct ix *par[2 * MAX_AXES];             /* indices of parallel loops */
	const struct ix *part;                          /* of a split reduction */
	int bias;                                       /* read that sums begin with, -1: 0 */
	struct prog post;                               /* what remains to be done with a sum */
	struct panel_ahead ahead;                       /* where s->prefetch */
	struct feed feed;                               /* where s->feed */
	int next_rows; /* read of what a ring's first stage copies, whose next rows are fetched; -1 */
	bool edge;     /* inside of a tile with guards */
	int npoints, nacc;
	int *acc;          /* npoints * chains */
	int step;          /* unrolled steps so far, for chains */
	int nknown, floor; /* those below `floor` are of other points */
	struct known *known;
};

/* lower_addr.c */
const struct ix *axis_value(const struct nest *k, int axis, int at);
struct mem nest_mem(const struct nest *k, int read /* nreads: out */, const int *at, int lanes);
int nest_load(struct nest *k, int read, const int *at, int lanes);
int nest_const(struct nest *k, float imm, int lanes);
void nest_transpose(struct loops *l, int *row, int n);                       /* n variables of n lanes */
const struct ix *nest_inside(const struct nest *k, int read, const int *at); /* 0 or 1: in memory */
const struct ix *nest_interior(const struct nest *k); /* 0 or 1: no read of this tile leaves memory */
/* Fetches the lines of the next panel that are due with step `step` of `steps` of the body. */
void nest_fetch(struct nest *k, int step, int steps);
/* Where k->next_rows: fetches what the rows of the next step take the place of for this tile. */
void nest_fetch_rows(struct nest *k);
/* Loads what does not change any more into variables. */
void nest_hoist(struct nest *k);

/* lower_tile.c */
void nest_tile(struct nest *k);                        /* the whole tile: start, reduction, post, stores */
void nest_steps(struct nest *k);                       /* one body of the reduction */
int nest_post(struct nest *k, const int *at, int acc); /* the stage's result for the sum `acc` */
enum vop nest_combiner(const struct nest *k);          /* of two of the stage's sums */
/* The body is 0 where its vector loads along the lane axis are 0: a sum needs no mask at the end. */
bool lower_zero_safe(const struct nest *k);

/* lower_post.c: the stage's program over sums that are at place(at), in a loop over an axis of the tile whose
 * points begin at `first`. */
void nest_post_loop(struct nest *k, int axis,
		    struct mem (*place)(const struct nest *k, const int *at, const struct ix *first));

/* lower_feed.c: fetches what is due of inputs with one body of the reduction. */
void nest_feed(struct nest *k);

/* lower_across.c: lanes of the points' sums, acc[point * chains], into one. True: their results are stored;
 * false: they are in acc[point * chains]. */
bool nest_across(struct nest *k);

/* lower_turn.c */
void nest_turn(struct nest *k);         /* post and stores of a tile, where k->turn */
bool nest_weaves(const struct nest *k); /* the tile has all points of the woven axis */
void nest_weave(struct nest *k);        /* then: post and stores of its sums */
/* Stores the vectors of the points along the woven axis that begin at at[], which lie in memory in turn. */
void nest_lace(struct nest *k, const int *at, const int *point);

/* lower.c */
/* Hands out scratch, 64-byte aligned: the offset of the first element. */
const struct ix *lower_scratch(struct lower *w, const struct ix *elems);
void lower_ones(struct lower *w); /* stores the mask of ones, once per parallel index */
/* Strides of the layout of o, without some dims; of `ring_dim` (-1: none) only `held` rows. Returns the
 * number of elements. */
const struct ix *lower_layout(struct lower *w, const struct operand *o, struct lower_place *p,
			      unsigned without, int ring_dim, int64_t held);

/* lower_chain.c */
const struct ix *chain_tmp(struct lower *w, int operand); /* lays it out; returns its elements */
void chain_stages(struct lower *w, struct nest **k);      /* the entry of a task of several stages */

/* lower_winograd.c */
bool winograd_packs(const struct lower *w, int read); /* of the filters */
int winograd_packing(struct lower *w, struct lower_place *p) MUST_CHECK;
void winograd_scratch(struct lower *w);
void winograd_stage(struct nest *k);

/* lower_transform.c: sums of in[] with constant coefficients, m + 2 or m of them, into out[], variables that
 * are new or of in[]. Of the inputs' transform only results in the set `outs`, from in[i] that they need. */
bool transform_input_needs(int m, unsigned outs, int i);
void transform_input(struct loops *l, int m, unsigned outs, const int *in, int *out, int lanes);
/* A filter's row y of m + 2 from its column g[], then that row's points from three of them; both without
 * factors, which a scaled output brings in. */
int transform_filter_row(struct loops *l, int m, int y, const int g[3], int lanes);
bool transform_filter_uses(int m, int y, int r); /* g[r], for row y */
void transform_filter(struct loops *l, int m, const int *in, int *out, int lanes);
void transform_output(struct loops *l, int m, bool scaled, const int *in, int *out, int lanes);

/* lower_nest.c */
/* A run of equal tiles along one axis: tile t of `count` starts at start + t * n * unit. */
struct run {
	const struct ix *start, *count;
	int n;       /* points, or vectors on the lane axis */
	bool masked; /* the last vector is partial */
	bool main;
};
enum { MAX_RUNS = 3 };

/* What is undone when a scope ends. */
struct scope {
	int nknown, hoisted;
};

void nest_stage(struct nest *k);
int nest_unit(const struct nest *k, int axis); /* points that a tile's number counts: lanes, or 1 */
int nest_runs(const struct nest *k, int axis, int tile, struct run r[MAX_RUNS]); /* returns their number */
const struct ix *nest_run_base(const struct nest *k, int axis, const struct run *r, const struct ix *t);
struct scope nest_enter(const struct nest *k);
void nest_leave(struct nest *k, struct scope s);
void nest_bind(struct nest *k, int axis, const struct ix *base, int n, bool masked);
void nest_unbind(struct nest *k, int axis);

/* lower_reduce.c */
void nest_list_reductions(struct nest *k);
void nest_reduce(struct nest *k, int i); /* the loops from the i-th on, and what is in them */
/* Points of the tile or steps of the body in order: at[] over [0, n) of axes [from, to), the lane axis
 * fastest. */
bool nest_next(const struct nest *k, int from, int to, int *at);

#endif
