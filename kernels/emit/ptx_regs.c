/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/ptx_regs.h"

#include <string.h>

enum {
	MOST = 255,     /* of a thread */
	UNIT = 65536,   /* of a unit (SM) of every architecture */
	EARLY = 128,    /* up to which the assembler loads from shared memory early */
	AROUND = 10,    /* addresses and the index */
	HALVES_LOOP = 5 /* halves of a register of each loop around: counters and addresses */
};

struct regs {
	const struct loops *l;
	struct arena a;
	struct loops_flow flow;
	uint8_t *weight; /* per vector variable: registers */
	enum {
		IN_ORDER,
		FAR_FIRST,
		ALL_FIRST
	} early;     /* what is computed before the rest: loads of shared
		      * memory only in ALL_FIRST */
	int values;  /* the most at once */
	int carried; /* the most that a loop carries */
};

static void put(uint64_t *set, int var)
{
	if (var >= 0)
		set[var / 64] |= UINT64_C(1) << (var % 64);
}

static bool has(const uint64_t *set, int var)
{
	return set[var / 64] >> (var % 64) & 1;
}

static void unite(const struct regs *r, uint64_t *to, const uint64_t *from)
{
	for (int i = 0; i < r->flow.words; i++)
		to[i] |= from[i];
}

static void count(struct regs *r, const uint64_t *set)
{
	int n = 0;
	for (int i = 0; i < r->flow.words; i++)
		for (uint64_t m = set[i]; m; m &= m - 1)
			n += r->weight[i * 64 + __builtin_ctzll(m)];
	r->values = n > r->values ? n : r->values;
}

static bool is_simple(const struct stmt *s)
{
	return s->op == ST_SET || s->op == ST_STORE || s->op == ST_PREFETCH;
}

static bool takes_long(const struct regs *r, const struct stmt *s)
{
	if (s->op == ST_SET && s->vop == V_LOAD)
		return r->early == ALL_FIRST || r->l->buf[s->mem.buf].role != BUF_SHARED;
	return s->op == ST_SET && (s->vop == V_CVT || s->vop == V_SQRT || s->vop == V_DIV);
}

/* Orders n simple statements as the assembler does: first those that take long, and what these need. */
static void order(const struct regs *r, const struct stmt **list, int n)
{
	struct arena a = {0};
	uint64_t *wanted = ARENA_ARRAY(&a, uint64_t, r->flow.words + 1);
	const struct stmt **late = ARENA_ARRAY(&a, const struct stmt *, n + 1);
	bool *first = ARENA_ARRAY(&a, bool, n + 1);
	int early = 0, rest = 0;
	for (int i = n - 1; i >= 0; i--) {
		const struct stmt *s = list[i];
		const int arg[4] = {s->a, s->b, s->c, s->d};
		first[i] = s->op == ST_SET && (takes_long(r, s) || has(wanted, s->dst));
		for (int k = 0; k < 4 && first[i]; k++)
			put(wanted, arg[k]);
	}
	for (int i = 0; i < n; i++)
		if (first[i])
			list[early++] = list[i];
		else
			late[rest++] = list[i];
	memcpy(list + early, late, sizeof *late * (size_t)rest);
	arena_free(&a);
}

static void body(struct regs *r, const struct stmt *s, uint64_t *set);

static bool is_empty_never(const struct stmt *s)
{
	int64_t lo, hi;
	return s->at_least_once || (ix_is_const(s->lo, &lo) && ix_is_const(s->hi, &hi) && lo < hi);
}

static void nested(struct regs *r, const struct stmt *s, uint64_t *set)
{
	uint64_t *other = arena_memdup(&r->a, set, sizeof *set * (size_t)(r->flow.words + 1));
	if (s->op == ST_IF) {
		body(r, s->other, other);
		body(r, s->body, set);
		unite(r, set, other);
		return;
	}
	unite(r, set, r->flow.exposed[s->var]);
	int carried = 0;
	for (int i = 0; i < r->flow.words; i++)
		for (uint64_t m = r->flow.exposed[s->var][i] & r->flow.assigned[s->var][i]; m; m &= m - 1)
			carried += r->weight[i * 64 + __builtin_ctzll(m)];
	r->carried = carried > r->carried ? carried : r->carried;
	body(r, s->body, set);
	if (!is_empty_never(s))
		unite(r, set, other);
}

