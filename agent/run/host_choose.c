/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of the portable path: along which axes rows run, how they are computed, how constants lie. */
#include "agent/run/host_parts.h"

#include <math.h>

enum {
	MOST_MERGED = 1 << 16 /* values of axes that are merged: each has an entry in tables */
};

bool host_read_uses(const struct hstage *h, const struct read *r, const struct operand *o, int a)
{
	for (int d = 0; d < o->dims.rank; d++)
		if (host_uses(h, &r->dim[d], a))
			return true;
	return false;
}

int host_factors(const struct hstage *h)
{
	const struct prog *b = &h->s->body;
	if (h->s->comb == COMB_NONE || !b->n || b->at[0].op != P_READ || b->at[0].arg != 0)
		return 0;
	if (b->n == 1)
		return 1;
	return h->s->comb == COMB_SUM && b->n == 3 && b->at[1].op == P_READ && b->at[1].arg == 1 &&
		       b->at[2].op == P_MUL
		   ? 2
		   : 0;
}

/* How the elements of a read lie along the run. */
enum lie { LIE_APART, LIE_SEQUENCE, LIE_STEPS /* of 2 */, LIE_THIRDS /* steps of 3 */, LIE_SAME };

/* Returns how far a step along axis a moves the offset of a read or output whose dims are plain. *split: the
 * axis indexes a dim that is split into blocks. */
static int64_t axis_step(const struct hstage *h, const struct read *r, const struct operand *o, int a,
			 bool *split)
{
	int64_t step = 0;
	*split = false;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (!x->coef[a])
			continue;
		*split |= host_is_split(o, d);
		step += x->coef[a] * (host_dim_offset(o, d, 1) - host_dim_offset(o, d, 0)) /
			(x->div > 1 ? x->div : 1);
		if (!host_is_sum(h, x))
			step = INT32_MAX;
	}
	return step;
}

static enum lie lie_of(const struct hstage *h, const struct read *r, const struct operand *o)
{
	bool split, other;
	int64_t step = axis_step(h, r, o, h->axis, &split), size = h->s->axis[h->axis].extent;
	bool even = !split || !h->nmerged, same = !host_read_uses(h, r, o, h->axis);
	for (int k = h->nmerged - 1; k >= 0; k--) {
		int a = h->merged[k];
		even &= axis_step(h, r, o, a, &other) == size * step && !other;
		size *= h->s->axis[a].extent;
	}
	return same        ? LIE_SAME
	       : !even     ? LIE_APART
	       : step == 1 ? LIE_SEQUENCE
	       : step == 2 ? LIE_STEPS
	       : step == 3 ? LIE_THIRDS
			   : LIE_APART;
}

/* Estimates the cycles that loading a vector of such elements takes. */
static double load_cycles(const struct hstage *h, enum lie lie)
{
	const double cycles[] = {2 * h->lanes, 1, 2, 3, 0}; /* in the order of enum lie */
	return cycles[lie];
}

static bool read_guarded(const struct hstage *h, const struct read *r, const struct operand *o)
{
	for (int d = 0; d < o->dims.rank; d++)
		if (index_guarded(h->t, h->s, r, d))
			return true;
	return false;
}

/* Rows that one vector of read i serves. */
static double served_rows(const struct hstage *h, int i)
{
	double rows = 1;
	for (int a = 0; a < h->nspatial; a++)
		if (a != h->axis && !host_read_uses(h, &h->s->read[i], &h->operand[h->s->read[i].operand], a))
			rows *= (double)h->size[a];
	return rows;
}

/* Estimates the cycles of a vector of products at one reduction point. vectors: how many a run has. */
static double point_cycles(const struct hstage *h, double vectors)
{
	enum { ROW = 8, GUARDED = 40, INTERPRETED = 12 };
	enum lie lie[2];
	double load[2], guard[2];
	for (int i = 0; i < 2; i++) {
		const struct read *r = &h->s->read[i];
		const struct operand *o = &h->operand[r->operand];
		lie[i] = lie_of(h, r, o);
		if (o->role == ROLE_CONST && lie[i] != LIE_SAME && !h->nmerged)
			lie[i] = LIE_SEQUENCE; /* it will be packed */
		load[i] = load_cycles(h, lie[i]);
		guard[i] = o->role != ROLE_CONST && read_guarded(h, r, o) ? 1 : 0;
	}
	bool both = lie[0] != LIE_SAME && lie[1] != LIE_SAME;
	if (both) /* rows share the one in sequence; if there is none, a program is interpreted */
		return lie[0] != LIE_SEQUENCE && lie[1] != LIE_SEQUENCE
			   ? INTERPRETED + load[0] + load[1]
			   : .5 + load[0] + load[1] - 1 + 2 * (guard[0] + guard[1]);
	int vector = lie[1] != LIE_SAME, scalar = !vector;
	double rows = served_rows(h, vector), alone = .5 + load[vector] + 2 * guard[vector];
	double pack = (load[vector] + 1) * (guard[vector] ? 4 : 2) + ROW / vectors;
	double outer = .7 + pack / rows + guard[scalar] * GUARDED / 8 / vectors;
	bool direct = lie[vector] == LIE_SEQUENCE && !guard[vector];
	if (direct)
		outer = .7 + (rows < 3 ? 1 : 1 / rows) + guard[scalar] * GUARDED / 8 / vectors;
	return rows < 3 && alone < outer && !h->nmerged ? alone : outer;
}

