/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/ptx_regs.h"
#include "kernels/emit/ptx_flow.h"
#include "kernels/space/resident.h"

#include <string.h>

enum {
	SHARED_EARLY = 128 - PTX_REGS_BASE /* up to which the assembler loads from shared memory early */
};

struct orders {
	struct ptx_flow f;
	struct arena a;
	int *before, *after, n; /* a block's instructions in the text's order, and in another */
	uint64_t *live;         /* set of registers */
	uint8_t *source;        /* per register: enum source */
	bool *first;            /* per instruction of `before` */
	int *setter, *stack;    /* per register; of instructions */
};

enum source { NOT_LOADED, LOADED, LOADED_CONST };

static bool drop(uint64_t *set, uint32_t r)
{
	uint64_t bit = UINT64_C(1) << (r % 64);
	bool had = set[r / 64] & bit;
	set[r / 64] &= ~bit;
	return had;
}

static bool put(uint64_t *set, uint32_t r)
{
	uint64_t bit = UINT64_C(1) << (r % 64);
	bool had = set[r / 64] & bit;
	set[r / 64] |= bit;
	return !had;
}

/* The most registers that are live at once in `order`, from the last instruction to the first. */
static int pressure(struct orders *o, const int *order, const uint64_t *out)
{
	int live = 0, most;
	memcpy(o->live, out, sizeof *out * (size_t)o->f.words);
	for (int i = 0; i < o->f.words; i++)
		for (uint64_t m = out[i]; m; m &= m - 1)
			live += o->f.weight[i * 64 + __builtin_ctzll(m)];
	most = live;
	for (int i = o->n - 1; i >= 0; i--) {
		const struct flow_ins *x = &o->f.ins[order[i]];
		const uint32_t *reg = o->f.reg + x->first;
		int unused = 0;
		for (int k = 0; k < x->ndefs; k++)
			unused += ptx_in(o->live, reg[k]) ? 0 : o->f.weight[reg[k]];
		most = live + unused > most ? live + unused : most;
		for (int k = 0; k < x->ndefs; k++)
			live -= drop(o->live, reg[k]) ? o->f.weight[reg[k]] : 0;
		for (int k = x->ndefs; k < x->ndefs + x->nuses; k++)
			live += put(o->live, reg[k]) ? o->f.weight[reg[k]] : 0;
		most = live > most ? live : most;
	}
	return most;
}

/* Which values are loaded, or parts of what was loaded. */
static void find_sources(struct orders *o)
{
	for (int i = 0; i < o->n; i++) {
		const struct flow_ins *x = &o->f.ins[o->before[i]];
		const uint32_t *reg = o->f.reg + x->first;
		enum source s = x->kind == PTX_GLOBAL ? LOADED : NOT_LOADED;
		if (x->kind == PTX_GLOBAL_CONST)
			s = LOADED_CONST;
		bool part = x->kind == PTX_PLAIN || x->kind == PTX_CONVERT || x->kind == PTX_IMMEDIATE;
		for (int k = x->ndefs; k < x->ndefs + x->nuses && part; k++) {
			enum source u = o->source[reg[k]];
			if (u != NOT_LOADED && (s == NOT_LOADED || u < s))
				s = u;
		}
		for (int k = 0; k < x->ndefs; k++)
			o->source[reg[k]] = (uint8_t)s;
	}
}

/* Marks which of instructions [from, to) of a block run first, with what they need: loads, and conversions of
 * what was loaded. Stores separate those that may read what others write. */
static void mark_first(struct orders *o, int from, int to, bool constant)
{
	uint64_t *wanted = o->live;
	memset(wanted, 0, sizeof *wanted * (size_t)o->f.words);
	for (int i = to - 1; i >= from; i--) {
		const struct flow_ins *x = &o->f.ins[o->before[i]];
		const uint32_t *reg = o->f.reg + x->first;
		if (o->first[i] || x->kind == PTX_STORE || x->kind == PTX_BARRIER)
			continue;
		bool load = x->kind == PTX_GLOBAL_CONST || (x->kind == PTX_GLOBAL && !constant);
		if (x->kind == PTX_CONVERT && x->ndefs)
			load |=
			    constant ? o->source[reg[0]] == LOADED_CONST : o->source[reg[0]] != NOT_LOADED;
		for (int k = 0; k < x->ndefs; k++)
			load |= ptx_in(wanted, reg[k]);
		o->first[i] = load && !(constant && x->kind == PTX_GLOBAL);
		for (int k = x->ndefs; k < x->ndefs + x->nuses && o->first[i]; k++)
			put(wanted, reg[k]);
	}
}

