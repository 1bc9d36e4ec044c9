/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the order module: order.c divides the graph into parts, order_search.c orders one
 * part. Internally, a node is identified by its position in the given order. */
#ifndef KERNELS_ORDER_PARTS_H
#define KERNELS_ORDER_PARTS_H

#include "kernels/group/order.h"
#include "platform/base/arena.h"

/* Lists in one array: list i is item[at[i] .. at[i + 1]). */
struct lists {
	int *at, *item;
};

struct order_net {
	const struct order_problem *p;
	struct arena a;
	int n;
	int *over;          /* per node: the store that it may reuse; -1: none */
	struct lists pred;  /* node -> nodes */
	struct lists uses;  /* node -> stores that it reads, each once */
	struct lists makes; /* node -> stores whose lifetime it begins */
	struct lists users; /* store -> nodes that read it, in order */
	int *left;          /* store -> users not done yet, during a walk of the given order */
};

/* One part of the order, [begin, end). */
struct order_part {
	const struct order_net *net;
	int begin, end;
	int64_t given_peak, peak; /* of the given order; of the order found */
	int *found;               /* positions; NULL: the given order stays */
};

/* Searches an order of a part's nodes with a lower peak than the given one. `live` bytes live before the
 * part; peaks below `floor` gain nothing. Sets peak, and writes a better order to `order`, to which `found`
 * then points. */
int order_search(struct order_part *p, int max_states, int64_t live, int64_t floor, int *order) MUST_CHECK;

#endif
