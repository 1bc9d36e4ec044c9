/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_conf.h"
#include "platform/base/file.h"
#include "platform/base/near.h"
#include "platform/base/quantity.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILE = 64 << 10 };

const struct opt fleet_conf_opts[] = {
    FLEET_OPT_CONFIG,
    FLEET_OPT_STATE,
    FLEET_OPT_DB,
    FLEET_OPT_KEYS,
    {"listen", OPT_STR, "ADDRESS", "address and port (127.0.0.1:8440); [::]:8440 for all addresses"},
    {"publish", OPT_STR, "PLACE",
     "folder or s3://BUCKET/PREFIX for the files that boards read (" FLEET_STATE "/publish)"},
    {"admin", OPT_STR, "FILE",
     "hash of the admin token (KEYS/admin, which init writes); without it there are no admin actions"},
    {"cert", OPT_STR, "FILE", "certificate for TLS, PEM; without one, plain HTTP for use behind nginx"},
    {"key", OPT_STR, "FILE", "key of the certificate, PEM"},
    {"names", OPT_STR, "HOST,HOST",
     "names and addresses by which boards and browsers reach it, also through nginx (those of cert, or of "
     "KEYS/server.pem); localhost and its own address always work, requests for other hosts are refused"},
    {"threads", OPT_STR, "N", "threads that answer, each with a connection to the database (4; 1 to 64)"},
    {"quorum", OPT_STR, "A,B,C",
     "boards that must agree on a record, for the channels canary, early and all (1,2,3; three whole "
     "numbers, at least 1 and none below the one before it)"},
    {"tolerance", OPT_STR, "15%",
     "boards agree if their times are this close to the median (15%; 1% to 100%)"},
    {"every", OPT_STR, "60s", "time between aggregations (60s; 1s to 1d)"},
    {"poll", OPT_STR, "6h",
     "how often boards should poll (6h; 1m to 30d); a board stays within a factor of 4 of `every` in [sync] "
     "of its own honed.conf, so with the default there it polls every 90 minutes to 24 hours"},
    {"expire", OPT_STR, "90d", "how long a snapshot is valid (90d; 1d to 3650d)"},
    {"stage", OPT_STR, "24h",
     "how long a record is on a channel before the next one (24h; 0s to 365d); 0s: no stages"},
    {"board-day", OPT_STR, "500", "batches that a board may send in a day (500; 1 to 1000000)"},
    {"board-bytes", OPT_STR, "16M",
     "bytes that a board may send in a day (16M; 2M to 1048576G); above that, it is told when to try again"},
    {"all-bytes", OPT_STR, "4G", "bytes that all boards together may send in a day (4G; 2M to 1048576G)"},
    {"parts-min", OPT_STR, "4",
     "divide the search among boards in classes of at least so many boards (4; 1 to 1000000)"},
    {NULL},
};

struct field {
	const char *name;
	int (*take)(const struct field *k, const char *value, void *at, struct arena *a);
	size_t at;
	int64_t least, most, unit; /* range of the kept value; unit of durations in ns */
	const char *allowed;
};

static int take_text(const struct field *k, const char *value, void *at, struct arena *a)
{
	(void)k;
	if (!*value)
		return E_USAGE;
	*(const char **)at = arena_strdup(a, value);
	return E_OK;
}

/* `at`: the configuration. Later settings of the three places win. */
static int take_state(const struct field *k, const char *value, void *at, struct arena *a)
{
	struct fleet_conf *c = at;
	(void)k;
	if (!*value)
		return E_USAGE;
	c->db = arena_printf(a, "%s/fleet.db", value);
	c->keys = arena_printf(a, "%s/keys", value);
	c->publish = arena_printf(a, "%s/publish", value);
	return E_OK;
}

static int whole(const char *value, int64_t least, int64_t most, int64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoll(value, &end, 10);
	return end == value || *end || errno || *out < least || *out > most ? E_USAGE : E_OK;
}

static int take_int(const struct field *k, const char *value, void *at, struct arena *a)
{
	int64_t v;
	(void)a;
	int rc = whole(value, k->least, k->most, &v);
	if (rc >= 0)
		*(int *)at = (int)v;
	return rc;
}

