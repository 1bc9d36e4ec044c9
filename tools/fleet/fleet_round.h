/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader of a fleet's instances does every now and then (fleet_round): first what was revoked goes
 *out, with the records that the channels have already, whatever else fails; then
 *
 *	batches ─► words ─► aggregate, by class ─► shown ─► blobs, snapshots (database) ─► the place
 *
 * The database is what counts, the place a mirror of it: each step is one transaction that can be done again,
 * and what was written but not sent yet is sent by the next round, blobs before the snapshots that name them.
 * So a round may end anywhere. Once an hour, and by each new leader, what the place should have is offered
 * to it again (a place does not write what is there).
 *
 * A class is aggregated when there is something new: words, what is revoked or configured, a stage that ends
 * (due_s). One that fails keeps no other from going on, and a
 * channel whose records cannot be published keeps those that it has. A channel's records are lines that the
 *server builds of what boards agree on, byte for byte (tools/fleet/fleet_line.h), with the fleet's times; in
 *blobs by beginning of their key, each cut in two where it grows over SHARD_BYTES, so that a change is one
 *blob. They have CHANNEL_BYTES; what one board alone says has LONE_MOST records of LONE_BYTES. What more
 *boards agree on comes first, and what is there already; the rest is left out, counted, and named with the
 *board. A snapshot is written when what it says has changed, when a fourth of its time is left, or when the
 *fleet's key is another: else polls find the same file. Serials only rise; they are about the date, so that a
 *database which was lost or is an old copy does not stop the fleet for long.
 *
 * Settings: "stop": "1": early and all keep what they have, whatever boards say; revocations go on.
 * "withdraw": "ID CLASS" or "ID all": early and all of these classes go back, once for each ID, to what they
 * had before (a new serial: rollback is refused), and "stop" is set with it. Who takes "stop" back revokes
 * first what was wrong, else it comes again.
 *
 * Tables: classes: class; dirty, due_s, rules (hash of what was configured and revoked), revoked (hash
 * of that alone, as its snapshots say it), withdrawn (ID).
 * shown: class, channel, type, key, cand; since_s (first), now, median_ns, boards, line: struct held, and
 * what is published where it is there now. left_out: class, board; n records of so many bytes, since_s.
 *snapshots: class, channel, serial; origin (serial that first had these blobs), content and state (hashes: of
 *all it says; of its blobs), made_s, expires_s, records, sent, placed (it was sent once), doc (signed): the
 *newest of each of the last KEEP_STATES origins. blobs: hash, sent, left_s (since when no snapshot that is
 *kept names it; dropped GRACE_S later; 0: one does), placed, bytes. */
#ifndef TOOLS_FLEET_ROUND_H
#define TOOLS_FLEET_ROUND_H

#include "tools/fleet/aggregate.h"
#include "tools/fleet/fleet_parts.h"

enum {
	SHARD_BYTES = 64 << 10, /* more only where SNAPSHOT_BLOBS would not be enough */
	KEEP_STATES = 32,
	GRACE_S = 7 * 86400,
	CHANNEL_BYTES = 16 << 20,
	LONE_MOST = 1024, /* records of a class that one board alone can have on a channel, */
	LONE_BYTES = 2 << 20,
	SWEEP_S = 3600,
};

/* Administration. */
int rollout_stop(struct db_conn *c) MUST_CHECK;
/* Stages begin anew for what is not on channel all: nobody looked at it meanwhile. */
int rollout_go_on(struct db_conn *c, int64_t now_s) MUST_CHECK;
int rollout_stopped(struct db_conn *c) MUST_CHECK; /* 1, 0 */
/* cls NULL: all. It is done by the next round. */
int rollout_withdraw(struct db_conn *c, const char *cls) MUST_CHECK;

/* Within the server. */

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
	struct round_member *board; /* by id */
	struct key *record;         /* revoked, the newest first */
	bool stop;
	char withdraw[33], withdraw_of[33]; /* ID, class; "": none */
	char rules[33], revoked[33], signer[KEY_ID_HEX + 1];
	int rc; /* the first thing that failed, */
	char why[512];
};

int round_step(struct round *r) MUST_CHECK; /* < 0: the round is to end */
/* A step that failed does not keep others from being taken; what failed first is the round's error. */
void round_note(struct round *r, int rc);

/* Aggregates a class, and writes what its channels have. */
int round_words(struct round *r, const char *cls) MUST_CHECK;
/* Its snapshots, where they are to change. Notes what fails; each channel that does not fail is written. */
enum snapshots_how {
	SNAPSHOTS_NEW,  /* what its channels show; then the class is done */
	SNAPSHOTS_BACK, /* withdrawn: what was before */
	SNAPSHOTS_KEPT, /* the records that boards have already: what is revoked alone is new */
	SNAPSHOTS_AGAIN /* as NEW, but the class is not done */
};
int round_snapshots(struct round *r, const char *cls, enum snapshots_how how) MUST_CHECK;
/* What was not sent yet. */
int round_publish(struct round *r) MUST_CHECK;
/* Forgets what is old; the place is offered everything again. */
int round_sweep(struct round *r) MUST_CHECK;

/* Lines, sorted by key, into SNAPSHOT_BLOBS blobs at most. In the arena; returns their number. E_NOMEM. */
struct shard_line {
	struct key key;
	enum cache_type type;
	const char *line; /* without \n */
	size_t n;
	bool left; /* out, for it does not fit */
};
int round_shards(struct shard_line *line, int n, struct arena *a, struct blob **out) MUST_CHECK;

#endif
