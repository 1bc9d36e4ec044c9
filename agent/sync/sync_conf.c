/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the keys of [sync]. */
#include "agent/control/conf.h"
#include "agent/cache/share_kept.h"
#include "agent/sync/sync.h"
#include "platform/base/quantity.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sync_is_folder(const char *server)
{
	return server[0] == '/';
}

/* Returns the length of HOST in "HOST[:PORT][/PATH]"; 0: it is not allowed. */
static size_t host_of(const char *s)
{
	size_t n = *s == '[' ? strspn(s + 1, "0123456789abcdefABCDEF:.") + 2 : strcspn(s, ":/");
	if (n < 1 || n > strlen(s) || (*s == '[' && s[n - 1] != ']'))
		return 0;
	const char *port = s + n;
	size_t digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
	if (*port == ':' && (digits < 1 || digits > 5))
		return 0;
	port += *port == ':' ? digits + 1 : 0;
	return *port && *port != '/' ? 0 : n;
}

static bool is_this_machine(const char *host, size_t n)
{
	static const char *const names[] = {"127.0.0.1", "[::1]", "localhost", NULL};
	for (int i = 0; names[i]; i++)
		if (strlen(names[i]) == n && !memcmp(names[i], host, n))
			return true;
	return false;
}

static bool is_plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || (unsigned char)*s > '~' || strchr("\"\\<>^`{|}?#@", *s))
			return false;
	return true;
}

int sync_server_check(const char *server)
{
	bool secure = !strncmp(server, "https://", 8);
	size_t n = strlen(server), at = secure ? 8 : strncmp(server, "http://", 7) ? 0 : 7;
	if (sync_is_folder(server) && n < PATH_MAX / 2)
		return E_OK;
	size_t host = at && n < 1024 && is_plain(server) ? host_of(server + at) : 0;
	if (!host)
		return fail(
		    E_USAGE,
		    "'%.200s': allowed are https://HOST[:PORT][/PATH] and the absolute path of a folder",
		    server);
	if (!secure && !is_this_machine(server + at, host))
		return fail(E_USAGE, "'%.200s': plain http is only allowed to this machine; use https",
			    server);
	return E_OK;
}

const char *sync_state_folder(const struct sync_conf *c)
{
	const char *env = getenv("STATE_DIRECTORY");
	return c->state ? c->state : env && *env == '/' ? env : SYNC_STATE;
}

struct key_kind {
	const char *name;
	int (*take)(const struct key_kind *k, const char *value, struct sync_conf *out);
	size_t at;
	int64_t least, most;
	const char *allowed;
};

static void *field(const struct key_kind *k, struct sync_conf *out)
{
	return (char *)out + k->at;
}

static int take_server(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	*(const char **)field(k, out) = value;
	return sync_server_check(value);
}

static bool in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._", c));
}

bool sync_name_good(const char *name)
{
	size_t n = 0;
	while (in_name(name[n]))
		n++;
	return n > 0 && n < SYNC_NAME && !name[n];
}

static int take_name(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	*(const char **)field(k, out) = value;
	return sync_name_good(value) ? E_OK : E_USAGE;
}

void sync_board_name(const struct sync_conf *c, const char *host, const char *id, char out[SYNC_NAME])
{
	char here[HOST_NAME_MAX + 1] = "";
	if (!host && gethostname(here, sizeof here - 1) < 0)
		here[0] = 0;
	snprintf(out, SYNC_NAME, "%s", c->name ? c->name : host ? host : here);
	bool named = false;
	for (char *p = out; *p; p++) {
		*p = in_name(*p) ? *p : '-';
		named |= !strchr("-._", *p);
	}
	if (!named || !strcmp(out, "localhost"))
		snprintf(out, SYNC_NAME, "%s", id);
}

static int take_path(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	*(const char **)field(k, out) = value;
	return *value == '/' ? E_OK : E_USAGE;
}

static int take_proxy(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	static const char *const kinds[] = {"http://", "https://", "socks5://", "socks5h://", NULL};
	*(const char **)field(k, out) = value;
	for (int i = 0; kinds[i]; i++)
		if (!strncmp(value, kinds[i], strlen(kinds[i])) && value[strlen(kinds[i])])
			return E_OK;
	return E_USAGE;
}

