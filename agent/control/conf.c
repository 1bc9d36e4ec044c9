/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/conf.h"
#include "agent/control/control.h"
#include "agent/control/policy.h"
#include "agent/control/sync_conf.h"
#include "kernels/library/library.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "platform/base/near.h"
#include "platform/base/quantity.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_NAME = 40, /* of a model: inih cuts a section's name at 49 bytes */
	MOST_LISTED = 64,
	MOST_LINE = 197, /* inih's buffer less \r, \n and NUL */
};

/* A line that the reader inserts and no file can contain: it tells the handler that a section begins, even
 * one without keys. */
#define SECTION_SEEN "\x01section"

struct reading {
	const char *file; /* for errors */
	const char *text;
	size_t n, at;
	int line;
	bool tell_section;
	struct arena *a;
	struct conf *c;
	struct conf_model *model; /* of the section, NULL outside [model ...] */
	int rc, bad_line;
	struct buf *mistakes; /* collects them, and reading goes on; NULL: it ends at the first one */
	int nmistakes;
	struct given
	    *given; /* while mistakes are collected: the sections and keys that the file had so far */
	bool skip;  /* the section is a mistake: its keys are not looked at */
	const char *twice; /* of a list of devices that was refused: the one that it has twice; NULL: none */
};

/* A section, or a key that may be given once in it: its name in messages and its line. */
struct given {
	const char *name;
	int line;
	struct given *next;
};

struct key_kind {
	char section[8], name[12];
	int (*take)(struct reading *r, const struct key_kind *k, const char *value, void *at);
	size_t at; /* in struct conf, or in struct conf_model */
	int64_t least, most;
	const char *allowed;
};

static int take_int(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r;
	char *end;
	errno = 0;
	long long v = strtoll(value, &end, 10);
	if (end == value || *end || errno || v < k->least || v > k->most)
		return E_USAGE;
	*(int *)at = (int)v;
	return 0;
}

static int take_percent(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	char number[16];
	size_t n = strlen(value);
	if (n == 0 || n >= sizeof number)
		return E_USAGE;
	memcpy(number, value, n + 1);
	if (number[n - 1] == '%')
		number[n - 1] = 0;
	return take_int(r, k, number, at);
}

static int take_percent_double(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	int v, rc = take_percent(r, k, value, &v);
	if (rc >= 0)
		*(double *)at = v;
	return rc;
}

static int take_degrees(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	int rc = take_int(r, k, value, at);
	if (rc >= 0)
		*(int *)at *= 1000;
	return rc;
}

static int take_parsed(const struct key_kind *k, const char *value, int64_t *at,
		       int (*parse)(const char *, int64_t *))
{
	int64_t v;
	if (parse(value, &v) < 0 || v < k->least || v > k->most)
		return E_USAGE;
	*at = v;
	return 0;
}

static int take_duration(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r;
	return take_parsed(k, value, at, duration_parse);
}

static int take_size(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r;
	return take_parsed(k, value, at, size_parse);
}

/* 0 stands for a size that honed chooses. */
static int take_room(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	if (strcmp(value, "0"))
		return take_size(r, k, value, at);
	*(int64_t *)at = 0;
	return 0;
}

static int take_yes(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r, (void)k;
	if (strcmp(value, "yes") && strcmp(value, "no"))
		return E_USAGE;
	*(bool *)at = *value == 'y';
	return 0;
}

static int take_exact(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	bool exact;
	int rc = take_yes(r, k, value, &exact);
	if (rc < 0 || !exact)
		return rc;
	if (!level_serves(*(enum level *)at, LEVEL_FP32))
		return fail(E_USAGE, "exact = yes contradicts level = %s", level_name(*(int *)at));
	*(enum level *)at = LEVEL_EXACT;
	return rc;
}

static int take_level(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r, (void)k;
	return level_parse(value, at);
}

static int take_log(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r, (void)k;
	static const char *const words[] = {[LOG_QUIET] = "quiet", "normal", "verbose"};
	for (int i = 0; i < 3; i++)
		if (!strcmp(value, words[i])) {
			*(int *)at = i;
			return 0;
		}
	return E_USAGE;
}

