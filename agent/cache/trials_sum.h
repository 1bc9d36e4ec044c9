/* SPDX-License-Identifier: Apache-2.0 */
/* Summarises a log of trials: how well the draft, and the cost model that guided the search (which is the
 * draft unless hone tune --cost names another), predicted times, how the search went, and after how many
 * inferences the tuning time is earned back. */
#ifndef AGENT_TRIALS_SUM_H
#define AGENT_TRIALS_SUM_H

#include "agent/cache/trials.h"

enum { SUM_BEST = 5, SUM_STEPS = 8 };

struct trials_step {
	int box;
	int64_t at_ns; /* since the start of its process */
	double ratio;  /* fastest run so far over the default's */
};

struct trials_sum {
	int tried, failed; /* over all boxes; aborted ones are slow, and did not fail */
	int ntimed;        /* of the trials still in the log, with aborted ones */
	/* Spearman's rank correlation of estimated and measured times; the median of |measured / estimated -
	 * 1|. NAN: too few trials. Model: its guesses at the time of each trial. */
	double draft_rank, model_rank;
	double draft_error, model_error;
	int nbest;
	int best[SUM_BEST]; /* entries, fastest first in proportion to the default in the same box */
	int nsteps;
	struct trials_step step[SUM_STEPS]; /* each faster than the one before; the last ones */
};

void trials_sum(const struct trials *l, struct trials_sum *out);
/* The candidate's fastest run over the default's in the same box; NAN: one of them is not known. */
double trials_ratio(const struct trials_entry *e);
/* Inferences until `spent` is earned back, where each is faster by `saved`, both ns; NAN: never. */
double trials_payback(double spent_ns, double saved_ns);

#endif
