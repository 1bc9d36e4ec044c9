/* SPDX-License-Identifier: Apache-2.0 */
/* The order of execution that needs the least memory at its worst moment, on graphs that are no chains (Ahn
 * et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices",
 * MLSys 2020).
 *
 * A state is the set of nodes done; what lives then follows from the set, so that a set is looked at once,
 * with the lowest peak on any way to it. Sets are taken by that peak, the larger first where it is equal: the
 * budget of the paper, raised by as little as lets the search go on. The graph is divided where every node
 * comes before or after one; a part whose given order is no worse than another part's best is left as it was.
 * States are bounded: past that a part is ended greedily from the largest set. The result is never worse than
 * the order given, and the same on every machine. */
#ifndef KERNELS_ORDER_H
#define KERNELS_ORDER_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct order_node {
	int nreads, nwrites;
	const int *read, *write; /* values; a value is written by one node at most */
	int over; /* a value read whose store the one written may take, of as many bytes, where this is its
		     last reader; -1: none */
};

struct order_store {
	int64_t bytes;
	bool held; /* lives before the first node */
	bool kept; /* lives after the last one */
};

/* Values may share a store (views): it lives from the first writer to the last reader of any. */
struct order_problem {
	int nnodes, nvalues, nstores;
	const struct order_node *node;
	const int *store; /* per value */
	const struct order_store *mem;
};

enum { ORDER_STATES = 1 << 13 }; /* within 50 ms on graphs of some hundred nodes */

/* The most bytes that live at once. E_CORRUPT: a node comes before what it reads. */
int64_t order_peak(const struct order_problem *p, const int *order) MUST_CHECK;
/* order: in, a legal one; out, the best. Returns its peak. At most max_states are looked at in a part. */
int64_t order_find(const struct order_problem *p, int max_states, int *order) MUST_CHECK;

#endif
