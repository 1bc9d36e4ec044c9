/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate that was tried: who proposed it, its predicted time, and its result. The job passes these to
 * its caller, and gets those of earlier boxes. */
#ifndef SEARCH_TRIED_H
#define SEARCH_TRIED_H

#include "platform/base/meas.h"
#include <stdbool.h>

enum tried_by {
	TRIED_DEFAULT,   /* the default */
	TRIED_INCUMBENT, /* the candidate of the cache */
	TRIED_SEED, /* a known candidate: of another thread count, target or cache, or of a task of the same
		       kind */
	TRIED_RULE, /* the space's portfolio */
	TRIED_STRATEGY,
	TRIED_TWIN,  /* other numbers of a good structure */
	TRIED_OFFER, /* from outside of the space (struct job_task) */
	TRIED_BYS
};

struct tried {
	const char *cand;
	enum tried_by by;
	enum meas_status status;
	bool lost;          /* it lost a race against the incumbent */
	int64_t ns;         /* fastest run; if aborted, the first run; 0: not timed */
	int64_t default_ns; /* the default's fastest run in the same box; 0: not known */
	int64_t at_ns;      /* end of the trial, on the runner's clock */
	int64_t spent_ns;   /* duration of the whole trial, */
	int64_t build_ns;   /* of which building took so long */
	int64_t draft_ns;   /* 0: not known */
	int64_t guess_ns;   /* by the job's cost model, before the build */
	double guess_sd;    /* standard deviation of the guess's logarithm */
};

#endif
