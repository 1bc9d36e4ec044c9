/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plan_parts.h"
#include "agent/halo.h"
#include "agent/lifetimes.h"

#include <stdlib.h>
#include <string.h>

static int64_t round64(int64_t n)
{
	return (n + 63) / 64 * 64;
}

static size_t value_bytes(const struct plan *p, int v)
{
	return (size_t)p->place[v].elems * dtype_bytes(p->s->value[v].buf.dtype);
}

/* Zeroed memory aligned to 64. */
static char *get_block(struct plan *p, int which, size_t bytes)
{
	char *m = p->blocks[which] = calloc(1, bytes + 128);
	return m ? m + (64 - (uintptr_t)m % 64) % 64 : NULL;
}

/* Elements per value: its layout's, and what kernels declare. */
static void size_values(struct plan *p)
{
	for (int v = 0; v < p->s->nvalues; v++) {
		p->place[v].elems = operand_elems(&p->s->value[v].buf);
		p->place[v].root = v;
		p->place[v].lifetime = -1;
	}
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *ps = &p->step[i];
		const struct step *s = ps->step;
		if (s->kind == STEP_ALIAS)
			p->place[s->value[1]].root = p->place[s->value[0]].root;
		for (int b = 0; ps->code && b < ps->nbufs; b++) {
			const struct code_buf *cb = &ps->found.m.buf[b];
			if (cb->operand < 0 || cb->packed || s->value[cb->operand] < 0)
				continue;
			struct place *x = &p->place[p->place[s->value[cb->operand]].root];
			x->elems = cb->elems > x->elems ? cb->elems : x->elems;
		}
	}
}

static void use(struct plan *p, struct lifetime *l, int *n, int v, int at)
{
	if (v < 0 || p->s->value[v].constant)
		return;
	struct place *x = &p->place[p->place[v].root];
	if (x->lifetime < 0) {
		x->lifetime = (*n)++;
		l[x->lifetime] = (struct lifetime){(int64_t)value_bytes(p, p->place[v].root), at, at, 0};
	}
	l[x->lifetime].to = at > l[x->lifetime].to ? at : l[x->lifetime].to;
}

/* Uses in order: inputs before all steps, outputs after. */
static int find_lifetimes(struct plan *p, struct lifetime *l)
{
	int n = 0;
	for (int i = 0; i < p->g->ninputs; i++)
		use(p, l, &n, p->g->input[i], -1);
	for (int i = 0; i < p->nsteps; i++) {
		const struct step *s = p->step[i].step;
		for (int k = 0; k < MAX_OPERANDS; k++)
			use(p, l, &n, s->value[k], i);
		if (s->kind != STEP_HOST)
			continue;
		const struct node *node = &p->g->node[s->node];
		for (int k = 0; k < node->nin; k++)
			use(p, l, &n, s->host_in[k], i);
		for (int k = 0; k < node->nout; k++)
			use(p, l, &n, node->out[k], i);
	}
	for (int i = 0; i < p->g->noutputs; i++)
		use(p, l, &n, p->g->output[i], p->nsteps);
	/* Bytes that are no f32 never become somebody's padding lanes; what is kept is never written over. */
	for (int v = 0; v < p->s->nvalues; v++)
		if (p->place[v].lifetime >= 0 && (p->keep || p->s->value[v].buf.dtype != DT_F32))
			l[p->place[v].lifetime].from = -1, l[p->place[v].lifetime].to = p->nsteps;
	return n;
}

void plan_set_halo(const struct plan *p, int v)
{
	const struct place *x = &p->place[v];
	halo_set(x->halo, x->nhalo, p->s->value[v].buf.fill, (float *)x->p);
}

static int place_values(struct plan *p)
{
	struct lifetime *l = arena_try(&p->a, (size_t)p->s->nvalues + 1, sizeof *l);
	if (!l)
		return E_NOMEM;
	int n = find_lifetimes(p, l), rc = E_OK;
	int64_t bytes = lifetimes_place(l, n);
	if (bytes < 0)
		return (int)bytes;
	p->memory_bytes = (size_t)round64(bytes);
	if (!(p->memory = get_block(p, 0, p->memory_bytes)))
		return fail(E_NOMEM, "no memory for %lld bytes of tensors", (long long)bytes);
	for (int v = 0; v < p->s->nvalues && rc >= 0; v++) {
		struct place *x = &p->place[v];
		int li = p->place[x->root].lifetime;
		if (li < 0)
			continue;
		x->p = p->memory + l[li].at;
		if (x->root != v)
			continue;
		rc = x->nhalo = halo_find(&p->s->value[v].buf, &p->a, &x->halo);
		for (int j = 0; j < n && x->nhalo; j++)
			x->refill |=
			    j != li && l[j].at < l[li].at + l[li].bytes && l[li].at < l[j].at + l[j].bytes;
		plan_set_halo(p, v);
	}
	return rc;
}

/* How constant operand i of a step must be held: its bytes, 0 where the model's own data does. */
static const struct packing *packing_of(const struct pstep *ps, int i)
{
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found.m.buf[b].operand == i && ps->found.m.buf[b].packed)
			return &ps->found.m.buf[b].packing;
	return NULL;
}

/* Operand i as the kernel that reads it wants it in memory. */
static const struct operand *held_as(const struct pstep *ps, int i)
{
	for (int k = 0; ps->parts && k < ps->parts->core.noperands; k++)
		if (ps->parts->core_of[k] == i)
			return &ps->parts->core.operand[k];
	for (int k = 0; ps->tail && k < ps->parts->rest.noperands; k++)
		if (ps->parts->rest_of[k] == i)
			return &ps->tail_packed[k];
	return ps->host ? &ps->packed[i] : &ps->step->task->operand[i];
}

