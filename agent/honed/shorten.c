/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/shorten.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GAP " ... "

static bool inside_character(const char *p)
{
	return (*p & 0xc0) == 0x80;
}

/* Returns the first clause from `at` on, else the first word, else the first character. at > text. */
static const char *find_end(const char *text, const char *at)
{
	const char *word = NULL;
	for (const char *p = at; *p; p++) {
		if (p[-1] != ' ' || *p == ' ')
			continue;
		if (p - text >= 2 && strchr(";:.", p[-2]))
			return p;
		word = word ? word : p;
	}
	while (!word && inside_character(at))
		at++;
	return word ? word : at;
}

/* Returns the length of the longest beginning of at most n bytes that ends with a word, else with a
 * character. */
static size_t find_beginning(const char *text, size_t n)
{
	size_t k = n;
	while (k > 0 && text[k] != ' ')
		k--;
	while (!k && n > 0 && inside_character(text + n))
		n--;
	return k ? k : n;
}

void shorten(const char *text, char *out, size_t n)
{
	size_t length = strlen(text), room = n - sizeof GAP;
	if (length < n) {
		memcpy(out, text, length + 1);
		return;
	}
	const char *end = find_end(text, text + length - room / 2);
	size_t begin = find_beginning(text, room - strlen(end));
	snprintf(out, n, "%.*s" GAP "%s", (int)begin, text, end);
}