static void simple(struct regs *r, const struct stmt *s, uint64_t *set)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	if (s->op == ST_SET) {
		put(set, s->dst);
		count(r, set);
		set[s->dst / 64] &= ~(UINT64_C(1) << (s->dst % 64));
	}
	for (int k = 0; k < 4; k++)
		put(set, arg[k]);
	count(r, set);
}

/* set: live after the list; becomes live before it. Recursion is bounded by LOOPS_MAX_DEPTH. */
static void body(struct regs *r, const struct stmt *s, uint64_t *set)
{
	int n = 0, i = 0;
	for (const struct stmt *t = s; t; t = t->next)
		n++;
	const struct stmt **list = ARENA_ARRAY(&r->a, const struct stmt *, n + 1);
	for (; s; s = s->next)
		list[i++] = s;
	for (int from = 0, to; r->early && from < n; from = to + 1) {
		for (to = from; to < n && is_simple(list[to]); to++)
			;
		order(r, list + from, to - from);
	}
	while (n-- > 0)
		if (list[n]->op == ST_FOR || list[n]->op == ST_IF)
			nested(r, list[n], set);
		else if (is_simple(list[n]))
			simple(r, list[n], set);
}

/* Registers of each variable: a value that all lanes have takes one, a constant is part of instructions. */
static void weigh(struct regs *r, const struct stmt *s)
{
	for (; s; s = s->next) {
		weigh(r, s->body);
		weigh(r, s->other);
		if (s->op != ST_SET)
			continue;
		bool splat =
		    (s->vop == V_LOAD && s->mem.stride == 0) || s->vop == V_LANE || vop_across(s->vop);
		int n = s->vop == V_CONST ? 0 : splat ? 1 : r->l->lanes[s->dst];
		r->weight[s->dst] = n > r->weight[s->dst] ? (uint8_t)n : r->weight[s->dst];
	}
}

/* Loops around each other. Recursion is bounded by LOOPS_MAX_DEPTH. */
static int depth(const struct stmt *s)
{
	int most = 0;
	for (; s; s = s->next) {
		int body = depth(s->body) + (s->op == ST_FOR), other = depth(s->other);
		body = body > other ? body : other;
		most = body > most ? body : most;
	}
	return most;
}

static int values(struct regs *r, const struct entry *e, int early)
{
	r->early = early;
	r->values = 0;
	body(r, e->body, ARENA_ARRAY(&r->a, uint64_t, r->flow.words + 1));
	return r->values;
}

int ptx_limit(int threads, int blocks)
{
	int warps = (threads + 31) / 32 * (blocks > 1 ? blocks : 1), n = UNIT / (32 * warps) / 8 * 8;
	return n < MOST ? n : MOST;
}

struct ptx_regs ptx_registers(const struct loops *l, const struct entry *e)
{
	struct regs r = {.l = l};
	r.flow = loops_flow(l, &r.a);
	r.weight = ARENA_ARRAY(&r.a, uint8_t, l->nvars + 64);
	weigh(&r, e->body);
	int around = AROUND + HALVES_LOOP * depth(e->body) / 2, plain = values(&r, e, IN_ORDER) + around,
	    far = values(&r, e, FAR_FIRST) + around, usual = values(&r, e, ALL_FIRST) + around;
	if (usual > EARLY)
		usual = plain > EARLY ? plain : EARLY;
	usual = usual > far ? usual : far;
	arena_free(&r.a);
	return (struct ptx_regs){.least = r.carried, .usual = usual < MOST ? usual : MOST};
}
