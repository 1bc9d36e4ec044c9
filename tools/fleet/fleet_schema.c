/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the tables of tools/fleet/fleet_store.h, and upgrades databases of older versions. */
#include "tools/fleet/fleet_store.h"
#include "tools/fleet/fleet_line.h"
#include "platform/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 5, SCHEMA = 2 };
#define PAUSE_NS (20 * NS_PER_MS)
#define TABLE "CREATE TABLE IF NOT EXISTS "
#define INDEX "CREATE INDEX IF NOT EXISTS "
#define INT "BIGINT NOT NULL DEFAULT 0"
#define TEXT "TEXT NOT NULL DEFAULT ''"

/* Each statement with the version that added it. A new database runs all of them, too. */
static const struct {
	int since;
	const char *sql;
} schema[] = {
    {1, TABLE "settings (name TEXT PRIMARY KEY, value " TEXT ")"},
    {1, TABLE "tokens (id TEXT PRIMARY KEY, note " TEXT ", made_s " INT ", expires_s " INT ", uses " INT ")"},
    {1, TABLE "boards (id TEXT PRIMARY KEY, public $blob NOT NULL, name " TEXT ", class " TEXT ", label " TEXT
	      ", token " TEXT ", enrolled_s " INT ", last_s " INT ", day " INT ", sent " INT ", batches " INT
	      ", records " INT ", revoked_s " INT ", why " TEXT ", words " INT ", good " INT ", struck " INT
	      ")"},
    {1, TABLE "batches (name TEXT PRIMARY KEY, board " TEXT ", class " TEXT ", n " INT ", came_s " INT
	      ", taken " INT ", doc $blob)"},
    {1, INDEX "batches_taken ON batches (taken, came_s)"},
    {1, TABLE "words (class " TEXT ", type " INT ", key " TEXT ", cand " TEXT ", board " TEXT
	      ", median_ns " INT ", failed " INT ", since_s " INT ", said_s " INT ", line " TEXT
	      ", PRIMARY KEY (class, type, key, cand, board))"},
    {1, INDEX "words_board ON words (board)"},
    {1, TABLE "revoked (hash TEXT PRIMARY KEY, why " TEXT ", at_s " INT ")"},
    {1, TABLE "classes (class TEXT PRIMARY KEY, dirty " INT ", due_s " INT ", rules " TEXT ", withdrawn " TEXT
	      ")"},
    {1, TABLE "shown (class " TEXT ", channel " INT ", type " INT ", key " TEXT ", cand " TEXT
	      ", since_s " INT ", now " INT ", median_ns " INT ", boards " INT ", line " TEXT
	      ", PRIMARY KEY (class, channel, type, key, cand))"},
    {1, TABLE "snapshots (class " TEXT ", channel " INT ", serial " INT ", origin " INT ", content " TEXT
	      ", state " TEXT ", made_s " INT ", expires_s " INT ", records " INT ", sent " INT
	      ", doc $blob NOT NULL, PRIMARY KEY (class, channel, serial))"},
    {1, TABLE "blobs (hash TEXT PRIMARY KEY, sent " INT ", left_s " INT ", bytes $blob NOT NULL)"},
    {1, TABLE "rejects (at_us " INT ", id " TEXT ", what " TEXT ", who " TEXT ", peer " TEXT ", why " TEXT
	      ", PRIMARY KEY (at_us, id))"},
    {1, INDEX "boards_class ON boards (class)"},
    {1, INDEX "shown_now ON shown (class, channel, type) WHERE now = 1"},
    {1, TABLE "kernels (class " TEXT ", type " INT ", key " TEXT ", label " TEXT ", device " TEXT
	      ", threads " INT ", before_ns " INT ", after_ns " INT ", boards " INT ", since_s " INT
	      ", PRIMARY KEY (class, type, key))"},
    {1, TABLE "gains (class " TEXT ", type " INT ", key " TEXT ", board " TEXT ", before_ns " INT
	      ", after_ns " INT ", PRIMARY KEY (class, type, key, board))"},
    {1, INDEX "gains_board ON gains (board)"},
    {1, TABLE "sessions (id TEXT PRIMARY KEY, expires_s " INT ")"},
    {1, TABLE "counts (name TEXT PRIMARY KEY, n " INT ")"},
    {1, TABLE "admin (at_us " INT ", id " TEXT ", who " TEXT ", what " TEXT ", PRIMARY KEY (at_us, id))"},
    {2, "ALTER TABLE boards ADD COLUMN sent_bytes " INT},
    {2, "ALTER TABLE boards ADD COLUMN over_day " INT},
    {2, "ALTER TABLE words ADD COLUMN bytes " INT},
    {2, "ALTER TABLE classes ADD COLUMN revoked " TEXT},
    {2, TABLE "left_out (class " TEXT ", board " TEXT ", n " INT ", bytes " INT ", since_s " INT
	      ", PRIMARY KEY (class, board))"},
    {2, INDEX "left_out_board ON left_out (board)"},
    {2, "ALTER TABLE snapshots ADD COLUMN placed " INT},
    {2, "UPDATE snapshots SET placed = sent"},
    {2, "ALTER TABLE blobs ADD COLUMN placed " INT},
    {2, "UPDATE blobs SET placed = sent"},
    {2, INDEX "boards_day ON boards (day, sent_bytes)"},
    {2, INDEX "words_size ON words (board, class, type, key, bytes)"},
    {2, "DROP INDEX IF EXISTS words_board"},
    {2, "UPDATE batches SET taken = 1, doc = NULL WHERE taken <> 0"},
    /* Version 1 had another hash for keys. The next round aggregates again, and records of channels keep
     * their since_s under their new names (renew_words). */
    {2, "UPDATE shown SET now = 0, line = '', boards = -1"},
    {2, "DELETE FROM kernels"},
    {2, "DELETE FROM gains"},
    {2, "UPDATE classes SET dirty = 1"},
};

