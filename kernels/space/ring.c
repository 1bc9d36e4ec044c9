/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which rows of earlier stages the rows of a chain's last stage need, from the affine bounds of the
 * reads. */
#include "kernels/space/sched.h"

#include <string.h>

enum { MAX_STEP = 64, MAX_REACH = 4096 }; /* rows */

/* Rows of a tmp that a read touches for row r of its stage: coef * r + [lo, hi]. dim: the tmp's dim that the
 * row axis indexes; -1: none. */
struct reach {
	int dim;
	int64_t coef, lo, hi;
};

static int reach_of(const struct task *t, const struct stage *st, const struct read *r, int axis,
		    struct reach *out)
{
	const struct operand *o = &t->operand[r->operand];
	out->dim = -1;
	for (int d = 0; d < o->dims.rank; d++) {
		struct index x = r->dim[d];
		if (!x.coef[axis])
			continue;
		out->coef = x.coef[axis];
		if (out->dim >= 0 || out->coef < 0 || x.div > 1 || x.mod > 1 || x.table >= 0)
			break;
		x.coef[axis] = 0;
		index_range(st, &x, &out->lo, &out->hi);
		out->dim = d;
		for (int e = d + 1; e < o->dims.rank; e++)
			out->dim = r->dim[e].coef[axis] ? -1 : out->dim;
		break;
	}
	return out->dim >= 0
		   ? E_OK
		   : fail(E_INFEASIBLE, "ring: %s is not read by rows of %s", o->name, st->axis[axis].name);
}

/* The axis that alone indexes dim d of a stage's output; -1: none. */
static int writer_axis(const struct task *t, const struct stage *st, int d)
{
	const struct index *x = &st->out.dim[d];
	int axis = -1;
	for (int a = 0; a < st->naxes; a++)
		if (x->coef[a])
			axis = axis < 0 && x->coef[a] == 1 ? a : MAX_AXES;
	bool whole = axis >= 0 && axis < MAX_AXES && !x->off &&
		     st->axis[axis].extent == t->operand[st->out.operand].dims.d[d];
	return whole ? axis : -1;
}

/* Whether later stages read the output of stage s by rows (1) or as a whole (0); < 0: some do one and some
 * the other. */
static int read_by_rows(const struct task *t, int s, const struct ring *out)
{
	int by = 0, whole = 0, tmp = t->stage[s].out.operand;
	for (int k = s + 1; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++) {
			const struct read *r = &t->stage[k].read[i];
			int axis = out->st[k].axis;
			unsigned axes = read_axes(t, &t->stage[k], r);
			if (r->operand == tmp)
				*(axis >= 0 && axes >> axis & 1 ? &by : &whole) = 1;
		}
	return by && whole ? fail(E_INFEASIBLE, "ring: %s is read by rows and whole", t->operand[tmp].name)
			   : by;
}

/* Extends the ring by the rows that a reader of stage s's tmp needs. */
static int add_reader(const struct task *t, int s, int reader, const struct read *r, struct ring *out)
{
	struct reach x;
	int rc = reach_of(t, &t->stage[reader], r, out->st[reader].axis, &x), tmp = r->operand;
	if (rc < 0)
		return rc;
	int64_t step = x.coef * out->st[reader].step, lo = x.coef * out->st[reader].lo + x.lo,
		hi = x.coef * out->st[reader].hi + x.hi;
	bool first = out->dim[tmp] < 0;
	if (step > MAX_STEP || lo < -MAX_REACH || hi > MAX_REACH ||
	    (!first && (x.dim != out->dim[tmp] || step != out->st[s].step)))
		return fail(E_INFEASIBLE, "ring: readers of %s differ in their rows", t->operand[tmp].name);
	out->dim[tmp] = x.dim;
	out->st[s].step = step;
	out->st[s].lo = first || lo < out->st[s].lo ? lo : out->st[s].lo;
	out->st[s].hi = first || hi > out->st[s].hi ? hi : out->st[s].hi;
	return E_OK;
}

