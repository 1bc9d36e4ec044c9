/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request names this server. Each case is put together from parts whose verdict is known, and is
 * checked both with host_check and with the running program. */
#include "tests/lib/fleet.h"
#include "tests/lib/fleet_server.h"
#include "tools/fleet/fleet_host.h"

#include <ctype.h>

#define NAMES "fleet.example.org, *.boards.example.org 192.0.2.7\t2001:db8::7,[2001:db8::9]"
#define LABEL "a23456789012345678901234567890123456789012345678901234567890123" /* 63 letters */

enum verdict { OURS, FOREIGN, BAD, VERDICTS };

struct part {
	const char *text;
	enum verdict verdict;
};

static const struct part hosts[] = {
    {"localhost", OURS},
    {"127.0.0.1", OURS},
    {"127.9.8.7", OURS},
    {"[::1]", OURS},
    {"[0:0:0:0:0:0:0:1]", OURS},
    {"[::ffff:127.0.0.1]", OURS},
    {"[::ffff:7f01:203]", OURS},
    {"fleet.example.org", OURS},
    {"robot.boards.example.org", OURS},
    {"192.0.2.7", OURS},
    {"[::ffff:192.0.2.7]", OURS},
    {"[2001:db8::7]", OURS},
    {"[2001:db8:0:0::9]", OURS},
    {"evil.example", FOREIGN},
    {"localhost.evil.example", FOREIGN},
    {"evil.localhost", FOREIGN},
    {"fleet.example.org.evil.example", FOREIGN},
    {"xfleet.example.org", FOREIGN},
    {"fleet.example", FOREIGN},
    {"boards.example.org", FOREIGN},
    {"a.b.boards.example.org", FOREIGN},
    {"xboards.example.org", FOREIGN},
    {"127.0.0.1.evil.example", FOREIGN},
    {"128.0.0.1", FOREIGN},
    {"126.255.255.255", FOREIGN},
    {"0.0.0.0", FOREIGN},
    {"192.0.2.8", FOREIGN},
    {"127.1", FOREIGN},
    {"2130706433", FOREIGN},
    {"0x7f000001", FOREIGN},
    {"127.0.0.256", FOREIGN},
    {"[::]", FOREIGN},
    {"[::2]", FOREIGN},
    {"[2001:db8::8]", FOREIGN},
    {"[::ffff:128.0.0.1]", FOREIGN},
    {"[::127.0.0.1]", FOREIGN},
    {"xn--lcalhost-l2a", FOREIGN},
    {"-", FOREIGN},
    {LABEL ".example", FOREIGN},
    {"x" LABEL, BAD},
    {LABEL "." LABEL "." LABEL "." LABEL, BAD},
    {"", BAD},
    {".", BAD},
    {".localhost", BAD},
    {"fleet..example.org", BAD},
    {"*.boards.example.org", BAD},
    {"evil@localhost", BAD},
    {"localhost,evil.example", BAD},
    {"localhost evil.example", BAD},
    {"localhost;", BAD},
    {"localhost/", BAD},
    {"localhost\\", BAD},
    {"localhost#", BAD},
    {"http//localhost", BAD},
    {"l\xc3\xb6"
     "calhost",
     BAD},
    {"::1", BAD},
    {"[::1", BAD},
    {"::1]", BAD},
    {"[]", BAD},
    {"[[::1]]", BAD},
    {"[localhost]", BAD},
    {"[127.0.0.1]", BAD},
    {"[::1%25lo]", BAD},
    {"[::1]x", BAD},
    {"[0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:1]", BAD},
};

static const struct part ends[] = {
    {"", OURS},      {":", OURS},      {":0", OURS},        {":8440", OURS}, {":65535", OURS},
    {":65536", BAD}, {":100000", BAD}, {":-1", BAD},        {":+1", BAD},    {":80x", BAD},
    {":0x50", BAD},  {":80:80", BAD},  {":localhost", BAD}, {"..", BAD},
};

enum { HOSTS = sizeof hosts / sizeof *hosts, ENDS = sizeof ends / sizeof *ends, STYLES = 4 };

/* Puts a case together. style: letters in another case, and a dot at the end, which is wrong after
 * brackets. */
static enum verdict join(const struct part *host, const struct part *end, int style, char out[HOST_TEXT])
{
	size_t n = 0;
	for (const char *p = host->text; *p; p++, n++)
		out[n] = (char)((style & 1) && n % 3 != 1 ? toupper((unsigned char)*p) : *p);
	out[n] = 0;
	bool dot = style & 2;
	snprintf(out + n, HOST_TEXT - n, "%s%s", dot ? "." : "", end->text);
	if (host->verdict == BAD || end->verdict == BAD || (dot && *host->text == '['))
		return BAD;
	return host->verdict;
}

typedef enum verdict verdict_fn(const char *authority, void *ctx);

