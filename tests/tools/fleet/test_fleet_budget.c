/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on what boards may send in a day: of one board and of all, over several instances and restarts, on
 * SQLite and PostgreSQL; and how much of it stays in the database. */
#include "tests/lib/fleet.h"
#include "tests/lib/fleet_server.h"
#include "tests/lib/postgres.h"
#include "tools/fleet/fleet_round.h"

enum { DAY = 86400, BIG = 30000, LINES = 34 };

/* Makes a batch that is nearly as long as allowed, of choices that no other batch has. */
static void big_batch(int from, int which, struct buf *out)
{
	struct arena a = {0};
	struct buf payload = {0};
	const struct private_key *key = fleet_board(from);
	const char *line[LINES];
	char name[64];
	struct key cls;
	CHECK_OK(key_parse(fleet_class, &cls));
	for (int i = 0; i < LINES; i++) {
		snprintf(name, sizeof name, "model %d of batch %d", i, which);
		line[i] = record_big_choices(&a, hash_text(name), cls, i, BIG);
	}
	CHECK_OK(batch_print(fleet_class, fleet_board_id(from), "a board for tests", line, LINES, &payload));
	buf_clear(out);
	CHECK_OK(signed_write("records", payload.p, payload.n, &key, 1, out));
	buf_free(&payload);
	arena_free(&a);
}

static int send_big(struct fleet *f, int from, int which)
{
	struct buf b = {0};
	big_batch(from, which, &b);
	int status = fleet_post(f, "/v1/records", b.p, b.n);
	buf_free(&b);
	return status;
}

/* Sends n bytes that the board signed and that are no batch. */
static int send_nonsense(struct fleet *f, int from, size_t n)
{
	struct buf doc = {0};
	char *text = malloc(n);
	const struct private_key *key = fleet_board(from);
	memset(text, 'x', n);
	CHECK_OK(signed_write("records", text, n, &key, 1, &doc));
	int status = fleet_post(f, "/v1/records", doc.p, doc.n);
	buf_free(&doc);
	free(text);
	return status;
}

static int64_t of_board(struct fleet *f, int i, int64_t (*field)(const struct store_board *b))
{
	struct store_board b;
	CHECK_OK(store_board(fleet_conn(f), fleet_board_id(i), &b));
	return field(&b);
}

static int64_t sent_bytes(const struct store_board *b)
{
	return b->sent_bytes;
}

/* Makes a database for one test. kind 1: PostgreSQL, which may be missing: false. */
static bool conf_of(int kind, struct fleet_conf *c)
{
	static char file[256];
	static int n;
	char name[32];
	struct db_conn *conn;
	*c = fleet_conf_test();
	snprintf(name, sizeof name, "budget-%d.db", n++);
	snprintf(file, sizeof file, "%s", fleet_path(name));
	c->db = kind ? postgres_url() : file;
	c->stage_ns = 0;
	if (!kind)
		return true;
	if (!c->db || db_open(c->db, &conn) < 0)
		return false;
	CHECK_OK(db_exec(conn, "DROP SCHEMA public CASCADE", NULL, 0, NULL, NULL));
	CHECK_OK(db_exec(conn, "CREATE SCHEMA public", NULL, 0, NULL, NULL));
	db_close(conn);
	return true;
}

static void open_two(const struct fleet_conf *c, struct fleet *f[2])
{
	for (int i = 0; i < 2; i++)
		CHECK_OK(fleet_open(c, &clock_real, fleet_date, &f[i]));
}

static void close_two(struct fleet *f[2])
{
	fleet_close(f[0]);
	fleet_close(f[1]);
}

/* One board sends to two instances, which restart once. Others are not affected, and the next day it may send
 * again. */
