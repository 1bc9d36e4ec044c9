/* SPDX-License-Identifier: Apache-2.0 */
/* Steps over bytes, made by hand of the texts of tasks, with what their references give; and kernels of their
 * tasks, made with LLVM. */
#ifndef TESTS_BYTE_STEPS_H
#define TESTS_BYTE_STEPS_H

#include "agent/run/plan.h"
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "tests/lib/test.h"

#include <stdio.h>

enum { MOST_STEPS = 8, MOST_VALUES = 64, RUNS = 2 };

/* Operands of equal names are one value. Inputs are what no task writes, outputs what none reads. */
struct byte_steps {
	struct arena a;
	struct graph *g;
	struct steps s;
	struct step step[MOST_STEPS];
	struct step_value value[MOST_VALUES];
	char name[MOST_VALUES][8];
	bool read[MOST_VALUES], written[MOST_VALUES];
	struct tensor plain[RUNS][MOST_VALUES]; /* what each run should give */
};

static struct target host;

/* The least i32. Products of two of them and of a byte have to stay in s32. */
static int32_t steps_least = -20000;

/* Biases, scales and images. */
static inline void random_data(struct rng *r, struct tensor *t)
{
	for (int64_t i = 0, n = shape_count(&t->shape); i < n; i++) {
		if (t->dtype == DT_F32)
			((float *)t->data)[i] = 0.0004f + 0.0008f * (float)rng_unit(r);
		else if (t->dtype == DT_I32)
			((int32_t *)t->data)[i] = steps_least + (int32_t)rng_below(r, 40000);
		else
			((uint8_t *)t->data)[i] = (uint8_t)rng_below(r, 256);
	}
}

static inline int find_value(struct byte_steps *n, const struct operand *o, struct rng *r)
{
	int v = 0;
	while (v < n->g->nvalues && strcmp(n->name[v], o->name))
		v++;
	if (v < n->g->nvalues)
		return v;
	v = graph_add_value(n->g, arena_strdup(&n->g->arena, o->name));
	snprintf(n->name[v], sizeof n->name[v], "%s", o->name);
	struct value *x = &n->g->value[v];
	x->producer = -1;
	x->t = (struct tensor){.dtype = o->dtype, .shape = o->dims};
	n->value[v] = (struct step_value){.of = v, .buf = *o, .constant = o->role == ROLE_CONST};
	for (int k = 0; k < RUNS; k++)
		if (tensor_alloc(&n->a, o->dtype, &o->dims, &n->plain[k][v]) < 0)
			abort();
	if (o->role != ROLE_CONST)
		return v;
	random_data(r, &n->plain[0][v]);
	n->plain[1][v] = n->plain[0][v];
	if (tensor_alloc(&n->g->arena, o->dtype, &o->dims, &x->t) < 0)
		abort();
	memcpy(x->t.data, n->plain[0][v].data, (size_t)shape_count(&o->dims) * dtype_bytes(o->dtype));
	return v;
}

static inline int add_step(struct byte_steps *n, const char *text, struct rng *r)
{
	struct task *t = ARENA_NEW(&n->a, struct task);
	struct buf all = {0};
	buf_printf(&all, "task syms=0\n%s", text);
	int rc = task_parse(buf_str(&all), t);
	buf_free(&all);
	struct step *s = &n->step[n->s.nsteps++];
	*s = (struct step){.kind = STEP_TASK, .name = "step", .anchor = -1, .task = t, .fused_by = -1};
	for (int i = 0; i < t->noperands && rc >= 0; i++) {
		const struct operand *o = &t->operand[i];
		int v = s->value[i] = o->role == ROLE_TMP ? -1 : find_value(n, o, r);
		if (v >= 0 && o->role == ROLE_OUT)
			n->written[v] = true;
		else if (v >= 0)
			n->read[v] = true;
	}
	return rc;
}

