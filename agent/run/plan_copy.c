/* SPDX-License-Identifier: Apache-2.0 */
/* The copies that a plan makes: the caller's tensors in and out, the parts of Concat and Split, and halos
 * that are filled again. Large copies are divided among threads, as most of the lines lie in the caches of
 * those threads. */
#include "agent/run/plan_parts.h"
#include "agent/run/halo.h"

#include <string.h>

/* A range costs about 0.6 us; lines of another core's cache come at 8 GB/s. */
enum { ALONE_BYTES = 16384 };

struct copy {
	const struct plan *p;
	const struct window *w; /* NULL: the halo only */
	void *to;
	const void *from;
	bool into;
	int halo; /* value whose halo is set too; -1: none */
	int64_t extent;
};

static void copy_range(void *ctx, int thread, int64_t begin, int64_t end)
{
	const struct copy *c = ctx;
	(void)thread;
	if (c->halo >= 0)
		plan_set_halo(c->p, c->halo, begin, end, c->extent);
	if (c->w && c->into)
		window_in(c->w, c->from, c->to, begin, end);
	else if (c->w)
		window_out(c->w, c->from, c->to, begin, end);
}

static void run_copy(const struct plan *p, struct copy *c, int64_t bytes)
{
	c->p = p;
	if (p->pool && !p->alone && bytes >= ALONE_BYTES)
		pool_run(p->pool, copy_range, c, c->extent);
	else
		copy_range(c, 0, 0, c->extent);
}

void plan_refill(struct plan *p, int v)
{
	struct copy c = {.halo = v, .extent = p->place[v].nhalo};
	int64_t elems = 0;
	for (int i = 0; i < p->place[v].nhalo; i++)
		elems += p->place[v].halo[i].n;
	run_copy(p, &c, elems * (int64_t)dtype_bytes(p->s->value[v].buf.dtype));
}

static bool is_join(const struct node *n)
{
	return strcmp(node_type(n), "Concat") == 0;
}

/* Makes windows for the parts that do not lie inside of the whole already. */
static int make_parts(struct plan *p, struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	bool join = is_join(n);
	int whole = join ? n->out[0] : ps->step->host_in[0], parts = join ? n->nin : n->nout;
	const struct operand *w = &p->s->value[whole].buf;
	const char *all = join ? ps->ctx.out[0].data : ps->ctx.in[0].data;
	int64_t axis = node_int(n, "axis", join ? 1 : 0), at[MAX_RANK] = {0};
	axis += axis < 0 ? w->dims.rank : 0;
	if (!(ps->part = arena_try(&p->a, (size_t)parts + 1, sizeof *ps->part)))
		return E_NOMEM;
	ps->nparts = parts;
	for (int i = 0; i < parts; i++) {
		int v = join ? ps->step->host_in[i] : n->out[i];
		if (v < 0)
			continue;
		struct operand *o = &p->s->value[v].buf;
		int64_t inside = operand_inside(o, w, (int)axis, at[axis]),
			unit = (int64_t)dtype_bytes(o->dtype);
		ps->part[i].there = inside >= 0 && (join ? ps->ctx.in[i] : ps->ctx.out[i]).data ==
						       (void *)(all + inside * unit);
		ps->part[i].bytes = shape_count(&o->dims) * unit;
		window_make(o, w, at, &ps->part[i].w);
		at[axis] += o->dims.d[axis];
	}
	return E_OK;
}

int plan_copies(struct plan *p)
{
	static const int64_t zero[MAX_RANK];
	const struct graph *g = p->g;
	p->copy_in = arena_try(&p->a, (size_t)g->ninputs + 1, sizeof *p->copy_in);
	p->copy_out = arena_try(&p->a, (size_t)g->noutputs + 1, sizeof *p->copy_out);
	int rc = p->copy_in && p->copy_out ? E_OK : E_NOMEM;
	for (int i = 0; i < g->ninputs && rc >= 0; i++)
		window_make(&p->in[i], &p->s->value[g->input[i]].buf, zero, &p->copy_in[i]);
	for (int i = 0; i < g->noutputs && rc >= 0; i++)
		window_make(&p->out[i], &p->s->value[g->output[i]].buf, zero, &p->copy_out[i]);
	for (int i = 0; i < p->nsteps && rc >= 0; i++)
		if (p->step[i].step->kind == STEP_HOST && step_any_layout(g, p->step[i].step->node))
			rc = make_parts(p, &p->step[i]);
	return rc;
}

