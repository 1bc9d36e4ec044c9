/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and parses the text of a landscape. */
#include "agent/worker/landscape.h"

#include "kernels/space/space.h"
#include "platform/base/mix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "hone-landscape 1";
static const char points_line[] = "points";

#define MOST_NS INT64_C(1000000000000000)
#define MOST_RATIO 1e6
enum { MOST_RUNS = 1000000, NEAR_PCT = 3 };

/* Lines of an untrusted text. */
struct lines {
	const char *at, *end;
	int number;
};

/* Returns the next line without its end; a line without an end is ignored. */
static bool next_line(struct lines *l, const char **line, size_t *n)
{
	const char *end = memchr(l->at, '\n', (size_t)(l->end - l->at));
	if (!end)
		return false;
	*line = l->at;
	*n = (size_t)(end - l->at);
	l->at = end + 1;
	l->number++;
	return true;
}

static int corrupt(const struct lines *l, const char *what)
{
	return fail(E_CORRUPT, "landscape: line %d: %s", l->number, what);
}

/* Returns the rest of a line that begins with this word, in the arena; NULL: it is another line. */
static char *worded(struct lines *l, const char *word, struct arena *a)
{
	const char *line;
	size_t n, w = strlen(word);
	if (!next_line(l, &line, &n) || n <= w || memcmp(line, word, w) || line[w] != ' ')
		return NULL;
	return arena_strndup(a, line + w + 1, n - w - 1);
}

static int parse_machine(struct lines *l, struct arena *a, struct landscape *out)
{
	const char *line;
	size_t n;
	if (!next_line(l, &line, &n) || n != strlen(first_line) || memcmp(line, first_line, n))
		return fail(E_CORRUPT, "landscape: the first line is not \"%s\"", first_line);
	const char *machine = worded(l, "machine", a);
	if (!machine)
		return corrupt(l, "'machine' expected");
	int rc = target_parse(machine, &out->target);
	if (rc < 0)
		return fail_in(rc, "landscape: line %d", l->number);
	const char *threads = worded(l, "threads", a);
	char *end = NULL;
	long t = threads && *threads >= '1' && *threads <= '9' ? strtol(threads, &end, 10) : 0;
	if (t < 1 || t > 65536 || *end)
		return corrupt(l, "expected 'threads' and their number");
	out->threads = (int)t;
	const char *weights = worded(l, "weights", a);
	if (!weights || (strcmp(weights, "cold") && strcmp(weights, "warm")))
		return corrupt(l, "expected 'weights cold' or 'weights warm'");
	out->cold = !strcmp(weights, "cold");
	return E_OK;
}

static int parse_head(struct lines *l, struct arena *a, struct landscape *out)
{
	const char *line;
	size_t n;
	int rc = parse_machine(l, a, out);
	if (rc < 0)
		return rc;
	out->protocol = worded(l, "protocol", a);
	if (!out->protocol || strlen(out->protocol) >= LANDSCAPE_WORDS)
		return corrupt(l, "expected 'protocol' and a few words");
	out->label = worded(l, "label", a);
	if (!out->label || strlen(out->label) >= LANDSCAPE_WORDS)
		return corrupt(l, "expected 'label' and a few words");
	const char *task = l->at;
	do
		if (!next_line(l, &line, &n))
			return corrupt(l, "missing line 'points' after this");
	while (n != strlen(points_line) || memcmp(line, points_line, n));
	if (line == task)
		return corrupt(l, "expected a task");
	out->task = arena_strndup(a, task, (size_t)(line - task));
	return E_OK;
}

/* Returns the next word of a line that ends with a NUL. */
static char *next_word(char **at)
{
	char *word = *at, *end = strchr(word, ' ');
	if (!end || end == word)
		return NULL;
	*end = 0;
	*at = end + 1;
	return word;
}

/* Accepts digits only, and at most `most`. */
static bool get_int(char **at, int64_t most, int64_t *out)
{
	const char *word = next_word(at);
	if (!word || strlen(word) > 18 || strspn(word, "0123456789") != strlen(word))
		return false;
	*out = strtoll(word, NULL, 10);
	return *out <= most;
}

static bool get_ratio(char **at, double *out)
{
	char *end = NULL;
	const char *word = next_word(at);
	if (!word || strspn(word, "0123456789.") != strlen(word))
		return false;
	*out = strtod(word, &end);
	return !*end && isfinite(*out) && *out <= MOST_RATIO;
}

/* A candidate with all parameters at their defaults has an empty text. */
static bool good_cand(const char *s)
{
	size_t n = strlen(s);
	for (const char *c = s; *c; c++)
		if (*c < ' ' || *c > '~')
			return false;
	return n < CAND_MAX;
}

static bool ran(const struct landscape_point *p)
{
	return p->status == MEAS_OK || p->status == MEAS_ABORTED;
}