/* Before version 2, words had the line as the board sent it, and another hash as key and cand. Each word
 * becomes what it would be if the board sent it now; lines that are no longer valid are deleted. Revoked
 * records get their new names, too. */

enum { PAGE = 256 };

struct old_word {
	char cls[33], key[33], cand[33], board[KEY_ID_HEX + 1];
	int64_t type;
	const char *line; /* in the arena */
};

struct old_words {
	struct arena a;
	int n;
	struct old_word w[PAGE];
};

static int on_old_word(void *ctx, const struct db_value *col, int n)
{
	struct old_words *s = ctx;
	struct old_word *w = &s->w[s->n++];
	char *const text[] = {w->cls, w->key, w->cand, w->board};
	(void)n;
	for (int i = 0; i < 4; i++)
		snprintf(text[i], sizeof w->cls, "%s", col[i].p);
	w->type = col[4].i;
	w->line = arena_strdup(&s->a, col[5].p);
	return E_OK;
}

static int rename_word(struct db_conn *c, const struct old_word *w, const struct word *is, const char *plain)
{
	char key[33], cand[33];
	key_text(is->key, key);
	key_text(is->cand, cand);
	int rc = db_exec(
	    c,
	    "INSERT INTO words (class, type, key, cand, board, median_ns, failed, since_s, said_s, line, "
	    "bytes) SELECT class, type, $6, $7, board, median_ns, failed, since_s, said_s, $8, $9 FROM words "
	    "WHERE class = $1 AND type = $2 AND key = $3 AND cand = $4 AND board = $5 ON CONFLICT DO NOTHING",
	    DB_PARAMS(DB_T(w->cls), DB_I(w->type), DB_T(w->key), DB_T(w->cand), DB_T(w->board), DB_T(key),
		      DB_T(cand), DB_T(plain), DB_I((int64_t)strlen(plain) + STORE_ROW)),
	    NULL, NULL);
	if (rc >= 0)
		rc = db_exec(c,
			     "UPDATE shown SET key = $3, cand = $4, boards = 0 WHERE class = $1 AND type = "
			     "$2 AND key = $5 "
			     "AND cand = $6 AND boards = -1",
			     DB_PARAMS(DB_T(w->cls), DB_I(w->type), DB_T(key), DB_T(cand), DB_T(w->key),
				       DB_T(w->cand)),
			     NULL, NULL);
	return rc < 0 ? rc
		      : db_exec(c,
				"INSERT INTO revoked (hash, why, at_s) SELECT $2, why, at_s FROM revoked "
				"WHERE hash = $1 "
				"ON CONFLICT (hash) DO NOTHING",
				DB_PARAMS(DB_T(w->cand), DB_T(cand)), NULL, NULL);
}

