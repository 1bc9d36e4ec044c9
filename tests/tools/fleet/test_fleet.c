/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fleet.h"
#include "platform/base/mix.h"

#include <fcntl.h>

enum { DAY = 86400 };
#define BLOB "/v1/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SNAPSHOT "/v1/0123456789abcdef0123456789abcdef/early/snapshot"

TEST(health_and_what_is_not_there)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	CHECK(fleet_get(f, "/v1/health") == 200 && fleet_number("ok") == 1);
	CHECK(fleet_ask(f, &(struct fleet_request){.method = "HEAD", .path = "/v1/health", .query = ""}) ==
	      200);
	CHECK(fleet_get(f, "/v2/health") == 404);
	CHECK(fleet_get(f, "") == 404);
	CHECK(fleet_get(f, "/v1/records") == 404 || fleet_said.status == 405);
	CHECK(fleet_post(f, "/v1/health", "", 0) == 405);
	CHECK(fleet_ask(f, &(struct fleet_request){.method = "BREW", .path = "/v1/enrol", .query = ""}) ==
	      405);
	CHECK(fleet_counted(f, COUNT_REQUEST) == 5);
	fleet_close(f);
}

TEST(a_board_joins)
{
	struct fleet *f = fleet_begin();
	struct store_board b;
	struct public_key key;
	char name[64], ca[2048];
	REQUIRE(f);
	snprintf(ca, sizeof ca, "%s", buf_str(&f->ca_pem));
	const char *token = fleet_token(f, 1);
	CHECK(fleet_join(f, token, fleet_board(0), "robot-0") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL);
	const char *cert = json_string_value(json_object_get(j, "cert"));
	CHECK(!strcmp(json_string_value(json_object_get(j, "board")), fleet_board_id(0)));
	CHECK_OK(cert_read(cert, strlen(cert), ca, &key, name));
	CHECK(!strcmp(name, fleet_board_id(0)) && !memcmp(&key, &keys(3)->public[2], sizeof key));
	json_decref(j);
	CHECK_OK(store_board(fleet_conn(f), fleet_board_id(0), &b));
	CHECK(!strcmp(b.name, "robot-0") && b.enrolled_s == fleet_now_s);
	CHECK(fleet_join(f, token, fleet_board(0), "robot-0") == 200); /* again, as if the answer was lost */
	CHECK(fleet_join(f, token, fleet_board(1), "robot-1") == 403); /* used up */
	CHECK(fleet_counted(f, COUNT_ENROLLED) == 1 && fleet_counted(f, COUNT_TOKEN) == 1);
	fleet_close(f);
}

