/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what commands print with --json with the page that describes it (configs/doc/json.md). An item of
 * the page begins with "* `NAME`", a command or an object's key, and lists all its keys; each key is
 * described once on the page, with its type: `key` (whole). */
#ifndef TESTS_JSON_PAGE_H
#define TESTS_JSON_PAGE_H

#include "platform/base/file.h"
#include "tests/lib/test.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define JSON_PAGE "configs/doc/json.md"

/* NULL: there is no page here. */
static inline const char *json_page(void)
{
	static struct arena a;
	static struct blob page;
	if (!page.p && file_read(&a, JSON_PAGE, 0, &page) < 0)
		return NULL;
	return page.p;
}

/* Whether the text from p to end has `name`. */
static inline const char *json_page_named(const char *p, const char *end, const char *name)
{
	char quoted[64];
	size_t n = (size_t)snprintf(quoted, sizeof quoted, "`%s`", name);
	const char *at = strstr(p, quoted);
	return at && at + n <= end ? at : NULL;
}

/* The item of a command or object: it ends at *end. NULL: there is none. */
static inline const char *json_page_item(const char *name, const char **end)
{
	for (const char *p = json_page(); p && (p = strstr(p, "\n* `")); p++) {
		const char *head = strstr(p, ":"), *next = strstr(p + 1, "\n* ");
		const char *blank = strstr(p + 1, "\n\n");
		*end = next && (!blank || next < blank) ? next : blank ? blank : p + strlen(p);
		if (head && json_page_named(p, head, name))
			return p;
	}
	return NULL;
}

/* Copies the type in brackets behind the key, or behind the last of `low`/`high`; returns how often that is
 * on the page: 1, as it should be. */
static inline int json_page_type(const char *key, char out[16])
{
	const char *page = json_page(), *end = page + strlen(page);
	int n = 0;
	for (const char *p = page; (p = json_page_named(p, end, key)); p++) {
		const char *at = p + strlen(key) + 2;
		while (*at == '/') {
			at += 1 + strspn(at + 1, " \n");
			const char *close = *at == '`' ? strchr(at + 1, '`') : NULL;
			at = close ? close + 1 : end;
		}
		at += strspn(at, " \n");
		n += *at == '(' && sscanf(at, "(%15[a-z])", out) == 1;
	}
	return n;
}

static inline bool json_page_is(const json_t *v, const char *type)
{
	static const struct {
		const char *name;
		char of; /* what a list holds */
	} lists[] = {{"texts", 't'}, {"wholes", 'w'}, {"numbers", 'n'}, {"objects", 'o'}};
	size_t i;
	json_t *one;
	if (json_is_null(v))
		return true;
	if (!json_is_array(v))
		return !strcmp(type, json_is_string(v)    ? "text"
				     : json_is_boolean(v) ? "bool"
				     : json_is_object(v)  ? "object"
				     : json_is_real(v)    ? "number"
				     : strcmp(type, "number") ? "whole"
							      : "number");
	for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
		if (strcmp(type, lists[k].name) != 0)
			continue;
		json_array_foreach(v, i, one)
		{
			char is = json_is_string(one)    ? 't'
				  : json_is_object(one)  ? 'o'
				  : json_is_integer(one) ? lists[k].of == 'n' ? 'n' : 'w'
				  : json_is_real(one)    ? 'n'
							 : '?';
			if (is != lists[k].of && !json_is_null(one))
				return false;
		}
		return true;
	}
	return false;
}

static inline void json_page_bad(const char *cmd, const char *key, const char *why)
{
	printf(JSON_PAGE ": %s: key '%s': %s\n", cmd, key, why);
	test_bad = 1;
}

/* Compares an object of a command, and those in it, with the item that ends at `end`. */
static inline void json_page_object(const char *cmd, const json_t *o, const char *item, const char *end)
{
	const char *key;
	json_t *v, *one;
	char type[16];
	size_t i;
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		const char *inner_end = NULL, *inner = json_page_item(key, &inner_end);
		if (!json_page_named(item, end, key))
			json_page_bad(cmd, key, "it is not listed");
		else if (json_page_type(key, type) != 1)
			json_page_bad(cmd, key, "it has no type, or several");
		else if (!json_page_is(v, type))
			json_page_bad(cmd, key, type);
		if (!inner) {
			inner = item;
			inner_end = end;
		}
		if (json_is_object(v))
			json_page_object(cmd, v, inner, inner_end);
		json_array_foreach(v, i, one)
			if (json_is_object(one))
				json_page_object(cmd, one, inner, inner_end);
	}
}

/* Checks the output of a command, such as "hone tune". */
static inline void json_page_check(const char *cmd, const json_t *out)
{
	const char *end = NULL, *item = NULL;
	if (!json_page())
		return;
	bool failed = json_object_get(out, "error") && json_object_get(out, "exit");
	item = json_page_item(failed ? "error" : cmd, &end);
	if (item)
		json_page_object(cmd, out, item, end);
	else
		json_page_bad(cmd, "", "the command has no item");
}

#endif