static int take_channel(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	(void)k;
	out->has_channel = true;
	return channel_parse(value, &out->channel);
}

static int take_yes(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	bool yes = !strcmp(value, "yes");
	*(bool *)field(k, out) = yes;
	return yes || !strcmp(value, "no") ? E_OK : E_USAGE;
}

static int within(const struct key_kind *k, int rc, int64_t v, struct sync_conf *out)
{
	*(int64_t *)field(k, out) = v;
	return rc < 0 || v < k->least || v > k->most ? E_USAGE : E_OK;
}

static int take_duration(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	int64_t v = 0;
	int rc = duration_parse(value, &v);
	return within(k, rc, v, out);
}

/* 0: no limit. */
static int take_size(const struct key_kind *k, const char *value, struct sync_conf *out)
{
	int64_t v = 0;
	int rc = strcmp(value, "0") ? size_parse(value, &v) : E_OK;
	return v || rc < 0 ? within(k, rc, v, out) : (*(int64_t *)field(k, out) = 0, E_OK);
}

#define AT(name) offsetof(struct sync_conf, name)
#define ABSOLUTE "an absolute path"
#define HOURS(n) ((n)*INT64_C(3600) * NS_PER_S)

static const struct key_kind keys[] = {
    {"server", take_server, AT(server), 0, 0, NULL},
    {"ca", take_path, AT(ca), 0, 0, ABSOLUTE},
    {"root", take_path, AT(root), 0, 0, ABSOLUTE},
    {"state", take_path, AT(state), 0, 0, ABSOLUTE},
    {"token", take_path, AT(token), 0, 0, ABSOLUTE},
    {"name", take_name, AT(name), 0, 0, "1 to 63 letters, digits, '-', '.' and '_'"},
    {"watch", take_path, AT(watch), 0, 0, ABSOLUTE},
    {"proxy", take_proxy, AT(proxy), 0, 0, "http://HOST:PORT, https://, socks5:// or socks5h://"},
    {"channel", take_channel, 0, 0, 0, "canary, early or all"},
    {"upload", take_yes, AT(push), 0, 0, "yes or no"},
    {"every", take_duration, AT(every_ns), 60 * NS_PER_S, HOURS(24 * 31), "1m to 744h, about"},
    {"run", take_duration, AT(run_ns), NS_PER_S, HOURS(1), "1s to 1h"},
    {"day", take_size, AT(day_bytes), 64 << 10, INT64_C(1) << 40, "0 (no limit), or 64K to 1024G a day"},
    {"rate", take_size, AT(rate_bytes), 1024, INT64_C(1) << 40, "0 (no limit), or 1K to 1024G a second"},
};
enum { NKEYS = sizeof keys / sizeof *keys };

static int no_such_key(const char *name)
{
	char list[256];
	size_t n = 0;
	for (int i = 0; i < NKEYS; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", keys[i].name);
	return fail(E_USAGE, "[sync] %.64s: no such key; there are: %s", name, list);
}

static int take_key(const struct conf_sync *s, struct sync_conf *out)
{
	const struct key_kind *k = keys;
	while (k < keys + NKEYS && strcmp(k->name, s->key))
		k++;
	if (k == keys + NKEYS)
		return no_such_key(s->key);
	if (k->take(k, s->value, out) >= 0)
		return E_OK;
	return k->allowed ? fail(E_USAGE, "[sync] %s = %.200s: not possible; allowed: %s", k->name, s->value,
				 k->allowed)
			  : fail_in(E_USAGE, "[sync] %s", k->name);
}

int sync_conf_read(const struct conf *c, struct sync_conf *out)
{
	*out = (struct sync_conf){.every_ns = HOURS(6), .day_bytes = 10 << 20, .run_ns = 120 * NS_PER_S};
	int rc = E_OK;
	for (int i = 0; i < c->nsync && rc >= 0; i++)
		rc = take_key(&c->sync[i], out);
	return rc;
}
