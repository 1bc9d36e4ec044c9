/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a board takes from a fleet and sends to it, when all works, and when the board itself fails. Past
 * 800 lines because all cases talk to the one small server that is made here. */
#include "agent/sync/batch.h"
#include "agent/cache/json.h"
#include "agent/cache/share_kept.h"
#include "agent/sync/sync_fetch.h"
#include "tests/lib/fleet_tree.h"

#include <netinet/tcp.h>
#include <sys/stat.h>

static struct tree tree;
static struct sync_sum sum;

static json_t *status(void)
{
	struct buf b = {0};
	sync_status(&tree.conf, &tree.now, &b);
	json_t *j = json_loads(buf_str(&b), 0, NULL);
	buf_free(&b);
	CHECK(j != NULL);
	return j;
}

static int64_t number(const char *name)
{
	json_t *j = status();
	int64_t n = json_integer_value(json_object_get(j, name));
	json_decref(j);
	return n;
}

TEST(a_folder_is_taken)
{
	tree_open(&tree);
	json_t *none = status();
	CHECK(json_object_size(none) == 0);
	json_decref(none);
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(sum.fresh && sum.serial == 5 && sum.blobs == 1 && sum.taken == 3 && sum.refused == 0);
	CHECK(!sum.down_bytes && !sum.offline && tree_has(&tree, 0, 3) == 3);
	struct key before = tree_hash(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(!sum.fresh && sum.serial == 5 && sum.blobs == 0 && key_equal(before, tree_hash(&tree)));
	json_t *j = status();
	CHECK(json_is_true(json_object_get(j, "good")) &&
	      json_integer_value(json_object_get(j, "serial")) == 5);
	CHECK(json_integer_value(json_object_get(j, "taken")) == 3);
	CHECK(json_is_integer(json_object_get(j, "next_s")));
	json_decref(j);
	tree.conf.server = NULL; /* --folder named it once: no run is due */
	j = status();
	CHECK(json_is_null(json_object_get(j, "next_s")));
	json_decref(j);
	tree_close(&tree);
}

/* A new snapshot names a blob that is known and one that is not. */
TEST(only_what_is_new_is_fetched)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	tree.conf.server = w.url;
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(sum.fresh && sum.taken == 3 && atomic_load(&w.asked) == 3);
	tree_add_records(&tree, 3, 5);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.fresh && sum.blobs == 1 && sum.taken == 2 && atomic_load(&w.asked) == 6);
	CHECK(tree_has(&tree, 0, 5) == 5);
	/* No partial download stays. */
	glob_t g;
	CHECK(glob(tree_path(&tree, "state/blob/*"), 0, NULL, &g) == GLOB_NOMATCH);
	web_stop(&w);
	tree_close(&tree);
}

/* The server has nothing new, but the board's cache was lost. */
TEST(a_cache_that_was_lost_is_filled_again)
{
	tree_open(&tree);
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(tree_has(&tree, 0, 3) == 3);
	glob_t g;
	REQUIRE(glob(tree_path(&tree, "cache/*"), 0, NULL, &g) == 0);
	for (size_t i = 0; i < g.gl_pathc; i++)
		CHECK(unlink(g.gl_pathv[i]) == 0);
	globfree(&g);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.taken == 3 && tree_has(&tree, 0, 3) == 3);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.blobs == 0 && !sum.fresh);
	tree_close(&tree);
}

/* The limit counts all bytes of a run that cross the socket. */
TEST(nothing_new_is_a_kilobyte_at_most)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	tree.conf.server = w.url;
	REQUIRE_OK(tree_sync(&tree, &sum));
	long before = atomic_load(&w.in_bytes) + atomic_load(&w.out_bytes);
	int asked = atomic_load(&w.asked);
	CHECK_OK(tree_sync(&tree, &sum));
	long wire = atomic_load(&w.in_bytes) + atomic_load(&w.out_bytes) - before;
	CHECK(!sum.fresh && atomic_load(&w.asked) == asked + 2);
	CHECK(wire <= 1024 && sum.down_bytes + sum.up_bytes <= 1024 && sum.down_bytes + sum.up_bytes >= wire);
	printf("a run with nothing new: %ld bytes on the wire\n", wire);
	web_stop(&w);
	tree_close(&tree);
}

