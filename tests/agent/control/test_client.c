/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the control socket's client against any program at the other end. */
#include "agent/control/client.h"
#include "tests/lib/around.h"
#include "tests/lib/fake_honed.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static int64_t in_ms(int64_t ms)
{
	return clock_now(&clock_real) + ms * NS_PER_MS;
}

static const struct request status = {.op = OP_STATUS};

/* After a hello, answers each request with f->said. */
static bool says(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)r;
	if (!fake_hello(op, id, out))
		buf_puts(out, f->said);
	return true;
}

static bool good(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f, (void)r;
	if (fake_hello(op, id, out))
		return true;
	buf_printf(out, "{\"event\":\"status\",\"n\":1}\n{\"id\":%lld,\"ok\":true,\"op\":\"%s\"}\n", id, op);
	if (!strcmp(op, "watch"))
		buf_puts(out, "{\"id\":77,\"ok\":true}\n{\"event\":\"status\",\"n\":2}\n{\"event\":"
			      "\"status\",\"n\":3}\n");
	return true;
}

TEST(a_request_has_its_reply)
{
	struct fake f = {.answer = good};
	struct client *c;
	const char *line;
	fake_folder(&f);
	fake_listen(&f);
	REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
	for (int i = 0; i < 100; i++) {
		REQUIRE_OK(client_ask(c, &status, in_ms(5000), &line));
		CHECK(strstr(line, "\"op\":\"status\"") && !strchr(line, '\n'));
	}
	client_close(c);
	REQUIRE_OK(client_open(f.socket, INT64_MAX, &c));
	REQUIRE_OK(client_ask(c, &(struct request){.op = OP_WATCH}, INT64_MAX, &line));
	for (int i = 2; i <= 3; i++) {
		REQUIRE_OK(client_next(c, in_ms(5000), &line));
		CHECK(strstr(line, i == 2 ? "\"n\":2" : "\"n\":3"));
	}
	CHECK_FAILS(client_next(c, in_ms(30), &line), E_TIMEOUT, "in time");
	CHECK_OK(client_ask(c, &status, in_ms(5000), &line)); /* still good */
	client_close(c);
	fake_hush(&f);
	fake_remove(&f);
}

TEST(no_listener)
{
	struct fake f = {0};
	struct client *c;
	char name[300];
	fake_folder(&f);
	CHECK_FAILS(client_open(NULL, in_ms(1000), &c), E_NOTFOUND, "no honed listens");
	CHECK_FAILS(client_open("/dev/null/honed", in_ms(1000), &c), E_NOTFOUND, "/dev/null/honed");
	int fd = open(f.socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); /* a file, no socket */
	close(fd);
	CHECK_FAILS(client_open(NULL, in_ms(1000), &c), E_NOTFOUND,
		    "; start it with systemctl start honed (without systemd: honed --config FILE, as root)");
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = 0;
	CHECK_FAILS(client_open(name, in_ms(1000), &c), E_USAGE, "longer than");
	fake_remove(&f);
}

TEST(refusals_are_errors_of_their_code)
{
	static const struct {
		const char *said;
		int rc;
		const char *text;
	} row[] = {
	    {"{\"id\":2,\"ok\":false,\"code\":\"busy\",\"error\":\"three jobs run\"}\n", E_BUSY,
	     "three jobs run"},
	    {"{\"ok\":false,\"code\":\"corrupt\",\"error\":\"what was that\"}\n", E_CORRUPT, "what was that"},
	    {"{\"id\":2,\"ok\":false,\"code\":\"good\"}\n", E_IO, "gave no reason"},
	    {"{\"id\":2,\"ok\":\"true\",\"code\":7,\"error\":[]}\n", E_IO, "gave no reason"},
	    {"{\"id\":2}\n", E_IO, "gave no reason"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake f = {.answer = says, .said = row[i].said};
		struct client *c;
		const char *line;
		fake_folder(&f);
		fake_listen(&f);
		REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
		CHECK_FAILS(client_ask(c, &status, in_ms(5000), &line), row[i].rc, row[i].text);
		client_close(c);
		fake_hush(&f);
		fake_remove(&f);
	}
}

TEST(another_program_at_the_socket)
{
	static const char deep[] = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n";
	static const char *const said[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
					   "\n",
					   "{}}\n",
					   "[1]\n",
					   "7\n",
					   "\"ok\"\n",
					   "{\"id\":2,\"id\":\n",
					   "\xff\xfe\x01\n",
					   deep};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		struct fake f = {.answer = says, .said = said[i]};
		struct client *c;
		const char *line;
		fake_folder(&f);
		fake_listen(&f);
		REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
		CHECK_FAILS(client_ask(c, &status, in_ms(5000), &line), E_CORRUPT, "not honed");
		client_close(c);
		fake_hush(&f);
		fake_remove(&f);
	}
}

