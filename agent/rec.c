/* SPDX-License-Identifier: Apache-2.0 */
/* A record's text and keys. The text is lines "name value" in the order of the table below, all of them, the
 * first being "hone-rec 1"; backslash and newline in a value are \\ and \n. It parses back exactly. */
#include "agent/cache.h"
#include "search/job.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "hone-rec 1\n"
enum { MAX_LINE = 1 << 16 };

enum kind { F_KEY, F_CHARS, F_INT, F_I64, F_BOOL, F_REAL, F_KIND, F_STATUS, F_TEXT };

struct field {
	const char *name;
	enum kind kind;
	size_t at, bytes; /* in struct rec */
};

#define FIELD(text, k, member)                                                                               \
	{                                                                                                    \
		text, k, offsetof(struct rec, member), sizeof((struct rec *)0)->member                       \
	}

static const struct field fields[] = {
    FIELD("task", F_KEY, task),
    FIELD("kind", F_KIND, kind),
    FIELD("target", F_CHARS, target),
    FIELD("target_key", F_KEY, target_key),
    FIELD("device", F_CHARS, device),
    FIELD("threads", F_INT, threads),
    FIELD("exact", F_BOOL, exact),
    FIELD("emitter", F_CHARS, emitter),
    FIELD("cand", F_CHARS, cand),
    FIELD("status", F_STATUS, meas.status),
    FIELD("runs", F_INT, meas.runs),
    FIELD("min_ns", F_I64, meas.min_ns),
    FIELD("median_ns", F_I64, meas.median_ns),
    FIELD("spread_ns", F_I64, meas.spread_ns),
    FIELD("build_ns", F_I64, meas.build_ns),
    FIELD("max_rel_err", F_REAL, meas.max_rel_err),
    FIELD("mhz_before", F_INT, meas.mhz_before),
    FIELD("mhz_after", F_INT, meas.mhz_after),
    FIELD("mc_before", F_INT, meas.mc_before),
    FIELD("mc_after", F_INT, meas.mc_after),
    FIELD("measured_threads", F_INT, meas.threads),
    FIELD("label", F_TEXT, label),
    FIELD("text", F_TEXT, task_text),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

static const char *const kind_name[] = {[REC_DEFAULT] = "default", [REC_BEST] = "best"};

struct key rec_key(const struct rec *r)
{
	char text[256], task[33], target[33];
	key_text(r->task, task);
	key_text(r->target_key, target);
	snprintf(text, sizeof text, "rec %s %s %s %d %d %d", task, target, r->device, r->threads, r->exact,
		 r->kind);
	return hash_text(text);
}

struct key code_key(const struct rec *r)
{
	return hash_join(hash_join(rec_key(r), hash_text(r->emitter)), hash_text(r->cand));
}

static void put_escaped(struct buf *out, const char *s)
{
	for (; s && *s; s++) {
		if (*s == '\\' || *s == '\n')
			buf_puts(out, *s == '\n' ? "\\n" : "\\\\");
		else
			buf_add(out, s, 1);
	}
}

static void put_field(struct buf *out, const struct field *f, const void *p)
{
	char key[33];
	switch (f->kind) {
	case F_KEY:
		key_text(*(const struct key *)p, key);
		buf_puts(out, key);
		break;
	case F_CHARS:
		put_escaped(out, p);
		break;
	case F_TEXT:
		put_escaped(out, *(const char *const *)p);
		break;
	case F_INT:
		buf_printf(out, "%d", *(const int *)p);
		break;
	case F_I64:
		buf_printf(out, "%" PRId64, *(const int64_t *)p);
		break;
	case F_BOOL:
		buf_puts(out, *(const bool *)p ? "1" : "0");
		break;
	case F_REAL:
		buf_printf(out, "%a", *(const double *)p);
		break;
	case F_KIND:
		buf_puts(out, kind_name[*(const int *)p == REC_BEST]);
		break;
	case F_STATUS:
		buf_puts(out, meas_status_name(*(const enum meas_status *)p));
		break;
	}
}

void rec_text(const struct rec *r, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	for (int i = 0; i < NFIELDS; i++) {
		buf_printf(out, "%s ", fields[i].name);
		put_field(out, &fields[i], (const char *)r + fields[i].at);
		buf_puts(out, "\n");
	}
}

/* Digits only, with an optional minus, and in range: what rec_text writes. */
static bool parse_int(const char *s, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;
	if (!isdigit((unsigned char)s[*s == '-']))
		return false;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	*out = v;
	return !errno && !*end && v >= lo && v <= hi;
}

static bool parse_real(const char *s, double *out)
{
	char *end;
	if (isspace((unsigned char)*s) || !*s)
		return false;
	*out = strtod(s, &end);
	return !*end && isfinite(*out) && *out >= 0;
}

/* s is one value, unescaped, and lives in the arena. */
static bool parse_field(const struct field *f, const char *s, void *p)
{
	int64_t v;
	switch (f->kind) {
	case F_KEY:
		return key_parse(s, p) >= 0;
	case F_CHARS:
		if (strlen(s) >= f->bytes)
			return false;
		memcpy(p, s, strlen(s) + 1);
		return true;
	case F_TEXT:
		*(const char **)p = s;
		return true;
	case F_INT:
		if (!parse_int(s, INT32_MIN, INT32_MAX, &v))
			return false;
		*(int *)p = (int)v;
		return true;
	case F_I64:
		return parse_int(s, 0, INT64_MAX, p);
	case F_BOOL:
		*(bool *)p = *s == '1';
		return !strcmp(s, "0") || !strcmp(s, "1");
	case F_REAL:
		return parse_real(s, p);
	case F_KIND:
		*(int *)p = !strcmp(s, kind_name[REC_BEST]) ? REC_BEST : REC_DEFAULT;
		return !strcmp(s, kind_name[*(int *)p]);
	case F_STATUS:
		return meas_status_parse(s, p) >= 0;
	}
	return false;
}

/* The value of n bytes, unescaped, in the arena; NULL: a bad escape, or no memory. */
static char *unescape(struct arena *a, const char *s, size_t n)
{
	char *out = arena_try(a, n + 1, 1), *p = out;
	for (size_t i = 0; out && i < n; i++) {
		if (s[i] != '\\') {
			*p++ = s[i];
			continue;
		}
		if (++i == n || (s[i] != 'n' && s[i] != '\\'))
			return NULL;
		*p++ = s[i] == 'n' ? '\n' : '\\';
	}
	return out;
}

int rec_parse(const char *text, struct arena *a, struct rec *out)
{
	*out = (struct rec){0};
	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not a record of this version");
	text += strlen(FIRST_LINE);
	for (int i = 0; i < NFIELDS; i++) {
		const struct field *f = &fields[i];
		size_t name = strlen(f->name), line = strcspn(text, "\n");
		if (line > MAX_LINE || line <= name || strncmp(text, f->name, name) || text[name] != ' ' ||
		    !text[line])
			return fail(E_CORRUPT, "record: no line '%s'", f->name);
		const char *value = unescape(a, text + name + 1, line - name - 1);
		if (!value || !parse_field(f, value, (char *)out + f->at))
			return fail(E_CORRUPT, "record: bad value of '%s'", f->name);
		text += line + 1;
	}
	if (*text)
		return fail(E_CORRUPT, "record: more lines than expected");
	return E_OK;
}
