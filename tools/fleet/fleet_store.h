/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the fleet's server, and every statement that boards' requests need. Opening a database
 * creates its tables, or upgrades them to this version; stop all instances before a newer version opens it.
 * Times are in seconds since 1970, *_us in microseconds; ids of boards, classes, keys and names of batches
 * are lower-case hex. Since version 2, records are named by another hash: the upgrade renames words, revoked
 * records and the records of channels.
 *
 * settings: name, value: "schema" (version), and the settings of rounds and administration
 * (tools/fleet/fleet_round.h)
 *
 * tokens: id (SHA-256 of the token), note, made_s, expires_s, uses (left)
 *
 * boards: id (of the key), public, name (given by the board), class and label (of its last batch), token
 * (used to enrol), enrolled_s, last_s, day, sent and sent_bytes (batches of that day, and their bytes),
 * over_day (the last day on which it went over its limit), batches, records, revoked_s (0: not revoked), why;
 * words, good, struck: its score (tools/fleet/aggregate.h)
 *
 * batches: name, board, class, n, came_s, taken (0: waits; 1: its words are taken, and doc is dropped), doc.
 * Names are kept for ever, so a batch that is sent again changes nothing.
 *
 * words: class, type, key, cand, board; median_ns, failed, since_s, said_s: struct word; line: plain
 * (tools/fleet/fleet_line.h); bytes: of the line, and STORE_ROW
 *
 * revoked: hash (revoked_hash), why, at_s: records that no board may use
 *
 * rejects: at_us, id; what, who, peer, why: the newest STORE_REJECTS refusals
 *
 * counts: name, n: counts of all time (enum store_count)
 *
 * admin: at_us, id; who, what: log of administration
 *
 * classes, shown, left_out, snapshots, blobs: tools/fleet/fleet_round.h; kernels, gains:
 * tools/fleet/fleet_gain.h; sessions: tools/fleet/fleet_session.c
 *
 * To add a table, add its CREATE to `schema` (tools/fleet/fleet_schema.c). Statements are constant texts
 * (tools/fleet/db.h). */
#ifndef TOOLS_FLEET_STORE_H
#define TOOLS_FLEET_STORE_H

#include "agent/sync/crypto.h"
#include "agent/sync/batch.h"
#include "tools/fleet/aggregate.h"
#include "tools/fleet/db.h"

enum {
	STORE_REJECTS = 10000,
	STORE_WORDS = 16384,          /* newest words kept of one board */
	STORE_BOARD_BYTES = 16 << 20, /* bytes kept of one board's words */
	STORE_KEY_BYTES = 64 << 10,   /* bytes kept of one board's words for one key */
	STORE_WORD = 32 << 10,        /* longest line of a word */
	STORE_ROW = 256,              /* bytes that a word counts for, besides its line */
	STORE_CLASSES = 8,            /* classes in which one board can have words */
};

int store_database(const char *url, struct db_conn **out) MUST_CHECK;
/* Runs fn in a transaction; fn < 0 rolls it back. Tries again while other transactions are in the way, and
 * once on a new connection if the connection was lost, so fn may run several times. */
typedef int store_fn(struct db_conn *c, void *ctx);
int store_do(struct db_conn *c, store_fn *fn, void *ctx) MUST_CHECK;
/* Runs one statement, and tries again as store_do does. Within a transaction it does not try again: the
 * caller of the transaction must. */
int store_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	       void *ctx) MUST_CHECK;

/* E_NOTFOUND: no such setting. */
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
/* Calls fn for each board, by id; fn < 0 ends it. Returns the number of boards. */
int store_boards(struct db_conn *c, int (*fn)(void *ctx, const struct store_board *b), void *ctx) MUST_CHECK;
/* Finds another board of the same name as b: 1 and its id (the lowest of several); 0: there is none. */
int store_namesake(struct db_conn *c, const struct store_board *b, char id[KEY_ID_HEX + 1]) MUST_CHECK;
/* Gives a board another name. E_NOTFOUND: no such board. */
int store_rename(struct db_conn *c, const char *id, const char *name) MUST_CHECK;
/* Revokes a board, or takes that back (why NULL). E_NOTFOUND: no such board. */
int store_revoke(struct db_conn *c, const char *id, const char *why, int64_t now_s) MUST_CHECK;
/* The same for a record, named by revoked_hash. E_NOTFOUND: it was not revoked (why NULL). */
int store_revoke_record(struct db_conn *c, const char *hash, const char *why, int64_t now_s) MUST_CHECK;

