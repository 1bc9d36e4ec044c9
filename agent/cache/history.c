/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/history.h"
#include "kernels/graph/graph.h"
#include "platform/base/mix.h"
#include "platform/machine/target.h"

#include <stdio.h>
#include <string.h>

#define MOST_MS 1e12 /* thirty years */

static const char head[] = "hone-history 1\n";

struct key history_key(const struct graph *g, const struct target *t, int threads, enum level level)
{
	char options[32];
	snprintf(options, sizeof options, "history cpu %d %d", threads, level);
	return mix_join(mix_join(graph_key(g), target_key(t)), mix_text(options));
}

/* Keeps half as many points, evenly apart, with the first and the last. */
static void thin(struct history *h)
{
	int n = 1, last = h->n - 1;
	h->apart_ms = (h->point[last].at_ms - h->point[0].at_ms) / (HISTORY_MAX / 2);
	for (int i = 1; i < last; i++)
		if (h->point[i].at_ms >= h->point[n - 1].at_ms + h->apart_ms)
			h->point[n++] = h->point[i];
	h->point[n++] = h->point[last];
	h->n = n < HISTORY_MAX ? n : HISTORY_MAX - 1; /* all points are close in time */
}

void history_add(struct history *h, struct history_point p)
{
	if (h->n > 1 && p.at_ms - h->point[h->n - 2].at_ms < h->apart_ms) {
		h->point[h->n - 1] = p;
		return;
	}
	if (h->n == HISTORY_MAX)
		thin(h);
	h->point[h->n++] = p;
}

void history_text(const struct history *h, struct buf *out)
{
	buf_puts(out, head);
	for (int i = 0; i < h->n; i++)
		buf_printf(out, "%.3f %d %.6f\n", h->point[i].at_ms, h->point[i].trials,
			   h->point[i].total_ms);
}

static int corrupt(int line)
{
	return fail(E_CORRUPT, "history: line %d is not \"ms trials total_ms\"", line + 2);
}

/* Parses one line of at most 63 bytes into p; *at moves behind it. */
static int parse_line(const char *text, size_t n, size_t *at, struct history_point *p)
{
	char line[64];
	const char *end = memchr(text + *at, '\n', n - *at);
	size_t len = end ? (size_t)(end - text) - *at : n;
	int used = 0;
	if (!end || len >= sizeof line)
		return E_CORRUPT;
	memcpy(line, text + *at, len);
	line[len] = 0;
	*at += len + 1;
	if (strlen(line) != len ||
	    sscanf(line, "%lf %9d %lf%n", &p->at_ms, &p->trials, &p->total_ms, &used) != 3 ||
	    (size_t)used != len)
		return E_CORRUPT;
	bool sane = p->at_ms >= 0 && p->at_ms <= MOST_MS && p->total_ms >= 0 && p->total_ms <= MOST_MS &&
		    p->trials >= 0; /* also false for NaN */
	return sane ? E_OK : E_CORRUPT;
}

int history_parse(const char *text, size_t n, struct history *out)
{
	size_t at = sizeof head - 1;
	*out = (struct history){0};
	if (n < at || memcmp(text, head, at))
		return fail(E_CORRUPT, "history: the first line is not \"hone-history 1\"");
	while (at < n) {
		if (out->n == HISTORY_MAX)
			return fail(E_CORRUPT, "history: more than %d points", HISTORY_MAX);
		struct history_point *p = &out->point[out->n];
		if (parse_line(text, n, &at, p) < 0 || (out->n && p->at_ms < p[-1].at_ms))
			return corrupt(out->n);
		out->n++;
	}
	return E_OK;
}
