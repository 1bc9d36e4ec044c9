/* SPDX-License-Identifier: Apache-2.0 */
/* Loops -> objects of the simulator (platform/run/vm.h).
 *
 * Statements keep their order. Integer expressions are value-numbered and computed at the head of the
 * outermost loop that they depend on: arithmetic cannot trap, so it may be hoisted out of an IF. Table reads
 * are not moved, because only there their index is guaranteed to be inside. */
#include "kernels/emit/emit.h"
#include "platform/run/vm.h"

#include <string.h>

_Static_assert((int)VM_HMUL - (int)VM_CONST == (int)V_HMUL,
	       "both list the vector operations in the same order");
_Static_assert((int)VM_IEQ - (int)VM_IADD == (int)IX_EQ - (int)IX_ADD, "and the integer ones");

enum { MAX_NESTING = 64, MAX_IX_DEPTH = 256, BUCKETS = 4096, SPILLED = 8 };

struct seq {
	struct vm_ins *p;
	uint32_t n, cap;
};

/* An integer value; it is computed once per iteration of the loop at `level`. */
struct number {
	struct number *next;
	uint8_t op;
	uint16_t a, b, reg;
	int64_t imm;
};

struct reg_info {
	uint16_t level;
	bool table; /* depends on a table: neither shared nor moved */
};

/* A loop body under construction: first the values that every statement may use, then the statements. */
struct level {
	struct seq head;
	struct seq *body;
};

struct sim_emit {
	const struct loops *l;
	struct arena *a;
	struct number *bucket[BUCKETS];
	struct reg_info *reg;
	uint16_t *var_reg; /* per loop variable */
	uint32_t nregs;
	int nlevels, nesting;
	struct level level[MAX_NESTING + 2];
	struct seq *here; /* where the next statement goes */
	bool over;        /* a limit was exceeded */
};

static const char *sim_version(void)
{
	return "sim/2";
}

static void seq_add(struct sim_emit *e, struct seq *s, struct vm_ins ins)
{
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? s->cap * 2 : 16;
		struct vm_ins *p = ARENA_ARRAY(e->a, struct vm_ins, cap);
		if (s->n)
			memcpy(p, s->p, s->n * sizeof *p);
		s->p = p;
		s->cap = cap;
	}
	s->p[s->n++] = ins;
}

static void seq_append(struct sim_emit *e, struct seq *s, const struct seq *more)
{
	for (uint32_t i = 0; i < more->n; i++)
		seq_add(e, s, more->p[i]);
}

static uint16_t new_reg(struct sim_emit *e, int level, bool table)
{
	if (e->nregs >= VM_MAX_REGS) {
		e->over = true;
		return 0;
	}
	e->reg[e->nregs] = (struct reg_info){.level = (uint16_t)level, .table = table};
	return (uint16_t)e->nregs++;
}

/* The register that holds op(a, b): an existing one if the value is known, else that of a new instruction. a,
 * b: registers or 0. */
static uint16_t number(struct sim_emit *e, uint8_t op, int nargs, uint16_t a, uint16_t b, int64_t imm)
{
	struct reg_info ra = nargs > 0 ? e->reg[a] : (struct reg_info){0};
	struct reg_info rb = nargs > 1 ? e->reg[b] : (struct reg_info){0};
	int level = ra.level > rb.level ? ra.level : rb.level;
	struct vm_ins ins = {.op = op, .a = a, .b = b, .imm = imm};
	if (op == VM_ITABLE || ra.table || rb.table) {
		ins.dst = new_reg(e, level, true);
		seq_add(e, e->here, ins);
		return ins.dst;
	}
	uint64_t h =
	    (op * UINT64_C(31) + a) * 0x9e3779b97f4a7c15 + b * UINT64_C(0xc2b2ae3d27d4eb4f) + (uint64_t)imm;
	struct number **slot = &e->bucket[(h ^ h >> 29) % BUCKETS];
	for (struct number *n = *slot; n; n = n->next)
		if (n->op == op && n->a == a && n->b == b && n->imm == imm)
			return n->reg;
	ins.dst = new_reg(e, level, false);
	seq_add(e, &e->level[level].head, ins);
	struct number *n = ARENA_NEW(e->a, struct number);
	*n = (struct number){.next = *slot, .op = op, .a = a, .b = b, .reg = ins.dst, .imm = imm};
	*slot = n;
	return ins.dst;
}

