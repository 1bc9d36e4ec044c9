/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the operators of a restored plan find what they rely on. An operator's eval relies on infer
 * having accepted the inputs and set the outputs, so infer is called again. */
#include "agent/run/plan_parts.h"

#include <string.h>

static uint64_t tensor_bytes(const struct tensor *t)
{
	return (uint64_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
}

static bool is_constant(const struct plan *p, const struct tensor *t)
{
	int64_t offset;
	return t->data && plan_region(p, &t->data, &offset) == IN_WEIGHTS;
}

static bool overlap(const struct tensor *a, const struct tensor *b)
{
	const char *x = a->data, *y = b->data;
	return x && y && x < y + tensor_bytes(b) && y < x + tensor_bytes(a);
}

/* Returns whether no tensor that eval writes overlaps one that it reads or writes. */
static bool outputs_apart(const struct opctx *c)
{
	for (int k = 0; k < c->nout; k++) {
		for (int i = 0; i < c->nin; i++)
			if (overlap(&c->out[k], &c->in[i]))
				return false;
		for (int i = 0; i < k; i++)
			if (overlap(&c->out[k], &c->out[i]))
				return false;
	}
	return true;
}

static bool same_outputs(const struct opctx *c, const struct opctx *inferred)
{
	for (int k = 0; k < c->nout; k++)
		if ((c->out[k].data || c->out[k].dtype != DT_NONE) &&
		    (c->out[k].dtype != inferred->out[k].dtype ||
		     !shape_equal(&c->out[k].shape, &inferred->out[k].shape)))
			return false;
	return true;
}

static int check_node(struct plan *p, const struct pstep *ps)
{
	struct opctx c = ps->ctx;
	const struct node *n = c.node;
	c.in = arena_try(&p->scratch, (size_t)c.nin + 1, sizeof *c.in);
	c.out = arena_try(&p->scratch, (size_t)c.nout + 1, sizeof *c.out);
	if (!c.in || !c.out)
		return E_NOMEM;
	for (int i = 0; i < c.nin; i++) {
		c.in[i] = ps->ctx.in[i];
		c.in[i].data = is_constant(p, &ps->ctx.in[i]) ? c.in[i].data : NULL;
	}
	int rc = n->op->infer(&c);
	if (rc >= 0 && (!same_outputs(&ps->ctx, &c) || !outputs_apart(&ps->ctx)))
		rc = fail(E_CORRUPT, "its stored outputs do not match those that it computes");
	return fail_in(rc < 0 && rc != E_NOMEM ? E_CORRUPT : rc, "node '%s' (%s)", n->name, node_type(n));
}

int plan_check(struct plan *p)
{
	int rc = E_OK;
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		if (p->step[i].step->kind != STEP_HOST || p->step[i].part)
			continue;
		rc = check_node(p, &p->step[i]);
		arena_reset(&p->scratch);
	}
	return rc;
}

void plan_copy_constants(const struct plan *from, struct plan *to)
{
	for (int i = 0; i < to->nsteps; i++) {
		const struct opctx *c = &to->step[i].ctx;
		for (int k = 0; to->step[i].step->kind == STEP_HOST && k < c->nin; k++) {
			int64_t at;
			if (is_constant(to, &c->in[k]) && plan_region(to, &c->in[k].data, &at) == IN_WEIGHTS)
				memcpy(c->in[k].data, (const char *)from->weights.p + at,
				       tensor_bytes(&c->in[k]));
		}
	}
}