TEST(root_goes_on_by_many_versions)
{
	tree_open(&tree);
	struct private_key *new_fleet;
	CHECK_OK(private_key_make(&new_fleet));
	for (int v = 2; v <= 20; v++) { /* a board that was off for years */
		tree_make_root(&tree, v, new_fleet);
		tree_write_root(&tree);
	}
	CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "snapshot"); /* its signature is by the old fleet key */
	CHECK(sum.roots == 19);
	private_key_free(tree.fleet);
	tree.fleet = new_fleet;
	tree.s.serial++;
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.roots == 0 && sum.taken == 3);
	tree_close(&tree);
}

TEST(a_class_that_the_fleet_does_not_know)
{
	tree_open(&tree);
	CHECK(unlink(tree_path(&tree, tree_snapshot_name(&tree))) == 0);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(!sum.fresh && sum.serial == 0);
	tree_close(&tree);
}

/* A stick of another fleet, which has nothing for this class, does not hide what the server published. */
TEST(a_folder_without_this_class_leaves_the_serial)
{
	tree_open(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(number("serial") == 5);
	tree.conf.server = tree_path(&tree, "stick");
	CHECK_OK(file_mkdirs(tree_path(&tree, "stick/root"), 0700));
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(!sum.fresh && number("serial") == 5);
	tree.conf.server = tree.www;
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(number("serial") == 5 && number("taken") == 3);
	tree_close(&tree);
}

/* A server that cannot be reached after a folder was read does not hide what the board has. */
TEST(a_server_that_fails_leaves_the_serial)
{
	tree_open(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(number("serial") == 5);
	tree.conf.server = "http://127.0.0.1:1";
	CHECK(tree_sync(&tree, &sum) < 0);
	CHECK(sum.serial == 5 && number("serial") == 5);
	tree.conf.server = tree.www;
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.serial == 5 && number("taken") == 3);
	tree_close(&tree);
}

/* The board's share of the search is stored where tuning jobs look for it. */
TEST(the_search_is_divided)
{
	struct arena a = {0};
	struct share s;
	tree_open(&tree);
	tree.s.parts = 16;
	strcpy(tree.s.salt, "salt7");
	tree_publish(&tree);
	REQUIRE_OK(tree_sync(&tree, &sum));
	share_kept_get(tree.cache, target_key(&tree.target), &a, &s);
	CHECK(s.parts == 16 && !strcmp(s.salt, "salt7"));
	json_t *j = status();
	const char *board = json_string_value(json_object_get(j, "board"));
	CHECK(s.board && board && !strcmp(board, s.board) && strlen(board) == 32);
	json_decref(j);
	arena_free(&a);
	tree_close(&tree);
}

TEST(unknown_kinds_of_blobs_are_not_fetched)
{
	tree_open(&tree);
	tree.blob[tree.s.nblob++] = (struct snapshot_blob){.kind = "weights", .bytes = 5};
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.blobs == 1);
	tree_close(&tree);
}

/* A board learns from the snapshot that the fleet has revoked it, also from one that it took before. */
TEST(a_revoked_board_is_told)
{
	tree_open(&tree);
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(!sum.revoked);
	char board[2][KEY_ID_HEX + 1] = {{0}};
	json_t *j = status();
	memset(board[0], 'a', KEY_ID_HEX);
	snprintf(board[1], sizeof board[1], "%s", json_string_value(json_object_get(j, "board")));
	json_decref(j);
	for (int n = 1; n <= 3; n++) { /* another board, both, none */
		tree.s.board = board;
		tree.s.nboard = n % 3;
		tree.s.serial++;
		tree_publish(&tree);
		for (int again = 0; again < 2; again++) {
			CHECK_OK(tree_sync(&tree, &sum));
			CHECK(sum.revoked == (n == 2) && sum.fresh == !again);
			j = status();
			CHECK(json_is_true(json_object_get(j, "revoked")) == (n == 2));
			json_decref(j);
		}
	}
	tree_close(&tree);
}

TEST(revoked_records_are_removed)
{
	tree_open(&tree);
	REQUIRE_OK(tree_sync(&tree, &sum));
	struct rec r = tree_rec(&tree, 1);
	struct key revoked = revoked_hash(&r);
	tree.s.record = &revoked;
	tree.s.nrecord = 1;
	tree.s.serial++;
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(tree_has(&tree, 0, 3) == 2 && tree_has(&tree, 1, 2) == 0);
	/* It does not come back with another blob, either. */
	tree_add_records(&tree, 1, 2);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(tree_has(&tree, 1, 2) == 0);
	tree_close(&tree);
}

/* An expiry date counts only if the board's date may be right. */
TEST(a_board_without_a_clock)
{
	tree_open(&tree);
	tree.now.date_s = 0;
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(sum.taken == 3);
	CHECK(number("overdue") == 0);
	tree_close(&tree);
}

