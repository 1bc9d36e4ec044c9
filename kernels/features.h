/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate in numbers, for models that learn: the draft's time and terms, and what of the schedule those
 * may have wrong. Each is finite and of the order of 1, so that no scaling has to be kept with a model. */
#ifndef KERNELS_FEATURES_H
#define KERNELS_FEATURES_H

#include "kernels/space.h"

enum feature { FEATURE_DRAFT /* log of the drafted time in ns */, FEATURES };

/* cand: legal. One that does not parse gets zeros. */
void space_features(const struct space *s, const char *cand, float f[FEATURES]);

#endif
