/* SPDX-License-Identifier: Apache-2.0 */
/* Data out of every level of the cache, as weights are when a network comes back to them. */
#ifndef PLATFORM_EVICT_H
#define PLATFORM_EVICT_H

#include <stdbool.h>
#include <stddef.h>

/* Flushes every line that [p, p + n) has a part in. false: this CPU lets no process do that, and nothing was
 * done. */
bool evict_range(const void *p, size_t n);
/* Where lines cannot be flushed: reads n bytes, twice the last cache, so that nothing else is left in it. */
void evict_by_reading(const void *p, size_t n);

#endif
