/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: a cache as one file, for an image or a USB stick. A segment of agent/segment.h as cache_pack writes
 * it, with the name NAME.seg, and behind it NAME.seg.sig, a signed document of kind "pack" with the payload
 * {"class": or "any", "bytes", "sha256" of the segment, "records", "code", "label", "serial"}, by a fleet
 * key, or by a key of its maker's that the importer was given.
 *
 * Machine code in a pack is used only where the pack lies in a layer that nobody but root can write (an
 * integrator put it into the image; agent/cache.h). Import never takes code, whoever signed it. */
#ifndef AGENT_PACK_H
#define AGENT_PACK_H

#include "agent/taken.h"
#include "agent/trust.h"

#define PACK_SIG ".sig"

struct pack_about {
	char cls[33]; /* "any": records of several */
	char label[160];
	int64_t bytes, records, code, serial; /* serial 0: made by hand */
	struct sha256 sha256;
};

int pack_about_parse(const void *payload, size_t n, struct pack_about *out) MUST_CHECK; /* fuzzed */
void pack_about_print(const struct pack_about *a, struct buf *out);
/* Writes path.sig for a segment that cache_pack wrote. */
int pack_sign(const char *path, const struct pack_about *a, const struct private_key *key) MUST_CHECK;
/* Signature, length and hash, all of it before a byte is used. by: keys of the importer's (n may be 0);
 * t: whose fleet keys count too; NULL: none. E_NOTFOUND: no signature beside it; E_WRONG: none that counts.
 */
int pack_check(const char *path, const struct trust *t, const struct public_key *by, int n,
	       struct pack_about *out) MUST_CHECK;
/* Its records into the cache as candidates, without code. The file is read once: what was checked is taken.
 */
int pack_take(struct cache *c, const char *path, const struct trust *t, const struct public_key *by, int n,
	      struct taken_sum *sum) MUST_CHECK;

#endif
