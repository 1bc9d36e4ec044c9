/* SPDX-License-Identifier: Apache-2.0 */
/* hone-sync: one short run against a fleet server, or against a folder (a USB stick) of the same files.
 *
 * A run: 1. root: N + 1, N + 2, ... until there is none; 2. the snapshot of the board's class and channel, by
 * ETag; signature, class, channel, serial, lengths are checked before anything else of it is looked at;
 * 3. blobs that the last snapshot did not have, resumed where a run before was cut (If-Range), each checked
 * by length and SHA-256; 4. their records go to the cache as candidates (agent/sync/taken.h); 5. the serial
 * is raised;
 * 6. where the owner opted in, records of this board that were not sent yet go up in batches
 * (agent/sync/batch.h). Whatever fails, what was there stays, and the reason is logged and kept for `hone
 * status`. A run that is cut anywhere, also by a power cut, does no harm: the next one goes on.
 *
 * A run ends by its deadline whatever the server does, and takes no more memory than its largest blob and
 * document. State (a folder that its owner alone writes): key.pem, cert.pem, trust, sync.json (what runs
 * leave to the next, and to `hone status`), taken (SHA-256 of the snapshot's blobs that were taken, a line
 * each), blob/ (what came of those under way), lock. No device, no search, no compiler.
 *
 * A board makes its key once; the key's id is the board's. With a token and without a certificate it asks
 * `enrol` of the server for one (tools/fleet/fleet.h). */
#ifndef AGENT_SYNC_H
#define AGENT_SYNC_H

#include "agent/sync/snapshot.h"
#include "agent/sync/sync_pace.h"
#include "agent/sync/trust.h"
#include "platform/base/clock.h"

#include <signal.h>

struct sync_conf {          /* [sync] of honed.conf, key for field */
	const char *server; /* sync_server_check; NULL: nothing is configured */
	const char *ca;     /* file of the server's authority; NULL: the system's */
	const char *root;   /* NULL: TRUST_ROOT */
	const char *state;  /* NULL: $STATE_DIRECTORY, else SYNC_STATE */
	const char *token;  /* file with a join token */
	const char *proxy;  /* NULL: as the environment says */
	enum channel channel;
	bool has_channel;   /* else by the board's id */
	bool push;          /* upload = yes */
	int64_t every_ns;   /* 6h: about; the snapshot may ask for more or less, within a factor of 4 */
	int64_t day_bytes;  /* 10M; 0: no limit */
	int64_t rate_bytes; /* a second; 0: no limit */
	int64_t run_ns;     /* 2m: deadline of a run */
	const char *watch;  /* folder into which packs are put (agent/sync/pack.h); NULL: none */
};

struct conf;
/* Keys: server, ca, root, state, token, proxy, channel, upload (yes, no), every (6h), run (2m), day (10M),
 * rate (0) and watch; configs/honed.conf shows each. E_USAGE: "[sync] KEY: what; what is allowed". Texts are
 * the conf's. */
int sync_conf_read(const struct conf *c, struct sync_conf *out) MUST_CHECK;
/* https://HOST[:PORT][/PATH] (the files of agent/sync/snapshot.h, and enrol and records), http:// only to
 * this machine, or the absolute path of a folder. E_USAGE. */
int sync_server_check(const char *server) MUST_CHECK;
bool sync_is_folder(const char *server);
const char *sync_state_folder(const struct sync_conf *c);

/* Where records go, and come from. */
struct sync_cache {
	void *ctx;
	const char *cls, *label; /* of this board */
	const char *id; /* of the cache, once something was taken into it, else ""; NULL: not known */
	/* Of a new snapshot, before its blobs: what it revokes goes. */
	int (*revoke)(void *ctx, const struct snapshot *s);
	/* Lines of a checked blob; returns how many were new, and adds those that were refused. `revoked` of
	 * s are left out. */
	int (*take)(void *ctx, const struct snapshot *s, const void *lines, size_t n, int *refused);
	/* Of a new snapshot: how the fleet divides the search. */
	int (*share)(void *ctx, const struct snapshot *s, const char *board);
	int (*commit)(void *ctx);
	/* 1: the next line (without \n) that is to be sent, in the arena; 0: there are no more. */
	int (*next)(void *ctx, struct arena *a, const char **line);
	/* The server has all lines so far, or will not have them: durable when it returns good. */
	int (*sent)(void *ctx);
};

struct sync_sum {
	bool fresh;     /* the snapshot was new */
	bool offline;   /* nobody was reached */
	int64_t serial; /* of the newest snapshot; 0: none yet */
	int roots, blobs, taken, refused, batches, sent;
	int64_t down_bytes, up_bytes; /* above TLS */
};

/* When and where a run is. */
struct sync_now {
	struct clock *clock;               /* since boot: of deadlines and of the pace */
	int64_t date_s;                    /* since 1970, as far as the board knows */
	const char *boot;                  /* the boot's id: with another one, the clock began anew */
	const volatile sig_atomic_t *stop; /* NULL: nobody stops it */
};

/* Makes a run, due or not; what the server asked for (Retry-After) and the bytes of a day hold all the same.
 * E_BUSY: another run is under way, or it is too early. *out is set in any case. */
int sync_run(const struct sync_conf *c, const struct sync_cache *to, const struct sync_now *now,
	     struct sync_sum *out) MUST_CHECK;
/* 0: a run is due; else ns until then. Chooses when, where none is chosen since this boot. */
int64_t sync_due(const struct sync_conf *c, const struct sync_now *now);
/* This boot's id; "": not known. */
void sync_boot(char *out, size_t n);
/* What the last run left, as JSON for `hone status`; "{}" where there was none. */
void sync_status(const struct sync_conf *c, const struct sync_now *now, struct buf *out);

#endif
