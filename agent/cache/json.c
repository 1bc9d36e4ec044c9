/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "platform/base/log.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool done; /* see json_out_done */

bool json_out_done(void)
{
	return done;
}

void json_out_left(void)
{
	done = true;
}

int json_out(json_t *o)
{
	if (!o)
		return fail(E_NOMEM, "no memory for the JSON");
	done = true;
	int rc = json_dumpf(o, stdout, JSON_REAL_PRECISION(6) | JSON_COMPACT);
	putchar('\n');
	json_decref(o);
	/* hone_main reports errors of standard output. */
	return rc < 0 && !ferror(stdout) ? fail(E_NOMEM, "no memory for the JSON") : 0;
}

void json_out_error(int rc, int status)
{
	if (!done && json_out(json_pack("{so ss si}", "error", json_text(err_text()), "code", err_name(rc),
					"exit", status)) < 0)
		log_error("%s", err_text());
}

json_t *json_text(const char *s)
{
	json_t *j = json_string(s);
	if (j)
		return j;
	char *copy = strdup(s);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	j = copy ? json_string(copy) : NULL;
	free(copy);
	return j;
}

json_t *json_num(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_ms(double ns)
{
	return ns < 0 ? json_null() : json_num(ns / 1e6);
}

int json_read(const void *p, size_t n, json_t **out)
{
	json_error_t e = {0};
	json_t *j = json_loadb(p, n, JSON_REJECT_DUPLICATES, &e);
	log_one_line(e.text);
	if (!j)
		return fail(json_error_code(&e) == json_error_out_of_memory ? E_NOMEM : E_CORRUPT,
			    "not JSON: %s", e.text);
	if (!json_is_object(j)) {
		json_decref(j);
		return fail(E_CORRUPT, "not a JSON object");
	}
	*out = j;
	return E_OK;
}

int json_read_whole(const json_t *o, const char *name, int64_t least, int64_t most, int64_t *out)
{
	const json_t *j = json_object_get(o, name);
	int64_t v = json_integer_value(j);
	if (!json_is_integer(j) || v < least || v > most)
		return fail(E_CORRUPT, "\"%s\" is not a whole number from %lld to %lld", name,
			    (long long)least, (long long)most);
	*out = v;
	return E_OK;
}

int json_read_text(const json_t *o, const char *name, char *out, size_t room)
{
	const json_t *j = json_object_get(o, name);
	const char *text = json_string_value(j);
	size_t n = json_string_length(j);
	if (!text || !n || n >= room)
		return fail(E_CORRUPT, "\"%s\" is not a text of at most %zu bytes", name, room - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return fail(E_CORRUPT, "\"%s\" has control characters", name);
	memcpy(out, text, n + 1);
	return E_OK;
}

bool json_hex(const json_t *j, char *out, size_t n)
{
	const char *text = json_string_value(j);
	if (!text || strlen(text) != n || strspn(text, "0123456789abcdef") != n)
		return false;
	memcpy(out, text, n + 1);
	return true;
}

int json_read_hex(const json_t *o, const char *name, char *out, size_t n)
{
	if (json_hex(json_object_get(o, name), out, n))
		return E_OK;
	return fail(E_CORRUPT, "\"%s\" is not %zu hex digits", name, n);
}

int json_read_list(const json_t *o, const char *name, int most, const json_t **out)
{
	const json_t *j = json_object_get(o, name);
	*out = j;
	if (!j)
		return 0;
	if (!json_is_array(j) || json_array_size(j) > (size_t)most)
		return fail(E_CORRUPT, "\"%s\" is not a list of at most %d", name, most);
	return (int)json_array_size(j);
}