/* A board reports a server that repeats one signed snapshot forever, by its date or by the time that it has
 * been on. */
TEST(a_frozen_server_is_told_of)
{
	tree_open(&tree);
	struct clock clock = clock_virtual(NS_PER_S);
	tree.now.clock = &clock;
	tree.now.date_s = 0;
	REQUIRE_OK(tree_sync(&tree, &sum));
	json_t *j = status();
	CHECK(json_is_false(json_object_get(j, "overdue")));
	json_decref(j);
	clock_advance(&clock, (TREE_LIFE_S + 100) * NS_PER_S);
	CHECK_OK(tree_sync(&tree, &sum));
	j = status();
	CHECK(json_is_true(json_object_get(j, "overdue")));
	json_decref(j);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	j = status();
	CHECK(json_is_false(json_object_get(j, "overdue")));
	json_decref(j);
	tree.now.date_s = TREE_MADE_S + TREE_LIFE_S + 1;
	CHECK_OK(tree_sync(&tree, &sum));
	j = status();
	CHECK(json_is_true(json_object_get(j, "overdue")));
	json_decref(j);
	tree_close(&tree);
}

/* Power fails while the state is written: each of its files is empty, cut, overwritten or gone. */
TEST(a_damaged_state_costs_traffic_alone)
{
	static const char *const files[] = {"state/sync.json", "state/taken"};
	for (size_t f = 0; f < sizeof files / sizeof *files; f++)
		for (int how = 0; how < 5; how++) {
			tree_open(&tree);
			REQUIRE_OK(tree_sync(&tree, &sum));
			struct arena a = {0};
			struct blob b;
			const char *path = tree_path(&tree, files[f]);
			REQUIRE_OK(file_read(&a, path, 0, &b));
			char *p = arena_memdup(&a, b.p, b.n);
			size_t n = how == 0 ? 0 : how == 1 ? b.n / 2 : how == 2 ? b.n - 1 : b.n;
			if (how == 3)
				memset(p, 0xff, b.n);
			CHECK_OK(file_write(path, p, n));
			if (how == 4)
				CHECK(unlink(path) == 0);
			CHECK_OK(tree_sync(&tree, &sum));
			CHECK(tree_has(&tree, 0, 3) == 3);
			tree.s.serial = 4;
			tree_publish(&tree);
			CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "older");
			tree.s.serial = 6;
			tree_add_records(&tree, 3, 4);
			tree_publish(&tree);
			CHECK_OK(tree_sync(&tree, &sum));
			CHECK(tree_has(&tree, 0, 4) == 4);
			arena_free(&a);
			tree_close(&tree);
		}
}

TEST(one_run_at_a_time)
{
	tree_open(&tree);
	int fd;
	CHECK_OK(file_mkdirs(tree.state, 0755));
	REQUIRE_OK(file_lock(tree_path(&tree, "state/lock"), 0, &fd));
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "");
	file_unlock(fd);
	CHECK_OK(tree_sync(&tree, &sum));
	tree_close(&tree);
}

TEST(no_root_of_trust_no_sync)
{
	tree_open(&tree);
	CHECK(unlink(tree.image) == 0);
	CHECK_FAILS(tree_sync(&tree, &sum), E_NOTFOUND, "or name its file by root = in [sync]");
	tree.conf.server = NULL;
	CHECK_FAILS(tree_sync(&tree, &sum), E_USAGE, "server is not set");
	tree_close(&tree);
}

TEST(a_turn_comes_and_is_kept)
{
	tree_open(&tree);
	struct clock clock = clock_virtual(NS_PER_S);
	tree.now.clock = &clock;
	int64_t wait = sync_due(&tree.conf, &tree.now);
	CHECK(wait >= 0 && wait <= 2 * tree.conf.every_ns);
	CHECK(sync_due(&tree.conf, &tree.now) == wait);
	clock_advance(&clock, wait / 2);
	CHECK(sync_due(&tree.conf, &tree.now) == wait - wait / 2);
	clock_advance(&clock, wait);
	CHECK(sync_due(&tree.conf, &tree.now) == 0);
	REQUIRE_OK(tree_sync(&tree, &sum));
	wait = sync_due(&tree.conf, &tree.now);
	CHECK(wait > 0 && wait <= 2 * tree.conf.every_ns);
	CHECK(number("next_s") == wait / NS_PER_S);
	/* After another boot the clock begins anew: the board draws another wait and keeps that. */
	clock = clock_virtual(5 * NS_PER_S);
	tree.now.boot = "boot 2";
	wait = sync_due(&tree.conf, &tree.now);
	CHECK(wait >= 0 && wait <= 2 * tree.conf.every_ns && sync_due(&tree.conf, &tree.now) == wait);
	tree_close(&tree);
}

