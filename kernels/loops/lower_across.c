/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile whose lanes lie along the reduction: each point has a vector whose lanes are combined.
 * Combining several points together saves two shuffles and an operation per vector, and the program then runs
 * on vectors of points: 8 points take 8 + 16 operations instead of 8 * 8, and one division instead of 8. */
#include "kernels/loops/lower_parts.h"

/* Returns a variable whose lane i, i < n <= lanes, holds the combined lanes of v[i]. v[] is overwritten. */
static int combine(struct nest *k, int *v, int n)
{
	struct loops *l = k->w->l;
	int lanes = k->s->lanes;
	for (int s = 1; s < lanes; s *= 2) {
		for (int i = 0; i < n; i += 2) {
			int even = nest_like(l, v[i], lanes), odd = nest_like(l, v[i], lanes),
			    sum = nest_like(l, v[i], lanes);
			int other = i + 1 < n ? v[i + 1] : v[i];
			lv_trn(l, even, V_TRN0, v[i], other, s);
			lv_trn(l, odd, V_TRN1, v[i], other, s);
			lv_set(l, sum, nest_combiner(k), even, odd, -1, -1);
			v[i / 2] = sum;
		}
		n = (n + 1) / 2;
	}
	return v[0];
}

/* The axis of the tile whose points are contiguous in the output and all use the same program; -1: none. Rows
 * of a ring do not wrap inside of a tile. */
static int side_by_side(const struct nest *k)
{
	const struct read *out = &k->st->out;
	const struct lower_place *p = &k->w->at[out->operand];
	int axis = -1;
	for (int a = 0; a < k->ns; a++)
		axis = k->n[a] == k->npoints ? a : axis;
	for (int i = 0; i < k->post.n; i++)
		if (k->post.at[i].op == P_READ)
			return -1;
	if (axis < 0 || p->packed)
		return -1;
	int64_t one = 0;
	for (int j = 0; j < p->n; j++) {
		const struct index *x = &out->dim[p->ax[j].dim];
		if (!x->coef[axis])
			continue;
		bool plain = x->coef[axis] == 1 && x->div <= 1 && x->mod <= 1 && x->table < 0 &&
			     p->ax[j].div == 1 && p->ax[j].mod % k->s->tile[axis] == 0;
		if (!plain || one || !ix_is_const(p->ax[j].stride, &one) || one != 1)
			return -1;
		if (p->ax[j].mod &&
		    (index_axis(k->st, x) != axis || k->w->t->operand[out->operand].layout.lo[p->ax[j].dim]))
			return -1;
	}
	return one == 1 ? axis : -1;
}

bool nest_across(struct nest *k)
{
	struct loops *l = k->w->l;
	int lanes = k->s->lanes, chains = k->s->chains, v[16], at[MAX_AXES] = {0}, axis = side_by_side(k);
	if (k->npoints < 2 || k->part)
		axis = -1;
	for (int first = 0; first < k->npoints; first += lanes) {
		int n = k->npoints - first < lanes ? k->npoints - first : lanes;
		for (int i = 0; i < n; i++)
			v[i] = k->acc[(first + i) * chains];
		int all = combine(k, v, n);
		if (axis < 0) {
			for (int i = 0; i < n; i++)
				lv_lane(l, k->acc[(first + i) * chains] = nest_like(l, all, 1), all, i);
			continue;
		}
		at[axis] = first;
		struct mem m = nest_mem(k, k->st->nreads, at, 1);
		m.stride = 1;
		m.valid = n < lanes ? ix_c(l, n) : NULL;
		nest_store(k, nest_post(k, at, all), m);
	}
	return axis >= 0;
}
