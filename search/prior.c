/* SPDX-License-Identifier: Apache-2.0 */
#include "search/prior.h"
#include "kernels/space/features.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 1e6f

/* The next line that is not a comment, [*at, return). NULL: none. */
static const char *next_line(struct prior *p, const char **at)
{
	while (p->at < p->end) {
		const char *from = p->at, *to = memchr(from, '\n', (size_t)(p->end - from));
		if (!to)
			return NULL;
		p->at = to + 1;
		p->line++;
		*at = from;
		if (*from != '#')
			return to;
	}
	return NULL;
}

static int head(char *text, size_t size, const char *model)
{
	return snprintf(text, size, "hone-prior %s features=%d set=%d", model, FEATURES, FEATURE_VERSION);
}

int prior_open(struct prior *p, const char *text, size_t n, const char *model)
{
	char want[96];
	size_t length = (size_t)head(want, sizeof want, model);
	*p = (struct prior){.at = text, .end = text + n};
	const char *at, *to = next_line(p, &at);
	if (!to || (size_t)(to - at) < strlen("hone-prior ") || memcmp(at, "hone-prior ", 11) != 0)
		return fail(E_CORRUPT, "not a prior");
	if ((size_t)(to - at) != length || memcmp(at, want, length) != 0)
		return fail(
		    E_UNSUPPORTED,
		    "the prior is for another cost model or other features");
	return E_OK;
}

/* Reads one number, up to a space or the end. */
static const char *number(const char *at, const char *to, float *x)
{
	char text[32], *rest;
	size_t n = 0;
	while (at + n < to && at[n] != ' ' && n < sizeof text - 1) {
		text[n] = at[n];
		n++;
	}
	text[n] = 0;
	*x = strtof(text, &rest);
	return n && rest == text + n && fabsf(*x) <= LIMIT ? at + n : NULL;
}

int prior_read(struct prior *p, const char *word, float *x, int n)
{
	size_t length = strlen(word);
	const char *at, *to = next_line(p, &at);
	if (!to || (size_t)(to - at) < length || memcmp(at, word, length) != 0)
		return fail(E_CORRUPT, "prior: line %d: '%s' expected", p->line, word);
	at += length;
	for (int i = 0; i < n; i++)
		if (at == to || *at != ' ' || !(at = number(at + 1, to, &x[i])))
			return fail(E_CORRUPT, "prior: line %d: %d numbers expected", p->line, n);
	return at == to ? E_OK : fail(E_CORRUPT, "prior: line %d: more than %d numbers", p->line, n);
}

int prior_end(struct prior *p)
{
	const char *at;
	bool more = next_line(p, &at) || p->at < p->end;
	return more ? fail(E_CORRUPT, "prior: line %d: text after the end", p->line) : E_OK;
}

void prior_head(struct buf *out, const char *model)
{
	char text[96];
	head(text, sizeof text, model);
	buf_printf(out, "%s\n", text);
}

void prior_write(struct buf *out, const char *word, const float *x, int n)
{
	buf_puts(out, word);
	for (int i = 0; i < n; i++)
		buf_printf(out, " %.6g", (double)x[i]);
	buf_puts(out, "\n");
}
