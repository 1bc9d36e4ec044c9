/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/postgres.h"
#include "tests/lib/records.h"
#include "tests/lib/schema_v1.h"
#include "tests/lib/test.h"
#include "tools/fleet/fleet_store.h"

#include <unistd.h>

enum { DAY = 86400 };
#define NOW (INT64_C(20000) * DAY + 100)

static struct db_conn *fresh(void)
{
	struct db_conn *c = NULL;
	CHECK_OK(crypto_start());
	CHECK_OK(store_database(":memory:", &c));
	return c;
}

static int exec(struct db_conn *c, const char *sql)
{
	return db_exec(c, sql, NULL, 0, NULL, NULL);
}

static struct store_board board(int i)
{
	struct store_board b = {.enrolled_s = NOW};
	snprintf(b.id, sizeof b.id, "%032x", (unsigned)i);
	snprintf(b.name, sizeof b.name, "robot-%d", i);
	memset(b.key.b, i, sizeof b.key.b);
	return b;
}

static int enrol(struct db_conn *c, const char *token, int i)
{
	struct store_board b = board(i);
	return store_enrol(c, token, &b);
}

TEST(settings_are_kept)
{
	struct db_conn *c = fresh();
	char text[16];
	int64_t v;
	CHECK_FAILS(store_get(c, "stop", text, sizeof text), E_NOTFOUND, "stop");
	CHECK_OK(store_get_int(c, "serial", 7, &v));
	CHECK(v == 7);
	CHECK_OK(store_set_int(c, "serial", INT64_C(1) << 52));
	CHECK_OK(store_get_int(c, "serial", 7, &v));
	CHECK(v == INT64_C(1) << 52);
	CHECK_OK(store_set(c, "stop", "yes"));
	CHECK_OK(store_set(c, "stop", "no"));
	CHECK_OK(store_get(c, "stop", text, sizeof text));
	CHECK(!strcmp(text, "no"));
	db_close(c);
}

/* A database in which the next write of a setting meets another transaction. */
static const struct db *real_db;
static bool in_the_way;

static int exec_busy(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
		     void *ctx)
{
	if (!in_the_way || strncmp(sql, "INSERT INTO settings", 20) != 0)
		return real_db->exec(c, sql, param, n, fn, ctx);
	in_the_way = false;
	return fail(E_BUSY, "another is in the way");
}

static int set_two(struct db_conn *c, void *ctx)
{
	int rc = store_set(c, ctx, "1");
	return rc < 0 ? rc : store_set(c, "second", "2");
}

TEST(a_busy_statement_is_its_transactions)
{
	struct db_conn *c = fresh();
	char text[16];
	real_db = c->db;
	struct db busy = *real_db;
	busy.exec = exec_busy;
	c->db = &busy;
	in_the_way = true;
	CHECK_OK(store_do(c, set_two, "first")); /* the transaction is repeated as a whole */
	CHECK(!in_the_way);
	CHECK_OK(store_get(c, "first", text, sizeof text));
	in_the_way = true;
	CHECK_OK(store_set(c, "alone", "1"));
	in_the_way = true;
	CHECK_OK(db_begin(c));
	CHECK_FAILS(store_set(c, "within", "1"), E_BUSY, "in the way");
	db_rollback(c);
	c->db = real_db;
	db_close(c);
}

TEST(a_newer_database_is_left_alone)
{
	char path[] = "/tmp/hone-test-store-XXXXXX", words[64];
	struct db_conn *c;
	int64_t v;
	REQUIRE(close(mkstemp(path)) == 0);
	CHECK_OK(store_database(path, &c));
	CHECK_OK(store_set_int(c, "kept", 3));
	db_close(c);
	CHECK_OK(store_database(path, &c)); /* again: existing data stays */
	CHECK_OK(store_get_int(c, "kept", 0, &v));
	CHECK(v == 3);
	CHECK_OK(store_set_int(c, "schema", 1000));
	db_close(c);
	CHECK_FAILS(store_database(path, &c), E_UNSUPPORTED, "newer hone-fleet");
	CHECK(!c);
	snprintf(words, sizeof words, "rm -f %s*", path);
	CHECK(system(words) == 0);
}