/* A token's text is random; the database has only its hash. */
enum { TOKEN_TEXT = 48 };
int store_token_make(struct db_conn *c, const char *note, int64_t now_s, int64_t expires_s, int uses,
		     char out[TOKEN_TEXT]) MUST_CHECK;
int store_token_id(const char *token, char out[65]) MUST_CHECK;
/* E_NOTFOUND: the token does not exist or has expired. Its uses are not looked at, since a board may enrol
 * again with the token that it came with. */
int store_token_good(struct db_conn *c, const char *id, int64_t now_s) MUST_CHECK;
/* In a transaction. 1: a new board; 0: it is known (a board may enrol again with the same token at no cost).
 * E_NOTFOUND as above, or the token has no uses left; E_WRONG: the board is revoked. */
int store_enrol(struct db_conn *c, const char *token, const struct store_board *b) MUST_CHECK;

enum {
	BATCH_KNOWN,
	BATCH_TAKEN,
	BATCH_LIMIT, /* the board has reached its limit of the day */
	BATCH_FULL,  /* all boards together have reached theirs */
};
struct store_limits {           /* of one day */
	int64_t batches, bytes; /* of one board */
	int64_t all_bytes;      /* of all boards; batches that come at the same moment may exceed it */
};
/* In a transaction. n: bytes of doc. */
int store_batch(struct db_conn *c, const struct batch *b, const void *doc, size_t n, int64_t now_s,
		const struct store_limits *most) MUST_CHECK;
/* Counts n bytes for the board's day that were received but not taken. */
int store_charge(struct db_conn *c, const char *board, size_t n, int64_t now_s) MUST_CHECK;
/* Marks the board as over its limit of today. 1: it was not marked yet. */
int store_over(struct db_conn *c, const char *board, int64_t now_s) MUST_CHECK;
/* The same for all boards together. */
int store_full(struct db_conn *c, int64_t now_s) MUST_CHECK;
/* Returns the bytes that all boards sent on this day; < 0: error. */
int64_t store_day_bytes(struct db_conn *c, int64_t now_s);
int store_batch_known(struct db_conn *c, const char *name) MUST_CHECK; /* 1: known; 0: not */

/* Gives the oldest waiting batches: name, board, class, came_s, doc. */
int store_waiting(struct db_conn *c, int most, db_row_fn *fn, void *ctx) MUST_CHECK;
/* Marks a batch as taken, and drops its document. */
int store_taken(struct db_conn *c, const char *name) MUST_CHECK;

/* In a transaction. Marks a class as changed; a new class is added only for words, since their number is
 * limited. 0: the board has words in STORE_CLASSES other classes already, so this class is not added. */
int store_class(struct db_conn *c, const char *board, const char *cls, bool words) MUST_CHECK;
/* Keeps a board's newest words: at most STORE_WORDS, and STORE_BOARD_BYTES. */
int store_trim_words(struct db_conn *c, const char *board) MUST_CHECK;
/* In a transaction. Stores a board's word and its plain line (w->board is not used); it replaces what the
 * board said of that candidate before. Of the board's words for that key, the newest STORE_KEY_BYTES stay. */
int store_word(struct db_conn *c, const char *board, const char *cls, const struct word *w, const char *line,
	       int64_t now_s) MUST_CHECK;

/* Names of counters; the first ones are refusals. */
enum store_count {
	COUNT_NONE = -1,
	COUNT_REQUEST,   /* no such path or method, or a malformed request */
	COUNT_OVERSIZED, /* too long a body */
	COUNT_FLOOD,     /* too many requests, or too slow */
	COUNT_TOKEN,     /* unknown, expired or used up */
	COUNT_CSR,       /* a bad signing request */
	COUNT_ENVELOPE,  /* not a signed document */
	COUNT_UNKNOWN,   /* unknown board */
	COUNT_SIGNATURE, /* not signed by the board */
	COUNT_REVOKED,   /* revoked board */
	COUNT_BATCH,     /* lines that are no records, or another board's or class's */
	COUNT_LIMIT,     /* over the limit of a day, or of a board's classes */
	COUNT_ROOM,      /* a board's records that are left out of a channel, for lack of room */
	COUNT_ADMIN,     /* no good admin token */
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
/* In a transaction. Stores refusals, and adds `count` to the counts. */
int store_note(struct db_conn *c, const struct store_refused *r, int n,
	       const int64_t count[STORE_COUNTS]) MUST_CHECK;
int store_admin(struct db_conn *c, const char *who, const char *what, int64_t now_us, uint64_t id) MUST_CHECK;
int64_t store_count(struct db_conn *c, enum store_count what); /* < 0: error */

#endif
