/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_prog.h"
#include "agent/run/host_math.h"

#include <string.h>

enum { NONE = 255 };

/* A value of the program: an operator on earlier values. */
struct value {
	enum prog_op op;
	uint8_t read;
	float imm;
	int in[3], last; /* last: the value that uses it last */
	int slot;
};

struct maker {
	const bool *row;
	bool once; /* equal values are one */
	int n;
	struct value v[MAX_PROG];
};

static bool same_value(const struct value *a, const struct value *b)
{
	return a->op == b->op && a->read == b->read && memcmp(&a->imm, &b->imm, sizeof a->imm) == 0 &&
	       memcmp(a->in, b->in, sizeof a->in) == 0;
}

/* Returns the number of a value, which may be there already. */
static int add_value(struct maker *m, const struct value *v)
{
	for (int i = 0; i < m->n && m->once; i++)
		if (same_value(&m->v[i], v))
			return i;
	m->v[m->n] = *v;
	return m->n++;
}

/* Returns the value that the program leaves. */
static int number_values(struct maker *m, const struct prog *p)
{
	int stack[MAX_PROG], top = 0;
	m->n = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		struct value v = {.op = op, .in = {-1, -1, -1}, .last = -1, .slot = NONE};
		v.read = op == P_READ ? p->at[i].arg : 0;
		v.imm = op == P_IMM ? p->at[i].imm : 0;
		int arity = prog_op_arity(op);
		top -= arity;
		for (int k = 0; k < arity; k++)
			v.in[k] = stack[top + k];
		stack[top++] = add_value(m, &v);
	}
	return stack[0];
}

/* Whether input k of value i is applied as a scalar. */
static bool scalar_input(const struct maker *m, int i, int k)
{
	const struct value *v = &m->v[i], *in = v->in[k] < 0 ? NULL : &m->v[v->in[k]];
	return k == 1 && in && host_takes_value(v->op) &&
	       (in->op == P_IMM || (in->op == P_READ && m->row[in->read]));
}

/* A scalar can only be the second input. */
static void order_inputs(struct maker *m)
{
	for (int i = 0; i < m->n; i++) {
		struct value *v = &m->v[i];
		if ((v->op != P_ADD && v->op != P_MUL) || scalar_input(m, i, 1))
			continue;
		struct value swapped = *v, old = *v;
		swapped.in[0] = v->in[1];
		swapped.in[1] = v->in[0];
		*v = swapped;
		if (!scalar_input(m, i, 1))
			*v = old;
	}
}

/* Finds where each value is used last as a buffer; those that are scalars everywhere need none. */
static void find_last(struct maker *m, int result)
{
	for (int i = 0; i < m->n; i++)
		for (int k = 0; k < 3; k++)
			if (m->v[i].in[k] >= 0 && !scalar_input(m, i, k))
				m->v[m->v[i].in[k]].last = i;
	m->v[result].last = m->n;
}

static int free_slot(bool used[PROG_SLOTS])
{
	for (int s = 0; s < PROG_SLOTS; s++)
		if (!used[s]) {
			used[s] = true;
			return s;
		}
	return NONE;
}

static int slot_of(const struct maker *m, int v)
{
	return v < 0 ? 0 : m->v[v].slot;
}

/* Writes value i; inputs that nothing uses later give their slots back first, so that it may be done in
 * place. */
static int put_value(struct maker *m, int i, bool used[PROG_SLOTS], struct host_prog *out)
{
	struct value *v = &m->v[i];
	struct host_ins ins = {.op = v->op, .read = v->read, .imm = v->imm};
	if (v->last < 0)
		return E_OK;
	if (v->op == P_ACC) {
		v->slot = PROG_ACC;
		return E_OK;
	}
	for (int k = 0; k < 3; k++)
		if (v->in[k] >= 0 && m->v[v->in[k]].last == i && m->v[v->in[k]].slot < PROG_SLOTS)
			used[m->v[v->in[k]].slot] = false;
	if ((v->slot = free_slot(used)) == NONE)
		return E_UNSUPPORTED;
	ins.to = (uint8_t)v->slot;
	ins.a = (uint8_t)slot_of(m, v->in[0]);
	ins.b = (uint8_t)slot_of(m, v->in[1]);
	ins.c = (uint8_t)slot_of(m, v->in[2]);
	if (scalar_input(m, i, 1)) {
		const struct value *in = &m->v[v->in[1]];
		ins.by_imm = in->op == P_IMM;
		ins.by_row = in->op == P_READ;
		ins.imm = in->imm;
		ins.read = in->read;
		ins.b = 0;
	}
	out->ins[out->n++] = ins;
	if (ins.op == P_READ || ins.by_row)
		out->reads |= 1u << ins.read;
	return E_OK;
}

static int write_program(struct maker *m, const struct prog *p, struct host_prog *out)
{
	bool used[PROG_SLOTS] = {false};
	int rc = E_OK, result = number_values(m, p);
	order_inputs(m);
	find_last(m, result);
	out->n = 0;
	out->reads = 0;
	for (int i = 0; i < m->n && rc >= 0; i++)
		rc = put_value(m, i, used, out);
	out->result = m->v[result].slot;
	return rc;
}

int host_prog_make(const struct prog *p, const bool row[MAX_OPERANDS], struct arena *a, struct host_prog *out)
{
	struct maker m = {.row = row, .once = true};
	*out = (struct host_prog){.ins = arena_try(a, (size_t)p->n + 1, sizeof *out->ins)};
	if (!out->ins)
		return E_NOMEM;
	if (!p->n)
		return E_OK;
	int rc = write_program(&m, p, out);
	if (rc >= 0)
		return E_OK;
	m.once = false;
	return write_program(&m, p, out);
}
