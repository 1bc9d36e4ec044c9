/* SPDX-License-Identifier: Apache-2.0 */
/* hone-sync: one short run against a fleet server, or against a folder (a USB stick) of the same files.
 *
 * A run: 1. root: N + 1, N + 2, ... until there is none; 2. the snapshot of the board's class and channel, by
 * ETag; signature, class, channel, serial, lengths are checked before anything else of it is looked at;
 * 3. blobs that the last snapshot did not have, resumed where a run before was cut (If-Range), each checked
 * by length and SHA-256; 4. their records go to the cache as candidates (agent/taken.h); 5. the serial is
 * raised;
 * 6. where the owner opted in, records of this board that were not sent yet go up in batches (agent/batch.h).
 * Whatever fails, what was there stays, and the reason is logged and kept for `hone status`.
 *
 * A run ends by its deadline whatever the server does, and takes no more memory than its largest blob and
 * document. State (folder, its owner's alone): key.pem, cert.pem, trust, sync.json, blob/. No device, no
 * search, no compiler. */
#ifndef AGENT_SYNC_H
#define AGENT_SYNC_H

#include "agent/snapshot.h"
#include "agent/sync_pace.h"
#include "agent/trust.h"
#include "platform/clock.h"

#define SYNC_STATE "/var/lib/hone-sync"

struct sync_conf {          /* [sync] of honed.conf, key for field */
	const char *server; /* https://HOST[:PORT], or a folder; NULL: nothing is configured */
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
	const char *watch;  /* folder into which packs are put (agent/pack.h); NULL: none */
};

struct conf;
/* E_USAGE: "[sync] KEY: what; what is allowed". Texts are the conf's. */
int sync_conf_read(const struct conf *c, struct sync_conf *out) MUST_CHECK;

/* Where records go, and come from. */
struct sync_cache {
	void *ctx;
	const char *cls, *label; /* of this board */
	/* Lines of a checked blob; returns how many were new. `revoked` of s are left out. */
	int (*take)(void *ctx, const struct snapshot *s, const void *lines, size_t n);
	int (*commit)(void *ctx);
	/* The next line (without \n) that may be sent, into `a`; 0: no more. */
	int (*next)(void *ctx, struct arena *a, const char **line);
};

struct sync_sum {
	bool fresh; /* the snapshot was new */
	int64_t serial;
	int roots, blobs, taken, refused, batches, sent;
	int64_t down_bytes, up_bytes; /* above TLS */
};

/* now: of every date (real) and of every pace (boottime). E_BUSY: another run is under way. */
int sync_run(const struct sync_conf *c, const struct sync_cache *to, struct clock *clock,
	     struct sync_sum *out) MUST_CHECK;
/* What the last run left, as JSON for `hone status`; "{}" where there was none. */
void sync_status(const struct sync_conf *c, struct buf *out);

#endif