static int copy_marked(struct orders *o, int n, int from, int to, bool first)
{
	for (int i = from; i < to; i++)
		if (o->first[i] == first)
			o->after[n++] = o->before[i];
	return n;
}

static enum flow_class kind(const struct orders *o, int i)
{
	return o->f.ins[o->before[i]].kind;
}

/* Constant loads of a part between barriers first, then from store to store the other loads and the rest. */
static void order_early(struct orders *o)
{
	int n = 0;
	memset(o->first, 0, (size_t)o->n);
	find_sources(o);
	for (int from = 0, to; from < o->n; from = to + 1) {
		for (to = from; to < o->n && kind(o, to) != PTX_BARRIER; to++)
			;
		mark_first(o, from, to, true);
		n = copy_marked(o, n, from, to, true);
		for (int i = from; i < to; i++) /* those are done: the others are in `rest` */
			if (o->first[i])
				o->before[i] = -1;
		int rest = from;
		for (int i = from; i < to; i++)
			if (o->before[i] >= 0)
				o->before[rest++] = o->before[i];
		memset(o->first + from, 0, (size_t)(to - from));
		for (int part = from, end; part < rest; part = end + 1) {
			for (end = part; end < rest && kind(o, end) != PTX_STORE; end++)
				;
			mark_first(o, part, end, false);
			n = copy_marked(o, n, part, end, true);
			n = copy_marked(o, n, part, end, false);
			if (end < rest)
				o->after[n++] = o->before[end];
		}
		if (to < o->n)
			o->after[n++] = o->before[to];
	}
}

static bool waits(const struct orders *o, int i)
{
	const struct flow_ins *x = &o->f.ins[i];
	bool once = x->kind == PTX_SHARED && !x->guarded;
	for (int k = 0; k < x->ndefs; k++)
		once &= o->f.sets[o->f.reg[x->first + (uint32_t)k]] == 1;
	return once;
}

/* Moves each load from shared memory in `after` to where it is first used. Returns how many there are. */
static int order_late(struct orders *o)
{
	int loads = 0, n = 0;
	memset(o->setter, -1, sizeof *o->setter * (size_t)o->f.nregs);
	for (int i = 0; i < o->n; i++) {
		const struct flow_ins *x = &o->f.ins[o->after[i]];
		const uint32_t *reg = o->f.reg + x->first;
		if (waits(o, o->after[i])) {
			for (int k = 0; k < x->ndefs; k++)
				o->setter[reg[k]] = o->after[i];
			loads++;
			continue;
		}
		for (int k = x->ndefs; k < x->ndefs + x->nuses; k++) {
			int load = o->setter[reg[k]];
			if (load < 0)
				continue;
			o->before[n++] = load;
			const struct flow_ins *y = &o->f.ins[load];
			for (int j = 0; j < y->ndefs; j++)
				o->setter[o->f.reg[y->first + (uint32_t)j]] = -1;
		}
		o->before[n++] = o->after[i];
	}
	o->n = n;
	memcpy(o->after, o->before, sizeof *o->after * (size_t)n);
	return loads;
}

/* ---- values just before they are needed ---- */

static bool is_root(const struct flow_ins *x)
{
	return x->kind == PTX_STORE || x->kind == PTX_BARRIER || x->kind == PTX_GLOBAL ||
	       x->kind == PTX_GLOBAL_CONST || x->kind == PTX_SHARED || !x->ndefs;
}

/* Orders `after` into `before`: stores, loads and what is live behind the block stay in order, and each other
 * value goes before its first use. */
