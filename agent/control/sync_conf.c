/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the keys of [sync]. */
#include "agent/control/sync_conf.h"
#include "agent/cache/share_kept.h"
#include "agent/control/conf.h"
#include "platform/base/clock.h"
#include "platform/base/near.h"
#include "platform/base/quantity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const channel_names[CHANNELS] = {"canary", "early", "all"};

int channel_parse(const char *name, enum channel *out)
{
	for (int i = 0; i < CHANNELS; i++)
		if (!strcmp(name, channel_names[i])) {
			*out = (enum channel)i;
			return E_OK;
		}
	return fail(E_CORRUPT, "'%.40s' is not a channel; the channels are canary, early and all", name);
}

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
		    "'%.200s': allowed are https://HOST[:PORT][/PATH], http:// to this machine (127.0.0.1), and "
		    "the absolute path of a folder",
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
	char name[8];
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
	struct buf list = {0};
	struct near n;
	near_begin(&n, name);
	for (int i = 0; i < NKEYS; i++) {
		buf_printf(&list, "%s%s", i ? ", " : "", keys[i].name);
		near_add(&n, keys[i].name);
	}
	int rc =
	    fail(E_USAGE, "[sync] %.64s: no such key;%s%s%s there are: %s", name,
		 n.best ? " did you mean " : "", n.best ? n.best : "", n.best ? "?" : "", buf_str(&list));
	buf_free(&list);
	return rc;
}

static int take_key(const char *key, const char *value, struct sync_conf *out)
{
	const struct key_kind *k = keys;
	while (k < keys + NKEYS && strcmp(k->name, key))
		k++;
	if (k == keys + NKEYS)
		return no_such_key(key);
	if (k->take(k, value, out) >= 0)
		return E_OK;
	return k->allowed ? fail(E_USAGE, "[sync] %s = %.200s is not possible; it takes %s", k->name, value,
				 k->allowed)
			  : fail_in(E_USAGE, "[sync] %s", k->name);
}

bool sync_conf_has(const char *key)
{
	for (int i = 0; i < NKEYS; i++)
		if (!strcmp(keys[i].name, key))
			return true;
	return false;
}

int sync_conf_check(const char *key, const char *value)
{
	struct sync_conf unused = {0};
	return take_key(key, value, &unused);
}

int sync_conf_read(const struct conf *c, struct sync_conf *out)
{
	*out = (struct sync_conf){.every_ns = HOURS(6), .day_bytes = 10 << 20, .run_ns = 120 * NS_PER_S};
	int rc = E_OK;
	for (int i = 0; i < c->nsync && rc >= 0; i++) {
		const struct conf_sync *s = &c->sync[i];
		rc = fail_in(take_key(s->key, s->value, out), "%s:%d", s->file, s->line);
	}
	return rc;
}

static const struct conf_sync *entry_of(const struct conf *c, const char *key)
{
	for (int i = 0; i < c->nsync; i++)
		if (!strcmp(c->sync[i].key, key))
			return &c->sync[i];
	return NULL;
}

static int gap_of_file(const struct conf *c, const char *key, struct buf *mistakes)
{
	const struct conf_sync *s = entry_of(c, key);
	struct stat st;
	if (!s || stat(s->value, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
		return 0;
	buf_printf(mistakes, "%s:%d: [sync] %s = %s: %s; put the file there, or correct the path\n", s->file,
		   s->line, key, s->value, strerror(errno));
	return 1;
}

/* A key that is of no use without another one. */
static int gap_of_key(const struct conf *c, const char *key, const char *needs, struct buf *mistakes)
{
	const struct conf_sync *s = entry_of(c, key);
	buf_printf(mistakes, "%s:%d: [sync] %s = %s needs the key %s, too; add it to [sync]\n", s->file, s->line,
		   key, s->value, needs);
	return 1;
}

/* A user who may not look into the state folder cannot know whether the board has joined. */
static bool may_have_joined(const struct sync_conf *c)
{
	char path[PATH_MAX];
	struct stat st;
	/* not $STATE_DIRECTORY: honed, which asks too, has a state folder of its own */
	int n = snprintf(path, sizeof path, "%s/" SYNC_CERT, c->state ? c->state : SYNC_STATE);
	return n >= (int)sizeof path || stat(path, &st) == 0 || errno != ENOENT;
}

int sync_conf_gaps(const struct conf *c, struct buf *mistakes)
{
	struct sync_conf s;
	const bool wrong = sync_conf_read(c, &s) < 0; /* conf_check reports that */
	bool joins = !(s.server && sync_is_folder(s.server)) && !may_have_joined(&s);
	int n = gap_of_file(c, "ca", mistakes) + gap_of_file(c, "root", mistakes);
	if (joins)
		n += gap_of_file(c, "token", mistakes);
	if (wrong)
		return n;
	if (s.token && !s.server)
		n += gap_of_key(c, "token", "server", mistakes);
	if (s.push && !s.server)
		n += gap_of_key(c, "upload", "server", mistakes);
	if (s.push && s.server && joins && !s.token)
		n += gap_of_key(c, "upload", "token", mistakes);
	return n;
}