/* Estimates the cycles of a product for each element of the output, with the run that `h` has. */
static double run_cycles(const struct hstage *h)
{
	enum { PER_ROW = 60 };
	double n = (double)h->size[h->axis], length = n < RUN ? n : RUN;
	double vectors = ceil(length / h->lanes), waste = vectors * h->lanes / length;
	double store = lie_of(h, &h->s->out, h->out) == LIE_SEQUENCE ? 1 : 2.5;
	return (double)h->points * point_cycles(h, vectors) * waste / h->lanes + store + PER_ROW / length;
}

/* Merges axis a into the run's. */
static void merge(struct hstage *h, int a)
{
	for (int k = h->nmerged; k > 0; k--)
		h->merged[k] = h->merged[k - 1];
	h->merged[0] = a;
	h->nmerged++;
	h->size[h->axis] *= h->size[a];
	h->size[a] = 1;
}

/* Starts a choice with axis a alone. */
static void alone(struct hstage *h, int a)
{
	h->axis = a;
	h->nmerged = 0;
	for (int x = 0; x < h->nspatial; x++)
		h->size[x] = h->s->axis[x].extent;
}

static bool split_along(const struct hstage *h, int a)
{
	for (int d = 0; d < h->out->dims.rank; d++)
		if (h->s->out.dim[d].coef[a] && host_is_split(h->out, d))
			return true;
	return false;
}

/* Finds the spatial axis, of those longer than 1, whose step in a plain output is the smallest one above
 * `above`; -1: none. */
static int next_axis(const struct hstage *h, int64_t above, int64_t *step)
{
	int found = -1;
	bool split;
	for (int a = 0; a < h->nspatial; a++) {
		int64_t by = axis_step(h, &h->s->out, h->out, a, &split);
		if (h->s->axis[a].extent > 1 && !split && by > above && (found < 0 || by < *step)) {
			found = a;
			*step = by;
		}
	}
	return found;
}

static bool all_tabled(const struct hstage *h)
{
	for (int i = 0; i < h->s->nreads; i++)
		if (!host_can_table(h, &h->s->read[i], &h->operand[h->s->read[i].operand]))
			return false;
	return host_can_table(h, &h->s->out, h->out);
}

/* Merges the axes around `a` into a run from it while that is shorter than `enough`, as they lie in the
 * output. Returns false when there is no other axis. */
static bool merge_next(struct hstage *h, int64_t *step, int64_t enough)
{
	int a = next_axis(h, *step, step);
	if (a < 0 || h->size[h->axis] >= enough || h->size[h->axis] * h->size[a] > MOST_MERGED)
		return false;
	merge(h, a);
	return all_tabled(h);
}

/* A product of a plain output: each axis, and the output's innermost ones as one. */
static void choose_for_product(struct hstage *h)
{
	struct hstage best = *h, try = *h;
	double least = INFINITY;
	for (int a = 0; a < h->nspatial; a++) {
		alone(&try, a);
		double cycles = split_along(h, a) || h->s->axis[a].extent == 1 ? INFINITY : run_cycles(&try);
		if (cycles < least) {
			least = cycles;
			best = try;
		}
	}
	int64_t step = 0;
	int a = next_axis(h, 0, &step);
	if (a >= 0)
		alone(&try, a);
	while (a >= 0 && merge_next(&try, &step, 4 * RUN)) {
		double cycles = run_cycles(&try);
		if (cycles < least) {
			least = cycles;
			best = try;
		}
	}
	if (least < INFINITY)
		*h = best;
}

/* Any other program: short runs along the output's innermost axis are merged with the next. */
static void choose_merges(struct hstage *h)
{
	enum { SHORT = 12, ENOUGH = 48 };
	struct hstage try = *h;
	bool split;
	int64_t step = axis_step(h, &h->s->out, h->out, h->axis, &split);
	if (split || h->size[h->axis] >= SHORT)
		return;
	while (merge_next(&try, &step, ENOUGH))
		*h = try;
}

