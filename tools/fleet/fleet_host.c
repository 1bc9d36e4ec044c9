/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_host.h"
#include "platform/base/log.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_NAME = 253, LONGEST_LABEL = 63, MOST_PEM = 256 << 10 };

struct host {
	bool numeric;
	struct in6_addr ip;          /* of a numeric host; IPv4 as ::ffff:a.b.c.d */
	char name[LONGEST_NAME + 1]; /* of another host: lower case, no dot at the end */
};

struct host_names {
	int n;
	struct host host[HOST_NAMES];
};

/* Parsing. */

static void map_four(const struct in_addr *four, struct in6_addr *out)
{
	memset(out, 0, sizeof *out);
	out->s6_addr[10] = out->s6_addr[11] = 0xff;
	memcpy(&out->s6_addr[12], four, 4);
}

static bool parse_ip(const char *text, struct in6_addr *out)
{
	struct in_addr four;
	if (inet_pton(AF_INET6, text, out) == 1)
		return true;
	if (inet_pton(AF_INET, text, &four) != 1)
		return false;
	map_four(&four, out);
	return true;
}

/* Accepts labels of letters, digits, '-' and '_', separated by dots. */
static bool is_name(const char *s)
{
	for (;;) {
		size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_");
		if (!n || n > LONGEST_LABEL || (s[n] && s[n] != '.'))
			return false;
		if (!s[n])
			return true;
		s += n + 1;
	}
}

/* Parses a name or an IPv4 address of n bytes. */
static bool parse_name(const char *s, size_t n, struct host *out)
{
	n -= n && s[n - 1] == '.';
	if (!n || n > LONGEST_NAME)
		return false;
	for (size_t i = 0; i < n; i++)
		out->name[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] - 'A' + 'a' : s[i]);
	out->name[n] = 0;
	out->numeric = parse_ip(out->name, &out->ip);
	return out->numeric || is_name(out->name);
}

/* Parses "[ADDRESS" of n bytes; the closing bracket is not among them. */
static bool parse_bracket(const char *s, size_t n, struct host *out)
{
	char text[INET6_ADDRSTRLEN];
	if (n - 1 >= sizeof text)
		return false;
	snprintf(text, sizeof text, "%.*s", (int)n - 1, s + 1);
	out->numeric = inet_pton(AF_INET6, text, &out->ip) == 1;
	return out->numeric;
}

/* Accepts "", ":" and ":PORT". */
static bool is_port(const char *s)
{
	size_t n = *s == ':' ? strspn(s + 1, "0123456789") : 0;
	return !*s || (*s == ':' && n <= 5 && !s[1 + n] && atol(s + 1) <= 65535);
}

static bool parse_authority(const char *s, struct host *out)
{
	*out = (struct host){0};
	size_t n = strcspn(s, *s == '[' ? "]" : ":");
	if (*s != '[')
		return parse_name(s, n, out) && is_port(s + n);
	return s[n] && parse_bracket(s, n, out) && is_port(s + n + 1);
}

/* Names. */

/* Parses a word of the configuration or a name of a certificate: a host without a port. */
static bool parse_own(const char *word, struct host *out)
{
	const char *name = !strncmp(word, "*.", 2) ? word + 2 : word;
	size_t n = strlen(name);
	*out = (struct host){0};
	if (*word == '[')
		return n > 1 && name[n - 1] == ']' && parse_bracket(name, n - 1, out);
	if (parse_ip(word, &out->ip))
		return out->numeric = true;
	if (!parse_name(name, n, out) || (name != word && out->numeric))
		return false;
	if (name != word) { /* put "*." before the name again */
		if (strlen(out->name) + 2 > LONGEST_NAME)
			return false;
		memmove(out->name + 2, out->name, strlen(out->name) + 1);
		memcpy(out->name, "*.", 2);
	}
	return true;
}

static int add_word(struct host_names *h, const char *word)
{
	if (h->n == HOST_NAMES)
		return fail(E_USAGE, "names: more than %d hosts", HOST_NAMES);
	return parse_own(word, &h->host[h->n])
		   ? h->n++
		   : fail(E_USAGE,
			  "names: '%.100s' is not a host; write names or addresses, without ports: "
			  "fleet.example.org, 192.0.2.7",
			  word);
}