static int renew_word(struct db_conn *c, const struct old_word *w, struct arena *a)
{
	struct exchange_line l;
	struct word is;
	const char *plain;
	int rc = exchange_parse(w->line, strlen(w->line), a, &l);
	if (rc >= 0)
		rc = line_word(&l, a, &is, &plain);
	if (rc == E_NOMEM)
		return rc;
	rc = rc > 0 ? rename_word(c, w, &is, plain) : E_OK;
	return rc < 0 ? rc
		      : db_exec(c,
				"DELETE FROM words WHERE class = $1 AND type = $2 AND key = $3 AND cand = $4 "
				"AND board = "
				"$5 AND bytes = 0",
				DB_PARAMS(DB_T(w->cls), DB_I(w->type), DB_T(w->key), DB_T(w->cand),
					  DB_T(w->board)),
				NULL, NULL);
}

static int renew_words(struct db_conn *c)
{
	struct old_words *s = calloc(1, sizeof *s);
	int rc = s ? E_OK : fail(E_NOMEM, "no memory");
	while (rc >= 0) {
		arena_reset(&s->a);
		s->n = 0;
		rc = db_exec(c,
			     "SELECT class, key, cand, board, type, line FROM words WHERE bytes = 0 LIMIT $1",
			     DB_PARAMS(DB_I(PAGE)), on_old_word, s);
		for (int i = 0; i < s->n && rc >= 0; i++)
			rc = renew_word(c, &s->w[i], &s->a);
		if (!s->n)
			break;
	}
	if (s)
		arena_free(&s->a);
	free(s);
	return rc < 0 ? rc : db_exec(c, "DELETE FROM shown WHERE boards = -1", NULL, 0, NULL, NULL);
}

static int make_schema(struct db_conn *c, void *ctx)
{
	(void)ctx;
	int64_t has = 0;
	int rc = db_exec(c, schema[0].sql, NULL, 0, NULL, NULL);
	if (rc >= 0)
		rc = store_get_int(c, "schema", 0, &has);
	if (rc >= 0 && has > SCHEMA)
		rc = fail(E_UNSUPPORTED,
			  "a newer hone-fleet made the database (schema %lld, this one knows %d); update "
			  "hone-fleet",
			  (long long)has, SCHEMA);
	for (size_t i = 1; i < sizeof schema / sizeof *schema && rc >= 0; i++)
		if (schema[i].since > has)
			rc = db_exec(c, schema[i].sql, NULL, 0, NULL, NULL);
	if (rc >= 0 && has == 1)
		rc = renew_words(c);
	return rc < 0 || has == SCHEMA ? rc : store_set_int(c, "schema", SCHEMA);
}

int store_database(const char *url, struct db_conn **out)
{
	int rc = db_open(url, out);
	/* Two instances that create the same tables at once may disturb each other. */
	for (int i = 0; rc >= 0 && i < TRIES; i++) {
		int made = store_do(*out, make_schema, NULL);
		if (made >= 0)
			return E_OK;
		if (made == E_UNSUPPORTED || i == TRIES - 1)
			rc = made;
		else
			clock_real.sleep(&clock_real, PAUSE_NS);
	}
	if (rc < 0) {
		db_close(*out);
		*out = NULL;
	}
	return rc;
}