/* Posts a batch, and returns its status and what the server logged meanwhile. */
static int post_logged(struct fleet *f, const struct buf *b, char *said, size_t room)
{
	fflush(stderr);
	int was = dup(2), fd = open(fleet_path("said"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(was >= 0 && dup2(fd, 2) == 2);
	int status = fleet_post(f, "/v1/records", b->p, b->n);
	CHECK(dup2(was, 2) == 2);
	ssize_t got = pread(fd, said, room - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(fd);
	close(was);
	return status;
}

/* The operator reads of each board that joins, and of one by the name of another; a crowd is cut. */
TEST(boards_that_join_are_logged)
{
	enum { CROWD = 25, LOGGED = 20 };
	struct fleet *f = fleet_begin();
	static char said[16 << 10];
	char line[512];
	int n = 0;
	REQUIRE(f);
	const char *token = fleet_token(f, 100);
	fflush(stderr);
	int was = dup(2), fd = open(fleet_path("said"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	REQUIRE(was >= 0 && dup2(fd, 2) == 2);
	CHECK(fleet_join(f, token, fleet_board(0), "robot") == 200);
	CHECK(fleet_join(f, token, fleet_board(0), "robot") == 200); /* known: not logged again */
	CHECK(fleet_join(f, token, fleet_board(1), "arm") == 200);
	CHECK(fleet_join(f, token, fleet_board(2), "robot") == 200);
	for (int i = 3; i < CROWD; i++) {
		struct private_key *key;
		REQUIRE_OK(private_key_make(&key));
		CHECK(fleet_join(f, token, key, "arm") == 200);
		private_key_free(key);
	}
	CHECK(dup2(was, 2) == 2);
	ssize_t got = pread(fd, said, sizeof said - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(fd);
	close(was);
	snprintf(line, sizeof line, "hone-fleet: board %s joined from 192.0.2.7 as robot\n",
		 fleet_board_id(0));
	CHECK(!strncmp(said, line, strlen(line)));
	snprintf(line, sizeof line, "\nhone-fleet: board %s joined from 192.0.2.7 as arm\n",
		 fleet_board_id(1));
	CHECK(strstr(said, line) != NULL);
	snprintf(line, sizeof line,
		 "\nhone-fleet: warning: board %s joined from 192.0.2.7 as robot, the name of ",
		 fleet_board_id(2));
	const char *warning = strstr(said, line);
	CHECK(warning && !strncmp(warning + strlen(line) + 6, fleet_board_id(0), KEY_ID_HEX));
	for (const char *p = said; (p = strstr(p, " joined from ")) != NULL; p++)
		n++;
	CHECK(n == LOGGED && strstr(said, "others that join in this minute are not logged\n"));
	fleet_close(f);
}

TEST(who_may_not_join)
{
	struct fleet *f = fleet_begin();
	struct buf big = {0};
	REQUIRE(f);
	const char *token = fleet_token(f, 5);
	char good[TOKEN_TEXT];
	snprintf(good, sizeof good, "%s", token);
	CHECK(fleet_join(f, "hone-0123", fleet_board(0), "x") == 403);
	CHECK(fleet_join(f, "", fleet_board(0), "x") == 403);
	static const char *const bodies[] = {
	    "", "{", "[]", "7", "{\"token\":1}", "{\"token\":\"a\",\"token\":\"b\"}"};
	static const int status[] = {400, 400, 400, 400, 403, 400};
	for (int i = 0; i < 6; i++)
		CHECK(fleet_post(f, "/v1/enrol", bodies[i], strlen(bodies[i])) == status[i]);
	buf_printf(&big, "{\"token\":\"%s\",\"csr\":\"-----BEGIN CERTIFICATE REQUEST-----\\nAAAA\\n\"}",
		   good);
	CHECK(fleet_post(f, "/v1/enrol", big.p, big.n) == 400);
	CHECK(strstr(fleet_text, "signing request"));
	while (big.n <= 16 << 10)
		buf_puts(&big, "                                                                ");
	CHECK(fleet_post(f, "/v1/enrol", big.p, big.n) == 413);
	fleet_now_s += 3600;
	CHECK(fleet_join(f, good, fleet_board(0), "x") == 403); /* expired */
	CHECK(fleet_counted(f, COUNT_CSR) == 1);
	CHECK(fleet_rows(f, "SELECT id FROM boards") == 0);
	buf_free(&big);
	fleet_close(f);
}

TEST(a_batch_counts_once)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	CHECK(fleet_send(f, fleet_board(0), 0, 3, 1000) == 202);
	CHECK(fleet_number("records") == 3 && fleet_number("known") == 0);
	CHECK(fleet_send(f, fleet_board(0), 0, 3, 1000) == 202);
	CHECK(fleet_number("known") == 1);
	CHECK(fleet_rows(f, "SELECT name FROM batches") == 1);
	CHECK(fleet_counted(f, COUNT_BATCHES) == 1 && fleet_counted(f, COUNT_RECORDS) == 3 &&
	      fleet_counted(f, COUNT_KNOWN) == 1);
	fleet_close(f);
}

TEST(a_day_has_a_limit)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	f->c.board_day = 2;
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	CHECK(fleet_send(f, fleet_board(0), 0, 1, 1000) == 202);
	CHECK(fleet_send(f, fleet_board(0), 1, 1, 1000) == 202);
	CHECK(fleet_send(f, fleet_board(0), 2, 1, 1000) == 429);
	CHECK(fleet_said.retry_after_s == DAY - 100);
	CHECK(fleet_send(f, fleet_board(0), 1, 1, 1000) == 202 && fleet_number("known") == 1);
	fleet_now_s += DAY;
	CHECK(fleet_send(f, fleet_board(0), 2, 1, 1000) == 202);
	CHECK(fleet_counted(f, COUNT_LIMIT) == 1 && fleet_rows(f, "SELECT name FROM batches") == 3);
	fleet_close(f);
}

/* Each attack is refused, counted and noted, and changes nothing. */

struct attack {
	const char *name;
	int status;
	enum store_count count;
	void (*make)(struct fleet *f, struct buf *b); /* b: in: a good batch of board 0; out: the attack */
};

static void unsigned_one(struct fleet *f, struct buf *b)
{
	char *sig = strstr(b->p, "sig ");
	char *end = strchr(sig, '\n') + 1;
	(void)f;
	memmove(sig, end, b->n - (size_t)(end - b->p));
	b->n -= (size_t)(end - sig);
}

static void truncated(struct fleet *f, struct buf *b)
{
	(void)f;
	b->n -= 1;
}

static void empty(struct fleet *f, struct buf *b)
{
	(void)f;
	b->n = 0;
}

static void longer(struct fleet *f, struct buf *b)
{
	(void)f;
	buf_puts(b, "x");
}

static void stranger(struct fleet *f, struct buf *b)
{
	(void)f;
	fleet_batch(fleet_board(1), 0, 2, 1000, b);
}

static void flipped(struct fleet *f, struct buf *b)
{
	(void)f;
	char *at = strstr(strstr(b->p, "\n\n"), "soc x86");
	at[0] = 'S';
}

static void bad_signature(struct fleet *f, struct buf *b)
{
	(void)f;
	char *at = strchr(strstr(b->p, "sig ") + 4, ' ') + 1;
	at[5] = at[5] == '0' ? '1' : '0';
}

/* Signed with board 1's key, under board 0's id. */
static void forged(struct fleet *f, struct buf *b)
{
	char id[KEY_ID_HEX + 1], *at;
	(void)f;
	fleet_batch(fleet_board(1), 0, 2, 1000, b);
	at = strstr(b->p, "sig ") + 4;
	memcpy(id, fleet_board_id(0), KEY_ID_HEX);
	memcpy(at, id, KEY_ID_HEX);
}

static void other_kind(struct fleet *f, struct buf *b)
{
	const struct private_key *k = fleet_board(0);
	(void)f;
	buf_clear(b);
	CHECK_OK(signed_write("snapshot", "{}", 2, &k, 1, b));
}

static void resigned(struct buf *b, const char *payload)
{
	const struct private_key *k = fleet_board(0);
	buf_clear(b);
	CHECK_OK(signed_write("records", payload, strlen(payload), &k, 1, b));
}

static void nonsense(struct fleet *f, struct buf *b)
{
	(void)f;
	resigned(b, "{\"class\":1}\n");
}

static void poisoned(struct fleet *f, struct buf *b)
{
	char text[512];
	(void)f;
	snprintf(text, sizeof text,
		 "{\"class\":\"%s\",\"board\":\"%s\",\"label\":\"x\",\"n\":1}\n"
		 "{\"type\":\"code\",\"key\":\"%s\",\"text\":\"\x7f"
		 "ELF\"}\n",
		 fleet_class, fleet_board_id(0), fleet_class);
	resigned(b, text);
}

/* Board 0 signs another board's batch. */
static void borrowed(struct fleet *f, struct buf *b)
{
	struct signed_doc d;
	struct buf payload = {0};
	(void)f;
	fleet_batch(fleet_board(1), 0, 2, 1000, b);
	CHECK_OK(signed_parse(b->p, b->n, "records", &d));
	buf_add(&payload, d.payload.p, d.payload.n);
	resigned(b, buf_str(&payload));
	buf_free(&payload);
}

static void revoked(struct fleet *f, struct buf *b)
{
	(void)b;
	CHECK_OK(store_revoke(fleet_conn(f), fleet_board_id(0), "it lies", fleet_now_s));
}

static const struct attack attacks[] = {
    {"empty", 400, COUNT_ENVELOPE, empty},
    {"unsigned", 400, COUNT_ENVELOPE, unsigned_one},
    {"truncated", 400, COUNT_ENVELOPE, truncated},
    {"longer", 400, COUNT_ENVELOPE, longer},
    {"of another kind", 400, COUNT_ENVELOPE, other_kind},
    {"of a stranger", 401, COUNT_UNKNOWN, stranger},
    {"changed on the way", 401, COUNT_SIGNATURE, flipped},
    {"signature changed", 401, COUNT_SIGNATURE, bad_signature},
    {"signed by a stranger in a board's name", 401, COUNT_SIGNATURE, forged},
    {"nonsense, well signed", 400, COUNT_BATCH, nonsense},
    {"code, well signed", 400, COUNT_BATCH, poisoned},
    {"another board's records, well signed", 400, COUNT_BATCH, borrowed},
    {"of a revoked board", 403, COUNT_REVOKED, revoked},
};

static int see_reject(void *ctx, const struct db_value *col, int n)
{
	const struct attack *t = ctx;
	CHECK(n == 3 && !strcmp(col[0].p, store_counts[t->count]) && !strcmp(col[1].p, "192.0.2.7") &&
	      col[2].n > 4);
	return E_OK;
}

TEST(attacks_are_refused_noted_and_change_nothing)
{
	struct buf b = {0};
	for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
		const struct attack *t = &attacks[i];
		struct fleet *f = fleet_begin();
		REQUIRE(f);
		CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
		fleet_batch(fleet_board(0), 0, 2, 1000, &b);
		t->make(f, &b);
		char said[1024];
		int status = post_logged(f, &b, said, sizeof said);
		CHECK((strstr(said, "a batch is refused: ") != NULL) == (t->count == COUNT_BATCH));
		if (status != t->status) {
			printf("%s: %d, wanted %d: %s\n", t->name, status, t->status, fleet_text);
			test_bad = 1;
		}
		CHECK(fleet_counted(f, t->count) == 1);
		CHECK(db_exec(fleet_conn(f), "SELECT what, peer, why FROM rejects", NULL, 0, see_reject,
			      (void *)t) == 1);
		CHECK(fleet_rows(f, "SELECT name FROM batches") == 0);
		fleet_close(f);
	}
	buf_free(&b);
	printf("%zu kinds of attack\n", sizeof attacks / sizeof *attacks);
}

TEST(a_flood_of_refusals_is_bounded)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	for (int i = 0; i < 4 * FLEET_REFUSED; i++)
		CHECK(fleet_post(f, "/v1/records", "x", 1) == 400);
	CHECK(fleet_counted(f, COUNT_ENVELOPE) == 4 * FLEET_REFUSED);
	CHECK(fleet_rows(f, "SELECT why FROM rejects") == FLEET_REFUSED);
	fleet_close(f);
}

/* Words. */

TEST(batches_become_words)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(1), "y") == 200);
	for (int i = 0; i < 20; i++)
		CHECK(fleet_send(f, fleet_board(0), 2 * i, 2, 1000) == 202);
	CHECK(fleet_send(f, fleet_board(1), 0, 2, 5000) == 202);
	CHECK(fleet_digest(f, fleet_conn(f), 7) == 7);
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 14);
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 0);
	CHECK(fleet_rows(f, "SELECT key FROM words") == 42);
	CHECK(fleet_rows(f, "SELECT key FROM words WHERE class = '0123456789abcdef0123456789abcdef'") == 42);
	fleet_now_s += 10;
	CHECK(fleet_send(f, fleet_board(1), 0, 2, 900) == 202); /* board 1 now gives another time */
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 1);
	CHECK(fleet_rows(f, "SELECT key FROM words") == 42);
	CHECK(fleet_rows(f, "SELECT key FROM words WHERE median_ns >= 5000") == 0);
	CHECK(fleet_int(f, "SELECT MIN(median_ns) FROM words") == 900);
	CHECK(fleet_rows(f, "SELECT name FROM batches WHERE taken = 1 AND doc IS NULL") == 22);
	CHECK(fleet_rows(f, "SELECT name FROM batches") == 22);
	CHECK(fleet_send(f, fleet_board(1), 0, 2, 900) == 202 && fleet_number("known") == 1);
	fleet_close(f);
}