static int ix_args(const struct ix *x)
{
	return x->op <= IX_PARAM ? 0 : x->op == IX_TABLE ? 1 : 2;
}

static uint16_t ix_node(struct sim_emit *e, const struct ix *x, uint16_t a, uint16_t b)
{
	switch (x->op) {
	case IX_CONST:
		return number(e, VM_ICONST, 0, 0, 0, x->c);
	case IX_VAR:
		return e->var_reg[x->id];
	case IX_PARAM:
		return (uint16_t)x->id;
	case IX_TABLE:
		return number(e, VM_ITABLE, 1, a, (uint16_t)x->id, 0);
	default:
		return number(e, (uint8_t)(VM_IADD + (x->op - IX_ADD)), 2, a, b, 0);
	}
}

/* Postorder with an explicit stack, because expressions may be deep. */
static uint16_t ix_reg(struct sim_emit *e, const struct ix *root)
{
	struct {
		const struct ix *x;
		int done;
		uint16_t arg[2];
	} stack[MAX_IX_DEPTH] = {{.x = root}};
	int top = 0;
	for (;;) {
		const struct ix *x = stack[top].x;
		if (stack[top].done < ix_args(x)) {
			if (top + 1 == MAX_IX_DEPTH) {
				e->over = true;
				return 0;
			}
			const struct ix *child = stack[top].done++ ? x->b : x->a;
			top++;
			stack[top].x = child;
			stack[top].done = 0;
			continue;
		}
		uint16_t reg = ix_node(e, x, stack[top].arg[0], stack[top].arg[1]);
		if (top-- == 0)
			return reg;
		stack[top].arg[stack[top].done - 1] = reg;
	}
}

static void emit_list(struct sim_emit *e, const struct stmt *s);

static void open_level(struct sim_emit *e, struct seq *body)
{
	struct level *v = &e->level[e->nlevels++];
	*v = (struct level){.body = body};
	e->here = body;
}

/* Closes the innermost level into `out`, as a loop over `var` or (var < 0) as straight code. */
static void close_level(struct sim_emit *e, struct seq *out, struct vm_ins loop)
{
	struct level *v = &e->level[--e->nlevels];
	loop.x = v->head.n + v->body->n + 1;
	if (loop.op == VM_FOR)
		seq_add(e, out, loop);
	seq_append(e, out, &v->head);
	seq_append(e, out, v->body);
	if (loop.op == VM_FOR)
		seq_add(e, out, (struct vm_ins){.op = VM_NEXT, .x = loop.x});
}

static void emit_for(struct sim_emit *e, const struct stmt *s)
{
	struct seq *outer = e->here, body = {0};
	struct vm_ins loop = {.op = VM_FOR, .a = ix_reg(e, s->lo), .b = ix_reg(e, s->hi), .imm = s->step};
	loop.dst = new_reg(e, e->nlevels, false);
	e->var_reg[s->var] = loop.dst;
	open_level(e, &body);
	emit_list(e, s->body);
	close_level(e, outer, loop);
	e->here = outer;
}

/* The instructions for `s` and its successors, as a separate sequence. */
static struct seq apart(struct sim_emit *e, const struct stmt *s)
{
	struct seq *outer = e->here, part = {0};
	e->here = &part;
	emit_list(e, s);
	e->here = outer;
	return part;
}

