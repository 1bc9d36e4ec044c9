/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that operators see, and their API. Past 800 lines because every page shows the one small fleet that
 * is made here. */
#include "tests/lib/fleet.h"
#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_data.h"
#include "tools/fleet/fleet_figures.h"
#include "tools/fleet/fleet_form.h"
#include "tools/fleet/fleet_round.h"
#include "platform/base/mix.h"

#include <ctype.h>

#define TOKEN "0123456789abcdef0123456789abcdef01234567"
#define EVIL "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;\x1b[31m"
#define STRANGE "\xe2\x80\xae\xff\xfe<u>"
#define BOARD "00000000000000000000000000000b0a"

/* A server with an admin token; a file has the token's hash. */
static struct fleet *begin_with(const char *cert)
{
	struct fleet_conf c = fleet_conf_test();
	c.cert = cert;
	static char path[256];
	struct fleet *f = NULL;
	char id[66];
	CHECK_OK(store_token_id(TOKEN, id));
	strcat(id, "\n");
	fleet_file("admin", id, strlen(id));
	snprintf(path, sizeof path, "%s", fleet_path("admin"));
	c.admin = path;
	CHECK_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	return f;
}

static struct fleet *begin(void)
{
	return begin_with(NULL);
}

static void run(struct fleet *f, const char *sql)
{
	CHECK_OK(db_exec(fleet_conn(f), sql, NULL, 0, NULL, NULL));
}

static void add_board(struct fleet *f, const char *id, const char *name, const char *label, int64_t last_s)
{
	CHECK_OK(db_exec(
	    fleet_conn(f),
	    "INSERT INTO boards (id, public, name, class, label, batches, records, enrolled_s, "
	    "last_s) VALUES ($1, $2, $3, $4, $5, 3, 40, $6, $6)",
	    DB_PARAMS(DB_T(id), DB_B("x", 1), DB_T(name), DB_T(fleet_class), DB_T(label), DB_I(last_s)), NULL,
	    NULL));
}

/* Writes what a round would: kernel i is on the first `channels` channels and `gain` times as fast as
 * untuned. */
static void add_kernel(struct fleet *f, int i, int channels, double gain)
{
	char key[33], cand[33];
	key_text(mix_bytes(&i, sizeof i, 1), key);
	key_text(mix_bytes(&i, sizeof i, 2), cand);
	CHECK_OK(db_exec(fleet_conn(f),
			 "INSERT INTO kernels (class, type, key, label, device, threads, before_ns, boards, "
			 "since_s) VALUES ($1, 1, $2, 'conv 3x3 64->64', 'cpu', 4, 3000000, 2, $3)",
			 DB_PARAMS(DB_T(fleet_class), DB_T(key), DB_I(fleet_now_s)), NULL, NULL));
	for (int channel = 0; channel < channels; channel++)
		CHECK_OK(db_exec(fleet_conn(f),
				 "INSERT INTO shown (class, channel, type, key, cand, since_s, now, "
				 "median_ns, boards, line) VALUES ($1, $2, 1, $3, $4, $5, 1, $6, 3, '{}')",
				 DB_PARAMS(DB_T(fleet_class), DB_I(channel), DB_T(key), DB_T(cand),
					   DB_I(fleet_now_s), DB_I((int64_t)(3e6 / gain))),
				 NULL, NULL));
}

/* Writes what a board said of kernel i. */
static void add_word(struct fleet *f, int i, const char *cand, const char *board, bool failed)
{
	char key[33];
	key_text(mix_bytes(&i, sizeof i, 1), key);
	CHECK_OK(db_exec(
	    fleet_conn(f),
	    "INSERT INTO words (class, type, key, cand, board, median_ns, failed, said_s) VALUES "
	    "($1, 1, $2, $3, $4, 1000, $5, $6)",
	    DB_PARAMS(DB_T(fleet_class), DB_T(key), DB_T(cand), DB_T(board), DB_I(failed), DB_I(fleet_now_s)),
	    NULL, NULL));
}

static int ask(struct fleet *f, const char *path, const char *query)
{
	return fleet_ask(
	    f, &(struct fleet_request){.method = "GET", .path = path, .query = query, .local = true});
}

static int order(struct fleet *f, const char *path, const char *token, const char *body)
{
	char bearer[128];
	snprintf(bearer, sizeof bearer, "Bearer %s", token ? token : "");
	return fleet_ask(f, &(struct fleet_request){.method = "POST",
						    .path = path,
						    .query = "",
						    .authorization = token ? bearer : NULL,
						    .body = body,
						    .n = strlen(body),
						    .peer = "192.0.2.7"});
}

static int form(struct fleet *f, const char *path, const char *cookie, const char *body)
{
	return fleet_ask(f, &(struct fleet_request){.method = "POST",
						    .path = path,
						    .query = "",
						    .cookie = cookie,
						    .body = body,
						    .n = strlen(body),
						    .peer = "192.0.2.8"});
}

static int64_t number_of(struct fleet *f, const char *sql)
{
	return db_exec(fleet_conn(f), sql, NULL, 0, NULL, NULL);
}

/* Checks that a text is well-formed HTML: each element that needs an end is closed by its own name,
 * attributes are in double quotes, and text has no bare & or <. Returns NULL if it is, else the place of the
 * error. */
