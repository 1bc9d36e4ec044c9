/* SPDX-License-Identifier: Apache-2.0 */
/* What the fleet's server keeps, and every statement that boards' requests need. Made, or brought up to this
 * version, when it is opened; times are seconds since 1970, *_us microseconds; ids of boards, classes, keys
 * and names of batches are lower-case hex. Stop all instances before a newer version opens the database.
 * Version 2 names records by another hash: words, what is revoked and what channels
 * have get their new names.
 *
 * settings: name, value: "schema" (version), and what rounds and administration keep
 * (tools/fleet/fleet_round.h)
 *
 * tokens: id (SHA-256 of the token), note, made_s, expires_s, uses (that are left)
 *
 * boards: id (of the key), public, name (as it calls itself), class and label (of its last batch), token
 * (that it came with), enrolled_s, last_s, day, sent and sent_bytes (batches of that day, and their bytes),
 * over_day (the last on which it was told to send no more), batches, records, revoked_s (0: it is not), why;
 * words, good, struck: its score (tools/fleet/aggregate.h)
 *
 * batches: name, board, class, n, came_s, taken (0: waits; 1: in words, and its document is dropped), doc.
 * A batch's name is kept for ever: who sends an old one again changes nothing.
 *
 * words: class, type, key, cand, board; median_ns, failed, since_s, said_s: struct word; line: plain
 * (tools/fleet/fleet_line.h), of so many bytes
 *
 * revoked: hash (revoked_hash), why, at_s: records that no board is to use
 *
 * rejects: at_us, id; what, who, peer, why: the newest STORE_REJECTS
 *
 * counts: name, n: of all time
 *
 * admin: at_us, id; who, what: administration's log
 *
 * classes, shown, left_out, snapshots, blobs: of rounds (tools/fleet/fleet_round.h)
 *
 * kernels, gains: tools/fleet/fleet_gain.h; sessions: tools/fleet/fleet_session.c
 *
 * Whoever needs another table adds its CREATE to `schema`. Statements are constant texts (tools/fleet/db.h).
 */
#ifndef TOOLS_FLEET_STORE_H
#define TOOLS_FLEET_STORE_H

#include "agent/sync/crypto.h"
#include "agent/sync/batch.h"
#include "tools/fleet/aggregate.h"
#include "tools/fleet/db.h"

enum {
	STORE_REJECTS = 10000,
	STORE_WORDS = 16384,          /* of one board: the newest, */
	STORE_BOARD_BYTES = 16 << 20, /* that have no more bytes than this, */
	STORE_KEY_BYTES = 64 << 10,   /* and those of one key no more than this */
	STORE_WORD = 32 << 10,        /* a longer line is no word */
	STORE_ROW = 256,              /* bytes that a word counts for besides its line */
	STORE_CLASSES = 8,            /* that one board can bring up */
};

int store_database(const char *url, struct db_conn **out) MUST_CHECK;
/* A transaction around fn, which < 0 undoes. Tried again while others are in the way, and once on a new
 * connection where it was lost: fn may run several times. */
typedef int store_fn(struct db_conn *c, void *ctx);
int store_do(struct db_conn *c, store_fn *fn, void *ctx) MUST_CHECK;
/* A statement on its own, tried again likewise; within a transaction that is for whoever began it. */
int store_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	       void *ctx) MUST_CHECK;

/* E_NOTFOUND: none. */
int store_get(struct db_conn *c, const char *name, char *out, size_t n) MUST_CHECK;
int store_set(struct db_conn *c, const char *name, const char *value) MUST_CHECK;
int store_get_int(struct db_conn *c, const char *name, int64_t otherwise, int64_t *out) MUST_CHECK;
int store_set_int(struct db_conn *c, const char *name, int64_t value) MUST_CHECK;

struct store_board {
	char id[KEY_ID_HEX + 1], name[64], cls[33], label[160], token[65], why[160];
	struct public_key key;
	int64_t enrolled_s, last_s, day, sent, sent_bytes, batches, records, revoked_s, words, good;
	bool struck;
};
int store_board(struct db_conn *c, const char *id, struct store_board *out) MUST_CHECK; /* E_NOTFOUND */
/* By id; fn < 0 ends it. Returns their number. */
int store_boards(struct db_conn *c, int (*fn)(void *ctx, const struct store_board *b), void *ctx) MUST_CHECK;
/* From now on, or no longer (why NULL). E_NOTFOUND: no such board. */
int store_revoke(struct db_conn *c, const char *id, const char *why, int64_t now_s) MUST_CHECK;
/* Likewise a record, by revoked_hash. */
int store_revoke_record(struct db_conn *c, const char *hash, const char *why, int64_t now_s) MUST_CHECK;

