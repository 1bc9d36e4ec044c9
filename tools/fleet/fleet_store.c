/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_store.h"
#include "platform/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 5, DAY_S = 86400 };
#define PAUSE_NS (20 * NS_PER_MS)
#define V(...)                                                                                               \
	(struct db_value[]){__VA_ARGS__},                                                                    \
	    (int)(sizeof((struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value))
const char *const store_counts[STORE_COUNTS] = {
    [COUNT_REQUEST] = "request", [COUNT_OVERSIZED] = "oversized",
    [COUNT_FLOOD] = "flood",     [COUNT_TOKEN] = "token",
    [COUNT_CSR] = "csr",         [COUNT_ENVELOPE] = "envelope",
    [COUNT_UNKNOWN] = "unknown", [COUNT_SIGNATURE] = "signature",
    [COUNT_REVOKED] = "revoked", [COUNT_BATCH] = "batch",
    [COUNT_LIMIT] = "limit",     [COUNT_ROOM] = "room",
    [COUNT_ADMIN] = "admin",     [COUNT_ENROLLED] = "enrolled",
    [COUNT_BATCHES] = "batches", [COUNT_RECORDS] = "records",
    [COUNT_KNOWN] = "known",
};

static int try_once(struct db_conn *c, store_fn *fn, void *ctx)
{
	int rc = db_begin(c);
	if (rc < 0)
		return rc;
	int got = fn(c, ctx);
	if (got < 0) {
		db_rollback(c);
		return got;
	}
	rc = db_commit(c);
	return rc < 0 ? rc : got;
}

int store_do(struct db_conn *c, store_fn *fn, void *ctx)
{
	int rc = try_once(c, fn, ctx);
	bool lost = false;
	for (int i = 1; i < TRIES && (rc == E_BUSY || (rc == E_IO && !lost)); i++) {
		lost = rc == E_IO;
		clock_real.sleep(&clock_real, PAUSE_NS * i);
		rc = try_once(c, fn, ctx);
	}
	return rc;
}

struct statement {
	const char *sql;
	const struct db_value *param;
	int n;
	db_row_fn *fn;
	void *ctx;
};

static int do_statement(struct db_conn *c, void *ctx)
{
	const struct statement *s = ctx;
	return db_exec(c, s->sql, s->param, s->n, s->fn, s->ctx);
}

int store_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	       void *ctx)
{
	struct statement s = {sql, param, n, fn, ctx};
	char why[256];
	int rc = db_exec(c, sql, param, n, fn, ctx);
	if (rc != E_BUSY && rc != E_IO)
		return rc;
	snprintf(why, sizeof why, "%s", err_text());
	int again = store_do(c, do_statement, &s);
	return again == E_USAGE ? fail(rc, "%s", why) : again;
}

/* Reading columns. */

struct text {
	char *p;
	size_t n;
};

static void take_text(const struct db_value *v, char *out, size_t n)
{
	snprintf(out, n, "%s", v->type == DB_TEXT ? v->p : "");
}

static int64_t take_int(const struct db_value *v)
{
	return v->type == DB_INT ? v->i : 0;
}

static int on_text(void *ctx, const struct db_value *col, int n)
{
	struct text *t = ctx;
	(void)n;
	take_text(&col[0], t->p, t->n);
	return E_OK;
}

static int on_int(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	*(int64_t *)ctx = take_int(&col[0]);
	return E_OK;
}

static int found(int rows, const char *what, const char *which)
{
	return rows ? rows : fail(E_NOTFOUND, "no such %s: %s", what, which);
}

/* Settings. */

int store_get(struct db_conn *c, const char *name, char *out, size_t n)
{
	struct text t = {out, n};
	*out = 0;
	return found(store_exec(c, "SELECT value FROM settings WHERE name = $1", V(DB_T(name)), on_text, &t),
		     "setting", name);
}

int store_set(struct db_conn *c, const char *name, const char *value)
{
	return store_exec(
	    c,
	    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value "
	    "= excluded.value",
	    V(DB_T(name), DB_T(value)), NULL, NULL);
}

int store_get_int(struct db_conn *c, const char *name, int64_t otherwise, int64_t *out)
{
	char text[32];
	int rc = store_get(c, name, text, sizeof text);
	*out = rc >= 0 ? strtoll(text, NULL, 10) : otherwise;
	return rc == E_NOTFOUND ? E_OK : rc;
}

int store_set_int(struct db_conn *c, const char *name, int64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, value);
	return store_set(c, name, text);
}

