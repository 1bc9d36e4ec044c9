/* SPDX-License-Identifier: Apache-2.0 */
/* Sends this board's lines to its fleet in batches: step 6 of a run (agent/sync/sync.h). Part of sync.c; not
 * for others. */
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

	int lines;            /* that the cache has offered */
	int refusals;         /* of batches */
	char why[STATE_TEXT]; /* the server's reason for the last batch that it refused */
	bool all_answered;    /* the server took or refused each batch; the upload did not break off */
};

/* The caller sets the fields above `lines`, and the others are 0. E_UNSUPPORTED: the server refused lines;
 * the others were sent. */
int sync_push(struct push *q) MUST_CHECK;

#endif
