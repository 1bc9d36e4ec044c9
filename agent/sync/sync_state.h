/* SPDX-License-Identifier: Apache-2.0 */
/* What runs of hone-sync leave to the next (agent/sync/sync.h). Part of sync.c; not for others.
 *
 * Files are written as a whole and renamed. None of them is trusted to be whole: what is damaged counts as
 * not there, and costs traffic, never safety (that is `trust`). */
#ifndef AGENT_SYNC_STATE_H
#define AGENT_SYNC_STATE_H

#include "agent/sync/sync.h"
#include "agent/sync/sync_fetch.h"

enum { STATE_TEXT = 400 };

struct sync_state {
	char folder[512];
	/* sync.json. Times of use count while the board is on, over all boots. */
	char boot[64];
	int64_t before_ns, seen_ns; /* use before this boot; the clock, when it was written */
	struct sync_pace pace;           /* on the clock of use */
	bool chosen;                /* pace.next_ns, since this boot */
	int64_t quiet_ns;           /* not before, as the server asked */
	char of[200];               /* server, class and channel of what follows */
	char etag[FETCH_ETAG], doc[65];
	char cache[33];                                      /* id of the one that has what was taken */
	int64_t serial, made_s, expires_s, poll_s, fresh_ns; /* fresh_ns: of use, when the serial rose */
	int64_t ran_s;                                       /* date of the last run */
	bool offline, stale;
	char error[STATE_TEXT]; /* of the last run; "": good */
	char board[KEY_ID_HEX + 1];
	int64_t taken, refused, sent, down_bytes, up_bytes; /* ever */

	struct sha256 *blob; /* that were taken */
	int nblob;
};

/* Makes the folder. Nothing there is an empty state. */
int state_open(struct sync_state *s, const char *folder) MUST_CHECK;
/* sync.json alone. */
void state_glance(struct sync_state *s, const char *folder);
void state_free(struct sync_state *s);
int state_save(const struct sync_state *s) MUST_CHECK;
/* Its path, in one of four buffers. */
const char *state_path(const struct sync_state *s, const char *name);

/* The clock of use, now; a new boot is counted on. */
int64_t state_use(struct sync_state *s, const struct sync_now *now);

bool state_has_blob(const struct sync_state *s, const struct sha256 *h);
int state_add_blob(struct sync_state *s, const struct sha256 *h) MUST_CHECK;
/* Only those of the snapshot stay. */
int state_keep_blobs(struct sync_state *s, const struct snapshot *of) MUST_CHECK;

#endif