static int busy(struct web *w, int fd, const struct web_ask *q)
{
	(void)q;
	return w->mode ? -1 : web_reply(w, fd, 503, "Retry-After: 500\r\n", "", 0);
}

TEST(a_server_that_asked_to_be_left_alone_is)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www, .answer = busy};
	struct clock clock = clock_virtual(NS_PER_S);
	web_start(&w);
	tree.conf.server = w.url;
	tree.now.clock = &clock;
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "later");
	CHECK(sync_due(&tree.conf, &tree.now) >= 500 * NS_PER_S);
	int asked = atomic_load(&w.asked);
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "wait another 8 min");
	tree.conf.server = tree.www; /* a stick does not change the server's Retry-After */
	CHECK_OK(tree_sync(&tree, &sum));
	tree.conf.server = w.url;
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "wait another 8 min");
	CHECK(atomic_load(&w.asked) == asked);
	tree.s.serial++;
	tree_add_records(&tree, 3, 4);
	tree_publish(&tree);
	w.mode = 1;
	clock_advance(&clock, 501 * NS_PER_S);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.taken == 1);
	web_stop(&w);
	tree_close(&tree);
}

TEST(bytes_of_a_day_are_kept_to)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	struct clock clock = clock_virtual(NS_PER_S);
	web_start(&w);
	tree.conf.server = w.url;
	tree.conf.day_bytes = 1500;
	tree.now.clock = &clock;
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "used up");
	CHECK_FAILS(tree_sync(&tree, &sum), E_BUSY, "used up");
	clock_advance(&clock, PACE_DAY_NS);
	tree.conf.day_bytes = 1 << 20;
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.taken == 3);
	web_stop(&w);
	tree_close(&tree);
}

TEST(no_server_is_offline)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	char url[64];
	snprintf(url, sizeof url, "%s", w.url);
	web_stop(&w);
	tree.conf.server = url;
	CHECK_FAILS(tree_sync(&tree, &sum), E_IO, "reached");
	CHECK(sum.offline && number("failures") == 1);
	CHECK_FAILS(tree_sync(&tree, &sum), E_IO, "reached");
	CHECK(number("failures") == 2);
	tree_close(&tree);
}

/* A server that enrols boards and takes batches. */

struct taking {
	struct private_key *ca;
	struct buf ca_pem;
	int enrolled, batches, records, refused;
	int fail;       /* status for the next batch; 0: it is taken */
	int fail_after; /* the batch of this number, from 1, gets a 500; 0: none */
	char board[33], name[64];
	const char *words; /* the body of a refusal; NULL: none */
	const char *said;  /* the answer to a batch that is taken; NULL: {} */
	struct public_key key;
};

static int do_enrol(struct web *w, int fd, const struct web_ask *q)
{
	struct taking *k = w->ctx;
	char *name = k->name;
	struct buf cert = {0};
	json_t *j = json_loadb(q->body, q->n, 0, NULL);
	const char *csr = json_string_value(json_object_get(j, "csr"));
	const char *token = json_string_value(json_object_get(j, "token"));
	int rc = 0;
	if (csr && token && !strcmp(token, "secret") && csr_read(csr, strlen(csr), &k->key, name) >= 0) {
		public_key_id(&k->key, k->board);
		CHECK_OK(cert_write(k->ca, buf_str(&k->ca_pem), &k->key, name, NULL, TREE_MADE_S, 10, &cert));
		json_t *out = json_pack("{ss ss}", "cert", buf_str(&cert), "board", k->board);
		char *text = json_dumps(out, 0);
		k->enrolled++;
		rc = web_reply(w, fd, 200, "", text, strlen(text));
		free(text);
		json_decref(out);
	} else {
		rc = web_reply(w, fd, 403, "", k->words ? k->words : "", k->words ? strlen(k->words) : 0);
	}
	json_decref(j);
	buf_free(&cert);
	return rc;
}

