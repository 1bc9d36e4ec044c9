/* SPDX-License-Identifier: Apache-2.0 */
/* Twenty days of a fleet: boards of two classes join and send signed batches, one of them lies, strangers are
 * refused, and rounds aggregate and publish; then the API must show all of it. With FLEET_FILL=DIR, whose
 * keys are in DIR/keys, the database stays in DIR/fleet.db, for tests/sh/page.sh. */
#include "tests/lib/fleet.h"
#include "agent/cache/history.h"
#include "tools/fleet/fleet_figures.h"
#include "platform/base/mix.h"

#include <time.h>

enum { BOARDS = 14, DAYS = 20, KERNELS = 24, DAY_S = 86400 };

static const char *const cls[2] = {"5e1fa11deadbeef05e1fa11deadbeef0", "0badc0de00000000feedfacecafe0001"};
static const char *const label[2] = {"Raspberry_Pi_4_Model_B armv8-a 4",
				     "NVIDIA_Jetson_Orin_Nano 15W armv8-a 4"};

static struct fleet *open_fleet(void)
{
	static char path[3][256];
	const char *dir = getenv("FLEET_FILL");
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f = NULL;
	if (dir) {
		const char *const name[] = {"fleet.db", "keys", "publish"};
		for (int i = 0; i < 3; i++)
			snprintf(path[i], sizeof *path, "%s/%s", dir, name[i]);
		c.db = path[0];
		c.keys = path[1];
		c.publish = path[2];
	}
	fleet_now_s = (dir ? time(NULL) : INT64_C(1700000000)) - DAYS * DAY_S;
	CHECK_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	return f;
}

static const struct private_key *key_of(int board)
{
	return keys(2 + board + 1)->private[2 + board];
}

static const char *id_of(int board)
{
	static char id[KEY_ID_HEX + 1];
	public_key_id(&keys(2 + board + 1)->public[2 + board], id);
	return id;
}

/* The first ten boards are of one class. A kernel's times differ by a few per cent between boards. */
static int class_of(int board)
{
	return board >= 10;
}

static int64_t default_ns(int kernel)
{
	return 400000 + 90000 * kernel;
}

static int64_t best_ns(int kernel, int board)
{
	return (int64_t)((double)default_ns(kernel) / (1.1 + 0.17 * kernel) * (1 + 0.004 * board));
}

struct post {
	struct arena a;
	int n;
	const char *line[BATCH_RECORDS];
};

static void add_rec(struct post *p, int board, int kernel, int kind, int64_t ns)
{
	struct key k;
	CHECK_OK(key_parse(cls[class_of(board)], &k));
	struct rec r = record(&p->a, kernel * 8, k, ns);
	r.kind = kind;
	p->line[p->n++] = record_line(&p->a, &r);
}

static void add_history(struct post *p, int model, double first_ms, double last_ms)
{
	struct history h = {.n = 2, .point = {{10, 0, first_ms}, {5000, 400, last_ms}}};
	struct buf text = {0};
	history_text(&h, &text);
	p->line[p->n++] =
	    record_as_line(&p->a, CACHE_HISTORY, mix_bytes(&model, sizeof model, 5), buf_str(&text));
	buf_free(&text);
}

static int send_off(struct fleet *f, struct post *p, int board)
{
	struct buf payload = {0}, doc = {0};
	const struct private_key *key = key_of(board);
	CHECK_OK(
	    batch_print(cls[class_of(board)], id_of(board), label[class_of(board)], p->line, p->n, &payload));
	CHECK_OK(signed_write("records", payload.p, payload.n, &key, 1, &doc));
	int status = fleet_post(f, "/v1/records", doc.p, doc.n);
	buf_free(&payload);
	buf_free(&doc);
	arena_free(&p->a);
	p->n = 0;
	return status;
}

/* Sends what a board found on the `age`th day after it joined: more kernels each day, untuned and tuned. */
static void send_day(struct fleet *f, int board, int age)
{
	struct post p = {.n = 0};
	for (int i = 0; i < KERNELS; i++) {
		if (i / 3 != age)
			continue;
		add_rec(&p, board, i, REC_DEFAULT, default_ns(i) + board * 100);
		add_rec(&p, board, i, REC_BEST, board == 9 ? 1000 : best_ns(i, board)); /* board 9 lies */
	}
	if (age == 3)
		for (int model = 0; model < 3; model++)
			add_history(&p, model, 40 + 20 * model, 11 + 9 * model + 0.1 * board);
	if (p.n)
		CHECK(send_off(f, &p, board) == 202);
	arena_free(&p.a);
}

