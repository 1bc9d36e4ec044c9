/* SPDX-License-Identifier: Apache-2.0 */
/* Presents the steps to kernels/group/order.h: views of a value share its store, and values that are not
 * f32, u8 or i8 live throughout (agent/run/plan.c keeps them so). A fused step is ordered instead of its
 * parts, which are then placed right before it. */
#include "kernels/group/group_parts.h"
#include "kernels/group/order.h"
#include "kernels/space/sched.h"

#include <string.h>

struct orderer {
	const struct graph *g;
	struct steps *s;
	struct arena a;
	struct order_problem p;
	struct order_node *node;
	struct order_store *mem;
	int nnodes, *step; /* step of each node */
	int *store, *order;
};

int step_read(const struct graph *g, const struct step *s, int k)
{
	if (s->kind == STEP_ALIAS)
		return k ? STEP_END : s->value[0];
	if (s->kind == STEP_HOST)
		return k < g->node[s->node].nin ? s->host_in[k] : STEP_END;
	return k == s->task->noperands ? STEP_END : s->task->operand[k].role == ROLE_OUT ? -1 : s->value[k];
}

int step_write(const struct graph *g, const struct step *s, int k)
{
	if (s->kind == STEP_ALIAS)
		return k ? STEP_END : s->value[1];
	if (s->kind == STEP_HOST)
		return k < g->node[s->node].nout ? g->node[s->node].out[k] : STEP_END;
	return k == s->task->noperands ? STEP_END : s->task->operand[k].role == ROLE_OUT ? s->value[k] : -1;
}

static int64_t value_bytes(const struct step_value *v)
{
	int64_t n = operand_elems(&v->buf) * (int64_t)dtype_bytes(v->buf.dtype);
	return (n + 63) / 64 * 64;
}

static void make_stores(struct orderer *o)
{
	const struct steps *s = o->s;
	for (int v = 0; v < s->nvalues; v++) {
		o->store[v] = v;
		o->mem[v].bytes = s->value[v].constant ? 0 : value_bytes(&s->value[v]);
		bool shares = value_type(&o->g->value[s->value[v].of].t);
		o->mem[v].held = o->mem[v].kept = s->value[v].constant || !shares;
	}
	for (int i = 0; i < s->nsteps; i++)
		if (s->step[i].kind == STEP_ALIAS)
			o->store[s->step[i].value[1]] = o->store[s->step[i].value[0]];
	for (int i = 0; i < o->g->ninputs; i++)
		o->mem[o->g->input[i]].held = true;
	for (int i = 0; i < o->g->noutputs; i++)
		o->mem[o->store[o->g->output[i]]].kept = true;
}

/* The input whose memory the output of a step can reuse, which most schedules allow. */
static int over(const struct orderer *o, const struct step *st)
{
	const struct task *t = st->task;
	if (st->kind != STEP_TASK || t->nstages > 1 ||
	    (t->stage[0].comb != COMB_NONE && stage_long_post(&t->stage[0])))
		return -1;
	int out = o->store[st->value[t->stage[0].out.operand]];
	for (int i = 0; i < t->noperands; i++)
		if (task_overwrites(t, i) && o->mem[o->store[st->value[i]]].bytes == o->mem[out].bytes)
			return st->value[i];
	return -1;
}

static int count(const struct graph *g, const struct step *s,
		 int (*value)(const struct graph *, const struct step *, int))
{
	int n = 0;
	while (value(g, s, n) != STEP_END)
		n++;
	return n;
}

static int list(struct orderer *o, const struct step *s,
		int (*value)(const struct graph *, const struct step *, int), const int **out)
{
	int most = count(o->g, s, value), n = 0, *list = arena_try(&o->a, (size_t)most + 1, sizeof *list);
	if (!list)
		return E_NOMEM;
	for (int k = 0; k < most; k++) {
		int v = value(o->g, s, k);
		if (v >= 0 && !o->s->value[v].constant)
			list[n++] = v;
	}
	*out = list;
	return n;
}

static int make_nodes(struct orderer *o)
{
	for (int i = 0; i < o->s->nsteps; i++)
		if (o->s->step[i].fused_by < 0)
			o->step[o->nnodes++] = i;
	for (int i = 0; i < o->nnodes; i++) {
		const struct step *s = &o->s->step[o->step[i]];
		struct order_node *n = &o->node[i];
		n->nreads = list(o, s, step_read, &n->read);
		n->nwrites = n->nreads < 0 ? n->nreads : list(o, s, step_write, &n->write);
		if (n->nwrites < 0)
			return n->nwrites;
		n->over = over(o, s);
		o->order[i] = i;
	}
	return E_OK;
}

static int make_problem(struct orderer *o)
{
	size_t values = (size_t)o->s->nvalues + 1, nodes = (size_t)o->s->nsteps + 1;
	o->node = arena_try(&o->a, nodes, sizeof *o->node);
	o->order = arena_try(&o->a, nodes, sizeof *o->order);
	o->step = arena_try(&o->a, nodes, sizeof *o->step);
	o->mem = arena_try(&o->a, values, sizeof *o->mem);
	o->store = arena_try(&o->a, values, sizeof *o->store);
	if (!o->node || !o->order || !o->step || !o->mem || !o->store)
		return E_NOMEM;
	make_stores(o);
	int n = o->s->nvalues, rc = make_nodes(o);
	o->p = (struct order_problem){o->nnodes, n, n, o->node, o->store, o->mem};
	return rc;
}

static int put_in_order(struct orderer *o)
{
	size_t n = (size_t)o->s->nsteps;
	struct step *given = arena_try(&o->a, n + 1, sizeof *given);
	if (!given)
		return E_NOMEM;
	memcpy(given, o->s->step, sizeof *given * n);
	struct step *to = o->s->step;
	for (int i = 0; i < o->nnodes; i++) {
		int at = o->step[o->order[i]], parts = 0;
		for (size_t k = 0; k < n && given[at].fused; k++)
			parts += given[k].fused_by == at;
		int fused = (int)(to - o->s->step) + parts;
		for (size_t k = 0; k < n && parts; k++)
			if (given[k].fused_by == at) {
				*to = given[k];
				to++->fused_by = fused;
			}
		*to++ = given[at];
	}
	return E_OK;
}

int steps_order(const struct graph *g, struct steps *s)
{
	struct orderer o = {.g = g, .s = s};
	int64_t rc = make_problem(&o);
	if (rc >= 0)
		rc = s->given_peak_bytes = order_peak(&o.p, o.order);
	if (rc >= 0)
		rc = s->peak_bytes = order_find(&o.p, ORDER_STATES, o.order);
	if (rc >= 0 && s->peak_bytes < s->given_peak_bytes)
		rc = put_in_order(&o);
	arena_free(&o.a);
	return rc < 0 ? (int)rc : E_OK;
}