static int do_records(struct web *w, int fd, const struct web_ask *q)
{
	static struct batch b;
	struct taking *k = w->ctx;
	struct signed_doc d;
	struct arena a = {0};
	if (k->fail_after && !--k->fail_after)
		k->fail = 500;
	if (k->fail) {
		int s = k->fail;
		k->fail = 0;
		return web_reply(w, fd, s, "", k->words ? k->words : "", k->words ? strlen(k->words) : 0);
	}
	CHECK_OK(signed_parse(q->body, q->n, "records", &d));
	CHECK(signed_check(&d, &k->key, 1, 1, NULL) >= 0);
	if (batch_parse(d.payload.p, d.payload.n, &a, &b) < 0) { /* as tools/fleet/fleet_records.c does */
		json_t *j = json_pack("{so}", "error", json_text(err_text()));
		char *text = json_dumps(j, 0);
		k->refused++;
		int rc = web_reply(w, fd, 400, "", text, strlen(text));
		free(text);
		json_decref(j);
		arena_free(&a);
		return rc;
	}
	CHECK(!strcmp(b.board, k->board) && !strcmp(b.cls, tree.cls) && b.n <= BATCH_RECORDS);
	k->batches++;
	k->records += b.n;
	arena_free(&a);
	const char *said = k->said ? k->said : "{}";
	return web_reply(w, fd, 202, "", said, strlen(said));
}

static int take_in(struct web *w, int fd, const struct web_ask *q)
{
	return strcmp(q->method, "POST")   ? -1
	       : !strcmp(q->path, "enrol") ? do_enrol(w, fd, q)
					   : do_records(w, fd, q);
}

static void open_taking(struct taking *k, struct web *w)
{
	*k = (struct taking){0};
	tree_open(&tree);
	CHECK_OK(private_key_make(&k->ca));
	CHECK_OK(cert_write_ca(k->ca, "fleet", &k->ca_pem));
	*w = (struct web){.dir = tree.www, .answer = take_in, .ctx = k};
	web_start(w);
	/* Its connections inherit it: an answer is two writes, and would wait 40 ms for a delayed ACK. */
	CHECK(setsockopt(w->listener, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
	tree.conf.server = w->url;
	tree_write(&tree, "token", " secret\n", 8);
	tree.conf.token = strdup(tree_path(&tree, "token"));
}

static void close_taking(struct taking *k, struct web *w)
{
	web_stop(w);
	private_key_free(k->ca);
	buf_free(&k->ca_pem);
	free((char *)(uintptr_t)tree.conf.token);
	tree_close(&tree);
}

TEST(a_token_becomes_a_certificate)
{
	struct taking k;
	struct web w;
	struct stat st;
	open_taking(&k, &w);
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(k.enrolled == 1 && sum.taken == 3);
	CHECK(stat(tree_path(&tree, "state/key.pem"), &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(file_exists(tree_path(&tree, "state/cert.pem")));
	json_t *j = status();
	const char *board = json_string_value(json_object_get(j, "board"));
	CHECK(board && !strcmp(board, k.board));
	char name[SYNC_NAME];
	sync_board_name(&tree.conf, NULL, k.board, name);
	CHECK(!strcmp(k.name, name)); /* its host name */
	CHECK(!strcmp(json_string_value(json_object_get(j, "name")), name));
	json_decref(j);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(k.enrolled == 1);
	close_taking(&k, &w);
}

/* A token expires: a board that has one joins at once, and if that fails, soon again; only then it keeps to
 * the fleet's pace. */
TEST(a_board_with_a_token_joins_at_once)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.every_ns = 24 * 3600 * NS_PER_S;
	CHECK(sync_due(&tree.conf, &tree.now) == 0 && sync_due(&tree.conf, &tree.now) == 0);
	tree_write(&tree, "token", "guess", 5);
	int64_t most = 0;
	for (int i = 1; i <= 4; i++) {
		CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "enrolment");
		int64_t wait = sync_due(&tree.conf, &tree.now);
		CHECK(wait <= (PACE_JOIN_NS << i));
		most = wait > most ? wait : most;
	}
	CHECK(most > 0);
	tree.now.boot = "boot 2";
	CHECK(sync_due(&tree.conf, &tree.now) <= 2 * PACE_JOIN_NS);
	tree_write(&tree, "token", "secret", 6);
	CHECK_OK(tree_sync(&tree, &sum));
	most = 0;
	for (int i = 0; i < 6; i++) {
		CHECK_OK(tree_sync(&tree, &sum));
		int64_t wait = sync_due(&tree.conf, &tree.now);
		most = wait > most ? wait : most;
	}
	CHECK(most > 3600 * NS_PER_S);
	close_taking(&k, &w);
}

/* A board that took public files before gets its token later, and another one when that has expired. */
TEST(a_token_that_comes_later_is_used_at_once)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	const char *token = tree.conf.token;
	tree.conf.token = NULL;
	tree.conf.every_ns = 24 * 3600 * NS_PER_S;
	int64_t wait = 0;
	for (int i = 0; i < 40 && wait < 3600 * NS_PER_S; i++) {
		CHECK_OK(tree_sync(&tree, &sum));
		wait = sync_due(&tree.conf, &tree.now);
	}
	CHECK(wait >= 3600 * NS_PER_S && number("next_s") > 3000);
	CHECK(unlink(token) == 0);
	tree.conf.token = token;
	CHECK(sync_due(&tree.conf, &tree.now) > 0); /* there is no such file yet */
	for (int i = 0; i < 3; i++) {
		tree_write(&tree, "token", "guess", 5);
		CHECK(sync_due(&tree.conf, &tree.now) == 0 && number("next_s") == 0);
		tree.now.boot = i ? "boot 1" : "boot 2";
		CHECK(sync_due(&tree.conf, &tree.now) == 0);
		CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "enrolment");
		wait = 0;
		for (int n = 0; n < 4 && !wait; n++) { /* a wait may be drawn as 0 */
			wait = sync_due(&tree.conf, &tree.now);
			if (!wait)
				CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "enrolment");
		}
		CHECK(wait > 0);
	}
	tree_write(&tree, "token", "secret", 6);
	CHECK(sync_due(&tree.conf, &tree.now) == 0);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(k.enrolled == 1);
	close_taking(&k, &w);
}

