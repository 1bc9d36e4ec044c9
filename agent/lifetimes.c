/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lifetimes.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static int larger_first(const void *a, const void *b)
{
	const struct lifetime *x = *(struct lifetime *const *)a, *y = *(struct lifetime *const *)b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

static int lower_first(const void *a, const void *b)
{
	const struct lifetime *x = *(struct lifetime *const *)a, *y = *(struct lifetime *const *)b;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Smallest gap between the placed ones that live together with l; the end where none fits. */
static int64_t best_gap(struct lifetime **near, int n, int64_t bytes)
{
	int64_t top = 0, best = -1, best_room = INT64_MAX;
	qsort(near, (size_t)n, sizeof *near, lower_first);
	for (int i = 0; i < n; i++) {
		int64_t room = near[i]->at - top, end = near[i]->at + near[i]->bytes;
		if (room >= bytes && room < best_room) {
			best = top;
			best_room = room;
		}
		top = end > top ? (end + ALIGN - 1) / ALIGN * ALIGN : top;
	}
	return best >= 0 ? best : top;
}

int64_t lifetimes_place(struct lifetime *l, int n)
{
	struct lifetime **order = calloc((size_t)n + 1, sizeof *order),
			**near = calloc((size_t)n + 1, sizeof *near);
	int64_t total = 0;
	if (!order || !near)
		total = fail(E_NOMEM, "no memory for a map of %d buffers", n);
	for (int i = 0; i < n && total >= 0; i++)
		order[i] = &l[i];
	if (total >= 0)
		qsort(order, (size_t)n, sizeof *order, larger_first);
	for (int i = 0; i < n && total >= 0; i++) {
		int count = 0;
		for (int j = 0; j < i; j++)
			if (order[j]->from <= order[i]->to && order[i]->from <= order[j]->to)
				near[count++] = order[j];
		order[i]->at = best_gap(near, count, order[i]->bytes);
		int64_t end = order[i]->at + order[i]->bytes;
		total = end > total ? end : total;
	}
	free(order);
	free(near);
	return total;
}
