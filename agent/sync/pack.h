/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: a cache as one file, for an image or a USB stick. A segment of agent/cache/segment.h as cache_pack
 * writes it, with the name NAME.seg, and behind it NAME.seg.sig, a signed document of kind "pack" with the
 * payload
 * {"class": or "any", "bytes", "sha256" of the segment, "records", "code", "label", "serial"}, by a fleet
 * key, or by a key of its maker's that the importer was given.
 *
 * Machine code in a pack is used only where the pack lies in a layer that nobody but root can write (an
 * integrator put it into the image; agent/cache/cache.h). Import never takes code, whoever signed it: records
 * are strangers' (agent/sync/taken.h).
 *
 * A pack is read twice, first to check its hash, and what is read the second time is what was checked: each
 * part of PACK_PART bytes has the hash that it had. So memory is bounded, whatever a pack's size, and who
 * writes the file meanwhile changes nothing. */
#ifndef AGENT_PACK_H
#define AGENT_PACK_H

#include "agent/sync/taken.h"

#define PACK_SIG ".sig"
enum {
	PACK_PART = 256 << 10,
	PACK_BYTES = 1 << 29,
	PACK_SIG_BYTES = 16 << 10,
	PACK_WATCHED = 16,  /* packs that a look at a folder reads, at most */
	PACK_KNOWN = 256,   /* that are remembered */
	PACK_ENTRIES = 4096 /* of a folder, that are looked at */
};

struct trust; /* agent/sync/trust.h */

struct pack_about {
	char cls[33]; /* "any": records of several */
	char label[160];
	int64_t bytes, records, code, serial; /* serial 0: made by hand; records: with code */
	struct sha256 sha256;
};

int pack_about_parse(const void *payload, size_t n, struct pack_about *out) MUST_CHECK; /* fuzzed */
void pack_about_print(const struct pack_about *a, struct buf *out);
/* What a segment that cache_pack wrote holds; cls: of all its records, else "any". label, serial: 0. */
int pack_describe(const char *path, struct pack_about *out) MUST_CHECK;
/* Writes path.sig. */
int pack_sign(const char *path, const struct pack_about *a, const struct private_key *key) MUST_CHECK;
/* Signature, length and hash, all of it before a byte is used. by: keys of the importer's (n may be 0);
 * t: whose fleet keys count too; NULL: none. E_NOTFOUND: no signature beside it; E_WRONG: none that counts,
 * or a fleet's with a serial below what t has taken of its class, in whatever channel; E_BUSY: shorter than
 * was signed, perhaps half a copy; E_CORRUPT: other bytes, or no pack. */
int pack_verify(const char *path, const struct trust *t, const struct public_key *by, int n,
		struct pack_about *out) MUST_CHECK;
/* ... and its records into the cache as candidates, without code. Not committed. */
int pack_take(struct cache *c, const char *path, const struct trust *t, const struct public_key *by, int n,
	      struct taken_sum *sum) MUST_CHECK;
/* The same of one that nobody signed, where its user says so. */
int pack_take_unsigned(struct cache *c, const char *path, struct taken_sum *sum) MUST_CHECK;

struct pack_watched {
	int packs, refused;      /* taken now, refused now */
	int waiting;             /* not whole yet, or without a signature */
	struct taken_sum *taken; /* the caller's */
};
/* New packs of a folder, each once: what was taken or refused is remembered in `state` (a file: lines "KEY
 * taken|refused NAME"; damaged, it is none), by name, signature, size and times. Links, and what is no
 * regular file or has no plain name, are passed over. Commits. E_NOTFOUND: no such folder. */
int pack_watch(struct cache *c, const char *dir, const char *state, const struct trust *t,
	       const struct public_key *by, int n, struct pack_watched *out) MUST_CHECK;

#endif