static void add_if(struct sim_emit *e, uint16_t cond, const struct seq *then, const struct seq *other)
{
	seq_add(e, e->here, (struct vm_ins){.op = VM_IF, .a = cond, .x = then->n + (other->n != 0)});
	seq_append(e, e->here, then);
	if (other->n)
		seq_add(e, e->here, (struct vm_ins){.op = VM_JUMP, .x = other->n});
	seq_append(e, e->here, other);
}

static void emit_if(struct sim_emit *e, const struct stmt *s)
{
	uint16_t cond = ix_reg(e, s->lo);
	struct seq then = apart(e, s->body), other = apart(e, s->other);
	add_if(e, cond, &then, &other);
}

static uint32_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* Loads or stores variable `var`. An address that reads tables is computed only under the guard. */
static void emit_access(struct sim_emit *e, enum vm_op op, int var, const struct mem *m)
{
	struct vm_ins ins = {.op = (uint8_t)op,
			     .lanes = e->l->lanes[var],
			     .src = e->l->lanes[var],
			     .dst = (uint16_t)var,
			     .b = (uint16_t)m->buf,
			     .c = VM_NONE,
			     .d = VM_NONE,
			     .x = float_bits(m->fill),
			     .imm = m->stride};
	if (m->valid)
		ins.c = ix_reg(e, m->valid);
	if (m->guard)
		ins.d = ix_reg(e, m->guard);
	struct seq *outer = e->here, part = {0};
	e->here = &part;
	ins.a = ix_reg(e, m->at);
	bool branch = part.n && m->guard;
	seq_add(e, &part, ins);
	e->here = outer;
	if (!branch) {
		seq_append(e, outer, &part);
		return;
	}
	struct seq other = {0};
	struct vm_ins fill = {.op = VM_CONST, .lanes = ins.lanes, .src = ins.src, .dst = ins.dst, .x = ins.x};
	if (op == VM_LOAD)
		seq_add(e, &other, fill);
	add_if(e, ins.d, &part, &other);
}

static void emit_set(struct sim_emit *e, const struct stmt *s)
{
	if (s->vop == V_LOAD) {
		emit_access(e, VM_LOAD, s->dst, &s->mem);
		return;
	}
	bool reads = s->vop != V_CONST;
	struct vm_ins ins = {.op = (uint8_t)(VM_CONST + s->vop),
			     .lanes = e->l->lanes[s->dst],
			     .src = e->l->lanes[reads ? s->a : s->dst],
			     .dst = (uint16_t)s->dst,
			     .a = (uint16_t)s->a,
			     .b = (uint16_t)s->b,
			     .c = (uint16_t)s->c,
			     .d = (uint16_t)s->d,
			     .x = s->vop == V_LANE || (s->vop >= V_TRN0 && s->vop <= V_LACE)
				      ? (uint32_t)s->imm
				      : float_bits(s->imm)};
	seq_add(e, e->here, ins);
}

static void emit_store(struct sim_emit *e, const struct stmt *s)
{
	emit_access(e, VM_STORE, s->a, &s->mem);
}

static void emit_prefetch(struct sim_emit *e, const struct stmt *s)
{
	uint16_t at = ix_reg(e, s->mem.at);
	seq_add(e, e->here, (struct vm_ins){.op = VM_PREFETCH, .a = at, .b = (uint16_t)s->mem.buf});
}

static void (*const emit_stmt[])(struct sim_emit *, const struct stmt *) = {
    [ST_SET] = emit_set, [ST_STORE] = emit_store, [ST_PREFETCH] = emit_prefetch,
    [ST_FOR] = emit_for, [ST_IF] = emit_if,
};

static void emit_list(struct sim_emit *e, const struct stmt *s)
{
	if (++e->nesting > MAX_NESTING)
		e->over = true;
	for (; s && !e->over; s = s->next)
		emit_stmt[s->op](e, s);
	e->nesting--;
}