static void order_deep(struct orders *o, const uint64_t *out)
{
	int total = 0, n = 0, *dep = NULL, *at = ARENA_ARRAY(&o->a, int, o->n + 1);
	for (int i = 0; i < o->n; i++)
		total += o->f.ins[o->after[i]].nuses + o->f.ins[o->after[i]].ndefs;
	dep = ARENA_ARRAY(&o->a, int, total + 1);
	bool *done = ARENA_ARRAY(&o->a, bool, o->n + 1);
	int *next = ARENA_ARRAY(&o->a, int, o->n + 1);
	memset(o->setter, -1, sizeof *o->setter * (size_t)o->f.nregs);
	total = 0;
	for (int i = 0; i < o->n; i++) {
		const struct flow_ins *x = &o->f.ins[o->after[i]];
		const uint32_t *reg = o->f.reg + x->first;
		at[i] = next[i] = total;
		for (int k = 0; k < x->ndefs + x->nuses; k++)
			if ((k >= x->ndefs || (x->guarded && o->f.sets[reg[k]] > 1)) &&
			    o->setter[reg[k]] >= 0)
				dep[total++] = o->setter[reg[k]];
		for (int k = 0; k < x->ndefs; k++)
			o->setter[reg[k]] = i;
	}
	at[o->n] = total;
	for (int i = 0; i < o->n; i++) {
		const struct flow_ins *x = &o->f.ins[o->after[i]];
		const uint32_t *reg = o->f.reg + x->first;
		bool root = is_root(x);
		for (int k = 0; k < x->ndefs; k++)
			root |= o->setter[reg[k]] == i && ptx_in(out, reg[k]);
		if (!root || done[i])
			continue;
		int depth = 0;
		o->stack[depth++] = i;
		done[i] = true;
		while (depth) {
			int j = o->stack[depth - 1];
			if (next[j] == at[j + 1]) {
				o->before[n++] = o->after[j];
				depth--;
			} else if (!done[dep[next[j]++]]) {
				j = dep[next[j] - 1];
				done[j] = true;
				o->stack[depth++] = j;
			}
		}
	}
	o->n = n; /* what is left sets registers that are set again before their use */
}

/* Registers that a block loads from shared memory. */
static int shared_registers(const struct orders *o)
{
	int n = 0;
	for (int i = 0; i < o->n; i++) {
		const struct flow_ins *x = &o->f.ins[o->before[i]];
		for (int k = 0; k < x->ndefs && x->kind == PTX_SHARED; k++)
			n += o->f.weight[o->f.reg[x->first + (uint32_t)k]];
	}
	return n;
}

static bool has_products(const struct orders *o)
{
	for (int i = 0; i < o->n; i++)
		if (o->f.ins[o->before[i]].matrix)
			return true;
	return false;
}

static void add_block(struct orders *o, const struct flow_block *b, struct ptx_regs *r)
{
	o->n = 0;
	for (int i = b->head; i >= 0; i = o->f.ins[i].next)
		o->before[o->n++] = i;
	int shared = shared_registers(o);
	int least = pressure(o, o->before, b->out);
	order_early(o);
	int early = pressure(o, o->after, b->out);
	if (early > SHARED_EARLY && order_late(o)) {
		int late = pressure(o, o->after, b->out);
		least = late < least ? late : least;
		int ahead = late + PTX_REGS_AHEAD < SHARED_EARLY ? late + PTX_REGS_AHEAD : SHARED_EARLY;
		early = late > ahead ? late : ahead;
	}
	order_deep(o, b->out);
	int deep = pressure(o, o->before, b->out);
	least = early < least ? early : least;
	least = deep < least ? deep : least;
	deep = deep < early * 3 / 2 ? deep : early * 3 / 2;
	r->products |= has_products(o);
	least += has_products(o) ? 2 * PTX_REGS_UNIT : 0; /* whose operands are registers side by side */
	int all = PTX_REGS_BASE + (4 * early + deep) / 5;
	if (shared > all + PTX_REGS_MARGIN && early <= SHARED_EARLY)
		all += PTX_REGS_UNIT;
	r->all = all > r->all ? all : r->all;
	r->least = least > r->least ? least : r->least;
}

static int up(int n)
{
	return (n + PTX_REGS_UNIT - 1) / PTX_REGS_UNIT * PTX_REGS_UNIT;
}