static int64_t weight_elems(const struct pstep *ps, int i)
{
	const struct packing *pack = packing_of(ps, i);
	const struct operand *o = held_as(ps, i);
	int64_t n = pack ? pack_elems(pack) : operand_elems(o);
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found.m.buf[b].operand == i && ps->found.m.buf[b].elems > n)
			n = ps->found.m.buf[b].elems;
	return n;
}

/* Logical dims may have been merged: the data is the same, plain. */
static void pack_weight(const struct plan *p, const struct pstep *ps, int i, float *to)
{
	const struct packing *pack = packing_of(ps, i);
	const float *from = p->g->value[p->s->value[ps->step->value[i]].of].t.data;
	const struct operand *o = held_as(ps, i);
	if (pack)
		pack_run(pack, from, to);
	else if (o->dtype == DT_I32)
		memcpy(to, from, sizeof *to * (size_t)operand_elems(o));
	else
		operand_pack(o, from, to);
}

/* Constant operand i of a step lies at `to`. buf[i] of a host task is operand i's address. */
static void bind_weight(struct pstep *ps, int i, char *to)
{
	for (int b = 0; b < ps->nbufs; b++)
		if (ps->code ? ps->found.m.buf[b].operand == i : b == i)
			ps->buf[b] = to;
	for (int k = 0; ps->tail && k < ps->parts->rest.noperands; k++)
		if (ps->parts->rest_of[k] == i)
			ps->tail_buf[k] = to;
}

/* Every constant operand of a kernel gets its packed copy; returns the bytes of all. weights NULL: only
 * counts. */
static int64_t each_weight(struct plan *p, char *weights)
{
	int64_t total = 0;
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		for (int i = 0; ps->step->kind == STEP_TASK && i < ps->step->task->noperands; i++) {
			if (ps->step->task->operand[i].role != ROLE_CONST)
				continue;
			if (weights) {
				pack_weight(p, ps, i, (float *)(weights + total));
				bind_weight(ps, i, weights + total);
			}
			total += round64(weight_elems(ps, i) * 4);
		}
	}
	return total;
}

static int place_weights(struct plan *p)
{
	p->weight_bytes = (size_t)each_weight(p, NULL);
	p->weights = get_block(p, 1, p->weight_bytes);
	if (!p->weights)
		return fail(E_NOMEM, "no memory for %zu bytes of weights", p->weight_bytes);
	each_weight(p, p->weights);
	return E_OK;
}

/* Bytes of a host task's temporaries; its buf gets their addresses from `at` on, unless that is NULL. */
static int64_t bind_temporaries(struct pstep *ps, char *at)
{
	int64_t own = 0;
	for (int i = 0; ps->host && i < ps->step->task->noperands; i++) {
		if (ps->step->task->operand[i].role != ROLE_TMP)
			continue;
		if (at)
			ps->buf[i] = at + own;
		own += round64(operand_elems(&ps->packed[i]) * 4);
	}
	return own;
}

static void bind_task(const struct plan *p, struct pstep *ps)
{
	const struct task *t = ps->step->task;
	for (int b = 0; b < ps->nbufs; b++) {
		int i = ps->code ? ps->found.m.buf[b].operand : b;
		if (i >= 0 && t->operand[i].role != ROLE_CONST && t->operand[i].role != ROLE_TMP)
			ps->buf[b] = p->place[ps->step->value[i]].p;
	}
	for (int k = 0; ps->tail && k < ps->parts->rest.noperands; k++)
		if (ps->parts->rest.operand[k].role != ROLE_CONST)
			ps->tail_buf[k] = p->place[ps->step->value[ps->parts->rest_of[k]]].p;
}

static void bind_node(const struct plan *p, struct pstep *ps)
{
	const struct step *st = ps->step;
	const struct node *n = &p->g->node[st->node];
	for (int i = 0; i < ps->ctx.nin; i++)
		if (st->host_in[i] >= 0 && !p->s->value[st->host_in[i]].constant)
			ps->ctx.in[i].data = p->place[st->host_in[i]].p;
	for (int i = 0; i < ps->ctx.nout; i++)
		if (n->out[i] >= 0)
			ps->ctx.out[i].data = p->place[n->out[i]].p;
}

/* Addresses of all other operands; temporaries of the portable path and thread scratch behind the tensors. */
static int bind_buffers(struct plan *p)
{
	int64_t tmp = 0, thread = round64((int64_t)host_scratch_bytes());
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		int64_t own = bind_temporaries(ps, NULL);
		if (ps->code && ps->found.m.scratch_bytes > thread)
			thread = round64(ps->found.m.scratch_bytes);
		tmp = own > tmp ? own : tmp;
	}
	int n = p->pool ? pool_threads(p->pool) : 1;
	p->thread_bytes = (size_t)thread;
	if (!(p->threads = get_block(p, 2, (size_t)(tmp + n * thread))))
		return fail(E_NOMEM, "no memory for scratch");
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		bind_temporaries(ps, p->threads + n * thread);
		if (ps->step->kind == STEP_TASK)
			bind_task(p, ps);
		else if (ps->step->kind == STEP_HOST)
			bind_node(p, ps);
	}
	return E_OK;
}

int plan_place(struct plan *p)
{
	size_values(p);
	int rc = place_values(p);
	if (rc < 0 || (rc = place_weights(p)) < 0)
		return rc;
	return bind_buffers(p);
}
