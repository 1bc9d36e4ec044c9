/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/order_parts.h"

#include <string.h>

static int64_t most_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int make_lists(struct arena *a, int n, int items, struct lists *l)
{
	l->at = arena_try(a, (size_t)n + 2, sizeof *l->at);
	l->item = arena_try(a, (size_t)items + 1, sizeof *l->item);
	return l->at && l->item ? E_OK : E_NOMEM;
}

static void push_item(struct lists *l, int i, int item)
{
	for (int k = l->at[i]; k < l->at[i + 1]; k++)
		if (l->item[k] == item)
			return;
	l->item[l->at[i + 1]++] = item;
}

static int users_lists(struct order_net *t)
{
	const struct order_problem *p = t->p;
	int total = t->uses.at[t->n], rc = make_lists(&t->a, p->nstores, total, &t->users);
	t->left = arena_try(&t->a, (size_t)p->nstores + 1, sizeof *t->left);
	if (rc < 0 || !t->left)
		return E_NOMEM;
	for (int k = 0; k < total; k++)
		t->users.at[t->uses.item[k] + 2]++;
	for (int s = 0; s < p->nstores; s++)
		t->users.at[s + 2] += t->users.at[s + 1];
	for (int i = 0; i < t->n; i++)
		for (int k = t->uses.at[i]; k < t->uses.at[i + 1]; k++)
			t->users.item[t->users.at[t->uses.item[k] + 1]++] = i;
	return E_OK;
}

/* E_CORRUPT: the order is not legal. */
static int fill_node(struct order_net *t, int i, const struct order_node *x, int *writer, bool *made)
{
	const struct order_problem *p = t->p;
	t->pred.at[i + 1] = t->pred.at[i];
	t->uses.at[i + 1] = t->uses.at[i];
	t->makes.at[i + 1] = t->makes.at[i];
	t->over[i] = x->over >= 0 ? p->store[x->over] : -1;
	for (int k = 0; k < x->nreads; k++) {
		int from = writer[x->read[k]], s = p->store[x->read[k]];
		if (from >= i || !made[s])
			return fail(E_CORRUPT, "node %d of an order comes before what it reads", i);
		if (from >= 0)
			push_item(&t->pred, i, from);
		push_item(&t->uses, i, s);
	}
	for (int k = 0; k < x->nwrites; k++) {
		int s = p->store[x->write[k]];
		if (!made[s])
			push_item(&t->makes, i, s);
		made[s] = true;
	}
	return E_OK;
}

static int make_net(struct order_net *t, const struct order_problem *p, const int *order)
{
	int reads = 0, writes = 0, rc = E_OK;
	*t = (struct order_net){.p = p, .n = p->nnodes};
	for (int i = 0; i < t->n; i++) {
		reads += p->node[i].nreads;
		writes += p->node[i].nwrites;
	}
	int *writer = arena_try(&t->a, (size_t)p->nvalues + 1, sizeof *writer);
	bool *made = arena_try(&t->a, (size_t)p->nstores + 1, sizeof *made);
	t->over = arena_try(&t->a, (size_t)t->n + 1, sizeof *t->over);
	if (!writer || !made || !t->over || make_lists(&t->a, t->n, reads, &t->pred) < 0 ||
	    make_lists(&t->a, t->n, reads, &t->uses) < 0 || make_lists(&t->a, t->n, writes, &t->makes) < 0)
		return E_NOMEM;
	memset(writer, -1, sizeof *writer * (size_t)p->nvalues);
	for (int s = 0; s < p->nstores; s++)
		made[s] = p->mem[s].held;
	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < p->node[order[i]].nwrites; k++)
			writer[p->node[order[i]].write[k]] = i;
	for (int i = 0; i < t->n && rc >= 0; i++)
		rc = fill_node(t, i, &p->node[order[i]], writer, made);
	return rc < 0 ? rc : users_lists(t);
}

/* Per node, the first node that reads its output (n: none) and the last node that it reads from (-1:
 * none). */
static void find_ends(const struct order_net *t, int *first, int *last)
{
	for (int i = 0; i < t->n; i++) {
		first[i] = t->n;
		last[i] = -1;
	}
	for (int i = t->n - 1; i >= 0; i--)
		for (int k = t->pred.at[i]; k < t->pred.at[i + 1]; k++) {
			int from = t->pred.item[k];
			first[from] = i;
			last[i] = last[i] > from ? last[i] : from;
		}
}

/* Finds cuts: nodes that all nodes before lead to, and that all nodes after depend on. Among the nodes up to
 * a cut, only the cut is read by none of them; among the nodes from it on, only the cut reads none of
 * them. */
static int find_cuts(struct order_net *t, bool *cut)
{
	size_t n = (size_t)t->n + 1;
	int *first = arena_try(&t->a, n, sizeof *first), *last = arena_try(&t->a, n, sizeof *last),
	    *reads = arena_try(&t->a, n, sizeof *reads), *feeds = arena_try(&t->a, n, sizeof *feeds);
	if (!first || !last || !reads || !feeds)
		return E_NOMEM;
	find_ends(t, first, last);
	for (int i = 0; i < t->n; i++) {
		reads[first[i]]++;
		if (last[i] >= 0)
			feeds[last[i]]++;
	}
	for (int i = 0, sinks = 0; i < t->n; i++)
		cut[i] = (sinks += 1 - reads[i]) == 1;
	for (int i = t->n - 1, sources = 0; i >= 0; i--)
		cut[i] &= (sources += 1 - feeds[i]) == 1;
	return E_OK;
}

/* Memory of the given order, node by node: bytes that live before each node ([n]: at the end), and the peak
 * during the node. */
struct walk {
	int64_t *live, *during;
};