/* Boards. */

#define BOARD_COLUMNS                                                                                        \
	"id, public, name, class, label, token, why, enrolled_s, last_s, day, sent, batches, records, "      \
	"revoked_s, words, good, struck, sent_bytes"

static void take_board(const struct db_value *col, struct store_board *b)
{
	char *const text[] = {b->name, b->cls, b->label, b->token, b->why};
	const size_t room[] = {sizeof b->name, sizeof b->cls, sizeof b->label, sizeof b->token,
			       sizeof b->why};
	int64_t *const number[] = {&b->enrolled_s, &b->last_s,    &b->day,   &b->sent, &b->batches,
				   &b->records,    &b->revoked_s, &b->words, &b->good};
	memset(b, 0, sizeof *b);
	take_text(&col[0], b->id, sizeof b->id);
	if (col[1].type == DB_BLOB && col[1].n == sizeof b->key.b)
		memcpy(b->key.b, col[1].p, sizeof b->key.b);
	for (int i = 0; i < 5; i++)
		take_text(&col[2 + i], text[i], room[i]);
	for (int i = 0; i < 9; i++)
		*number[i] = take_int(&col[7 + i]);
	b->struck = take_int(&col[16]) != 0;
	b->sent_bytes = take_int(&col[17]);
}

static int on_board(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	take_board(col, ctx);
	return E_OK;
}

int store_board(struct db_conn *c, const char *id, struct store_board *out)
{
	return found(
	    store_exec(c, "SELECT " BOARD_COLUMNS " FROM boards WHERE id = $1", V(DB_T(id)), on_board, out),
	    "board", id);
}

struct each {
	int (*fn)(void *ctx, const struct store_board *b);
	void *ctx;
};

static int on_each(void *ctx, const struct db_value *col, int n)
{
	struct each *e = ctx;
	struct store_board b;
	(void)n;
	take_board(col, &b);
	return e->fn(e->ctx, &b);
}

int store_boards(struct db_conn *c, int (*fn)(void *ctx, const struct store_board *b), void *ctx)
{
	struct each e = {fn, ctx};
	return db_exec(c, "SELECT " BOARD_COLUMNS " FROM boards ORDER BY id", NULL, 0, on_each, &e);
}

int store_namesake(struct db_conn *c, const struct store_board *b, char id[KEY_ID_HEX + 1])
{
	struct text t = {id, KEY_ID_HEX + 1};
	*id = 0;
	return store_exec(c, "SELECT id FROM boards WHERE name = $1 AND id <> $2 ORDER BY id LIMIT 1",
			  V(DB_T(b->name), DB_T(b->id)), on_text, &t);
}

int store_rename(struct db_conn *c, const char *id, const char *name)
{
	return found(
	    store_exec(c, "UPDATE boards SET name = $2 WHERE id = $1", V(DB_T(id), DB_T(name)), NULL, NULL),
	    "board", id);
}

int store_revoke(struct db_conn *c, const char *id, const char *why, int64_t now_s)
{
	return found(store_exec(c, "UPDATE boards SET revoked_s = $2, why = $3 WHERE id = $1",
				V(DB_T(id), DB_I(why ? now_s : 0), DB_T(why ? why : "")), NULL, NULL),
		     "board", id);
}

int store_revoke_record(struct db_conn *c, const char *hash, const char *why, int64_t now_s)
{
	if (!why)
		return found(store_exec(c, "DELETE FROM revoked WHERE hash = $1", V(DB_T(hash)), NULL, NULL),
			     "revoked record", hash);
	return store_exec(
	    c,
	    "INSERT INTO revoked (hash, why, at_s) VALUES ($1, $2, $3) ON CONFLICT (hash) DO UPDATE "
	    "SET why = excluded.why",
	    V(DB_T(hash), DB_T(why), DB_I(now_s)), NULL, NULL);
}

/* Tokens. */

int store_token_id(const char *token, char out[65])
{
	struct sha256 hash;
	int rc = crypto_sha256(token, strlen(token), &hash);
	if (rc >= 0)
		hex_write(hash.b, sizeof hash.b, out);
	return rc;
}

