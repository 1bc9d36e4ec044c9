/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: a cache as one file, for an image or a USB stick. A pack is a segment of agent/cache/segment.h as
 * cache_pack writes it, named NAME.seg, and beside it NAME.seg.sig, a signed document of kind "pack" with the
 * payload
 *
 * {"class": or "any", "bytes", "sha256" of the segment, "records", "code", "label", "serial"}
 *
 * signed by a fleet key, or by a key of its maker that the importer was given.
 *
 * Machine code in a pack is used only if the pack lies in a layer that only root can write (an integrator put
 * it into the image; agent/cache/cache.h). Import never takes code, whoever signed it: its records are
 * treated as strangers' (agent/sync/taken.h). So it is with recipes (agent/cache/recipe.h), but an owner who
 * trusts the pack's maker may import them.
 *
 * A pack is read twice, first to check its hash. On the second read each part of PACK_PART bytes must have
 * the hash that it had on the first. So memory is bounded for packs of any size, and a process that writes
 * the file meanwhile changes nothing. */
#ifndef AGENT_PACK_H
#define AGENT_PACK_H

#include "agent/sync/taken.h"

#define PACK_SIG ".sig"
enum {
	PACK_PART = 256 << 10,
	PACK_BYTES = 1 << 29,
	PACK_SIG_BYTES = 16 << 10,
	PACK_WATCHED = 16,  /* packs that one look at a folder reads, at most */
	PACK_KNOWN = 256,   /* packs that are remembered */
	PACK_ENTRIES = 4096 /* folder entries that one look reads */
};

struct trust; /* agent/sync/trust.h */

struct pack_about {
	char cls[33]; /* "any": records of several classes */
	char label[160];
	int64_t bytes, records, code, serial; /* serial 0: made by hand; records counts code, too */
	struct sha256 sha256;
};

int pack_about_parse(const void *payload, size_t n, struct pack_about *out) MUST_CHECK; /* fuzzed */
void pack_about_print(const struct pack_about *a, struct buf *out);
/* Describes a segment that cache_pack wrote. cls: the class of all its records, and label what the last of
 * them calls its target; else "any" and "". serial: 0. */
int pack_describe(const char *path, struct pack_about *out) MUST_CHECK;
/* Writes path.sig. */
int pack_sign(const char *path, const struct pack_about *a, const struct private_key *key) MUST_CHECK;
/* Checks signature, length and hash before a byte is used. by: the importer's keys (n may be 0); t: the fleet
 * keys that count, too; NULL: none. E_NOTFOUND: no signature beside it; E_WRONG: no signature that counts, or
 * a fleet's whose serial is below the one that t has taken for its class (the lowest of its channels);
 * E_BUSY: shorter than was signed, perhaps a copy under way; E_CORRUPT: other bytes than were signed, or not
 * a pack. */
int pack_verify(const char *path, const struct trust *t, const struct public_key *by, int n,
		struct pack_about *out) MUST_CHECK;
/* Verifies a pack and puts its records into the cache as candidates, without code. recipes: gets what came of
 * its recipes, which are put as they are; NULL: they are passed over. Does not commit. */
int pack_import(struct cache *c, const char *path, const struct trust *t, const struct public_key *by, int n,
		struct taken_sum *sum, struct exchange_sum *recipes) MUST_CHECK;
/* Imports a pack without a signature, when the user asks for it. */
int pack_import_unsigned(struct cache *c, const char *path, struct taken_sum *sum,
			 struct exchange_sum *recipes) MUST_CHECK;

struct pack_watched {
	int packs, refused;      /* taken now, refused now */
	int waiting;             /* not complete yet, or without a signature */
	struct taken_sum *taken; /* owned by the caller */
};
/* Takes the new packs of a folder, each once. Packs that were taken or refused are remembered in the file
 * `state` (lines "KEY taken|refused NAME"; a damaged file counts as empty) by name, signature, size and
 * times. Links, files that are not regular, and names that are not plain are skipped. Commits. E_NOTFOUND: no
 * such folder. */
int pack_watch(struct cache *c, const char *dir, const char *state, const struct trust *t,
	       const struct public_key *by, int n, struct pack_watched *out) MUST_CHECK;

#endif
