/* SPDX-License-Identifier: Apache-2.0 */
#include "search/guide.h"

struct guess guide_guess(const struct guide *g, const char *cand)
{
	float f[FEATURES];
	space_features(g->space, cand, f);
	return g->cost->guess(g->model, f);
}
