/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/min_sum.h"

#include "platform/base/arena.h"

#include <math.h>
#include <stdbool.h>

enum { LOOK = 64 /* variables that are compared to find one that keeps its state */ };

/* Costs over a few variables; cost[sum of state * step]. */
struct table {
	int n, var[MIN_SUM_WIDTH + 1], step[MIN_SUM_WIDTH + 1];
	const double *cost;
	bool used; /* merged into another table */
};

/* Entry of a variable's list of tables. */
struct part {
	struct table *table;
	struct part *next;
};

/* The best state of an eliminated variable for each combination of its neighbours' states. */
struct record {
	int var, n, near[MIN_SUM_WIDTH];
	const unsigned char *best;
};

struct solver {
	const struct min_sum_problem *p;
	struct arena a;
	struct part **parts; /* per variable */
	bool *gone, *queued;
	int *queue, head, waiting; /* a ring of nvars */
	int left, first;           /* all variables before it are eliminated */
	struct record *record;
	int nrecords;
};

double min_sum_cost(const struct min_sum_problem *p, const int *state)
{
	double sum = 0;
	for (int v = 0; v < p->nvars; v++)
		sum += p->cost[v][state[v]];
	for (int i = 0; i < p->npairs; i++) {
		const struct min_sum_pair *x = &p->pair[i];
		sum += x->cost[state[x->a] * p->states[x->b] + state[x->b]];
	}
	return sum;
}

static int add_table(struct solver *s, int n, const int *var, const double *cost)
{
	struct table *t = arena_try(&s->a, 1, sizeof *t);
	if (!t)
		return E_NOMEM;
	t->n = n;
	t->cost = cost;
	for (int i = n - 1, step = 1; i >= 0; i--) {
		struct part *part = arena_try(&s->a, 1, sizeof *part);
		if (!part)
			return E_NOMEM;
		t->var[i] = var[i];
		t->step[i] = step;
		step *= s->p->states[var[i]];
		*part = (struct part){t, s->parts[var[i]]};
		s->parts[var[i]] = part;
	}
	return E_OK;
}

/* Finds the variables that share a table with v; if there are more than MIN_SUM_WIDTH, the list is not
 * complete. Drops used tables. */
static int neighbours(struct solver *s, int v, int near[MIN_SUM_WIDTH])
{
	int n = 0;
	for (struct part **at = &s->parts[v]; *at;) {
		const struct table *t = (*at)->table;
		if (t->used) {
			*at = (*at)->next;
			continue;
		}
		for (int i = 0; i < t->n; i++) {
			int k = 0;
			while (k < n && near[k] != t->var[i])
				k++;
			if (t->var[i] == v || k < n)
				continue;
			if (n == MIN_SUM_WIDTH)
				return n + 1;
			near[n++] = t->var[i];
		}
		at = &(*at)->next;
	}
	return n;
}

/* The sum of v's tables at these states. */
static double sum_parts(const struct solver *s, int v, const int *state)
{
	double sum = s->p->cost[v][state[v]];
	for (const struct part *x = s->parts[v]; x; x = x->next) {
		int at = 0;
		for (int i = 0; i < x->table->n; i++)
			at += state[x->table->var[i]] * x->table->step[i];
		sum += x->table->cost[at];
	}
	return sum;
}

/* Advances to the next assignment of n variables; the last one changes fastest. */
static void advance(const struct solver *s, const int *var, int n, int *state)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++state[var[i]] < s->p->states[var[i]])
			return;
		state[var[i]] = 0;
	}
}

static void wake(struct solver *s, int v)
{
	if (s->gone[v] || s->queued[v])
		return;
	s->queued[v] = true;
	s->queue[(s->head + s->waiting++) % s->p->nvars] = v;
}

static int eliminate(struct solver *s, int v, const int *near, int n, int *state)
{
	size_t size = 1;
	for (int i = 0; i < n; i++)
		size *= (size_t)s->p->states[near[i]];
	double *cost = arena_try(&s->a, size, sizeof *cost);
	unsigned char *best = arena_try(&s->a, size, 1);
	if (!cost || !best)
		return E_NOMEM;
	for (int i = 0; i < n; i++)
		state[near[i]] = 0;
	for (size_t k = 0; k < size; k++, advance(s, near, n, state)) {
		cost[k] = INFINITY;
		for (state[v] = 0; state[v] < s->p->states[v]; state[v]++) {
			double c = sum_parts(s, v, state);
			if (c < cost[k]) {
				cost[k] = c;
				best[k] = (unsigned char)state[v];
			}
		}
	}
	for (struct part *x = s->parts[v]; x; x = x->next)
		x->table->used = true;
	struct record *r = &s->record[s->nrecords++];
	*r = (struct record){.var = v, .n = n, .best = best};
	for (int i = 0; i < n; i++) {
		r->near[i] = near[i];
		wake(s, near[i]);
	}
	s->gone[v] = true;
	s->left--;
	return n ? add_table(s, n, near, cost) : E_OK;
}

