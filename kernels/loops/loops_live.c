/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness of vector variables over structured statements: register pressure, and the variables that a loop
 * carries. */
#include "kernels/loops/loops.h"
#include <string.h>

/* State of the backward pass. A set is an array of words for 64 variables each. */
struct live {
	const struct loops *l;
	struct arena *a;
	int words;
	uint64_t **exposed, **assigned; /* per loop variable, as in loops_flow */
	uint64_t **passed;              /* per loop variable: variables that pass_through has handled */
	int most;
};

static uint64_t *new_set(struct live *v)
{
	return ARENA_ARRAY(v->a, uint64_t, v->words + 1);
}

static void unite(const struct live *v, uint64_t *to, const uint64_t *from)
{
	for (int i = 0; i < v->words; i++)
		to[i] |= from[i];
}

static void put(uint64_t *set, int var)
{
	if (var >= 0)
		set[var / 64] |= UINT64_C(1) << (var % 64);
}

static void count(struct live *v, const uint64_t *set)
{
	int n = 0;
	for (int i = 0; i < v->words; i++)
		n += __builtin_popcountll(set[i]);
	v->most = n > v->most ? n : v->most;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static void assigned_in(const struct stmt *s, uint64_t *set)
{
	for (; s; s = s->next) {
		if (s->op == ST_SET)
			put(set, s->dst);
		assigned_in(s->body, set);
		assigned_in(s->other, set);
	}
}

static void live_body(struct live *v, const struct stmt *s, uint64_t *set);

/* A variable that is read after the loop and that the body assigns on some paths only is also live before the
 * loop. */
static void pass_through(struct live *v, const struct stmt *s, const uint64_t *after)
{
	uint64_t *set = new_set(v), fresh = 0;
	int most = v->most;
	for (int i = 0; i < v->words; i++) {
		set[i] = after[i] & v->assigned[s->var][i];
		fresh |= set[i] & ~v->passed[s->var][i];
	}
	if (!fresh) /* without this the visits would double with each nesting level */
		return;
	unite(v, v->passed[s->var], set);
	live_body(v, s->body, set);
	unite(v, v->exposed[s->var], set);
	v->most = most;
}

static void live_nested(struct live *v, const struct stmt *s, uint64_t *set)
{
	uint64_t *other = arena_memdup(v->a, set, sizeof *set * (size_t)(v->words + 1));
	if (s->op == ST_IF) {
		live_body(v, s->other, other);
		live_body(v, s->body, set);
		unite(v, set, other);
		return;
	}
	/* What the next iteration needs is live at the end of the body; the first visit of a loop finds
	 * it. */
	if (!v->exposed[s->var]) {
		int most = v->most;
		v->exposed[s->var] = new_set(v);
		v->assigned[s->var] = new_set(v);
		v->passed[s->var] = new_set(v);
		assigned_in(s->body, v->assigned[s->var]);
		live_body(v, s->body, v->exposed[s->var]);
		v->most = most;
	}
	pass_through(v, s, other);
	unite(v, set, v->exposed[s->var]);
	live_body(v, s->body, set);
	if (!s->at_least_once)
		unite(v, set, other);
}

/* set: live after the list; becomes live before it. Recursion is bounded by LOOPS_MAX_DEPTH. */
static void live_body(struct live *v, const struct stmt *s, uint64_t *set)
{
	int n = 0, i = 0;
	for (const struct stmt *t = s; t; t = t->next)
		n++;
	const struct stmt **list = ARENA_ARRAY(v->a, const struct stmt *, n + 1);
	for (; s; s = s->next)
		list[i++] = s;
	while (n-- > 0) {
		s = list[n];
		if (s->op == ST_FOR || s->op == ST_IF) {
			live_nested(v, s, set);
			continue;
		}
		if (s->op == ST_SET) {
			put(set, s->dst);
			count(v, set);
			set[s->dst / 64] &= ~(UINT64_C(1) << (s->dst % 64));
		}
		const int arg[4] = {s->a, s->b, s->c, s->d};
		for (int k = 0; k < 4; k++)
			put(set, arg[k]);
		count(v, set);
	}
}

static int walk(const struct loops *l, struct arena *a, struct live *v)
{
	*v = (struct live){.l = l, .a = a, .words = (l->nvars + 63) / 64};
	v->exposed = ARENA_ARRAY(a, uint64_t *, l->nloopvars + 1);
	v->assigned = ARENA_ARRAY(a, uint64_t *, l->nloopvars + 1);
	v->passed = ARENA_ARRAY(a, uint64_t *, l->nloopvars + 1);
	for (int i = 0; i < l->nentries; i++)
		live_body(v, l->entry[i].body, new_set(v));
	return v->most;
}

int loops_pressure(const struct loops *l)
{
	struct arena a = {0};
	struct live v;
	int most = walk(l, &a, &v);
	arena_free(&a);
	return most;
}

struct loops_flow loops_flow(const struct loops *l, struct arena *a)
{
	struct live v;
	walk(l, a, &v);
	return (struct loops_flow){v.words, v.assigned, v.exposed};
}
