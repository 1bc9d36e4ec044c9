/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of offsets by which the portable path finds the elements of a read or an output. */
#include "agent/run/host_parts.h"

enum {
	MOST_DELTAS = 1 << 24, /* reduction points that have a row of tables: 128 MiB each */
	MOST_ROWS = 1 << 20    /* values of spatial axes that have tables of offsets */
};

int64_t host_dim_offset(const struct operand *o, int d, int64_t i)
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
	*run = h->axis >= 0 && host_uses(h, x, h->axis);
}

bool host_is_split(const struct operand *o, int d)
{
	int n = 0;
	for (int j = 0; j < o->layout.n; j++)
		n += o->layout.ax[j].dim == d;
	return n > 1;
}

bool host_is_sum(const struct hstage *h, const struct index *x)
{
	int odd = 0;
	for (int a = 0; a < h->s->naxes && x->div > 1; a++)
		odd += x->coef[a] % x->div != 0;
	return x->mod <= 1 && x->table < 0 && odd <= 1;
}

/* Offset step of dim d per step of the run; false: not constant along a run, as far as indexes tell. */
static bool run_step(const struct hstage *h, struct view *v, int d, int64_t *step)
{
	const struct index *x = &v->r->dim[d];
	int64_t c = x->coef[h->axis];
	if (h->nmerged || !host_is_sum(h, x) || (x->div > 1 && c % x->div))
		return false;
	c = x->div > 1 ? c / x->div : c;
	if (!host_is_split(v->o, d)) {
		*step += c * (host_dim_offset(v->o, d, 1) - host_dim_offset(v->o, d, 0));
		return true;
	}
	int block = 0;
	for (int j = 0; j < v->o->layout.n; j++)
		if (v->o->layout.ax[j].dim == d && v->o->layout.ax[j].div > 1)
			block = v->o->layout.ax[j].div;
	for (int a = 0; a < h->s->naxes; a++)
		if (x->coef[a] && a != h->axis)
			return false;
	*step += host_dim_offset(v->o, d, 1) - host_dim_offset(v->o, d, 0);
	bool whole = block >= h->size[h->axis];
	if (c != 1 || x->off || block <= 0 || (!whole && block % h->run && h->run % block))
		return false;
	v->padded = block % h->pitch == 0 && ((whole && h->size[h->axis] <= h->run) || h->run == h->pitch);
	if (block < h->run && !whole) {
		v->block = block;
		v->block_step = host_dim_offset(v->o, d, block) - host_dim_offset(v->o, d, 0);
	}
	return true;
}

/* Whether an index from a table may be outside of dim d: it may if the table is not known. */
static bool table_strays(const struct hstage *h, const struct view *v, int d)
{
	int table = v->r->dim[d].table;
	const int32_t *value = h->known ? h->known[table] : NULL;
	int64_t n = shape_count(&h->operand[table].dims);
	for (int64_t i = 0; value && i < n; i++)
		if (value[i] < -v->o->layout.lo[d] || value[i] >= v->o->dims.d[d] + v->o->layout.hi[d])
			return true;
	return !value;
}

/* Decides whether a read is fast, and its guards. */
static void classify(const struct task *t, struct hstage *h, struct view *v)
{
	v->fast = h->points <= MOST_DELTAS;
	v->step = 0;
	for (int d = 0; d < v->o->dims.rank && v->fast; d++) {
		const struct index *x = &v->r->dim[d];
		bool spatial, reduction, run, plain = host_is_sum(h, x);
		kinds(h, x, &spatial, &reduction, &run);
		struct read r = *v->r;
		bool guarded = x->table >= 0 ? table_strays(h, v, d) : index_guarded(t, h->s, &r, d);
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
			v->delta[p] +=
			    spatial ? (i - i0) * (host_dim_offset(v->o, d, 1) - host_dim_offset(v->o, d, 0))
				    : host_dim_offset(v->o, d, i) - host_dim_offset(v->o, d, i0);
			for (int g = 0; g < v->nguards; g++)
				if (v->guard_dim[g] == d)
					v->guard_delta[g][p] = i - i0;
		}
		for (int b = h->s->naxes - 1; b >= h->nspatial && ++at[b] == h->s->axis[b].extent; b--)
			at[b] = 0;
	}
	return E_OK;
}