TEST(a_board_revoked_meanwhile_says_nothing)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	CHECK(fleet_send(f, fleet_board(0), 0, 2, 1000) == 202);
	CHECK_OK(store_revoke(fleet_conn(f), fleet_board_id(0), "it lies", fleet_now_s));
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 1);
	CHECK(fleet_rows(f, "SELECT key FROM words") == 0);
	fleet_close(f);
}

TEST(a_board_has_so_many_words)
{
	struct fleet *f = fleet_begin();
	struct word w = {.type = CACHE_REC, .median_ns = 5};
	REQUIRE(f);
	CHECK_OK(db_begin(fleet_conn(f)));
	for (int i = 0; i < STORE_WORDS + 10; i++) {
		w.key = mix_bytes(&i, sizeof i, 0);
		CHECK_OK(store_word(fleet_conn(f), "b", "c", &w, "{}", i));
	}
	CHECK_OK(store_trim_words(fleet_conn(f), "b"));
	CHECK_OK(db_commit(fleet_conn(f)));
	CHECK(fleet_int(f, "SELECT COUNT(*) FROM words") == STORE_WORDS);
	CHECK(fleet_int(f, "SELECT MIN(said_s) FROM words") == 10);
	CHECK_OK(store_exec(fleet_conn(f), "UPDATE words SET said_s = 5", NULL, 0, NULL, NULL));
	w.key = hash_text("one more of the same second");
	CHECK_OK(store_word(fleet_conn(f), "b", "c", &w, "{}", 5));
	CHECK_OK(store_trim_words(fleet_conn(f), "b"));
	CHECK(fleet_int(f, "SELECT COUNT(*) FROM words") == STORE_WORDS);
	fleet_close(f);
}

