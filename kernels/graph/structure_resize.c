/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample: nearest moves elements; linear and cubic are sums over the taps of each axis, with
 * positions and weights in tables. */
#include "kernels/graph/resample.h"
#include "kernels/graph/structure.h"

#include <string.h>

enum { MAX_RESIZED = OP_MADE / 2 };

/* Tables of an axis: made[2 k] positions, made[2 k + 1] weights, [out][taps]. */
static int make_tables(const struct opctx *c, const struct resample_axis *x, int k)
{
	struct shape flat = {1, {x->out * x->taps}}, square = {2, {x->out, x->taps}};
	struct tensor *index = &c->made[2 * k], *weight = &c->made[2 * k + 1];
	int rc = tensor_alloc(c->arena, DT_I32, &flat, index);
	if (rc >= 0)
		rc = tensor_alloc(c->arena, DT_F32, &square, weight);
	for (int64_t i = 0; i < flat.d[0] && rc >= 0; i++) {
		if (x->outside[i / x->taps])
			return fail(E_UNSUPPORTED, "Resize outside of the image");
		((int32_t *)index->data)[i] = (int32_t)x->index[i];
		((float *)weight->data)[i] = (float)x->weight[i];
	}
	return rc;
}

struct resized {
	int axis, taps; /* axes of the stage */
	int64_t count;
};

/* Reads positions and weights of dim d, the k-th resized one, whose reduction axis is r->taps. */
static int read_tables(struct task *t, const struct opctx *c, struct stage *s, const struct resized *r, int k,
		       int d)
{
	int table, weight, rc = structure_operand(t, c, 'm', 2 * k, &table);
	if (rc < 0 || (rc = structure_operand(t, c, 'm', 2 * k + 1, &weight)) < 0)
		return rc;
	struct index *x = &s->read[0].dim[d];
	x->coef[r->axis] = r->count;
	x->coef[r->taps] = 1;
	x->table = table;
	struct read *w = structure_read(s, weight);
	w->dim[0].coef[r->axis] = 1;
	w->dim[1].coef[r->taps] = 1;
	prog_read(&s->body, s->nreads - 1);
	prog_add(&s->body, P_MUL);
	return E_OK;
}

static int resample(const struct opctx *c, struct task *t)
{
	struct resample p;
	struct resized r[MAX_RESIZED];
	int ix, iy, n = 0, rc = structure_operand(t, c, 'i', 0, &ix);
	if (rc < 0 || (rc = resample_plan(c, &p)) < 0)
		return rc;
	struct stage *s = structure_stage(t);
	structure_axes(s, &c->out[0].shape);
	structure_read(s, ix);
	prog_read(&s->body, 0);
	s->comb = COMB_SUM;
	int dim[MAX_RESIZED];
	for (int d = 0; d < p.rank; d++) {
		if (p.axis[d].same) {
			s->read[0].dim[d].coef[d] = 1;
			continue;
		}
		if (n == MAX_RESIZED || p.axis[d].out * p.axis[d].taps > INT32_MAX)
			return fail(E_UNSUPPORTED, "Resize of more than %d dims", MAX_RESIZED);
		const char name[8] = {'t', (char)('0' + d)};
		dim[n] = d;
		r[n] = (struct resized){d, structure_axis(s, name, AXIS_REDUCTION, p.axis[d].taps),
					p.axis[d].taps};
		if ((rc = make_tables(c, &p.axis[d], n++)) < 0)
			return rc;
	}
	for (int k = 0; k < n; k++)
		if ((rc = read_tables(t, c, s, &r[k], k, dim[k])) < 0)
			return rc;
	if (!n || (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return n ? rc : fail(E_UNSUPPORTED, "Resize that changes no dim");
	structure_out(t, s, iy);
	return E_OK;
}

int structure_resize(const struct opctx *c, struct task *t)
{
	bool moves = !strcmp(node_str(c->node, "mode", "nearest"), "nearest");
	if (!moves && structure_is_bytes(c))
		return fail(E_UNSUPPORTED, "no structured form for means of bytes");
	return moves ? structure_move(c, t) : resample(c, t);
}
