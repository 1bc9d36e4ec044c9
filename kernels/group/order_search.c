/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/order_parts.h"
#include "platform/base/mix.h"

#include <string.h>

struct state {
	int parent, node; /* the node that led from the parent to this state */
	int depth;
	bool closed;
	int64_t live, peak; /* bytes that live now; the peak of the best path to here */
};

struct entry {
	int64_t peak, live;
	int depth, state;
};

struct search {
	const struct order_net *net;
	const struct order_part *part;
	int n, words;
	int nstates, most, nheap, slots;
	struct arena a;
	struct state *state;
	uint64_t *bits; /* words per state: the finished nodes of the part */
	int *slot;      /* hash table of states; -1: free */
	struct entry *heap;
};

struct bytes {
	int64_t during, after; /* bytes during and after a node's run */
};

static bool done(const struct search *h, const uint64_t *bits, int node)
{
	int i = node - h->part->begin;
	if (i < 0 || i >= h->n)
		return i < 0;
	return bits[i / 64] >> i % 64 & 1;
}

static void set_done(const struct search *h, uint64_t *bits, int node)
{
	int i = node - h->part->begin;
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* Whether the node is the last user of the store. */
static bool dies(const struct search *h, const uint64_t *bits, int store, int node)
{
	const struct lists *l = &h->net->users;
	for (int k = l->at[store]; k < l->at[store + 1]; k++)
		if (l->item[k] != node && !done(h, bits, l->item[k]))
			return false;
	return !h->net->p->mem[store].kept;
}

static struct bytes run(const struct search *h, const uint64_t *bits, int node, int64_t live)
{
	const struct order_net *t = h->net;
	const struct order_store *mem = t->p->mem;
	int64_t made = 0, freed = 0, shared = 0;
	for (int k = t->makes.at[node]; k < t->makes.at[node + 1]; k++) {
		int s = t->makes.item[k];
		made += mem[s].bytes;
		freed += t->users.at[s] == t->users.at[s + 1] && !mem[s].kept ? mem[s].bytes : 0;
	}
	for (int k = t->uses.at[node]; k < t->uses.at[node + 1]; k++) {
		int s = t->uses.item[k];
		if (!dies(h, bits, s, node))
			continue;
		freed += mem[s].bytes;
		shared += s == t->over[node] ? mem[s].bytes : 0;
	}
	return (struct bytes){live + made - shared, live + made - freed};
}

static bool ready(const struct search *h, const uint64_t *bits, int node)
{
	const struct lists *l = &h->net->pred;
	for (int k = l->at[node]; k < l->at[node + 1]; k++)
		if (!done(h, bits, l->item[k]))
			return false;
	return !done(h, bits, node);
}

static bool before(const struct entry *x, const struct entry *y)
{
	if (x->peak != y->peak)
		return x->peak < y->peak;
	if (x->depth != y->depth)
		return x->depth > y->depth;
	return x->live != y->live ? x->live < y->live : x->state < y->state;
}

static void heap_push(struct search *h, struct entry e)
{
	int i = h->nheap++;
	for (; i > 0 && before(&e, &h->heap[(i - 1) / 2]); i = (i - 1) / 2)
		h->heap[i] = h->heap[(i - 1) / 2];
	h->heap[i] = e;
}

static struct entry heap_pop(struct search *h)
{
	struct entry top = h->heap[0], last = h->heap[--h->nheap];
	int i = 0;
	for (int c; (c = 2 * i + 1) < h->nheap; i = c) {
		c += c + 1 < h->nheap && before(&h->heap[c + 1], &h->heap[c]);
		if (!before(&h->heap[c], &last))
			break;
		h->heap[i] = h->heap[c];
	}
	h->heap[i] = last;
	return top;
}

static uint64_t *bits_of(const struct search *h, int state)
{
	return &h->bits[(size_t)state * (size_t)h->words];
}

/* Copies a state's set into the place behind all states. */
static uint64_t *next_bits(const struct search *h, int state)
{
	return memcpy(bits_of(h, h->nstates), bits_of(h, state), sizeof *h->bits * (size_t)h->words);
}

/* The hash slot of a set: it holds the set's state, or is free. */
static int *find_slot(const struct search *h, const uint64_t *bits)
{
	size_t bytes = sizeof *bits * (size_t)h->words;
	int i = (int)(mix_bytes(bits, bytes, 0).lo & (uint64_t)(h->slots - 1));
	while (h->slot[i] >= 0 && memcmp(bits_of(h, h->slot[i]), bits, bytes) != 0)
		i = (i + 1) & (h->slots - 1);
	return &h->slot[i];
}

/* Adds a state, whose set lies behind all states and may be known already. False: no room. */
static bool add_state(struct search *h, const struct state *s)
{
	int *slot = find_slot(h, bits_of(h, h->nstates));
	if (*slot >= 0 && h->state[*slot].peak <= s->peak)
		return true;
	if (h->nheap == 2 * h->most || (*slot < 0 && h->nstates == h->most))
		return false;
	if (*slot < 0)
		*slot = h->nstates++;
	h->state[*slot] = *s;
	heap_push(h, (struct entry){s->peak, s->live, s->depth, *slot});
	return true;
}

static bool follow(struct search *h, int state, int node, struct bytes b)
{
	const struct state *s = &h->state[state];
	struct state next = {state, node, s->depth + 1, false, b.after, b.during};
	if (next.peak < s->peak)
		next.peak = s->peak;
	if (next.peak >= h->part->given_peak)
		return true;
	set_done(h, next_bits(h, state), node);
	return add_state(h, &next);
}

/* Expands a state. A node that neither raises the peak nor increases the live bytes is run at once: no order
 * that runs it later is better. False: no room. */
static bool expand(struct search *h, int state)
{
	const struct order_part *p = h->part;
	const struct state *s = &h->state[state];
	for (int pass = 0; pass < 2; pass++)
		for (int node = p->begin; node < p->end; node++) {
			if (!ready(h, bits_of(h, state), node))
				continue;
			struct bytes b = run(h, bits_of(h, state), node, s->live);
			if (pass == 0 && b.after <= s->live && b.during <= s->peak)
				return follow(h, state, node, b);
			if (pass == 1 && !follow(h, state, node, b))
				return false;
		}
	return true;
}

/* Finds the state to complete the order from: a complete one, or the largest one if the limit was reached;
 * -1: no order beats the given one. */
static int explore(struct search *h)
{
	int largest = 0;
	while (h->nheap > 0) {
		struct entry e = heap_pop(h);
		struct state *s = &h->state[e.state];
		if (s->closed || s->peak != e.peak)
			continue;
		s->closed = true;
		if (s->depth == h->n)
			return e.state;
		largest = s->depth > h->state[largest].depth ? e.state : largest;
		if (!expand(h, e.state))
			return largest;
	}
	return -1;
}

/* The node that raises the peak least; on ties, the one that leaves the least bytes alive. */
static int least_node(const struct search *h, const uint64_t *bits, struct state *s)
{
	int node = -1;
	struct bytes best = {0};
	for (int i = h->part->begin; i < h->part->end; i++) {
		if (!ready(h, bits, i))
			continue;
		struct bytes b = run(h, bits, i, s->live);
		b.during = b.during > s->peak ? b.during : s->peak;
		if (node >= 0 &&
		    (b.during > best.during || (b.during == best.during && b.after >= best.after)))
			continue;
		best = b;
		node = i;
	}
	s->live = best.after;
	s->peak = best.during;
	return node;
}

/* Writes the path to a state, then continues greedily. Returns the peak. */
static int64_t write_order(struct search *h, int state, int *order)
{
	uint64_t *bits = next_bits(h, state);
	struct state s = h->state[state];
	for (int i = state; h->state[i].depth > 0; i = h->state[i].parent)
		order[h->state[i].depth - 1] = h->state[i].node;
	for (; s.depth < h->n; s.depth++) {
		order[s.depth] = least_node(h, bits, &s);
		set_done(h, bits, order[s.depth]);
	}
	return s.peak;
}

/* Limits the states by work: a state of a large part costs more. */
static int begin(struct search *h, int max_states, int64_t live, int64_t floor)
{
	int bound = (1 << 19) / h->n;
	h->words = (h->n + 63) / 64;
	h->most = bound < max_states ? bound : max_states;
	h->most = h->most < 2 ? 2 : h->most;
	for (h->slots = 4; h->slots < 2 * h->most;)
		h->slots *= 2;
	h->state = arena_try(&h->a, (size_t)h->most + 1, sizeof *h->state);
	h->bits = arena_try(&h->a, ((size_t)h->most + 1) * (size_t)h->words, sizeof *h->bits);
	h->slot = arena_try(&h->a, (size_t)h->slots, sizeof *h->slot);
	h->heap = arena_try(&h->a, 2 * (size_t)h->most + 1, sizeof *h->heap);
	if (!h->state || !h->bits || !h->slot || !h->heap)
		return E_NOMEM;
	memset(h->slot, -1, sizeof *h->slot * (size_t)h->slots);
	add_state(h, &(struct state){-1, -1, 0, false, live, live > floor ? live : floor});
	return E_OK;
}

int order_search(struct order_part *p, int max_states, int64_t live, int64_t floor, int *order)
{
	struct search h = {.net = p->net, .part = p, .n = p->end - p->begin};
	int rc = begin(&h, max_states, live, floor), best = -1;
	if (rc >= 0 && (best = explore(&h)) >= 0) {
		int64_t peak = write_order(&h, best, order);
		if (peak < p->given_peak) {
			p->peak = peak;
			p->found = order;
		}
	}
	arena_free(&h.a);
	return rc;
}