static void walk_node(struct order_net *t, int i, struct walk *w)
{
	const struct order_store *mem = t->p->mem;
	int64_t made = 0, freed = 0, shared = 0;
	for (int k = t->makes.at[i]; k < t->makes.at[i + 1]; k++) {
		int s = t->makes.item[k];
		made += mem[s].bytes;
		freed += !t->left[s] && !mem[s].kept ? mem[s].bytes : 0;
	}
	for (int k = t->uses.at[i]; k < t->uses.at[i + 1]; k++) {
		int s = t->uses.item[k];
		if (--t->left[s] || mem[s].kept)
			continue;
		freed += mem[s].bytes;
		shared += s == t->over[i] ? mem[s].bytes : 0;
	}
	w->during[i] = w->live[i] + made - shared;
	w->live[i + 1] = w->live[i] + made - freed;
}

static int walk_given(struct order_net *t, struct walk *w)
{
	w->live = arena_try(&t->a, (size_t)t->n + 1, sizeof *w->live);
	w->during = arena_try(&t->a, (size_t)t->n + 1, sizeof *w->during);
	if (!w->live || !w->during)
		return E_NOMEM;
	for (int s = 0; s < t->p->nstores; s++) {
		t->left[s] = t->users.at[s + 1] - t->users.at[s];
		w->live[0] += t->p->mem[s].held && (t->left[s] || t->p->mem[s].kept) ? t->p->mem[s].bytes : 0;
	}
	for (int i = 0; i < t->n; i++)
		walk_node(t, i, w);
	return E_OK;
}

/* The least peak of any order: all that some node reads and writes. */
static int64_t least(const struct order_net *t)
{
	int64_t floor = 0;
	for (int i = 0; i < t->n; i++) {
		int64_t bytes = t->over[i] >= 0 ? -t->p->mem[t->over[i]].bytes : 0;
		for (int k = t->uses.at[i]; k < t->uses.at[i + 1]; k++)
			bytes += t->p->mem[t->uses.item[k]].bytes;
		for (int k = t->makes.at[i]; k < t->makes.at[i + 1]; k++)
			bytes += t->p->mem[t->makes.item[k]].bytes;
		floor = most_of(floor, bytes);
	}
	return floor;
}

static int make_parts(struct order_net *t, const struct walk *w, struct order_part **out)
{
	int n = 0;
	bool *cut = arena_try(&t->a, (size_t)t->n + 1, sizeof *cut);
	struct order_part *parts = *out = arena_try(&t->a, (size_t)t->n + 1, sizeof *parts);
	int rc = cut && parts ? find_cuts(t, cut) : E_NOMEM;
	for (int i = 0; i < t->n && rc >= 0; i++) {
		parts[n].net = t;
		parts[n].end = i + 1;
		parts[n].peak = parts[n].given_peak = most_of(parts[n].given_peak, w->during[i]);
		if (cut[i] && i + 1 < t->n)
			parts[++n].begin = i + 1;
	}
	return rc < 0 ? rc : n + (t->n > 0);
}

static struct order_part *worst(struct order_part *parts, int n)
{
	struct order_part *p = &parts[0];
	for (int i = 1; i < n; i++)
		if (parts[i].given_peak > p->given_peak)
			p = &parts[i];
	return p;
}

/* Orders the worst parts first: a peak that one part cannot avoid is allowed to the others. */
static int64_t improve(struct order_net *t, const struct walk *w, struct order_part *parts, int n, int max_states,
		       int *at)
{
	int64_t peak = most_of(least(t), w->live[0]);
	for (int i = 0; i < n; i++) {
		struct order_part *p = worst(parts, n);
		if (p->given_peak <= peak)
			break;
		if (p->end - p->begin > 1) {
			int rc = order_search(p, max_states, w->live[p->begin], peak, at + p->begin);
			if (rc < 0)
				return rc;
		}
		peak = most_of(peak, p->peak);
		p->given_peak = -1; /* done */
	}
	return peak;
}

static int rewrite(struct order_net *t, const struct order_part *parts, int n, int *order)
{
	int *given = arena_try(&t->a, (size_t)t->n + 1, sizeof *given);
	if (!given)
		return E_NOMEM;
	memcpy(given, order, sizeof *given * (size_t)t->n);
	for (int k = 0; k < n; k++)
		for (int i = parts[k].begin; i < parts[k].end && parts[k].found; i++)
			order[i] = given[parts[k].found[i - parts[k].begin]];
	return E_OK;
}

int64_t order_peak(const struct order_problem *p, const int *order)
{
	struct order_net t;
	struct walk w;
	int64_t peak = make_net(&t, p, order);
	if (peak >= 0)
		peak = walk_given(&t, &w);
	if (peak >= 0)
		peak = w.live[0];
	for (int i = 0; i < t.n && peak >= 0; i++)
		peak = most_of(peak, w.during[i]);
	arena_free(&t.a);
	return peak;
}

int64_t order_find(const struct order_problem *p, int max_states, int *order)
{
	struct order_net t;
	struct walk w;
	struct order_part *parts = NULL;
	int rc = make_net(&t, p, order), n = 0;
	if (rc >= 0)
		rc = walk_given(&t, &w);
	if (rc >= 0)
		rc = n = make_parts(&t, &w, &parts);
	int *at = arena_try(&t.a, (size_t)t.n + 1, sizeof *at);
	if (!at && rc >= 0)
		rc = E_NOMEM;
	int64_t peak = rc < 0 ? rc : improve(&t, &w, parts, n, max_states, at);
	if (peak >= 0 && (rc = rewrite(&t, parts, n, order)) < 0)
		peak = rc;
	arena_free(&t.a);
	return peak;
}
