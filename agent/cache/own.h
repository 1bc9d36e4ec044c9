/* SPDX-License-Identifier: Apache-2.0 */
/* Hone's own best record of a task whose REC_BEST is a library's kernel. It serves processes that cannot use
 * the library (agent/cache/lookup.h). */
#ifndef AGENT_OWN_H
#define AGENT_OWN_H

#include "agent/cache/cache.h"

/* Call it before `next` is put. If that is a library's REC_BEST and would replace one of hone's own, the
 * latter stays as the REC_OWN, with its code. If it cannot be kept, the log says why. */
void own_keep(struct cache *c, const struct rec *next);
/* Whether r is a REC_OWN beside which no REC_BEST of hone's own is: then it is the best that hone has. */
bool own_is_best(struct cache *c, const struct rec *r);

#endif
