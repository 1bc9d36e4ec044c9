/* SPDX-License-Identifier: Apache-2.0 */
/* What a log of trials says of a task's tuning: how well the model knew what it was about, how the search
 * went, and after how many inferences the time that it took is earned back. */
#ifndef AGENT_TRIALS_SUM_H
#define AGENT_TRIALS_SUM_H

#include "agent/cache/trials.h"

enum { SUM_BEST = 5, SUM_STEPS = 8 };

struct trials_step {
	int box;
	int64_t at_ns; /* since the start of its process */
	double ratio;  /* fastest run so far over candidate 0's */
};

struct trials_sum {
	int tried, failed; /* ever; aborted ones are slow, and did not fail */
	int ntimed;        /* of those kept, with aborted ones */
	/* Spearman's rank correlation of what was thought and what was measured; the median of |measured /
	 * thought - 1|. NAN: too few. Model: as it was when it guessed. */
	double draft_rank, model_rank;
	double draft_error, model_error;
	int nbest;
	int best[SUM_BEST]; /* entries, fastest first in proportion to candidate 0 in the same box */
	int nsteps;
	struct trials_step step[SUM_STEPS]; /* each faster than the one before; the last ones */
};

void trials_sum(const struct trials *l, struct trials_sum *out);
/* Its fastest run over candidate 0's in the same box; NAN: one of them is not known. */
double trials_ratio(const struct trials_entry *e);
/* Inferences until `spent` is earned back, where each is faster by `saved`, both ns; NAN: never. */
double trials_payback(double spent_ns, double saved_ns);

#endif
