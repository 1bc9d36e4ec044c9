/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet: takes records from boards, and publishes, as static signed files, what enough of them agree on.
 *
 *	board ─ POST /v1/enrol, /v1/records ─► inbox (database) ─► aggregate ─► publish ─► any web server
 *
 * fleet_answer is a function of a request: tools/fleet/fleet_http.c drives it with libmicrohttpd on as many
 *threads as there are connections to the database, tests and the fuzz target call it as it is. Nothing of a
 *request is trusted; whatever is refused is counted, and noted with who, what and why
 *(tools/fleet/fleet_store.h). Instances are stateless: N of them may share one PostgreSQL; the one that leads
 *aggregates.
 *
 *	POST /v1/enrol       JSON {"token", "csr"} -> 200 {"cert", "board"}; 403: token or board not good
 *	POST /v1/records     a batch (agent/sync/batch.h) -> 202 {"name", "records", "known": sent before};
 *400: malformed; 401: unknown board or bad signature; 403: revoked; 413; 429: the board, or all together,
 *have sent what they may in a day (UTC) GET  /v1/health      200 when the database answers GET  /v1/root/N,
 * /v1/CLASS/CHANNEL/snapshot, /v1/blob/SHA256 the published files, where no other web server serves them:
 *with ETag, If-None-Match, Range, If-Range GET  /, /page/...    the operators' page
 *(tools/fleet/fleet_page.c); GET /v1/api/...: its figures as JSON; GET /openapi.json: all of this, described
 *	POST /v1/admin/..., /page/do/...
 *	                     orders, with an admin token or a session, and logged (tools/fleet/fleet_admin.c)
 *
 * A program on this machine that asks for itself may read everything. Any other peer, through whatever proxy
 * or TLS, needs the admin token or a session for all but what boards need (`open` in fleet_routes).
 *
 * 429 and 503 (the database is busy or gone) have Retry-After. To add a path: a row of `fleet_routes` in
 * tools/fleet/fleet.c, whose function is declared in tools/fleet/fleet_parts.h, and its description in
 * configs/fleet/openapi.json. */
#ifndef TOOLS_FLEET_H
#define TOOLS_FLEET_H

#include "agent/sync/batch.h"
#include "agent/sync/crypto.h"
#include "agent/sync/snapshot.h"
#include "platform/base/clock.h"
#include "tools/fleet/db.h"

struct fleet_conf {             /* hone-fleet's options and its file, INI: [fleet] key = value */
	const char *listen;     /* 127.0.0.1:8440 */
	const char *db;         /* URL, or a file: /var/lib/hone-fleet/fleet.db */
	const char *keys;       /* folder: ca.key, ca.pem, fleet.key, root/N */
	const char *publish;    /* folder, or s3://BUCKET/PREFIX (tools/fleet/publish.h) */
	const char *admin;      /* file with the hash of the admin token; NULL: no admin actions */
	const char *cert, *key; /* TLS of its own; NULL: plain, behind nginx */
	const char
	    *names; /* hosts that requests may name (tools/fleet/fleet_host.h); NULL: the certificate's */
	int threads;
	int quorum[CHANNELS];     /* distinct boards that must agree: 1, 2, 3 */
	int64_t tolerance_pct;    /* 15: of their median */
	int64_t every_ns;         /* between aggregations: 60 s */
	int64_t poll_s, expire_s; /* what snapshots say: 6 h, 90 days */
	int64_t stage_ns;         /* that long on a channel before the next: 24 h; 0: at once */
	int64_t board_day;        /* batches a board may send in a day: 500, */
	int64_t board_bytes;      /* of so many bytes: 16 MiB */
	int64_t all_bytes;        /* and all boards together: 4 GiB */
	int parts_min;            /* boards of a class from which on the search is divided: 4 */
};

struct fleet_request {
	const char *method, *path, *query; /* as they came, not decoded; query "" where there was none */
	const char *if_none_match, *range, *if_range, *authorization, *cookie;
	const char *peer; /* address, or NULL: for the log, and to count requests */
	bool local;       /* from a program on this machine that asks for itself, not as a proxy */
	const void *body;
	size_t n;
};

struct fleet_reply {
	int status;
	const char *type;                          /* of the body; constant text */
	const char *cache;                         /* Cache-Control, constant text; NULL: no-store */
	char etag[72], location[128], cookie[160]; /* cookie: Set-Cookie */
	const char *policy; /* Content-Security-Policy, constant text; NULL: none, for it is no page */
	int retry_after_s;  /* 0: no header */
	int64_t from, of;   /* 206 and 416: first byte and length of the whole; else 0 */
	struct buf body;
	int file; /* < 0: none; a descriptor: the body is its n bytes from `from` on, not `body` */
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
/* What follows is for one thread, not among the above. */
/* Writes down what was refused since: every second or so, and by fleet_close. */
int fleet_flush(struct fleet *f) MUST_CHECK;
/* Aggregates and publishes where this instance leads: 1; 0: another does. E_STOPPED: `step` ended it. */
int fleet_round(struct fleet *f) MUST_CHECK;
/* Called again and again while a round goes on, at least once a minute; < 0 ends it. NULL: not called. */
void fleet_on_step(struct fleet *f, int (*step)(void *ctx), void *ctx);

#endif
