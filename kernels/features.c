/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/features.h"

#include <math.h>

void space_features(const struct space *s, const char *cand, float f[FEATURES])
{
	double ns = space_draft(s, cand);
	f[FEATURE_DRAFT] = ns > 0 && isfinite(ns) ? (float)log(ns) : 0;
}
