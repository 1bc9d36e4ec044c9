/* SPDX-License-Identifier: Apache-2.0 */
/* The least cost (a) of a network of at most 64 operators, by dynamic programming without any limit: for
 * worlds whose pieces (world_shape.simple) need nothing that comes after their first operator. It is slow
 * and takes memory where many values are live. */
#ifndef TESTS_PLACEMENT_EXACT_H
#define TESTS_PLACEMENT_EXACT_H

#include "platform/base/mix.h"
#include "tests/lib/placement_world.h"

#include <stdlib.h>

enum { EXACT_VALUES = 136 };

struct exact_state {
	uint64_t covered;                 /* operators */
	signed char format[EXACT_VALUES]; /* -1: not written, -2: no operator reads it any more */
	unsigned char there[EXACT_VALUES];
	double ns;
	int next; /* in the chain of its hash; -1: last */
};

struct exact_bucket {
	struct exact_state *state;
	int n, room, *head;
};

enum { EXACT_HEADS = 1 << 12 };

static inline void exact_add(struct exact_bucket *b, const struct exact_state *s)
{
	size_t bytes = offsetof(struct exact_state, ns);
	uint64_t hash = mix_bytes(s, bytes, 1).lo % EXACT_HEADS;
	if (!b->head) {
		b->head = malloc(sizeof(int) * EXACT_HEADS);
		for (int i = 0; i < EXACT_HEADS; i++)
			b->head[i] = -1;
	}
	for (int i = b->head[hash]; i >= 0; i = b->state[i].next)
		if (!memcmp(&b->state[i], s, bytes)) {
			b->state[i].ns = fmin(b->state[i].ns, s->ns);
			return;
		}
	if (b->n == b->room) {
		b->room = 2 * b->room + 64;
		b->state = realloc(b->state, sizeof *b->state * (size_t)b->room);
	}
	b->state[b->n] = *s;
	b->state[b->n].next = b->head[hash];
	b->head[hash] = b->n++;
}

/* Sets of operators, as bits: those of a piece, and the readers of a value. */
struct exact_sets {
	uint64_t piece[WORLD_PIECES], readers[EXACT_VALUES];
};

static inline struct exact_sets exact_sets(const struct placement_world *w)
{
	struct exact_sets x;
	memset(&x, 0, sizeof x);
	for (int i = 0; i < w->p.npieces; i++)
		for (int k = 0; k < w->piece[i].nops; k++)
			x.piece[i] |= UINT64_C(1) << w->ops[i][k];
	for (int op = 0; op < w->p.nops; op++)
		for (int k = 0; k < w->op[op].nreads; k++)
			x.readers[w->reads[op][k]] |= UINT64_C(1) << op;
	return x;
}

static inline void exact_need(const struct placement_world *w, struct exact_state *s, struct placement_port x)
{
	int from = s->format[x.value];
	if (from == x.format || s->there[x.value] >> x.format & 1)
		return;
	s->there[x.value] |= (unsigned char)(1 << x.format);
	s->ns += from < 0 ? INFINITY : w->move[x.value][from][x.format];
}

static inline void exact_outputs(const struct placement_world *w, struct exact_state *s, int value)
{
	for (int i = 0; i < w->p.noutputs; i++)
		if (w->output[i].value == value)
			exact_need(w, s, w->output[i]);
}

static inline void exact_apply(const struct placement_world *w, const struct exact_sets *sets,
			       struct exact_state *s, int piece)
{
	const struct placement_piece *x = &w->piece[piece];
	s->covered |= sets->piece[piece];
	s->ns += x->ns + w->launch[x->device];
	for (int k = 0; k < x->nreads; k++)
		exact_need(w, s, x->read[k]);
	for (int k = 0; k < x->nwrites; k++) {
		s->format[x->write[k].value] = (signed char)x->write[k].format;
		exact_outputs(w, s, x->write[k].value);
	}
	for (int k = 0; k < x->nops; k++)
		for (int v = 0; v < w->op[x->op[k]].nwrites; v++) {
			int value = w->writes[x->op[k]][v];
			bool later = sets->readers[value] & ~s->covered;
			if (s->format[value] == -1 && (later || w->wanted[value]))
				s->ns = INFINITY;
		}
	for (int v = 0; v < w->p.nvalues; v++)
		if ((w->writer[v] < 0 || s->covered >> w->writer[v] & 1) &&
		    !(sets->readers[v] & ~s->covered)) {
			s->format[v] = -2;
			s->there[v] = 0;
		}
}

/* INFINITY: there is no legal placement. */
static inline double exact_alone(const struct placement_world *w)
{
	struct exact_bucket *b = calloc((size_t)w->p.nops + 1, sizeof *b);
	static struct exact_sets sets;
	struct exact_state s;
	sets = exact_sets(w);
	memset(&s, 0, sizeof s);
	memset(s.format, -1, sizeof s.format);
	for (int i = 0; i < w->p.ninputs; i++) {
		s.format[w->input[i].value] = (signed char)w->input[i].format;
		exact_outputs(w, &s, w->input[i].value);
	}
	exact_add(&b[0], &s);
	for (int op = 0; op < w->p.nops; op++) {
		for (int i = 0; i < b[op].n; i++)
			for (int x = 0; x < w->p.npieces; x++) {
				uint64_t ops = sets.piece[x];
				if (__builtin_ctzll(ops) != op || ops & b[op].state[i].covered)
					continue;
				s = b[op].state[i];
				exact_apply(w, &sets, &s, x);
				int next = op;
				while (next < w->p.nops && s.covered >> next & 1)
					next++;
				if (!isinf(s.ns))
					exact_add(&b[next], &s);
			}
		free(b[op].state);
		free(b[op].head);
		b[op].state = NULL;
		b[op].head = NULL;
	}
	double best = INFINITY;
	for (int i = 0; i < b[w->p.nops].n; i++)
		best = fmin(best, b[w->p.nops].state[i].ns);
	free(b[w->p.nops].state);
	free(b[w->p.nops].head);
	free(b);
	return best;
}

#endif