static int take_path(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)k;
	if (*value != '/')
		return E_USAGE;
	*(const char **)at = arena_strdup(r->a, value);
	return 0;
}

static int take_cache(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	r->c->cache_file = arena_strdup(r->a, r->file);
	r->c->cache_line = r->line;
	return take_path(r, k, value, at);
}

static int take_policy(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r, (void)k;
	const struct policy *p = policy_find(value);
	if (!p)
		return E_USAGE;
	*(const char **)at = p->name;
	return 0;
}

/* Parses "22:00" into minutes. Returns the text behind it; NULL: not a time. */
static const char *minute_of(const char *p, int *out)
{
	int h = 0, m = 0, n = 0;
	if (sscanf(p, "%2d:%2d%n", &h, &m, &n) < 2 || n != 5 || strspn(p, "0123456789:") < 5 || h > 23 ||
	    m > 59)
		return NULL;
	*out = h * 60 + m;
	return p + n;
}

static int take_hours(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)r, (void)k;
	struct gate_limits *g = at;
	int from = 0, to = 0;
	if (strcmp(value, "always")) {
		const char *p = minute_of(value, &from);
		p = p && *p == '-' ? minute_of(p + 1, &to) : NULL;
		if (!p || *p || from == to)
			return E_USAGE;
	}
	g->from_minute = from;
	g->to_minute = to;
	return 0;
}

/* Whether it is of the form 1x3x224x224. */
static bool is_dims(const char *p)
{
	for (;; p++) {
		size_t digits = strspn(p, "0123456789");
		if (digits == 0 || digits > 9)
			return false;
		p += digits;
		if (*p != 'x')
			return !*p;
	}
}

/* Bytes of NAME in "NAME=DIMS" or, in older files, "NAME:DIMS"; 0: it is neither. */
static size_t shape_name(const char *value)
{
	const char *sep = strrchr(value, '=');
	sep = sep ? sep : strrchr(value, ':');
	return sep ? (size_t)(sep - value) : 0;
}

bool conf_is_shape(const char *value)
{
	size_t name = shape_name(value);
	return name && is_dims(value + name + 1);
}

/* A name that was given before, in this file or an earlier one, gets the new dimensions. */
static int take_shape(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	struct conf_shapes *list = at;
	char *copy = arena_strdup(r->a, value);
	size_t name = shape_name(copy);
	if (!conf_is_shape(copy))
		return E_USAGE;
	copy[name++] = '=';
	if (!list->shape)
		list->shape = ARENA_ARRAY(r->a, const char *, CONF_SHAPES);
	int i = 0;
	while (i < list->n && strncmp(list->shape[i], copy, name))
		i++;
	if (i >= k->most)
		return E_USAGE;
	list->shape[i] = copy;
	list->n += i == list->n;
	return 0;
}

static int take_devices(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)k;
	return conf_devices_parse(r->a, value, at, &r->twice);
}

static int take_libraries(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)k;
	if (!conf_is_libraries(value))
		return E_USAGE;
	*(const char **)at = arena_strdup(r->a, value);
	return 0;
}

static int take_file(struct reading *r, const struct key_kind *k, const char *value, void *at)
{
	(void)at;
	struct conf *c = r->c;
	if (*value != '/' || c->ninhibit >= k->most)
		return E_USAGE;
	if (!c->inhibit)
		c->inhibit = ARENA_ARRAY(r->a, const char *, k->most);
	c->inhibit[c->ninhibit++] = arena_strdup(r->a, value);
	return 0;
}

#define AT(field) offsetof(struct conf, field)
#define MODEL(field) offsetof(struct conf_model, field)
#define MIB(n) ((int64_t)(n) << 20)
#define ABSOLUTE "an absolute path"
#define LIBRARIES "none, all, or names with commas between: " LIBRARY_NAMES ", absolute paths of your own"

