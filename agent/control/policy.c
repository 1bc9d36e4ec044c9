/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/policy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Values for a model that was not searched yet, and for a network that was not run yet. */
#define USUAL_PROMISE 0.1
#define USUAL_MS 10

const struct policy *policy_find(const char *name)
{
	for (int i = 0; policy_table[i]; i++)
		if (!strcmp(policy_table[i]->name, name))
			return policy_table[i];
	return NULL;
}

int policy_by_priority(const struct contender *x, const struct contender *y)
{
	return (x->priority < y->priority) - (x->priority > y->priority);
}

int policy_by_wait(const struct contender *x, const struct contender *y)
{
	return (x->waits_ns < y->waits_ns) - (x->waits_ns > y->waits_ns);
}

int policy_by_configuration(const struct contender *x, const struct contender *y)
{
	return (x->order > y->order) - (x->order < y->order);
}

static bool before(const struct contender *x, const struct contender *y, int64_t wait_ns,
		   policy_order *const order[])
{
	int by = 0;
	if (x->waits_ns >= wait_ns || y->waits_ns >= wait_ns)
		return policy_by_wait(x, y) < 0;
	for (int i = 0; !by && order[i]; i++)
		by = order[i](x, y);
	return by < 0;
}

int policy_first(const struct contender *c, int n, int64_t wait_ns, policy_order *const order[])
{
	int first = 0;
	for (int i = 1; i < n; i++)
		if (before(&c[i], &c[first], wait_ns, order))
			first = i;
	return first;
}

int64_t policy_had_ns(const struct contender *c)
{
	return c->had_ns > 0 ? c->had_ns : 0;
}

double policy_promise(const struct contender *c)
{
	return c->promise >= 0 ? fmin(c->promise, 1) : USUAL_PROMISE;
}

double policy_ms(const struct contender *c)
{
	return c->ms > 0 && isfinite(c->ms) ? c->ms : USUAL_MS;
}

double policy_wants_s(const struct contender *c, int64_t usual_ns)
{
	return (double)(c->wants_ns > 0 ? c->wants_ns : usual_ns) / NS_PER_S;
}
