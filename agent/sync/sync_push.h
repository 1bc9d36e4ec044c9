/* SPDX-License-Identifier: Apache-2.0 */
/* Sends this board's lines to its fleet in batches: step 6 of a run (agent/sync/sync.h). Part of sync.c; not
 * for others.
 *
 * Each batch that the server refuses counts toward the day's batches of a board, so a run ends after 64 of
 * them. The next run begins behind the last line that was tried, and the one after the last line begins at
 * the front again: refused lines keep no others from being sent. */
#ifndef AGENT_SYNC_PUSH_H
#define AGENT_SYNC_PUSH_H

#include "agent/sync/sync.h"
#include "agent/sync/sync_fetch.h"
#include "agent/sync/sync_state.h"

struct push {
	const struct sync_cache *to; /* offers the lines */
	struct fetch *fetch;
	struct private_key *key; /* signs the batches */
	const char *board;       /* the key's id */
	struct sync_sum *sum;    /* its counts of batches and lines are raised */
	int64_t from;            /* how many lines to pass over; sync_push sets it for the next run */

	char
	    name[SYNC_NAME]; /* the name by which the server called this board in an answer; "": it did not */
	int lines;            /* that the cache has offered */
	int tried;            /* how many of them come up to the last one that was tried */
	int left;             /* lines behind that one */
	int refusals;         /* of batches */
	char why[STATE_TEXT]; /* the server's reason for the last batch that it refused */
	bool all_answered;    /* the server took or refused each batch; the upload did not break off */
};

/* The caller sets the fields above `name`, and the others are 0. E_UNSUPPORTED: the server refused lines;
 * the others were sent. */
int sync_push(struct push *q) MUST_CHECK;

#endif
