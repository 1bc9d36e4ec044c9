/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that a board trusts, and the highest serials that it has taken.
 *
 * Root is a signed document of kind "root", JSON: {"version": N, "root": {"threshold": 2, "keys": [130 hex
 * digits, ...]}, "fleet": {"threshold": 1, "keys": [...]}}. The first is part of the image (TRUST_ROOT).
 * Version N + 1 counts when enough of version N's root keys (N's threshold) and enough of its own (its own
 * threshold) signed it. A board that was off for years takes N + 1, N + 2, ... one after the other. Root has
 * no date: boards have no trustworthy clock.
 *
 * The state is the file `trust` of a folder, written whole and durably before anything that depends on it is
 * taken. It holds the newest root's bytes and, for every class and channel, the highest serial that was
 * taken. A damaged state does not count as a missing one: the board falls back to the image's root, serials
 * begin at those of the image (SERIALS beside the root, lines "CLASS CHANNEL SERIAL"), and this is logged. If
 * the image's root is at least as new as the state's, the image's counts. If a new root keeps none of the
 * fleet's keys, serials begin at the image's again: a stolen key may have signed the highest possible
 * serial. */
#ifndef AGENT_TRUST_H
#define AGENT_TRUST_H

#include "agent/sync/signed.h"

#define TRUST_ROOT "/usr/share/hone/root.signed"
enum { TRUST_KEYS = 16, TRUST_BYTES = 64 << 10 /* size limit of a root document */, TRUST_FLOORS = 256 };

enum trust_role { ROLE_ROOT, ROLE_FLEET, ROLES };

struct role_keys {
	int threshold, n;
	struct public_key key[TRUST_KEYS];
};

struct root {
	int64_t version; /* 1 to 2^53 */
	struct role_keys role[ROLES];
};

/* Parses the payload only, and checks its thresholds and keys (1 <= threshold <= n, keys different and on the
 * curve; root and fleet share none). Hostile input: E_CORRUPT. */
int root_parse(const void *payload, size_t n, struct root *out) MUST_CHECK;
void root_print(const struct root *r, struct buf *out);
/* Reads a whole document, and checks that its own root keys signed it. */
int root_read(const void *p, size_t n, struct root *out) MUST_CHECK;
/* Checks that `next` may follow `now`. E_WRONG: the text says which signatures are missing; E_UNSUPPORTED:
 * its version is not now's + 1. */
int root_follows(const struct root *now, const void *p, size_t n, struct root *next) MUST_CHECK;

struct trust;

/* image: file with the image's root document (NULL: TRUST_ROOT); dir: the state's folder, made if needed.
 * Returns 1 if the state was damaged. E_NOTFOUND: the image has no root. */
int trust_open(const char *image, const char *dir, struct trust **out) MUST_CHECK;
void trust_close(struct trust *t);
const struct root *trust_root(const struct trust *t);
/* Takes a newer root, which is durable when it returns 1. 0: it is not newer. Errors as of root_follows. */
int trust_advance(struct trust *t, const void *p, size_t n) MUST_CHECK;
/* Checks that enough keys of the role (its threshold) signed the document. */
int trust_check(const struct trust *t, enum trust_role role, const struct signed_doc *d) MUST_CHECK;
/* Returns the highest serial that was taken; 0: none yet. */
int64_t trust_floor(const struct trust *t, const char *cls, const char *channel);
/* Raises the serial, durably when it returns good. E_WRONG: it is lower than the one that was taken; nothing
 * changes. */
int trust_raise(struct trust *t, const char *cls, const char *channel, int64_t serial) MUST_CHECK;

#endif
