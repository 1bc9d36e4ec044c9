/* SPDX-License-Identifier: Apache-2.0 */
/* `hone tune --rigor cached`: reports what the cache would give today. Nothing is compiled, measured or
 * written. */
#ifndef TOOLS_CACHED_H
#define TOOLS_CACHED_H

#include "agent/tune/tune_model.h"
#include "tools/hone/ready.h"

/* Fills the report in the arena, without times but those of the stored gain. *missing: number of kernels that
 * are not in the cache; if it is not 0, *why (in the arena) names them. */
int cached_report(const struct args *a, struct arena *arena, struct tune_report *out, int *missing,
		  const char **why) MUST_CHECK;

#endif