static const struct key_kind keys[] = {
    {"honed", "cache", take_cache, AT(cache), 0, 0, ABSOLUTE},
    {"honed", "cache_limit", take_size, AT(cache_bytes), MIB(1), MIB(16384), "1M to 16G"},
    {"honed", "socket", take_path, AT(socket), 0, 0, ABSOLUTE},
    {"honed", "policy", take_policy, AT(policy), 0, 0, NULL},
    {"honed", "log", take_log, AT(log), 0, 0, "quiet, normal or verbose"},
    {"honed", "library", take_libraries, AT(library), 0, 0, LIBRARIES},
    {"boot", "budget", take_duration, AT(boot_budget_ns), 0, 3600 * NS_PER_S,
     "0s to 1h, as 20s, 500ms or 2m"},
    {"boot", "jobs", take_int, AT(boot_jobs), 0, 16, "0 (as many as fit) to 16"},
    {"boot", "unclean", take_int, AT(boot_unclean), 1, 100, "1 to 100"},
    {"idle", "tune", take_yes, AT(idle), 0, 0, "yes or no"},
    {"idle", "slice", take_duration, AT(slice_ns), NS_PER_S, 3600 * NS_PER_S, "1s to 1h"},
    {"idle", "hours", take_hours, AT(gate), 0, 0, "always, or two times as 22:00-06:00"},
    {"idle", "load", take_percent_double, AT(gate.load_pct), 1, 100, "1% to 100%"},
    {"idle", "pressure", take_percent_double, AT(gate.pressure_pct), 1, 100, "1% to 100%"},
    {"idle", "headroom", take_degrees, AT(gate.headroom_mc), 1, 100, "1 to 100 (degrees C below the limit)"},
    {"idle", "battery", take_percent, AT(gate.battery_pct), 1, 100, "1% to 100%"},
    {"idle", "memory", take_size, AT(gate.memory_bytes), MIB(1), MIB(1 << 20), "1M to 1024G"},
    {"idle", "settle", take_duration, AT(gate.settle_ns), NS_PER_S, 3600 * NS_PER_S, "1s to 1h"},
    {"idle", "rest", take_duration, AT(rest_ns), NS_PER_S, 24 * 3600 * NS_PER_S, "1s to 24h"},
    {"limits", "memory", take_room, AT(job_memory_bytes), MIB(16), MIB(1 << 20),
     "0 (half of the board's, 512M at least), or 16M to 1024G"},
    {"limits", "jobs", take_int, AT(jobs), 1, 16, "1 to 16"},
    {"limits", "writes", take_size, AT(writes_bytes), MIB(1), MIB(1 << 20), "1M to 1024G (a day)"},
    {"inhibit", "file", take_file, 0, 0, MOST_LISTED, ABSOLUTE ", at most 64 of them"},
    {"model", "path", take_path, MODEL(path), 0, 0, ABSOLUTE},
    {"model", "threads", take_int, MODEL(threads), 0, 64, "0 (as hone tune chooses) to 64"},
    {"model", "priority", take_int, MODEL(priority), -100, 100, "-100 to 100"},
    {"model", "level", take_level, MODEL(level), 0, 0, "exact, fp32, w16, half, half-sum or int8"},
    {"model", "exact", take_exact, MODEL(level), 0, 0, "yes or no"},
    {"model", "device", take_devices, MODEL(devices), 0, CONF_DEVICES,
     "cpu, cpu:CLUSTER, opencl:N or cuda:N as hone devices lists it, or several with blanks between them, at "
     "most 8"},
    {"model", "library", take_libraries, MODEL(library), 0, 0, LIBRARIES},
    {"model", "shape", take_shape, MODEL(shapes), 0, CONF_SHAPES,
     "what --shape of hone tune takes, x=1x3x224x224 or N=4, at most 8 times"},
};
enum { NKEYS = sizeof keys / sizeof *keys };