static int add_stage(const struct task *t, int s, struct ring *out)
{
	int tmp = t->stage[s].out.operand, rc = read_by_rows(t, s, out);
	const struct operand *o = &t->operand[tmp];
	if (rc == 0 && o->role == ROLE_TMP) {
		out->st[s].axis = -1;
		return E_OK;
	}
	for (int reader = s + 1; reader < t->nstages; reader++)
		for (int i = 0; i < t->stage[reader].nreads && rc >= 0; i++)
			if (t->stage[reader].read[i].operand == tmp)
				rc = add_reader(t, s, reader, &t->stage[reader].read[i], out);
	if (rc < 0)
		return rc;
	int d = out->dim[tmp], axis = d < 0 ? -1 : writer_axis(t, &t->stage[s], d);
	if (o->role != ROLE_TMP || axis < sched_shared(t, out->st[t->nstages - 1].axis) ||
	    stage_over_image(t, &t->stage[s], axis))
		return fail(E_INFEASIBLE, "ring: %s is not written by rows", o->name);
	for (int j = 0; j < o->layout.n; j++)
		if (o->layout.ax[j].dim == d && o->layout.ax[j].div > 1)
			return fail(E_INFEASIBLE, "ring: the rows of %s are split", o->name);
	int64_t all = o->layout.lo[d] + o->dims.d[d] + o->layout.hi[d],
		held = (out->rows - 1) * out->st[s].step + out->st[s].hi - out->st[s].lo + 1;
	out->st[s].axis = axis;
	out->held[tmp] = held < all ? held : all;
	return E_OK;
}

int task_ring(const struct task *t, int axis, int rows, struct ring *out)
{
	int last = t->nstages - 1, rc = E_OK;
	const struct stage *st = &t->stage[last];
	memset(out, 0, sizeof *out);
	memset(out->dim, -1, sizeof out->dim);
	if (t->nsyms || last == 0 || axis < 0 || axis >= stage_spatial(st) || rows < 1 ||
	    rows > st->axis[axis].extent)
		return fail(E_INFEASIBLE, "ring: not rows of a chain's last stage");
	out->rows = rows;
	out->st[last].axis = axis;
	out->st[last].step = 1;
	int rows_of = 0;
	for (int s = last - 1; s >= 0 && rc >= 0; s--) {
		rc = add_stage(t, s, out);
		rows_of += out->st[s].axis >= 0;
	}
	if (rc >= 0 && !rows_of)
		return fail(E_INFEASIBLE, "ring: nothing is read by rows of %s", st->axis[axis].name);
	return rc;
}

bool ring_whole(const struct ring *r, int stage)
{
	return r->st[stage].axis >= 0 && r->st[stage].step == 1 && !r->st[stage].lo && !r->st[stage].hi;
}

int64_t ring_again(const struct ring *r, int stage)
{
	int64_t rows = r->st[stage].hi + 1 - r->st[stage].lo - r->st[stage].step;
	return rows > 0 ? rows : 0;
}

bool ring_apart(const struct task *t, const struct ring *r)
{
	for (int s = 0; s < t->nstages; s++)
		if (r->st[s].axis >= 0 && !ring_whole(r, s))
			return false;
	return true;
}

static bool copies(const struct task *t, const struct stage *st)
{
	int rank = t->operand[st->out.operand].dims.rank;
	bool same = st->comb == COMB_NONE && st->nreads == 1 && st->body.n == 1 && !st->post.n &&
		    st->naxes == rank && t->operand[st->read[0].operand].role == ROLE_IN &&
		    t->operand[st->read[0].operand].layout.n == 0;
	for (int d = 0; d < rank && same; d++)
		same = index_axis(st, &st->read[0].dim[d]) == d && index_axis(st, &st->out.dim[d]) == d;
	return same;
}

int ring_copy(const struct task *t)
{
	int tmp = t->stage[0].out.operand, found = -1, uses = 0;
	if (t->nstages < 2 || t->nsyms || !copies(t, &t->stage[0]) ||
	    t->operand[t->stage[0].read[0].operand].dtype != DT_F32)
		return -1;
	for (int k = 1; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++) {
			if (t->stage[k].read[i].operand != tmp)
				continue;
			uses++;
			found = k == 1 ? i : -1;
		}
	return uses == 1 ? found : -1;
}

int sched_shared(const struct task *t, int ring_axis)
{
	int shared = task_shared(t);
	return ring_axis >= 0 && ring_axis < shared ? ring_axis : shared;
}
