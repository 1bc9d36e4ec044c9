/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_admin.h"
#include "agent/cache/json.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "tools/fleet/fleet_round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BODY = 16 << 10, MOST_FILE = 4096 };

/* Access. */

int admin_open(const char *path, struct admin **out)
{
	struct arena a = {0};
	struct blob text = {0};
	char hex[2 * SHA256_BYTES + 1] = "";
	struct admin *m = *out = calloc(1, sizeof *m);
	if (!m)
		return fail(E_NOMEM, "no memory");
	pthread_mutex_init(&m->mutex, NULL);
	for (int i = 0; i < ADMIN_PEERS; i++)
		m->left[i] = ADMIN_BURST;
	int rc = path ? file_read(&a, path, MOST_FILE, &text) : E_OK;
	if (path && rc >= 0) {
		snprintf(hex, sizeof hex, "%.*s", (int)(text.n < sizeof hex ? text.n : sizeof hex - 1),
			 (const char *)text.p);
		rc = hex_read(hex, sizeof m->token.b, m->token.b);
		if (rc < 0)
			rc =
			    fail(E_CORRUPT, "%s: not the hash of a token; `hone-fleet init` makes one", path);
		m->has = rc >= 0;
	}
	arena_free(&a);
	return rc;
}

void admin_close(struct admin *a)
{
	if (a)
		pthread_mutex_destroy(&a->mutex);
	free(a);
}

bool texts_same(const char *a, const char *b)
{
	const size_t n = strlen(a);
	unsigned char differ = 0;
	if (n != strlen(b))
		return false;
	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return !differ;
}

bool admin_token_good(const struct admin *a, const char *token)
{
	struct sha256 hash;
	unsigned char differ = 0;
	if (!a->has || crypto_sha256(token, strlen(token), &hash) < 0)
		return false;
	for (size_t i = 0; i < sizeof hash.b; i++)
		differ |= hash.b[i] ^ a->token.b[i];
	return !differ;
}

/* Takes `n` from the requests that an address has left; false: none is left. */
static bool take(struct fleet *f, const char *peer, double n)
{
	struct admin *a = f->admin;
	int i = (int)(mix_text(peer ? peer : "").lo % ADMIN_PEERS);
	int64_t now_ns = clock_now(f->clock);
	pthread_mutex_lock(&a->mutex);
	if (a->at_ns[i])
		a->left[i] += (double)(now_ns - a->at_ns[i]) / NS_PER_S;
	a->left[i] = a->left[i] < ADMIN_BURST ? a->left[i] : ADMIN_BURST;
	a->at_ns[i] = now_ns;
	bool may = a->left[i] >= 1;
	a->left[i] -= may ? n : 0;
	pthread_mutex_unlock(&a->mutex);
	return may;
}

bool admin_may(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r)
{
	if (take(f, q->peer, 1))
		return true;
	fleet_say(r, 429, "too many admin requests; wait a few seconds");
	fleet_count(f, COUNT_ADMIN, 1);
	r->retry_after_s = ADMIN_REFUSED;
	return false;
}

void admin_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  const char *why)
{
	(void)take(f, q->peer, ADMIN_REFUSED - 1);
	fleet_refuse(f, q, r, status, COUNT_ADMIN, NULL, "%s", why);
}

/* Orders. */

static int do_stop(struct db_conn *c, const struct order *o, int64_t now_s)
{
	(void)o, (void)now_s;
	return rollout_stop(c);
}

static int do_go_on(struct db_conn *c, const struct order *o, int64_t now_s)
{
	(void)o;
	return rollout_go_on(c, now_s);
}

static int do_withdraw(struct db_conn *c, const struct order *o, int64_t now_s)
{
	(void)now_s;
	return rollout_withdraw(c, !strcmp(o->cls, "all") ? NULL : o->cls);
}

static int do_revoke(struct db_conn *c, const struct order *o, int64_t now_s)
{
	return o->board[0] ? store_revoke(c, o->board, o->why, now_s)
			   : store_revoke_record(c, o->record, o->why, now_s);
}

static int do_unrevoke(struct db_conn *c, const struct order *o, int64_t now_s)
{
	return o->board[0] ? store_revoke(c, o->board, NULL, now_s)
			   : store_revoke_record(c, o->record, NULL, now_s);
}

static const struct order_kind {
	const char *name;
	int (*act)(struct db_conn *c, const struct order *o, int64_t now_s);
	bool of_class, of_one, why; /* parameters that the order needs */
} kinds[] = {{"stop", do_stop},
	     {"go-on", do_go_on},
	     {"withdraw", do_withdraw, .of_class = true},
	     {"revoke", do_revoke, .of_one = true, .why = true},
	     {"unrevoke", do_unrevoke, .of_one = true}};

static int find_kind(const char *name, struct order *o)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, name)) {
			o->kind = &kinds[i];
			snprintf(o->name, sizeof o->name, "%s", name);
			return E_OK;
		}
	return fail(E_NOTFOUND, "no such order");
}

static bool is_id(const char *s)
{
	return strlen(s) == 32 && strspn(s, "0123456789abcdef") == 32;
}

