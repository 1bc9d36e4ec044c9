/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/fields.h"

#include "platform/base/hash.h"
#include "platform/base/meas.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 16 };

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
	case F_STATUS:
		buf_puts(out, meas_status_name(*(const enum meas_status *)p));
		break;
	case F_WORD:
		buf_puts(out, f->word(*(const int *)p));
		break;
	}
}

void fields_text(const struct field *f, int n, const void *value, struct buf *out)
{
	for (int i = 0; i < n; i++) {
		buf_printf(out, "%s ", f[i].name);
		put_field(out, &f[i], (const char *)value + f[i].at);
		buf_puts(out, "\n");
	}
}

bool field_int(const char *s, int64_t lo, int64_t hi, int64_t *out)
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

int field_word(const char *s, const char *(*word)(int i))
{
	const char *w;
	for (int i = 0; (w = word(i)); i++)
		if (!strcmp(s, w))
			return i;
	return -1;
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
		if (!field_int(s, INT32_MIN, INT32_MAX, &v))
			return false;
		*(int *)p = (int)v;
		return true;
	case F_I64:
		return field_int(s, 0, INT64_MAX, p);
	case F_BOOL:
		*(bool *)p = *s == '1';
		return !strcmp(s, "0") || !strcmp(s, "1");
	case F_REAL:
		return parse_real(s, p);
	case F_STATUS:
		return meas_status_parse(s, p) >= 0;
	case F_WORD:
		*(int *)p = field_word(s, f->word);
		return *(int *)p >= 0;
	}
	return false;
}

/* Returns the value of n bytes, unescaped, in the arena; NULL: a bad escape, or no memory. */
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

int fields_parse(const struct field *f, int n, const char **text, struct arena *a, void *value)
{
	for (int i = 0; i < n; i++) {
		const char *at = *text;
		size_t name = strlen(f[i].name), line = strcspn(at, "\n");
		if (line > MAX_LINE || line <= name || strncmp(at, f[i].name, name) || at[name] != ' ' ||
		    !at[line])
			return fail(E_CORRUPT, "missing line '%s'", f[i].name);
		const char *s = unescape(a, at + name + 1, line - name - 1);
		if (!s || !parse_field(&f[i], s, (char *)value + f[i].at))
			return fail(E_CORRUPT, "bad value of '%s'", f[i].name);
		*text = at + line + 1;
	}
	return E_OK;
}