static int each_case(verdict_fn *verdict, void *ctx)
{
	char text[HOST_TEXT];
	int cases = 0;
	for (int i = 0; i < HOSTS * ENDS * STYLES; i++, cases++) {
		const struct part *host = &hosts[i % HOSTS], *end = &ends[i / HOSTS % ENDS];
		enum verdict want = join(host, end, i / HOSTS / ENDS, text), got = verdict(text, ctx);
		if (got != want) {
			printf("Host: %s: verdict %d, not %d\n", text, got, want);
			test_bad = 1;
		}
	}
	return cases;
}

/* Checks of the function. */

static struct host_names *names_of(const char *text)
{
	struct fleet_conf c = {.names = text};
	struct host_names *h = NULL;
	CHECK_OK(host_names_open(&c, &h));
	return h;
}

static enum verdict checked(const char *authority, void *ctx)
{
	int rc = host_check(ctx, authority, NULL);
	return rc >= 0 ? OURS : rc == E_WRONG ? FOREIGN : rc == E_USAGE ? BAD : VERDICTS;
}

TEST(hosts_are_ours_foreign_or_malformed)
{
	struct host_names *h = names_of(NAMES);
	REQUIRE(h);
	printf("%d hosts\n", each_case(checked, h));
	CHECK(checked(NULL, h) == BAD);
	host_names_close(h);
}

TEST(the_address_that_was_asked_is_ours)
{
	struct host_names *h = names_of(NULL);
	REQUIRE(h);
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	inet_pton(AF_INET, "198.51.100.1", &four.sin_addr);
	inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
	const struct sockaddr *at4 = (void *)&four, *at6 = (void *)&six;
	CHECK_OK(host_check(h, "198.51.100.1:8440", at4));
	CHECK_OK(host_check(h, "[2001:DB8:0::1]", at6));
	CHECK_FAILS(host_check(h, "198.51.100.1", at6), E_WRONG, "not this server");
	CHECK_FAILS(host_check(h, "198.51.100.2", at4), E_WRONG, "`names`");
	CHECK_FAILS(host_check(h, "[2001:db8::1]", NULL), E_WRONG, "not this server");
	inet_pton(AF_INET6, "::ffff:198.51.100.1", &six.sin6_addr); /* an IPv4 address on a socket for both */
	CHECK_OK(host_check(h, "198.51.100.1", at6));
	host_names_close(h);
}

TEST(names_are_hosts)
{
	static const char *const bad[] = {"http://a",  "a:80",     "a/b",        "[::1",
					  "*",         "*.",       "*.*.a",      "a.*.b",
					  "*.1.2.3.4", "a,,b c;d", "fe80::1%lo", ("x" LABEL)};
	struct fleet_conf c = {.names = NULL};
	struct host_names *h;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		c.names = bad[i];
		CHECK_FAILS(host_names_open(&c, &h), E_USAGE, "is not a host");
	}
	struct buf many = {0};
	for (int i = 0; i <= HOST_NAMES; i++)
		buf_printf(&many, "a%d ", i);
	c.names = many.p;
	CHECK_FAILS(host_names_open(&c, &h), E_USAGE, "more than");
	buf_free(&many);
	h = names_of(" , ");
	CHECK(h && checked("localhost", h) == OURS && checked("a", h) == FOREIGN);
	host_names_close(h);
	h = names_of("FLEET.example.org.");
	CHECK(h && checked("fleet.example.org", h) == OURS);
	host_names_close(h);
}

TEST(targets_in_absolute_form)
{
	static const struct {
		const char *target, *authority, *left;
	} good[] = {{"/v1/health", NULL, "/v1/health"},
		    {"*", NULL, "*"},
		    {"//evil.example/", NULL, "//evil.example/"},
		    {"ftp://a/b", NULL, "ftp://a/b"},
		    {"http://a/b?c", "a", "/b?c"},
		    {"HTTPS://a:1", "a:1", "/"},
		    {"http://a?b/c", "a", "/?b/c"},
		    {"http:///b", "", "/b"},
		    {"http://", "", "/"},
		    {"http://u@a/b", "u@a", "/b"}};
	char text[2 * HOST_TEXT], authority[HOST_TEXT];
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		snprintf(text, sizeof text, "%s", good[i].target);
		CHECK(host_of_target(text, authority) == (good[i].authority != NULL));
		CHECK(!good[i].authority || !strcmp(authority, good[i].authority));
		CHECK(!strcmp(text, good[i].left));
	}
	memset(text, 'a', sizeof text);
	memcpy(text, "http://", 7);
	text[sizeof text - 1] = 0;
	CHECK_FAILS(host_of_target(text, authority), E_USAGE, "a name of");
}

/* Checks of the program. */

static char said[64 << 10];

