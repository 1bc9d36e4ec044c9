/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot: what the fleet server publishes for the boards of one class, on one channel: a small signed
 * document that names immutable blobs. Everything that a board reads is a static file of any web server, CDN
 * or USB stick:
 *
 *	root/N                        root documents, by version (agent/sync/trust.h)
 *	CLASS/CHANNEL/snapshot        the snapshot, signed by the fleet key: kind "snapshot"
 *	blob/SHA256                   64 hex digits
 *
 * CLASS is the boards' target_key as 32 hex digits; CHANNEL one of `channel_names`. A board is on channel
 * canary only if it is configured so; otherwise a hash of its id selects early (one in ten) or all.
 *
 * The payload, JSON: {"class", "channel", "serial": whole number, "made_s", "expires_s" (since 1970),
 * "client": the version of this language (SNAPSHOT_CLIENT), "poll_s": about how often a board should ask,
 * "blobs": [{"kind": "records", "bytes", "sha256"}, ...], "revoked": {"boards": [key ids], "records": [32 hex
 * digits of a candidate's hash, see revoked_hash]}, "share": {"parts": N, "salt": TEXT}}. Unknown keys are
 * ignored; unknown kinds of blobs are not fetched.
 *
 * A blob of kind "records": lines of agent/cache/exchange.h, at most SNAPSHOT_BLOB bytes. */
#ifndef AGENT_SNAPSHOT_H
#define AGENT_SNAPSHOT_H

#include "agent/control/sync_conf.h"
#include "agent/sync/signed.h"
#include "platform/base/arena.h"
#include "platform/base/hash.h"

enum {
	SNAPSHOT_CLIENT = 1,
	SNAPSHOT_BYTES = 256 << 10, /* of the payload */
	SNAPSHOT_BLOBS = 1024,
	SNAPSHOT_BLOB = 4 << 20, /* bytes */
	SNAPSHOT_REVOKED = 2048, /* boards, and as many records */
};

/* The channel of a board whose configuration names none. */
enum channel channel_of(const char *board_id);

struct snapshot_blob {
	char kind[16];
	int64_t bytes;
	struct sha256 sha256;
};

struct snapshot {
	char cls[33];
	enum channel channel;
	int64_t serial; /* 1 to 2^53 */
	int64_t made_s, expires_s;
	int client;
	int64_t poll_s;
	int nblob;
	struct snapshot_blob *blob;
	int nboard, nrecord;           /* numbers of revoked boards and records */
	char (*board)[KEY_ID_HEX + 1]; /* ids of revoked contributors */
	struct key *record;
	int parts;     /* of the search; 0: each board searches all of it (search/share.h) */
	char salt[33]; /* salt of that division */
};

/* Parses a payload; everything is put into the arena. Hostile input: E_CORRUPT (fuzzed); E_UNSUPPORTED: made
 * for newer boards. */
int snapshot_parse(const void *payload, size_t n, struct arena *a, struct snapshot *out) MUST_CHECK;
int snapshot_print(const struct snapshot *s, struct buf *out) MUST_CHECK;
/* The hash that names a revoked record: of task, target key, device, threads, level and candidate. */
struct rec;
struct key revoked_hash(const struct rec *r);
/* The hash that the former version gave the same record. Revocations made by the former version still count;
 * a former hash that matches revokes that candidate only. */
struct key revoked_hash_former(const struct rec *r);

#endif
