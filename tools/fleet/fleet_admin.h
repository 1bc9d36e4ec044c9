/* SPDX-License-Identifier: Apache-2.0 */
/* Administration: what may be ordered, by whom, and how fast. Two ways in, one set of orders:
 *
 *	POST /v1/admin/ORDER    Authorization: Bearer TOKEN; JSON {"class", "board", "record", "why"}, each as
 *	                        the order needs it -> 200 {"done": ORDER, "stopped"}
 *	POST /page/do/ORDER     a form of the page with the same names, and `token`, or a session's cookie and
 *	                        its `csrf` -> 303 to the page
 *
 * Orders: stop, go-on (the rollout); withdraw (class: ID or "all"); revoke, unrevoke (board or record; revoke
 * says why). Who has no good token: 401 or 403, counted and noted like every refusal. An order is in the log
 * (table admin) before it is carried out, and once more where that fails.
 *
 * The token is compared as its SHA-256, in constant time. A session is 32 random bytes in a cookie that only
 * this site's own forms send; the database has a hash of it and of the token's, so that a new token ends all
 * sessions. Requests of one address are limited, refused ones more: 429; but never those with a good token or
 * session, so that nobody's guesses keep the one who has it from the stop button. */
#ifndef TOOLS_FLEET_ADMIN_H
#define TOOLS_FLEET_ADMIN_H

#include "tools/fleet/fleet_parts.h"

enum {
	ADMIN_PEERS = 256,
	ADMIN_BURST = 60,  /* requests of one address; one more every second */
	ADMIN_REFUSED = 8, /* a refused one counts for so many */
	ADMIN_SESSION_S = 8 * 3600,
	ADMIN_TOKEN = 128, /* bytes of a token, with the NUL */
	ADMIN_COOKIE = 65,
};

struct admin {
	bool has; /* a token is configured */
	struct sha256 token;
	pthread_mutex_t mutex; /* of what follows */
	double left[ADMIN_PEERS];
	int64_t at_ns[ADMIN_PEERS];
};

/* path NULL: nobody may order anything. */
int admin_open(const char *path, struct admin **out) MUST_CHECK;
void admin_close(struct admin *a); /* NULL: nothing */

/* Whether a request that has no good token may be looked at; false: r says 429. */
bool admin_may(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r);
/* Notes who was refused and why. r: 401 or 403. */
void admin_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  const char *why);
/* The same where a good token is missing: r says how to give one, 401, or that this one is wrong, 403. */
void admin_refuse_token(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r);
bool admin_token_good(const struct admin *a, const char *token);
/* The request says it. */
bool admin_has_token(const struct fleet *f, const struct fleet_request *q);

/* An order's words by name, "" where there is none; E_USAGE. */
typedef int order_get(const void *from, const char *name, char *out, size_t n);
struct order {
	const struct order_kind *kind;
	char name[16], cls[33], board[33], record[33], why[160];
};
/* E_NOTFOUND: no such order, board or record; E_USAGE: what it lacks. */
int order_read(struct db_conn *c, const char *name, order_get *get, const void *from,
	       struct order *out) MUST_CHECK;
/* who: "page", "api": for the log, with the address. */
int order_do(struct fleet *f, struct db_conn *c, const struct fleet_request *q, const char *who,
	     const struct order *o) MUST_CHECK;

#define SESSION_COOKIE "__Host-hone"
struct admin_session {
	bool in;
	char csrf[ADMIN_COOKIE]; /* what its forms hold */
};
int session_of(struct fleet *f, struct db_conn *c, const struct fleet_request *q,
	       struct admin_session *out) MUST_CHECK;
/* cookie: of the reply. */
int session_begin(struct fleet *f, struct db_conn *c, char cookie[ADMIN_COOKIE]) MUST_CHECK;
int session_end(struct fleet *f, struct db_conn *c, const struct fleet_request *q) MUST_CHECK;
bool texts_same(const char *a, const char *b); /* in time that depends on their lengths alone */

#endif
