/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: which of the jobs that wait gets the machine to measure, and which model gets the next slice. One
 * file policy_NAME.c defines `const struct policy policy_NAME`; honed.conf's `policy =` names it. To add one:
 * answer both questions from the rows alone; a policy keeps nothing, so that it can be changed while honed
 * runs. `make bench-jobs` compares them, in simulation and for real. */
#ifndef AGENT_POLICY_H
#define AGENT_POLICY_H

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

extern const struct policy *const policy_table[];
const struct policy *policy_find(const char *name); /* NULL: none */
#define POLICY_DEFAULT "gain"

#endif
