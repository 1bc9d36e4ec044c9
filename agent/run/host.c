/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_parts.h"

#include <string.h>

enum {
	MOST_DELTAS = 1 << 24, /* reduction points that have a row of tables: 128 MiB each */
	MOST_ROWS = 1 << 20,   /* values of spatial axes that have tables of offsets */
	WEIGHTS_RUN = 32       /* a run of constants alone that crosses blocks */
};

int host_entries(const struct host_task *h)
{
	return h->t->nstages;
}

int64_t host_extent(const struct host_task *h, int entry)
{
	return h->stage[entry].extent;
}

/* Returns what dim d at logical index i adds to an offset. */
static int64_t dim_offset(const struct operand *o, int d, int64_t i)
{
	struct phys_axis ax[MAX_SPLITS];
	return host_offset(ax, operand_axes(o, ax), o, d, i);
}

/* Finds which kinds of axes an index has, and whether the run's axis is among them. */
static void kinds(const struct hstage *h, const struct index *x, bool *spatial, bool *reduction, bool *run)
{
	*spatial = *reduction = false;
	for (int a = 0; a < h->s->naxes; a++)
		if (x->coef[a])
			*(h->s->axis[a].kind == AXIS_SPATIAL ? spatial : reduction) = true;
	*run = h->axis >= 0 && x->coef[h->axis] != 0;
}

bool host_is_split(const struct operand *o, int d)
{
	int n = 0;
	for (int j = 0; j < o->layout.n; j++)
		n += o->layout.ax[j].dim == d;
	return n > 1;
}

/* Whether an index is a sum of what each axis adds: it is not divided, or all axes but one add multiples of
 * the divisor. */
static bool is_sum(const struct hstage *h, const struct index *x)
{
	int odd = 0;
	for (int a = 0; a < h->s->naxes && x->div > 1; a++)
		odd += x->coef[a] % x->div != 0;
	return x->mod <= 1 && x->table < 0 && odd <= 1;
}

/* Offset step of dim d per step of the run; false: not constant along a run. */
static bool run_step(const struct hstage *h, struct view *v, int d, int64_t *step)
{
	const struct index *x = &v->r->dim[d];
	int64_t c = x->coef[h->axis];
	if (!is_sum(h, x) || (x->div > 1 && c % x->div))
		return false;
	c = x->div > 1 ? c / x->div : c;
	if (!host_is_split(v->o, d)) {
		*step += c * (dim_offset(v->o, d, 1) - dim_offset(v->o, d, 0));
		return true;
	}
	int block = 0;
	for (int j = 0; j < v->o->layout.n; j++)
		if (v->o->layout.ax[j].dim == d && v->o->layout.ax[j].div > 1)
			block = v->o->layout.ax[j].div;
	for (int a = 0; a < h->s->naxes; a++)
		if (x->coef[a] && a != h->axis)
			return false;
	*step += dim_offset(v->o, d, 1) - dim_offset(v->o, d, 0);
	bool whole = block >= h->s->axis[h->axis].extent;
	if (c != 1 || x->off || block <= 0 || (!whole && block % h->run && h->run % block))
		return false;
	v->padded = block % h->pitch == 0 && (whole || h->run == h->pitch);
	if (block < h->run && !whole) {
		v->block = block;
		v->block_step = dim_offset(v->o, d, block) - dim_offset(v->o, d, 0);
	}
	return true;
}

/* Decides whether a read is fast, and its guards. */
static void classify(const struct task *t, struct hstage *h, struct view *v)
{
	v->fast = h->points <= MOST_DELTAS;
	v->step = 0;
	for (int d = 0; d < v->o->dims.rank && v->fast; d++) {
		const struct index *x = &v->r->dim[d];
		bool spatial, reduction, run, plain = is_sum(h, x);
		kinds(h, x, &spatial, &reduction, &run);
		struct read r = *v->r;
		bool guarded = x->table >= 0 || index_guarded(t, h->s, &r, d);
		if (spatial && reduction && (!plain || host_is_split(v->o, d)))
			v->fast = false;
		if (run && !run_step(h, v, d, &v->step))
			v->gather = true;
		if (guarded && (!spatial || v->nguards == GUARDS))
			v->fast = false;
		else if (guarded)
			v->guard_dim[v->nguards++] = d;
		if (guarded && run)
			v->gather = v->edge = true;
	}
}