static bool start(struct server *s, const char *option, const char *value)
{
	fleet_keys();
	char *argv[] = {NULL,
			"serve",
			"--listen",
			"127.0.0.1:0",
			"--db",
			(char *)fleet_path("fleet.db"),
			"--publish",
			(char *)fleet_path("publish"),
			"--every",
			"1h",
			"--keys",
			(char *)fleet_path("keys"),
			(char *)option,
			(char *)value,
			NULL};
	if (option && !strcmp(option, "--keys")) {
		argv[11] = (char *)value;
		argv[12] = NULL;
	}
	return server_start(s, fleet_path("log"), argv);
}

static int ask(const struct server *s, const char *head)
{
	int fd = server_connect(s);
	int status =
	    fd >= 0 && server_put(fd, head, strlen(head)) ? server_take(fd, said, sizeof said, true) : -1;
	if (fd >= 0)
		close(fd);
	return status;
}

static int get(const struct server *s, const char *target, const char *headers)
{
	char head[1024];
	snprintf(head, sizeof head, "GET %s HTTP/1.1\r\n%s\r\n", target, headers);
	return ask(s, head);
}

static enum verdict answered(const char *authority, void *ctx)
{
	char line[HOST_TEXT + 16];
	snprintf(line, sizeof line, "Host: %s\r\n", authority);
	int status = get(ctx, "/v1/health", line);
	return status == 200 ? OURS : status == 421 ? FOREIGN : status == 400 ? BAD : VERDICTS;
}

TEST(requests_for_other_hosts_are_refused)
{
	static const struct {
		int status;
		const char *target, *headers;
	} cases[] = {
	    {400, "/v1/health", ""},
	    {400, "/v1/health", "Host: localhost\r\nHost: localhost\r\n"},
	    {400, "/v1/health", "Host: localhost\r\nHOST: evil.example\r\n"},
	    {200, "/v1/health", "hOST:localhost\r\n"},
	    {200, "/v1/health", "Host: \tlocalhost \t\r\n"},
	    {421, "/", "Host: evil.example\r\n"},
	    {421, "/v1/api/boards", "Host: evil.example:8440\r\n"},
	    {421, "/v1/records", "Host: evil.example\r\n"},
	    {421, "/no/such/path", "Host: evil.example\r\n"},
	    {421, "/v1/health", "Host: evil.example\r\nX-Forwarded-Host: localhost\r\n"},
	    {200, "http://localhost/v1/health", "Host: localhost\r\n"},
	    {200, "HTTP://Fleet.Example.ORG:1/v1/health?x", "Host: localhost\r\n"},
	    {421, "http://evil.example/v1/health", "Host: localhost\r\n"},
	    {421, "http://localhost/v1/health", "Host: evil.example\r\n"},
	    {421, "http://localhost.evil.example/v1/health", "Host: localhost\r\n"},
	    {400, "http://localhost@evil.example/v1/health", "Host: localhost\r\n"},
	    {400, "http:///v1/health", "Host: localhost\r\n"},
	    {400, "http://localhost/v1/health", ""},
	    {404, "//evil.example/v1/health", "Host: localhost\r\n"},
	};
	struct server s;
	char text[8192];
	REQUIRE(start(&s, "--names", NAMES));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = get(&s, cases[i].target, cases[i].headers);
		if (status != cases[i].status)
			printf("%s %s: %d\n", cases[i].target, cases[i].headers, status);
		CHECK(status == cases[i].status);
		CHECK(status != 421 || (strstr(said, "names") && strstr(said, "hone-fleet.conf")));
		CHECK(status == 200 || !strstr(said, "\"boards\""));
	}
	CHECK(ask(&s, "GET /v1/health HTTP/1.0\r\n\r\n") == 400 && strstr(said, "must name one host"));
	CHECK(ask(&s, "GET /v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n") == 200);
	CHECK(ask(&s, "POST /v1/records HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 3\r\n\r\nabc") ==
	      421);
	printf("%d requests\n", each_case(answered, &s));
	server_text(&s, text, sizeof text);
	const char *told = strstr(text, "is not this server");
	CHECK(told && !strstr(told + 1, "is not this server")); /* logged once, however many come */
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* Without `names`, the certificate's names count, or those that `init --host` made for nginx. */
TEST(names_come_from_the_certificate)
{
	struct server s;
	char text[PATH_MAX + 512];
	REQUIRE(start(&s, NULL, NULL));
	CHECK(get(&s, "/v1/health", "Host: fleet.example.org\r\n") == 421);
	CHECK(server_stop(&s, SIGTERM) == 0);
	snprintf(text, sizeof text, "%s init --keys %s --host fleet.example.org >/dev/null 2>&1",
		 server_program(), fleet_path("made"));
	REQUIRE(system(text) == 0);
	snprintf(text, sizeof text, "%s", fleet_path("made"));
	REQUIRE(start(&s, "--keys", text));
	CHECK(get(&s, "/v1/health", "Host: fleet.example.org\r\n") == 200);
	CHECK(get(&s, "/v1/health", "Host: other.example.org\r\n") == 421);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST_MAIN