TEST(a_board_joins_by_its_configured_name)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.name = "arm-3.lab";
	REQUIRE_OK(tree_sync(&tree, &sum));
	CHECK(k.enrolled == 1 && !strcmp(k.name, "arm-3.lab"));
	json_t *j = status();
	CHECK(!strcmp(json_string_value(json_object_get(j, "name")), "arm-3.lab"));
	CHECK(!strcmp(json_string_value(json_object_get(j, "board")),
		      k.board)); /* the key's id, not the name */
	CHECK(!strcmp(json_string_value(json_object_get(j, "joined")), "arm-3.lab"));
	json_decref(j);
	tree.conf.name = "arm-4.lab"; /* it does not join again */
	j = status();
	CHECK(!strcmp(json_string_value(json_object_get(j, "joined")), "arm-3.lab"));
	json_decref(j);
	tree.conf.name = NULL;
	close_taking(&k, &w);
}

TEST(a_token_that_is_not_good)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree_write(&tree, "token", "guess", 5);
	CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "enrolment");
	CHECK(strstr(err_text(), "does not say why: its join token may be used up") != NULL);
	CHECK(sum.taken == 3); /* public files are fetched all the same */
	json_t *j = status();
	CHECK(!json_object_get(j, "joined"));
	json_decref(j);
	/* The server's words are the whole message: hone adds no guess of its own. */
	k.words = "{\"error\": \"the token is used up; ask for another\"}";
	CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG,
		    "it refuses this board (status 403): the token is used up; ask for another");
	const char *first = strstr(err_text(), "used up");
	CHECK(first && !strstr(first + 1, "used up"));
	k.words = "{\"error\": \"this board is revoked\"}";
	CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "(status 403): this board is revoked");
	CHECK(!strstr(err_text(), "token"));
	k.words = NULL;
	CHECK(!file_exists(tree_path(&tree, "state/cert.pem")));
	tree_write(&tree, "token", " \n", 2); /* the command line is right: no E_USAGE */
	CHECK_FAILS(tree_sync(&tree, &sum), E_CORRUPT, "does not hold a token; `hone-fleet token`");
	tree_write(&tree, "token", "secret", 6);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(k.enrolled == 1);
	close_taking(&k, &w);
}

/* The first nlines records are what this cache has to send, without those that were sent before. */
static struct sync_cache real, spy;
static int nlines, next_line, told_sent, noffered;
static int offered[1000];              /* the lines by their numbers in this run */
static bool told[1000], foreign[1000]; /* lines that were sent; lines of another class */

static int spy_next(void *ctx, struct arena *a, const char **line)
{
	(void)ctx;
	while (next_line < nlines && told[next_line])
		next_line++;
	if (next_line >= nlines)
		return 0;
	offered[noffered++] = next_line;
	struct rec r = tree_rec(&tree, next_line);
	if (foreign[next_line++])
		r.target_key = hash_text("another class");
	struct buf b = {0};
	tree_line(&r, &b);
	b.p[b.n - 1] = 0;
	*line = arena_strdup(a, b.p);
	buf_free(&b);
	return next_line <= 3 ? CACHE_CHOICES : CACHE_REC; /* what it says of a line is counted */
}

