/* SPDX-License-Identifier: Apache-2.0 */
/* Administration: which orders there are, who may give them, and how often. The same orders can be given in
 * two ways:
 *
 *	POST /v1/admin/ORDER    Authorization: Bearer TOKEN; JSON {"class", "board", "record", "why"}, each as
 *	                        the order needs it -> 200 {"done": ORDER, "stopped"}
 *	POST /page/do/ORDER     a form of the page with the same names, and `token`, or a session's cookie and
 *	                        its `csrf` -> 303 to the page
 *
 * Orders: stop, go-on (the rollout); withdraw (class: ID or "all"); revoke, unrevoke (board or record; revoke
 * needs `why`). A request without a good token gets 401 or 403, and is counted and noted like every refusal.
 * An order is logged (table admin) before it is carried out, and once more if it fails.
 *
 * The server compares the token's SHA-256, in constant time. A session is 32 random bytes in a cookie that
 * only this site's own forms send. The database keeps an HMAC of the cookie, made with the token's hash, so a
 * new token ends all sessions. Requests of one address are limited (429), and refused ones count more.
 * Requests with a good token or session are never limited, so a stranger who guesses tokens cannot keep the
 * operator from the stop button. */
#ifndef TOOLS_FLEET_ADMIN_H
#define TOOLS_FLEET_ADMIN_H

#include "tools/fleet/fleet_parts.h"

enum {
	ADMIN_PEERS = 256,
	ADMIN_BURST = 60,  /* requests of one address; one more is allowed every second */
	ADMIN_REFUSED = 8, /* cost of a refused request */
	ADMIN_SESSION_S = 8 * 3600,
	ADMIN_TOKEN = 128, /* bytes of a token, with the NUL */
	ADMIN_COOKIE = 65,
};

struct admin {
	bool has; /* a token is configured */
	struct sha256 token;
	pthread_mutex_t mutex; /* protects the two fields below */
	double left[ADMIN_PEERS];
	int64_t at_ns[ADMIN_PEERS];
};

/* path: file with the token's hash; NULL: nobody may give orders. */
int admin_open(const char *path, struct admin **out) MUST_CHECK;
void admin_close(struct admin *a); /* NULL: nothing */

/* Checks the rate limit of a request that has no good token. false: the limit is exceeded, and r is a 429. */
bool admin_may(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r);
/* Makes r a reply with this status (401 or 403), and notes who was refused and why. */
void admin_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  const char *why);
/* The same for a request without a good token: 401 tells how to send one, 403 that this one is wrong. */
void admin_refuse_token(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r);
bool admin_token_good(const struct admin *a, const char *token);
/* Whether the request has the admin token. */
bool admin_has_token(const struct fleet *f, const struct fleet_request *q);

/* Reads a parameter of an order into out[n], "" if it is absent. E_USAGE: it is not valid. */
typedef int order_get(const void *from, const char *name, char *out, size_t n);
struct order {
	const struct order_kind *kind;
	char name[16], cls[33], board[33], record[33], why[160];
};
/* Reads and checks an order. E_NOTFOUND: no such order or board; E_USAGE: a parameter is missing or wrong. */
int order_read(struct db_conn *c, const char *name, order_get *get, const void *from,
	       struct order *out) MUST_CHECK;
/* who: "page" or "api"; the log has it with the address. */
int order_do(struct fleet *f, struct db_conn *c, const struct fleet_request *q, const char *who,
	     const struct order *o) MUST_CHECK;

#define SESSION_COOKIE "__Host-hone"
struct admin_session {
	bool in;
	char csrf[ADMIN_COOKIE]; /* the value that the session's forms must send */
};
int session_of(struct fleet *f, struct db_conn *c, const struct fleet_request *q,
	       struct admin_session *out) MUST_CHECK;
/* cookie: to be set by the reply. */
int session_begin(struct fleet *f, struct db_conn *c, char cookie[ADMIN_COOKIE]) MUST_CHECK;
int session_end(struct fleet *f, struct db_conn *c, const struct fleet_request *q) MUST_CHECK;
bool texts_same(const char *a, const char *b); /* compares in a time that depends only on the lengths */

#endif
