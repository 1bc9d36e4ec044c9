/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet among peers: on other machines, behind a proxy, and more slow ones than it has connections.
 * Addresses that are not of loopback belong to `lo` in a network namespace of this process, so nothing leaves
 * it. */
#include "tests/lib/fleet.h"
#include "tests/lib/fleet_server.h"
#include "tools/fleet/fleet_links.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

/* Networks: whether two addresses count as one. */

static union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
} parse(const char *text, int port)
{
	union address a = {.six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
	if (inet_pton(AF_INET6, text, &a.six.sin6_addr) == 1)
		return a;
	a.four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, text, &a.four.sin_addr) != 1)
		printf("%s: no address\n", text), test_bad = 1;
	return a;
}

static bool same_net(const union address *a, const union address *b)
{
	const struct link_net x = link_net(&a->any), y = link_net(&b->any);
	return !memcmp(&x, &y, sizeof x);
}

/* Changes every bit of random addresses in turn. */
TEST(a_64_is_one_peer)
{
	uint64_t at = 20240601;
	int pairs = 0;
	for (int i = 0; i < 200; i++) {
		union address a = parse("2001:db8::", i);
		for (int k = 4; k < 16; k++)
			a.six.sin6_addr.s6_addr[k] =
			    (uint8_t)((at = at * 6364136223846793005u + 1442695040888963407u) >> 56);
		for (int bit = 0; bit < 128; bit++, pairs++) {
			union address b = a;
			b.six.sin6_addr.s6_addr[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			b.six.sin6_port = htons((uint16_t)(i + bit));
			if (same_net(&a, &b) != (bit >= 64))
				printf("bit %d is%s of the network\n", bit, bit < 64 ? " not" : ""),
				    test_bad = 1;
		}
	}
	for (int i = 0; i < 200; i++)
		for (int bit = 0; bit < 32; bit++, pairs++) {
			char text[64];
			union address a = parse("192.0.2.1", 1), b;
			at = at * 6364136223846793005u + 1442695040888963407u;
			a.four.sin_addr.s_addr ^= (uint32_t)(at >> 32);
			inet_ntop(AF_INET, &a.four.sin_addr, text + 7, sizeof text - 7);
			b = parse(memcpy(text, "::ffff:", 7), 2);
			CHECK(same_net(&a, &b)); /* as an IPv4 address that is mapped into IPv6 */
			b.six.sin6_addr.s6_addr[12 + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			CHECK(!same_net(&a, &b));
			union address c = a;
			c.four.sin_addr.s_addr = b.six.sin6_addr.s6_addr32[3];
			CHECK(!same_net(&a, &c) && same_net(&b, &c));
		}
	static const struct {
		const char *a, *b;
		bool same;
	} edges[] = {{"2001:db8::", "2001:db8::ffff:ffff:ffff:ffff", true},
		     {"2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::", false},
		     {"::1", "::2", true},
		     {"::1", "::ffff:0.0.0.1", false},
		     {"::ffff:10.0.0.1", "::10.0.0.1", false},
		     {"127.0.0.1", "::1", false},
		     {"127.0.0.1", "127.0.0.2", false}};
	for (size_t i = 0; i < sizeof edges / sizeof *edges; i++, pairs++) {
		union address a = parse(edges[i].a, 1), b = parse(edges[i].b, 1);
		CHECK(same_net(&a, &b) == edges[i].same);
	}
	printf("%d pairs\n", pairs);
}

/* A network namespace for this process. */

static bool write_map(const char *path, unsigned id)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%u %u 1", id, id), fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, (size_t)n) == n;
	if (fd >= 0)
		close(fd);
	return good;
}

static bool leave_network(void)
{
	const unsigned uid = geteuid(), gid = getegid();
	if (unshare(CLONE_NEWNET) == 0)
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return false;
	FILE *deny = fopen("/proc/self/setgroups", "w");
	if (deny) {
		fputs("deny", deny);
		fclose(deny);
	}
	return write_map("/proc/self/uid_map", uid) && write_map("/proc/self/gid_map", gid);
}

/* Gives `lo` an IPv6 address. */
static bool add_address(const char *text)
{
	struct {
		struct in6_addr addr;
		uint32_t bits, ifindex;
	} add = {.bits = 128, .ifindex = if_nametoindex("lo")};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && inet_pton(AF_INET6, text, &add.addr) == 1 && ioctl(fd, SIOCSIFADDR, &add) == 0;
	if (fd >= 0)
		close(fd);
	return good;
}

enum { NEIGHBOURS = LINKS_PEER + 6 };

/* Adds 2001:db8:0:1::1 to NEIGHBOURS, and 2001:db8:0:2::1. */
static bool own_network(void)
{
	static int own; /* 1: made; -1: not possible */
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	char text[64];
	if (own)
		return own > 0;
	own = -1;
	if (!leave_network())
		return false;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
	if (fd >= 0)
		close(fd);
	for (int i = 1; good && i <= NEIGHBOURS; i++) {
		snprintf(text, sizeof text, "2001:db8:0:1::%x", i);
		good = add_address(text);
	}
	own = good && add_address("2001:db8:0:2::1") ? 1 : -1;
	return own > 0;
}

/* The server, and connections to it. */

static char said[64 << 10], token[64];

/* Makes keys as an operator does, with an admin token. */
static const char *keys_folder(void)
{
	static char folder[256];
	char text[PATH_MAX + 512];
	if (folder[0])
		return folder;
	fleet_keys();
	snprintf(folder, sizeof folder, "%s", fleet_path("made"));
	snprintf(text, sizeof text, "%s init --keys %s --host 127.0.0.1 --json 2>/dev/null", server_program(),
		 folder);
	FILE *p = popen(text, "r");
	while (p && fgets(text, sizeof text, p)) {
		const char *at = strstr(text, "\"admin_token\"");
		if (at && sscanf(at, "\"admin_token\" : \"%60[0-9a-f]", token) != 1)
			(void)sscanf(at, "\"admin_token\":\"%60[0-9a-f]", token);
	}
	CHECK(p && pclose(p) == 0 && strlen(token) == 40);
	return folder;
}

static bool start(struct server *s, const char *listen_at, bool tls)
{
	const char *dir = keys_folder();
	char cert[300], key[300];
	snprintf(cert, sizeof cert, "%s/server.pem", dir);
	snprintf(key, sizeof key, "%s/server.key", dir);
	char *argv[] = {NULL,
			"serve",
			"--listen",
			(char *)listen_at,
			"--db",
			(char *)fleet_path("fleet.db"),
			"--keys",
			(char *)dir,
			"--publish",
			(char *)fleet_path("publish"),
			"--every",
			"1h",
			tls ? "--cert" : NULL,
			cert,
			"--key",
			key,
			NULL};
	return server_start(s, fleet_path("log"), argv);
}

/* narrow: with small buffers for the answer. */
static int connect_from(const struct server *s, const char *from, const char *to, bool narrow)
{
	const union address a = parse(from, 0), b = parse(to, s->port);
	const socklen_t n = a.any.sa_family == AF_INET ? sizeof a.four : sizeof a.six;
	const struct timeval limit = {.tv_sec = 5};
	const int little = 2048, segment = 536;
	int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (narrow) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
	}
	if (bind(fd, &a.any, n) == 0 && connect(fd, &b.any, n) == 0)
		return fd;
	close(fd);
	return -1;
}