static void a_board_has_its_bytes(const struct fleet_conf *c)
{
	struct fleet *f[2];
	int taken = 0, sent = 0;
	open_two(c, f);
	REQUIRE(f[0] && f[1]);
	for (int i = 0; i < 2; i++)
		CHECK(fleet_join(f[0], fleet_token(f[0], 1), fleet_board(i), "x") == 200);
	for (int status = 202; sent < 20 && status == 202; sent++) {
		status = send_big(f[sent % 2], 0, sent);
		taken += status == 202;
	}
	CHECK(taken == 3 && fleet_said.status == 429 && fleet_said.retry_after_s == DAY - 100);
	CHECK(strstr(fleet_text, "board-bytes"));
	CHECK(of_board(f[1], 0, sent_bytes) <= c->board_bytes && of_board(f[1], 0, sent_bytes) > 3000000);
	CHECK(send_big(f[1], 0, 1) == 202 && fleet_number("known") == 1); /* sent before: known */
	CHECK(send_big(f[1], 1, 100) == 202);                             /* another board */
	for (int i = 0; i < 10; i++)
		CHECK(send_big(f[i % 2], 0, 200 + i) == 429);
	close_two(f);
	open_two(c, f);
	CHECK(send_big(f[0], 0, 300) == 429 && send_big(f[1], 1, 101) == 202);
	CHECK_OK(fleet_flush(f[0]));
	CHECK_OK(fleet_flush(f[1]));
	CHECK(store_count(fleet_conn(f[0]), COUNT_LIMIT) ==
	      12); /* each refusal is counted, but the operator is told once */
	CHECK(db_exec(fleet_conn(f[0]), "SELECT why FROM rejects WHERE what = 'limit'", NULL, 0, NULL,
		      NULL) == 1);
	CHECK(fleet_get(f[0], "/v1/api/overview") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL), *today = json_object_get(j, "today");
	CHECK(json_integer_value(json_object_get(today, "boards_over")) == 1 &&
	      json_integer_value(json_object_get(today, "bytes")) > 5000000);
	json_decref(j);
	CHECK(fleet_get(f[0], "/v1/api/boards") == 200 && strstr(fleet_text, "\"day_bytes\":3"));
	CHECK(fleet_get(f[0], "/") == 200 && strstr(fleet_text, "1 board over the daily limit"));
	fleet_now_s += DAY;
	CHECK(send_big(f[1], 0, 300) == 202);
	CHECK(fleet_digest(f[0], fleet_conn(f[0]), 100) == 6);
	CHECK(fleet_int(f[0], "SELECT COUNT(*) FROM batches WHERE doc IS NOT NULL OR taken = 0") == 0);
	CHECK(fleet_int(f[0], "SELECT COUNT(*) FROM words") > 100);
	CHECK(send_big(f[0], 0, 300) == 202 && fleet_number("known") == 1);
	close_two(f);
}

/* Signed batches that are malformed cost their bytes, too. */
static void nonsense_is_not_free(const struct fleet_conf *c)
{
	struct fleet *f[2];
	open_two(c, f);
	REQUIRE(f[0] && f[1]);
	CHECK(fleet_join(f[0], fleet_token(f[0], 1), fleet_board(0), "x") == 200);
	for (int i = 0; i < 3; i++)
		CHECK(send_nonsense(f[i % 2], 0, 1000000) == 400);
	CHECK(send_nonsense(f[0], 0, 1000000) == 429 && send_big(f[1], 0, 0) == 429);
	fleet_now_s += DAY;
	CHECK(send_big(f[1], 0, 0) == 202);
	close_two(f);
}

/* The limit of all boards together. */
static void all_have_their_bytes(const struct fleet_conf *conf)
{
	struct fleet_conf c = *conf;
	struct fleet *f[2];
	int taken = 0;
	c.all_bytes = 5 << 20;
	open_two(&c, f);
	REQUIRE(f[0] && f[1]);
	for (int i = 0; i < 3; i++)
		CHECK(fleet_join(f[0], fleet_token(f[0], 1), fleet_board(i), "x") == 200);
	for (int i = 0; i < 9; i++)
		taken += send_big(f[i % 2], i % 3, i) == 202;
	CHECK(taken == 5 && send_big(f[0], 2, 50) == 429 && strstr(fleet_text, "all-bytes"));
	CHECK(fleet_said.retry_after_s == DAY - 100);
	CHECK_OK(fleet_flush(f[0]));
	CHECK_OK(fleet_flush(f[1]));
	CHECK(db_exec(fleet_conn(f[0]), "SELECT why FROM rejects WHERE what = 'limit'", NULL, 0, NULL,
		      NULL) == 1);
	CHECK(fleet_int(f[0], "SELECT CAST(SUM(sent_bytes) AS BIGINT) FROM boards") <= c.all_bytes);
	fleet_now_s += DAY;
	CHECK(send_big(f[0], 2, 50) == 202);
	close_two(f);
}

/* A board sends as much as it may for months: what is kept of it is bounded, by board and by key. */
static void what_stays_is_bounded(const struct fleet_conf *conf)
{
	struct fleet_conf c = *conf;
	struct fleet *f = NULL;
	const struct word one = {.type = CACHE_REC, .key = hash_text("one key"), .median_ns = 1000};
	char *line = calloc(1, BIG);
	memset(line, 'x', BIG - 1);
	CHECK_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	REQUIRE(f);
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	for (int i = 0; i < 20; i++, fleet_now_s += DAY) {
		CHECK(send_big(f, 0, i) == 202);
		CHECK(fleet_digest(f, fleet_conn(f), 100) == 1);
	}
	int64_t bytes = fleet_int(f, "SELECT CAST(SUM(bytes) AS BIGINT) FROM words");
	CHECK(bytes <= STORE_BOARD_BYTES && bytes > STORE_BOARD_BYTES - (1 << 20));
	CHECK(fleet_int(f, "SELECT MAX(said_s) FROM words") == fleet_now_s - DAY); /* the newest stay */
	CHECK_OK(db_begin(fleet_conn(f)));
	for (int i = 0; i < 300; i++) {
		struct word w = one;
		char name[16];
		snprintf(name, sizeof name, "%d", i);
		w.cand = hash_text(name);
		line[i < 10 ? BIG - 1 : 400] = 0;
		CHECK_OK(
		    store_word(fleet_conn(f), fleet_board_id(0), fleet_class, &w, line, fleet_now_s + i));
	}
	CHECK_OK(db_commit(fleet_conn(f)));
	bytes = fleet_int(f, "SELECT CAST(SUM(bytes) AS BIGINT) FROM words WHERE type = 1");
	CHECK(bytes <= STORE_KEY_BYTES && bytes > STORE_KEY_BYTES - 1000);
	CHECK(fleet_int(f, "SELECT MAX(said_s) FROM words WHERE type = 1") == fleet_now_s + 299);
	CHECK(fleet_round(f) == 1);
	free(line);
	fleet_close(f);
}

