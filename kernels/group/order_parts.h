/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the order module: order.c divides the graph into parts, order_search.c orders one.
 * Inside, a node is its position in the order given. */
#ifndef KERNELS_ORDER_PARTS_H
#define KERNELS_ORDER_PARTS_H

#include "kernels/group/order.h"
#include "platform/base/arena.h"

/* Lists in one array: those of i are item[at[i] .. at[i + 1]). */
struct lists {
	int *at, *item;
};

struct order_net {
	const struct order_problem *p;
	struct arena a;
	int n;
	int *over;          /* per node: store; -1 */
	struct lists pred;  /* node -> nodes */
	struct lists uses;  /* node -> stores that it reads, each once */
	struct lists makes; /* node -> stores whose life it begins */
	struct lists users; /* store -> nodes that read it, in order */
	int *left;          /* store -> users not done yet, while the order given is walked */
};

/* One part of the order, [begin, end). */
struct order_part {
	const struct order_net *net;
	int begin, end;
	int64_t given_peak, peak; /* of the order given; of the one found */
	int *found;               /* positions; NULL: the given order stays */
};

/* Looks for an order of a part's nodes whose peak is under the given one's: `live` bytes before it, with no
 * pains taken to come under `floor`. Fills peak, and `order` where there is a better one: found is that then.
 */
int order_search(struct order_part *p, int max_states, int64_t live, int64_t floor, int *order) MUST_CHECK;

#endif