TEST(tokens_are_random_hashed_counted_and_expire)
{
	struct db_conn *c = fresh();
	char token[TOKEN_TEXT], other[TOKEN_TEXT], id[65];
	CHECK_OK(store_token_make(c, "the depot", NOW, NOW + DAY, 2, token));
	CHECK_OK(store_token_make(c, "", NOW, NOW + DAY, 1, other));
	CHECK(strcmp(token, other) != 0 && strlen(token) == 45);
	CHECK_OK(store_token_id(token, id));
	CHECK(db_exec(c, "SELECT id FROM tokens WHERE id = $1", (struct db_value[]){DB_T(token)}, 1, NULL,
		      NULL) == 0);
	CHECK_OK(store_token_good(c, id, NOW));
	CHECK_FAILS(store_token_good(c, id, NOW + DAY), E_NOTFOUND, "expired");
	CHECK_FAILS(store_token_good(c, token, NOW), E_NOTFOUND, "token");
	CHECK(enrol(c, id, 1) == 1);
	CHECK(enrol(c, id, 1) == 0); /* again, as if the answer was lost: costs no use */
	CHECK(enrol(c, id, 2) == 1);
	CHECK_FAILS(enrol(c, id, 3), E_NOTFOUND, "used up");
	CHECK(enrol(c, id, 2) == 0);
	struct store_board b;
	CHECK_OK(store_board(c, board(2).id, &b));
	CHECK(!strcmp(b.name, "robot-2") && b.key.b[64] == 2 && b.enrolled_s == NOW && !strcmp(b.token, id));
	CHECK_FAILS(store_board(c, board(3).id, &b), E_NOTFOUND, "no such board");
	db_close(c);
}

TEST(a_revoked_board_does_not_come_back)
{
	struct db_conn *c = fresh();
	char token[TOKEN_TEXT], id[65];
	struct store_board b;
	CHECK_OK(store_token_make(c, "", NOW, NOW + DAY, 9, token));
	CHECK_OK(store_token_id(token, id));
	CHECK(enrol(c, id, 1) == 1);
	CHECK_OK(store_revoke(c, board(1).id, "it lies", NOW + 5));
	CHECK_OK(store_board(c, board(1).id, &b));
	CHECK(b.revoked_s == NOW + 5 && !strcmp(b.why, "it lies"));
	CHECK_FAILS(enrol(c, id, 1), E_WRONG, "revoked");
	CHECK_OK(store_revoke(c, board(1).id, NULL, NOW));
	CHECK(enrol(c, id, 1) == 0);
	CHECK_FAILS(store_revoke(c, board(7).id, "", NOW), E_NOTFOUND, "no such board");
	db_close(c);
}

static int send_one(struct db_conn *c, int from, int which, int64_t now_s, int64_t most)
{
	struct batch *b = calloc(1, sizeof *b);
	snprintf(b->board, sizeof b->board, "%s", board(from).id);
	snprintf(b->cls, sizeof b->cls, "%032x", 9u);
	snprintf(b->label, sizeof b->label, "a board");
	b->n = 3;
	b->name.b[0] = (uint8_t)which;
	const struct store_limits limits = {most, 1000, 1000};
	int rc = store_batch(c, b, "doc", 3, now_s, &limits);
	free(b);
	return rc;
}

