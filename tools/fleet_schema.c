/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of tools/fleet_store.h, and how a database of an older version becomes one of this. */
#include "tools/fleet_store.h"
#include "agent/exchange.h"
#include "agent/snapshot.h"
#include "platform/clock.h"
#include "platform/log.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 5, SCHEMA = 2 };
#define PAUSE_NS (20 * NS_PER_MS)
#define TABLE "CREATE TABLE IF NOT EXISTS "
#define INDEX "CREATE INDEX IF NOT EXISTS "
#define INT "BIGINT NOT NULL DEFAULT 0"
#define TEXT "TEXT NOT NULL DEFAULT ''"

/* By the version that brought it. A new database gets all of them, too. */
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
    /* Keys were another hash, of which no board says anything any more: boards send all they know again. */
    {2, "DELETE FROM words"},
    {2, "DELETE FROM shown"},
    {2, "DELETE FROM kernels"},
    {2, "DELETE FROM gains"},
    {2, "UPDATE classes SET dirty = 1"},
};

/* Records that were revoked have another hash since version 2: that of their text, where a word has it. */

struct renamed {
	char was[33], is[33];
};

struct renames {
	struct arena a;
	int n, room;
	struct renamed *r;
};

static int on_renamed(void *ctx, const struct db_value *col, int n)
{
	struct renames *s = ctx;
	struct arena a = {0};
	struct rec r;
	(void)n;
	json_t *j = json_loads(col[1].p, 0, NULL);
	const char *text = json_string_value(json_object_get(j, "text"));
	int rc = text ? rec_parse(text, &a, &r) : E_CORRUPT;
	if (rc >= 0 && s->n == s->room) {
		struct renamed *more = arena_try(&s->a, 2 * (size_t)s->room + 64, sizeof *more);
		if (more && s->n)
			memcpy(more, s->r, (size_t)s->n * sizeof *more);
		s->r = more;
		s->room = 2 * s->room + 64;
		rc = more ? E_OK : E_NOMEM;
	}
	if (rc >= 0) {
		struct renamed *new = &s->r[s->n++];
		r.task = hash_text(r.task_text);
		snprintf(new->was, sizeof new->was, "%s", col[0].p);
		key_text(revoked_hash(&r), new->is);
	}
	json_decref(j);
	arena_free(&a);
	return rc == E_NOMEM ? rc : E_OK;
}

static int rename_revoked(struct db_conn *c)
{
	struct renames s = {0};
	int rc = db_exec(
	    c,
	    "SELECT w.cand, MAX(w.line) FROM words w JOIN revoked r ON r.hash = w.cand WHERE w.type = 1 "
	    "GROUP BY w.cand",
	    NULL, 0, on_renamed, &s);
	for (int i = 0; i < s.n && rc >= 0; i++)
		rc = db_exec(
		    c,
		    "INSERT INTO revoked (hash, why, at_s) SELECT $2, why, at_s FROM revoked WHERE hash = $1 "
		    "ON CONFLICT (hash) DO NOTHING",
		    DB_PARAMS(DB_T(s.r[i].was), DB_T(s.r[i].is)), NULL, NULL);
	arena_free(&s.a);
	if (rc >= 0 && s.n)
		log_info("hone-fleet: %d revoked records have their new names; look whether all that were "
			 "revoked are "
			 "there (hone-fleet revoke)",
			 s.n);
	return rc < 0 ? rc : E_OK;
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
			  "the database is of a newer hone-fleet (schema %lld, this one knows %d)",
			  (long long)has, SCHEMA);
	if (rc >= 0 && has == 1)
		rc = rename_revoked(c);
	for (size_t i = 1; i < sizeof schema / sizeof *schema && rc >= 0; i++)
		if (schema[i].since > has)
			rc = db_exec(c, schema[i].sql, NULL, 0, NULL, NULL);
	return rc < 0 || has == SCHEMA ? rc : store_set_int(c, "schema", SCHEMA);
}

int store_database(const char *url, struct db_conn **out)
{
	int rc = db_open(url, out);
	/* Two instances that make the same tables at once may be in each other's way. */
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
