/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet takes records from boards, and publishes those that enough of them agree on as static signed
 * files.
 *
 *	board ─ POST /v1/enrol, /v1/records ─► inbox (database) ─► aggregate ─► publish ─► any web server
 *
 * fleet_answer maps a request to a reply: tools/fleet/fleet_http.c calls it from libmicrohttpd, on as many
 * threads as there are connections to the database; tests and the fuzz target call it directly. Nothing in a
 * request is trusted. Each refusal is counted and noted: who, what and why (tools/fleet/fleet_store.h).
 * Instances are stateless: N of them may share one PostgreSQL, and the one that leads aggregates.
 *
 *	POST /v1/enrol       JSON {"token", "csr"} -> 200 {"cert", "board"}; 403: bad token or board
 *	POST /v1/records     a batch (agent/sync/batch.h) -> 202 {"name", "records", "known": sent before};
 *	                     400: malformed; 401: unknown board or bad signature; 403: revoked; 413: too
 *	                     long; 429: the board, or all boards together, used up their day (UTC)
 *	GET  /v1/health      200 when the database answers
 *	GET  /v1/root/N, /v1/CLASS/CHANNEL/snapshot, /v1/blob/SHA256
 *	                     the published files, for fleets that have no other web server: with ETag,
 *	                     If-None-Match, Range, If-Range
 *	GET  /, /page/...    the operators' page (tools/fleet/fleet_page.c)
 *	GET  /v1/api/...     the page's figures as JSON
 *	GET  /openapi.json   describes all of this
 *	POST /v1/admin/..., /page/do/...
 *	                     orders, with an admin token or a session, and logged (tools/fleet/fleet_admin.c)
 *
 * A local program that asks for itself may read everything. Every other peer, through any proxy or TLS, needs
 * the admin token or a session, except for what boards need (`open` in fleet_routes).
 *
 * 429 and 503 (the database is busy or gone) have Retry-After. To add a path, add a row to `fleet_routes` in
 * tools/fleet/fleet.c, declare its function in tools/fleet/fleet_parts.h, and describe it in
 * configs/fleet/openapi.json. */
#ifndef TOOLS_FLEET_H
#define TOOLS_FLEET_H

#include "agent/sync/batch.h"
#include "agent/sync/crypto.h"
#include "agent/sync/snapshot.h"
#include "platform/base/clock.h"
#include "tools/fleet/db.h"

struct fleet_conf {             /* hone-fleet's options and file ([fleet] key = value), with the defaults */
	const char *listen;     /* ADDRESS:PORT, 127.0.0.1:8440 */
	const char *db;         /* URL or file: /var/lib/hone-fleet/fleet.db */
	const char *keys;       /* folder: ca.key, ca.pem, fleet.key, root/N */
	const char *publish;    /* folder, or s3://BUCKET/PREFIX (tools/fleet/publish.h) */
	const char *admin;      /* file with the hash of the admin token; NULL: no admin actions */
	const char *cert, *key; /* for TLS; NULL: plain HTTP, behind nginx */
	const char
	    *names; /* hosts that requests may name (tools/fleet/fleet_host.h); NULL: the certificate's */
	int threads;
	int quorum[CHANNELS];     /* distinct boards that must agree, per channel: 1, 2, 3 */
	int64_t tolerance_pct;    /* of the boards' median: 15 */
	int64_t every_ns;         /* time between aggregations: 60 s */
	int64_t poll_s, expire_s; /* as snapshots say: 6 h, 90 days */
	int64_t stage_ns;         /* time on a channel before the next one: 24 h; 0: none */
	int64_t board_day;        /* batches of a board in a day: 500 */
	int64_t board_bytes;      /* bytes of a board in a day: 16 MiB */
	int64_t all_bytes;        /* bytes of all boards in a day: 4 GiB */
	int parts_min;            /* divide the search in classes of at least so many boards: 4 */
};

/* Returns the stage in whole seconds, as dates are kept; rounded up: a short stage is one. 0: none. */
static inline int64_t fleet_stage_s(const struct fleet_conf *c)
{
	return c->stage_ns / NS_PER_S + (c->stage_ns % NS_PER_S > 0);
}

struct fleet_request {
	const char *method, *path, *query; /* as received, not decoded; query: "" if there is none */
	const char *if_none_match, *range, *if_range, *authorization, *cookie;
	const char *peer; /* address, for the log and the rate limit; NULL: not known */
	bool local;       /* a program on this machine asks for itself, not as a proxy */
	const void *body;
	size_t n;
};

struct fleet_reply {
	int status;
	const char *type;                          /* Content-Type; constant text */
	const char *cache;                         /* Cache-Control, constant text; NULL: no-store */
	char etag[72], location[128], cookie[160]; /* cookie: Set-Cookie */
	const char *policy; /* Content-Security-Policy, constant text; NULL: not a page */
	int retry_after_s;  /* 0: no header */
	int64_t from, of;   /* for 206 and 416: first byte, and length of the whole file; else 0 */
	struct buf body;
	int file; /* a descriptor: the body is its n bytes from `from` on, not `body`; < 0: none */
	int64_t n;
};

struct fleet;

enum { FLEET_BODY = BATCH_BYTES + SIGNED_HEAD };

int fleet_open(const struct fleet_conf *c, struct clock *clock, int64_t (*date_s)(void),
	       struct fleet **out) MUST_CHECK;
void fleet_close(struct fleet *f);
/* Thread-safe: each of conf->threads threads has its own connection (0 <= thread < threads). */
void fleet_answer(struct fleet *f, int thread, const struct fleet_request *q, struct fleet_reply *r);
void fleet_reply_free(struct fleet_reply *r);
/* The functions below are called by one thread, which is none of the above. */
/* Writes the refusals since the last call to the database. Called every second or so, and by fleet_close. */
int fleet_flush(struct fleet *f) MUST_CHECK;
/* Aggregates and publishes. 1: done; 0: another instance leads. E_STOPPED: `step` ended the round. */
int fleet_round(struct fleet *f) MUST_CHECK;
/* Sets `step`, which a round calls at least once a minute; a result < 0 ends the round. NULL: not called. */
void fleet_on_step(struct fleet *f, int (*step)(void *ctx), void *ctx);

#endif
