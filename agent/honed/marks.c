/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/marks.h"

#include "agent/cache/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MOST_BYTES = 16 << 10,
	MOST_UNCLEAN = 1000000,
	MOST_MISSING = 1000000,
	MOST_DAYS = 10000000,
	MOST_RECORDS = 1000000000
};
#define MOST_MS 1e12
#define MOST_WRITTEN (INT64_C(1) << 50)
static const char first[] = "hone marks 1\n";

static bool is_no_key(struct key k)
{
	return !k.hi && !k.lo;
}

static void print_cache(const struct inventory *v, struct buf *out)
{
	char key[33];
	key_text(v->files, key);
	buf_printf(out, "cache %s %d %d", key, v->records, v->code);
	for (int i = 0; i < INVENTORY_SOME && !is_no_key(v->some[i]); i++) {
		key_text(v->some[i], key);
		buf_printf(out, " %s", key);
	}
	buf_puts(out, "\n");
}

void marks_print(const struct marks *m, struct buf *out)
{
	char key[33];
	buf_puts(out, first);
	buf_printf(out, "unclean %d\n", m->unclean);
	if (m->day_bytes > 0)
		buf_printf(out, "flash %" PRId64 " %" PRId64 "\n", m->day, m->day_bytes);
	if (inventory_is_known(&m->cache))
		print_cache(&m->cache, out);
	for (int i = 0; i < m->n; i++) {
		key_text(m->model[i].model, key);
		buf_printf(out, "model %s %d %.6g %d %s%.6g %.6g %d\n", key, m->model[i].boxed,
			   m->model[i].promise, m->model[i].missing,
			   m->model[i].rough == MARK_FIRST ? "+" : "", (double)m->model[i].before_ms,
			   (double)m->model[i].now_ms, m->model[i].rough != MARK_CERTAIN);
	}
	buf_puts(out, "end\n");
}

/* Reads "before_ms now_ms rough". */
static int parse_times(const char *text, struct mark_of *out)
{
	float *const to[] = {&out->before_ms, &out->now_ms};
	const char *at = text;
	for (int i = 0; i < 2; i++) {
		char *end;
		double ms = strtod(at, &end);
		if (end == at || *end != ' ' || !(ms >= 0 && ms <= MOST_MS))
			return fail(E_CORRUPT, "invalid times of a model: '%.60s'", text);
		*to[i] = (float)ms;
		at = end + 1;
	}
	if ((*at != '0' && *at != '1') || at[1])
		return fail(E_CORRUPT, "invalid times of a model: '%.60s'", text);
	out->rough = *at == '0' ? MARK_CERTAIN : *text == '+' ? MARK_FIRST : MARK_GAINS;
	return E_OK;
}

static int parse_model(const char *line, struct mark_of *out)
{
	char key[33], number[16], *end;
	int64_t missing;
	if (strnlen(line, 36) < 36 || line[32] != ' ' || (line[33] != '0' && line[33] != '1') ||
	    line[34] != ' ')
		return fail(E_CORRUPT, "invalid mark of a model: '%.60s'", line);
	memcpy(key, line, 32);
	key[32] = 0;
	int rc = key_parse(key, &out->model);
	if (rc < 0)
		return rc;
	out->boxed = line[33] == '1';
	out->promise = strtod(line + 35, &end);
	if (end == line + 35 || *end != ' ' || !(out->promise >= -1 && out->promise <= 1))
		return fail(E_CORRUPT, "invalid promise: '%.20s'", line + 35);
	const char *at = end + 1;
	size_t n = strcspn(at, " ");
	snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : sizeof number - 1), at);
	if (!field_int(number, 0, MOST_MISSING, &missing))
		return fail(E_CORRUPT, "invalid number of kernels: '%.20s'", at);
	out->missing = (int)missing;
	return at[n] ? parse_times(at + n + 1, out) : E_OK;
}

static int parse_flash(const char *line, struct marks *m)
{
	char day[32];
	size_t n = strcspn(line, " ");
	snprintf(day, sizeof day, "%.*s", (int)(n < sizeof day ? n : sizeof day - 1), line);
	if (line[n] != ' ' || !field_int(day, 0, MOST_DAYS, &m->day) ||
	    !field_int(line + n + 1, 0, MOST_WRITTEN, &m->day_bytes))
		return fail(E_CORRUPT, "invalid bytes of a day: '%.40s'", line);
	return E_OK;
}