int store_token_make(struct db_conn *c, const char *note, int64_t now_s, int64_t expires_s, int uses,
		     char out[TOKEN_TEXT])
{
	uint8_t random[20];
	char id[65], hex[2 * sizeof random + 1];
	int rc = crypto_random(random, sizeof random);
	if (rc < 0)
		return rc;
	hex_write(random, sizeof random, hex);
	snprintf(out, TOKEN_TEXT, "hone-%s", hex);
	rc = store_token_id(out, id);
	return rc < 0
		   ? rc
		   : store_exec(
			 c,
			 "INSERT INTO tokens (id, note, made_s, expires_s, uses) VALUES ($1, $2, $3, $4, $5)",
			 V(DB_T(id), DB_T(note), DB_I(now_s), DB_I(expires_s), DB_I(uses)), NULL, NULL);
}

/* A token without uses left is still good for the boards that enrolled with it. */
int store_token_good(struct db_conn *c, const char *id, int64_t now_s)
{
	return found(store_exec(c, "SELECT uses FROM tokens WHERE id = $1 AND expires_s > $2",
				V(DB_T(id), DB_I(now_s)), NULL, NULL),
		     "token", "it may have expired; ask for another");
}

static int use_token(struct db_conn *c, const char *id)
{
	return found(db_exec(c, "UPDATE tokens SET uses = uses - 1 WHERE id = $1 AND uses > 0", V(DB_T(id)),
			     NULL, NULL),
		     "token", "it is used up; ask for another");
}

int store_enrol(struct db_conn *c, const char *token, const struct store_board *b)
{
	struct store_board has;
	int rows =
	    db_exec(c, "SELECT " BOARD_COLUMNS " FROM boards WHERE id = $1", V(DB_T(b->id)), on_board, &has);
	if (rows < 0)
		return rows;
	if (rows && has.revoked_s)
		return fail(E_WRONG,
			    "board %s is revoked: give it a new key, or undo it (`hone-fleet revoke --undo`)",
			    b->id);
	if (rows && !strcmp(has.token, token))
		return E_OK;
	int rc = use_token(c, token);
	if (rc < 0)
		return rc;
	rc = db_exec(
	    c,
	    "INSERT INTO boards (id, public, name, token, enrolled_s) VALUES ($1, $2, $3, $4, $5) ON "
	    "CONFLICT (id) DO UPDATE SET name = excluded.name, token = excluded.token",
	    V(DB_T(b->id), DB_B(b->key.b, sizeof b->key.b), DB_T(b->name), DB_T(token), DB_I(b->enrolled_s)),
	    NULL, NULL);
	return rc < 0 ? rc : !rows;
}

/* Batches. */

int store_batch_known(struct db_conn *c, const char *name)
{
	return store_exec(c, "SELECT taken FROM batches WHERE name = $1", V(DB_T(name)), NULL, NULL);
}

static int count_batch(struct db_conn *c, const struct batch *b, size_t n, int64_t now_s,
		       const struct store_limits *most)
{
	return db_exec(
	    c,
	    "UPDATE boards SET sent = CASE WHEN day = $2 THEN sent + 1 ELSE 1 END, sent_bytes = CASE WHEN "
	    "day "
	    "= $2 THEN sent_bytes + $8 ELSE $8 END, day = $2, class = $3, label = $4, last_s = $5, batches = "
	    "batches + 1, records = records + $6 WHERE id = $1 AND (day <> $2 OR (sent < $7 AND sent_bytes + "
	    "$8 <= $9)) AND revoked_s = 0",
	    V(DB_T(b->board), DB_I(now_s / DAY_S), DB_T(b->cls), DB_T(b->label), DB_I(now_s), DB_I(b->n),
	      DB_I(most->batches), DB_I((int64_t)n), DB_I(most->bytes)),
	    NULL, NULL);
}

int store_charge(struct db_conn *c, const char *board, size_t n, int64_t now_s)
{
	return store_exec(c,
			  "UPDATE boards SET sent = CASE WHEN day = $2 THEN sent ELSE 0 END, sent_bytes = "
			  "CASE WHEN day = $2 "
			  "THEN sent_bytes + $3 ELSE $3 END, day = $2 WHERE id = $1",
			  V(DB_T(board), DB_I(now_s / DAY_S), DB_I((int64_t)n)), NULL, NULL);
}

int store_over(struct db_conn *c, const char *board, int64_t now_s)
{
	return store_exec(c, "UPDATE boards SET over_day = $2 WHERE id = $1 AND over_day <> $2",
			  V(DB_T(board), DB_I(now_s / DAY_S)), NULL, NULL);
}

