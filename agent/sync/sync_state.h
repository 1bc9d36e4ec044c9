/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of hone-sync keeps for the next one (agent/sync/sync.h). Part of sync.c; not for others.
 *
 * Each file is written whole and renamed. Readers do not trust that a file is intact: a damaged one counts as
 * missing, which costs traffic, never safety (`trust` is for safety). */
#ifndef AGENT_SYNC_STATE_H
#define AGENT_SYNC_STATE_H

#include "agent/sync/sync.h"
#include "agent/sync/sync_fetch.h"

enum { STATE_TEXT = 400 };

struct sync_state {
	char folder[512];
	/* Fields of sync.json. The clock of use is the time for which the board was on, summed over all
	 * boots. */
	char boot[64];         /* id of the last boot that was seen */
	int64_t before_ns;     /* use before that boot */
	int64_t seen_ns;       /* time since that boot when the clock of use was last read */
	struct sync_pace pace; /* next_ns: on the clock of use */
	bool chosen;           /* pace.next_ns was chosen during that boot */
	int64_t quiet_ns;      /* clock of use: the server is not asked before (Retry-After) */
	char of[200];          /* server, class and channel of the fields below */
	char etag[FETCH_ETAG], doc[65];
	char cache[33];                                      /* id of the cache with the taken records */
	int64_t serial, made_s, expires_s, poll_s, fresh_ns; /* fresh_ns: use when serial last rose */
	int64_t push_from;                                   /* struct push */
	int64_t token_ns;                                    /* state_token when a join was last tried */
	int64_t ran_s;                                       /* date of the last run, seconds since 1970 */
	bool offline, stale;
	bool revoked;           /* the newest snapshot says that the fleet has revoked this board */
	char error[STATE_TEXT]; /* of the last run; "": it was good */
	char board[KEY_ID_HEX + 1];
	/* The name by which it joined, or which the fleet has given it since; "": it has not joined, or by an
	 * older hone-sync. */
	char joined[SYNC_NAME];
	int64_t taken, choices, refused, sent, down_bytes, up_bytes; /* totals over all runs */

	struct sha256 *blob; /* hashes of taken blobs */
	int nblob;
};

/* Makes the folder if needed, and reads the state; a missing file is an empty state. */
int state_open(struct sync_state *s, const char *folder) MUST_CHECK;
/* Reads sync.json only. */
void state_glance(struct sync_state *s, const char *folder);
void state_free(struct sync_state *s);
int state_save(const struct sync_state *s) MUST_CHECK;
/* Returns the path of a file of the state, in one of four static buffers used in turns. */
const char *state_path(const struct sync_state *s, const char *name);

/* Returns the clock of use now; after a new boot it continues from the old value. */
int64_t state_use(struct sync_state *s, const struct sync_now *now);

/* The time at which the token's file was written, ns since 1970, >= 1; 0: there is no such file. */
int64_t state_token(const struct sync_conf *c);
bool state_has_to_join(const struct sync_conf *c, const struct sync_state *s);
/* Returns whether the board has to join, and has not yet tried to with this token, which expires (by default
 * after a day). */
bool state_join_is_due(const struct sync_conf *c, const struct sync_state *s);
/* When the next run is due, on the clock of use. */
int64_t state_next(const struct sync_conf *c, const struct sync_state *s);

bool state_has_blob(const struct sync_state *s, const struct sha256 *h);
int state_add_blob(struct sync_state *s, const struct sha256 *h) MUST_CHECK;
/* Keeps only the blobs that the snapshot names. */
int state_keep_blobs(struct sync_state *s, const struct snapshot *of) MUST_CHECK;

#endif