struct check {
	char open[64][16];
	int depth;
};

static const char *check_attributes(const char *p)
{
	while (*p && *p != '>' && *p != '/') {
		while (isspace((unsigned char)*p))
			p++;
		if (*p == '>' || *p == '/')
			break;
		size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789");
		if (!n)
			return NULL;
		p += n;
		if (*p != '=')
			continue;
		if (p[1] != '"' || !(p = strchr(p + 2, '"')))
			return NULL;
		p++;
	}
	return p;
}

static const char *check_tag(struct check *k, const char *p)
{
	static const char *const alone[] = {"meta", "link", "input", "br", "img"};
	char name[16];
	const bool end = *p == '/';
	p += end;
	size_t n = strcspn(p, " />\n");
	if (!n || n >= sizeof name)
		return NULL;
	snprintf(name, sizeof name, "%.*s", (int)n, p);
	p = check_attributes(p + n);
	if (!p || (end && (!k->depth || strcmp(k->open[--k->depth], name) != 0)))
		return NULL;
	bool closed = end || *p == '/';
	for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
		closed |= !strcmp(alone[i], name);
	if (!closed && k->depth < 63)
		strcpy(k->open[k->depth++], name);
	p += *p == '/';
	return *p == '>' ? p + 1 : NULL;
}

static const char *not_well(const char *html)
{
	struct check k = {.depth = 0};
	const char *p = html + strlen("<!DOCTYPE html>\n");
	if (strncmp(html, "<!DOCTYPE html>\n", 16) != 0)
		return html;
	while (*p) {
		const char *at = p;
		if (*p == '<')
			p = check_tag(&k, p + 1);
		else if (*p == '&')
			p = p[1 + strspn(p + 1, "#abcdefghijklmnopqrstuvwxyz0123456789")] == ';' ? p + 1
												 : NULL;
		else
			p++;
		if (!p)
			return at;
	}
	return k.depth ? "an element is not closed" : NULL;
}

static int page(struct fleet *f, const char *path, const char *query)
{
	int status = ask(f, path, query);
	const char *bad = not_well(fleet_text);
	if (bad)
		printf("%s: not well formed: %.80s\n", path, bad);
	CHECK(!bad);
	CHECK(!strcmp(fleet_said.type, "text/html; charset=utf-8"));
	CHECK(fleet_said.policy && strstr(fleet_said.policy, "default-src 'none'"));
	CHECK(!strstr(fleet_text, "<script") && !strstr(fleet_text, "http://") &&
	      !strstr(fleet_text, "https://"));
	return status;
}

static const char *const pages[] = {"/",         "/page/boards", "/page/rejects", "/page/records",
				    "/page/log", "/page/sign-in"};
enum { PAGES = sizeof pages / sizeof *pages };

TEST(an_empty_fleet_says_what_to_do)
{
	struct fleet *f = begin();
	REQUIRE(f);
	CHECK(page(f, "/", "") == 200);
	CHECK(strstr(fleet_text, "hone-fleet token") && strstr(fleet_text, "Rollout: running"));
	CHECK(strstr(fleet_text, "Nothing was refused."));
	for (int i = 1; i < PAGES; i++)
		CHECK(page(f, pages[i], "") == 200);
	CHECK(page(f, "/page/class/0123456789abcdef0123456789abcdef", "") == 404);
	CHECK(page(f, "/page/board/" BOARD, "") == 404);
	CHECK(page(f, "/page/board/x", "") == 404);
	CHECK(ask(f, "/page/nothing", "") == 404);
	fleet_close(f);
}

TEST(one_board_is_no_plural)
{
	struct fleet *f = begin();
	REQUIRE(f);
	CHECK(page(f, "/", "") == 200 && strstr(fleet_text, "<span>boards</span>"));
	CHECK(strstr(fleet_text, "<span>records taken</span>") &&
	      strstr(fleet_text, "<span>requests refused"));
	fleet_close(f);
	f = begin(); /* since figures are kept for a while */
	REQUIRE(f);
	add_board(f, BOARD, "robot", "a machine", fleet_now_s);
	fleet_refused(f, COUNT_BATCH, &(struct fleet_request){.peer = "peer"}, BOARD, "bad");
	CHECK_OK(fleet_flush(f));
	CHECK(page(f, "/", "") == 200 && strstr(fleet_text, "1</b><span>board</span>"));
	CHECK(strstr(fleet_text, "1</b><span>request refused</span>"));
	fleet_close(f);
}