/* Published files. */

static int get_with(struct fleet *f, const char *path, const char *none_match, const char *range,
		    const char *if_range)
{
	return fleet_ask(f, &(struct fleet_request){.method = "GET",
						    .path = path,
						    .query = "",
						    .if_none_match = none_match,
						    .range = range,
						    .if_range = if_range});
}

TEST(published_files_have_tags_and_ranges)
{
	static const struct {
		const char *range;
		int status;
		int64_t from, of;
		const char *text;
	} ranges[] = {{"bytes=0-3", 206, 0, 10, "0123"},
		      {"bytes=4-", 206, 4, 10, "456789"},
		      {"bytes=-3", 206, 7, 10, "789"},
		      {"bytes=8-99", 206, 8, 10, "89"},
		      {"bytes=-99", 206, 0, 10, "0123456789"},
		      {"bytes=0-0", 206, 0, 10, "0"},
		      {"bytes=9-9", 206, 9, 10, "9"},
		      {"bytes=10-", 416, 0, 10, NULL},
		      {"bytes=99999999999999999999-", 200, 0, 0, "0123456789"},
		      {"bytes=-0", 416, 0, 10, NULL},
		      {"bytes=5-4", 200, 0, 0, "0123456789"},
		      {"bytes=0-1,3-4", 200, 0, 0, "0123456789"},
		      {"bytes=-", 200, 0, 0, "0123456789"},
		      {"bytes=a-b", 200, 0, 0, "0123456789"},
		      {"lines=0-1", 200, 0, 0, "0123456789"},
		      {"", 200, 0, 0, "0123456789"}};
	struct fleet *f = fleet_begin();
	char etag[80], list[256];
	REQUIRE(f);
	CHECK(fleet_get(f, BLOB) == 404);
	fleet_file("publish"
		   "/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		   "0123456789", 10);
	CHECK(fleet_get(f, BLOB) == 200 && !strcmp(fleet_text, "0123456789"));
	CHECK(strstr(fleet_said.cache, "immutable") && !fleet_said.of);
	snprintf(etag, sizeof etag, "%s", fleet_said.etag);
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		int status = get_with(f, BLOB, NULL, ranges[i].range, NULL);
		if (status != ranges[i].status || fleet_said.from != ranges[i].from ||
		    fleet_said.of != ranges[i].of || (ranges[i].text && strcmp(fleet_text, ranges[i].text))) {
			printf("%s: %d %lld/%lld %s\n", ranges[i].range, status, (long long)fleet_said.from,
			       (long long)fleet_said.of, fleet_text);
			test_bad = 1;
		}
	}
	CHECK(get_with(f, BLOB, NULL, "bytes=10-", NULL) == 416 && !fleet_said.cache); /* not cached */
	CHECK(get_with(f, BLOB, NULL, "bytes=2-3", etag) == 206 && !strcmp(fleet_text, "23"));
	CHECK(get_with(f, BLOB, NULL, "bytes=2-3", "\"another\"") == 200);
	CHECK(get_with(f, BLOB, etag, NULL, NULL) == 304 && !*fleet_text && !strcmp(fleet_said.etag, etag));
	snprintf(list, sizeof list, "\"x\", W/%s", etag);
	CHECK(get_with(f, BLOB, list, NULL, NULL) == 304);
	CHECK(get_with(f, BLOB, "*", NULL, NULL) == 304);
	CHECK(get_with(f, BLOB, "\"x\",", NULL, NULL) == 200);
	fleet_close(f);
}

