/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/nest.h"
#include <string.h>

struct walk {
	const struct loops *l;
	const int64_t *params;
	void *const *bufs;
	int64_t *vars;
	const struct nest_touch *touch;
	struct nest_list *nest;
	int next; /* of the walk through the nodes, in their order */
};

/* As the emitter has it: the variable is the expression lo itself. */
static bool is_single(const struct loops *l, const struct stmt *s)
{
	const struct ix *x = l->loopvar[s->var].x;
	return s->at_least_once && !(x->op == IX_VAR && x->id == s->var);
}

static bool is_empty(const struct stmt *s)
{
	int64_t lo, hi;
	return ix_is_const(s->lo, &lo) && ix_is_const(s->hi, &hi) && lo >= hi;
}

static bool is_access(const struct stmt *s)
{
	return (s->op == ST_SET && s->vop == V_LOAD) || s->op == ST_STORE;
}

/* ---- nodes */

static int count_nodes(const struct stmt *s)
{
	int n = 0;
	for (; s; s = s->next)
		if (s->op == ST_FOR)
			n += 1 + count_nodes(s->body);
		else if (s->op == ST_IF)
			n += 2 + count_nodes(s->body) + count_nodes(s->other);
	return n;
}

static int add(struct nest_list *n, enum nest_kind kind, const struct stmt *s, int parent)
{
	n->node[n->n] = (struct nest_node){
	    .kind = kind, .s = s, .parent = parent, .depth = parent < 0 ? 0 : n->node[parent].depth + 1};
	return n->n++;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static void add_nodes(const struct loops *l, struct nest_list *n, const struct stmt *s, int parent)
{
	int64_t c;
	for (; s; s = s->next) {
		n->node[parent].accesses += is_access(s);
		if (s->op == ST_FOR && !is_empty(s)) {
			add_nodes(l, n, s->body, is_single(l, s) ? parent : add(n, NEST_LOOP, s, parent));
		} else if (s->op == ST_IF && ix_is_const(s->lo, &c)) {
			add_nodes(l, n, c ? s->body : s->other, parent);
		} else if (s->op == ST_IF) {
			add_nodes(l, n, s->body, add(n, NEST_THEN, s, parent));
			add_nodes(l, n, s->other, add(n, NEST_ELSE, s, parent));
		}
	}
}

int nest_make(const struct loops *l, int entry, struct arena *a, struct nest_list *out)
{
	const struct entry *e = &l->entry[entry];
	if (e->threads > 1)
		return fail(E_UNSUPPORTED, "%s has threads", e->name);
	*out = (struct nest_list){.node = ARENA_ARRAY(a, struct nest_node, 1 + count_nodes(e->body))};
	add_nodes(l, out, e->body, add(out, NEST_ENTRY, NULL, -1));
	return E_OK;
}

/* ---- the walk */

static int64_t value(const struct walk *w, const struct ix *x)
{
	return x->op == IX_CONST ? x->c : ix_eval(x, w->params, w->vars, w->bufs);
}

static bool has_var(const struct ix *x, int var)
{
	if (!x)
		return false;
	switch (x->op) {
	case IX_CONST:
	case IX_PARAM:
		return false;
	case IX_VAR:
		return x->id == var;
	case IX_TABLE:
		return has_var(x->a, var);
	default:
		return has_var(x->a, var) || has_var(x->b, var);
	}
}

/* Whether equal steps of the variable add equal amounts. */
static bool is_linear(const struct ix *x, int var)
{
	if (x->op == IX_ADD)
		return is_linear(x->a, var) && is_linear(x->b, var);
	if (x->op == IX_MUL)
		return (is_linear(x->a, var) && !has_var(x->b, var)) ||
		       (is_linear(x->b, var) && !has_var(x->a, var));
	return x->op == IX_VAR || !has_var(x, var);
}

static void touch_elements(const struct walk *w, const struct stmt *s, int64_t at, int64_t lanes)
{
	const struct mem *m = &s->mem;
	int64_t bytes = (int64_t)dtype_bytes(mem_type(w->l, m)), group = mem_group(m);
	bool writes = s->op == ST_STORE;
	if (m->stride == group || lanes == 1 || m->stride == 0) {
		int64_t n = m->stride == 0 ? 1 : lanes;
		w->touch->touch(w->touch->ctx, m->buf, at * bytes, n * group * bytes, writes);
		return;
	}
	for (int64_t i = 0; i < lanes; i++)
		w->touch->touch(w->touch->ctx, m->buf, (at + i * m->stride) * bytes, group * bytes, writes);
}

static void touch(const struct walk *w, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	int64_t lanes = w->l->lanes[s->op == ST_STORE ? s->a : s->dst];
	if (m->guard && !value(w, m->guard))
		return;
	if (m->valid) {
		int64_t valid = value(w, m->valid);
		lanes = valid < lanes ? valid : lanes;
	}
	if (lanes > 0)
		touch_elements(w, s, value(w, m->at), lanes);
}

/* ---- loops without loops in them, whose addresses move by equal steps */

enum { FLAT = 128 };
struct flat {
	const struct stmt *s;
	int64_t at, step;
};

static bool is_flat(const struct stmt *body, int var)
{
	int n = 0;
	for (const struct stmt *s = body; s; s = s->next) {
		if (s->op == ST_FOR || s->op == ST_IF)
			return false;
		if (is_access(s) && (n++ == FLAT || !is_linear(s->mem.at, var) ||
				     has_var(s->mem.valid, var) || has_var(s->mem.guard, var)))
			return false;
	}
	return true;
}

static void walk_flat(struct walk *w, const struct stmt *f, int64_t lo, int64_t hi)
{
	struct flat flat[FLAT];
	int64_t lanes[FLAT];
	int n = 0;
	for (const struct stmt *s = f->body; s; s = s->next) {
		if (!is_access(s) || (s->mem.guard && !value(w, s->mem.guard)))
			continue;
		lanes[n] = w->l->lanes[s->op == ST_STORE ? s->a : s->dst];
		if (s->mem.valid) {
			int64_t valid = value(w, s->mem.valid);
			lanes[n] = valid < lanes[n] ? valid : lanes[n];
		}
		if (lanes[n] <= 0)
			continue;
		w->vars[f->var] = lo;
		int64_t at = value(w, s->mem.at);
		w->vars[f->var] = lo + f->step;
		flat[n++] = (struct flat){s, at, value(w, s->mem.at) - at};
	}
	for (int64_t i = lo; i < hi; i += f->step)
		for (int k = 0; k < n; k++) {
			touch_elements(w, flat[k].s, flat[k].at, lanes[k]);
			flat[k].at += flat[k].step;
		}
}

static void walk_body(struct walk *w, const struct stmt *s);

/* Moves past the nodes of statements that do not run. */
static int after(const struct nest_list *n, int node)
{
	int depth = n->node[node].depth, i = node + 1;
	while (i < n->n && n->node[i].depth > depth)
		i++;
	return i;
}

static void walk_for(struct walk *w, const struct stmt *s)
{
	if (is_empty(s))
		return;
	int64_t lo = value(w, s->lo), hi = value(w, s->hi), first = w->next;
	bool single = is_single(w->l, s);
	struct nest_node *node = single ? NULL : &w->nest->node[w->next];
	int end = single ? 0 : after(w->nest, w->next);
	if (node && lo < hi) {
		node->entered++;
		node->runs += (double)((hi - lo + s->step - 1) / s->step);
	}
	if (node && is_flat(s->body, s->var)) {
		if (lo < hi && w->touch)
			walk_flat(w, s, lo, hi);
		w->next = end;
		return;
	}
	for (int64_t i = lo; i < hi; i += s->step) {
		w->vars[s->var] = i;
		w->next = (int)first + !single;
		walk_body(w, s->body);
	}
	if (!single)
		w->next = end;
}

static void walk_if(struct walk *w, const struct stmt *s)
{
	int64_t c;
	if (ix_is_const(s->lo, &c)) {
		walk_body(w, c ? s->body : s->other);
		return;
	}
	int yes = w->next, no = after(w->nest, yes), end = after(w->nest, no);
	bool taken = value(w, s->lo) != 0;
	w->nest->node[taken ? yes : no].entered++;
	w->nest->node[taken ? yes : no].runs++;
	w->next = (taken ? yes : no) + 1;
	walk_body(w, taken ? s->body : s->other);
	w->next = end;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static void walk_body(struct walk *w, const struct stmt *s)
{
	for (; s; s = s->next)
		if (s->op == ST_FOR)
			walk_for(w, s);
		else if (s->op == ST_IF)
			walk_if(w, s);
		else if (w->touch && is_access(s))
			touch(w, s);
}

int nest_walk(const struct loops *l, int entry, const int64_t *params, void *const *bufs, int64_t begin,
	      int64_t end, const struct nest_touch *t, struct nest_list *n)
{
	const struct entry *e = &l->entry[entry];
	struct arena a = {0};
	struct walk w = {.l = l,
			 .params = params,
			 .bufs = bufs,
			 .vars = ARENA_ARRAY(&a, int64_t, l->nloopvars + 1),
			 .touch = t,
			 .nest = n};
	if (e->threads > 1)
		return fail(E_UNSUPPORTED, "%s has threads", e->name);
	n->node[0].entered += begin < end;
	for (int64_t i = begin; i < end; i++) {
		w.vars[e->var] = i;
		w.next = 1;
		n->node[0].runs++;
		walk_body(&w, e->body);
	}
	arena_free(&a);
	return E_OK;
}