TEST(what_strangers_say_is_escaped)
{
	struct fleet *f = begin();
	REQUIRE(f);
	add_board(f, BOARD, EVIL, EVIL STRANGE, fleet_now_s);
	CHECK_OK(store_revoke(fleet_conn(f), BOARD, EVIL, fleet_now_s));
	fleet_refused(f, COUNT_BATCH, &(struct fleet_request){.peer = EVIL}, EVIL, EVIL STRANGE);
	CHECK_OK(fleet_flush(f));
	add_kernel(f, 1, 3, 2);
	run(f, "UPDATE kernels SET label = '<svg onload=alert(1)>', device = '\"><x>'");
	char path[2][96];
	snprintf(path[0], sizeof *path, "/page/class/%s", fleet_class);
	snprintf(path[1], sizeof *path, "/page/board/%s", BOARD);
	for (int i = 0; i < PAGES + 2; i++) {
		CHECK(page(f, i < PAGES ? pages[i] : path[i - PAGES], "") == 200);
		CHECK(!strstr(fleet_text, "<img") && !strstr(fleet_text, "<u>") &&
		      !strstr(fleet_text, "<x>"));
		CHECK(!strchr(fleet_text, '\x1b') && !strchr(fleet_text, '\xff'));
	}
	/* values of the query are escaped, too */
	CHECK(page(f, "/page/boards", "find=%22%3E%3Cscript%3E&class=%27%22&state=%3Cb%3E") == 200);
	CHECK(strstr(fleet_text, "&#34;&#62;&#60;script&#62;"));
	CHECK(page(f, "/page/rejects", "who=%3Cscript%3E&what=%00%ff") == 200);
	/* JSON has the strings unchanged */
	CHECK(ask(f, "/v1/api/boards", "") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL);
	const json_t *row = json_array_get(json_object_get(j, "boards"), 0);
	CHECK(strstr(json_string_value(json_object_get(row, "label")), "<script>"));
	json_decref(j);
	fleet_close(f);
}

TEST(names_stand_beside_ids)
{
	struct fleet *f = begin();
	char path[96];
	REQUIRE(f);
	add_board(f, BOARD, "robot-07", "a board", fleet_now_s);
	fleet_refused(f, COUNT_BATCH, &(struct fleet_request){.peer = "192.0.2.9"}, BOARD, "too long");
	CHECK_OK(fleet_flush(f));
	snprintf(path, sizeof path, "/page/board/%s", BOARD);
	const char *const with_name[] = {"/page/boards", "/page/rejects", path};
	for (int i = 0; i < 3; i++) {
		CHECK(page(f, with_name[i], "") == 200);
		CHECK(strstr(fleet_text, "<bdi>robot-07</bdi>") && strstr(fleet_text, BOARD));
	}
	CHECK(ask(f, "/v1/api/rejects", "") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL);
	const json_t *name = json_object_get(json_array_get(json_object_get(j, "rejects"), 0), "name");
	CHECK(json_is_string(name) && !strcmp(json_string_value(name), "robot-07"));
	json_decref(j);
	fleet_close(f);
}

TEST(pages_and_filters_have_bounds)
{
	struct fleet *f = begin();
	char id[33];
	REQUIRE(f);
	run(f, "BEGIN");
	for (int i = 0; i < 120; i++) {
		snprintf(id, sizeof id, "%032x", i);
		add_board(f, id, i % 2 ? "odd" : "even", "a machine", fleet_now_s - i);
	}
	run(f, "COMMIT");
	CHECK(ask(f, "/v1/api/boards", "") == 200);
	CHECK(fleet_number("total") == 120 && fleet_number("pages") == 3 && fleet_number("page") == 1);
	CHECK(ask(f, "/v1/api/boards", "page=3") == 200);
	json_t *j = json_loads(fleet_text, 0, NULL);
	CHECK(json_array_size(json_object_get(j, "boards")) == 20);
	json_decref(j);
	CHECK(ask(f, "/v1/api/boards", "page=99999") == 200 && fleet_number("page") == 3);
	CHECK(ask(f, "/v1/api/boards", "find=od") == 200 && fleet_number("total") == 60);
	CHECK(ask(f, "/v1/api/boards", "find=od&state=silent") == 200 && fleet_number("total") == 0);
	CHECK(ask(f, "/v1/api/boards", "find=%25") == 200 && fleet_number("total") == 0);
	static const char *const bad[] = {"page=0",  "page=-1",     "page=x",
					  "page=",   "page=100001", "page=99999999999999999999",
					  "find=%4", "find=%zz"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(ask(f, "/v1/api/boards", bad[i]) == 400);
		CHECK(page(f, "/page/boards", bad[i]) == 400);
	}
	CHECK(page(f, "/page/boards", "page=2&find=%65ven") == 200);
	CHECK(strstr(fleet_text, "/page/boards?page=1&amp;find=%65%76%65%6e\""));
	fleet_close(f);
}

