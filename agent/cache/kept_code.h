/* SPDX-License-Identifier: Apache-2.0 */
/* Code in the cache. The payload of CACHE_CODE is an identity of KEPT_CODE_ID bytes, then the bytes of
 * kernels/loops/code.h. The identity is the SHA-256 of the lines device, emitter, candidate and target key of
 * the record and of the task's text. A reader computes it from what it looks for, and code with another
 * identity is a miss: code serves the very task, target, candidate and emitter that it was compiled for,
 * whatever key it lies under. The kind of the record and its number of threads are not part of it. */
#ifndef AGENT_KEPT_CODE_H
#define AGENT_KEPT_CODE_H

#include "agent/cache/cache.h"

enum { KEPT_CODE_ID = HASH_BYTES };

/* code: of kernels/loops/code.h. Errors are cache_put's. */
int kept_code_put(struct cache *c, const struct rec *r, struct blob code) MUST_CHECK;
/* The code of r->cand, in the arena. E_NOTFOUND: there is none, or none of this identity. */
int kept_code_get(struct cache *c, const struct rec *r, struct arena *a, struct blob *out) MUST_CHECK;

#endif
