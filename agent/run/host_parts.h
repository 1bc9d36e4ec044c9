/* SPDX-License-Identifier: Apache-2.0 */
/* Structures and functions that the files of the portable path share. host.c makes stages ready with
 * host_phases.c (divides a stage into parts), host_choose.c (decides), host_view.c (makes tables of offsets)
 * and host_prog.c (makes programs); host_run.c runs them. */
#ifndef AGENT_HOST_PARTS_H
#define AGENT_HOST_PARTS_H

#include "agent/run/host.h"
#include "agent/run/host_flat.h"
#include "agent/run/host_prog.h"
#include "agent/run/host_tile.h"
#include "kernels/task/reference.h"

enum {
	RUN = TILE_WIDTH,  /* longest run */
	ROWS = 32,         /* rows that a program runs on at once: fewer, if they do not fit HOST_BLOCK */
	GUARDS = 3,        /* guarded dims of a read that is fast */
	CHUNK = 256,       /* reduction points of a packed panel */
	SEGMENT = RUN * 96 /* accumulators that one panel serves */
};

/* A read. Offset of a row at reduction point p: offset of the row's first element at p = 0, plus delta[p], if
 * every dim is affine or of one kind of axes ("fast"); else element by element. */
struct view {
	const struct read *r;
	const struct operand *o;
	int naxes;
	struct phys_axis ax[MAX_SPLITS];
	bool fast;
	bool gather;        /* fast, but its steps along the run differ: table[run's axis] has the offsets */
	bool edge;          /* gather, and guarded along the run: some elements of a run may be outside */
	int64_t step;       /* elements per step along the run */
	int64_t block;      /* a run crosses blocks of so many elements, ... */
	int64_t block_step; /* ... which lie so far apart; block 0: it does not */
	bool padded;        /* the last run is as long as the others in memory */
	int64_t *delta;     /* per reduction point; NULL: all 0 */
	int nguards, guard_dim[GUARDS];
	int64_t *guard_delta[GUARDS]; /* index of the guarded dim moves by */
	/* Offset of a row: base, plus table[a][i] for each spatial axis a at i; guard indexes alike. NULL
	 * tables: the axis adds nothing. */
	bool tabled;
	int64_t base, *table[MAX_AXES];
	int64_t guard_base[GUARDS], *guard_table[GUARDS][MAX_AXES];
	int64_t point_step; /* BY_POINTS: elements per step of the innermost reduction axis, 0 or 1 */
	bool even; /* `edge`, but the offset grows by `step` along the run, and guarded indexes by guard_step
		      >= 0 */
	int64_t guard_step[GUARDS];
};

/* How the rows of a stage are computed. */
enum how {
	BY_PROGRAM, /* any program: interpreted at each reduction point */
	BY_OUTER, /* sum of products: rows share a vector of one factor, the other is a scalar of each row */
	BY_ROWS,  /* sum of products: rows share one factor, the other is a vector of each row */
	BY_FOLD,  /* one read, combined */
	BY_POINTS /* any program, over blocks of reduction points in sequence, for one output at a time */
};

struct hstage {
	const struct task *t;
	const struct operand *operand; /* of the task, with constants as they are packed */
	void *const *known;            /* while it is made: contents of tables that are known, by operand */
	const struct stage *s;
	int nspatial, axis; /* axis: the run's */
	/* Spatial axes that the run's axis counts as well, outermost first. */
	int nmerged, merged[MAX_AXES];
	int64_t size[MAX_AXES]; /* values that rows count of each spatial axis; of a merged one 1 */
	int64_t run, extent, points;
	int lanes, pitch;    /* of a vector; run, in whole vectors */
	int order[MAX_AXES]; /* spatial axes as rows count them, innermost last */
	int line;  /* the innermost of these along which there are several rows; -1: there is none */
	bool slow; /* a read goes element by element */
	struct view view[MAX_OPERANDS];
	const struct operand *out;
	struct view to; /* of the output; `step` and `gather` are along the run */
	enum how how;
	int shared, own; /* reads: the factor that rows share, and the other */
	int64_t inner;   /* rows in sequence that share it */
	int64_t alike; /* outer products in sequence that have their scalars in common, and are small; or 0 */
	struct host_prog body, post;
	struct flat *flat; /* if set, only s and extent of the above are used */
};

