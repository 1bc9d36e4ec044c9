/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/ref_sum.h"

#include <stdlib.h>

enum { MOST_STEPS = 1 << 16, MOST_EXTENT = 1 << 22 };

static int spatial_axes(const struct stage *s)
{
	int n = 0;
	while (n < s->naxes && s->axis[n].kind == AXIS_SPATIAL)
		n++;
	return n;
}

static bool uses(const struct index *x, int from, int to)
{
	for (int i = from; i < to; i++)
		if (x->coef[i])
			return true;
	return false;
}

void ref_sum_step(const struct stage *s, const struct ref_sum *sum, int32_t step, int64_t *at)
{
	for (int i = s->naxes - 1; i >= sum->nspatial; i--) {
		at[i] = step % s->axis[i].extent;
		step = (int32_t)(step / s->axis[i].extent);
	}
}

static int32_t *parts(const struct operand *o, int d, struct arena *a)
{
	int64_t i[MAX_RANK] = {0}, zero = operand_offset(o, i);
	int32_t *part = arena_try(a, (size_t)o->dims.d[d], sizeof *part);
	for (int64_t v = 0; part && v < o->dims.d[d]; v++) {
		i[d] = v;
		part[v] = (int32_t)(operand_offset(o, i) - zero);
	}
	return part;
}

static int32_t *moves(const struct stage *s, const struct ref_sum *sum, const struct index *x,
		      struct arena *a)
{
	int64_t at[MAX_AXES] = {0};
	int32_t *by = arena_try(a, (size_t)sum->steps, sizeof *by);
	for (int32_t j = 0; by && j < sum->steps; j++) {
		int64_t v = 0;
		ref_sum_step(s, sum, j, at);
		for (int i = sum->nspatial; i < s->naxes; i++)
			v += x->coef[i] * at[i];
		by[j] = (int32_t)v;
	}
	return by;
}

/* Adds the offsets of a dim that only reduction axes index. */
static void fix(const struct stage *s, const struct ref_sum *sum, const struct ref_dim *d, void *const *bufs,
		int32_t *fixed)
{
	int64_t at[MAX_AXES] = {0};
	for (int32_t j = 0; j < sum->steps; j++) {
		ref_sum_step(s, sum, j, at);
		int64_t v = index_value(s, d->x, bufs, at);
		if (fixed[j] >= 0)
			fixed[j] = v < 0 || v >= d->extent ? -1 : fixed[j] + d->part[v];
	}
}

static int plan_read(const struct task *t, const struct stage *s, const struct ref_sum *sum, int n,
		     void *const *bufs, struct arena *a, struct ref_read *r)
{
	const struct operand *o = &t->operand[s->read[n].operand];
	int32_t *fixed = arena_try(a, (size_t)sum->steps, sizeof *fixed);
	if (!fixed)
		return E_NOMEM;
	*r = (struct ref_read){.rd = &s->read[n], .fixed = fixed};
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &s->read[n].dim[d];
		bool still = !uses(x, sum->nspatial, s->naxes);
		struct ref_dim dim = {.x = x, .extent = o->dims.d[d], .part = parts(o, d, a)};
		if (!dim.part)
			return E_NOMEM;
		if (still) {
			r->still[r->nstill++] = dim;
		} else if (!uses(x, 0, sum->nspatial)) {
			fix(s, sum, &dim, bufs, fixed);
		} else {
			dim.moves = moves(s, sum, x, a);
			dim.bent = x->div > 1 || x->mod > 1;
			if (!dim.moves)
				return E_NOMEM;
			r->moving[r->nmoving++] = dim;
		}
	}
	return E_OK;
}

/* Whether 32-bit tables can hold the offsets, and no table of the task is read with an index that steps
 * change. */
static bool fits(const struct task *t, const struct stage *s, const struct read *r, int nspatial)
{
	const struct operand *o = &t->operand[r->operand];
	if (o->dtype == DT_I32 || operand_elems(o) > INT32_MAX)
		return false;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (o->dims.d[d] > MOST_EXTENT ||
		    (x->table >= 0 && uses(x, 0, nspatial) && uses(x, nspatial, s->naxes)))
			return false;
		int64_t reach = 0;
		for (int i = nspatial; i < s->naxes && reach <= INT32_MAX; i++)
			reach += llabs(x->coef[i]) > INT32_MAX ? INT64_C(1) << 32
							       : llabs(x->coef[i]) * s->axis[i].extent;
		if (reach > INT32_MAX)
			return false;
	}
	return true;
}

int ref_sum_plan(const struct task *t, int k, void *const *bufs, struct arena *a, struct ref_sum **out)
{
	const struct stage *s = &t->stage[k];
	const struct prog *p = &s->body;
	int nspatial = spatial_axes(s), rc = E_OK;
	int64_t steps = 1;
	bool one = p->n == 1 && p->at[0].op == P_READ;
	bool two = p->n == 3 && p->at[0].op == P_READ && p->at[1].op == P_READ && p->at[2].op == P_MUL;
	*out = NULL;
	for (int i = nspatial; i < s->naxes && steps <= MOST_STEPS; i++)
		steps *= s->axis[i].extent > MOST_STEPS ? MOST_STEPS + 1 : s->axis[i].extent;
	if (t->nsyms || nspatial == s->naxes || steps > MOST_STEPS || steps < 1 || (!one && !two))
		return E_OK;
	for (int i = 0; i <= two; i++)
		if (!fits(t, s, &s->read[p->at[i].arg], nspatial))
			return E_OK;
	struct ref_sum *sum = arena_try(a, 1, sizeof *sum);
	if (!sum)
		return E_NOMEM;
	*sum = (struct ref_sum){.nspatial = nspatial, .steps = (int32_t)steps, .nreads = 1 + two};
	for (int i = 0; i < sum->nreads && rc >= 0; i++)
		rc = plan_read(t, s, sum, p->at[i].arg, bufs, a, &sum->read[i]);
	*out = sum;
	return rc;
}

void ref_sum_bind(const struct stage *s, const struct ref_read *r, const struct operand *o, void *const *bufs,
		  const int64_t *at, struct ref_bound *out)
{
	const int64_t zero[MAX_RANK] = {0};
	out->base = operand_offset(o, zero);
	for (int j = 0; j < r->nmoving; j++) {
		const struct index *x = r->moving[j].x;
		out->at[j] = x->off;
		for (int i = 0; i < s->naxes && s->axis[i].kind == AXIS_SPATIAL; i++)
			out->at[j] += x->coef[i] * at[i];
	}
	for (int j = 0; j < r->nstill && out->base >= 0; j++) {
		int64_t v = index_value(s, r->still[j].x, bufs, at);
		out->base = v < 0 || v >= r->still[j].extent ? -1 : out->base + r->still[j].part[v];
	}
}
