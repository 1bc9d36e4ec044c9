/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/group_parts.h"

#include <stdio.h>
#include <string.h>

static void drop_axis(struct stage *s, int a)
{
	for (int i = 0; i <= s->nreads; i++) {
		struct read *r = i < s->nreads ? &s->read[i] : &s->out;
		for (int d = 0; d < MAX_RANK; d++) {
			struct index *x = &r->dim[d];
			memmove(&x->coef[a], &x->coef[a + 1], sizeof *x->coef * (size_t)(MAX_AXES - 1 - a));
			x->coef[MAX_AXES - 1] = 0;
		}
	}
	memmove(&s->axis[a], &s->axis[a + 1], sizeof *s->axis * (size_t)(MAX_AXES - 1 - a));
	memset(&s->axis[MAX_AXES - 1], 0, sizeof *s->axis);
	s->naxes--;
}

static void drop_unit_reductions(struct stage *s)
{
	int left = 0;
	for (int a = 0; a < s->naxes; a++)
		left += s->axis[a].kind == AXIS_REDUCTION;
	for (int a = s->naxes - 1; a >= 0; a--)
		if (s->axis[a].kind == AXIS_REDUCTION && s->axis[a].extent == 1 && left > 1) {
			drop_axis(s, a);
			left--;
		}
}

/* The one dim that is indexed by axis a alone; -1: a is not used; -2: a is used in another way. */
static int dim_of(const struct task *t, const struct stage *s, const struct read *r, int a)
{
	int found = -1;
	const struct operand *o = &t->operand[r->operand];
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (!x->coef[a])
			continue;
		bool lone = found < 0 && x->coef[a] == 1 && !x->off && x->div <= 1 && x->mod <= 1 &&
			    x->table < 0 && o->dims.d[d] == s->axis[a].extent;
		for (int b = 0; b < s->naxes; b++)
			lone &= b == a || !x->coef[b];
		if (!lone)
			return -2;
		found = d;
	}
	return found;
}

/* Position of dim d among the physical axes if it is whole and has no halo, else -1. */
static int physical(const struct operand *o, int d)
{
	int at = -1;
	if (o->layout.lo[d] || o->layout.hi[d])
		return -1;
	if (!o->layout.n)
		return d;
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].dim == d) {
			if (at >= 0 || o->layout.ax[j].div != 1)
				return -1;
			at = j;
		}
	return at;
}

static bool mergeable(const struct task *t, const struct stage *s, const struct read *r, int a)
{
	const struct operand *o = &t->operand[r->operand];
	int d = dim_of(t, s, r, a), e = dim_of(t, s, r, a + 1);
	if (d == -1 && e == -1)
		return true;
	return d >= 0 && e >= 0 && physical(o, d) >= 0 && physical(o, e) == physical(o, d) + 1;
}

/* Merges dim e into dim d of an operand. */
static void merge_dims(struct operand *o, int d, int e)
{
	struct layout *l = &o->layout;
	int at = physical(o, e);
	size_t tail = (size_t)(MAX_RANK - 1 - e);
	o->dims.d[d] *= o->dims.d[e];
	memmove(&o->dims.d[e], &o->dims.d[e + 1], sizeof *o->dims.d * tail);
	memmove(&l->lo[e], &l->lo[e + 1], sizeof *l->lo * tail);
	memmove(&l->hi[e], &l->hi[e + 1], sizeof *l->hi * tail);
	o->dims.d[MAX_RANK - 1] = l->lo[MAX_RANK - 1] = l->hi[MAX_RANK - 1] = 0;
	o->dims.rank--;
	if (l->n) {
		memmove(&l->ax[at], &l->ax[at + 1], sizeof *l->ax * (size_t)(MAX_SPLITS - 1 - at));
		memset(&l->ax[MAX_SPLITS - 1], 0, sizeof *l->ax);
		l->n--;
		for (int j = 0; j < l->n; j++)
			l->ax[j].dim -= l->ax[j].dim > e;
	}
}

/* Removes index e of a read: the index before it covers it. */
static void drop_index(struct read *r, int e)
{
	memmove(&r->dim[e], &r->dim[e + 1], sizeof *r->dim * (size_t)(MAX_RANK - 1 - e));
	memset(&r->dim[MAX_RANK - 1], 0, sizeof *r->dim);
	r->dim[MAX_RANK - 1].table = -1;
}

/* Neighbouring axes to merge: per stage the first axis of the pair, -1: not found yet; per operand the dims
 * that follow these axes, -1: none do, UNSEEN: not read yet. */
enum { UNSEEN = -3 };
struct merge {
	int axis[MAX_STAGES], d[MAX_OPERANDS], e[MAX_OPERANDS];
};

