/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: which of the jobs that wait gets the machine to measure, and which model gets the next slice. One
 * file policy_NAME.c defines `const struct policy policy_NAME`; honed.conf's `policy =` names it. To add one:
 * answer both questions from the rows alone; a policy keeps nothing, so that it can be changed while honed
 * runs. What rows say may be anything: times below 0 are 0, a promise or ms that is no number is not known.
 * `make bench-jobs` compares them, in simulation and for real.
 *
 * Who has waited for POLICY_WAIT_NS (a slice: POLICY_SLICE_WAIT_NS) is served before all others, longest
 * first, so that nobody starves (policy_first). */
#ifndef AGENT_POLICY_H
#define AGENT_POLICY_H

#include "platform/base/clock.h"
#include <stdbool.h>
#include <stdint.h>

struct contender { /* a job, or a model without one */
	int id;
	int priority;     /* of its model: higher first; 0 by default */
	int order;        /* in the configuration */
	int64_t waits_ns; /* for how long it has been waiting now */
	int64_t had_ns;   /* of the machine to measure, in all; for a model: of slices */
	int64_t wants_ns; /* what it is thought to hold it for, by what it did before; 0: not known */
	double ms;        /* the network's run time now; 0: not known */
	double promise;   /* share of that which more search may win, 0 to 1; < 0: not known */
	bool bare;        /* has tasks without any kernel */
};

struct policy {
	const char *name;
	const char *summary; /* one line */
	/* Index of the one that is served; n >= 1. */
	int (*lease)(const struct contender *c, int n);
	int (*slice)(const struct contender *c, int n);
};

#define POLICY_WAIT_NS (2 * NS_PER_S)
#define POLICY_SLICE_WAIT_NS (6 * 3600 * NS_PER_S)

/* What policies are made of. Each says who is served first: < 0: x, > 0: y, 0: it does not tell them apart.
 */
typedef int policy_order(const struct contender *x, const struct contender *y);
policy_order policy_by_priority, policy_by_wait, policy_by_configuration;
/* Index of the one that comes first by order[0], then order[1] and so on up to NULL, then by its index; but
 * those who have waited for wait_ns come before the others, and by that alone. */
int policy_first(const struct contender *c, int n, int64_t wait_ns, policy_order *const order[]);
/* A row's numbers, made harmless. */
int64_t policy_had_ns(const struct contender *c);
double policy_promise(const struct contender *c); /* 0 to 1; what is usual where it is not known */
double policy_ms(const struct contender *c);      /* > 0; likewise */
/* What it wants in seconds, > 0; usual_ns where it is not known. */
double policy_wants_s(const struct contender *c, int64_t usual_ns);

extern const struct policy *const policy_table[];
const struct policy *policy_find(const char *name); /* NULL: none */
#define POLICY_DEFAULT "gain"

#endif