TEST(a_new_snapshot_has_a_new_tag)
{
	struct fleet *f = fleet_begin();
	char etag[80];
	REQUIRE(f);
	fleet_file("publish/0123456789abcdef0123456789abcdef/early/snapshot", "one", 3);
	CHECK(fleet_get(f, SNAPSHOT) == 200);
	snprintf(etag, sizeof etag, "%s", fleet_said.etag);
	CHECK(get_with(f, SNAPSHOT, etag, NULL, NULL) == 304);
	fleet_file("publish/0123456789abcdef0123456789abcdef/early/snapshot", "two", 3);
	CHECK(get_with(f, SNAPSHOT, etag, NULL, NULL) == 200 && !strcmp(fleet_text, "two"));
	CHECK(strstr(fleet_said.cache, "max-age") && !strstr(fleet_said.cache, "immutable"));
	fleet_close(f);
}

TEST(no_path_leads_out_of_the_folder)
{
	static const char *const paths[] = {
	    "/v1/",
	    "/v1/..",
	    "/v1/../keys/fleet.key",
	    "/v1/blob/../../keys/fleet.key",
	    "/v1/root/../../keys/fleet.key",
	    "/v1/root/01",
	    "/v1/root/1/",
	    "/v1/root/-1",
	    "/v1/root/",
	    "/v1/root/12345678901234567",
	    "/v1/root/1%2e",
	    "/v1//etc/passwd",
	    "/v1/blob/",
	    "/v1/blob/00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff",
	    "/v1/0123456789abcdef0123456789abcdef/",
	    "/v1/0123456789abcdef0123456789abcdef/none/snapshot",
	    "/v1/0123456789abcdef0123456789abcdef/early/snapshot/x",
	    "/v1/0123456789abcdef0123456789abcdef/early/../snapshot",
	    "/v1/0123456789abcdef0123456789abcdef/averylongchannelname/snapshot"};
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	fleet_file("publish/root/1", "root", 4);
	CHECK(fleet_get(f, "/v1/root/1") == 200 && !strcmp(fleet_text, "root"));
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (fleet_get(f, paths[i]) != 404) {
			printf("%s: %d\n", paths[i], fleet_said.status);
			test_bad = 1;
		}
	CHECK(symlink("../../keys/fleet.key", fleet_path("publish/root/2")) == 0);
	CHECK(fleet_get(f, "/v1/root/2") == 404);
	CHECK(mkfifo(fleet_path("publish/root/3"), 0600) == 0);
	CHECK(fleet_get(f, "/v1/root/3") == 404);
	CHECK(mkdir(fleet_path("publish/root/4"), 0700) == 0);
	CHECK(fleet_get(f, "/v1/root/4") == 404);
	fleet_close(f);
}

TEST(without_keys_nothing_opens)
{
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f;
	c.keys = "/nowhere";
	CHECK_FAILS(fleet_open(&c, &clock_real, fleet_date, &f), E_NOTFOUND, "hone-fleet init");
	c = fleet_conf_test();
	c.db = "/nowhere/fleet.db";
	CHECK_FAILS(fleet_open(&c, &clock_real, fleet_date, &f), E_IO, "/nowhere/fleet.db");
	CHECK(!f);
	fleet_close(NULL);
}

TEST(a_fault_within_is_not_told)
{
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f;
	struct buf b = {0};
	c.threads = 2;
	REQUIRE_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	CHECK(fleet_join(f, fleet_token(f, 1), fleet_board(0), "x") == 200);
	CHECK_OK(db_exec(fleet_conn(f), "DROP TABLE batches", NULL, 0, NULL, NULL));
	log_level_set(LOG_QUIET);
	CHECK(fleet_send(f, fleet_board(0), 0, 1, 1000) == 500 && fleet_said.retry_after_s > 0);
	CHECK(!strstr(fleet_text, "batches")); /* strangers get no internal details */
	buf_free(&b);
	fleet_close(f);
}

TEST_MAIN
