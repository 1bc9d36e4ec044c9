/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet as a program, as boards and strangers on the network use it. */
#include "tests/lib/fleet.h"
#include "tests/lib/fleet_server.h"
#include "tools/fleet/fleet_http.h"
#include "tools/fleet/fleet_links.h"

#include <curl/curl.h>
#include <sys/resource.h>

static char said[1 << 20]; /* the last answer */

static bool start(struct server *s)
{
	if (!fleet_dir[0])
		fleet_keys();
	char *argv[] = {NULL,        "serve",
			"--listen",  "127.0.0.1:0",
			"--db",      (char *)fleet_path("fleet.db"),
			"--keys",    (char *)fleet_path("keys"),
			"--publish", (char *)fleet_path("publish"),
			"--every",   "1h",
			NULL};
	return server_start(s, fleet_path("log"), argv);
}

static int ask(const struct server *s, const char *head, const void *body, size_t n)
{
	int fd = server_connect(s);
	bool put = fd >= 0 && server_put(fd, head, strlen(head)) && server_put(fd, body, n);
	int status = fd >= 0 ? server_take(fd, said, sizeof said, strncmp(head, "HEAD", 4) != 0) : -1;
	(void)put;
	if (fd >= 0)
		close(fd);
	return status;
}

static int get(const struct server *s, const char *path, const char *headers)
{
	char head[1024];
	snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
	return ask(s, head, "", 0);
}

static int post(const struct server *s, const char *path, const void *body, size_t n)
{
	char head[256];
	snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
		 path, n);
	return ask(s, head, body, n);
}

static const char *errors_to = "/dev/null"; /* where the commands' standard error goes */

/* Runs hone-fleet WORDS on the server's database. Returns its first line; NULL: it failed. */
static const char *try_command(const char *words)
{
	static char line[1024];
	char text[PATH_MAX + 512];
	snprintf(text, sizeof text, "%s %s --db %s 2>%s", server_program(), words, fleet_path("fleet.db"),
		 errors_to);
	FILE *p = popen(text, "r");
	if (!p || !fgets(line, sizeof line, p))
		line[0] = 0;
	line[strcspn(line, "\n")] = 0;
	return p && pclose(p) == 0 ? line : NULL;
}

static const char *command(const char *words)
{
	const char *line = try_command(words);
	if (!line || !*line)
		printf("%s: fails\n", words), test_bad = 1;
	return line ? line : "";
}

static int join(const struct server *s, const struct private_key *key)
{
	struct buf csr = {0};
	CHECK_OK(csr_write(key, "robot", &csr));
	json_t *j = json_pack("{s:s,s:s}", "token", command("token -q"), "csr", buf_str(&csr));
	char *body = json_dumps(j, 0);
	int status = post(s, "/v1/enrol", body, strlen(body));
	free(body);
	json_decref(j);
	buf_free(&csr);
	return status;
}

/* A board enrols with a token that another process made meanwhile, and acknowledged batches survive a
 * kill. */
TEST(a_board_joins_sends_and_nothing_is_lost)
{
	struct server s;
	struct buf b = {0};
	const struct private_key *key = keys(3)->private[2];
	REQUIRE(start(&s));
	CHECK(get(&s, "/v1/health", "") == 200 && strstr(said, "\"ok\":true"));
	CHECK(join(&s, key) == 200 && strstr(said, "BEGIN CERTIFICATE"));
	fleet_batch(key, 0, 3, 1000, &b);
	CHECK(post(&s, "/v1/records", b.p, b.n) == 202 && strstr(said, "\"known\":false"));
	CHECK(strstr(said, "Cache-Control: no-store"));
	CHECK(server_stop(&s, SIGKILL) == 128 + SIGKILL);
	REQUIRE(start(&s));
	CHECK(post(&s, "/v1/records", b.p, b.n) == 202 && strstr(said, "\"known\":true"));
	b.p[b.n - 2] ^= 1;
	CHECK(post(&s, "/v1/records", b.p, b.n) == 401);
	CHECK(strlen(command("boards --json")) > 40);
	CHECK(server_stop(&s, SIGTERM) == 0);
	buf_free(&b);
}