static int add_words(struct host_names *h, const char *text)
{
	static const char between[] = ", \t";
	char word[HOST_TEXT];
	int rc = E_OK;
	for (text += strspn(text, between); *text && rc >= 0; text += strspn(text, between)) {
		size_t n = strcspn(text, between);
		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), text);
		rc = add_word(h, word);
		text += n;
	}
	return rc;
}

static int on_cert_host(void *ctx, const char *host)
{
	struct host_names *h = ctx;
	if (h->n < HOST_NAMES && parse_own(host, &h->host[h->n]))
		h->n++;
	return E_OK;
}

static void add_cert(struct host_names *h, const char *path)
{
	struct arena a = {0};
	struct blob pem;
	int rc = file_read(&a, path, MOST_PEM, &pem);
	if (rc >= 0)
		rc = cert_hosts(pem.p, pem.n, on_cert_host, h);
	if (rc < 0)
		log_info("hone-fleet: cannot read the names of certificate %s (%s): set `names`", path,
			 err_text());
	arena_free(&a);
}

int host_names_open(const struct fleet_conf *c, struct host_names **out)
{
	struct arena a = {0};
	struct host_names *h = *out = calloc(1, sizeof *h);
	if (!h)
		return fail(E_NOMEM, "no memory");
	const char *made = c->keys ? arena_printf(&a, "%s/server.pem", c->keys) : NULL;
	int rc = c->names ? add_words(h, c->names) : E_OK;
	if (!c->names && (c->cert || (made && file_exists(made))))
		add_cert(h, c->cert ? c->cert : made);
	arena_free(&a);
	if (rc < 0) {
		host_names_close(h);
		*out = NULL;
	}
	return rc < 0 ? rc : E_OK;
}

void host_names_close(struct host_names *h)
{
	free(h);
}

/* Checking. */

static bool is_loopback(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

static bool is_at(const struct in6_addr *ip, const struct sockaddr *at)
{
	struct in6_addr own = {{{0}}};
	if (!at || (at->sa_family != AF_INET && at->sa_family != AF_INET6))
		return false;
	if (at->sa_family == AF_INET)
		map_four(&((const struct sockaddr_in *)(const void *)at)->sin_addr, &own);
	else
		own = ((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;
	return IN6_ARE_ADDR_EQUAL(ip, &own);
}

static bool is_same(const struct host *own, const struct host *asked)
{
	if (own->numeric || asked->numeric)
		return own->numeric && asked->numeric && IN6_ARE_ADDR_EQUAL(&own->ip, &asked->ip);
	if (strncmp(own->name, "*.", 2) != 0)
		return !strcmp(own->name, asked->name);
	const char *dot = strchr(asked->name, '.');
	return dot && !strcmp(own->name + 1, dot);
}

static bool is_ours(const struct host_names *h, const struct host *asked, const struct sockaddr *arrived)
{
	if (asked->numeric ? is_loopback(&asked->ip) || is_at(&asked->ip, arrived)
			   : !strcmp(asked->name, "localhost"))
		return true;
	for (int i = 0; i < h->n; i++)
		if (is_same(&h->host[i], asked))
			return true;
	return false;
}

int host_check(const struct host_names *h, const char *authority, const struct sockaddr *arrived)
{
	struct host asked;
	char text[HOST_TEXT];
	if (!authority)
		return fail(E_USAGE, "a request must name one host: Host: NAME");
	size_t n = strlen(authority);
	while (n && strchr(" \t", authority[n - 1])) /* libmicrohttpd leaves blanks at the end */
		n--;
	snprintf(text, sizeof text, "%.*s", (int)n, authority);
	if (n >= sizeof text || !parse_authority(text, &asked))
		return fail(E_USAGE, "Host: %.100s: not a host's name or address", text);
	if (is_ours(h, &asked, arrived))
		return E_OK;
	return fail(E_WRONG,
		    "%.100s is not this server; if it should be, add it to `names` in hone-fleet.conf", text);
}

int host_of_target(char *target, char authority[HOST_TEXT])
{
	size_t at = !strncasecmp(target, "http://", 7) ? 7 : !strncasecmp(target, "https://", 8) ? 8 : 0;
	size_t n = strcspn(target + at, "/?");
	char *rest = target + at + n;
	if (!at)
		return 0;
	if (n >= HOST_TEXT)
		return fail(E_USAGE, "a name of %zu bytes is too long for a host", n);
	memcpy(authority, target + at, n);
	authority[n] = 0;
	memmove(target + (*rest != '/'), rest, strlen(rest) + 1);
	*target = '/';
	return 1;
}