static int spy_sent(void *ctx, const int *line, int n)
{
	(void)ctx;
	for (int i = 0; i < n; i++) {
		CHECK(line[i] >= 0 && line[i] < noffered && !told[offered[line[i]]]);
		told[offered[line[i]]] = true;
	}
	told_sent += n;
	return E_OK;
}

static int push_again(void)
{
	const struct sync_cache_options o = {
	    .dir = tree.cache, .state = tree.state, .server = "fleet", .clock = &clock_real};
	CHECK_OK(sync_cache_open(&o, &real));
	spy = real;
	spy.next = spy_next;
	spy.sent = spy_sent;
	next_line = told_sent = noffered = 0;
	int rc = sync_run(&tree.conf, &spy, &tree.now, &sum);
	sync_cache_close(&real);
	return rc;
}

static int push(int n)
{
	nlines = n;
	memset(told, 0, sizeof told);
	return push_again();
}

TEST(records_go_up_where_the_owner_said_so)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	CHECK_OK(push(3));
	CHECK(k.batches == 0 && next_line == 0); /* the owner did not opt in */
	tree.conf.push = true;
	CHECK_OK(push(BATCH_RECORDS + 10));
	CHECK(k.batches == 2 && k.records == BATCH_RECORDS + 10 && told_sent == BATCH_RECORDS + 10);
	CHECK(sum.batches == 2 && sum.sent == BATCH_RECORDS + 10 && sum.up_bytes > 1000);
	CHECK(sum.sent_of[CACHE_CHOICES] == 3 && sum.sent_of[CACHE_REC] == BATCH_RECORDS + 7);
	CHECK_OK(push(0));
	CHECK(k.batches == 2 && sum.sent == 0);
	close_taking(&k, &w);
}

static bool fleet_calls_it(const char *name)
{
	json_t *j = status();
	bool same = !strcmp(json_string_value(json_object_get(j, "joined")), name);
	json_decref(j);
	return same;
}

TEST(a_board_learns_the_name_that_its_fleet_gives_it)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.name = "arm-3.lab";
	k.said = "{\"board\": \"dock\"}";
	tree.conf.push = true;
	REQUIRE_OK(push(1));
	CHECK(k.batches == 1 && fleet_calls_it("dock"));
	static const char *const bad[] = {"{\"board\": \"a\\u001b[31m\"}", "{\"board\": \"\"}",
					  "{\"board\": 7}", "[]", "x"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		k.said = bad[i];
		CHECK_OK(push(1));
		CHECK(k.batches == (int)i + 2 && fleet_calls_it("dock"));
	}
	tree.conf.name = NULL;
	close_taking(&k, &w);
}

TEST(a_batch_that_is_not_taken)
{
	static const struct {
		int status, rc;
	} how[] = {{401, E_WRONG}, {403, E_WRONG}, {429, E_BUSY},  {500, E_IO},
		   {302, E_WRONG}, {405, E_WRONG}, {408, E_WRONG}, {404, E_NOTFOUND}};
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.push = true;
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		k.fail = how[i].status;
		int rc = push(5);
		CHECK(rc == how[i].rc && sum.sent == 0 && told_sent == 0);
	}
	k.fail = 413; /* too long as a whole, not in halves */
	CHECK_OK(push(4));
	CHECK(sum.sent == 4 && sum.batches == 2 && told_sent == 4 && k.records == 4);
	k.records = 0;
	CHECK_OK(push(5));
	CHECK(sum.sent == 5 && k.records == 5);
	close_taking(&k, &w);
}

/* A line that the server refuses does not cost the others: all of them arrive, it alone stays unsent, and the
 * run fails with the server's reason. */
