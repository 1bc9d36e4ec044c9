/* SPDX-License-Identifier: Apache-2.0 */
/* No opinion: every candidate is predicted to take the same time. It shows what a strategy is worth on its
 * own. */
#include "search/cost.h"

static struct guess none_guess(const float f[FEATURES])
{
	(void)f;
	return (struct guess){1, 1};
}

const struct cost cost_none = {.name = "none", .guess = none_guess};