/* The axis that is innermost in the output's memory, and the length of a run along it; -1: none. */
static int innermost(const struct hstage *h, int64_t *run)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(h->out, ax);
	for (int j = n - 1; j >= 0; j--)
		for (int a = 0; a < h->nspatial; a++)
			if (h->s->out.dim[ax[j].dim].coef[a] && h->s->axis[a].extent > 1 &&
			    (!host_is_split(h->out, ax[j].dim) ||
			     (index_axis(h->s, &h->s->out.dim[ax[j].dim]) == a &&
			      h->s->out.dim[ax[j].dim].coef[a] == 1))) {
				*run = ax[j].mod ? ax[j].mod : RUN;
				return a;
			}
	return -1;
}

/* A run does not cross the blocks of a read. */
static int64_t shorter_run(const struct hstage *h, const struct read *r, const struct operand *o)
{
	for (int j = 0; j < o->layout.n; j++) {
		int d = o->layout.ax[j].dim;
		if (r->dim[d].coef[h->axis] == 1 && host_is_split(o, d) && o->layout.ax[j].div > 1 &&
		    h->run % o->layout.ax[j].div == 0)
			return o->layout.ax[j].div;
	}
	return h->run;
}

/* Whether a constant can be packed in runs of tile_wide(), or another phase has packed it so. */
static bool packs_runs(const struct hstage *h, const struct operand *o)
{
	int wide = tile_wide(h->lanes), least = wide;
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].div > 1)
			least = o->layout.ax[j].div;
	return o->role == ROLE_CONST && (!o->layout.n || least == wide);
}

/* Whether only constants of a product lie along the run: they are packed, so that a run may cross the blocks
 * of the output. */
static bool weights_run(const struct hstage *h)
{
	bool constant = false, other = false;
	for (int i = 0; i < 2 && host_factors(h) == 2; i++) {
		const struct operand *o = &h->operand[h->s->read[i].operand];
		if (host_read_uses(h, &h->s->read[i], o, h->axis))
			*(packs_runs(h, o) ? &constant : &other) = true;
	}
	return constant && !other;
}

/* The run's axis: the one with the smallest step in the output's memory. A plain output may do better along
 * another one, or along several as one. */
void host_choose_run(struct hstage *h, enum host_use use)
{
	h->run = 1;
	int axis = innermost(h, &h->run);
	bool blocked = axis >= 0 && h->run < RUN;
	alone(h, axis >= 0 ? axis : h->nspatial - 1);
	if (axis >= 0 && !blocked && use == HOST_RUNS) {
		if (host_factors(h) == 2)
			choose_for_product(h);
		else
			choose_merges(h);
	}
	int64_t extent = h->axis < 0 ? 1 : h->size[h->axis], block = h->run, wide = tile_wide(h->lanes);
	h->run = h->run > RUN ? RUN : h->run;
	for (int i = 0; i < h->s->nreads && h->axis >= 0; i++)
		h->run = shorter_run(h, &h->s->read[i], &h->operand[h->s->read[i].operand]);
	h->run = !blocked && h->run > extent ? extent : h->run;
	if (blocked && wide % block == 0 && block % h->run == 0 && weights_run(h))
		h->run = extent < wide ? (extent + block - 1) / block * block : wide;
	h->pitch = (int)(h->run + h->lanes - 1) / h->lanes * h->lanes;
}

/* Rows that one factor serves lie in sequence: the axes that it does not use are innermost. Returns their
 * number of rows. */
static int64_t order_rows(struct hstage *h, int shared)
{
	int n = 0;
	int64_t inner = 1;
	for (int used = 1; used >= 0; used--)
		for (int a = 0; a < h->nspatial; a++) {
			bool uses =
			    shared < 0 || host_read_uses(h, &h->s->read[shared], h->view[shared].o, a);
			if (uses != (bool)used)
				continue;
			h->order[n++] = a;
			inner *= used ? 1 : a == h->axis ? (h->size[a] + h->run - 1) / h->run : h->size[a];
		}
	return inner;
}

/* Whether the read can be the vectors of rows, or what rows share. */
static bool is_direct(const struct view *v)
{
	return v->fast && !v->gather && v->delta && !v->block;
}

static bool is_read(const struct prog *q, int r)
{
	for (int i = 0; i < q->n; i++)
		if (q->at[i].op == P_READ && q->at[i].arg == r)
			return true;
	return false;
}

/* Whether blocks of reduction points lie in sequence in all that the body reads, while outputs do not. */
static bool points_suit(struct hstage *h)
{
	enum { LEAST = 48 }; /* shorter blocks cost more than vectors across outputs */
	int64_t inner = h->s->axis[h->s->naxes - 1].extent;
	bool apart = false;
	if (h->s->comb == COMB_NONE || inner < LEAST)
		return false;
	for (int i = 0; i < h->s->nreads; i++) {
		struct view *v = &h->view[i];
		if (!is_read(&h->s->body, i))
			continue;
		if (!is_direct(v) || v->nguards)
			return false;
		v->point_step = v->delta[1] - v->delta[0];
		if (v->point_step != 0 && v->point_step != 1)
			return false;
		for (int64_t p = 1; p < h->points; p++)
			if (p % inner && v->delta[p] - v->delta[p - 1] != v->point_step)
				return false;
		apart |= v->point_step == 1 && v->step != 1;
	}
	return apart;
}

