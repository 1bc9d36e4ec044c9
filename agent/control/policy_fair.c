/* SPDX-License-Identifier: Apache-2.0 */
/* Stride scheduling (Waldspurger and Weihl, 1995). A contender's pass is the time that it has had so far: the
 * one with the least time for its weight is next. */
#include "agent/control/policy.h"

#include <math.h>
#include <stddef.h>

/* Each step of priority doubles the share. */
static double passed(const struct contender *c)
{
	return (double)policy_had_ns(c) / exp2(c->priority);
}

static int by_share(const struct contender *x, const struct contender *y)
{
	double px = passed(x), py = passed(y);
	return (px > py) - (px < py);
}

static policy_order *const order[] = {by_share, policy_by_priority, policy_by_wait, policy_by_configuration,
				      NULL};

static int lease(const struct contender *c, int n)
{
	return policy_first(c, n, POLICY_WAIT_NS, order);
}

static int slice(const struct contender *c, int n)
{
	return policy_first(c, n, POLICY_SLICE_WAIT_NS, order);
}

const struct policy policy_fair = {
    .name = "fair",
    .summary = "equal shares; each step of priority doubles one",
    .lease = lease,
    .slice = slice,
};
