/* SPDX-License-Identifier: Apache-2.0 */
/* What a strategy knows of a task: its space, and what a candidate is thought to take, by the job's cost
 * model. What the model learns from any task shows in the next guess. */
#ifndef SEARCH_GUIDE_H
#define SEARCH_GUIDE_H

#include "kernels/space/space.h"
#include "search/cost.h"
#include "search/share.h"

struct guide {
	const struct space *space;
	const struct cost *cost;
	void *model; /* the cost's state */
	/* Nothing outside of it is proposed; becomes {0} once ask() found nothing left. */
	struct portion portion;
};

#endif