TEST(a_class_and_its_kernels)
{
	struct fleet *f = begin();
	char path[96];
	REQUIRE(f);
	add_board(f, BOARD, "robot", "Pi 4", fleet_now_s);
	for (int i = 0; i < 10; i++)
		add_kernel(f, i, i < 4 ? 3 : i < 7 ? 1 : 0, 1 + i);
	run(f,
	    "INSERT INTO kernels (class, type, key, before_ns, after_ns, boards) VALUES "
	    "('0123456789abcdef0123456789abcdef', 5, '00000000000000000000000000000001', 9000000, 3000000, "
	    "1)");
	CHECK(ask(f, "/v1/api/overview", "") == 200);
	CHECK(fleet_number("kernels") == 10 && fleet_number("classes") == 1);
	json_t *j = json_loads(fleet_text, 0, NULL);
	json_int_t canary = 0, all = 0, sped = 0;
	double mean = 0;
	CHECK(json_unpack(j, "{s:{s:I,s:I},s:{s:I,s:f}}", "on_channel", "canary", &canary, "all", &all,
			  "speedups", "kernels", &sped, "geometric_mean", &mean) == 0);
	CHECK(canary == 7 && all == 4 && sped == 4 && mean > 2.21 && mean < 2.22); /* (1 2 3 4)^(1/4) */
	json_decref(j);
	snprintf(path, sizeof path, "/v1/api/classes/%s", fleet_class);
	CHECK(ask(f, path, "") == 200 && fleet_number("early") == 4 && fleet_number("boards") == 1);
	snprintf(path, sizeof path, "/v1/api/classes/%s/kernels", fleet_class);
	CHECK(ask(f, path, "") == 200 && fleet_number("total") == 10);
	CHECK(strstr(fleet_text, "\"speedup\":7.0"));
	snprintf(path, sizeof path, "/v1/api/classes/%s/models", fleet_class);
	CHECK(ask(f, path, "") == 200 && strstr(fleet_text, "\"speedup\":3.0"));
	snprintf(path, sizeof path, "/page/class/%s", fleet_class);
	CHECK(page(f, path, "") == 200 && strstr(fleet_text, "7.00×") && strstr(fleet_text, "4 of 10"));
	CHECK(ask(f, "/v1/api/classes/00000000000000000000000000000000", "") == 404);
	CHECK(ask(f, "/v1/api/classes/x", "") == 404 && ask(f, "/v1/api/boards/" BOARD, "") == 200);
	CHECK(page(f, "/", "") == 200 && strstr(fleet_text, "<svg"));
	fleet_close(f);
}

/* The last answer's text "waits" of kernel i; "": it has none. */
static void waits_of(int i, char out[32])
{
	char key[33];
	size_t at;
	json_t *j = json_loads(fleet_text, 0, NULL), *k;
	key_text(mix_bytes(&i, sizeof i, 1), key);
	snprintf(out, 32, "not listed");
	json_array_foreach(json_object_get(j, "kernels"), at,
			   k) if (!strcmp(json_string_value(json_object_get(k, "key")), key))
	    snprintf(out, 32, "%s", json_string_value(json_object_get(k, "waits")));
	json_decref(j);
}

/* A kernel that is not on channel all has a reason: too few boards report it, or none does. Boards that are
 * not believed do not count, nor do boards with another record. */
TEST(kernels_say_what_they_wait_for)
{
	static const char *const boards[] = {
	    BOARD, "b1000000000000000000000000000000", "b2000000000000000000000000000000",
	    "b3000000000000000000000000000000", "b4000000000000000000000000000000"};
	static const char *const want[] = {"", "3 boards", "1 board", "works nowhere", "not tuned"};
	struct fleet *f = begin();
	char path[96], waits[32];
	REQUIRE(f);
	for (int i = 0; i < 5; i++) {
		add_board(f, boards[i], "robot", "Pi 4", fleet_now_s);
		add_kernel(f, i, i ? 2 - i : 3, 2);
		add_word(f, 0, "a", boards[i], false);
		add_word(f, 1, i ? "a" : "b", boards[i], false);
		add_word(f, 2, "a", boards[i], i != 0);
		add_word(f, 3, "a", boards[i], true);
	}
	CHECK_OK(store_revoke(fleet_conn(f), boards[3], "it lies", fleet_now_s));
	snprintf(path, sizeof path, "/v1/api/classes/%s/kernels", fleet_class);
	CHECK(ask(f, path, "") == 200);
	for (int i = 0; i < 5; i++) {
		waits_of(i, waits);
		CHECK(!strcmp(waits, want[i]));
	}
	run(f, "UPDATE boards SET struck = 1 WHERE id = 'b4000000000000000000000000000000'");
	CHECK(ask(f, path, "") == 200);
	waits_of(1, waits);
	CHECK(!strcmp(waits, "2 boards"));
	snprintf(path, sizeof path, "/page/class/%s", fleet_class);
	CHECK(page(f, path, "") == 200 && strstr(fleet_text, "<bdi>works nowhere</bdi>"));
	CHECK(strstr(fleet_text,
		     "to channel canary when 1 board reports it, to early when 2 and to all when 3"));
	CHECK(page(f, "/page/rejects", "") == 200 && strstr(fleet_text, "next round has read it, every "));
	fleet_close(f);
}

