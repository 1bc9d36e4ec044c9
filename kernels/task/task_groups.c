/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of bytes as sums of dot products of four. */
#include "kernels/task/task_stage.h"

enum { GROUP = 4 };

/* An axis of a stage that can be summed in groups. */
struct grouped {
	int axis;
	int image, weights;         /* reads of the stage */
	int image_dim, weights_dim; /* dims that the axis indexes */
};

/* The only dim of a read that the axis indexes, with coefficient 1; -1: another form. */
static int dim_of(const struct task *t, const struct read *r, int axis)
{
	int found = -1;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++) {
		if (!r->dim[d].coef[axis])
			continue;
		if (found >= 0 || r->dim[d].coef[axis] != 1)
			return -1;
		found = d;
	}
	return found;
}

/* Whether the index is the axis alone and covers the dim, so that what follows the axis' end is outside. */
static bool covers(const struct task *t, const struct stage *st, const struct read *r, int d, int axis)
{
	return index_axis(st, &r->dim[d]) == axis &&
	       st->axis[axis].extent == t->operand[r->operand].dims.d[d];
}

/* Whether four neighbours along the dim, from a multiple of four on, lie side by side in memory, even if the
 * dim ends among them. */
static bool in_fours(const struct operand *o, int d)
{
	const struct layout *l = &o->layout;
	int last = l->n - 1;
	if (l->lo[d] || l->hi[d])
		return false;
	if (!l->n)
		return d == o->dims.rank - 1 && o->dims.d[d] % GROUP == 0;
	if (l->ax[last].dim != d)
		return false;
	for (int j = 0; j < last; j++)
		if (l->ax[j].dim == d)
			return l->ax[j].div % GROUP == 0;
	return o->dims.d[d] % GROUP == 0;
}

/* Whether groups begin at multiples of four of the dim's index. */
static bool aligned(const struct stage *st, const struct index *x, int axis)
{
	if (x->div > 1 || x->mod > 1 || x->table >= 0 || x->off % GROUP)
		return false;
	for (int a = 0; a < st->naxes; a++)
		if (a != axis && x->coef[a] % GROUP)
			return false;
	return true;
}

static int reads_of(const struct task *t, int operand)
{
	int n = 0;
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			n += t->stage[k].read[i].operand == operand;
	return n;
}

static bool find_axis(const struct task *t, const struct stage *st, struct grouped *g)
{
	const struct read *x = &st->read[g->image], *w = &st->read[g->weights];
	const struct operand *o = &t->operand[x->operand];
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		int d = dim_of(t, x, a), e = dim_of(t, w, a);
		if (d < 0 || e < 0 || !covers(t, st, w, e, a) || !in_fours(o, d) ||
		    !aligned(st, &x->dim[d], a) || index_guarded(t, st, x, d))
			continue;
		*g = (struct grouped){a, g->image, g->weights, d, e};
		return true;
	}
	return false;
}

static bool find_group(const struct task *t, const struct stage *st, struct grouped *g)
{
	if (t->nsyms || !stage_whole(t, st) || st->body.n != 3)
		return false;
	for (int i = 0; i < 2; i++) {
		int x = st->body.at[i].arg, w = st->body.at[1 - i].arg;
		const struct operand *image = &t->operand[st->read[x].operand],
				     *weights = &t->operand[st->read[w].operand];
		bool bytes = image->dtype == DT_I8 || weights->dtype == DT_I8;
		*g = (struct grouped){.image = x, .weights = w};
		if (x != w && bytes && operand_packs(t, st->read[w].operand) && image->role != ROLE_TMP &&
		    !operand_packs(t, st->read[x].operand) && reads_of(t, st->read[x].operand) == 1 &&
		    find_axis(t, st, g))
			return true;
	}
	return false;
}

static void group_operand(struct operand *o, int d)
{
	struct layout *l = &o->layout;
	o->group = GROUP;
	o->group_dim = d;
	o->dims.d[d] = (o->dims.d[d] + GROUP - 1) / GROUP;
	for (int j = 0; j < l->n; j++) {
		if (l->ax[j].dim != d || l->ax[j].div == 1)
			continue;
		l->ax[j].div /= GROUP;
		l->n -= l->ax[j].div == 1; /* the inner axis, which is the last, has one group */
	}
}

static void group_stage(struct task *t, struct stage *st, const struct grouped *g)
{
	struct index *x = &st->read[g->image].dim[g->image_dim];
	st->axis[g->axis].extent = (st->axis[g->axis].extent + GROUP - 1) / GROUP;
	for (int a = 0; a < st->naxes; a++)
		x->coef[a] /= a == g->axis ? 1 : GROUP;
	x->off /= GROUP;
	group_operand(&t->operand[st->read[g->image].operand], g->image_dim);
	group_operand(&t->operand[st->read[g->weights].operand], g->weights_dim);
}

const struct task *task_groups(struct arena *a, const struct task *t)
{
	struct task *copy = NULL;
	struct grouped g;
	for (int k = 0; k < t->nstages; k++) {
		if (!find_group(t, &t->stage[k], &g))
			continue;
		copy = copy ? copy : task_dup(a, t);
		group_stage(copy, &copy->stage[k], &g);
	}
	return copy ? copy : t;
}

enum sum_kind stage_sum(const struct task *t, const struct stage *st)
{
	if (!stage_whole(t, st))
		return SUM_FLOAT;
	if (t->operand[st->read[st->body.at[0].arg].operand].group)
		return SUM_DOT;
	return stage_short(t, st) ? SUM_SHORT : SUM_WHOLE;
}