static const struct read *ref(const struct stage *s, int i)
{
	return i < s->nreads ? &s->read[i] : &s->out;
}

/* Whether the reads and the output of stage k along its axes agree with other stages. */
static bool agrees(const struct task *t, struct merge *m, int k)
{
	const struct stage *s = &t->stage[k];
	int a = m->axis[k];
	if (a < 0 || a + 1 >= s->naxes || s->axis[a].kind != s->axis[a + 1].kind ||
	    s->axis[a].extent * s->axis[a + 1].extent > INT32_MAX)
		return false;
	for (int i = 0; i <= s->nreads; i++) {
		const struct read *r = ref(s, i);
		int od = dim_of(t, s, r, a), oe = dim_of(t, s, r, a + 1), o = r->operand;
		if (!mergeable(t, s, r, a) || (m->d[o] != UNSEEN && (m->d[o] != od || m->e[o] != oe)))
			return false;
		m->d[o] = od;
		m->e[o] = oe;
	}
	return true;
}

/* The axis of stage k that indexes the first merged dim of an operand; -1: none. */
static int axis_in(const struct task *t, const struct merge *m, int k)
{
	const struct stage *s = &t->stage[k];
	for (int i = 0; i <= s->nreads; i++) {
		const struct read *r = ref(s, i);
		for (int a = 0; m->d[r->operand] >= 0 && a < s->naxes; a++)
			if (r->dim[m->d[r->operand]].coef[a])
				return a;
	}
	return -1;
}

/* Whether stage k accesses an operand that is merged. */
static bool involved(const struct task *t, const struct merge *m, int k)
{
	bool any = false;
	for (int i = 0; i <= t->stage[k].nreads; i++)
		any |= m->d[ref(&t->stage[k], i)->operand] >= 0;
	return any;
}

static void apply(struct task *t, const struct merge *m)
{
	for (int k = 0; k < t->nstages; k++) {
		struct stage *s = &t->stage[k];
		for (int i = 0; i <= s->nreads && m->axis[k] >= 0; i++) {
			struct read *r = i < s->nreads ? &s->read[i] : &s->out;
			if (m->d[r->operand] >= 0)
				drop_index(r, m->e[r->operand]);
		}
	}
	for (int i = 0; i < t->noperands; i++)
		if (m->d[i] >= 0)
			merge_dims(&t->operand[i], m->d[i], m->e[i]);
	for (int k = 0; k < t->nstages; k++) {
		struct stage *s = &t->stage[k];
		if (m->axis[k] < 0)
			continue;
		s->axis[m->axis[k]].extent *= s->axis[m->axis[k] + 1].extent;
		drop_axis(s, m->axis[k] + 1);
	}
}

/* Merges axis a + 1 of stage k into axis a, if every operand and every other stage that accesses these
 * agrees. */
static bool merge_axes(struct task *t, int k, int a)
{
	struct merge m;
	for (int i = 0; i < MAX_STAGES; i++)
		m.axis[i] = -1;
	for (int i = 0; i < MAX_OPERANDS; i++)
		m.d[i] = m.e[i] = UNSEEN;
	m.axis[k] = a;
	if (!agrees(t, &m, k))
		return false;
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < t->nstages; i++) {
			if (m.axis[i] >= 0 || !involved(t, &m, i))
				continue;
			m.axis[i] = axis_in(t, &m, i);
			if (!agrees(t, &m, i))
				return false;
			more = true;
		}
	}
	for (int i = 0; i < t->nstages; i++)
		if (m.axis[i] >= 0 && !agrees(t, &m, i)) /* check again with what was found later */
			return false;
	apply(t, &m);
	return true;
}

/* Merges any axes of a single stage. In a chain only reduction axes are merged, as in norms: rows of images
 * must stay separate for rings. */
static void merge_stage(struct task *t, int k)
{
	for (int a = 0; a + 1 < t->stage[k].naxes;)
		if ((t->nstages > 1 && t->stage[k].axis[a].kind != AXIS_REDUCTION) || !merge_axes(t, k, a))
			a++;
}

static void rename_operands(struct task *t)
{
	static const char letters[] = "xywu"; /* by role: in, out, const, tmp */
	for (int i = 0; i < t->noperands; i++) {
		struct operand *o = &t->operand[i];
		memset(o->name, 0, sizeof o->name);
		o->name[0] = o->dtype == DT_I32 ? 't' : letters[o->role];
		o->name[1] = (char)('a' + i);
	}
}

void task_simplify(struct task *t)
{
	for (int k = 0; k < t->nstages; k++)
		drop_unit_reductions(&t->stage[k]);
	for (int k = 0; k < t->nstages; k++)
		merge_stage(t, k);
	rename_operands(t);
}