static int make_deltas(struct hstage *h, struct view *v, struct arena *a)
{
	int64_t at[MAX_AXES] = {0}, zero[MAX_AXES] = {0};
	v->delta = arena_try(a, (size_t)h->points, sizeof *v->delta);
	for (int g = 0; g < v->nguards; g++)
		if (!(v->guard_delta[g] = arena_try(a, (size_t)h->points, sizeof(int64_t))))
			return E_NOMEM;
	if (!v->delta)
		return E_NOMEM;
	for (int64_t p = 0; p < h->points; p++) {
		for (int d = 0; d < v->o->dims.rank; d++) {
			const struct index *x = &v->r->dim[d];
			bool spatial, reduction, run;
			kinds(h, x, &spatial, &reduction, &run);
			if (!reduction)
				continue;
			int64_t i = index_value(h->s, x, NULL, at), i0 = index_value(h->s, x, NULL, zero);
			v->delta[p] += spatial ? (i - i0) * (dim_offset(v->o, d, 1) - dim_offset(v->o, d, 0))
					       : dim_offset(v->o, d, i) - dim_offset(v->o, d, i0);
			for (int g = 0; g < v->nguards; g++)
				if (v->guard_dim[g] == d)
					v->guard_delta[g][p] = i - i0;
		}
		for (int b = h->s->naxes - 1; b >= h->nspatial && ++at[b] == h->s->axis[b].extent; b--)
			at[b] = 0;
	}
	return E_OK;
}

static bool uses_axis(const struct read *r, const struct operand *o, int a)
{
	for (int d = 0; d < o->dims.rank; d++)
		if (r->dim[d].coef[a])
			return true;
	return false;
}

/* The reads whose product or value is summed: 2, 1, or 0 if the body is another program. */
static int factors(const struct hstage *h)
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

/* The axis that is innermost in the output's memory, and the length of a run along it; -1: none. */
static int innermost(const struct hstage *h, int64_t *run)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(h->out, ax);
	for (int j = n - 1; j >= 0; j--)
		for (int a = 0; a < h->nspatial; a++)
			if (h->s->out.dim[ax[j].dim].coef[a] == 1 && h->s->axis[a].extent > 1 &&
			    (!host_is_split(h->out, ax[j].dim) ||
			     index_axis(h->s, &h->s->out.dim[ax[j].dim]) == a)) {
				*run = ax[j].mod ? ax[j].mod : RUN;
				return a;
			}
	return -1;
}

/* How well vectors along axis a serve a product: whole vectors, of one factor alone, that lie in sequence or
 * can be packed. 0: not at all. */