static int take_whole(const struct field *k, const char *value, void *at, struct arena *a)
{
	int64_t v;
	char number[24];
	size_t n = strlen(value);
	(void)a;
	if (n >= sizeof number)
		return E_USAGE;
	memcpy(number, value, n + 1);
	if (k->unit && n && number[n - 1] == '%')
		number[n - 1] = 0;
	int rc = whole(number, k->least, k->most, &v);
	if (rc >= 0)
		*(int64_t *)at = v;
	return rc;
}

static int take_time(const struct field *k, const char *value, void *at, struct arena *a)
{
	int64_t v;
	(void)a;
	if (duration_parse(value, &v) < 0 || v / k->unit < k->least || v / k->unit > k->most)
		return E_USAGE;
	*(int64_t *)at = v / k->unit;
	return E_OK;
}

static int take_size(const struct field *k, const char *value, void *at, struct arena *a)
{
	int64_t v;
	(void)a;
	if (size_parse(value, &v) < 0 || v < k->least || v > k->most)
		return E_USAGE;
	*(int64_t *)at = v;
	return E_OK;
}

static int take_quorum(const struct field *k, const char *value, void *at, struct arena *a)
{
	int q[CHANNELS], n = 0;
	(void)a;
	_Static_assert(CHANNELS == 3, "three numbers");
	if (sscanf(value, "%9d,%9d,%9d%n", &q[0], &q[1], &q[2], &n) != CHANNELS || value[n])
		return E_USAGE;
	for (int i = 0; i < CHANNELS; i++)
		if (q[i] < k->least || q[i] > k->most || (i && q[i] < q[i - 1]))
			return E_USAGE;
	memcpy(at, q, sizeof q);
	return E_OK;
}

#define AT(field) offsetof(struct fleet_conf, field)
#define DAY INT64_C(86400)
#define LEAST_BYTES (INT64_C(2) << 20) /* room for the largest batch */
#define MOST_BYTES (INT64_C(1) << 50)
_Static_assert(FLEET_BODY <= LEAST_BYTES, "a batch must fit");