int store_full(struct db_conn *c, int64_t now_s)
{
	int64_t day = 0;
	int rc = store_get_int(c, "full_day", 0, &day);
	if (rc < 0 || day == now_s / DAY_S)
		return rc < 0 ? rc : 0;
	rc = store_set_int(c, "full_day", now_s / DAY_S);
	return rc < 0 ? rc : 1;
}

int64_t store_day_bytes(struct db_conn *c, int64_t now_s)
{
	int64_t n = 0;
	int rc =
	    store_exec(c, "SELECT CAST(COALESCE(SUM(sent_bytes), 0) AS BIGINT) FROM boards WHERE day = $1",
		       V(DB_I(now_s / DAY_S)), on_int, &n);
	return rc < 0 ? rc : n;
}

int store_batch(struct db_conn *c, const struct batch *b, const void *doc, size_t n, int64_t now_s,
		const struct store_limits *most)
{
	char name[2 * SHA256_BYTES + 1];
	hex_write(b->name.b, sizeof b->name.b, name);
	int rc = db_exec(c, "SELECT taken FROM batches WHERE name = $1", V(DB_T(name)), NULL, NULL);
	if (rc != 0)
		return rc < 0 ? rc : BATCH_KNOWN;
	int64_t all = store_day_bytes(c, now_s);
	if (all < 0 || all + (int64_t)n > most->all_bytes)
		return all < 0 ? (int)all : BATCH_FULL;
	rc = count_batch(c, b, n, now_s, most);
	if (rc <= 0)
		return rc < 0 ? rc : BATCH_LIMIT;
	rc = db_exec(
	    c,
	    "INSERT INTO batches (name, board, class, n, came_s, taken, doc) VALUES ($1, $2, $3, $4, $5, 0, "
	    "$6) ON CONFLICT (name) DO NOTHING",
	    V(DB_T(name), DB_T(b->board), DB_T(b->cls), DB_I(b->n), DB_I(now_s), DB_B(doc, n)), NULL, NULL);
	return rc < 0 ? rc : rc ? BATCH_TAKEN : BATCH_KNOWN;
}

int store_waiting(struct db_conn *c, int most, db_row_fn *fn, void *ctx)
{
	return store_exec(
	    c,
	    "SELECT name, board, class, came_s, doc FROM batches WHERE taken = 0 ORDER BY came_s, name LIMIT "
	    "$1",
	    V(DB_I(most)), fn, ctx);
}

int store_taken(struct db_conn *c, const char *name)
{
	return db_exec(c, "UPDATE batches SET taken = 1, doc = NULL WHERE name = $1", V(DB_T(name)), NULL,
		       NULL);
}

int store_class(struct db_conn *c, const char *board, const char *cls, bool words)
{
	int64_t has = 0;
	int known = db_exec(c, "UPDATE classes SET dirty = 1 WHERE class = $1", V(DB_T(cls)), NULL, NULL);
	if (known || !words)
		return known ? known : 1;
	int rc = db_exec(c, "SELECT COUNT(DISTINCT class) FROM words WHERE board = $1", V(DB_T(board)),
			 on_int, &has);
	if (rc < 0 || has >= STORE_CLASSES)
		return rc < 0 ? rc : 0;
	return db_exec(c, "INSERT INTO classes (class, dirty) VALUES ($1, 1)", V(DB_T(cls)), NULL, NULL);
}

struct size {
	int64_t n, bytes;
};

static int on_size(void *ctx, const struct db_value *col, int n)
{
	struct size *s = ctx;
	(void)n;
	*s = (struct size){take_int(&col[0]), take_int(&col[1])};
	return E_OK;
}

int store_trim_words(struct db_conn *c, const char *board)
{
	struct size has = {0};
	int rc =
	    db_exec(c, "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM words WHERE board = $1",
		    V(DB_T(board)), on_size, &has);
	if (rc < 0 || (has.n <= STORE_WORDS && has.bytes <= STORE_BOARD_BYTES))
		return rc;
	return db_exec(c,
		       "DELETE FROM words WHERE board = $1 AND (class, type, key, cand) IN (SELECT class, "
		       "type, key, cand "
		       "FROM (SELECT class, type, key, cand, SUM(bytes) OVER newest AS so_far, ROW_NUMBER() "
		       "OVER newest AS "
		       "nth FROM words WHERE board = $1 WINDOW newest AS (ORDER BY said_s DESC, class DESC, "
		       "type DESC, key "
		       "DESC, cand DESC)) AS t WHERE so_far > $2 OR nth > $3)",
		       V(DB_T(board), DB_I(STORE_BOARD_BYTES), DB_I(STORE_WORDS)), NULL, NULL);
}

