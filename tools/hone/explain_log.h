/* SPDX-License-Identifier: Apache-2.0 */
/* `hone explain` on a task's log of trials: what was tried and what the model predicted, how the search went,
 * and when the tuning has paid for itself. */
#ifndef TOOLS_EXPLAIN_LOG_H
#define TOOLS_EXPLAIN_LOG_H

#include "agent/cache/gain.h"
#include "agent/cache/trials_sum.h"
#include <jansson.h>

/* What tuning costs and saves, summed over the tasks of a network. A task without a log counts as 0. */
struct payback {
	double spent_ns;
	double saved_ns;    /* per inference, against default schedules */
	double fallback_ns; /* per inference, against the fallback kernels, if known */
	int tasks;          /* tasks that have a log */
};

/* chosen: the candidate in use today, which may be the default. */
struct payback explain_payback(const struct trials *l, int uses, const char *chosen);
/* What the whole network saves is what was measured of it, which also counts other divisions of its graph. */
void explain_payback_of(struct payback *sum, const struct gain *g);
void explain_payback_add(struct payback *sum, const struct payback *p);
json_t *explain_payback_json(const struct payback *p);
void explain_payback_words(const struct payback *p, const char *before);

json_t *explain_log_json(const struct trials *l, const struct payback *p);
void explain_log_words(const struct trials *l, const struct payback *p, const char *chosen);

#endif