/* Adds to table[a] what each value of a spatial axis adds to dim d's index, or to its offset. */
static int add_table(const struct hstage *h, const struct view *v, int d, bool offsets, struct arena *a,
		     int64_t *table[MAX_AXES])
{
	int64_t at[MAX_AXES] = {0};
	const struct index *x = &v->r->dim[d];
	bool linear = !host_is_split(v->o, d) && host_is_sum(h, x);
	int64_t i0 = index_value(h->s, x, h->known, at),
		one = host_dim_offset(v->o, d, 1) - host_dim_offset(v->o, d, 0);
	for (int b = 0; b < h->nspatial; b++) {
		if (!host_uses(h, x, b) || (h->size[b] == 1 && b != h->axis))
			continue;
		if (!table[b])
			table[b] = arena_try(a, (size_t)h->size[b], sizeof(int64_t));
		if (!table[b])
			return E_NOMEM;
		for (int64_t k = 0; k < h->size[b]; k++) {
			at[b] = k;
			int64_t i = host_index(h, x, h->known, at);
			table[b][k] += !offsets ? i - i0
				       : linear ? (i - i0) * one
						: host_dim_offset(v->o, d, i) - host_dim_offset(v->o, d, i0);
		}
		at[b] = 0;
	}
	return E_OK;
}

bool host_can_table(const struct hstage *h, const struct read *r, const struct operand *o)
{
	int64_t entries = 0;
	for (int b = 0; b < h->nspatial; b++)
		entries += h->size[b];
	if (entries > MOST_ROWS)
		return false;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		int axes = 0;
		for (int b = 0; b < h->nspatial; b++)
			axes += h->size[b] > 1 && host_uses(h, x, b);
		bool linear = !host_is_split(o, d) && host_is_sum(h, x);
		bool known = x->table < 0 || (h->known && h->known[x->table]);
		if (!known || (!linear && axes > 1))
			return false;
	}
	return true;
}

/* Finds the step of a table along the run; false: its steps differ. */
static bool even_step(const struct hstage *h, const int64_t *table, int64_t *step)
{
	*step = table && h->size[h->axis] > 1 ? table[1] - table[0] : 0;
	for (int64_t i = 1; table && i < h->size[h->axis]; i++)
		if (table[i] - table[i - 1] != *step)
			return false;
	return true;
}

/* A run whose offsets grow evenly needs no table; one with an edge neither, if its indexes do, too. */
static void step_of_table(const struct hstage *h, struct view *v)
{
	int64_t *const *table = v->table;
	if (!v->gather || !v->tabled)
		return;
	bool even = even_step(h, h->axis < 0 ? NULL : table[h->axis], &v->step);
	v->gather = v->edge || !even;
	for (int g = 0; g < v->nguards && v->edge && even; g++)
		even = even_step(h, v->guard_table[g][h->axis], &v->guard_step[g]) && v->guard_step[g] >= 0;
	v->even = v->edge && even;
}

/* Makes the tables of rows' offsets, if each dim is linear or of one spatial axis alone. */
static int make_tables(const struct hstage *h, struct view *v, struct arena *a)
{
	int64_t zero[MAX_AXES] = {0};
	int rc = E_OK;
	v->tabled = host_can_table(h, v->r, v->o);
	for (int d = 0, g = 0; d < v->o->dims.rank && rc >= 0 && v->tabled; d++) {
		int64_t i0 = index_value(h->s, &v->r->dim[d], h->known, zero);
		bool linear = !host_is_split(v->o, d);
		v->base += linear ? host_dim_offset(v->o, d, 0) +
					i0 * (host_dim_offset(v->o, d, 1) - host_dim_offset(v->o, d, 0))
				  : host_dim_offset(v->o, d, i0);
		rc = add_table(h, v, d, true, a, v->table);
		if (rc >= 0 && g < v->nguards && v->guard_dim[g] == d) {
			v->guard_base[g] = i0;
			rc = add_table(h, v, d, false, a, v->guard_table[g++]);
		}
	}
	return rc;
}

int host_view_make(struct hstage *h, struct view *v, const struct read *r, const struct operand *o,
		   struct arena *a)
{
	v->r = r;
	v->o = o;
	v->naxes = operand_axes(o, v->ax);
	classify(h->t, h, v);
	int rc = v->fast ? make_tables(h, v, a) : E_OK;
	v->fast &= !v->gather || (v->tabled && !v->block && v->table[h->axis]);
	v->gather &= v->fast;
	if (rc < 0 || !v->fast)
		return rc;
	step_of_table(h, v);
	return make_deltas(h, v, a);
}

int host_view_out(struct hstage *h, struct arena *a)
{
	struct view *v = &h->to;
	v->r = &h->s->out;
	v->o = h->out;
	v->naxes = operand_axes(v->o, v->ax);
	for (int d = 0; d < v->o->dims.rank && h->axis >= 0; d++)
		if (host_uses(h, &v->r->dim[d], h->axis) && !run_step(h, v, d, &v->step))
			v->gather = true;
	int rc = make_tables(h, v, a);
	v->gather &= v->tabled;
	step_of_table(h, v);
	return rc;
}