/* Counts the outer products in sequence that have their scalars in common: they differ in the axes, innermost
 * of those that the vectors use, that the scalars do not use. 0: they are too large to be worked on together,
 * or not direct. */
static int64_t groups_alike(const struct hstage *h)
{
	const struct view *v = &h->view[h->shared], *own = &h->view[h->own];
	int64_t n = 1;
	bool vectors = false;
	if (h->inner > TILE_GROUP_ROWS || h->size[h->axis] > h->lanes || !is_direct(v) || v->step != 1 ||
	    v->nguards || !is_direct(own) || own->nguards)
		return 0;
	for (int k = h->nspatial - 1; k >= 0; k--) {
		int a = h->order[k];
		vectors |= host_read_uses(h, v->r, v->o, a);
		if (vectors && a != h->axis && h->size[a] > 1 && host_read_uses(h, own->r, own->o, a))
			break;
		n *= vectors && a != h->axis ? h->size[a] : 1;
	}
	return n;
}

/* Rows that share a factor follow each other. */
void host_choose_how(struct hstage *h)
{
	int n = host_factors(h);
	h->how = BY_PROGRAM;
	h->shared = h->own = 0;
	h->inner = INT64_MAX;
	(void)order_rows(h, -1);
	if (h->axis < 0)
		return;
	if (n < 2 && points_suit(h)) {
		h->how = BY_POINTS;
		return;
	}
	if (n == 1 && is_direct(&h->view[0]) && h->view[0].step > 0)
		h->how = BY_FOLD;
	if (n < 2)
		return;
	bool along[2];
	for (int i = 0; i < 2; i++)
		along[i] = host_read_uses(h, &h->s->read[i], h->view[i].o, h->axis);
	if (along[0] != along[1]) {
		int vectors = along[1], scalars = !vectors;
		const struct view *v = &h->view[vectors], *s = &h->view[scalars];
		h->how = BY_OUTER;
		h->shared = vectors;
		h->own = scalars;
		h->inner = order_rows(h, vectors);
		h->alike = groups_alike(h);
		if (h->alike > 1 || h->inner >= 3 || !is_direct(v) || v->step <= 0 || !is_direct(s) ||
		    s->nguards)
			return;
		h->alike = 0;
		h->how = BY_ROWS; /* a vector serves too few rows to be packed or loaded for them */
		h->shared = scalars;
		h->own = vectors;
		h->inner = order_rows(h, scalars);
		return;
	}
	for (int i = 0; i < 2 && along[0] && along[1]; i++) {
		const struct view *own = &h->view[!i], *shared = &h->view[i];
		if (!is_direct(own) || !is_direct(shared) || shared->nguards || shared->step != 1 ||
		    own->step <= 0)
			continue;
		int64_t served = order_rows(h, i);
		if (h->how == BY_ROWS && served <= h->inner)
			continue;
		h->how = BY_ROWS;
		h->shared = i;
		h->own = !i;
		h->inner = served;
	}
	(void)order_rows(h, h->how == BY_ROWS ? h->shared : -1);
}

static void add_split(struct layout *l, int dim, int div)
{
	l->ax[l->n].dim = (uint8_t)dim;
	l->ax[l->n++].div = div;
}

/* A constant of a product is packed in runs: those of all reduction points follow each other, and the last
 * run is padded to whole vectors. Any other constant that the run crosses in steps other than 1 is packed
 * with that dim innermost. */
void host_choose_packing(const struct hstage *h, enum host_use use, const struct read *r, struct operand *o)
{
	int along = -1, used = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		for (int a = 0; a < h->s->naxes; a++)
			used += h->s->axis[a].kind == AXIS_REDUCTION && r->dim[d].coef[a];
		if (h->axis >= 0 && r->dim[d].coef[h->axis] == 1)
			along = along == -1 ? d : -2;
	}
	if (o->role != ROLE_CONST || o->dtype != DT_F32 || along < 0 || o->layout.n)
		return;
	bool runs = use == HOST_RUNS && used && host_factors(h) == 2 && o->dims.rank < MAX_SPLITS &&
		    o->dims.d[along] != h->pitch && !h->nmerged &&
		    index_axis(h->s, &r->dim[along]) == h->axis;
	if (!runs && along == o->dims.rank - 1)
		return;
	if (runs)
		add_split(&o->layout, along, h->pitch);
	for (int d = 0; d < o->dims.rank; d++)
		if (d != along)
			add_split(&o->layout, d, 1);
	add_split(&o->layout, along, 1);
}
