/* SPDX-License-Identifier: Apache-2.0 */
/* A signed document: what root, fleet and devices state. Bytes:
 *
 *	hone-signed 1 KIND LENGTH\n       KIND: lower-case letters; LENGTH: decimal, of the payload
 *	sig KEYID SIGNATURE\n             32 and 128 hex digits; at most SIGNED_MOST lines, each key once
 *	\n
 *	the payload, to the end
 *
 * A signature covers the SHA-256 of the first line (with its \n) and the payload, so a document of one kind
 * is never taken for another. The payload is never re-encoded: its bytes are those that were signed. */
#ifndef AGENT_SIGNED_H
#define AGENT_SIGNED_H

#include "agent/sync/crypto.h"

enum { SIGNED_MOST = 8, SIGNED_KIND = 16, SIGNED_HEAD = 2048 /* bytes before the payload, at most */ };

struct signed_by {
	char id[KEY_ID_HEX + 1];
	struct signature sig;
};

struct signed_doc {
	char kind[SIGNED_KIND];
	struct blob payload; /* points into the parsed bytes; unverified until signed_check */
	struct sha256 hash;  /* the hash that was signed */
	int n;
	struct signed_by by[SIGNED_MOST];
};

/* Parses without verifying. Hostile bytes: E_CORRUPT (fuzzed). kind: the kind that the caller expects. */
int signed_parse(const void *p, size_t n, const char *kind, struct signed_doc *out) MUST_CHECK;
/* Checks that at least `threshold` (>= 1) different keys of key[n] signed it with valid signatures, and
 * returns their number; else E_WRONG, whose text says how many did. who: NULL, or gets the index of the first
 * of them. */
int signed_check(const struct signed_doc *d, const struct public_key *key, int n, int threshold,
		 int *who) MUST_CHECK;
/* Makes a document with the signatures of key[n]. */
int signed_write(const char *kind, const void *payload, size_t length, const struct private_key *const *key,
		 int n, struct buf *out) MUST_CHECK;
/* Adds a signature to a document, as the root keys lie in different places. E_BUSY: this key signed it
 * already. */
int signed_add(const void *p, size_t n, const struct private_key *key, struct buf *out) MUST_CHECK;

#endif