/* The reference of a step, from plain tensors to plain tensors. */
static inline int run_reference(struct byte_steps *n, const struct step *s, int run)
{
	struct arena a = {0};
	void *phys[MAX_OPERANDS] = {0};
	for (int i = 0; i < s->task->noperands; i++) {
		const struct operand *o = &s->task->operand[i];
		if (o->role == ROLE_TMP)
			continue;
		phys[i] = arena_alloc(&a, (size_t)operand_elems(o) * dtype_bytes(o->dtype));
		operand_pack(o, n->plain[run][s->value[i]].data, phys[i]);
	}
	int rc = task_reference(s->task, phys, &a);
	for (int i = 0; i < s->task->noperands && rc >= 0; i++)
		if (s->task->operand[i].role == ROLE_OUT)
			operand_unpack(&s->task->operand[i], phys[i], n->plain[run][s->value[i]].data);
	arena_free(&a);
	return rc;
}

static inline int byte_steps_open(struct byte_steps *n, const char *const *text, int steps)
{
	struct rng r;
	int rc = E_OK;
	rng_seed(&r, hash_text(text[0]).lo);
	memset(n, 0, sizeof *n);
	n->g = ARENA_NEW(&n->a, struct graph);
	n->g->name = "bytes";
	for (int i = 0; i < steps && rc >= 0; i++)
		rc = add_step(n, text[i], &r);
	n->g->input = ARENA_ARRAY(&n->g->arena, int, MOST_VALUES);
	n->g->output = ARENA_ARRAY(&n->g->arena, int, MOST_VALUES);
	for (int v = 0; v < n->g->nvalues; v++) {
		struct value *x = &n->g->value[v];
		if (n->value[v].constant)
			continue;
		if (!n->written[v]) {
			x->is_input = true;
			n->g->input[n->g->ninputs++] = v;
			for (int k = 0; k < RUNS; k++)
				random_data(&r, &n->plain[k][v]);
		} else if (!n->read[v]) {
			x->is_output = true;
			n->g->output[n->g->noutputs++] = v;
		}
	}
	n->s.step = n->step;
	n->s.value = n->value;
	n->s.nvalues = n->g->nvalues;
	for (int i = 0; i < RUNS * steps && rc >= 0; i++)
		rc = run_reference(n, &n->step[i % steps], i / steps);
	return rc < 0 ? rc : steps_check(n->g, &n->s);
}

static inline void byte_steps_close(struct byte_steps *n)
{
	arena_free(&n->g->arena);
	arena_free(&n->a);
}

/* Compiles tasks whose number is in the mask, in the order of look-ups. */
struct code_maker {
	unsigned mask;
	int asked, made;
	bool winograd; /* says that bytes are packed for Winograd */
};

static inline int make_code(const struct task *t, struct arena *a, struct code *out)
{
	struct space *space;
	struct loops *l;
	char cand[CAND_MAX];
	const struct space_want want = {.threads = 2};
	int rc = space_make(a, t, &host, &want, &space);
	if (rc < 0)
		return rc;
	space_default(space, cand);
	if ((rc = lower(t, cand, &host, a, &l, &out->m)) < 0)
		return rc;
	rc = emit_find("llvm")->emit(l, &host, a, &out->object);
	return rc == E_SPILL ? E_OK : rc; /* such code is whole, only slow */
}

static inline int find_code(void *ctx, const struct task *t, const char *text, struct arena *a,
			    struct code *out, enum kernel_origin *origin)
{
	struct code_maker *m = ctx;
	(void)text;
	if (!(m->mask >> m->asked++ & 1))
		return E_NOTFOUND;
	*origin = FROM_DEFAULT;
	int rc = make_code(t, a, out);
	m->made += rc >= 0;
	for (int i = 0; rc >= 0 && i < out->m.nbufs && m->winograd; i++)
		out->m.buf[i].packing.winograd.m = out->m.buf[i].packed ? 2 : 0;
	if (rc < 0)
		printf("not compiled: %s\n", err_text());
	return rc;
}

#endif