/* The command prints this JSON object, as json_pack makes it, and nothing else. */
static void check_answer(const char *words, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	json_t *want = json_vpack_ex(NULL, 0, format, ap), *got = json_loads(command(words), 0, NULL);
	va_end(ap);
	if (!json_equal(want, got))
		printf("%s: not as wanted\n", words);
	CHECK(want && json_equal(want, got));
	json_decref(want);
	json_decref(got);
}

/* The name with which a board joined, and the one that an operator gave it, beside its id. */
TEST(boards_have_names)
{
	static const char *const bad[] = {"'<b>'", "'a b'", "''", "../x",
					  "1234567890123456789012345678901234567890123456789012345678901234"};
	struct server s;
	struct buf batch = {0};
	const struct private_key *key = keys(3)->private[2];
	struct public_key pub;
	char id[KEY_ID_HEX + 1], other[KEY_ID_HEX + 1], words[256];
	private_key_public(key, &pub);
	public_key_id(&pub, id);
	REQUIRE(start(&s));
	CHECK(join(&s, key) == 200);
	json_t *j = json_loads(command("boards --json"), 0, NULL);
	json_t *b = json_array_get(json_object_get(j, "boards"), 0);
	CHECK(json_is_string(json_object_get(b, "id")) &&
	      !strcmp(json_string_value(json_object_get(b, "id")), id));
	CHECK(json_is_string(json_object_get(b, "name")) &&
	      !strcmp(json_string_value(json_object_get(b, "name")), "robot"));
	json_decref(j);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(words, sizeof words, "rename %s %s", id, bad[i]);
		CHECK(!try_command(words));
	}
	CHECK(!try_command("rename 00000000000000000000000000000b0a arm"));
	CHECK(!try_command("rename arm arm"));
	snprintf(words, sizeof words, "rename %s arm-3.lab", id);
	CHECK(try_command(words));
	j = json_loads(command("boards --json"), 0, NULL);
	b = json_array_get(json_object_get(j, "boards"), 0);
	CHECK(json_is_string(json_object_get(b, "name")) &&
	      !strcmp(json_string_value(json_object_get(b, "name")), "arm-3.lab"));
	json_decref(j);
	errors_to = "&1";
	const char *words_of = try_command("rename arm-3.lab arm-4"); /* by name */
	errors_to = "/dev/null";
	CHECK(words_of && strstr(words_of, "its former name as long as it uploads nothing (upload = no)"));
	CHECK(strstr(command("boards --json"), "\"arm-4\""));
	fleet_batch(key, 0, 1, 1000, &batch); /* the board learns it */
	CHECK(post(&s, "/v1/records", batch.p, batch.n) == 202 && strstr(said, "\"board\":\"arm-4\""));
	buf_free(&batch);
	CHECK(!try_command("rename arm-3.lab arm-5"));
	CHECK(try_command("rename arm-4 arm-4"));
	check_answer("rename arm-4 arm-4 --json", "{ss ss}", "board", id, "name", "arm-4");
	check_answer("revoke arm-4 --why lost --json", "{ss sb}", "board", id, "revoked", 1);
	check_answer("revoke arm-4 --undo --json", "{ss sb}", "board", id, "revoked", 0);
	check_answer("revoke --record 00000000000000000000000000000b0a --why x --json", "{ss sb}", "record",
		     "00000000000000000000000000000b0a", "revoked", 1);
	CHECK(join(&s, keys(3)->private[1]) == 200);
	CHECK(!try_command("rename robot arm-4")); /* the name of another board */
	CHECK(strstr(command("boards --json"), "\"robot\""));
	snprintf(words, sizeof words, "rename %s robot", id);
	CHECK(!try_command(words));
	CHECK(join(&s, keys(3)->private[0]) == 200);
	CHECK(!try_command("rename robot arm-5")); /* of two boards */
	CHECK(!try_command("revoke robot --why lost"));
	for (int i = 0; i < 2; i++) { /* the error names both */
		private_key_public(keys(3)->private[i], &pub);
		public_key_id(&pub, other);
		char line[PATH_MAX];
		snprintf(line, sizeof line, "revoke robot --why lost --db %s 2>&1 | grep -o '%s' #",
			 fleet_path("fleet.db"), other);
		CHECK(!strcmp(command(line), other));
	}
	CHECK(strstr(command("boards --json"), "\"revoked\": false") ||
	      strstr(command("boards --json"), "\"revoked\":false"));
	snprintf(words, sizeof words, "rename %s arm-5", id);
	CHECK(try_command(words) && try_command("revoke arm-5 --why lost") &&
	      try_command("revoke arm-5 --undo"));
	snprintf(words, sizeof words, "rename %.8s arm-6", id); /* by the digits that the page shows */
	CHECK(try_command(words) && strstr(command("boards --json"), "\"arm-6\""));
	snprintf(words, sizeof words, "revoke %.3s --why lost", id); /* too few */
	CHECK(!try_command(words));
	snprintf(words, sizeof words, "rename arm-6 %.4s", other); /* a name goes before an id */
	CHECK(try_command(words));
	snprintf(words, sizeof words, "rename %.4s arm-7", other);
	CHECK(try_command(words));
	snprintf(words, sizeof words, "revoke %s --why lost", id);
	CHECK(strstr(command("boards --json"), "\"arm-7\"") && try_command(words));
	snprintf(words, sizeof words, "revoke %.8s --undo", id);
	CHECK(try_command(words));
	CHECK(!try_command(words)); /* it is not revoked */
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST(published_files_come_with_tags_and_ranges)
{
	struct server s;
	char headers[256];
	fleet_keys();
	fleet_file("publish/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		   "0123456789", 10);
	REQUIRE(start(&s));
	const char *path = "/v1/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	CHECK(get(&s, path, "") == 200 && strstr(said, "\r\n\r\n0123456789") && strstr(said, "immutable"));
	CHECK(get(&s, path, "Range: bytes=3-5\r\n") == 206 && strstr(said, "\r\n\r\n345"));
	CHECK(strstr(said, "Content-Range: bytes 3-5/10") && strstr(said, "Content-Length: 3"));
	CHECK(get(&s, path, "Range: bytes=10-\r\n") == 416 && strstr(said, "Content-Range: bytes */10"));
	CHECK(get(&s, path, "") == 200);
	char *etag = strstr(said, "ETag: ");
	REQUIRE(etag);
	snprintf(headers, sizeof headers, "If-None-Match: %.*s\r\n", (int)strcspn(etag + 6, "\r"), etag + 6);
	CHECK(get(&s, path, headers) == 304 && strlen(said) < 400);
	char head[512];
	snprintf(head, sizeof head, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	CHECK(ask(&s, head, "", 0) == 200 && strstr(said, "Content-Length: 10"));
	CHECK(get(&s, "/v1/blob/%2e%2e/%2e%2e/keys/fleet.key", "") == 404);
	CHECK(get(&s, "/v1/blob/../../keys/fleet.key", "") == 404);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* One connection, many requests. */
TEST(connections_are_kept_alive)
{
	struct server s;
	REQUIRE(start(&s));
	int fd = server_connect(&s);
	for (int i = 0; i < 100; i++) {
		static const char head[] = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
		CHECK(server_put(fd, head, strlen(head)) && server_take(fd, said, sizeof said, true) == 200);
	}
	close(fd);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST(what_is_no_request_is_refused)
{
	static const char *const bad[] = {
	    "GET\r\n\r\n",
	    "\x16\x03\x01\x02\r\n\r\n",
	    "GET / HTTP/9.9\r\n\r\n",
	    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
	    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
	    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	    "GET /v1/health HTTP/1.1\r\n\r\n"};
	struct server s;
	char *long_one = malloc(256 << 10);
	REQUIRE(start(&s));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int fd = server_connect(&s);
		CHECK(server_put(fd, bad[i], strlen(bad[i])));
		shutdown(fd, SHUT_WR);
		int status = server_take(fd, said, sizeof said, true);
		CHECK(status == 0 || (status >= 400 && status < 600));
		close(fd);
	}
	memset(long_one, 'a', 256 << 10);
	memcpy(long_one, "GET /", 5);
	int fd = server_connect(&s);
	(void)server_put(fd, long_one, 256 << 10); /* a header without end */
	int status = server_take(fd, said, sizeof said, true);
	CHECK(status == 0 || (status >= 400 && status < 500));
	close(fd);
	CHECK(get(&s, "/v1/health", "") == 200);
	CHECK(server_stop(&s, SIGTERM) == 0);
	free(long_one);
}

/* Too long a body is refused by its Content-Length, or without one when too many bytes came. */
TEST(an_oversized_body_is_refused)
{
	struct server s;
	char chunk[65536 + 32], head[160];
	REQUIRE(start(&s));
	snprintf(head, sizeof head,
		 "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		 FLEET_BODY + 1);
	CHECK(ask(&s, head, "", 0) == 413);
	int fd = server_connect(&s);
	static const char chunked[] =
	    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
	CHECK(server_put(fd, chunked, strlen(chunked)));
	int n = snprintf(chunk, sizeof chunk, "10000\r\n");
	memset(chunk + n, 'x', 65536);
	memcpy(chunk + n + 65536, "\r\n", 2);
	for (int i = 0; i < 20; i++)
		(void)server_put(fd, chunk, (size_t)n + 65538);
	(void)server_put(fd, "0\r\n\r\n", 5);
	CHECK(server_take(fd, said, sizeof said, true) == 413);
	close(fd);
	CHECK(get(&s, "/v1/health", "") == 200);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

static long rss_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* Memory of the process once it no longer grows. */
static long settled_kib(pid_t pid)
{
	long was = -1, now = rss_kib(pid);
	for (int same = 0; same < 10; same = now == was ? same + 1 : 0, was = now, now = rss_kib(pid))
		usleep(10000);
	return now;
}

enum { FLOOD = 200, HALF = 512 << 10 };

/* Many requests send half a body: the server holds what fits in HTTP_BODIES and refuses others, and boards
 * are answered once the flood is over. */
TEST(a_flood_of_half_bodies_is_bounded)
{
	struct server s;
	int fd[FLOOD];
	char *half = calloc(1, FLEET_BODY), head[160];
	REQUIRE(start(&s));
	long before = rss_kib(s.pid);
	snprintf(head, sizeof head,
		 "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", FLEET_BODY);
	for (int i = 0; i < FLOOD; i++) {
		fd[i] = server_connect(&s);
		REQUIRE(fd[i] >= 0 && server_put(fd[i], head, strlen(head)));
		(void)server_put(fd[i], half, HALF);
	}
	CHECK(get(&s, "/v1/health", "") == 200);
	long grown = settled_kib(s.pid) - before;
	if (!strstr(server_program(), "-san"))
		CHECK(grown < 2 * (HTTP_BODIES >> 10));
	int refused = 0;
	for (int i = FLOOD - 1; i >= 0; i--) {
		if (server_put(fd[i], half, FLEET_BODY - HALF) &&
		    server_take(fd[i], said, sizeof said, true) == 503)
			refused += strstr(said, "Retry-After:") != NULL;
		close(fd[i]);
	}
	CHECK(refused > 0);
	CHECK(get(&s, "/v1/health", "") == 200);
	CHECK(post(&s, "/v1/records", half, 1000) == 400);
	CHECK(server_stop(&s, SIGTERM) == 0);
	free(half);
}

/* Clients that send nothing, or half a line, delay nobody else. */
TEST(silent_clients_do_no_harm)
{
	enum { SILENT = 300 };
	struct server s;
	int fd[SILENT];
	REQUIRE(start(&s));
	for (int i = 0; i < SILENT; i++) {
		fd[i] = server_connect(&s);
		REQUIRE(fd[i] >= 0 && server_put(fd[i], "GET /v1/hea", (size_t)(i % 11)));
	}
	for (int i = 0; i < 20; i++)
		CHECK(get(&s, "/v1/health", "") == 200);
	CHECK(server_stop(&s, SIGTERM) == 0); /* they do not delay the end, either */
	for (int i = 0; i < SILENT; i++)
		close(fd[i]);
}

TEST(revoking_needs_a_reason)
{
	struct server s;
	char words[128], id[33];
	struct public_key public;
	const struct private_key *key = keys(3)->private[2];
	REQUIRE(start(&s));
	CHECK(join(&s, key) == 200);
	private_key_public(key, &public);
	public_key_id(&public, id);
	snprintf(words, sizeof words, "revoke -q %s", id);
	CHECK(!try_command(words));
	CHECK(get(&s, "/v1/api/boards?state=revoked", "") == 200 && strstr(said, "\"total\":0"));
	snprintf(words, sizeof words, "revoke -q %s --why lies", id);
	CHECK(try_command(words));
	CHECK(get(&s, "/v1/api/boards?state=revoked", "") == 200 && strstr(said, "\"total\":1"));
	snprintf(words, sizeof words, "revoke -q %s --undo", id);
	CHECK(try_command(words));
	CHECK(get(&s, "/v1/api/boards?state=revoked", "") == 200 && strstr(said, "\"total\":0"));
	CHECK(get(&s, "/v1/api/log", "") == 200 && strstr(said, "lies"));
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST(the_end_lets_a_request_end)
{
	struct server s;
	struct buf b = {0};
	char head[160];
	const struct private_key *key = keys(3)->private[2];
	int status = -1;
	REQUIRE(start(&s));
	CHECK(join(&s, key) == 200);
	fleet_batch(key, 40, 5, 1000, &b);
	snprintf(head, sizeof head,
		 "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
		 "%zu\r\n\r\n",
		 b.n);
	int fd = server_connect(&s), health = 200;
	CHECK(server_put(fd, head, strlen(head)));
	CHECK(server_take(fd, said, sizeof said, false) == 100); /* 100: the request has begun */
	CHECK(server_put(fd, b.p, b.n / 2));
	kill(s.pid, SIGTERM);
	for (int i = 0; i < 500 && health > 0; i++, usleep(10000))
		health = get(&s, "/v1/health", "");
	CHECK(health <= 0);
	CHECK(waitpid(s.pid, &status, WNOHANG) == 0);
	CHECK(server_put(fd, b.p + b.n / 2, b.n - b.n / 2));
	CHECK(server_take(fd, said, sizeof said, true) == 202);
	close(fd);
	CHECK(waitpid(s.pid, &status, 0) == s.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	buf_free(&b);
}

/* Deadlines are checked with a virtual clock. */
TEST(slow_requests_are_cut)
{
	static const char *const begun[] = {
	    "", "GET /v1/hea",
	    "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nab"};
	static struct clock time;
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f;
	struct fleet_http *h;
	struct server s = {0};
	int fd[3];
	char byte;
	time = clock_virtual(NS_PER_S);
	c.listen = "127.0.0.1:0";
	c.threads = 2;
	REQUIRE_OK(fleet_open(&c, &time, fleet_date, &f));
	REQUIRE_OK(fleet_http_open(f, &h));
	s.port = atoi(strrchr(fleet_http_url(h), ':') + 1);
	for (int i = 0; i < 3; i++) {
		fd[i] = server_connect(&s);
		CHECK(fd[i] >= 0 && server_put(fd[i], begun[i], strlen(begun[i])));
	}
	CHECK(get(&s, "/v1/health", "") == 200); /* the server has seen the earlier connections, too */
	clock_advance(&time, LINKS_HEAD_NS - NS_PER_S);
	fleet_http_sweep(h);
	for (int i = 0; i < 3; i++)
		CHECK(recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0);
	CHECK(server_put(fd[1], "l", 1)); /* one more byte does not extend the deadline */
	clock_advance(&time, 2 * NS_PER_S);
	usleep(50000);
	fleet_http_sweep(h);
	for (int i = 0; i < 2; i++)
		CHECK(recv(fd[i], &byte, 1, 0) <= 0);
	CHECK(recv(fd[2], &byte, 1, MSG_DONTWAIT) < 0);
	CHECK(server_put(fd[2], "c", 1));
	clock_advance(&time, LINKS_BODY_NS - LINKS_HEAD_NS);
	usleep(50000);
	fleet_http_sweep(h);
	CHECK(recv(fd[2], &byte, 1, 0) <= 0);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	CHECK(fleet_counted(f, COUNT_FLOOD) >= 3);
	CHECK(get(&s, "/v1/health", "") == 200);
	fleet_http_close(h, NS_PER_S);
	fleet_close(f);
}

/* TLS of its own. */

static CURLcode fetch(const char *url, const char *ca, long *status)
{
	CURL *c = curl_easy_init();
	FILE *null = fopen("/dev/null", "w");
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CAINFO, ca);
	curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, null);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 20L);
	CURLcode rc = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, status);
	curl_easy_cleanup(c);
	fclose(null);
	return rc;
}

static void make_keys(const char *where)
{
	char text[PATH_MAX + 512];
	snprintf(text, sizeof text, "%s init --keys %s --host 127.0.0.1 >/dev/null 2>&1", server_program(),
		 where);
	CHECK(system(text) == 0);
}

TEST(tls_of_its_own)
{
	struct server s;
	char url[64], cert[256], key[256], ca[256], other[256], dir[256];
	long status = 0;
	fleet_keys();
	snprintf(dir, sizeof dir, "%s", fleet_path("made"));
	make_keys(dir);
	make_keys(fleet_path("others"));
	snprintf(cert, sizeof cert, "%s", fleet_path("made/server.pem"));
	snprintf(key, sizeof key, "%s", fleet_path("made/server.key"));
	snprintf(ca, sizeof ca, "%s", fleet_path("made/ca.pem"));
	snprintf(other, sizeof other, "%s", fleet_path("others/ca.pem"));
	char *argv[] = {NULL,        "serve",
			"--listen",  "127.0.0.1:0",
			"--db",      (char *)fleet_path("tls.db"),
			"--keys",    dir,
			"--publish", (char *)fleet_path("publish"),
			"--cert",    cert,
			"--key",     key,
			NULL};
	REQUIRE(server_start(&s, fleet_path("log"), argv));
	snprintf(url, sizeof url, "https://127.0.0.1:%d/v1/health", s.port);
	CHECK(fetch(url, ca, &status) == CURLE_OK && status == 200);
	CHECK(fetch(url, other, &status) == CURLE_PEER_FAILED_VERIFICATION);
	snprintf(url, sizeof url, "https://localhost:%d/v1/health", s.port);
	CHECK(fetch(url, ca, &status) != CURLE_OK); /* a valid chain, but for another host */
	CHECK(get(&s, "/v1/health", "") != 200);    /* plain HTTP */
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* A second server on the port of the first says what to do, as does one with a misspelt key. */
TEST(a_port_that_is_in_use_and_a_misspelt_key)
{
	struct server s, other = {.port = 0};
	char at[64], text[4096];
	int status;
	REQUIRE(start(&s));
	snprintf(at, sizeof at, "127.0.0.1:%d", s.port);
	snprintf(other.log, sizeof other.log, "%s", fleet_path("log-2"));
	fleet_file("typo.conf", "[fleet]\nquroum = 1,1,1\n", 23);
	for (int i = 0; i < 2; i++) {
		char *argv[] = {(char *)server_program(),
				"serve",
				"--db",
				(char *)fleet_path("x.db"),
				"--keys",
				(char *)fleet_path("keys"),
				"--publish",
				(char *)fleet_path("publish-2"),
				i ? "--config" : "--listen",
				i ? (char *)fleet_path("typo.conf") : at,
				NULL};
		other.pid = server_spawn(other.log, argv);
		CHECK(waitpid(other.pid, &status, 0) == other.pid && WIFEXITED(status) &&
		      WEXITSTATUS(status));
		server_text(&other, text, sizeof text);
		CHECK(
		    strstr(text, i ? "typo.conf:2: quroum: no such key; did you mean quorum? there are: state, db, "
				   : "stop the other program, or choose another port with --listen"));
	}
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* The server says which stages it has, however short. */
TEST(the_stage_is_told)
{
	static const struct {
		const char *stage, *wait, *says;
	} says[] = {{"500ms", ", after 500ms on the channel before (", ", stage = 500ms)"},
		    {"90m", ", after 90m on the channel before (", ", stage = 90m)"},
		    {"24h", ", after 24h on the channel before (", ", stage = 24h)"},
		    {"0s", " agree on it, without stages (", ", stage = 0s)"}};
	fleet_keys();
	for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
		struct server s;
		char text[4096] = "";
		char *argv[] = {NULL,        "serve",
				"--listen",  "127.0.0.1:0",
				"--db",      (char *)fleet_path("stage.db"),
				"--keys",    (char *)fleet_path("keys"),
				"--publish", (char *)fleet_path("publish-stage"),
				"--stage",   (char *)says[i].stage,
				NULL};
		REQUIRE(server_start(&s, fleet_path("log"), argv));
		for (int k = 0; k < 1000 && !strstr(text, "stage = "); k++) {
			usleep(10000);
			server_text(&s, text, sizeof text);
		}
		if (!strstr(text, says[i].wait) || !strstr(text, says[i].says)) {
			printf("--stage %s: %s\n", says[i].stage, text);
			test_bad = 1;
		}
		CHECK(server_stop(&s, SIGTERM) == 0);
	}
}

/* A stage of less than a second is a stage: dates are whole seconds. */
TEST(a_short_stage_takes_a_second)
{
	CHECK(fleet_stage_s(&(struct fleet_conf){.stage_ns = 0}) == 0);
	CHECK(fleet_stage_s(&(struct fleet_conf){.stage_ns = 1}) == 1);
	CHECK(fleet_stage_s(&(struct fleet_conf){.stage_ns = NS_PER_S}) == 1);
	CHECK(fleet_stage_s(&(struct fleet_conf){.stage_ns = NS_PER_S + 1}) == 2);
}

/* A server that cannot start says why, and exits. */
TEST(a_wrong_configuration_is_told)
{
	static const struct {
		const char *option, *value, *says;
	} wrong[] = {{"--listen", "127.0.0.1", "write ADDRESS:PORT"},
		     {"--listen", "nowhere.invalid:80", "numeric"},
		     {"--listen", "127.0.0.1:65536", "a port is at most 65535"},
		     {"--listen", "127.0.0.1:4294967376", "a port is at most 65535"},
		     {"--db", "/nowhere/fleet.db", "its folder must exist"},
		     {"--keys", "/nowhere", "hone-fleet init"},
		     {"--cert", "/nowhere", "go together"},
		     {"--quorum", "3,2,1", "three whole numbers"},
		     {"--every", "0s", "1s to 1d"},
		     {"--config", "/nowhere.conf", "/nowhere.conf"}};
	char text[4096];
	fleet_keys();
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char *argv[] = {(char *)server_program(),
				"serve",
				"--db",
				(char *)fleet_path("x.db"),
				"--keys",
				(char *)fleet_path("keys"),
				"--publish",
				(char *)fleet_path("publish"),
				(char *)wrong[i].option,
				(char *)wrong[i].value,
				NULL};
		for (int k = 2; k < 8; k += 2)
			if (!strcmp(argv[k], wrong[i].option)) { /* an option is given once */
				argv[k + 1] = argv[9];
				argv[8] = NULL;
			}
		struct server s = {.port = 0};
		int status;
		snprintf(s.log, sizeof s.log, "%s", fleet_path("log"));
		s.pid = server_spawn(s.log, argv);
		waitpid(s.pid, &status, 0);
		server_text(&s, text, sizeof text);
		if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || !strstr(text, wrong[i].says)) {
			printf("%s %s: %s\n", wrong[i].option, wrong[i].value, text);
			test_bad = 1;
		}
	}
}

TEST_MAIN