/* A stage as parts whose rows are regular, one behind the other. */
struct phases {
	int n;
	struct hstage *part;
	int64_t extent;
};

struct host_task {
	const struct task *t;
	enum host_use use;
	int lanes;
	void *known[MAX_OPERANDS];
	struct operand operand[MAX_OPERANDS]; /* with constants as they are packed */
	struct phases stage[MAX_STAGES];
	bool exact; /* by the reference; of the above, only t and each stage's extent are used */
	struct ref_sum *sum[MAX_STAGES];
};

/* The part of an offset that dim d gives at logical index i, of n physical axes of o. */
static inline int64_t host_offset(const struct phys_axis *ax, int n, const struct operand *o, int d,
				  int64_t i)
{
	int64_t off = 0;
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != d)
			continue;
		int64_t v = i + o->layout.lo[d];
		if (ax[j].div > 1)
			v /= ax[j].div;
		off += (ax[j].mod ? v % ax[j].mod : v) * ax[j].stride;
	}
	return off;
}

/* Splits the run's axis of `at` into the axes that it counts. */
static inline void host_axes(const struct hstage *h, const int64_t at[MAX_AXES], int64_t out[MAX_AXES])
{
	for (int a = 0; a < h->s->naxes; a++)
		out[a] = at[a];
	int64_t left = h->nmerged ? at[h->axis] : 0;
	for (int k = h->nmerged; k >= 0 && h->nmerged; k--) {
		int a = k == h->nmerged ? h->axis : h->merged[k];
		out[a] = left % h->s->axis[a].extent;
		left /= h->s->axis[a].extent;
	}
}

/* index_value where `at` counts as rows do. */
static inline int64_t host_index(const struct hstage *h, const struct index *x, void *const *bufs,
				 const int64_t at[MAX_AXES])
{
	int64_t axes[MAX_AXES];
	if (!h->nmerged)
		return index_value(h->s, x, bufs, at);
	host_axes(h, at, axes);
	return index_value(h->s, x, bufs, axes);
}

/* Whether an index depends on an axis as rows count it. */
static inline bool host_uses(const struct hstage *h, const struct index *x, int a)
{
	bool uses = x->coef[a] != 0;
	for (int k = 0; a == h->axis && k < h->nmerged; k++)
		uses |= x->coef[h->merged[k]] != 0;
	return uses;
}

/* The phases of stage k, in the arena; *out is the stage itself if it has one phase. Returns their number. */
int host_phases(const struct task *t, int k, struct arena *a, const struct stage **out);

/* host_view.c */
bool host_is_split(const struct operand *o, int d); /* dim d is more than one physical axis */
/* Returns the share of logical index i of dim d in an offset. */
int64_t host_dim_offset(const struct operand *o, int d, int64_t i);
/* Whether an index is a sum of what each axis adds: it is not divided, or all axes but one add multiples of
 * the divisor. */
bool host_is_sum(const struct hstage *h, const struct index *x);
/* Whether rows of a read or an output can be found by tables. */
bool host_can_table(const struct hstage *h, const struct read *r, const struct operand *o);
/* Makes the view of a read, and that of the output, when the run is chosen. */
int host_view_make(struct hstage *h, struct view *v, const struct read *r, const struct operand *o,
		   struct arena *a) MUST_CHECK;
int host_view_out(struct hstage *h, struct arena *a) MUST_CHECK;

/* host_choose.c */
/* The reads whose product or value is summed: 2, 1, or 0 if the body is another program. */
int host_factors(const struct hstage *h);
bool host_read_uses(const struct hstage *h, const struct read *r, const struct operand *o, int a);
/* Chooses the run: its axis, the axes merged into it, its length. */
void host_choose_run(struct hstage *h, enum host_use use);
/* Chooses the layout of a constant, when the run is chosen. */
void host_choose_packing(const struct hstage *h, enum host_use use, const struct read *r, struct operand *o);
/* Decides how rows are computed, and orders them, when the views are made. */
void host_choose_how(struct hstage *h);

#endif
