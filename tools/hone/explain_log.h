/* SPDX-License-Identifier: Apache-2.0 */
/* `hone explain` on a task's log of trials: what was tried and what the model predicted, how the search went,
 * and when the tuning has paid for itself. */
#ifndef TOOLS_EXPLAIN_LOG_H
#define TOOLS_EXPLAIN_LOG_H

#include "agent/cache/gain.h"
#include "agent/cache/trials_sum.h"
#include <jansson.h>

/* The chosen candidate of a task beside its default: times of the kernel alone. Whatever is said of the task
 * (faster or not, what it saves) follows from these. */
struct task_times {
	double default_ns, best_ns; /* 0: not known */
	struct faster faster;       /* rounds 0: nothing to compare, or the default is chosen */
	bool raced;                 /* races gave the ratio of both; else the two records' own times do */
};

/* The chosen candidate's time is that of its record. If the log knows the candidate, the default's time is
 * that, times the ratio that their races found; else it is that of the default's record, which was timed at
 * another moment. Either record may be NULL: none. l NULL: no log. The interval is that of both records'
 * medians. */
struct task_times explain_times(const struct trials *l, const struct rec *def, const struct rec *best,
				const char *def_cand, const char *chosen);

/* What tuning costs and saves, summed over the tasks of a network. A task without a log counts as 0. */
struct payback {
	double spent_ns;
	double saved_ns;    /* per inference, against default schedules; 0: no significant saving */
	double fallback_ns; /* per inference, against the fallback kernels, which one box timed once;
			       negative: they are faster */
	int tasks;          /* tasks that have a log */
	bool slower;        /* significantly slower than default schedules; of a sum: some task is */
	bool has_fallback;  /* the time of the fallback kernel is known; of a sum: of all */
	bool network;       /* saved_ns was measured of the whole network, not of kernels alone */
	bool unpaired;      /* of some kernel, saved_ns comes from times of different moments */
	bool disturbed;     /* others disturbed what was measured of the whole network */
};

struct payback explain_payback(const struct trials *l, int uses, const struct task_times *b);
/* What the whole network saves is what was measured of it, which also counts other divisions of its graph. */
void explain_payback_of(struct payback *sum, const struct gain *g);
/* Adds up. A sum in which some tasks became faster and others slower saves what the faster ones save. */
void explain_payback_add(struct payback *sum, const struct payback *p);
json_t *explain_payback_json(const struct payback *p);
/* network: what was measured of the whole network, which is said beside times of kernels, because those are
 * of other moments; NULL: nothing was. */
void explain_payback_words(const struct payback *p, const struct gain *network, const char *before);

/* The fastest run of a candidate when the search tried it; 0: not known. */
double explain_fastest_ns(const struct trials *l, const char *cand);
json_t *explain_log_json(const struct trials *l, const struct payback *p);
/* least_ns: the roofline's time, with as many cores as the kernel uses; shorter times are marked. Returns
 * whether some are; explain_marked_words then says what the mark means, once for all tasks. */
bool explain_log_words(const struct trials *l, const struct payback *p, const struct gain *network,
		       const char *chosen, double least_ns);
void explain_marked_words(void);

#endif