static void strangers(struct fleet *f, int day)
{
	struct post p = {.n = 0};
	if (day % 5 == 2) {
		CHECK(fleet_join(f, "hone-guessed", key_of(0), "intruder") == 403);
		CHECK(fleet_post(f, "/v1/records", "GET ME IN", 9) == 400);
	}
	if (day == 12) {
		add_rec(&p, 0, 0, REC_BEST, 7);
		p.line[0] = "{\"type\":\"rec\",\"key\":\"<b>\",\"text\":\"nonsense\"}";
		CHECK(send_off(f, &p, 0) == 400);
	}
	arena_free(&p.a);
}

static void live(struct fleet *f)
{
	char name[32];
	for (int day = 0; day <= DAYS; day++, fleet_now_s += DAY_S) {
		for (int board = 0; board < BOARDS; board++) {
			snprintf(name, sizeof name, "robot-%02d", board);
			if (board == day)
				CHECK(fleet_join(f, fleet_token(f, 1), key_of(board), name) == 200);
			if (board <= day && board < BOARDS - 1) /* the last board sends nothing */
				send_day(f, board, day - board);
		}
		strangers(f, day);
		CHECK_OK(fleet_flush(f));
		CHECK(fleet_round(f) == 1);
	}
	fleet_now_s -= DAY_S;
}

TEST(a_fleets_first_days)
{
	struct fleet *f = open_fleet();
	char path[96];
	REQUIRE(f);
	live(f);
	CHECK(fleet_get(f, "/v1/api/overview") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL);
	json_int_t boards = 0, silent = 0, all = 0, sped = 0, refused = 0, kernels = 0;
	double mean = 0;
	CHECK(json_unpack(j, "{s:{s:I,s:I},s:I,s:{s:I},s:{s:I,s:f},s:{s:I}}", "boards", "all", &boards,
			  "silent", &silent, "kernels", &kernels, "on_channel", "all", &all, "speedups",
			  "kernels", &sped, "geometric_mean", &mean, "refused", "batch", &refused) == 0);
	CHECK(boards == BOARDS && silent == 1 && kernels == 2 * KERNELS && refused >= 1);
	CHECK(all >= KERNELS && sped == all && mean > 1.5 && mean < 4);
	json_decref(j);
	snprintf(path, sizeof path, "/v1/api/classes/%s", cls[0]);
	CHECK(fleet_get(f, path) == 200 && fleet_number("boards") == 10 && fleet_number("all") == KERNELS);
	CHECK(strstr(fleet_text, label[0]));
	snprintf(path, sizeof path, "/v1/api/classes/%s/models", cls[0]);
	CHECK(fleet_get(f, path) == 200 && fleet_number("total") == 3);
	snprintf(path, sizeof path, "/v1/api/classes/%s/kernels", cls[0]);
	CHECK(fleet_get(f, path) == 200 && strstr(fleet_text, "\"speedup\":4.9"));
	CHECK(!strstr(fleet_text, "\"label\":\"matmul\"")); /* the label is made of the task */
	snprintf(path, sizeof path, "/v1/api/boards/%s/words", id_of(1));
	CHECK(fleet_get(f, path) == 200 && fleet_number("total") == KERNELS);
	fleet_close(f);
}

/* Figures of a kernel are bounded: they are the median of the first boards. */
TEST(gains_are_of_few_boards)
{
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f = NULL;
	struct post p = {.n = 0};
	c.board_day = 1000;
	CHECK_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	REQUIRE(f);
	for (int board = 0; board < 3; board++) {
		CHECK(fleet_join(f, fleet_token(f, 1), key_of(board), "x") == 200);
		add_rec(&p, board, 0, REC_DEFAULT, board == 2 ? INT64_C(900000000) : 1000000 + board);
		CHECK(send_off(f, &p, board) == 202);
	}
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 3);
	CHECK(db_exec(fleet_conn(f), "SELECT key FROM kernels WHERE before_ns = 1000001 AND boards = 3", NULL,
		      0, NULL, NULL) == 1);
	add_rec(&p, 2, 0, REC_DEFAULT, 999);
	CHECK(send_off(f, &p, 2) == 202); /* board 2 changes its figures */
	CHECK(fleet_digest(f, fleet_conn(f), 100) == 1);
	CHECK(db_exec(fleet_conn(f), "SELECT key FROM kernels WHERE before_ns = 1000000 AND boards = 3", NULL,
		      0, NULL, NULL) == 1);
	CHECK(db_exec(fleet_conn(f), "SELECT key FROM gains", NULL, 0, NULL, NULL) == 3);
	fleet_close(f);
}

TEST_MAIN
