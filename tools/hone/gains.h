/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's stored gains (agent/cache/gain.h) as part of honed's status. */
#ifndef TOOLS_GAINS_H
#define TOOLS_GAINS_H

#include "agent/cache/cache.h"
#include <jansson.h>

/* Adds "gains", a list of headline_gain_json, and to each of "models" the newest of its path,
 * device, level and threads as "gain". */
void gains_add(json_t *status, struct cache *c);
/* The same with the cache in `dir`; NULL: the folder that the status names. Adds nothing if that cannot be
 * read. */
void gains_add_of(json_t *status, const char *dir);

#endif
