/* SPDX-License-Identifier: Apache-2.0 */
/* The analytical draft. */
#include "search/cost.h"

#include <math.h>

/* Standard deviation of log(measured / drafted): half of all candidates lie within about this of their
 * draft. */
#define DRAFT_SD 0.25

static struct guess draft_guess(const float f[FEATURES])
{
	return (struct guess){exp((double)f[FEATURE_DRAFT]), DRAFT_SD};
}

const struct cost cost_draft = {.name = "draft", .guess = draft_guess};
