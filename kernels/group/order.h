/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the order of execution with the least peak memory on graphs that are not chains (Ahn et al.,
 * "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices", MLSys
 * 2020).
 *
 * A state is the set of finished nodes. The set determines which values live, so each set is visited once,
 * with the lowest peak of any path to it. Sets are expanded by ascending peak, larger sets first on ties:
 * this is the budget of the paper, raised by as little as the search needs. The graph is divided at nodes
 * that come before or after every other node; a part keeps its given order if that is no worse than another
 * part's best. The number of states is limited; beyond it a part is completed greedily from the largest set.
 * The result is never worse than the given order, and is the same on every machine. */
#ifndef KERNELS_ORDER_H
#define KERNELS_ORDER_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct order_node {
	int nreads, nwrites;
	const int *read, *write; /* values; a value is written by one node at most */
	int over; /* a value read whose store the written value may reuse, of the same size, if this node
		   * is its last reader; -1: none */
};

struct order_store {
	int64_t bytes;
	bool held; /* lives before the first node */
	bool kept; /* lives after the last one */
};

/* Values may share a store (views): it lives from the first writer to the last reader of any of them. */
struct order_problem {
	int nnodes, nvalues, nstores;
	const struct order_node *node;
	const int *store; /* per value */
	const struct order_store *mem;
};

enum { ORDER_STATES = 1 << 13 }; /* takes at most 50 ms on graphs of some hundred nodes */

/* The peak of bytes that live at once. E_CORRUPT: a node comes before one whose output it reads. */
int64_t order_peak(const struct order_problem *p, const int *order) MUST_CHECK;
/* order: in: a legal order; out: the best found. Returns its peak. At most max_states states are visited per
 * part. */
int64_t order_find(const struct order_problem *p, int max_states, int *order) MUST_CHECK;

#endif