TEST(orders_need_the_token_and_are_logged)
{
	struct fleet *f = begin();
	REQUIRE(f);
	add_board(f, BOARD, "robot", "Pi 4", fleet_now_s);
	CHECK(order(f, "/v1/admin/stop", NULL, "") == 401);
	CHECK(order(f, "/v1/admin/stop", "wrong", "") == 403);
	CHECK(order(f, "/v1/admin/stop", "", "") == 403);
	CHECK(rollout_stopped(fleet_conn(f)) == 0 && number_of(f, "SELECT what FROM admin") == 0);
	CHECK(fleet_counted(f, COUNT_ADMIN) == 3);
	CHECK(order(f, "/v1/admin/stop", TOKEN, "{\"why\":\"slow <robots>\"}") == 200);
	CHECK(fleet_number("stopped") == 1 && rollout_stopped(fleet_conn(f)) == 1);
	CHECK(page(f, "/", "") == 200 && strstr(fleet_text, "Rollout: stopped"));
	CHECK(strstr(fleet_text, "stop: slow &#60;robots&#62;") && strstr(fleet_text, "wrong admin token"));
	CHECK(order(f, "/v1/admin/go-on", TOKEN, "{}") == 200 && rollout_stopped(fleet_conn(f)) == 0);
	CHECK(order(f, "/v1/admin/revoke", TOKEN, "{\"board\":\"" BOARD "\",\"why\":\"lies\"}") == 200);
	CHECK(ask(f, "/v1/api/boards", "state=revoked") == 200 && fleet_number("total") == 1);
	CHECK(order(f, "/v1/admin/unrevoke", TOKEN, "{\"board\":\"" BOARD "\"}") == 200);
	CHECK(order(f, "/v1/admin/revoke", TOKEN, "{\"record\":\"" BOARD "\",\"why\":\"wrong\"}") == 200);
	CHECK(ask(f, "/v1/api/revoked", "") == 200 && fleet_number("total") == 1);
	CHECK(order(f, "/v1/admin/unrevoke", TOKEN, "{\"record\":\"" BOARD "\"}") == 200);
	CHECK(ask(f, "/v1/api/revoked", "") == 200 && fleet_number("total") == 0);
	CHECK(order(f, "/v1/admin/withdraw", TOKEN, "{\"class\":\"all\"}") == 200 &&
	      fleet_number("stopped") == 1);
	CHECK(ask(f, "/v1/api/log", "") == 200 && fleet_number("total") == 7 + 3);
	fleet_close(f);
}

TEST(orders_that_lack_something)
{
	struct fleet *f = begin();
	static const struct {
		const char *order, *body;
		int status;
	} bad[] = {
	    {"/v1/admin/stop", "[]", 400},
	    {"/v1/admin/stop", "{\"why\":1}", 400},
	    {"/v1/admin/stop", "{\"why\":\"a\\u0000b\"}", 400},
	    {"/v1/admin/fly", "{}", 404},
	    {"/v1/admin/withdraw", "{}", 400},
	    {"/v1/admin/withdraw", "{\"class\":\"ALL\"}", 400},
	    {"/v1/admin/revoke", "{\"why\":\"x\"}", 400},
	    {"/v1/admin/revoke", "{\"board\":\"" BOARD "\",\"why\":\"x\"}", 404},
	    {"/v1/admin/revoke", "{\"board\":\"b\",\"why\":\"x\"}", 400},
	    {"/v1/admin/revoke", "{\"record\":\"" BOARD "\"}", 400},
	    {"/v1/admin/revoke", "{\"board\":\"" BOARD "\",\"record\":\"" BOARD "\",\"why\":\"x\"}", 400},
	    {"/v1/admin/revoke", "{\"board\":1,\"why\":\"x\"}", 400}};
	REQUIRE(f);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(order(f, bad[i].order, TOKEN, bad[i].body) == bad[i].status);
	CHECK(number_of(f, "SELECT what FROM admin") == 0);
	fleet_close(f);
}

TEST(many_guesses_are_slowed_down)
{
	struct fleet *f = begin();
	REQUIRE(f);
	int refused = 0, slow = 0;
	for (int i = 0; i < 40; i++) {
		int status = order(f, "/v1/admin/stop", "guess", "");
		refused += status == 403;
		slow += status == 429 && fleet_said.retry_after_s > 0;
	}
	CHECK(refused >= 4 && refused < 20 && refused + slow == 40);
	CHECK(order(f, "/v1/admin/stop", "guess", "") == 429);
	CHECK(order(f, "/v1/admin/stop", TOKEN, "") == 200); /* other peers' guesses do not keep it out */
	CHECK(rollout_stopped(fleet_conn(f)) == 1);
	for (int i = 0; i < 40; i++)
		slow += form(f, "/page/do/go-on", NULL, "token=guess") == 429;
	CHECK(slow > 40);
	CHECK(form(f, "/page/do/go-on", NULL, "token=" TOKEN) == 303);
	CHECK(rollout_stopped(fleet_conn(f)) == 0);
	fleet_close(f);
}

static void take_csrf(char csrf[65])
{
	const char *at = strstr(fleet_text, "name=\"csrf\" value=\"");
	*csrf = 0;
	if (at)
		snprintf(csrf, 65, "%.64s", at + strlen("name=\"csrf\" value=\""));
}