static void on_both(void (*test)(const struct fleet_conf *c))
{
	for (int kind = 0; kind < 2; kind++) {
		struct fleet_conf c;
		if (!conf_of(kind, &c)) {
			printf("%s\n", NO_POSTGRES);
			continue;
		}
		c.board_bytes = (int64_t)7 << 19; /* three and a half batches */
		log_level_set(LOG_QUIET);
		test(&c);
		if (test_bad)
			printf("on %s\n", kind ? "PostgreSQL" : "SQLite");
	}
}

TEST(a_board_may_send_so_much_a_day)
{
	on_both(a_board_has_its_bytes);
}

TEST(what_is_refused_counts)
{
	on_both(nonsense_is_not_free);
}

TEST(all_boards_may_send_so_much_a_day)
{
	on_both(all_have_their_bytes);
}

TEST(what_stays_of_it_is_bounded)
{
	on_both(what_stays_is_bounded);
}

/* 40 MB at once, an attack that was found: the server keeps at most the board's day, and nothing after
 * digestion. */
TEST(forty_megabytes_at_once)
{
	struct fleet_conf c;
	struct fleet *f;
	int taken = 0;
	(void)conf_of(0, &c);
	REQUIRE_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	for (int i = 0; i < 40; i++)
		taken += send_big(f, 0, i) == 202;
	int64_t held = fleet_int(f, "SELECT CAST(SUM(LENGTH(doc)) AS BIGINT) FROM batches");
	CHECK(taken >= 15 && taken <= 17 && held <= c.board_bytes);
	CHECK(fleet_round(f) == 1);
	CHECK(fleet_int(f, "SELECT COUNT(*) FROM batches WHERE doc IS NOT NULL") == 0);
	int64_t words = fleet_int(f, "SELECT CAST(SUM(bytes) AS BIGINT) FROM words");
	printf("40 batches of a megabyte: %d taken, %lld bytes wait, %lld stay as words\n", taken,
	       (long long)held, (long long)words);
	fleet_close(f);
}

/* The program. */

static char said[64 << 10];

static int post(const struct server *s, const void *p, size_t n)
{
	char head[160];
	snprintf(head, sizeof head,
		 "POST /v1/records HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %zu\r\n\r\n", s->port,
		 n);
	int fd = server_connect(s);
	bool put = fd >= 0 && server_put(fd, head, strlen(head)) && server_put(fd, p, n);
	int status = put ? server_take(fd, said, sizeof said, true) : -1;
	if (fd >= 0)
		close(fd);
	return status;
}

static bool start(struct server *s, const char *db)
{
	static char log[256], keys_at[256], publish[256];
	snprintf(log, sizeof log, "%s", fleet_path("log"));
	snprintf(keys_at, sizeof keys_at, "%s", fleet_path("keys"));
	snprintf(publish, sizeof publish, "%s", fleet_path("publish"));
	char *argv[] = {NULL,      "serve", "--listen",  "127.0.0.1:0", "--db",          (char *)db,
			"--keys",  keys_at, "--publish", publish,       "--board-bytes", "2M",
			"--every", "1s",    NULL};
	return server_start(s, log, argv);
}

TEST(the_program_says_when_to_come_again)
{
	struct server s;
	struct buf b = {0};
	struct fleet_conf c;
	struct fleet *f;
	char text[8192], db[256];
	(void)conf_of(0, &c);
	snprintf(db, sizeof db, "%s", c.db);
	fleet_now_s = time(NULL);
	REQUIRE_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	for (int i = 0; i < 2; i++)
		CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(i), "x") == 200);
	fleet_close(f);
	REQUIRE(start(&s, db));
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 4; i++) {
			big_batch(0, 10 * turn + i, &b);
			int want = turn == 0 && i < 2 ? 202 : 429, status = post(&s, b.p, b.n);
			CHECK(status == want);
			CHECK(want == 202 || strstr(said, "Retry-After: "));
		}
		big_batch(1, turn, &b);
		if (turn == 0)
			CHECK(post(&s, b.p, b.n) == 202);
		server_text(&s, text, sizeof text);
		CHECK((strstr(text, "has reached its limit of today") != NULL) == (turn == 0));
		if (turn == 0) {
			CHECK(server_stop(&s, SIGKILL) == 128 + SIGKILL);
			REQUIRE(start(&s, db));
		}
	}
	CHECK(server_stop(&s, SIGTERM) == 0);
	buf_free(&b);
}

TEST_MAIN
