/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_parts.h"

#include <string.h>

enum { MOST_DELTAS = 1 << 24 }; /* reduction points that have a row of tables: 128 MiB each */

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

/* Offset step of dim d per step of the run; false: not constant along a run. */
static bool run_step(const struct hstage *h, const struct view *v, int d, int64_t *step)
{
	const struct index *x = &v->r->dim[d];
	int64_t c = x->coef[h->axis];
	if (x->div > 1 || x->mod > 1 || x->table >= 0)
		return false;
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
	return c == 1 && !x->off && block % h->run == 0;
}

/* Decides whether a read is fast, and its guards. */
static void classify(const struct task *t, struct hstage *h, struct view *v)
{
	v->fast = h->points <= MOST_DELTAS;
	v->step = 0;
	for (int d = 0; d < v->o->dims.rank && v->fast; d++) {
		const struct index *x = &v->r->dim[d];
		bool spatial, reduction, run, plain = x->div <= 1 && x->mod <= 1 && x->table < 0;
		kinds(h, x, &spatial, &reduction, &run);
		struct read r = *v->r;
		bool guarded = x->table >= 0 || index_guarded(t, h->s, &r, d);
		if (spatial && reduction && (!plain || host_is_split(v->o, d)))
			v->fast = false;
		if (run && !run_step(h, v, d, &v->step))
			v->fast = false;
		if (guarded && (run || !spatial || v->nguards == GUARDS))
			v->fast = false;
		else if (guarded)
			v->guard_dim[v->nguards++] = d;
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

/* The run's axis: the one with the smallest step in the output's memory. */
static void choose_run(struct hstage *h)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(h->out, ax);
	h->axis = -1;
	for (int j = n - 1; j >= 0 && h->axis < 0; j--)
		for (int a = 0; a < h->nspatial; a++)
			if (h->s->out.dim[ax[j].dim].coef[a] == 1 && h->s->axis[a].extent > 1) {
				h->axis = a;
				h->run = ax[j].mod ? ax[j].mod : RUN;
			}
	if (h->axis < 0) {
		h->axis = h->nspatial ? h->nspatial - 1 : -1;
		h->run = 1;
	}
	int64_t extent = h->axis < 0 ? 1 : h->s->axis[h->axis].extent;
	h->run = h->run > RUN ? RUN : h->run;
	h->run = !host_is_split(h->out, 1) && h->run > extent ? extent : h->run;
}

/* A constant that the run crosses in steps other than 1 is packed with that dim innermost. */
static void choose_packing(const struct hstage *h, const struct read *r, struct operand *o)
{
	int along = -1;
	for (int d = 0; d < o->dims.rank; d++)
		if (h->axis >= 0 && r->dim[d].coef[h->axis] == 1)
			along = along < 0 ? d : -2;
	if (o->role != ROLE_CONST || o->dtype != DT_F32 || along < 0 || o->layout.n ||
	    along == o->dims.rank - 1)
		return;
	for (int d = 0; d < o->dims.rank; d++) {
		if (d == along)
			continue;
		o->layout.ax[o->layout.n].dim = (uint8_t)d;
		o->layout.ax[o->layout.n++].div = 1;
	}
	o->layout.ax[o->layout.n].dim = (uint8_t)along;
	o->layout.ax[o->layout.n++].div = 1;
}

static int make_stage(struct host_task *h, int k, struct arena *a)
{
	struct hstage *s = &h->stage[k];
	s->s = &h->t->stage[k];
	s->out = &h->operand[s->s->out.operand];
	int rc = flat_make(h->t, k, h->operand, h->t->nstages == 1, a, &s->flat);
	if (rc < 0 || s->flat) {
		s->extent = s->flat ? flat_extent(s->flat) : 0;
		return rc;
	}
	s->points = 1;
	for (int x = 0; x < s->s->naxes; x++) {
		s->nspatial += s->s->axis[x].kind == AXIS_SPATIAL;
		s->points *= s->s->axis[x].kind == AXIS_REDUCTION ? s->s->axis[x].extent : 1;
	}
	choose_run(s);
	s->extent = 1;
	for (int x = 0; x < s->nspatial; x++)
		s->extent *=
		    x == s->axis ? (s->s->axis[x].extent + s->run - 1) / s->run : s->s->axis[x].extent;
	for (int i = 0; i < s->s->nreads; i++)
		if (k == 0 && h->t->nstages == 1)
			choose_packing(s, &s->s->read[i], &h->operand[s->s->read[i].operand]);
	struct view out = {.r = &s->s->out, .o = s->out};
	if (s->axis >= 0)
		for (int d = 0; d < s->out->dims.rank; d++)
			if (out.r->dim[d].coef[s->axis])
				(void)run_step(s, &out, d, &s->out_step);
	out.naxes = operand_axes(out.o, out.ax);
	s->to = out;
	for (int i = 0; i < s->s->nreads && rc >= 0; i++) {
		struct view *v = &s->view[i];
		v->r = &s->s->read[i];
		v->o = &h->operand[v->r->operand];
		v->naxes = operand_axes(v->o, v->ax);
		classify(h->t, s, v);
		if (v->fast)
			rc = make_deltas(s, v, a);
	}
	const struct prog *b = &s->s->body;
	s->product = s->s->comb == COMB_SUM && b->n == 3 && b->at[0].op == P_READ && b->at[1].op == P_READ &&
		     b->at[2].op == P_MUL && b->at[0].arg == 0 && b->at[1].arg == 1 && s->view[0].fast &&
		     s->view[1].fast;
	return rc;
}

int host_make(const struct task *t, struct arena *a, struct operand packed[MAX_OPERANDS],
	      struct host_task **out)
{
	struct host_task *h = arena_try(a, 1, sizeof *h);
	if (!h)
		return E_NOMEM;
	h->t = t;
	memcpy(h->operand, t->operand, sizeof h->operand);
	int rc = E_OK;
	for (int k = 0; k < t->nstages && rc >= 0; k++)
		rc = make_stage(h, k, a);
	memcpy(packed, h->operand, sizeof h->operand);
	*out = h;
	return rc;
}
