/* SPDX-License-Identifier: Apache-2.0 */
/* The round that the leader of a fleet's instances does regularly (fleet_round). First it publishes
 * revocations, together with the records that the channels have already, even if other steps fail. Then:
 *
 *	batches ─► words ─► aggregate, by class ─► shown ─► blobs, snapshots (database) ─► the place
 *
 * The database is authoritative, and the place mirrors it. Each step is one transaction that can be repeated.
 * What was written to the database but not sent yet is sent by the next round, blobs before the snapshots
 * that name them. So a round may end anywhere. Once an hour, and by each new leader, all published files are
 * offered to the place again (it does not write what it has).
 *
 * A class is aggregated when something has changed: words, revocations, configuration, or a stage that ends
 * (due_s). A class that fails does not stop the others, and a channel whose records cannot be published keeps
 * the records that it has. The records of a channel are lines that the server builds from what boards agree
 * on byte for byte (tools/fleet/fleet_line.h), with the fleet's times. They are divided into blobs by the
 * beginning of their key; a blob that grows over SHARD_BYTES is cut in two, so a small change changes one
 * blob. All lines of a channel have at most CHANNEL_BYTES; records that one board alone says have at most
 * LONE_MOST records of LONE_BYTES. Records that more boards agree on are taken first, then those that are
 * there already; the rest is left out, counted, and reported with the board. A snapshot is written when its
 * content has changed, when a fourth of its time is left, or when the fleet has another key; otherwise polls
 * find the same file. Serials only rise. They follow the date, so a lost database or an old copy of it does
 * not stop the fleet for long.
 *
 * Settings: "stop" = "1": early and all keep what they have, whatever boards say; revocations still go out.
 * "withdraw" = "ID CLASS" or "ID all": early and all of these classes go back, once for each ID, to what they
 * had before (with a new serial: boards refuse rollbacks), and "stop" is set, too. Before an operator clears
 * "stop", they should revoke what was wrong, or it comes again.
 *
 * Tables: classes: class; dirty, due_s, rules (hash of configuration and revocations), revoked (hash of the
 * revocations that its snapshots have), withdrawn (ID). shown: class, channel, type, key, cand; since_s
 * (first), now, median_ns, boards, line: struct held, and the published line if the record is there now.
 * left_out: class, board; n records of `bytes` bytes, since_s. snapshots: class, channel, serial; origin (the
 * serial that first had these blobs), content (hash of all that it says), state (hash of its blobs), made_s,
 * expires_s, records, sent, placed (it was sent at least once), doc (signed): the newest of each of the last
 * KEEP_STATES origins. blobs: hash, sent, left_s (since when no kept snapshot names it; it is dropped GRACE_S
 * later; 0: one names it), placed, bytes. */
#ifndef TOOLS_FLEET_ROUND_H
#define TOOLS_FLEET_ROUND_H

#include "tools/fleet/aggregate.h"
#include "tools/fleet/fleet_parts.h"

enum {
	SHARD_BYTES = 64 << 10, /* larger only if SNAPSHOT_BLOBS blobs would not be enough */
	KEEP_STATES = 32,
	GRACE_S = 7 * 86400,
	CHANNEL_BYTES = 16 << 20,
	LONE_MOST = 1024, /* records of a class that one board alone can have on a channel */
	LONE_BYTES = 2 << 20,
	SWEEP_S = 3600,
};

/* Administration. */
int rollout_stop(struct db_conn *c) MUST_CHECK;
/* Restarts the stages of records that are not on channel all, since nobody watched them during the stop. */
int rollout_go_on(struct db_conn *c, int64_t now_s) MUST_CHECK;
int rollout_stopped(struct db_conn *c) MUST_CHECK; /* 1: stopped; 0: not */
/* cls NULL: all classes. The next round does it. */
int rollout_withdraw(struct db_conn *c, const char *cls) MUST_CHECK;

/* Within the server: a round and its steps. */

struct round_member {
	char id[KEY_ID_HEX + 1], cls[33];
	bool revoked, struck;
	int64_t revoked_s, words, good;
};

struct round {
	struct fleet *f;
	struct db_conn *c;
	int64_t now_s;
	struct arena a;
	int nboard, nrecord;
	struct round_member *board; /* sorted by id */
	struct key *record;         /* revoked records, newest first */
	bool stop;
	char withdraw[33], withdraw_of[33]; /* ID, class; "": none */
	char rules[33], revoked[33], signer[KEY_ID_HEX + 1];
	int rc; /* the first error */
	char why[512];
};

int round_step(struct round *r) MUST_CHECK; /* < 0: the round must end */
/* Records a failed step without ending the round: the first error becomes the round's error. */
void round_note(struct round *r, int rc);

/* Aggregates a class, and writes to `shown` what its channels have. */
int round_words(struct round *r, const char *cls) MUST_CHECK;
/* Writes a class's snapshots if they must change. A channel that fails is noted, and the others are
 * written. */
enum snapshots_how {
	SNAPSHOTS_NEW,  /* the records in `shown`; then the class is done */
	SNAPSHOTS_BACK, /* withdrawn: the records of before */
	SNAPSHOTS_KEPT, /* the records that boards have already: only revocations are new */
	SNAPSHOTS_AGAIN /* as NEW, but the class stays to be done */
};
int round_snapshots(struct round *r, const char *cls, enum snapshots_how how) MUST_CHECK;
/* Sends to the place what was not sent yet. */
int round_publish(struct round *r) MUST_CHECK;
/* Deletes old rows and blobs, and offers everything to the place again. */
int round_sweep(struct round *r) MUST_CHECK;

/* Divides lines into at most SNAPSHOT_BLOBS blobs by key, and sorts them. Blobs are in the arena; returns
 * their number; E_NOMEM. */
struct shard_line {
	struct key key;
	enum cache_type type;
	const char *line; /* without \n */
	size_t n;
	bool left; /* left out, since it does not fit */
};
int round_shards(struct shard_line *line, int n, struct arena *a, struct blob **out) MUST_CHECK;

#endif
