/* SPDX-License-Identifier: Apache-2.0 */
/* hone-sync: one short run against a fleet server, or against a folder (a USB stick) of the same files.
 *
 * A run does this:
 * 1. root documents N + 1, N + 2, ... until there is none;
 * 2. the snapshot of the board's class and channel, by ETag; signature, class, channel, serial and lengths
 * are checked before anything else of it is used;
 * 3. blobs that the last snapshot did not have; a download that was cut is resumed (If-Range), and each blob
 * is checked by length and SHA-256;
 * 4. the blobs' records go to the cache as candidates (agent/sync/taken.h);
 * 5. the serial is raised;
 * 6. if the owner opted in, records of this board that were not sent yet go up in batches
 * (agent/sync/batch.h). A batch that the server refuses is sent again in halves, until each line that it
 * refuses is alone: the others count as sent, and the run fails with the server's reason. The next run is
 * then due as after a good one. Lines that the server does not have are offered again in the next run, which
 * begins behind the last line that was tried if there were too many refusals.
 *
 * When a step fails, everything taken before stays, and the reason is logged and kept for `hone status`. A
 * run that is cut anywhere, also by a power cut, does no harm: the next one continues.
 *
 * A run ends by its deadline whatever the server does, and takes no more memory than its largest blob and
 * document. State (a folder that only its owner writes): key.pem, cert.pem, trust, sync.json (kept for the
 * next run, and for `hone status`), taken (SHA-256 of the snapshot's blobs that were taken, a line each),
 * blob/ (partial downloads), lock. A run needs no device, no search and no compiler.
 *
 * A board makes its key once; the key's id is the board's id. A board with a token and without a certificate
 * asks the server's `enrol` for one (tools/fleet/fleet.h). */
#ifndef AGENT_SYNC_H
#define AGENT_SYNC_H

#include "agent/cache/cache.h"
#include "agent/control/sync_conf.h"
#include "agent/sync/snapshot.h"
#include "agent/sync/sync_pace.h"
#include "agent/sync/trust.h"
#include "platform/base/clock.h"

#include <signal.h>

/* The error that sync_run keeps for a run of a revoked board, if nothing else failed. */
#define SYNC_REVOKED                                                                                         \
	"the fleet has revoked this board: it may take, but nothing that it sends counts; ask the fleet's "  \
	"operator"

struct sync_sum {
	bool fresh;     /* the snapshot was new */
	bool offline;   /* no server was reached */
	bool revoked;   /* the fleet has revoked this board: what it sends does not count, and the run
			 * is kept as not good even if sync_run returns E_OK */
	int64_t serial; /* serial of the newest snapshot; 0: none yet */
	int roots, blobs, refused, batches, sent;
	int unsent;                   /* lines that the server refused, each alone */
	int untried;                  /* lines left for the next run after too many refusals */
	int sent_of[CACHE_TYPES];     /* `sent` by the type of the lines */
	int taken, choices;           /* new records, and models for which choices were taken */
	int64_t down_bytes, up_bytes; /* without the overhead of TLS */
};

/* Where a run puts records, and gets those that it sends. */
struct sync_cache {
	void *ctx;
	const char *cls, *label; /* class and label of this board */
	const char *id;          /* the cache's id; "": nothing was taken into it yet; NULL: not known */
	/* Called with a new snapshot before its blobs: removes the records that it revokes. */
	int (*revoke)(void *ctx, const struct snapshot *s);
	/* Takes the lines of a checked blob, and adds the numbers of those that were new and of refused ones
	 * to taken, choices and refused of *sum. Records that s revokes are left out. */
	int (*take)(void *ctx, const struct snapshot *s, const void *lines, size_t n, struct sync_sum *sum);
	/* Called with a new snapshot: stores how the fleet divides the search. */
	int (*share)(void *ctx, const struct snapshot *s, const char *board);
	int (*commit)(void *ctx);
	/* The type (enum cache_type) of the next line to send, which *line gets (without \n), in the arena;
	 * 0: there are no more. */
	int (*next)(void *ctx, struct arena *a, const char **line);
	/* Called when the server has these n lines, numbered from 0 in the order of `next` in this run;
	 * durable when it returns good. */
	int (*sent)(void *ctx, const int *line, int n);
};

/* The clock, date and boot of a run. */
struct sync_now {
	struct clock *clock;               /* since boot; for deadlines and the pace */
	int64_t date_s;                    /* since 1970; may be wrong */
	const char *boot;                  /* this boot's id; a new id restarts the clock */
	const volatile sig_atomic_t *stop; /* set by a signal to stop the run; NULL: never */
};

/* Makes a run, also if none is due; the server's Retry-After and the day's limit of bytes hold all the same.
 * E_BUSY: another run is under way, or it is too early. *out is set in any case. */
int sync_run(const struct sync_conf *c, const struct sync_cache *to, const struct sync_now *now,
	     struct sync_sum *out) MUST_CHECK;
/* Returns 0 if a run is due, else the ns until then. Chooses that moment if none was chosen since this
 * boot. A board that has not joined is due at once when it gets a token or a new one (but not before
 * Retry-After); until it has joined, the next runs come at the pace of PACE_JOIN_NS. */
int64_t sync_due(const struct sync_conf *c, const struct sync_now *now);
/* Writes this boot's id; "": not known. */
void sync_boot(char *out, size_t n);
/* Writes the result of the last run and the totals of all runs as JSON for `hone status`, and returns whether
 * there was a run; "{}" if there was none. */
bool sync_status(const struct sync_conf *c, const struct sync_now *now, struct buf *out);
/* Writes why the last run failed ("": not at all) and returns whether it did. A run that only found the board
 * offline has not failed. */
bool sync_failed(const struct sync_conf *c, char *why, size_t n);

#endif
