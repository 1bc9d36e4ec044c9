/* SPDX-License-Identifier: Apache-2.0 */
/* What `hone explain` says of a task's log of trials: what was tried and believed, how the search went, and
 * when the tuning has paid for itself. */
#ifndef TOOLS_EXPLAIN_LOG_H
#define TOOLS_EXPLAIN_LOG_H

#include "agent/cache/trials_sum.h"
#include <jansson.h>

/* What tuning cost and gives; added up over the tasks of a network. A task without a log counts as 0. */
struct payback {
	double spent_ns;
	double saved_ns;    /* an inference, against default schedules; */
	double fallback_ns; /* against the kernels built in, where that is known */
	int tasks;          /* with a log */
};

/* chosen: the candidate that serves today; the default where it is that one. */
struct payback explain_payback(const struct trials *l, int uses, const char *chosen);
void explain_payback_add(struct payback *sum, const struct payback *p);
json_t *explain_payback_json(const struct payback *p);
void explain_payback_words(const struct payback *p, const char *before);

json_t *explain_log_json(const struct trials *l, const struct payback *p);
void explain_log_words(const struct trials *l, const struct payback *p, const char *chosen);

#endif
