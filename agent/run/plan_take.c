/* SPDX-License-Identifier: Apache-2.0 */
/* Frees the constants of a graph that a plan takes over: those of which only packed copies are used are freed
 * as the copies are made. */
#include "agent/run/plan_parts.h"

#include <stdlib.h>

enum { STAYS = -1 };

/* Where a constant lies. */
struct range {
	const char *begin, *end;
	int value;
};

static int by_begin(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return x->begin != y->begin ? x->begin < y->begin ? -1 : 1
				    : (x->value > y->value) - (x->value < y->value);
}

static size_t constant_bytes(const struct tensor *t)
{
	return (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
}

/* Keeps values that share bytes with another one: folding may have merged two. */
static int keep_shared(struct plan *p)
{
	int n = 0;
	struct range *r = arena_try(&p->making, (size_t)p->g->nvalues + 1, sizeof *r);
	if (!r)
		return E_NOMEM;
	for (int v = 0; v < p->g->nvalues; v++) {
		const struct tensor *t = &p->g->value[v].t;
		if (t->data)
			r[n++] = (struct range){t->data, (const char *)t->data + constant_bytes(t), v};
	}
	qsort(r, (size_t)n, sizeof *r, by_begin);
	for (int i = 1, last = 0; i < n; i++) {
		if (r[i].begin < r[last].end)
			p->readers[r[i].value] = p->readers[r[last].value] = STAYS;
		last = r[i].end > r[last].end ? i : last;
	}
	return E_OK;
}

static void count_readers(struct plan *p, const struct step *s)
{
	for (int k = 0, v; (v = step_read(p->g, s, k)) != STEP_END; k++) {
		if (v < 0 || !p->s->value[v].constant)
			continue;
		int *n = &p->readers[p->s->value[v].of];
		*n = s->kind == STEP_TASK && *n != STAYS ? *n + 1 : STAYS;
	}
}

static void drop(struct plan *p, int value)
{
	const struct tensor *t = &p->g->value[value].t;
	if (t->data)
		arena_drop(t->data, constant_bytes(t));
}

int plan_take_begin(struct plan *p)
{
	p->readers = arena_try(&p->making, (size_t)p->g->nvalues + 1, sizeof *p->readers);
	if (!p->readers)
		return E_NOMEM;
	for (int i = 0; i < p->nsteps; i++)
		count_readers(p, p->step[i].step);
	for (int i = 0; i < p->g->noutputs; i++)
		p->readers[p->g->output[i]] = STAYS;
	int rc = keep_shared(p);
	for (int v = 0; v < p->g->nvalues && rc >= 0; v++)
		if (!p->readers[v])
			drop(p, v);
	return rc;
}

void plan_take_packed(struct plan *p, int value)
{
	if (p->readers[value] != STAYS && !--p->readers[value])
		drop(p, value);
}

int plan_take_all(struct plan *p)
{
	int rc = plan_take_begin(p);
	for (int s = 0; s < p->nsteps && rc >= 0; s++) {
		const struct step *st = p->step[s].step;
		for (int i = 0; st->kind == STEP_TASK && i < st->task->noperands; i++)
			if (st->task->operand[i].role == ROLE_CONST)
				plan_take_packed(p, p->s->value[st->value[i]].of);
	}
	return rc;
}
