/* SPDX-License-Identifier: Apache-2.0 */
/* A fast hash for tables in memory, random draws and the names of a machine's own objects. It is easy to
 * invert: whoever chooses the bytes can choose the hash. So equal mix_ values prove nothing if a part of the
 * bytes came from elsewhere; use platform/base/hash.h for those. The values are the same on every machine. */
#ifndef PLATFORM_MIX_H
#define PLATFORM_MIX_H

#include "platform/base/hash.h"

struct key mix_bytes(const void *p, size_t n, uint64_t seed); /* MurmurHash3 x64-128 */
struct key mix_text(const char *s);
struct key mix_join(struct key a, struct key b); /* order matters */

#endif
