/* SPDX-License-Identifier: Apache-2.0 */
/* What hone bench says of a plan besides times: the memory that it takes, and what its device does, in words
 * and in JSON. */
#ifndef TOOLS_BENCH_PLAN_H
#define TOOLS_BENCH_PLAN_H

#include "tools/hone/ready.h"
#include <jansson.h>

/* {"values_bytes", "live_bytes", "weights_bytes", "scratch_bytes"}; of a model that was not compiled also
 * "order_peak_bytes" and "given_peak_bytes". */
json_t *bench_memory_json(const struct ready *r);
void bench_memory(const struct ready *r);
/* {"name", "steps", "launches", "copies", "to_bytes", ...}; null: it runs on the processor. */
json_t *bench_device_json(const struct ready *r);
void bench_device(const struct ready *r); /* nothing, if it runs on the processor */

#endif
