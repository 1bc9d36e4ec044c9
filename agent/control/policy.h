/* SPDX-License-Identifier: Apache-2.0 */
/* Policies decide which waiting job gets the machine to measure, and which model gets the next slice. One
 * file policy_NAME.c defines `const struct policy policy_NAME`; honed.conf's `policy =` names it. To add one:
 * answer both questions from the rows alone; a policy keeps no state, so that it can be changed while honed
 * runs. A row's values are not trusted: times below 0 count as 0, a promise or ms that is not a number as not
 * known. `make bench-jobs` compares policies, in simulation and for real.
 *
 * A contender that has waited for POLICY_WAIT_NS (a slice: POLICY_SLICE_WAIT_NS) is served before all others,
 * the longest wait first, so that none starves (policy_first). */
#ifndef AGENT_POLICY_H
#define AGENT_POLICY_H

#include "platform/base/clock.h"
#include <stdbool.h>
#include <stdint.h>

struct contender { /* a job, or a model without one */
	int id;
	int priority;     /* of its model: higher first; 0 by default */
	int order;        /* position in the configuration */
	int64_t waits_ns; /* for how long it has been waiting now */
	int64_t had_ns;   /* time that it held the machine to measure, in all; for a model: time of its
			     slices */
	int64_t wants_ns; /* expected time of the next hold, from earlier ones; 0: not known */
	double ms;        /* the network's run time now; 0: not known */
	double promise;   /* share of ms that more search may save, 0 to 1; < 0: not known */
	bool bare;        /* has tasks without any kernel */
};

struct policy {
	const char *name;
	const char *summary; /* one line */
	/* Returns the index of the contender that is served; n >= 1. */
	int (*lease)(const struct contender *c, int n);
	int (*slice)(const struct contender *c, int n);
};

#define POLICY_WAIT_NS (2 * NS_PER_S)
#define POLICY_SLICE_WAIT_NS (6 * 3600 * NS_PER_S)

/* Building blocks of policies. Each compares two contenders: < 0: x first, > 0: y first, 0: equal. */
typedef int policy_order(const struct contender *x, const struct contender *y);
policy_order policy_by_priority, policy_by_wait, policy_by_configuration;
/* Returns the index of the contender that comes first by order[0], then order[1] and so on up to NULL, then
 * by its index. Contenders that have waited for wait_ns come before the others, ordered only by their
 * wait. */
int policy_first(const struct contender *c, int n, int64_t wait_ns, policy_order *const order[]);
/* These return a row's numbers, limited to valid values. */
int64_t policy_had_ns(const struct contender *c);
double policy_promise(const struct contender *c); /* 0 to 1; a usual value if not known */
double policy_ms(const struct contender *c);      /* > 0; a usual value if not known */
/* The expected time in seconds, > 0; usual_ns if not known. */
double policy_wants_s(const struct contender *c, int64_t usual_ns);

extern const struct policy *const policy_table[];
const struct policy *policy_find(const char *name); /* NULL: none */
#define POLICY_DEFAULT "gain"

#endif
