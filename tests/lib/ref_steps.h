/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the steps of a network: its tasks by their reference, its other nodes by the operators. */
#ifndef TESTS_REF_STEPS_H
#define TESTS_REF_STEPS_H

#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "tests/lib/test.h"

/* A network in steps; plain tensors of its graph's values. */
struct ref_steps {
	struct graph *g;
	struct steps *s;
	struct tensor *plain;
	struct arena a;
	int bytes;   /* tasks of nodes that read or write bytes */
	bool blocks; /* fused steps run, instead of their parts */
	int fused;   /* groups that they do */
};

static inline void *give_memory(struct ref_steps *r, int v)
{
	const struct operand *o = &r->s->value[v].buf;
	size_t bytes = (size_t)operand_elems(o) * dtype_bytes(o->dtype);
	void *p = arena_alloc(&r->a, bytes + 64);
	memset(p, 0x5a, bytes);
	return p;
}

static inline void run_task(struct ref_steps *r, const struct step *st)
{
	void *buf[MAX_OPERANDS] = {0};
	const struct task *t = st->task;
	bool bytes = false;
	for (int i = 0; i < t->noperands; i++) {
		int v = st->value[i];
		bytes |= t->operand[i].dtype == DT_U8 || t->operand[i].dtype == DT_I8;
		if (v < 0)
			continue;
		buf[i] = give_memory(r, v);
		if (t->operand[i].role != ROLE_OUT)
			operand_pack(&r->s->value[v].buf, r->plain[r->s->value[v].of].data, buf[i]);
	}
	CHECK_OK(task_reference(t, buf, &r->a));
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_OUT)
			operand_unpack(&r->s->value[st->value[i]].buf, buf[i],
				       r->plain[r->s->value[st->value[i]].of].data);
	r->bytes += bytes && st->anchor >= 0;
}

/* in: per input of the graph. */
static inline void run_steps(struct ref_steps *r, const struct tensor *in)
{
	const struct graph *g = r->g;
	r->plain = ARENA_ARRAY(&r->a, struct tensor, g->nvalues + 1);
	for (int v = 0; v < g->nvalues; v++) {
		const struct tensor *t = &g->value[v].t;
		if (t->data)
			r->plain[v] = *t;
		else
			CHECK_OK(tensor_alloc(&r->a, t->dtype, &t->shape, &r->plain[v]));
	}
	for (int i = 0; i < g->ninputs; i++) {
		struct tensor *to = &r->plain[g->input[i]];
		memcpy(to->data, in[i].data, (size_t)shape_count(&to->shape) * dtype_bytes(to->dtype));
	}
	for (int i = 0; i < r->s->nsteps; i++) {
		const struct step *st = &r->s->step[i];
		if (r->blocks ? st->fused_by >= 0 : st->fused)
			continue;
		r->fused += st->fused ? st->block : 0;
		if (st->kind == STEP_TASK)
			run_task(r, st);
		else if (st->kind == STEP_HOST)
			CHECK_OK(eval_node(g, st->node, r->plain, &r->a));
		else
			r->plain[r->s->value[st->value[1]].of].data =
			    r->plain[r->s->value[st->value[0]].of].data;
	}
}

#endif