/* Value numbers and registers belong to one entry, because entries run separately. */
static void emit_entry(struct sim_emit *e, const struct entry *en, struct seq *out)
{
	struct seq outer = {0}, body = {0};
	memset(e->bucket, 0, sizeof e->bucket);
	e->nregs = 0;
	for (int i = 0; i < e->l->nparams + 2; i++)
		new_reg(e, 0, false);
	open_level(e, &outer);
	for (int i = 0; i < e->l->nbufs; i++) {
		uint16_t elems = ix_reg(e, e->l->buf[i].elems);
		seq_add(e, &outer, (struct vm_ins){.op = VM_EXTENT, .a = elems, .b = (uint16_t)i});
	}
	struct vm_ins loop = {.op = VM_FOR, .imm = 1};
	loop.a = (uint16_t)e->l->nparams;
	loop.b = (uint16_t)(e->l->nparams + 1);
	loop.dst = new_reg(e, 1, false);
	e->var_reg[en->var] = loop.dst;
	open_level(e, &body);
	emit_list(e, en->body);
	close_level(e, &outer, loop);
	close_level(e, out, (struct vm_ins){0});
}

static int check_limits(const struct loops *l, const struct target *t, int pressure)
{
	if (l->failed || l->nvars > VM_MAX_REGS || l->nbufs > VM_MAX_BUFS || l->nentries > VM_MAX_ENTRIES)
		return fail(E_INFEASIBLE, "the kernel exceeds the simulator's limits");
	if (loops_has_threads(l))
		return fail(E_UNSUPPORTED, "the simulator has no blocks of threads");
	for (int i = 0; i < l->nvars; i++)
		if (l->type[i] != LV_F32)
			return fail(E_UNSUPPORTED, "the simulator has no integer vectors");
	for (int i = 0; i < l->nbufs; i++)
		if (l->buf[i].dtype != DT_F32 && l->buf[i].dtype != DT_I32)
			return fail(E_UNSUPPORTED, "the simulator has no buffers of %s",
				    dtype_name(l->buf[i].dtype));
	if (pressure > t->regs + SPILLED)
		return fail(E_SPILL, "spill: the kernel needs %d vector registers, the target has %d",
			    pressure, t->regs);
	return E_OK;
}

static int sim_emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	int pressure = loops_pressure(l), rc = check_limits(l, t, pressure);
	if (rc < 0)
		return rc;
	struct sim_emit *e = ARENA_NEW(a, struct sim_emit);
	e->l = l;
	e->a = a;
	e->reg = ARENA_ARRAY(a, struct reg_info, VM_MAX_REGS);
	e->var_reg = ARENA_ARRAY(a, uint16_t, l->nloopvars + 1);
	struct vm_object o = {.nbufs = l->nbufs,
			      .nparams = l->nparams,
			      .nentries = l->nentries,
			      .fma = l->fma,
			      .nvecs = (uint32_t)l->nvars,
			      .pressure = (uint32_t)pressure,
			      .regs = (uint32_t)t->regs};
	struct seq code = {0};
	for (int i = 0; i < l->nentries; i++) {
		memcpy(o.entry[i].symbol, l->entry[i].name, sizeof o.entry[i].symbol);
		o.entry[i].first = code.n;
		emit_entry(e, &l->entry[i], &code);
		o.entry[i].count = code.n - o.entry[i].first;
		o.nints = e->nregs > o.nints ? e->nregs : o.nints;
	}
	if (e->over)
		return fail(E_INFEASIBLE, "the kernel exceeds the simulator's limits");
	o.code = code.p;
	o.ncode = code.n;
	struct buf bytes = {0};
	vm_encode(&o, &bytes);
	if (!buf_ok(&bytes)) {
		buf_free(&bytes);
		return fail(E_NOMEM, "no memory for a simulator object");
	}
	*object = (struct blob){.p = arena_memdup(a, bytes.p, bytes.n), .n = bytes.n};
	buf_free(&bytes);
	return E_OK;
}

const struct emit emit_sim = {.name = "sim", .version = sim_version, .emit = sim_emit};