TEST(a_session_and_its_forms)
{
	struct fleet *f = begin();
	char cookie[128], csrf[65], body[256];
	REQUIRE(f);
	CHECK(form(f, "/page/sign-in", NULL, "token=wrong") == 403 && !fleet_said.cookie[0]);
	CHECK(form(f, "/page/sign-in", NULL, "token=" TOKEN) == 303);
	CHECK(strstr(fleet_said.cookie, "HttpOnly") && strstr(fleet_said.cookie, "SameSite=Strict") &&
	      strstr(fleet_said.cookie, "Secure"));
	CHECK(!strcmp(fleet_said.location, "/"));
	snprintf(cookie, sizeof cookie, "a=b; %.*s", (int)strcspn(fleet_said.cookie, ";"), fleet_said.cookie);
	CHECK(fleet_ask(f, &(struct fleet_request){
			       .method = "GET", .path = "/", .query = "", .cookie = cookie}) == 200);
	CHECK(strstr(fleet_text, "Sign out") && !strstr(fleet_text, "type=\"password\""));
	take_csrf(csrf);
	CHECK(strlen(csrf) == 64);
	/* A foreign site's form has the cookie at most, but not the csrf value. */
	CHECK(form(f, "/page/do/stop", cookie, "") == 403);
	CHECK(form(f, "/page/do/stop", cookie, "csrf=0000") == 403);
	CHECK(form(f, "/page/do/stop", cookie, "csrf=") == 403);
	CHECK(form(f, "/page/do/stop", NULL, "csrf=") == 403);
	CHECK(rollout_stopped(fleet_conn(f)) == 0);
	snprintf(body, sizeof body, "why=a+%%3Creason%%3E&csrf=%s", csrf);
	CHECK(form(f, "/page/do/stop", cookie, body) == 303 && rollout_stopped(fleet_conn(f)) == 1);
	CHECK(page(f, "/page/log", "") == 200 && strstr(fleet_text, "stop: a &#60;reason&#62;"));
	fleet_now_s += ADMIN_SESSION_S + 1;
	CHECK(form(f, "/page/do/go-on", cookie, body) == 403 && rollout_stopped(fleet_conn(f)) == 1);
	fleet_close(f);
}

TEST(a_session_ends)
{
	struct fleet *f = begin();
	char cookie[128], csrf[65], body[256];
	REQUIRE(f);
	CHECK(form(f, "/page/sign-in", NULL, "token=" TOKEN) == 303);
	snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(fleet_said.cookie, ";"), fleet_said.cookie);
	CHECK(fleet_ask(f, &(struct fleet_request){
			       .method = "GET", .path = "/", .query = "", .cookie = cookie}) == 200);
	take_csrf(csrf);
	snprintf(body, sizeof body, "csrf=%s", csrf);
	CHECK(form(f, "/page/sign-out", cookie, body) == 303);
	CHECK(form(f, "/page/do/stop", cookie, body) == 403);
	CHECK(number_of(f, "SELECT id FROM sessions") == 0);
	static const char *const none[] = {"__Host-hone=", "__Host-hone=x", "x__Host-hone=0", ";;;", "="};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		CHECK(fleet_ask(f, &(struct fleet_request){.method = "GET",
							   .path = "/",
							   .query = "",
							   .cookie = none[i],
							   .local = true}) == 200 &&
		      strstr(fleet_text, "Sign in"));
	fleet_close(f);
}

static int read_from(struct fleet *f, const char *path, const char *peer, const char *token,
		     const char *cookie)
{
	char bearer[128];
	snprintf(bearer, sizeof bearer, "Bearer %s", token ? token : "");
	return fleet_ask(f, &(struct fleet_request){.method = "GET",
						    .path = path,
						    .query = "",
						    .authorization = token ? bearer : NULL,
						    .cookie = cookie,
						    .peer = peer});
}

static void strangers_read_nothing(struct fleet *f)
{
	static const char stranger[] = "192.0.2.9";
	CHECK(read_from(f, "/", stranger, NULL, NULL) == 303);
	CHECK(read_from(f, "/page/boards", stranger, NULL, NULL) == 303);
	CHECK(read_from(f, "/v1/api/log", stranger, NULL, NULL) == 401);
	CHECK(read_from(f, "/v1/api/log", stranger, "wrong", NULL) == 403);
	CHECK(read_from(f, "/page/boards", stranger, NULL, SESSION_COOKIE "=" BOARD BOARD) == 303);
	CHECK(read_from(f, "/page/sign-in", stranger, NULL, NULL) == 200);
	CHECK(read_from(f, "/page/style.css", stranger, NULL, NULL) == 200);
	CHECK(read_from(f, "/v1/health", stranger, NULL, NULL) == 200);
	CHECK(read_from(f, "/v1/api/log", stranger, TOKEN, NULL) == 200);
	CHECK(ask(f, "/", "") == 200 && ask(f, "/v1/api/log", "") == 200);
	/* A local address proves nothing: a proxy on this machine has it, too, and anybody can write
	 * X-Real-IP. */
	CHECK(read_from(f, "/", "127.0.0.1", NULL, NULL) == 303);
	CHECK(read_from(f, "/v1/api/boards", "::1", NULL, NULL) == 401);
	CHECK(read_from(f, "/openapi.json", NULL, NULL, NULL) == 401);
	int last = 303;
	for (int i = 0; i < 2 * ADMIN_BURST && last == 303; i++)
		last = read_from(f, "/", stranger, NULL, NULL);
	CHECK(last == 429);
	CHECK(read_from(f, "/v1/api/log", stranger, TOKEN, NULL) == 200);
	fleet_close(f);
}

TEST(strangers_read_nothing_of_operators)
{
	struct fleet *plain = begin_with(NULL);
	if (plain)
		strangers_read_nothing(plain);
	struct fleet *tls = begin_with("server.pem");
	if (tls)
		strangers_read_nothing(tls);
}