void plan_copy_parts(struct plan *p, struct pstep *ps)
{
	bool join = is_join(&p->g->node[ps->step->node]);
	for (int i = 0; i < ps->nparts; i++) {
		const struct part *x = &ps->part[i];
		const struct tensor *part = join ? &ps->ctx.in[i] : &ps->ctx.out[i],
				    *whole = join ? &ps->ctx.out[0] : &ps->ctx.in[0];
		if (!x->bytes || x->there)
			continue;
		struct copy c = {.w = &x->w,
				 .to = join ? whole->data : part->data,
				 .from = join ? part->data : whole->data,
				 .into = join,
				 .halo = -1,
				 .extent = window_extent(&x->w)};
		run_copy(p, &c, x->bytes);
	}
}

static int64_t tensor_bytes(const struct tensor *t)
{
	return shape_count(&t->shape) * (int64_t)dtype_bytes(t->dtype);
}

void *plan_in_place(struct plan *p, bool output, int index)
{
	int v = (output ? p->g->output : p->g->input)[index];
	if (!p->device || p->s->value[v].constant)
		return NULL;
	const struct operand *o = &p->s->value[v].buf;
	bool plain = o->layout.n == 0 && operand_elems(o) == shape_count(&o->dims);
	for (int i = 0; i < p->g->noutputs && !output; i++) /* the next input must not change an output */
		plain &= p->place[p->g->output[i]].root != p->place[v].root;
	return plain && p->device->run(p, -1, false) >= 0 ? p->place[v].p : NULL;
}

int plan_copy_in(struct plan *p, const struct tensor *inputs)
{
	for (int i = 0; i < p->g->ninputs; i++) {
		int v = p->g->input[i];
		if (inputs[i].dtype != p->in[i].dtype || !shape_equal(&inputs[i].shape, &p->in[i].dims) ||
		    !inputs[i].data)
			return fail(E_USAGE, "input '%s' has another dtype or shape than in the model",
				    p->g->value[v].name);
		if (!p->place[v].p || p->place[v].p == inputs[i].data) /* read where the caller has it, or
									  never read */
			continue;
		struct copy c = {.w = &p->copy_in[i],
				 .to = p->place[v].p,
				 .from = inputs[i].data,
				 .into = true,
				 .halo = p->place[v].refill ? v : -1,
				 .extent = window_extent(&p->copy_in[i])};
		run_copy(p, &c, tensor_bytes(&inputs[i]));
	}
	for (int i = 0; i < p->ngiven; i++)
		if (!p->given[i].output)
			*p->given[i].at = inputs[p->given[i].tensor].data;
	return E_OK;
}

int plan_take_outputs(struct plan *p, const struct tensor *outputs)
{
	for (int i = 0; i < p->g->noutputs; i++) {
		const struct value *x = &p->g->value[p->g->output[i]];
		if (outputs[i].dtype != x->t.dtype || !shape_equal(&outputs[i].shape, &x->t.shape) ||
		    !outputs[i].data)
			return fail(E_USAGE, "output '%s' has another dtype or shape than in the model",
				    x->name);
		if (p->at_home)
			p->at_home[i] = outputs[i].data == p->place[p->g->output[i]].p;
	}
	for (int i = 0; i < p->ngiven; i++)
		if (p->given[i].output)
			*p->given[i].at = outputs[p->given[i].tensor].data;
	return E_OK;
}

void plan_copy_out(struct plan *p, struct tensor *outputs)
{
	for (int i = 0; i < p->g->noutputs; i++) {
		int v = p->g->output[i];
		const struct tensor *t = &p->g->value[v].t;
		const void *from = t->data ? t->data : p->place[v].p;
		if (!from || (p->at_home && p->at_home[i])) /* it was written where the caller has it */
			continue;
		if (t->data) {
			memcpy(outputs[i].data, from, (size_t)tensor_bytes(t));
			continue;
		}
		struct copy c = {.w = &p->copy_out[i],
				 .to = outputs[i].data,
				 .from = from,
				 .halo = -1,
				 .extent = window_extent(&p->copy_out[i])};
		run_copy(p, &c, tensor_bytes(t));
	}
}