TEST(a_batch_counts_once_and_a_day_has_a_limit)
{
	struct db_conn *c = fresh();
	char token[TOKEN_TEXT], id[65];
	struct store_board b;
	CHECK_OK(store_token_make(c, "", NOW, NOW + DAY, 9, token));
	CHECK_OK(store_token_id(token, id));
	CHECK(enrol(c, id, 1) == 1 && enrol(c, id, 2) == 1);
	CHECK(send_one(c, 1, 1, NOW, 2) == BATCH_TAKEN);
	CHECK(send_one(c, 1, 1, NOW, 2) == BATCH_KNOWN);
	CHECK(send_one(c, 1, 2, NOW, 2) == BATCH_TAKEN);
	CHECK(send_one(c, 1, 3, NOW, 2) == BATCH_LIMIT);
	CHECK(send_one(c, 1, 2, NOW, 2) == BATCH_KNOWN);
	CHECK(send_one(c, 2, 3, NOW, 2) == BATCH_TAKEN); /* another board */
	CHECK(send_one(c, 1, 4, NOW + DAY, 2) == BATCH_TAKEN);
	CHECK_OK(store_board(c, board(1).id, &b));
	CHECK(b.batches == 3 && b.records == 9 && b.sent == 1 && b.last_s == NOW + DAY);
	CHECK(!strcmp(b.label, "a board") && b.cls[31] == '9');
	CHECK(exec(c, "SELECT name FROM batches WHERE taken = 0") == 4);
	db_close(c);
}

static int on_word(void *ctx, const struct db_value *col, int n)
{
	int64_t *v = ctx;
	CHECK(n == 4);
	for (int i = 0; i < 4; i++)
		v[i] = col[i].i;
	return E_OK;
}

TEST(a_later_word_takes_the_place_of_the_earlier)
{
	struct db_conn *c = fresh();
	struct word w = {.key = hash_text("k"), .cand = hash_text("c"), .type = 1, .median_ns = 100};
	int64_t v[4];
	CHECK_OK(store_word(c, "a", "cls", &w, "{}", NOW));
	CHECK_OK(store_word(c, "b", "cls", &w, "{}", NOW));
	w.median_ns = 90;
	w.failed = true;
	CHECK_OK(store_word(c, "a", "cls", &w, "{}", NOW + 7));
	CHECK(exec(c, "SELECT board FROM words") == 2);
	CHECK(db_exec(c, "SELECT median_ns, failed, since_s, said_s FROM words WHERE board = 'a'", NULL, 0,
		      on_word, v) == 1);
	CHECK(v[0] == 90 && v[1] == 1 && v[2] == NOW && v[3] == NOW + 7);
	db_close(c);
}

TEST(refusals_are_noted_and_bounded)
{
	struct db_conn *c = fresh();
	struct store_refused r[100] = {0};
	int64_t count[STORE_COUNTS] = {[COUNT_BATCH] = 250};
	CHECK_OK(db_begin(c));
	for (int i = 0; i < STORE_REJECTS + 300; i += 100) {
		for (int k = 0; k < 100; k++) {
			r[k] = (struct store_refused){.at_us = i + k, .id = (uint64_t)k, .what = COUNT_BATCH};
			snprintf(r[k].why, sizeof r[k].why, "line %d", k);
		}
		CHECK_OK(store_note(c, r, 100, count));
	}
	CHECK_OK(db_commit(c));
	CHECK(exec(c, "SELECT why FROM rejects") == STORE_REJECTS);
	CHECK(exec(c, "SELECT why FROM rejects WHERE at_us < 300") == 0);
	CHECK(store_count(c, COUNT_BATCH) == 250 * (STORE_REJECTS + 300) / 100);
	CHECK(store_count(c, COUNT_LIMIT) == 0);
	CHECK_OK(store_admin(c, "root", "stop", NOW, 1));
	CHECK(exec(c, "SELECT who FROM admin WHERE what = 'stop'") == 1);
	db_close(c);
}

static int fails_twice(struct db_conn *c, void *ctx)
{
	int n = ++*(int *)ctx;
	int rc = store_set_int(c, "n", n);
	return rc < 0 ? rc : n < 3 ? fail(E_BUSY, "not yet") : n;
}

static int fails(struct db_conn *c, void *ctx)
{
	++*(int *)ctx;
	int rc = store_set(c, "no", "no");
	return rc < 0 ? rc : fail(E_CORRUPT, "bad");
}

TEST(a_transaction_is_tried_again_while_others_are_in_the_way)
{
	struct db_conn *c = fresh();
	char text[8];
	int n = 0;
	CHECK(store_do(c, fails_twice, &n) == 3 && n == 3);
	n = 0;
	CHECK_FAILS(store_do(c, fails, &n), E_CORRUPT, "bad");
	CHECK(n == 1);
	CHECK_FAILS(store_get(c, "no", text, sizeof text), E_NOTFOUND, "no");
	db_close(c);
}