static bool old_version(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)op, (void)r;
	if (f->said)
		buf_printf(out, "{\"id\":%lld,\"ok\":true,\"version\":%s}\n", id, f->said);
	else
		buf_printf(out, "{\"id\":%lld,\"ok\":false,\"code\":\"unsupported\",\"error\":\"only 9\"}\n",
			   id);
	return true;
}

TEST(another_version_is_refused)
{
	static const char *const said[] = {"1", "0", "\"2\"", "null", NULL};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		struct fake f = {.answer = old_version, .said = said[i]};
		struct client *c;
		fake_folder(&f);
		fake_listen(&f);
		CHECK_FAILS(client_open(NULL, in_ms(5000), &c), E_UNSUPPORTED,
			    said[i] ? "this hone uses version 2" : "only 9");
		fake_hush(&f);
		fake_remove(&f);
	}
}

static bool hangs_up(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)r;
	if (f->said || !fake_hello(op, id, out))
		buf_puts(out, "{\"id\":2,\"ok\":tr");
	return !f->said && !strcmp(op, "hello");
}

TEST(honed_closes_the_connection)
{
	for (int at_once = 0; at_once < 2; at_once++) {
		struct fake f = {.answer = hangs_up, .said = at_once ? "" : NULL};
		struct client *c = NULL;
		const char *line;
		fake_folder(&f);
		fake_listen(&f);
		int rc = client_open(NULL, in_ms(5000), &c);
		CHECK(at_once ? rc == E_IO : rc == 0);
		for (int i = 0; c && i < 2; i++) /* the second time the other end does not read any more */
			CHECK_FAILS(client_ask(c, &status, in_ms(5000), &line), E_IO,
				    "closed the connection");
		client_close(c);
		fake_hush(&f);
		fake_remove(&f);
	}
}

static bool silent(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)r;
	return (f->said && fake_hello(op, id, out)) || true;
}

TEST(honed_says_nothing)
{
	struct client *c;
	const char *line;
	struct fake f = {.answer = silent};
	fake_folder(&f);
	fake_listen(&f);
	CHECK_FAILS(client_open(NULL, in_ms(50), &c), E_TIMEOUT,
		    "in time; see systemctl status honed (without systemd, what honed prints)");
	f.said = "hello";
	REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
	CHECK_FAILS(client_ask(c, &status, in_ms(50), &line), E_TIMEOUT, "in time");
	CHECK_FAILS(client_ask(c, &status, in_ms(-50), &line), E_TIMEOUT, "in time");
	client_close(c);
	fake_hush(&f);
	fake_remove(&f);
}

/* Sends a line without end, or lines that answer nothing, as long as the client reads. */
static bool floods(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)r;
	if (!fake_hello(op, id, out))
		for (int i = 0; i < 40000; i++)
			buf_puts(out, f->said);
	return true;
}

TEST(floods_end)
{
	struct client *c;
	const char *line;
	struct fake f = {.answer = floods, .said = "{\"id\":2,\"ok\":true,"};
	fake_folder(&f);
	fake_listen(&f);
	REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
	CHECK_FAILS(client_ask(c, &status, in_ms(5000), &line), E_CORRUPT, "a line of more than");
	client_close(c);
	f.said = "{\"event\":\"status\"}\n";
	REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
	CHECK_FAILS(client_ask(c, &status, in_ms(100), &line), E_TIMEOUT, "");
	client_close(c);
	fake_hush(&f);
	fake_remove(&f);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* A caught signal ends the wait, and the next request is answered. */
TEST(signals_interrupt)
{
	struct client *c;
	const char *line;
	struct fake f = {.answer = good};
	struct sigaction sa = {.sa_handler = on_alarm};
	sigset_t none, all;
	sigfillset(&all);
	fake_folder(&f);
	pthread_sigmask(SIG_BLOCK, &all, &none); /* the thread inherits blocked signals */
	fake_listen(&f);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	sigaction(SIGALRM, &sa, NULL);
	REQUIRE_OK(client_open(NULL, in_ms(5000), &c));
	ualarm(20000, 20000);
	CHECK_FAILS(client_next(c, in_ms(20000), &line), E_STOPPED, "signal");
	ualarm(0, 0);
	CHECK_OK(client_ask(c, &status, in_ms(5000), &line));
	client_close(c);
	fake_hush(&f);
	fake_remove(&f);
}

TEST(a_socket_that_is_not_ours)
{
	struct client *c;
	struct fake f = {.answer = good};
	if (!test_root())
		SKIP("needs root, and other users");
	fake_folder(&f);
	fake_listen(&f);
	CHECK(chmod(f.dir, 0755) == 0 && chmod(f.socket, 0600) == 0 && seteuid(65534) == 0);
	CHECK_FAILS(client_open(NULL, in_ms(1000), &c), E_IO, "group");
	CHECK(seteuid(0) == 0);
	fake_hush(&f);
	fake_remove(&f);
}

TEST_MAIN
