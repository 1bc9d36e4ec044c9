/* SPDX-License-Identifier: Apache-2.0 */
/* Evicts data from every level of the cache: weights are in that state when a network returns to them. */
#ifndef PLATFORM_EVICT_H
#define PLATFORM_EVICT_H

#include <stdbool.h>
#include <stddef.h>

/* Flushes every line that overlaps [p, p + n). false: this CPU does not let processes flush, and nothing was
 * done. */
bool evict_range(const void *p, size_t n);
/* For CPUs whose lines cannot be flushed: reads n bytes, twice the last cache, so that nothing else is left
 * in it. */
void evict_by_reading(const void *p, size_t n);

#endif