/* Makes tables of version 1, with what a server had. */
static void make_old(struct db_conn *c, const struct rec *r, const char *const line[2])
{
	static const char *const rows[] = {
	    "INSERT INTO classes (class) VALUES ('c')",
	    "INSERT INTO revoked (hash, why, at_s) VALUES ('0123', 'it crashes', 7)",
	    "INSERT INTO revoked (hash, why, at_s) VALUES ('4567', 'nobody says it any more', 8)",
	    "INSERT INTO batches (name, board, taken, doc) VALUES ('a', 'b', 1, 'x'), ('b', 'b', 0, 'y')"};
	schema_v1(c);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		CHECK_OK(exec(c, rows[i]));
	for (int i = 0; i < 700; i++)
		CHECK_OK(db_exec(
		    c,
		    "INSERT INTO words (class, type, key, cand, board, median_ns, said_s, line) VALUES "
		    "('c', 1, $1, '0123', $2, 1000, 5, $3)",
		    DB_PARAMS(DB_T(r->device), DB_T(board(i).id), DB_T(i % 7 ? line[i & 1] : "{}")), NULL,
		    NULL));
}

static void renew(const char *path)
{
	char token[TOKEN_TEXT], id[65], hash[33];
	struct db_conn *c;
	struct arena a = {0};
	struct rec r = record(&a, 1, hash_text("class"), 1000);
	int64_t v = 0;
	key_text(revoked_hash(&r), hash);
	const char *const line[2] = {record_line(&a, &r), record_former_line(&a, &r)};
	CHECK_OK(store_database(path, &c));
	CHECK_OK(store_token_make(c, "", NOW, NOW + DAY, 9, token));
	CHECK_OK(store_token_id(token, id));
	CHECK(enrol(c, id, 1) == 1);
	make_old(c, &r, line);
	db_close(c);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(store_database(path, &c));
		CHECK_OK(store_get_int(c, "schema", 0, &v));
		CHECK(v == 2);
		CHECK(exec(c, "SELECT id FROM boards WHERE sent_bytes = 0") == 1);
		CHECK(exec(c, "SELECT hash FROM revoked") == 3);
		CHECK(db_exec(c,
			      "SELECT why FROM revoked WHERE hash = $1 AND why = 'it crashes' AND at_s = 7",
			      DB_PARAMS(DB_T(hash)), NULL, NULL) == 1);
		CHECK(
		    exec(c, "SELECT line FROM words WHERE bytes > 256 AND median_ns = 1000 AND said_s = 5") ==
		    600);
		CHECK(exec(c, "SELECT line FROM words") == 600 &&
		      exec(c, "SELECT DISTINCT line FROM words") == 1);
		CHECK(db_exec(c, "SELECT key FROM words WHERE cand = $1", DB_PARAMS(DB_T(hash)), NULL,
			      NULL) == 600);
		CHECK(exec(c, "SELECT class FROM classes WHERE dirty = 1") == 1);
		CHECK(exec(c, "SELECT name FROM batches WHERE taken = 1 AND doc IS NULL") == 1 &&
		      exec(c, "SELECT name FROM batches WHERE taken = 0 AND doc IS NOT NULL") == 1);
		db_close(c);
	}
	arena_free(&a);
}

TEST(an_old_database_keeps_boards_words_and_revocations)
{
	char path[] = "/tmp/hone-test-store-XXXXXX", words[64];
	struct db_conn *c;
	REQUIRE(close(mkstemp(path)) == 0);
	renew(path);
	snprintf(words, sizeof words, "rm -f %s*", path);
	CHECK(system(words) == 0);
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(db_open(postgres_url(), &c));
	CHECK_OK(exec(c, "DROP SCHEMA public CASCADE"));
	CHECK_OK(exec(c, "CREATE SCHEMA public"));
	db_close(c);
	renew(postgres_url());
}

TEST_MAIN