static double rate_axis(const struct host_task *t, const struct hstage *h, int a)
{
	int64_t n = h->s->axis[a].extent, whole = (n + h->lanes - 1) / h->lanes * h->lanes;
	double rate = (double)n / (double)whole;
	int users = 0;
	for (int d = 0; d < h->out->dims.rank; d++)
		if (h->s->out.dim[d].coef[a] && host_is_split(h->out, d))
			return 0;
	for (int i = 0; i < 2; i++) {
		const struct read *r = &h->s->read[i];
		const struct operand *o = &t->operand[r->operand];
		if (!uses_axis(r, o, a))
			continue;
		users++;
		bool packs = o->role == ROLE_CONST, last = r->dim[o->dims.rank - 1].coef[a] == 1;
		rate *= packs || last ? 1 : 0.6;
	}
	return users == 1 ? rate : users == 2 ? 0.3 * rate : 0;
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

/* Whether only constants of a product lie along the run: they are packed, so that a run may cross the blocks
 * of the output. */
static bool weights_run(const struct host_task *t, const struct hstage *h)
{
	bool constant = false, other = false;
	for (int i = 0; i < 2 && factors(h) == 2; i++) {
		const struct operand *o = &t->operand[h->s->read[i].operand];
		if (uses_axis(&h->s->read[i], o, h->axis))
			*(o->role == ROLE_CONST && !o->layout.n ? &constant : &other) = true;
	}
	return constant && !other;
}

/* The run's axis: the one with the smallest step in the output's memory. A product of a plain output may do
 * better along another one. */
static void choose_run(const struct host_task *t, struct hstage *h)
{
	h->run = 1;
	h->lanes = tile_lanes();
	h->axis = innermost(h, &h->run);
	bool blocked = h->axis >= 0 && h->run < RUN;
	if (h->axis < 0)
		h->axis = h->nspatial ? h->nspatial - 1 : -1;
	else if (!blocked && factors(h) == 2) {
		/* other axes store element by element, which costs as much as some 48 points */
		double best = rate_axis(t, h, h->axis), apart = (double)h->points / (double)(h->points + 48);
		for (int a = 0; a < h->nspatial; a++) {
			double rate = rate_axis(t, h, a) * apart;
			if (rate > best) {
				best = rate;
				h->axis = a;
			}
		}
	}
	int64_t extent = h->axis < 0 ? 1 : h->s->axis[h->axis].extent, block = h->run;
	h->run = h->run > RUN ? RUN : h->run;
	for (int i = 0; i < h->s->nreads && h->axis >= 0; i++)
		h->run = shorter_run(h, &h->s->read[i], &t->operand[h->s->read[i].operand]);
	h->run = !blocked && h->run > extent ? extent : h->run;
	if (blocked && WEIGHTS_RUN % block == 0 && block % h->run == 0 && weights_run(t, h))
		h->run = extent < WEIGHTS_RUN ? (extent + block - 1) / block * block : WEIGHTS_RUN;
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
			bool uses = a == h->axis || shared < 0 ||
				    uses_axis(&h->s->read[shared], h->view[shared].o, a);
			if (uses != (bool)used)
				continue;
			h->order[n++] = a;
			inner *= used ? 1 : h->s->axis[a].extent;
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

/* Decides how rows are computed, and orders them so that those that share a factor follow each other. */
static void choose_how(struct hstage *h)
{
	int n = factors(h);
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
		along[i] = uses_axis(&h->s->read[i], h->view[i].o, h->axis);
	if (along[0] != along[1]) {
		int vectors = along[1], scalars = !vectors;
		const struct view *v = &h->view[vectors], *s = &h->view[scalars];
		h->how = BY_OUTER;
		h->shared = vectors;
		h->own = scalars;
		h->inner = order_rows(h, vectors);
		if (h->inner >= 3 || h->run < h->lanes || !is_direct(v) || v->step <= 0 || !is_direct(s) ||
		    s->nguards)
			return;
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

/* Adds to table[a] what each value of a spatial axis adds to dim d's index, or to its offset. */
static int add_table(const struct hstage *h, const struct view *v, int d, bool offsets, struct arena *a,
		     int64_t *table[MAX_AXES])
{
	int64_t at[MAX_AXES] = {0};
	const struct index *x = &v->r->dim[d];
	bool linear = !host_is_split(v->o, d) && is_sum(h, x);
	int64_t i0 = index_value(h->s, x, NULL, at), one = dim_offset(v->o, d, 1) - dim_offset(v->o, d, 0);
	for (int b = 0; b < h->nspatial; b++) {
		if (!x->coef[b])
			continue;
		if (!table[b])
			table[b] = arena_try(a, (size_t)h->s->axis[b].extent, sizeof(int64_t));
		if (!table[b])
			return E_NOMEM;
		for (int64_t k = 0; k < h->s->axis[b].extent; k++) {
			at[b] = k;
			int64_t i = index_value(h->s, x, NULL, at);
			table[b][k] += !offsets ? i - i0
				       : linear ? (i - i0) * one
						: dim_offset(v->o, d, i) - dim_offset(v->o, d, i0);
		}
		at[b] = 0;
	}
	return E_OK;
}

/* Makes the tables of rows' offsets, if each dim is linear or of one spatial axis alone. */
static int make_tables(const struct hstage *h, struct view *v, struct arena *a)
{
	int64_t zero[MAX_AXES] = {0}, entries = 0;
	int rc = E_OK;
	for (int b = 0; b < h->nspatial; b++)
		entries += h->s->axis[b].extent;
	bool good = entries <= MOST_ROWS;
	for (int d = 0; d < v->o->dims.rank && good; d++) {
		const struct index *x = &v->r->dim[d];
		int axes = 0;
		for (int b = 0; b < h->nspatial; b++)
			axes += x->coef[b] != 0;
		bool linear = !host_is_split(v->o, d) && is_sum(h, x);
		good = x->table < 0 && (linear || axes <= 1);
	}
	v->tabled = good;
	for (int d = 0, g = 0; d < v->o->dims.rank && rc >= 0 && good; d++) {
		int64_t i0 = index_value(h->s, &v->r->dim[d], NULL, zero);
		bool linear = !host_is_split(v->o, d);
		v->base +=
		    linear ? dim_offset(v->o, d, 0) + i0 * (dim_offset(v->o, d, 1) - dim_offset(v->o, d, 0))
			   : dim_offset(v->o, d, i0);
		rc = add_table(h, v, d, true, a, v->table);
		if (rc >= 0 && g < v->nguards && v->guard_dim[g] == d) {
			v->guard_base[g] = i0;
			rc = add_table(h, v, d, false, a, v->guard_table[g++]);
		}
	}
	return rc;
}

static void add_split(struct layout *l, int dim, int div)
{
	l->ax[l->n].dim = (uint8_t)dim;
	l->ax[l->n++].div = div;
}

/* A constant of a product is packed in runs: those of all reduction points follow each other, and the last
 * run is padded to whole vectors. Any other constant that the run crosses in steps other than 1 is packed
 * with that dim innermost. */
static void choose_packing(const struct hstage *h, enum host_use use, const struct read *r, struct operand *o)
{
	int along = -1, used = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		for (int a = 0; a < h->s->naxes; a++)
			used += h->s->axis[a].kind == AXIS_REDUCTION && r->dim[d].coef[a];
		if (h->axis >= 0 && r->dim[d].coef[h->axis] == 1)
			along = along < 0 ? d : -2;
	}
	if (o->role != ROLE_CONST || o->dtype != DT_F32 || along < 0 || o->layout.n)
		return;
	bool runs = use == HOST_RUNS && used && factors(h) == 2 && o->dims.rank < MAX_SPLITS && o->dims.d[along] != h->pitch &&
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

/* Finds the step that a table adds from row to row along axis a; false: the steps differ. */
static bool even_step(const struct hstage *h, const int64_t *table, int a, int64_t *step)
{
	int64_t by = a == h->axis ? h->run : 1;
	*step = table && h->s->axis[a].extent > by ? table[by] - table[0] : 0;
	for (int64_t i = by; table && i < h->s->axis[a].extent; i += by)
		if (table[i] - table[i - by] != *step)
			return false;
	return true;
}

/* Finds whether a view's offsets grow evenly from row to row; call it when the rows' order is chosen. */
static void find_step(const struct hstage *h, struct view *v)
{
	int a = h->nspatial ? h->order[h->nspatial - 1] : -1;
	v->even = v->tabled && a >= 0 && even_step(h, v->table[a], a, &v->next);
	for (int g = 0; g < v->nguards && v->even; g++)
		v->even = even_step(h, v->guard_table[g][a], a, &v->guard_next[g]);
}

bool host_suits(const struct task *t)
{
	/* Convolutions of five networks, with AVX-512, against fallback kernels: as fast from 512 points
	 * on, 1.3 times as fast from 1,024, 1.8 times from 2,048. */
	enum { POINTS = 512, LANES = TILE_LANES, SHARE = 4 };
	const struct hstage h = {.s = &t->stage[0]};
	int64_t points = 1, lanes[2] = {1, 1}, all = 1;
	if (t->nstages != 1 || factors(&h) != 2)
		return false;
	for (int a = 0; a < h.s->naxes; a++) {
		int64_t n = h.s->axis[a].extent;
		if (h.s->axis[a].kind == AXIS_REDUCTION) {
			points *= n;
			continue;
		}
		all *= n;
		for (int i = 0; i < 2; i++)
			lanes[i] *= uses_axis(&h.s->read[i], &t->operand[h.s->read[i].operand], a) ? n : 1;
	}
	for (int i = 0; i < 2; i++)
		if (t->operand[h.s->read[i].operand].role == ROLE_CONST && points >= POINTS &&
		    lanes[i] >= LANES && all / lanes[i] >= SHARE && lanes[!i] * lanes[i] == all)
			return true;
	return false;
}

/* Makes a phase ready whose stage is set; `alone`: constants may be packed as it wants them. */
static int make_part(struct host_task *h, struct hstage *s, bool alone, struct arena *a)
{
	int rc;
	s->out = &h->operand[s->s->out.operand];
	s->points = 1;
	for (int x = 0; x < s->s->naxes; x++) {
		s->nspatial += s->s->axis[x].kind == AXIS_SPATIAL;
		s->points *= s->s->axis[x].kind == AXIS_REDUCTION ? s->s->axis[x].extent : 1;
	}
	choose_run(h, s);
	s->extent = 1;
	for (int x = 0; x < s->nspatial; x++)
		s->extent *=
		    x == s->axis ? (s->s->axis[x].extent + s->run - 1) / s->run : s->s->axis[x].extent;
	for (int i = 0; i < s->s->nreads; i++)
		if (alone)
			choose_packing(s, h->use, &s->s->read[i], &h->operand[s->s->read[i].operand]);
	struct view out = {.r = &s->s->out, .o = s->out};
	if (s->axis >= 0)
		for (int d = 0; d < s->out->dims.rank; d++)
			if (out.r->dim[d].coef[s->axis])
				(void)run_step(s, &out, d, &s->out_step);
	out.naxes = operand_axes(out.o, out.ax);
	s->to = out;
	rc = make_tables(s, &s->to, a);
	for (int i = 0; i < s->s->nreads && rc >= 0; i++) {
		struct view *v = &s->view[i];
		v->r = &s->s->read[i];
		v->o = &h->operand[v->r->operand];
		v->naxes = operand_axes(v->o, v->ax);
		classify(h->t, s, v);
		if (v->fast)
			rc = make_tables(s, v, a);
		v->fast &= !v->gather || (v->tabled && !v->block && v->table[s->axis]);
		v->gather &= v->fast;
		if (v->fast && rc >= 0)
			rc = make_deltas(s, v, a);
	}
	if (rc < 0)
		return rc;
	choose_how(s);
	find_step(s, &s->to);
	for (int i = 0; i < s->s->nreads; i++) {
		s->slow |= !s->view[i].fast;
		find_step(s, &s->view[i]);
	}
	return E_OK;
}

static int make_stage(struct host_task *h, int k, struct arena *a)
{
	const struct stage *s;
	struct flat *flat;
	struct phases *to = &h->stage[k];
	int rc = flat_make(h->t, k, h->operand, h->t->nstages == 1, a, &flat);
	to->n = rc < 0 || flat ? 1 : host_phases(h->t, k, a, &s);
	if (rc < 0 || to->n < 0)
		return rc < 0 ? rc : to->n;
	to->part = arena_try(a, (size_t)to->n, sizeof *to->part);
	if (!to->part)
		return E_NOMEM;
	if (flat) {
		*to->part = (struct hstage){.s = &h->t->stage[k], .flat = flat};
		to->extent = to->part->extent = flat_extent(flat);
		return E_OK;
	}
	for (int i = 0; i < to->n && rc >= 0; i++) {
		to->part[i].s = &s[i];
		rc = make_part(h, &to->part[i], h->t->nstages == 1, a);
		to->extent += to->part[i].extent;
	}
	return rc;
}

int host_make(const struct task *t, enum host_use use, struct arena *a, struct operand packed[MAX_OPERANDS],
	      struct host_task **out)
{
	struct host_task *h = arena_try(a, 1, sizeof *h);
	if (!h)
		return E_NOMEM;
	h->t = t;
	h->use = use;
	memcpy(h->operand, t->operand, sizeof h->operand);
	int rc = E_OK;
	for (int k = 0; k < t->nstages && rc >= 0; k++)
		rc = make_stage(h, k, a);
	memcpy(packed, h->operand, sizeof h->operand);
	*out = h;
	return rc;
}
