/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a board believes, and how far it has come.
 *
 * Root is a signed document of kind "root", JSON: {"version": N, "root": {"threshold": 2, "keys": [130 hex
 * digits, ...]}, "fleet": {"threshold": 1, "keys": [...]}}. The first is baked into the image (TRUST_ROOT);
 * version N + 1 counts once it is signed by N's threshold of N's root keys and by its own of its own. A board
 * that was off for years takes N + 1, N + 2, ... one after the other. Root has no date: boards have no
 * trustworthy clock.
 *
 * The state (file `trust` of a folder, written as a whole, durably, before anything is taken that it
 * speaks of) holds the newest root's bytes and, for every class and channel, the highest serial that was
 * taken. A damaged state is not "none": the board falls back to the image's root, and serials begin at the
 * ones that the image knows (SERIALS beside the root, lines "CLASS CHANNEL SERIAL"), which is said. An image
 * whose root is as new counts before the state's. Where a new root keeps none of the fleet's keys, serials
 * begin at the image's again: a stolen key may have said the highest there is. */
#ifndef AGENT_TRUST_H
#define AGENT_TRUST_H

#include "agent/sync/signed.h"

#define TRUST_ROOT "/usr/share/hone/root.signed"
enum { TRUST_KEYS = 16, TRUST_BYTES = 64 << 10 /* of a root document */, TRUST_FLOORS = 256 };

enum trust_role { ROLE_ROOT, ROLE_FLEET, ROLES };

struct role_keys {
	int threshold, n;
	struct public_key key[TRUST_KEYS];
};

struct root {
	int64_t version; /* 1 to 2^53 */
	struct role_keys role[ROLES];
};

/* The payload alone, with its thresholds and keys checked (1 <= threshold <= n, keys different, on the curve;
 * root and fleet share none). Hostile input: E_CORRUPT. */
int root_parse(const void *payload, size_t n, struct root *out) MUST_CHECK;
void root_print(const struct root *r, struct buf *out);
/* A whole document that its own root keys signed. */
int root_read(const void *p, size_t n, struct root *out) MUST_CHECK;
/* next counts after now: E_WRONG says what is missing; E_UNSUPPORTED: its version is not now's + 1. */
int root_follows(const struct root *now, const void *p, size_t n, struct root *next) MUST_CHECK;

struct trust;

/* image: the document that the image holds (NULL: TRUST_ROOT); dir: the state's folder, made if need be. 1:
 * the state was damaged. E_NOTFOUND: the image has no root. */
int trust_open(const char *image, const char *dir, struct trust **out) MUST_CHECK;
void trust_close(struct trust *t);
const struct root *trust_root(const struct trust *t);
/* A newer root: durable when it returns 1. 0: it is not newer. Else as root_follows. */
int trust_advance(struct trust *t, const void *p, size_t n) MUST_CHECK;
/* Signed by the role's threshold. */
int trust_check(const struct trust *t, enum trust_role role, const struct signed_doc *d) MUST_CHECK;
/* The highest serial taken, 0: none yet. */
int64_t trust_floor(const struct trust *t, const char *cls, const char *channel);
/* Durable when it returns good; E_WRONG: lower than the one that was taken; nothing is changed. */
int trust_raise(struct trust *t, const char *cls, const char *channel, int64_t serial) MUST_CHECK;

#endif
