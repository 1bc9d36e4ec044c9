/* SPDX-License-Identifier: Apache-2.0 */
/* What a strategy knows about a task: its space, and the job's cost model, which predicts a candidate's
 * time. */
#ifndef SEARCH_GUIDE_H
#define SEARCH_GUIDE_H

#include "kernels/space/space.h"
#include "search/cost.h"
#include "search/share.h"

struct guide {
	const struct space *space;
	const struct cost *cost;
	/* Only structures of this portion are proposed. Becomes {0} once ask() finds nothing left in it. */
	struct portion portion;
};

#endif