static int ask_from(const struct server *s, const char *from, const char *to, const char *request)
{
	int fd = connect_from(s, from, to, false);
	int status = fd >= 0 && server_put(fd, request, strlen(request))
			 ? server_take(fd, said, sizeof said, true)
			 : -1;
	if (fd >= 0)
		close(fd);
	return status;
}

static int get_from(const struct server *s, const char *from, const char *to, const char *path,
		    const char *headers)
{
	char text[1024];
	snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
	return ask_from(s, from, to, text);
}

static bool is_open(int fd)
{
	char byte;
	return fd >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* Waits up to a second for the connection to end. */
static bool is_ended(int fd)
{
	for (int i = 0; i < 100 && is_open(fd); i++)
		usleep(10000);
	return !is_open(fd);
}

/* Reading without the token. */

static const char *const operators[] = {"/",
					"/page/boards",
					"/page/log",
					"/v1/api/overview",
					"/v1/api/boards",
					"/v1/api/log",
					"/openapi.json",
					"/page/class/0123456789abcdef0123456789abcdef"};
enum { OPERATORS = sizeof operators / sizeof *operators };

/* Asks for each page and list, first without a token, then with it. */
static void check_stranger(const struct server *s, const char *from, const char *to, const char *headers)
{
	char more[512];
	for (int i = 0; i < OPERATORS; i++) {
		int status = get_from(s, from, to, operators[i], headers);
		if (status != 303 && status != 401 && status != 429)
			printf("from %s, %s%s: %d\n", from, headers, operators[i], status);
		CHECK(status == 303 || status == 401 || status == 429);
		CHECK(!strstr(said, "\"boards\"") && !strstr(said, "<table"));
	}
	snprintf(more, sizeof more, "%sAuthorization: Bearer %s\r\n", headers, token);
	CHECK(get_from(s, from, to, "/v1/api/boards", more) == 200 && strstr(said, "\"boards\""));
	CHECK(get_from(s, from, to, "/page/sign-in", headers) == 200);
	CHECK(get_from(s, from, to, "/v1/health", headers) == 200);
	CHECK(get_from(s, from, to, "/v1/root/99", headers) == 404); /* open, but there is no such file */
	snprintf(more, sizeof more,
		 "POST /v1/records HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 3\r\n\r\nabc", headers);
	CHECK(ask_from(s, from, to, more) == 400);
}

/* Behind a proxy, every peer has the proxy's address. */
TEST(who_asks_through_a_proxy_is_not_local)
{
	static const char *const names[] = {"X-Real-IP",
					    "X-Forwarded-For",
					    "X-Forwarded-Proto",
					    "X-Forwarded-Host",
					    "X-Forwarded-By",
					    "Forwarded",
					    "Via",
					    "True-Client-IP",
					    "X-Client-IP",
					    "CF-Connecting-IP",
					    "X-Cluster-Client-IP"};
	static const char *const values[] = {"127.0.0.1", "::1",           "192.0.2.%d",
					     "",          "for=127.0.0.1", "1.1 localhost"};
	struct server s;
	int cases = 0;
	REQUIRE(start(&s, "127.0.0.1:0", false));
	CHECK(get_from(&s, "127.0.0.1", "127.0.0.1", "/v1/api/boards", "") == 200);
	CHECK(get_from(&s, "127.9.9.9", "127.0.0.1", "/", "X-Realm: a\r\nViator: b\r\n") == 200);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (size_t k = 0; k < sizeof values / sizeof *values; k++, cases++) {
			char line[160], value[32];
			snprintf(value, sizeof value, values[k], cases);
			snprintf(line, sizeof line, "%s: %s\r\n", names[i], value);
			for (char *p = line; *p != ':' && cases % 2; p++)
				*p = (char)toupper((unsigned char)*p);
			check_stranger(&s, "127.0.0.1", "127.0.0.1", line);
		}
	printf("%d headers of proxies\n", cases);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST(other_machines_need_the_token_over_plain_http)
{
	struct server s;
	char text[8192];
	if (!own_network())
		SKIP("no network namespace");
	REQUIRE(start(&s, "[::]:0", false));
	check_stranger(&s, "2001:db8:0:2::1", "2001:db8:0:1::1", "");
	CHECK(get_from(&s, "2001:db8:0:2::1", "2001:db8:0:1::1", "/v1/api/boards",
		       "X-Real-IP: 127.0.0.1\r\n") == 401);
	CHECK(get_from(&s, "::1", "::1", "/v1/api/boards", "") == 200);
	CHECK(get_from(&s, "127.0.0.1", "127.0.0.1", "/v1/api/boards", "") == 200); /* mapped into IPv6 */
	/* The address to which the connection was made, as boards have it in `server`. */
	CHECK(ask_from(&s, "2001:db8:0:2::1", "2001:db8:0:1::1",
		       "GET /v1/health HTTP/1.1\r\nHost: [2001:db8:0:1::1]:80\r\n\r\n") == 200);
	CHECK(ask_from(&s, "2001:db8:0:2::1", "2001:db8:0:1::1",
		       "GET /v1/health HTTP/1.1\r\nHost: [2001:db8:0:1::2]:80\r\n\r\n") == 421);
	server_text(&s, text, sizeof text);
	CHECK(strstr(text, "warning: http://[::]:") && strstr(text, "without a certificate"));
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST(only_an_open_server_warns)
{
	struct server s;
	char text[8192];
	if (!own_network())
		SKIP("no network namespace");
	static const struct {
		const char *listen_at;
		bool tls, warns;
	} cases[] = {{"127.0.0.1:0", false, false},          {"[::1]:0", false, false},
		     {"[::ffff:127.0.0.1]:0", false, false}, {"0.0.0.0:0", false, true},
		     {"[2001:db8:0:1::1]:0", false, true},   {"0.0.0.0:0", true, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		REQUIRE(start(&s, cases[i].listen_at, cases[i].tls));
		server_text(&s, text, sizeof text);
		CHECK((strstr(text, "warning: ") != NULL) == cases[i].warns);
		CHECK(server_stop(&s, SIGTERM) == 0);
	}
}

/* If a network has more than LINKS_PEER connections, its own oldest are closed, and no others. */
TEST(connections_count_by_network)
{
	struct server s;
	int near[NEIGHBOURS], other[10], four[NEIGHBOURS], one[NEIGHBOURS];
	char text[64];
	if (!own_network())
		SKIP("no network namespace");
	REQUIRE(start(&s, "[::]:0", true));
	for (int i = 0; i < 10; i++)
		CHECK((other[i] = connect_from(&s, "2001:db8:0:2::1", "::1", false)) >= 0);
	for (int i = 0; i < NEIGHBOURS; i++) {
		snprintf(text, sizeof text, "127.0.1.%d", i + 1);
		CHECK((four[i] = connect_from(&s, text, "127.0.0.1", false)) >= 0);
		snprintf(text, sizeof text, "2001:db8:0:1::%x", i + 1);
		CHECK((near[i] = connect_from(&s, text, "::1", false)) >= 0);
		CHECK((one[i] = connect_from(&s, "127.0.2.1", "127.0.0.1", false)) >= 0);
		usleep(1000); /* so that they are accepted in this order */
	}
	for (int i = 0; i < NEIGHBOURS - LINKS_PEER; i++)
		CHECK(is_ended(near[i]) && is_ended(one[i]));
	for (int i = NEIGHBOURS - LINKS_PEER; i < NEIGHBOURS; i++)
		CHECK(is_open(near[i]) && is_open(one[i]));
	for (int i = 0; i < NEIGHBOURS; i++)
		CHECK(is_open(four[i]));
	for (int i = 0; i < 10; i++)
		CHECK(is_open(other[i]));
	for (int i = 0; i < 10; i++)
		close(other[i]);
	for (int i = 0; i < NEIGHBOURS; i++)
		close(near[i]), close(four[i]), close(one[i]);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* Slow peers. */

#define BLOB "blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
enum { SLOW = 1030, ROUNDS = 4, MORE = 64, BLOB_BYTES = 512 << 10 };

static const struct slow {
	const char *name, *begin, *drip;
	bool narrow;
} slow[] = {
    {"idle", "", ""},
    {"slow header", "GET /v1/health HTTP/1.1\r\nX-A: ", "a"},
    {"slow first line", "GET /v1/", "a"},
    {"slow body", "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", "a"},
    {"slow chunks", "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
     "1\r\na\r\n"},
    {"never reading", "GET /v1/" BLOB " HTTP/1.1\r\nHost: localhost\r\n\r\n", "", true},
    {"idle after an answer", "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "G"},
};
enum { KINDS = sizeof slow / sizeof *slow };

static int begin_slow(const struct server *s, int kind, int i, bool many)
{
	char from[32];
	const struct slow *k = &slow[kind < KINDS ? kind : i % KINDS];
	snprintf(from, sizeof from, "127.0.%d.%d", many ? 1 + i / 250 : 0, many ? 1 + i % 250 : 1);
	int fd = connect_from(s, from, "127.0.0.1", k->narrow);
	if (fd >= 0)
		(void)server_put(fd, k->begin, strlen(k->begin));
	return fd;
}

static double health_s(const struct server *s)
{
	double start_s = test_now_s();
	int status = get_from(s, "127.0.0.1", "127.0.0.1", "/v1/health", "");
	return status == 200 ? test_now_s() - start_s : 99;
}

/* Opens SLOW connections, then MORE in each round, and sends a byte on each now and then. Returns the longest
 * time that a health request took. */
static double worst_of(const struct server *s, int kind, bool many)
{
	static int fd[SLOW + ROUNDS * MORE];
	int n = 0;
	double worst = 0;
	while (n < SLOW)
		fd[n] = begin_slow(s, kind, n, many), n++;
	for (int round = 0; round < ROUNDS && worst < 1; round++) {
		for (int i = 0; i < n; i++) {
			const char *drip = slow[kind < KINDS ? kind : i % KINDS].drip;
			(void)send(fd[i], drip, strlen(drip), MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		double took_s = health_s(s);
		worst = took_s > worst ? took_s : worst;
		for (int i = 0; i < MORE; i++)
			fd[n] = begin_slow(s, kind, n, many), n++;
	}
	for (int i = 0; i < n; i++)
		close(fd[i]);
	return worst;
}

static void many_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 4096 && files.rlim_max >= 4096) {
		files.rlim_cur = 4096;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

TEST(slow_peers_keep_nobody_waiting)
{
	struct server s;
	char *blob = calloc(1, BLOB_BYTES);
	many_files();
	keys_folder();
	fleet_file("publish/" BLOB, blob, BLOB_BYTES);
	free(blob);
	REQUIRE(start(&s, "127.0.0.1:0", false));
	for (int kind = 0; kind <= KINDS; kind++)
		for (int many = 0; many < 2; many++) {
			double worst = worst_of(&s, kind, many);
			printf("%d connections of %s, %s: health in %.3f s\n", SLOW,
			       many ? "many addresses" : "one address",
			       kind < KINDS ? slow[kind].name : "all kinds", worst);
			CHECK(worst < 1);
		}
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* In a table that one network fills, only that network's connections are closed. */
TEST(a_flood_costs_its_own_network)
{
	static int fd[SLOW + ROUNDS * MORE];
	struct server s;
	many_files();
	REQUIRE(start(&s, "127.0.0.1:0", false));
	int other = connect_from(&s, "127.0.9.9", "127.0.0.1", false);
	CHECK(server_put(other, slow[3].begin, strlen(slow[3].begin)));
	CHECK(health_s(&s) < 1); /* the server has seen the other one, too */
	for (int i = 0; i < SLOW + ROUNDS * MORE; i++)
		fd[i] = begin_slow(&s, 3, i, false);
	CHECK(is_ended(fd[0]) && is_open(fd[SLOW + ROUNDS * MORE - 1]));
	CHECK(is_open(other));
	for (int i = 0; i < SLOW + ROUNDS * MORE; i++)
		close(fd[i]);
	close(other);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* TLS. */

static size_t drop(char *p, size_t size, size_t n, void *ctx)
{
	(void)p, (void)ctx;
	return size * n;
}

static double tls_health_s(const struct server *s, const char *ca)
{
	char url[64];
	double start_s = test_now_s();
	snprintf(url, sizeof url, "https://127.0.0.1:%d/v1/health", s->port);
	CURL *c = curl_easy_init();
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CAINFO, ca);
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 5L);
	CURLcode rc = curl_easy_perform(c);
	curl_easy_cleanup(c);
	return rc == CURLE_OK ? test_now_s() - start_s : 99;
}

TEST(slow_handshakes_keep_nobody_waiting)
{
	static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
	static int fd[SLOW];
	struct server s;
	char ca[300], from[32];
	many_files();
	REQUIRE(start(&s, "127.0.0.1:0", true));
	snprintf(ca, sizeof ca, "%s/ca.pem", keys_folder());
	for (int many = 0; many < 2; many++) {
		for (int i = 0; i < SLOW; i++) {
			snprintf(from, sizeof from, "127.0.%d.%d", many ? 1 + i / 250 : 0,
				 many ? 1 + i % 250 : 1);
			fd[i] = connect_from(&s, from, "127.0.0.1", false);
			(void)send(fd[i], hello, (size_t)i % sizeof hello, MSG_NOSIGNAL);
		}
		double took_s = tls_health_s(&s, ca);
		printf("%d handshakes of %s: health in %.3f s\n", SLOW,
		       many ? "many addresses" : "one address", took_s);
		CHECK(took_s < 1);
		for (int i = 0; i < SLOW; i++)
			close(fd[i]);
	}
	CHECK(server_stop(&s, SIGTERM) == 0);
}

/* A byte now and then extends no deadline. */
TEST(a_slow_header_is_cut_in_time)
{
	static const char head[] =
	    "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	struct server s;
	REQUIRE(start(&s, "127.0.0.1:0", false));
	int fd = server_connect(&s), i = 0;
	double start_s = test_now_s(), limit_s = (double)LINKS_HEAD_NS / NS_PER_S;
	while (is_open(fd) && test_now_s() - start_s < limit_s + 5) {
		(void)server_put(fd, head + i, head[i] != 0);
		i += head[i] != 0;
		usleep(200000);
	}
	double took_s = test_now_s() - start_s;
	CHECK(took_s > limit_s - 1 && took_s < limit_s + 4);
	close(fd);
	CHECK(server_stop(&s, SIGTERM) == 0);
}

TEST_MAIN
