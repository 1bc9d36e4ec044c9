/* SPDX-License-Identifier: Apache-2.0 */
/* Shortest job first: the least mean wait. */
#include "agent/control/policy.h"

#include <stddef.h>

static int by_length(const struct contender *x, const struct contender *y)
{
	double wx = policy_wants_s(x, 1), wy = policy_wants_s(y, 1); /* unknown counts as shortest: it is
									served, and known afterwards */
	return (wx > wy) - (wx < wy);
}

static policy_order *const order[] = {policy_by_priority, by_length, policy_by_wait, policy_by_configuration,
				      NULL};

static int lease(const struct contender *c, int n)
{
	return policy_first(c, n, POLICY_WAIT_NS, order);
}

static int slice(const struct contender *c, int n)
{
	return policy_first(c, n, POLICY_SLICE_WAIT_NS, order);
}

const struct policy policy_shortest = {
    .name = "shortest",
    .summary = "the job that is expected to end first",
    .lease = lease,
    .slice = slice,
};
