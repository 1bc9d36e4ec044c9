/* SPDX-License-Identifier: Apache-2.0 */
/* GroupNormalization: (x - mean) / sqrt(var + eps) * scale + bias, with statistics over the channels of a
 * group and all dims after them. */
#include "kernels/graph/structure.h"

struct groups {
	const struct opctx *c;
	struct task *t;
	int x;                    /* operand */
	int64_t number, channels; /* number of groups; channels per group */
};

/* Adds a stage with axes n, g, then the group's channels and pixels with that kind; it reads x. */
static struct stage *over(struct groups *h, enum axis_kind kind)
{
	const struct shape *x = &h->c->in[0].shape;
	struct stage *s = structure_stage(h->t);
	structure_axis(s, "n", AXIS_SPATIAL, x->d[0]);
	structure_axis(s, "g", AXIS_SPATIAL, h->number);
	structure_axis(s, "c", kind, h->channels);
	for (int d = 2; d < x->rank; d++) {
		const char name[8] = {'d', (char)('0' + d)};
		structure_axis(s, name, kind, x->d[d]);
	}
	struct read *r = structure_read(s, h->x);
	r->dim[0].coef[0] = 1;
	r->dim[1].coef[1] = h->channels;
	for (int d = 1; d < x->rank; d++)
		r->dim[d].coef[1 + d] = 1;
	return s;
}

static void by_group(struct read *r)
{
	r->dim[0].coef[0] = r->dim[1].coef[1] = 1;
}

/* Adds a sum over each group times 1 / elements, followed by `post`. */
static void statistic(struct groups *h, const int *tmp, int ntmps, const char *body, const char *post,
		      int out)
{
	struct stage *s = over(h, AXIS_REDUCTION);
	double n = (double)h->channels;
	for (int d = 2; d < h->c->in[0].shape.rank; d++)
		n *= (double)h->c->in[0].shape.d[d];
	for (int i = 0; i < ntmps; i++)
		by_group(structure_read(s, tmp[i]));
	prog_text(&s->body, h->c->node, body);
	s->comb = COMB_SUM;
	prog_add(&s->post, P_ACC);
	prog_imm(&s->post, (float)(1 / n));
	prog_text(&s->post, h->c->node, post);
	structure_out(h->t, s, out);
}

/* Applies scale or bias: one per channel, or (before opset 21) one per group. */
static int factor(struct groups *h, struct stage *s, int k, enum prog_op op)
{
	int operand, rc = structure_operand(h->t, h->c, 'i', k, &operand);
	int64_t n = h->c->in[k].shape.d[0];
	if (rc < 0)
		return rc;
	struct index *x = &structure_read(s, operand)->dim[0];
	bool each = n == h->number * h->channels;
	x->coef[1] = each ? h->channels : 1;
	x->coef[2] = each;
	prog_read(&s->body, s->nreads - 1);
	prog_add(&s->body, op);
	return E_OK;
}

int structure_group(const struct opctx *c, struct task *t)
{
	struct groups h = {.c = c, .t = t, .number = node_int(c->node, "num_groups", 1)};
	const struct shape *x = &c->in[0].shape;
	int tmp[2], iy, rc = structure_operand(t, c, 'i', 0, &h.x);
	if (rc < 0)
		return rc;
	if (x->rank < 3 || x->rank + 2 > MAX_AXES || c->nin != 3 || h.number < 1 || x->d[1] % h.number)
		return fail(E_UNSUPPORTED, "GroupNormalization of rank %d", x->rank);
	h.channels = x->d[1] / h.number;
	const struct shape kept = {2, {x->d[0], h.number}};
	for (int i = 0; i < 2; i++) {
		const char name[3] = {'t', (char)('0' + i)};
		tmp[i] = structure_tmp(t, name, &kept);
	}
	statistic(&h, NULL, 0, "r0", "mul", tmp[0]);
	statistic(&h, tmp, 1, "r0 r1 sub square", "mul {epsilon=1e-5} add sqrt recip", tmp[1]);
	struct stage *s = over(&h, AXIS_SPATIAL);
	for (int i = 0; i < 2; i++)
		by_group(structure_read(s, tmp[i]));
	prog_text(&s->body, c->node, "r0 r1 sub r2 mul");
	if ((rc = factor(&h, s, 1, P_MUL)) < 0 || (rc = factor(&h, s, 2, P_ADD)) < 0 ||
	    (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	s->out = s->read[0];
	s->out.operand = iy;
	return E_OK;
}