/* Copies the word at *at, cut to the room; *at: the next word, or the end. */
static const char *next_word(const char **at, char *out, size_t room)
{
	size_t n = strcspn(*at, " ");
	snprintf(out, room, "%.*s", (int)(n < room ? n : room - 1), *at);
	*at += n + ((*at)[n] == ' ');
	return out;
}

static int parse_cache(const char *line, struct inventory *out)
{
	char word[40];
	int64_t records, code;
	const char *at = line;
	int rc = key_parse(next_word(&at, word, sizeof word), &out->files);
	if (rc >= 0 && (!field_int(next_word(&at, word, sizeof word), 0, MOST_RECORDS, &records) ||
			!field_int(next_word(&at, word, sizeof word), 0, MOST_RECORDS, &code)))
		rc = fail(E_CORRUPT, "invalid number of records: '%.60s'", line);
	for (int i = 0; rc >= 0 && *at; i++)
		rc = i < INVENTORY_SOME
			 ? key_parse(next_word(&at, word, sizeof word), &out->some[i])
			 : fail(E_CORRUPT, "more than %d keys of the cache: '%.60s'", INVENTORY_SOME, line);
	if (rc < 0)
		return rc;
	out->records = (int)records;
	out->code = (int)code;
	return E_OK;
}

static int parse_line(const char *line, struct marks *m)
{
	int64_t n;
	if (!strncmp(line, "cache ", 6))
		return parse_cache(line + 6, &m->cache);
	if (!strncmp(line, "flash ", 6))
		return parse_flash(line + 6, m);
	if (!strncmp(line, "unclean ", 8)) {
		if (!field_int(line + 8, 0, MOST_UNCLEAN, &n))
			return fail(E_CORRUPT, "invalid number of boxes: '%.20s'", line + 8);
		m->unclean = (int)n;
		return E_OK;
	}
	if (strncmp(line, "model ", 6) || m->n == HONED_MODELS)
		return fail(E_CORRUPT, "not a line of marks: '%.60s'", line);
	return parse_model(line + 6, &m->model[m->n++]);
}

static int parse(const char *text, struct marks *m)
{
	char line[256];
	if (strncmp(text, first, sizeof first - 1))
		return fail(E_CORRUPT, "not a marks file of honed");
	for (text += sizeof first - 1; strcmp(text, "end\n"); text += strcspn(text, "\n") + 1) {
		size_t n = strcspn(text, "\n");
		if (!text[n] || n >= sizeof line)
			return fail(E_CORRUPT, "the marks file is truncated");
		memcpy(line, text, n);
		line[n] = 0;
		int rc = parse_line(line, m);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int marks_parse(const char *text, struct marks *out)
{
	*out = (struct marks){0};
	int rc = parse(text, out);
	if (rc < 0)
		*out = (struct marks){0};
	return rc;
}

int marks_read(const char *path, int64_t day, struct marks *out)
{
	char text[MOST_BYTES + 1];
	*out = (struct marks){0};
	FILE *f = fopen(path, "re");
	if (!f)
		return fail(E_NOTFOUND, "marks %s: no such file", path);
	size_t n = fread(text, 1, MOST_BYTES, f);
	fclose(f);
	text[n] = 0;
	if (strlen(text) != n || n == MOST_BYTES)
		return fail(E_CORRUPT, "marks %s: not a text file", path);
	int rc = marks_parse(text, out);
	out->day_bytes = out->day == day ? out->day_bytes : 0;
	return rc < 0 ? fail_in(rc, "marks %s", path) : E_OK;
}

bool marks_doubt(struct marks *m)
{
	bool said = false;
	for (int i = 0; i < m->n; i++) {
		struct mark_of *of = &m->model[i];
		said |= of->boxed || of->promise >= 0 || of->before_ms > 0;
		*of = (struct mark_of){.model = of->model, .promise = -1};
	}
	return said;
}

int64_t marks_day(void)
{
	return (int64_t)time(NULL) / 86400;
}

int marks_write(const char *path, const struct marks *m)
{
	struct buf b = {0};
	marks_print(m, &b);
	int rc = buf_ok(&b) ? file_write(path, buf_str(&b), b.n) : fail(E_NOMEM, "marks %s: no memory", path);
	buf_free(&b);
	return rc;
}