/* Every route is closed, now and later, except those that boards and the sign-in need. */
TEST(a_route_is_closed_to_strangers_unless_it_says_so)
{
	static const char *const open[] = {"/v1/records",      "/v1/enrol",       "/v1/health",
					   "/v1/admin/*",      "/v1/root/*",      "/v1/blob/*",
					   "/v1/*/*/snapshot", "/page/style.css", "/page/sign-in",
					   "/page/sign-out",   "/page/do/*"};
	struct fleet *f = begin();
	REQUIRE(f);
	for (const struct fleet_route *k = fleet_routes; k->method; k++) {
		char path[160], peer[32];
		bool is_open = false;
		for (size_t i = 0; i < sizeof open / sizeof *open; i++)
			is_open |= !strcmp(open[i], k->path);
		CHECK(is_open == k->open);
		if (is_open || strcmp(k->method, "GET") != 0)
			continue;
		snprintf(path, sizeof path, "%s", k->path);
		for (char *star = strchr(path, '*'); star; star = strchr(path, '*'))
			*star = '0';
		snprintf(peer, sizeof peer, "192.0.2.%d", (int)(k - fleet_routes));
		int status = read_from(f, path, peer, NULL, NULL);
		if (status != 401 && status != 303)
			printf("%s: %d\n", path, status);
		CHECK(status == 401 || status == 303);
		CHECK(!fleet_text[0] || strstr(fleet_text, "Authorization"));
	}
	fleet_close(f);
}

TEST(without_a_token_nobody_orders)
{
	struct fleet *f = fleet_begin();
	REQUIRE(f);
	CHECK(order(f, "/v1/admin/stop", "", "") == 403);
	CHECK(form(f, "/page/do/stop", NULL, "token=") == 403);
	CHECK(form(f, "/page/sign-in", NULL, "token=") == 403);
	CHECK(rollout_stopped(fleet_conn(f)) == 0);
	fleet_close(f);
	struct fleet_conf c = fleet_conf_test();
	static char path[256];
	snprintf(path, sizeof path, "%s", fleet_path("bad"));
	fleet_file("bad", "not a hash", 10);
	c.admin = path;
	CHECK_FAILS(fleet_open(&c, &clock_real, fleet_date, &f), E_CORRUPT, "hone-fleet init");
}

TEST(forms_and_cookies)
{
	char out[8];
	static const char text[] = "a=1&bb=x+y&b=%41%00%0a&c&d=&e=12345678&f=%4&g=%zz";
	CHECK(form_get(text, strlen(text), "a", out, sizeof out) == 1 && !strcmp(out, "1"));
	CHECK(form_get(text, strlen(text), "bb", out, sizeof out) == 1 && !strcmp(out, "x y"));
	CHECK(form_get(text, strlen(text), "b", out, sizeof out) == 1 && !strcmp(out, "A??"));
	CHECK(form_get(text, strlen(text), "c", out, sizeof out) == 0 && !*out);
	CHECK(form_get(text, strlen(text), "d", out, sizeof out) == 1 && !*out);
	CHECK_FAILS(form_get(text, strlen(text), "e", out, sizeof out), E_USAGE, "too long");
	CHECK_FAILS(form_get(text, strlen(text), "f", out, sizeof out), E_USAGE, "bad percent-encoding");
	CHECK_FAILS(form_get(text, strlen(text), "g", out, sizeof out), E_USAGE, "bad percent-encoding");
	CHECK(form_get("", 0, "a", out, sizeof out) == 0 && form_get("a=%", 3, "a", out, sizeof out) < 0);
	CHECK(cookie_get("x=1; y=2;z=3", "y", out, sizeof out) == 1 && !strcmp(out, "2"));
	CHECK(cookie_get("x=1; yy=2", "y", out, sizeof out) == 0);
	CHECK(cookie_get("y=1234567", "y", out, sizeof out) == 1 &&
	      cookie_get("y=12345678", "y", out, 8) == 0);
	CHECK(cookie_get(NULL, "y", out, sizeof out) == 0);
}

/* The API's description has all routes, and only these. */

static const struct fleet_route *route_of(const char *method, const char *path)
{
	for (const struct fleet_route *k = fleet_routes; k->method; k++)
		if (!strcmp(k->method, method) && fleet_path_matches(path, k->path))
			return k;
	return NULL;
}

/* Replaces {parameters} by a value. */
static void fill_in(const char *path, char out[160])
{
	size_t n = 0;
	for (; *path; path++)
		if (*path == '{') {
			n += (size_t)snprintf(out + n, 40, "%s", BOARD);
			path = strchr(path, '}');
		} else {
			out[n++] = *path;
		}
	out[n] = 0;
}

TEST(the_description_has_every_route)
{
	json_t *doc = json_loadb(fleet_data_openapi, (size_t)(fleet_data_openapi_end - fleet_data_openapi),
				 JSON_REJECT_DUPLICATES, NULL);
	const char *path, *method;
	json_t *ops, *op;
	bool seen[64] = {false};
	REQUIRE(doc);
	CHECK(!strncmp(json_string_value(json_object_get(doc, "openapi")), "3.", 2));
	json_object_foreach(json_object_get(doc, "paths"), path, ops) json_object_foreach(ops, method, op)
	{
		char real[160], upper[8];
		int i = 0;
		for (; method[i] && i < 7; i++)
			upper[i] = (char)toupper((unsigned char)method[i]);
		upper[i] = 0;
		fill_in(path, real);
		const struct fleet_route *k = route_of(upper, real);
		if (!k)
			printf("no route answers %s %s\n", upper, path);
		CHECK(k);
		CHECK(json_is_string(json_object_get(op, "summary")) &&
		      json_object_size(json_object_get(op, "responses")) > 0);
		if (k)
			seen[k - fleet_routes] = true;
	}
	for (const struct fleet_route *k = fleet_routes; k->method; k++) {
		if (!seen[k - fleet_routes])
			printf("%s %s is not described\n", k->method, k->path);
		CHECK(seen[k - fleet_routes]);
	}
	json_decref(doc);
}

