/* SPDX-License-Identifier: Apache-2.0 */
/* Compares orders with brute force on random small graphs with views, results in place, inputs and outputs;
 * searches on large graphs end, with an order that is never worse than the given one. */
#include "kernels/group/order.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

enum { MAX_NODES = 400, MAX_READS = 3 };

struct made {
	struct order_problem p;
	struct order_node node[MAX_NODES];
	struct order_store mem[2 * MAX_NODES];
	int read[MAX_NODES][MAX_READS], write[MAX_NODES][2];
	int store[2 * MAX_NODES + 2];
};

static void add_value(struct made *m, int store, int64_t bytes)
{
	m->store[m->p.nvalues++] = store;
	if (store == m->p.nstores)
		m->mem[m->p.nstores++] = (struct order_store){.bytes = bytes};
}

static void add_node(struct made *m, struct rng *r, int reach)
{
	int i = m->p.nnodes++, have = m->p.nvalues;
	struct order_node *n = &m->node[i];
	*n = (struct order_node){.read = m->read[i], .write = m->write[i], .over = -1};
	n->nreads = 1 + (int)rng_below(r, MAX_READS);
	for (int k = 0; k < n->nreads; k++)
		m->read[i][k] = have - 1 - (int)rng_below(r, (uint32_t)(have < reach ? have : reach));
	int from = m->read[i][0], store = m->store[from];
	n->nwrites = 1 + (rng_below(r, 5) == 0);
	bool view = rng_below(r, 6) == 0;
	for (int k = 0; k < n->nwrites; k++) {
		m->write[i][k] = m->p.nvalues;
		add_value(m, view && !k ? store : m->p.nstores, 1 + rng_below(r, 20));
	}
	if (!view && rng_below(r, 3) == 0) {
		m->mem[m->store[m->write[i][0]]].bytes = m->mem[store].bytes;
		n->over = from;
	}
}

static void make(struct made *m, struct rng *r, int nodes, int reach)
{
	*m = (struct made){.p = {.node = m->node, .store = m->store, .mem = m->mem}};
	for (int i = 0; i < 2; i++) {
		add_value(m, m->p.nstores, 1 + rng_below(r, 20));
		m->mem[i].held = true;
	}
	while (m->p.nnodes < nodes)
		add_node(m, r, reach);
	for (int i = 0; i < 2; i++)
		m->mem[rng_below(r, (uint32_t)m->p.nstores)].kept = true;
}

static void identity(int *order, int n)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
}

/* The next permutation in lexical order; illegal orders are rejected later. */
static bool next_order(int *o, int n)
{
	int i = n - 2, j = n - 1;
	while (i >= 0 && o[i] > o[i + 1])
		i--;
	if (i < 0)
		return false;
	while (o[j] < o[i])
		j--;
	int x = o[i];
	o[i] = o[j];
	o[j] = x;
	for (int a = i + 1, b = n - 1; a < b; a++, b--) {
		x = o[a];
		o[a] = o[b];
		o[b] = x;
	}
	return true;
}

static int64_t brute(const struct order_problem *p)
{
	int order[16];
	int64_t best = INT64_MAX;
	identity(order, p->nnodes);
	do {
		int64_t peak = order_peak(p, order);
		best = peak >= 0 && peak < best ? peak : best;
	} while (next_order(order, p->nnodes));
	return best;
}

static bool permutation(const int *order, int n)
{
	bool seen[MAX_NODES] = {0};
	for (int i = 0; i < n; i++) {
		if (order[i] < 0 || order[i] >= n || seen[order[i]])
			return false;
		seen[order[i]] = true;
	}
	return true;
}

TEST(equals_the_best_of_all_orders)
{
	static struct made m;
	struct rng r;
	int better = 0;
	rng_seed(&r, 1);
	for (int i = 0; i < 300; i++) {
		int order[16], n = 2 + (int)rng_below(&r, 6);
		make(&m, &r, n, 2 + (int)rng_below(&r, 6));
		identity(order, n);
		int64_t given = order_peak(&m.p, order), best = brute(&m.p);
		int64_t found = order_find(&m.p, ORDER_STATES, order);
		CHECK(found == best && order_peak(&m.p, order) == best && permutation(order, n));
		better += best < given;
	}
	CHECK(better > 20);
}

/* With few or many states the result is legal, never worse, and the same when repeated. */
TEST(large_graphs_are_bounded)
{
	static struct made m;
	static const int bounds[] = {2, 50, 2000};
	struct rng r;
	rng_seed(&r, 2);
	for (int i = 0; i < 12; i++) {
		int order[MAX_NODES], again[MAX_NODES];
		make(&m, &r, MAX_NODES, i % 2 ? 12 : MAX_NODES);
		for (int k = 0; k < 3; k++) {
			identity(order, MAX_NODES);
			identity(again, MAX_NODES);
			int64_t given = order_peak(&m.p, order), found = order_find(&m.p, bounds[k], order);
			CHECK(found > 0 && found <= given && permutation(order, MAX_NODES));
			CHECK(order_peak(&m.p, order) <= found);
			CHECK(order_find(&m.p, bounds[k], again) == found);
			CHECK(!memcmp(order, again, sizeof order));
		}
	}
}

/* Two branches with a large and a small value each run one after the other, not interleaved. */
TEST(branches_one_after_the_other)
{
	static struct made m;
	static const int64_t bytes[] = {10, 100, 100, 1, 1};
	static const int from[] = {0, 0, 0, 1, 2};
	int order[4];
	m = (struct made){.p = {.nnodes = 4, .node = m.node, .store = m.store, .mem = m.mem}};
	for (int i = 0; i < 5; i++)
		add_value(&m, i, bytes[i]);
	for (int i = 0; i < 4; i++) {
		m.read[i][0] = from[i + 1];
		m.write[i][0] = i + 1;
		m.node[i] = (struct order_node){1, 1, m.read[i], m.write[i], -1};
	}
	m.mem[0].held = m.mem[3].kept = m.mem[4].kept = true;
	identity(order, 4);
	CHECK(order_peak(&m.p, order) == 210);
	CHECK(order_find(&m.p, ORDER_STATES, order) == 111);
	CHECK(order[0] == 0 && order[1] == 2 && order[2] == 1 && order[3] == 3);
}

TEST(no_order_is_an_error)
{
	static struct made m;
	struct rng r;
	int order[3] = {2, 1, 0};
	rng_seed(&r, 3);
	make(&m, &r, 3, 1);
	CHECK_FAILS((int)order_peak(&m.p, order), E_CORRUPT, "before what it reads");
	CHECK_FAILS((int)order_find(&m.p, ORDER_STATES, order), E_CORRUPT, "before what it reads");
	m.p.nnodes = 0;
	m.mem[0].kept = true;
	CHECK(order_find(&m.p, ORDER_STATES, order) > 0); /* the inputs that are kept */
}

TEST_MAIN