static int check(struct db_conn *c, const struct order *o)
{
	const bool board = o->board[0] != 0, record = o->record[0] != 0;
	if (o->kind->of_class && strcmp(o->cls, "all") != 0 && !is_id(o->cls))
		return fail(E_USAGE, "class must be 32 lower-case hex digits, or \"all\"");
	if (o->kind->of_one && board == record)
		return fail(E_USAGE, "name either a board or a record");
	if (o->kind->of_one && !is_id(board ? o->board : o->record))
		return fail(E_USAGE, "%s must be 32 lower-case hex digits", board ? "board" : "record");
	if (o->kind->why && !o->why[0])
		return fail(E_USAGE, "missing reason: fill in \"why\"");
	struct store_board b;
	return o->kind->of_one && board ? store_board(c, o->board, &b) : E_OK;
}

int order_read(struct db_conn *c, const char *name, order_get *get, const void *from, struct order *o)
{
	*o = (struct order){0};
	const struct {
		const char *name;
		char *out;
		size_t n;
	} words[] = {{"class", o->cls, sizeof o->cls},
		     {"board", o->board, sizeof o->board},
		     {"record", o->record, sizeof o->record},
		     {"why", o->why, sizeof o->why}};
	int rc = find_kind(name, o);
	for (size_t i = 0; i < sizeof words / sizeof *words && rc >= 0; i++)
		rc = get(from, words[i].name, words[i].out, words[i].n);
	return rc < 0 ? rc : check(c, o);
}

static int note(struct fleet *f, struct db_conn *c, const struct fleet_request *q, const char *who,
		const struct order *o, const char *failed)
{
	char by[80], what[512];
	uint64_t id;
	const char *of = o->kind->of_class ? o->cls : o->board[0] ? o->board : o->record;
	snprintf(by, sizeof by, "%s, %.60s", who, q->peer && *q->peer ? q->peer : "address unknown");
	snprintf(what, sizeof what, "%s%s%s%s%s%s%s%s", o->name,
		 o->kind->of_one ? (o->board[0] ? " board" : " record") : "", *of ? " " : "", of,
		 o->why[0] ? ": " : "", o->why, failed ? "; failed: " : "", failed ? failed : "");
	log_one_line(by);
	log_one_line(what);
	log_info("hone-fleet: %s: %s", by, what);
	int rc = crypto_random(&id, sizeof id);
	return rc < 0 ? rc : store_admin(c, by, what, f->date_s() * 1000000, id);
}

int order_do(struct fleet *f, struct db_conn *c, const struct fleet_request *q, const char *who,
	     const struct order *o)
{
	char why[200];
	int rc = note(f, c, q, who, o, NULL);
	if (rc < 0)
		return rc;
	rc = o->kind->act(c, o, f->date_s());
	fleet_figures_stale(f);
	if (rc >= 0)
		return E_OK;
	snprintf(why, sizeof why, "%s", err_text());
	int noted = note(f, c, q, who, o, why);
	return noted < 0 ? noted : fail(rc, "%s", why);
}

/* Orders as JSON. */

static int get_json(const void *from, const char *name, char *out, size_t n)
{
	const json_t *v = json_object_get(from, name);
	*out = 0;
	if (!v || json_is_null(v))
		return E_OK;
	const char *s = json_string_value(v);
	if (!s || strlen(s) != json_string_length(v) || strlen(s) >= n)
		return fail(E_USAGE, "%s must be a text of at most %zu bytes", name, n - 1);
	snprintf(out, n, "%s", s);
	log_one_line(out);
	return E_OK;
}

static const char *bearer_of(const struct fleet_request *q)
{
	static const char bearer[] = "Bearer ";
	const char *auth = q->authorization;
	return auth && !strncmp(auth, bearer, sizeof bearer - 1) ? auth + sizeof bearer - 1 : NULL;
}

bool admin_has_token(const struct fleet *f, const struct fleet_request *q)
{
	const char *token = bearer_of(q);
	return token && admin_token_good(f->admin, token);
}

void admin_refuse_token(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r)
{
	if (!f->admin->has)
		admin_refuse(f, q, r, 403, "this server has no admin token: `hone-fleet init` makes one");
	else if (bearer_of(q))
		admin_refuse(f, q, r, 403, "wrong admin token");
	else
		admin_refuse(f, q, r, 401, "missing admin token: send Authorization: Bearer TOKEN");
}

static bool may_order(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r)
{
	if (admin_has_token(f, q))
		return true;
	if (admin_may(f, q, r))
		admin_refuse_token(f, q, r);
	return false;
}

static void order_json(struct fleet *f, struct db_conn *c, const struct fleet_request *q, const json_t *j,
		       struct fleet_reply *r)
{
	struct order o;
	const char *name = strrchr(q->path, '/') + 1;
	int rc = order_read(c, name, get_json, j, &o);
	if (rc >= 0)
		rc = order_do(f, c, q, "api", &o);
	if (rc >= 0)
		rc = rollout_stopped(c);
	if (rc == E_USAGE || rc == E_NOTFOUND)
		fleet_say(r, rc == E_USAGE ? 400 : 404, "%s", err_text());
	else if (rc < 0)
		fleet_say_fault(r, rc);
	else
		fleet_say_json(r, 200, json_pack("{s:s,s:b}", "done", name, "stopped", rc));
}

void fleet_admin(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	json_t *j = NULL;
	if (!may_order(f, q, r))
		return;
	if (q->n == 0)
		j = json_object();
	else if (q->n <= MOST_BODY)
		j = json_loadb(q->body, q->n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(j))
		order_json(f, c, q, j, r);
	else
		fleet_say(r, q->n > MOST_BODY ? 413 : 400,
			  "the body must be a JSON object of at most %d bytes", MOST_BODY);
	json_decref(j);
}
