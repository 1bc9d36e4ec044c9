/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the contender with the highest expected gain over all networks for each second granted. */
#include "agent/control/policy.h"

#include <stddef.h>

/* Durations used where none is known: of a timing, of a slice. */
#define USUAL_LEASE_NS (20 * NS_PER_MS)
#define USUAL_SLICE_NS (30 * NS_PER_S)

static int by_bare(const struct contender *x, const struct contender *y)
{
	return y->bare - x->bare;
}

static bool exhausted(const struct contender *c)
{
	return !c->bare && c->promise == 0;
}

static int by_life(const struct contender *x, const struct contender *y)
{
	return exhausted(x) - exhausted(y);
}

static double rate(const struct contender *c, int64_t usual_ns)
{
	return policy_promise(c) * policy_ms(c) / policy_wants_s(c, usual_ns);
}

static int by_rate(const struct contender *x, const struct contender *y, int64_t usual_ns)
{
	double rx = rate(x, usual_ns), ry = rate(y, usual_ns);
	return (rx < ry) - (rx > ry);
}

static int by_lease_rate(const struct contender *x, const struct contender *y)
{
	return by_rate(x, y, USUAL_LEASE_NS);
}

static int by_slice_rate(const struct contender *x, const struct contender *y)
{
	return by_rate(x, y, USUAL_SLICE_NS);
}

static int lease(const struct contender *c, int n)
{
	static policy_order *const order[] = {policy_by_priority,      by_bare, by_lease_rate, policy_by_wait,
					      policy_by_configuration, NULL};
	return policy_first(c, n, POLICY_WAIT_NS, order);
}

static int slice(const struct contender *c, int n)
{
	static policy_order *const order[] = {by_life,       policy_by_priority,      by_bare,
					      by_slice_rate, policy_by_configuration, NULL};
	return policy_first(c, n, POLICY_SLICE_WAIT_NS, order);
}

const struct policy policy_gain = {
    .name = "gain",
    .summary = "models without kernels, then the job that saves most run time per second (default)",
    .lease = lease,
    .slice = slice,
};
