/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/policy.h"

#include <stddef.h>

static int lease(const struct contender *c, int n)
{
	static policy_order *const order[] = {policy_by_wait, policy_by_configuration, NULL};
	return policy_first(c, n, POLICY_WAIT_NS, order);
}

static int slice(const struct contender *c, int n)
{
	static policy_order *const order[] = {policy_by_configuration, NULL};
	return policy_first(c, n, POLICY_SLICE_WAIT_NS, order);
}

const struct policy policy_fifo = {
    .name = "fifo",
    .summary = "the job that has waited longest; models in the configuration's order",
    .lease = lease,
    .slice = slice,
};
