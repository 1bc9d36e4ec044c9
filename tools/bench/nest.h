/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a loop nest without computing: how often each loop and branch runs, and which addresses it touches,
 * in the order of the program. For predictions of time (tools/bench/predict.h), which need no clock. */
#ifndef TOOLS_NEST_H
#define TOOLS_NEST_H

#include "kernels/loops/loops.h"

enum nest_kind { NEST_ENTRY, NEST_LOOP, NEST_THEN, NEST_ELSE };

/* A loop, or a branch of an if. A loop that has one iteration, or none, by its bounds alone is not a node: no
 * emitter makes a loop of it, and what is in it belongs to the node around. */
struct nest_node {
	enum nest_kind kind;
	const struct stmt *s; /* NULL: the entry */
	int parent, depth;    /* parent -1: the entry */
	int accesses;         /* loads and stores of its own, not those of nodes in it */
	double entered;       /* how often the loop or branch was reached and had something to do */
	double runs;          /* how often its body ran */
};

struct nest_list {
	int n;
	struct nest_node *node; /* a node is before those in it; children are in the order of the program */
};

/* Calls of the walk: an access to `bytes` bytes at byte `at` of a buffer. */
struct nest_touch {
	void (*touch)(void *ctx, int buf, int64_t at, int64_t bytes, bool writes);
	void *ctx;
};

/* Lists the nodes of an entry, with zero counts. */
int nest_make(const struct loops *l, int entry, struct arena *a, struct nest_list *out) MUST_CHECK;
/* Walks [begin, end) of the entry and adds to the counts. touch NULL: addresses are not computed. bufs: data
 * of tables (kernel ABI), NULL if the program reads none. E_UNSUPPORTED: the entry has threads. */
int nest_walk(const struct loops *l, int entry, const int64_t *params, void *const *bufs, int64_t begin,
	      int64_t end, const struct nest_touch *touch, struct nest_list *n) MUST_CHECK;

#endif
