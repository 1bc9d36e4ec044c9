/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate that was tried: who proposed it, what was thought of it before, what became of it. What the
 * job tells its caller, and is told of earlier boxes. */
#ifndef SEARCH_TRIED_H
#define SEARCH_TRIED_H

#include "platform/base/meas.h"
#include <stdbool.h>

enum tried_by {
	TRIED_DEFAULT,   /* candidate 0 */
	TRIED_INCUMBENT, /* what the cache gave */
	TRIED_SEED, /* a known candidate: of another number of threads, target, cache, or of a task akin */
	TRIED_RULE, /* the space's portfolio */
	TRIED_STRATEGY,
	TRIED_TWIN, /* other numbers of a good structure */
	TRIED_BYS
};

struct tried {
	const char *cand;
	enum tried_by by;
	enum meas_status status;
	bool lost;          /* a race against the incumbent */
	int64_t ns;         /* its fastest run; aborted: its first; 0: not timed */
	int64_t default_ns; /* candidate 0's fastest run in the same box; 0: not known */
	int64_t at_ns;      /* on the runner's clock: when it was over, */
	int64_t spent_ns;   /* and how long it took altogether, */
	int64_t build_ns;   /* of that building */
	int64_t draft_ns;   /* 0: not known */
	int64_t guess_ns;   /* of the job's cost model, before it was built, */
	double guess_sd;    /* and how sure that was: of its logarithm */
};

#endif