static const struct field fields[] = {
    {"state", take_state, 0, 0, 0, 0, "a folder"}, /* before the places that it sets */
    {"db", take_text, AT(db), 0, 0, 0, "a file or a URL"},
    {"keys", take_text, AT(keys), 0, 0, 0, "a folder"},
    {"listen", take_text, AT(listen), 0, 0, 0, "ADDRESS:PORT"},
    {"publish", take_text, AT(publish), 0, 0, 0, "a folder or a URL"},
    {"admin", take_text, AT(admin), 0, 0, 0, "a file"},
    {"cert", take_text, AT(cert), 0, 0, 0, "a file"},
    {"key", take_text, AT(key), 0, 0, 0, "a file"},
    {"names", take_text, AT(names), 0, 0, 0, "names and addresses"},
    {"threads", take_int, AT(threads), 1, 64, 0, "1 to 64"},
    {"quorum", take_quorum, AT(quorum), 1, 1000, 0,
     "three whole numbers, at least 1 and none below the one before it"},
    {"tolerance", take_whole, AT(tolerance_pct), 1, 100, 1, "1% to 100%"},
    {"every", take_time, AT(every_ns), NS_PER_S, DAY *NS_PER_S, 1, "1s to 1d"},
    {"poll", take_time, AT(poll_s), 60, 30 * DAY, NS_PER_S, "1m to 30d"},
    {"expire", take_time, AT(expire_s), DAY, 3650 * DAY, NS_PER_S, "1d to 3650d"},
    {"stage", take_time, AT(stage_ns), 0, 365 * DAY *NS_PER_S, 1, "0s to 365d"},
    {"board-day", take_whole, AT(board_day), 1, 1000000, 0, "1 to 1000000"},
    {"board-bytes", take_size, AT(board_bytes), LEAST_BYTES, MOST_BYTES, 1, "2M to 1048576G"},
    {"all-bytes", take_size, AT(all_bytes), LEAST_BYTES, MOST_BYTES, 1, "2M to 1048576G"},
    {"parts-min", take_int, AT(parts_min), 1, 1000000, 0, "1 to 1000000"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

void fleet_conf_default(struct fleet_conf *c)
{
	*c = (struct fleet_conf){.listen = "127.0.0.1:8440",
				 .db = FLEET_STATE "/fleet.db",
				 .keys = FLEET_STATE "/keys",
				 .publish = FLEET_STATE "/publish",
				 .threads = 4,
				 .quorum = {1, 2, 3},
				 .tolerance_pct = 15,
				 .every_ns = 60 * NS_PER_S,
				 .poll_s = 6 * 3600,
				 .expire_s = 90 * DAY,
				 .stage_ns = DAY * NS_PER_S,
				 .board_day = 500,
				 .board_bytes = INT64_C(16) << 20,
				 .all_bytes = INT64_C(4) << 30,
				 .parts_min = 4};
}

static int set_field(struct fleet_conf *c, const struct field *f, const char *value, bool option,
		     struct arena *a)
{
	return f->take(f, value, (char *)c + f->at, a) >= 0
		   ? E_OK
		   : fail(E_USAGE, "%s%s%s%.100s is not possible; it takes %s", option ? "--" : "", f->name,
			  option ? " " : " = ", value, f->allowed);
}

int fleet_conf_set(struct fleet_conf *c, const char *name, const char *value, struct arena *a)
{
	for (int i = 0; i < FIELDS; i++)
		if (!strcmp(fields[i].name, name))
			return set_field(c, &fields[i], value, false, a);
	struct buf list = {0};
	struct near n;
	near_begin(&n, name);
	for (int i = 0; i < FIELDS; i++) {
		buf_printf(&list, "%s%s", i ? ", " : "", fields[i].name);
		near_add(&n, fields[i].name);
	}
	int rc =
	    fail(E_USAGE, "%.100s: no such key;%s%s%s there are: %s", name, n.best ? " did you mean " : "",
		 n.best ? n.best : "", n.best ? "?" : "", buf_str(&list));
	buf_free(&list);
	return rc;
}

struct reading {
	struct fleet_conf *c;
	struct arena *a;
	int rc;
};

static int on_key(void *ctx, const char *section, const char *name, const char *value)
{
	struct reading *r = ctx;
	if (r->rc >= 0)
		r->rc = strcmp(section, "fleet")
			    ? fail(E_USAGE, "[%s]: no such section; there is [fleet]", section)
			    : fleet_conf_set(r->c, name, value, r->a);
	return r->rc >= 0;
}

int fleet_conf_read(struct fleet_conf *c, const char *path, struct arena *a)
{
	struct reading r = {.c = c, .a = a};
	struct blob text;
	int rc = file_read(a, path, MOST_FILE, &text);
	if (rc < 0)
		return rc;
	int line = ini_parse_string(text.p, on_key, &r);
	if (r.rc < 0)
		return fail_in(r.rc, "%s:%d", path, line);
	return line ? fail(E_USAGE, "%s:%d: neither [fleet] nor key = value", path, line) : E_OK;
}

static bool has_opt(const struct args *args, const char *name)
{
	for (const struct opt *o = args->cmd->opts; o->name; o++)
		if (!strcmp(o->name, name))
			return true;
	return false;
}

int fleet_conf_of(const struct args *args, struct fleet_conf *c, struct arena *a)
{
	const char *path = arg_str(args, "config", NULL);
	fleet_conf_default(c);
	int rc = path || file_exists(FLEET_CONF) ? fleet_conf_read(c, path ? path : FLEET_CONF, a) : E_OK;
	for (int i = 0; i < FIELDS && rc >= 0; i++) {
		const char *name = fields[i].name;
		const char *value = has_opt(args, name) ? arg_str(args, name, NULL) : NULL;
		rc = value ? set_field(c, &fields[i], value, true, a) : E_OK;
	}
	const char *admin = arena_printf(a, "%s/admin", c->keys);
	c->admin = c->admin ? c->admin : file_exists(admin) ? admin : NULL;
	if (rc >= 0 && !c->cert != !c->key)
		rc = fail(E_USAGE, "cert and key go together: TLS needs both");
	return rc;
}

int fleet_write_root(const char *keys, const void *doc, size_t n)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/" FLEET_ROOT, keys) >= (int)sizeof path)
		return fail(E_USAGE, "%s: the path is too long", keys);
	int rc = file_write(path, doc, n);
	if (rc >= 0 && chmod(path, 0644) < 0)
		rc = fail(E_IO, "%s: %s", path, strerror(errno));
	return rc;
}