/* Removes v from one table by fixing its state. */
static int slice(struct solver *s, struct table *t, int v, int value, int *state)
{
	int var[MIN_SUM_WIDTH + 1], n = 0;
	size_t size = 1;
	for (int i = 0; i < t->n; i++)
		if (t->var[i] != v) {
			size *= (size_t)s->p->states[t->var[i]];
			state[t->var[i]] = 0;
			var[n++] = t->var[i];
		}
	double *cost = arena_try(&s->a, size, sizeof *cost);
	if (!cost)
		return E_NOMEM;
	state[v] = value;
	for (size_t k = 0; k < size; k++, advance(s, var, n, state)) {
		int at = 0;
		for (int i = 0; i < t->n; i++)
			at += state[t->var[i]] * t->step[i];
		cost[k] = t->cost[at];
	}
	t->used = true;
	for (int i = 0; i < n; i++)
		wake(s, var[i]);
	return n ? add_table(s, n, var, cost) : E_OK;
}

/* Makes v keep its given state. */
static int keep(struct solver *s, int v, int value, int *state)
{
	unsigned char *best = arena_try(&s->a, 1, 1);
	int rc = best ? E_OK : E_NOMEM;
	if (rc < 0)
		return rc;
	*best = (unsigned char)value;
	s->record[s->nrecords++] = (struct record){.var = v, .best = best};
	s->gone[v] = true;
	s->left--;
	for (struct part *x = s->parts[v]; x && rc >= 0; x = x->next)
		if (!x->table->used)
			rc = slice(s, x->table, v, value, state);
	return rc;
}

static int begin(struct solver *s)
{
	const struct min_sum_problem *p = s->p;
	size_t n = (size_t)p->nvars + 1;
	s->parts = arena_try(&s->a, n, sizeof(struct part *));
	s->gone = arena_try(&s->a, n, sizeof *s->gone);
	s->queued = arena_try(&s->a, n, sizeof *s->queued);
	s->queue = arena_try(&s->a, n, sizeof *s->queue);
	s->record = arena_try(&s->a, n, sizeof *s->record);
	if (!s->parts || !s->gone || !s->queued || !s->queue || !s->record)
		return E_NOMEM;
	s->left = p->nvars;
	int rc = E_OK;
	for (int i = 0; i < p->npairs && rc >= 0; i++)
		rc = add_table(s, 2, (int[]){p->pair[i].a, p->pair[i].b}, p->pair[i].cost);
	return rc;
}

/* Eliminates variables with at most `width` neighbours until there are none. */
static int sweep(struct solver *s, int width, int *state)
{
	int rc = E_OK, near[MIN_SUM_WIDTH];
	while (s->waiting && rc >= 0) {
		int v = s->queue[s->head];
		s->head = (s->head + 1) % s->p->nvars;
		s->waiting--;
		s->queued[v] = false;
		int n = s->gone[v] ? width + 1 : neighbours(s, v, near);
		if (n <= width)
			rc = eliminate(s, v, near, n, state);
	}
	return rc;
}

/* Among the first few variables that are left, the one with the most tables: fixing it unblocks most
 * others. */
static int busiest(struct solver *s)
{
	int found = -1, most = -1, seen = 0;
	while (s->gone[s->first])
		s->first++;
	for (int v = s->first; v < s->p->nvars && seen < LOOK; v++) {
		int n = 0;
		for (const struct part *x = s->parts[v]; x && !s->gone[v]; x = x->next)
			n += !x->table->used;
		seen += !s->gone[v];
		if (!s->gone[v] && n > most) {
			most = n;
			found = v;
		}
	}
	return found;
}

static int run(struct solver *s, const int *given, int *state)
{
	int rc = begin(s);
	for (int width = 1; s->left && rc >= 0; width++) {
		if (width > MIN_SUM_WIDTH) { /* none is queued; fixing one queues its neighbours */
			int v = busiest(s);
			rc = keep(s, v, given[v], state);
			width = MIN_SUM_WIDTH;
		} else {
			for (int v = 0; v < s->p->nvars; v++)
				wake(s, v);
		}
		if (rc >= 0)
			rc = sweep(s, width, state);
	}
	return rc;
}

static void read_back(const struct solver *s, int *state)
{
	for (int i = s->nrecords - 1; i >= 0; i--) {
		const struct record *r = &s->record[i];
		int at = 0;
		for (int k = 0; k < r->n; k++)
			at = at * s->p->states[r->near[k]] + state[r->near[k]];
		state[r->var] = r->best[at];
	}
}

int min_sum_solve(const struct min_sum_problem *p, int *state)
{
	struct solver s = {.p = p};
	int *given = arena_try(&s.a, (size_t)p->nvars + 1, sizeof *given);
	int rc = given ? E_OK : E_NOMEM;
	for (int v = 0; v < p->nvars && rc >= 0; v++)
		given[v] = state[v];
	if (rc >= 0)
		rc = run(&s, given, state);
	if (rc >= 0)
		read_back(&s, state);
	for (int v = 0; v < p->nvars && rc < 0 && given; v++)
		state[v] = given[v];
	arena_free(&s.a);
	return rc;
}
