/* SPDX-License-Identifier: Apache-2.0 */
/* The generic form of a task. A dim that some index addresses as one whole axis (coefficient 1, offset 0,
 * equal extents) shares that axis's symbol, and so does an axis of a later stage that addresses a dim which
 * has a symbol. So the generic text keeps what lowering must know (the index stays inside), while sizes that
 * are equal by chance have different symbols. Halos of images, and offsets of their windows, are symbols even
 * if they are zero, so that one kernel serves all. */
#include "kernels/task/task.h"

#include <string.h>

struct syms {
	struct task *g;
	int64_t *param;
	bool full;
};

static int64_t symbol(struct syms *s, int64_t value)
{
	if (s->g->nsyms == MAX_SYMS) {
		s->full = true;
		return value;
	}
	s->param[s->g->nsyms] = value;
	return SYM(s->g->nsyms++);
}

int index_axis(const struct stage *s, const struct index *x)
{
	int found = -1;
	if (x->off || x->div > 1 || x->mod > 1 || x->table >= 0)
		return -1;
	for (int a = 0; a < s->naxes; a++) {
		if (!x->coef[a])
			continue;
		if (found >= 0 || x->coef[a] != 1)
			return -1;
		found = a;
	}
	return found;
}

static void name_sizes(struct syms *y, const struct task *t, const struct stage *from, struct stage *to)
{
	for (int pass = 0; pass < 2;
	     pass++) { /* take known dims' symbols for axes; then give axes' symbols to dims */
		for (int i = 0; i <= from->nreads; i++) {
			const struct read *r = i < from->nreads ? &from->read[i] : &from->out;
			const struct operand *o = &t->operand[r->operand];
			for (int d = 0; d < o->dims.rank; d++) {
				int a = index_axis(from, &r->dim[d]);
				int64_t *dim = &y->g->operand[r->operand].dims.d[d];
				if (a < 0 || from->axis[a].extent != o->dims.d[d])
					continue;
				if (pass == 0 && IS_SYM(*dim) && !IS_SYM(to->axis[a].extent))
					to->axis[a].extent = *dim;
				else if (pass == 1 && !IS_SYM(*dim))
					*dim = to->axis[a].extent;
			}
		}
		for (int a = 0; a < to->naxes; a++)
			if (!IS_SYM(to->axis[a].extent))
				to->axis[a].extent = symbol(y, to->axis[a].extent);
	}
}

/* window: the offset is a symbol even at zero if the index has several axes. */
static void name_index(struct syms *y, const struct stage *s, bool window, struct index *x)
{
	int naxes = 0;
	for (int a = 0; a < s->naxes; a++)
		naxes += x->coef[a] != 0;
	for (int a = 0; a < s->naxes; a++)
		if (x->coef[a] != 0 && x->coef[a] != 1 && x->coef[a] != -1)
			x->coef[a] = symbol(y, x->coef[a]);
	if (x->off || (window && naxes > 1))
		x->off = symbol(y, x->off);
}

/* The first dim of the task's operands that belongs to the image, for convolutions (weights with the images'
 * rank), windows, and anything in channel blocks; MAX_RANK: none. */
static int image_dims(const struct task *t)
{
	const struct stage *s = &t->stage[0];
	int rank = t->operand[s->out.operand].dims.rank;
	bool window = false, weights = false, blocked = false;
	if (t->nstages > 1 || rank < 3)
		return MAX_RANK;
	for (int i = 0; i < s->nreads; i++) {
		const struct operand *o = &t->operand[s->read[i].operand];
		weights |= o->role == ROLE_CONST && o->dims.rank >= rank && s->comb == COMB_SUM;
		blocked |= o->role != ROLE_CONST && rank >= 4 && o->dims.rank == rank && o->layout.n > rank;
		for (int d = 1; d < rank; d++) {
			int naxes = 0;
			for (int a = 0; a < s->naxes; a++)
				naxes += s->read[i].dim[d].coef[a] != 0;
			window |= naxes > 1;
		}
	}
	return weights && (rank > 3 || window) ? 2 : blocked ? 2 : window && !weights ? rank - 2 : MAX_RANK;
}

static bool split(const struct operand *o, int d)
{
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].dim == d && o->layout.ax[j].div > 1)
			return true;
	return false;
}

int task_abstract(const struct task *t, struct task *generic, int64_t params[MAX_SYMS])
{
	struct syms y = {generic, params, false};
	if (t->nsyms)
		return fail(E_USAGE, "the task is already generic");
	*generic = *t;
	for (int k = 0; k < t->nstages; k++)
		name_sizes(&y, t, &t->stage[k], &generic->stage[k]);
	int first = image_dims(t), rank = t->operand[t->stage[0].out.operand].dims.rank;
	for (int i = 0; i < t->noperands; i++) {
		struct operand *o = &generic->operand[i];
		bool image = o->role != ROLE_CONST && o->dims.rank == rank;
		for (int d = 0; d < o->dims.rank; d++) {
			bool halo =
			    (image && d >= first && !split(o, d)) || o->layout.lo[d] || o->layout.hi[d];
			if (!IS_SYM(o->dims.d[d]) && o->role != ROLE_TMP) /* scratch has a fixed size */
				o->dims.d[d] = symbol(&y, o->dims.d[d]);
			if (!halo)
				continue;
			o->layout.lo[d] = symbol(&y, o->layout.lo[d]);
			o->layout.hi[d] = symbol(&y, o->layout.hi[d]);
		}
	}
	for (int k = 0; k < t->nstages; k++) {
		struct stage *s = &generic->stage[k];
		for (int i = 0; i <= s->nreads; i++) {
			struct read *r = i < s->nreads ? &s->read[i] : &s->out;
			for (int d = 0; d < t->operand[r->operand].dims.rank; d++) {
				r->dim[d].guard = i < s->nreads && index_guarded(t, &t->stage[k], r, d);
				name_index(&y, &t->stage[k], d >= first, &r->dim[d]);
			}
		}
	}
	return y.full ? fail(E_INFEASIBLE, "a generic task needs more than %d symbols", MAX_SYMS)
		      : generic->nsyms;
}
