/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy.h"

static int longest(const struct contender *c, int n)
{
	int first = 0;
	for (int i = 1; i < n; i++)
		if (c[i].waits_ns > c[first].waits_ns)
			first = i;
	return first;
}

static int in_order(const struct contender *c, int n)
{
	int first = 0;
	for (int i = 1; i < n; i++)
		if (c[i].order < c[first].order)
			first = i;
	return first;
}

const struct policy policy_fifo = {
    .name = "fifo",
    .summary = "who has waited longest; models in the configuration's order",
    .lease = longest,
    .slice = in_order,
};