/* A token's text is random; what the database has of it is its hash. */
enum { TOKEN_TEXT = 48 };
int store_token_make(struct db_conn *c, const char *note, int64_t now_s, int64_t expires_s, int uses,
		     char out[TOKEN_TEXT]) MUST_CHECK;
int store_token_id(const char *token, char out[65]) MUST_CHECK;
/* E_NOTFOUND: there is none, it has expired, or has no uses left and the board did not come with it. */
int store_token_good(struct db_conn *c, const char *id, int64_t now_s) MUST_CHECK;
/* In a transaction. A board that came with this token before has it again: 1: it is new. E_NOTFOUND as above;
 * E_WRONG: revoked. */
int store_enrol(struct db_conn *c, const char *token, const struct store_board *b) MUST_CHECK;

enum {
	BATCH_KNOWN,
	BATCH_TAKEN,
	BATCH_LIMIT, /* the board has sent what it may send today, */
	BATCH_FULL,  /* or all boards together have */
};
struct store_limits {           /* of a day */
	int64_t batches, bytes; /* of one board */
	int64_t all_bytes;      /* of all; more by what comes at the same moment */
};
/* In a transaction. n: of doc. */
int store_batch(struct db_conn *c, const struct batch *b, const void *doc, size_t n, int64_t now_s,
		const struct store_limits *most) MUST_CHECK;
/* A board's bytes that were not taken count, too. */
int store_charge(struct db_conn *c, const char *board, size_t n, int64_t now_s) MUST_CHECK;
/* A board is told to send no more today: 1: for the first time. */
int store_over(struct db_conn *c, const char *board, int64_t now_s) MUST_CHECK;
/* The same of all together. */
int store_full(struct db_conn *c, int64_t now_s) MUST_CHECK;
/* Bytes of all boards of a day; < 0: error. */
int64_t store_day_bytes(struct db_conn *c, int64_t now_s);
int store_batch_known(struct db_conn *c, const char *name) MUST_CHECK; /* 1, 0 */

/* Batches that wait, oldest first: name, board, class, came_s, doc. */
int store_waiting(struct db_conn *c, int most, db_row_fn *fn, void *ctx) MUST_CHECK;
/* Its document is dropped. */
int store_taken(struct db_conn *c, const char *name) MUST_CHECK;

/* In a transaction: a class has something new. One that was not there comes up with words alone, for those
 * are what is limited. 0: the board cannot bring up one more. */
int store_class(struct db_conn *c, const char *board, const char *cls, bool words) MUST_CHECK;
/* Of a board's words the newest STORE_WORDS of STORE_BOARD_BYTES stay. */
int store_trim_words(struct db_conn *c, const char *board) MUST_CHECK;
/* In a transaction: a board's word (whose `board` is not looked at) and its plain line, in the place of what
 * it said of that candidate before. Of what it said of that key the newest STORE_KEY_BYTES stay. */
int store_word(struct db_conn *c, const char *board, const char *cls, const struct word *w, const char *line,
	       int64_t now_s) MUST_CHECK;

/* What is counted; the first ones are refusals. */
enum store_count {
	COUNT_NONE = -1,
	COUNT_REQUEST,   /* no such path or method, or not as it should be */
	COUNT_OVERSIZED, /* body */
	COUNT_FLOOD,     /* too many, or too slow */
	COUNT_TOKEN,     /* unknown, expired, used up */
	COUNT_CSR,       /* not a good signing request */
	COUNT_ENVELOPE,  /* not a signed document */
	COUNT_UNKNOWN,   /* board */
	COUNT_SIGNATURE, /* not the board's */
	COUNT_REVOKED,   /* board */
	COUNT_BATCH,     /* of what is no record, or of another board or class */
	COUNT_LIMIT,     /* of a day, or of a board's classes */
	COUNT_ROOM,      /* what a board said is left out of a channel: there is no room */
	COUNT_ADMIN,     /* without a good admin token */
	COUNT_REFUSALS,
	COUNT_ENROLLED = COUNT_REFUSALS,
	COUNT_BATCHES,
	COUNT_RECORDS,
	COUNT_KNOWN, /* batches that were sent again */
	STORE_COUNTS
};
extern const char *const store_counts[STORE_COUNTS];

struct store_refused {
	int64_t at_us;
	uint64_t id;
	enum store_count what;
	char who[64], peer[48], why[200];
};
/* In a transaction. */
int store_note(struct db_conn *c, const struct store_refused *r, int n,
	       const int64_t count[STORE_COUNTS]) MUST_CHECK;
int store_admin(struct db_conn *c, const char *who, const char *what, int64_t now_us, uint64_t id) MUST_CHECK;
int64_t store_count(struct db_conn *c, enum store_count what); /* < 0: error */

#endif