/* Checks an answer against its description: the names of all objects, and the types of their values. */
static bool is_kind(const json_t *v, const char *kind)
{
	static const struct {
		const char *name;
		int types[2];
	} kinds[] = {{"string", {JSON_STRING, JSON_STRING}}, {"integer", {JSON_INTEGER, JSON_INTEGER}},
		     {"number", {JSON_REAL, JSON_INTEGER}},  {"boolean", {JSON_TRUE, JSON_FALSE}},
		     {"object", {JSON_OBJECT, JSON_OBJECT}}, {"array", {JSON_ARRAY, JSON_ARRAY}},
		     {"null", {JSON_NULL, JSON_NULL}}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, kind))
			return (int)json_typeof(v) == kinds[i].types[0] ||
			       (int)json_typeof(v) == kinds[i].types[1];
	return false;
}

static bool fits(const json_t *doc, const json_t *schema, const json_t *v);

static bool fits_object(const json_t *doc, const json_t *schema, const json_t *v)
{
	const char *name;
	json_t *value, *kind = json_object_get(schema, "properties");
	json_object_foreach((json_t *)v, name, value)
	{
		const json_t *of = json_object_get(kind, name);
		of = of ? of : json_object_get(schema, "additionalProperties");
		if (!of || !fits(doc, of, value)) {
			printf("%s is not as described\n", name);
			return false;
		}
	}
	size_t i;
	json_array_foreach(json_object_get(schema, "required"), i,
			   value) if (!json_object_get(v, json_string_value(value))) return false;
	return true;
}

static bool fits(const json_t *doc, const json_t *schema, const json_t *v)
{
	const char *ref = json_string_value(json_object_get(schema, "$ref"));
	const json_t *type = json_object_get(schema, "type"), *item;
	bool good = false;
	size_t i;
	if (ref)
		return fits(doc,
			    json_object_get(json_object_get(json_object_get(doc, "components"), "schemas"),
					    strrchr(ref, '/') + 1),
			    v);
	json_array_foreach(type, i, item) good |= is_kind(v, json_string_value(item));
	if (!good && (!json_is_string(type) || !is_kind(v, json_string_value(type))))
		return false;
	json_array_foreach(v, i, item) if (!fits(doc, json_object_get(schema, "items"), item)) return false;
	return !json_is_object(v) || fits_object(doc, schema, v);
}

TEST(answers_are_as_described)
{
	static const char *const paths[][2] = {
	    {"/v1/api/overview", "/v1/api/overview"},
	    {"/v1/api/classes", "/v1/api/classes"},
	    {"/v1/api/classes/{class}/kernels", "/v1/api/classes/0123456789abcdef0123456789abcdef/kernels"},
	    {"/v1/api/boards", "/v1/api/boards"},
	    {"/v1/api/boards/{board}", "/v1/api/boards/" BOARD},
	    {"/v1/api/boards/{board}/words", "/v1/api/boards/" BOARD "/words"},
	    {"/v1/api/rejects", "/v1/api/rejects"},
	    {"/v1/api/revoked", "/v1/api/revoked"},
	    {"/v1/api/log", "/v1/api/log"}};
	json_t *doc =
	    json_loadb(fleet_data_openapi, (size_t)(fleet_data_openapi_end - fleet_data_openapi), 0, NULL);
	struct fleet *f = begin();
	REQUIRE(f && doc);
	add_board(f, BOARD, "robot", "Pi 4", fleet_now_s);
	add_kernel(f, 1, 2, 3);
	run(f, "INSERT INTO words (class, type, key, cand, board, median_ns, said_s) VALUES ('c', 1, 'k', "
	       "'d', '" BOARD "', 7, 8)");
	CHECK(order(f, "/v1/admin/revoke", TOKEN, "{\"record\":\"" BOARD "\",\"why\":\"wrong\"}") == 200);
	CHECK(order(f, "/v1/admin/stop", "x", "") == 403);
	CHECK_OK(fleet_flush(f));
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		const json_t *schema = NULL;
		CHECK(ask(f, paths[i][1], "") == 200);
		json_t *v = json_loads(fleet_text, 0, NULL);
		CHECK(json_unpack(json_object_get(doc, "paths"), "{s:{s:{s:{s:{s:{s:{s:o}}}}}}}", paths[i][0],
				  "get", "responses", "200", "content", "application/json", "schema",
				  &schema) == 0);
		bool good = fits(doc, schema, v);
		if (!good)
			printf("%s: not as described\n", paths[i][0]);
		CHECK(good);
		json_decref(v);
	}
	json_decref(doc);
	fleet_close(f);
}

TEST_MAIN