static int trim_key(struct db_conn *c, const char *board, const char *cls, const struct word *w,
		    const char *key)
{
	struct size has = {0};
	int rc = db_exec(
	    c,
	    "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM words WHERE board = $1 AND "
	    "class = $2 AND type = $3 AND key = $4",
	    V(DB_T(board), DB_T(cls), DB_I(w->type), DB_T(key)), on_size, &has);
	if (rc < 0 || has.bytes <= STORE_KEY_BYTES)
		return rc;
	return db_exec(
	    c,
	    "DELETE FROM words WHERE board = $1 AND class = $2 AND type = $3 AND key = $4 AND cand IN "
	    "(SELECT cand FROM (SELECT cand, SUM(bytes) OVER (ORDER BY said_s DESC, cand DESC) AS "
	    "so_far FROM words WHERE board = $1 AND class = $2 AND type = $3 AND key = $4) AS t WHERE "
	    "so_far > $5)",
	    V(DB_T(board), DB_T(cls), DB_I(w->type), DB_T(key), DB_I(STORE_KEY_BYTES)), NULL, NULL);
}

int store_word(struct db_conn *c, const char *board, const char *cls, const struct word *w, const char *line,
	       int64_t now_s)
{
	char key[33], cand[33];
	key_text(w->key, key);
	key_text(w->cand, cand);
	int rc = db_exec(c,
			 "INSERT INTO words (class, type, key, cand, board, median_ns, failed, since_s, "
			 "said_s, line, bytes) "
			 "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10) ON CONFLICT (class, type, "
			 "key, cand, board) "
			 "DO UPDATE SET median_ns = excluded.median_ns, failed = excluded.failed, said_s = "
			 "excluded.said_s, line = excluded.line, bytes = excluded.bytes",
			 V(DB_T(cls), DB_I(w->type), DB_T(key), DB_T(cand), DB_T(board), DB_I(w->median_ns),
			   DB_I(w->failed), DB_I(now_s), DB_T(line), DB_I((int64_t)strlen(line) + STORE_ROW)),
			 NULL, NULL);
	return rc < 0 ? rc : trim_key(c, board, cls, w, key);
}

/* Refusals and administration. */

static int note_one(struct db_conn *c, const struct store_refused *r)
{
	char id[17];
	snprintf(id, sizeof id, "%016" PRIx64, r->id);
	return db_exec(
	    c,
	    "INSERT INTO rejects (at_us, id, what, who, peer, why) VALUES ($1, $2, $3, $4, $5, $6) ON "
	    "CONFLICT DO NOTHING",
	    V(DB_I(r->at_us), DB_T(id), DB_T(store_counts[r->what]), DB_T(r->who), DB_T(r->peer),
	      DB_T(r->why)),
	    NULL, NULL);
}

static int add_count(struct db_conn *c, const char *name, int64_t n)
{
	return db_exec(
	    c,
	    "INSERT INTO counts (name, n) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = counts.n "
	    "+ excluded.n",
	    V(DB_T(name), DB_I(n)), NULL, NULL);
}

int store_note(struct db_conn *c, const struct store_refused *r, int n, const int64_t count[STORE_COUNTS])
{
	int rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = note_one(c, &r[i]);
	for (int i = 0; i < STORE_COUNTS && rc >= 0; i++)
		if (count[i])
			rc = add_count(c, store_counts[i], count[i]);
	return rc < 0 || !n
		   ? rc
		   : db_exec(c,
			     "DELETE FROM rejects WHERE at_us <= (SELECT at_us FROM rejects ORDER BY at_us "
			     "DESC LIMIT 1 OFFSET $1)",
			     V(DB_I(STORE_REJECTS)), NULL, NULL);
}

int store_admin(struct db_conn *c, const char *who, const char *what, int64_t now_us, uint64_t id)
{
	char text[17];
	snprintf(text, sizeof text, "%016" PRIx64, id);
	return store_exec(c, "INSERT INTO admin (at_us, id, who, what) VALUES ($1, $2, $3, $4)",
			  V(DB_I(now_us), DB_T(text), DB_T(who), DB_T(what)), NULL, NULL);
}

int64_t store_count(struct db_conn *c, enum store_count what)
{
	int64_t n = 0;
	int rc =
	    store_exec(c, "SELECT n FROM counts WHERE name = $1", V(DB_T(store_counts[what])), on_int, &n);
	return rc < 0 ? rc : n;
}