__attribute__((format(printf, 2, 3))) static int refuse(struct reading *r, const char *fmt, ...)
{
	char what[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	r->bad_line = r->line;
	if (r->mistakes) {
		log_plain(what);
		buf_printf(r->mistakes, "%s:%d: %s\n", r->file, r->line, what);
		r->nmistakes++;
		return E_USAGE;
	}
	return r->rc = fail(E_USAGE, "%s:%d: %s", r->file, r->line, what);
}

/* Reports a section or key that this file gave before, and remembers it otherwise. */
static void refuse_again(struct reading *r, const char *name, const char *advice)
{
	if (!r->mistakes)
		return;
	for (const struct given *g = r->given; g; g = g->next)
		if (!strcmp(g->name, name)) {
			refuse(r, "%s is in line %d already; %s", name, g->line, advice);
			return;
		}
	struct given *g = ARENA_NEW(r->a, struct given);
	*g = (struct given){.name = arena_strdup(r->a, name), .line = r->line, .next = r->given};
	r->given = g;
}

/* Writes lists for messages, and looks for the name that n's word may have meant. */
static void section_names(struct buf *out, struct near *n)
{
	for (int i = 0; i < NKEYS; i++)
		if (!i || strcmp(keys[i].section, keys[i - 1].section)) {
			bool model = !strcmp(keys[i].section, "model");
			buf_printf(out, "[%s], ", model ? "model NAME" : keys[i].section);
			near_add(n, keys[i].section);
		}
	buf_puts(out, "[sync]");
	near_add(n, "sync");
}

static void key_names(const char *section, struct buf *out, struct near *n)
{
	for (int i = 0; i < NKEYS; i++)
		if (!strcmp(keys[i].section, section)) {
			buf_printf(out, "%s%s", out->n ? ", " : "", keys[i].name);
			near_add(n, keys[i].name);
		}
}

/* Appends the sections that have a key of this name: "[idle], [limits]". */
static void sections_of_key(const char *name, struct buf *out)
{
	for (int i = 0; i < NKEYS; i++)
		if (!strcmp(keys[i].name, name))
			buf_printf(out, "%s[%s]", out->n ? ", " : "",
				   strcmp(keys[i].section, "model") ? keys[i].section : "model NAME");
	if (sync_conf_has(name))
		buf_printf(out, "%s[sync]", out->n ? ", " : "");
}

static void policy_names(struct buf *out)
{
	for (int i = 0; policy_table[i]; i++)
		buf_printf(out, "%s%s", i ? ", " : "", policy_table[i]->name);
}

static int refuse_listing(struct reading *r, struct buf *list, const char *what)
{
	int rc = refuse(r, "%s there are: %s", what, buf_str(list));
	buf_free(list);
	return rc;
}

/* Returns the model of a section's name; makes it if there is none. */
static int model_section(struct reading *r, const char *name)
{
	struct conf *c = r->c;
	size_t n = strlen(name);
	if (n < 1 || n > MOST_NAME || strpbrk(name, "\"\\/\t"))
		return refuse(
		    r,
		    "[model %s]: not a valid model name; allowed are 1 to %d bytes without \" \\ / and tabs",
		    name, MOST_NAME);
	for (int i = 0; i < c->nmodels; i++)
		if (!strcmp(c->model[i].name, name)) {
			r->model = &c->model[i];
			return 0;
		}
	if (c->nmodels == CONF_MODELS)
		return refuse(r, "[model %s]: too many models; at most %d are kept tuned", name, CONF_MODELS);
	if (!c->model)
		c->model = ARENA_ARRAY(r->a, struct conf_model, CONF_MODELS);
	r->model = &c->model[c->nmodels++];
	*r->model = (struct conf_model){
	    .name = arena_strdup(r->a, name), .file = arena_strdup(r->a, r->file), .line = r->line};
	return 0;
}

/* "model NAME" -> "model". */
static const char *kind_of_section(const char *section)
{
	return !strncmp(section, "model ", 6) ? "model" : section;
}

static int begin_section(struct reading *r, const char *section)
{
	char name[MOST_LINE];
	snprintf(name, sizeof name, "[%s]", section);
	r->model = NULL;
	if (!strncmp(section, "model ", 6)) {
		int rc = model_section(r, section + 6 + strspn(section + 6, " "));
		if (rc >= 0) /* more blanks name the same model */
			snprintf(name, sizeof name, "[model %s]", r->model->name);
		if (rc >= 0)
			refuse_again(r, name, "write all its keys there");
		return rc;
	}
	bool known = !strcmp(section, "sync");
	for (int i = 0; i < NKEYS && !known; i++)
		known = !strcmp(keys[i].section, section) && strcmp(section, "model");
	if (known) {
		refuse_again(r, name, "write all its keys there");
		return 0;
	}
	struct buf list = {0};
	struct near n;
	char what[160];
	size_t word = strcspn(section, " ");
	char first[MOST_NAME];
	snprintf(first, sizeof first, "%.*s", (int)word, section);
	near_begin(&n, first);
	section_names(&list, &n);
	const char *best = n.best && !strcmp(n.best, "model") ? "model NAME" : n.best;
	snprintf(what, sizeof what, "[%s]: no such section;%s%s%s", section, best ? " did you mean [" : "",
		 best ? best : "", best ? "]?" : "");
	return refuse_listing(r, &list, what);
}

static int take_sync(struct reading *r, const char *name, const char *value)
{
	struct conf *c = r->c;
	int i = 0;
	while (i < c->nsync && strcmp(c->sync[i].key, name))
		i++;
	if (i == MOST_LISTED)
		return refuse(r, "[sync] %s: too many keys; at most %d are kept", name, MOST_LISTED);
	if (!c->sync)
		c->sync = ARENA_ARRAY(r->a, struct conf_sync, MOST_LISTED);
	c->sync[i] = (struct conf_sync){arena_strdup(r->a, name), arena_strdup(r->a, value),
					arena_strdup(r->a, r->file), r->line};
	c->nsync += i == c->nsync;
	if (!r->mistakes)
		return 0;
	if (sync_conf_check(name, value) < 0)
		return refuse(r, "%s", err_text());
	char given[MOST_LINE + 16];
	snprintf(given, sizeof given, "[sync] %s", name);
	refuse_again(r, given, "keep one of the two");
	return 0;
}

/* Refuses a key that its section already has. A shape may be given again for another name, a file key
 * always. */
static void refuse_key_again(struct reading *r, const struct key_kind *k, const char *section,
			     const char *value)
{
	char name[2 * MOST_LINE];
	int shape = k->take == take_shape ? (int)shape_name(value) : 0;
	if (k->take == take_file)
		return;
	snprintf(name, sizeof name, "[%s%s] %s%s%.*s", r->model ? "model " : "",
		 r->model ? r->model->name : section, k->name, shape ? " = " : "", shape, value);
	refuse_again(r, name, "keep one of the two");
}

static int take_key(struct reading *r, const struct key_kind *k, const char *section, const char *value)
{
	char *base = r->model ? (char *)r->model : (char *)r->c;
	if (k->take(r, k, value, base + k->at) >= 0) {
		refuse_key_again(r, k, section, value);
		return 0;
	}
	if (r->mistakes && r->model && k->take == take_path)
		r->model->path = ""; /* it is not missing */
	if (k->take == take_devices && r->twice)
		return refuse(r, "[%s] %s = %s: %.40s is there twice; name it once", section, k->name, value,
			      r->twice);
	struct buf list = {0};
	if (!k->allowed)
		policy_names(&list);
	int rc = refuse(r, "[%s] %s = %s is not possible; it takes %s", section, k->name, value,
			k->allowed ? k->allowed : buf_str(&list));
	buf_free(&list);
	return rc;
}

static int refuse_unknown_key(struct reading *r, const char *section, const char *kind, const char *name)
{
	struct buf list = {0}, homes = {0};
	struct near n;
	char what[2 * MOST_LINE + 128];
	sections_of_key(name, &homes);
	near_begin(&n, name);
	key_names(kind, &list, &n);
	int len = snprintf(what, sizeof what, "[%s] %s: no such key;", section, name);
	if (homes.n)
		snprintf(what + len, sizeof what - (size_t)len, " it belongs to %s;", buf_str(&homes));
	else if (n.best)
		snprintf(what + len, sizeof what - (size_t)len, " did you mean %s?", n.best);
	buf_free(&homes);
	return refuse_listing(r, &list, what);
}

static int find_key(struct reading *r, const char *section, const char *name, const char *value)
{
	const char *kind = kind_of_section(section);
	if (!strcmp(kind, "sync"))
		return take_sync(r, name, value);
	for (int i = 0; i < NKEYS; i++)
		if (!strcmp(keys[i].section, kind) && !strcmp(keys[i].name, name))
			return take_key(r, &keys[i], section, value);
	return refuse_unknown_key(r, section, kind, name);
}

static int take_line(struct reading *r, const char *section, const char *name, const char *value)
{
	if (!strcmp(name, SECTION_SEEN)) {
		int rc = begin_section(r, section);
		r->skip = rc < 0;
		return rc;
	}
	if (r->skip)
		return 0;
	if (!*section)
		return refuse(r, "%s: this key is before any section; begin with a section, such as [boot]",
			      name);
	return find_key(r, section, name, value);
}

/* inih goes on after an error; the first error is kept. */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct reading *r = user;
	if (r->rc < 0)
		return 0;
	return take_line(r, section, name, value) >= 0 || r->mistakes;
}