TEST(a_bad_line_costs_itself_alone)
{
	struct taking k;
	struct web w;
	struct rng r;
	open_taking(&k, &w);
	tree.conf.push = true;
	rng_seed(&r, 3);
	for (int i = 0; i < 15; i++) {
		int n = 1 + (int)rng_below(&r, BATCH_RECORDS * 2), nbad = 0;
		for (int at = (int)rng_below(&r, 40); at < n; at += 1 + (int)rng_below(&r, 60))
			nbad += foreign[at] = true;
		k.records = k.refused = 0;
		int rc = push(n);
		CHECK(rc == (nbad ? E_UNSUPPORTED : E_OK) && sum.unsent == nbad && sum.sent == n - nbad);
		CHECK(k.records == n - nbad && told_sent == n - nbad);
		CHECK(k.refused <= 8 * nbad);
		for (int at = 0; at < n; at++)
			CHECK(told[at] == !foreign[at]);
		json_t *j = status();
		CHECK(json_is_true(json_object_get(j, "good")) == !nbad);
		if (nbad)
			CHECK(strstr(json_string_value(json_object_get(j, "error")),
				     "the record is of another class of boards"));
		json_decref(j);
		memset(foreign, 0, sizeof foreign);
	}
	/* a server that refuses everything is not asked without end */
	memset(foreign, 1, sizeof foreign);
	k.refused = 0;
	CHECK_FAILS(push(900), E_UNSUPPORTED, "the server refused 32 lines: ");
	CHECK(strstr(err_text(), "; 868 were not tried in this run"));
	CHECK(k.refused == 64 && sum.unsent == 32 && sum.untried == 868 && !told_sent);
	memset(foreign, 0, sizeof foreign);
	close_taking(&k, &w);
}

static int count_told(bool of_foreign)
{
	int n = 0;
	for (int i = 0; i < nlines; i++)
		n += told[i] && foreign[i] == of_foreign;
	return n;
}

/* Bad lines come first, more than a run may try: the good ones behind them arrive in one of the next runs,
 * also if the server breaks off each run (fail_after). Bad lines that are good later arrive as well. */
TEST(bad_lines_do_not_starve_the_good_ones)
{
	struct taking k;
	struct web w;
	struct rng r;
	open_taking(&k, &w);
	const char *server = tree.conf.server;
	tree.conf.server = tree.www; /* a source before, to which no run goes back */
	CHECK_OK(push(1));
	CHECK(sum.fresh && unlink(tree_path(&tree, tree_snapshot_name(&tree))) == 0);
	tree.conf.server = server;
	tree.conf.push = true;
	rng_seed(&r, 5);
	for (int i = 0; i < 6; i++) {
		int nbad = i ? (int)rng_below(&r, 120) : 40, n = nbad + (i ? 1 + (int)rng_below(&r, 80) : 10);
		int good = 0, runs = 0, fail_after = i % 3 == 2 ? 20 : 0;
		for (int at = 0; at < n; at++)
			good += !(foreign[at] = at < nbad && (!i || rng_below(&r, 8)));
		int rc = (k.fail_after = fail_after, push(n));
		for (; runs < n && count_told(false) < good; runs++) {
			k.fail_after = fail_after;
			k.refused = 0;
			rc = push_again();
			CHECK(k.refused <= 64 && (rc == E_IO || rc == E_UNSUPPORTED || good == n));
			CHECK(rc == E_IO ||
			      sum.unsent + sum.untried + count_told(false) == n); /* none is forgotten */
		}
		CHECK(count_told(false) == good && !count_told(true));
		CHECK(i || runs == 1);
		k.fail_after = 0;
		memset(foreign, 0, sizeof foreign);
		if (push_again() == E_UNSUPPORTED) {
			CHECK(sum.untried && strstr(err_text(), " that the server refused before wait"));
			CHECK_OK(push_again());
		}
		CHECK(count_told(false) == n);
	}
	close_taking(&k, &w);
}

/* A refused line is offered in every run. It must not slow the pulls: the board keeps its pace, and only an
 * upload that breaks off counts as a failure. */
TEST(a_refused_line_does_not_slow_the_board)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.push = true;
	foreign[2] = true;
	for (int i = 0; i < 12; i++) {
		CHECK_FAILS(push(5), E_UNSUPPORTED, "the server refused 1 line: ");
		CHECK(number("failures") == 0);
		CHECK(sync_due(&tree.conf, &tree.now) <= 2 * tree.conf.every_ns);
		json_t *j = status();
		CHECK(json_is_false(json_object_get(j, "good")));
		json_decref(j);
	}
	foreign[2] = false;
	foreign[0] = true;
	k.fail_after = 3; /* line 0 is refused as one of two and alone, then the server fails */
	CHECK_FAILS(push(2), E_IO, "");
	CHECK(sum.unsent == 1 && number("failures") == 1);
	memset(foreign, 0, sizeof foreign);
	close_taking(&k, &w);
}

/* With the real cache, strangers' records are not sent back. */
TEST(strangers_records_are_not_ours)
{
	struct taking k;
	struct web w;
	open_taking(&k, &w);
	tree.conf.push = true;
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(k.records == 0);
	close_taking(&k, &w);
}

TEST(this_boot_has_an_id)
{
	char boot[64];
	sync_boot(boot, sizeof boot);
	CHECK(strlen(boot) == 36);
}

TEST_MAIN
