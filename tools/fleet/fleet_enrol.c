/* SPDX-License-Identifier: Apache-2.0 */
/* Enrols a board: it sends a token and a signing request, and gets a certificate for its key. The token is
 * checked first, so a request without one costs little. */
#include "tools/fleet/fleet_parts.h"
#include "platform/base/log.h"
#include <stdio.h>
#include <string.h>

#define JOINS_NS (60 * NS_PER_S) /* Log at most JOINS_LOGGED boards in this time. */
enum { JOINS_LOGGED = 20 };

enum { MOST_BODY = 16 << 10, MOST_TOKEN = 128, YEARS = 20 };

struct enrolment {
	struct fleet *f;
	char token[65]; /* the token's id */
	struct store_board board;
	char namesake[KEY_ID_HEX + 1]; /* another board of its name; "": there is none */
};

static const char *text_of(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));
	return s ? s : "";
}

static int enrol(struct db_conn *c, void *ctx)
{
	struct enrolment *e = ctx;
	int new = store_enrol(c, e->token, &e->board);
	int same = new > 0 ? store_namesake(c, &e->board, e->namesake) : 0;
	return same < 0 ? same : new;
}

/* Counts a board that joined. Returns whether it is to be logged; *last: others of this minute are not. */
static bool count_join(struct fleet *f, bool *last)
{
	const int64_t now_ns = clock_now(f->clock);
	pthread_mutex_lock(&f->mutex);
	if (!f->joins || now_ns - f->joins_from_ns >= JOINS_NS) {
		f->joins = 0;
		f->joins_from_ns = now_ns;
	}
	f->joins += f->joins <= JOINS_LOGGED;
	const int n = f->joins;
	pthread_mutex_unlock(&f->mutex);
	*last = n == JOINS_LOGGED;
	return n <= JOINS_LOGGED;
}

static void log_join(struct fleet *f, const struct enrolment *e, const char *peer)
{
	bool last;
	if (!count_join(f, &last))
		return;
	const char *more = last ? "; others that join in this minute are not logged" : "";
	if (*e->namesake)
		log_info("hone-fleet: warning: board %s joined from %s as %s, the name of board %s: "
			 "hone-fleet rename %s NAME tells them apart%s",
			 e->board.id, peer, e->board.name, e->namesake, e->board.id, more);
	else
		log_info("hone-fleet: board %s joined from %s as %s%s", e->board.id, peer, e->board.name,
			 more);
}

static void certify(struct enrolment *e, const struct fleet_request *q, int new, struct fleet_reply *r)
{
	struct fleet *f = e->f;
	struct buf pem = {0};
	int rc = cert_write(f->ca, buf_str(&f->ca_pem), &e->board.key, e->board.id, NULL, f->date_s(), YEARS,
			    &pem);
	if (rc < 0) {
		fleet_say_fault(r, rc);
	} else {
		fleet_count(f, COUNT_ENROLLED, new);
		if (new)
			log_join(f, e, q->peer ? q->peer : "an unknown address");
		fleet_say_json(r, 200, json_pack("{s:s,s:s}", "cert", buf_str(&pem), "board", e->board.id));
	}
	buf_free(&pem);
}

/* Reads the board's key and name from its signing request. */
static int read_csr(struct enrolment *e, const char *csr)
{
	struct store_board *b = &e->board;
	int rc = csr_read(csr, strlen(csr), &b->key, b->name);
	if (rc < 0)
		return rc;
	public_key_id(&b->key, b->id);
	snprintf(b->token, sizeof b->token, "%s", e->token);
	b->enrolled_s = e->f->date_s();
	return E_OK;
}

static int look_at_token(struct enrolment *e, struct db_conn *c, const char *token)
{
	if (!*token || strlen(token) > MOST_TOKEN)
		return fail(E_NOTFOUND, "no such token");
	int rc = store_token_id(token, e->token);
	return rc < 0 ? rc : store_token_good(c, e->token, e->f->date_s());
}

static void answer(struct fleet *f, struct db_conn *c, const json_t *j, const struct fleet_request *q,
		   struct fleet_reply *r)
{
	struct enrolment e = {.f = f};
	int rc = look_at_token(&e, c, text_of(j, "token"));
	if (rc == E_NOTFOUND) {
		fleet_refuse(f, q, r, 403, COUNT_TOKEN, NULL,
			     "the token is unknown or has expired; ask for another");
		return;
	}
	if (rc >= 0 && (rc = read_csr(&e, text_of(j, "csr"))) < 0) {
		fleet_refuse(f, q, r, 400, COUNT_CSR, e.token, "signing request: %s", err_text());
		return;
	}
	if (rc >= 0)
		rc = store_do(c, enrol, &e);
	if (rc == E_NOTFOUND)
		fleet_refuse(f, q, r, 403, COUNT_TOKEN, e.board.id, "the token is used up; ask for another");
	else if (rc == E_WRONG)
		fleet_refuse(f, q, r, 403, COUNT_REVOKED, e.board.id,
			     "this board is revoked; ask the fleet's operator");
	else if (rc < 0)
		fleet_say_fault(r, rc);
	else
		certify(&e, q, rc, r);
}

void fleet_enrol(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	json_t *j =
	    q->n <= MOST_BODY ? json_loadb(q->body ? q->body : "", q->n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (!json_is_object(j))
		fleet_refuse(f, q, r, q->n > MOST_BODY ? 413 : 400, COUNT_REQUEST, NULL,
			     "the body must be a JSON object of at most %d bytes, with token and csr",
			     MOST_BODY);
	else
		answer(f, c, j, q, r);
	json_decref(j);
}