/* line: a copy that ends with a NUL. Returns what is wrong; NULL: nothing. */
static const char *parse_point(char *line, struct landscape_point *p)
{
	int64_t runs;
	const char *status = next_word(&line);
	if (!status || meas_status_parse(status, &p->status) < 0)
		return "no status";
	if (!get_int(&line, MOST_NS, &p->min_ns) || !get_int(&line, MOST_NS, &p->low_ns) ||
	    !get_int(&line, MOST_RUNS, &runs) || !get_int(&line, MOST_NS, &p->build_ns))
		return "bad number";
	if (!get_ratio(&line, &p->ratio))
		return "bad ratio";
	p->runs = (int32_t)runs;
	if (ran(p) ? p->min_ns < 1 || p->low_ns < p->min_ns || runs < 1
		   : p->min_ns || p->low_ns || runs || p->ratio > 0)
		return "status and times do not fit";
	p->cand = line;
	return good_cand(line) ? NULL : "bad candidate";
}

/* Whether y says at least as much as x, so that y replaces it. */
static bool stands(const struct landscape_point *x, const struct landscape_point *y)
{
	if (x->runs != y->runs)
		return y->runs > x->runs;
	return (y->status == MEAS_OK) >= (x->status == MEAS_OK);
}

/* Hash table of points by candidate. */
struct finder {
	int *slot; /* index of a point + 1; 0: free */
	size_t mask;
};

static int *find_slot(const struct finder *x, const struct landscape *l, const char *cand)
{
	size_t i = (size_t)mix_text(cand).lo & x->mask;
	while (x->slot[i] && strcmp(l->point[x->slot[i] - 1].cand, cand))
		i = (i + 1) & x->mask;
	return &x->slot[i];
}

static int count_lines(const struct lines *l)
{
	int n = 0;
	for (const char *at = l->at; at < l->end && n <= LANDSCAPE_POINTS; n++) {
		at = memchr(at, '\n', (size_t)(l->end - at));
		if (!at++)
			break;
	}
	return n;
}

static int open_finder(struct arena *a, int n, struct finder *x)
{
	size_t cap = 64;
	while (cap < 2 * (size_t)n)
		cap *= 2;
	x->mask = cap - 1;
	x->slot = arena_try(a, cap, sizeof *x->slot);
	return x->slot ? E_OK : E_NOMEM;
}

static int parse_points(struct lines *l, struct arena *a, struct landscape *out)
{
	struct finder x;
	const char *line;
	size_t n;
	int lines = count_lines(l), rc = open_finder(a, lines, &x);
	if (rc < 0)
		return rc;
	if (lines > LANDSCAPE_POINTS)
		return corrupt(l, "too many points after this");
	if (!(out->point = arena_try(a, (size_t)lines + 1, sizeof *out->point)))
		return E_NOMEM;
	while (next_line(l, &line, &n)) {
		struct landscape_point p = {0};
		const char *wrong = parse_point(arena_strndup(a, line, n), &p);
		if (wrong)
			return corrupt(l, wrong);
		int *slot = find_slot(&x, out, p.cand);
		if (!*slot) {
			out->point[out->n++] = p;
			*slot = out->n;
		} else if (stands(&out->point[*slot - 1], &p)) {
			out->point[*slot - 1] = p;
		}
	}
	return E_OK;
}

int landscape_parse(const char *text, size_t n, struct arena *a, struct landscape *out)
{
	struct lines l = {text, text + n, 0};
	*out = (struct landscape){0};
	if (memchr(text, 0, n))
		return fail(E_CORRUPT, "landscape: a text has a NUL byte");
	int rc = parse_head(&l, a, out);
	return rc < 0 ? rc : parse_points(&l, a, out);
}

static void put_head(const struct landscape *l, struct buf *out)
{
	buf_printf(out, "%s\nmachine ", first_line);
	target_text(&l->target, out);
	buf_printf(out, "\nthreads %d\nweights %s\nprotocol %s\nlabel %s\n%s%s\n", l->threads,
		   l->cold ? "cold" : "warm", l->protocol, l->label, l->task, points_line);
}

void landscape_text(const struct landscape *l, bool head, struct buf *out)
{
	if (head)
		put_head(l, out);
	for (int i = 0; i < l->n; i++) {
		const struct landscape_point *p = &l->point[i];
		buf_printf(out, "%s %lld %lld %d %lld %.4f %s\n", meas_status_name(p->status),
			   (long long)p->min_ns, (long long)p->low_ns, p->runs, (long long)p->build_ns,
			   p->ratio, p->cand);
	}
}

struct landscape_point landscape_point_of(const char *cand, const struct meas *m)
{
	struct landscape_point p = {.status = m->status, .build_ns = m->build_ns, .cand = cand};
	if (!ran(&p))
		return p;
	/* The spread is taken as half of the distance between the quartiles, so median - spread estimates the
	 * lower one. */
	p.min_ns = m->min_ns > 0 ? m->min_ns : 1;
	p.low_ns = m->median_ns - m->spread_ns > p.min_ns ? m->median_ns - m->spread_ns : p.min_ns;
	p.runs = m->runs > 0 ? m->runs : 1;
	return p;
}

int64_t landscape_ns(const struct landscape *l, int point)
{
	const struct landscape_point *p = &l->point[point];
	int64_t near_ns = p->min_ns * (100 + NEAR_PCT) / 100;
	return p->low_ns < near_ns ? p->low_ns : near_ns;
}

int landscape_find(const struct landscape *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->point[i].cand, cand))
			return i;
	return -1;
}
