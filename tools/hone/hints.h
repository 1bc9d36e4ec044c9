/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a cache knows from other boards and no box here has tried (agent/cache/hint.h), for `hone
 * import` and `hone status`. */
#ifndef TOOLS_HINTS_H
#define TOOLS_HINTS_H

#include "agent/cache/cache.h"

/* Open hints. A box tries those of this machine's class alone. Hints for a device with a driver all count as
 * of this class, because drivers are not opened here. */
struct hints {
	int here;  /* the next box that tunes their tasks tries them */
	int other; /* of another class */
};

int hints_count(struct cache *c, struct hints *out) MUST_CHECK;

#endif
