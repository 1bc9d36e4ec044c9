/* SPDX-License-Identifier: Apache-2.0 */
/* A fast hash for tables in memory, random draws and the names of a machine's own things. It is easy to
 * invert: somebody who chooses the bytes chooses the hash. So nothing may be trusted because its mix_ value
 * is equal where a part of the bytes came from elsewhere; platform/base/hash.h is for that. The values are
 * the same on every machine. */
#ifndef PLATFORM_MIX_H
#define PLATFORM_MIX_H

#include "platform/base/hash.h"

struct key mix_bytes(const void *p, size_t n, uint64_t seed); /* MurmurHash3 x64-128 */
struct key mix_text(const char *s);
struct key mix_join(struct key a, struct key b); /* order matters */

#endif