/* The bound below which the assembler may spill what is live. */
static int least_bound(const struct ptx_regs *r)
{
	return up(r->least + PTX_REGS_UNIT + r->least / PTX_REGS_SLACK);
}

struct ptx_regs ptx_registers(const char *text, size_t n, int entry)
{
	struct orders o = {0};
	struct ptx_regs r = {0};
	if (ptx_flow(text, n, entry, &o.a, &o.f)) {
		o.before = ARENA_ARRAY(&o.a, int, o.f.nins + 1);
		o.after = ARENA_ARRAY(&o.a, int, o.f.nins + 1);
		o.stack = ARENA_ARRAY(&o.a, int, o.f.nins + 1);
		o.first = ARENA_ARRAY(&o.a, bool, o.f.nins + 1);
		o.live = ARENA_ARRAY(&o.a, uint64_t, o.f.words);
		o.source = ARENA_ARRAY(&o.a, uint8_t, o.f.nregs + 1);
		o.setter = ARENA_ARRAY(&o.a, int, o.f.nregs + 1);
		for (int i = 0; i < o.f.nblocks; i++)
			if (!o.f.block[i].gone)
				add_block(&o, &o.f.block[i], &r);
	}
	arena_free(&o.a);
	int bound = least_bound(&r) - PTX_REGS_MARGIN - (r.products ? PTX_REGS_UNIT / 2 : 0);
	r.usual = up(r.all - PTX_REGS_UNIT / 2 + 1);
	r.usual = r.usual > bound ? r.usual : bound;
	r.usual = r.usual < THREAD_REGISTERS ? r.usual : THREAD_REGISTERS;
	return r;
}

int ptx_most(const struct ptx_regs *r, int limit)
{
	int most = r->usual + PTX_REGS_MARGIN, least = least_bound(r);
	most = most > least ? most : least;
	return r->all && most < limit ? most : 0;
}

bool ptx_spills(const struct ptx_regs *r, int limit)
{
	bool farther = r->all > limit + PTX_REGS_SPILL * 3 / 2 && r->least > limit * 3 / 8,
	     far = r->all > limit + PTX_REGS_SPILL && r->least > limit / 2,
	     near = r->all > limit + PTX_REGS_SPILL / 2 && r->least > limit - PTX_REGS_SPILL / 2;
	return farther || far || near || r->least + PTX_REGS_UNIT > limit;
}

/* ---- what loops carry ---- */

/* Registers of each variable: a value that all lanes have takes one, a constant is part of instructions. */
static void weigh(const struct loops *l, const struct stmt *s, uint8_t *weight)
{
	for (; s; s = s->next) {
		weigh(l, s->body, weight);
		weigh(l, s->other, weight);
		if (s->op != ST_SET)
			continue;
		bool splat =
		    (s->vop == V_LOAD && s->mem.stride == 0) || s->vop == V_LANE || vop_across(s->vop);
		int n = s->vop == V_CONST ? 0 : splat ? 1 : l->lanes[s->dst];
		weight[s->dst] = n > weight[s->dst] ? (uint8_t)n : weight[s->dst];
	}
}

/* The most of a loop. Recursion is bounded by LOOPS_MAX_DEPTH. */
static int carried(const struct loops_flow *f, const struct stmt *s, const uint8_t *weight)
{
	int most = 0;
	for (; s; s = s->next) {
		int n = 0, body = carried(f, s->body, weight), other = carried(f, s->other, weight);
		for (int i = 0; i < f->words && s->op == ST_FOR; i++)
			for (uint64_t m = f->exposed[s->var][i] & f->assigned[s->var][i]; m; m &= m - 1)
				n += weight[i * 64 + __builtin_ctzll(m)];
		n = body > n ? body : n;
		n = other > n ? other : n;
		most = n > most ? n : most;
	}
	return most;
}

int ptx_carried(const struct loops *l, const struct entry *e)
{
	struct arena a = {0};
	struct loops_flow f = loops_flow(l, &a);
	uint8_t *weight = ARENA_ARRAY(&a, uint8_t, l->nvars + 64);
	weigh(l, e->body, weight);
	int n = carried(&f, e->body, weight);
	arena_free(&a);
	return n;
}