/* Finds the next line, without blanks around it; false at the end. */
static bool next_line(struct reading *r, const char **line, size_t *n)
{
	if (r->at >= r->n)
		return false;
	const char *p = r->text + r->at, *nl = memchr(p, '\n', r->n - r->at);
	size_t len = nl ? (size_t)(nl - p) : r->n - r->at;
	r->at += len + (nl != NULL);
	r->line++;
	if (r->line == 1 && len >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3, len -= 3;
	for (; len && strchr(" \t", *p) && *p; len--)
		p++;
	for (; len && strchr(" \t\r", p[len - 1]) && p[len - 1]; len--)
		;
	*line = p;
	*n = len;
	return true;
}

/* After a section's ] only a comment may follow: inih would silently drop a key there. */
static int check_section_line(struct reading *r, const char *s)
{
	const char *end = strchr(s, ']');
	if (end && end[1 + strspn(end + 1, " \t")] && !strchr(";#", end[1 + strspn(end + 1, " \t")]))
		return refuse(r, "text after [%.*s]; write each key on a line of its own", (int)(end - s - 1),
			      s + 1);
	if (end && end - s - 1 > MOST_NAME + 6)
		return refuse(r, "a section's name is too long; a model's has at most %d bytes", MOST_NAME);
	return 0;
}

static int check_line(struct reading *r, const char *s, size_t n)
{
	char plain[MOST_LINE + 1];
	if (strlen(s) != n)
		return refuse(r, "a NUL byte; only UTF-8 text is allowed");
	memcpy(plain, s, n + 1);
	log_plain(plain);
	if (strcmp(plain, s))
		return refuse(r, "not UTF-8, or a control character; only UTF-8 text is allowed");
	return *s == '[' ? check_section_line(r, s) : 0;
}

/* True: one of the characters comes before the line's end and before a comment, as inih looks for it. */
static bool has_one_of(const char *s, const char *set)
{
	for (bool blank = false; *s && !strchr(set, *s); s++) {
		if (blank && *s == ';')
			return false;
		blank = *s == ' ' || *s == '\t';
	}
	return *s;
}

/* Whether inih can read the line. */
static bool is_known_form(const char *s)
{
	if (!*s || *s == ';' || *s == '#')
		return true;
	return *s == '[' ? has_one_of(s + 1, "]") : has_one_of(s, "=:");
}

/* Checks the line while mistakes are collected. A line that is a mistake becomes an empty one. */
static void collect_line(struct reading *r, char *s, size_t n)
{
	int rc = check_line(r, s, n);
	if (rc >= 0 && !is_known_form(s))
		rc = refuse(r, "neither a [section] nor key = value");
	if (rc < 0 && *s == '[')
		r->skip = true;
	if (rc < 0)
		*s = 0;
}

/* Replaces fgets for inih. It returns lines without leading and trailing blanks, because inih would take an
 * indented line as a continuation of the value before it. After the line of a section it inserts
 * SECTION_SEEN. */
static char *read_line(char *out, int size, void *stream)
{
	struct reading *r = stream;
	const char *line;
	size_t n;
	if (r->rc < 0)
		return NULL;
	if (r->tell_section) {
		r->tell_section = false;
		snprintf(out, (size_t)size, SECTION_SEEN "=1\n");
		return out;
	}
	if (!next_line(r, &line, &n))
		return NULL;
	if (n + 3 > (size_t)size || n > MOST_LINE) {
		refuse(r, "a line of %zu bytes; at most %d are allowed", n, MOST_LINE);
		if (!r->mistakes)
			return NULL;
		n = 0;
	}
	memcpy(out, line, n);
	out[n] = 0;
	if (r->mistakes) {
		collect_line(r, out, n);
		n = strlen(out);
	} else if (check_line(r, out, n) < 0) {
		return NULL;
	}
	r->tell_section = *out == '[' && strchr(out, ']');
	memcpy(out + n, "\n", 2);
	return out;
}

/* Returns the number in the file of inih's nth line. */
static int line_of(const struct reading *r, int nth)
{
	struct reading again = {.file = r->file, .text = r->text, .n = r->n};
	char line[MOST_LINE + 3];
	for (int i = 0; i < nth; i++)
		if (!read_line(line, sizeof line, &again))
			break;
	return again.line;
}

static int models_have_paths(struct reading *r)
{
	for (int i = 0; i < r->c->nmodels; i++) {
		r->line = r->c->model[i].line;
		if (r->c->model[i].path)
			continue;
		int rc = refuse(r, "[model %s]: path is missing; set path = FILE", r->c->model[i].name);
		if (!r->mistakes)
			return rc;
		r->c->model[i].path = ""; /* told */
	}
	return 0;
}

void conf_defaults(struct conf *c)
{
	*c = (struct conf){.socket = CONTROL_SOCKET,
			   .policy = POLICY_DEFAULT,
			   .cache_bytes = MIB(64),
			   .log = LOG_NORMAL,
			   .boot_budget_ns = 20 * NS_PER_S,
			   .boot_unclean = 3,
			   .idle = true,
			   .slice_ns = 30 * NS_PER_S,
			   .rest_ns = 600 * NS_PER_S,
			   .gate = {.load_pct = 25,
				    .pressure_pct = 10,
				    .headroom_mc = 15000,
				    .battery_pct = 30,
				    .memory_bytes = MIB(128),
				    .settle_ns = 10 * NS_PER_S},
			   .writes_bytes = MIB(20),
			   .jobs = 1};
}

int conf_collect(const char *name, const char *text, size_t n, struct arena *a, struct conf *c,
		 struct buf *mistakes)
{
	struct reading r = {.file = name, .text = text, .n = n, .a = a, .c = c, .mistakes = mistakes};
	int nth = ini_parse_stream(read_line, &r, on_key, &r);
	if (nth == -2)
		return fail(E_NOMEM, "no memory to read %s", name);
	int line = nth > 0 ? line_of(&r, nth) : 0;
	if (nth > 0 && !r.nmistakes && (r.rc >= 0 || line < r.bad_line)) {
		r.line = line;
		int rc = refuse(&r, "neither a [section] nor key = value");
		if (!mistakes)
			return rc;
	}
	int rc = r.rc < 0 ? r.rc : models_have_paths(&r);
	return rc < 0 ? rc : r.nmistakes;
}

int conf_text(const char *name, const char *text, size_t n, struct arena *a, struct conf *c)
{
	return conf_collect(name, text, n, a, c, NULL);
}

int conf_cmdline_budget(const char *cmdline, int64_t *ns)
{
	static const struct key_kind budget = {.most = 3600 * NS_PER_S};
	static const char key[] = "hone.budget=";
	const char *found = NULL;
	char value[32];
	for (const char *p = cmdline + strspn(cmdline, " \t\n"); *p; p += strspn(p, " \t\n")) {
		if (!strncmp(p, key, sizeof key - 1))
			found = p + sizeof key - 1;
		p += strcspn(p, " \t\n");
	}
	if (!found)
		return 0;
	snprintf(value, sizeof value, "%.*s", (int)strcspn(found, " \t\n"), found);
	if (take_parsed(&budget, value, ns, duration_parse) < 0)
		return fail(E_USAGE, "kernel command line: %s%s is not possible; it takes 0s to 1h, as 20s",
			    key, value);
	return 1;
}
