/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/trials.h"

#include "agent/cache/fields.h"
#include "kernels/space/space.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tried_by_name(enum tried_by b)
{
	static const char *const names[TRIED_BYS] = {"default",  "incumbent", "seed", "rule",
						     "strategy", "twin",      "offer"};
	return (unsigned)b < TRIED_BYS ? names[b] : NULL;
}

#define FIRST_LINE "hone-trials 2\n"
#define FORMER_LINE "hone-trials 1\n" /* the task's key was a MurmurHash3 */

enum {
	LINE_BYTES = 80, /* of a trial, about, without the candidate */
	KEPT = 8,        /* 1/KEPT of the trials stay for being fast, as many for being new */
	MOST_COUNT = 100000000,
};

#define MOST_SD 1000
#define MOST_NS (INT64_MAX / 4)

static const struct field fields[] = {
    FIELD("task", F_KEY, struct trials, task),
    FIELD("target", F_CHARS, struct trials, target),
    FIELD("target_key", F_KEY, struct trials, target_key),
    FIELD("device", F_CHARS, struct trials, device),
    FIELD("threads", F_INT, struct trials, threads),
    FIELD("exact", F_WORD, struct trials, level, level_word),
    FIELD("emitter", F_CHARS, struct trials, emitter),
    FIELD("boxes", F_INT, struct trials, boxes),
    FIELD("spent_ns", F_I64, struct trials, spent_ns),
    FIELD("fallback_ns", F_I64, struct trials, fallback_ns),
    FIELD("best_ns", F_I64, struct trials, best_ns),
    FIELD("default_ns", F_I64, struct trials, default_ns),
    FIELD("ok", F_INT, struct trials, count[MEAS_OK]),
    FIELD("infeasible", F_INT, struct trials, count[MEAS_INFEASIBLE]),
    FIELD("build", F_INT, struct trials, count[MEAS_BUILD]),
    FIELD("spill", F_INT, struct trials, count[MEAS_SPILL]),
    FIELD("wrong", F_INT, struct trials, count[MEAS_WRONG]),
    FIELD("crash", F_INT, struct trials, count[MEAS_CRASH]),
    FIELD("timeout", F_INT, struct trials, count[MEAS_TIMEOUT]),
    FIELD("aborted", F_INT, struct trials, count[MEAS_ABORTED]),
    FIELD("label", F_TEXT, struct trials, label),
    FIELD("text", F_TEXT, struct trials, task_text),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

void trials_start(struct trials *l, struct key task, const char *text, const char *label)
{
	*l = (struct trials){.task = task};
	l->task_text = arena_strdup(&l->arena, text);
	l->label = arena_strdup(&l->arena, label);
}

void trials_free(struct trials *l)
{
	arena_free(&l->arena);
	*l = (struct trials){0};
}

struct key trials_key(const struct trials *l)
{
	char text[256], task[33], target[33];
	key_text(l->task, task);
	key_text(l->target_key, target);
	snprintf(text, sizeof text, "trials %s %s %s %d %d", task, target, l->device, l->threads, l->level);
	return hash_text(text);
}

static bool timed(const struct trials_entry *e)
{
	return e->t.status == MEAS_OK && e->t.ns > 0;
}

/* The time relative to the default's in the same box, since boxes lie in different phases of the machine. */
static double relative(const struct trials_entry *e)
{
	return timed(e) ? (double)e->t.ns / (double)(e->t.default_ns > 0 ? e->t.default_ns : 1) : HUGE_VAL;
}

static void keep_fastest(const struct trials *l, bool *keep)
{
	for (int k = 0; k < l->n / KEPT; k++) {
		int best = -1;
		for (int i = 0; i < l->n; i++)
			if (!keep[i] && timed(&l->entry[i]) &&
			    (best < 0 || relative(&l->entry[i]) < relative(&l->entry[best])))
				best = i;
		if (best < 0)
			return;
		keep[best] = true;
	}
}

static void keep_last(const struct trials *l, enum tried_by by, bool *keep)
{
	for (int i = l->n - 1; i >= 0; i--)
		if (l->entry[i].t.by == by) {
			keep[i] = true;
			return;
		}
}

/* Removes a good third of the trials, and the texts that are no longer used. */
static void thin(struct trials *l)
{
	bool keep[TRIALS_MAX] = {false};
	struct arena fresh = {0};
	int n = 0;
	keep_fastest(l, keep);
	keep_last(l, TRIED_DEFAULT, keep);
	keep_last(l, TRIED_INCUMBENT, keep);
	for (int i = l->n - l->n / KEPT; i < l->n; i++)
		keep[i] = true;
	for (int i = 0, other = 0; i < l->n; i++)
		keep[i] |= !keep[i] && other++ % 2 == 0;
	for (int i = 0; i < l->n; i++)
		if (keep[i])
			l->entry[n++] = l->entry[i];
	l->n = n;
	l->cand_bytes = 0;
	for (int i = 0; i < n; i++) {
		l->cand_bytes += strlen(l->entry[i].t.cand);
		l->entry[i].t.cand = arena_strdup(&fresh, l->entry[i].t.cand);
	}
	l->label = arena_strdup(&fresh, l->label);
	l->task_text = arena_strdup(&fresh, l->task_text);
	arena_free(&l->arena);
	l->arena = fresh;
}

static int find(const struct trials *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, cand))
			return i;
	return -1;
}

/* Removes entry i and keeps the order, newest last. */
static void drop(struct trials *l, int i)
{
	l->cand_bytes -= strlen(l->entry[i].t.cand);
	memmove(&l->entry[i], &l->entry[i + 1], sizeof *l->entry * (size_t)(--l->n - i));
}

bool trials_drop(struct trials *l, const char *cand)
{
	int i = find(l, cand);
	if (i >= 0)
		drop(l, i);
	return i >= 0;
}

void trials_add(struct trials *l, const struct tried *t, int box)
{
	int i = find(l, t->cand);
	size_t bytes = strlen(t->cand);
	if (t->lost) {
		if (i >= 0)
			l->entry[i].t.lost = true;
		return;
	}
	if (i >= 0)
		drop(l, i);
	while (l->n == TRIALS_MAX ||
	       (l->n > 1 && l->cand_bytes + bytes + (size_t)(l->n + 1) * LINE_BYTES > TRIALS_BYTES))
		thin(l);
	l->count[t->status] += l->count[t->status] < MOST_COUNT;
	l->cand_bytes += bytes;
	l->entry[l->n] = (struct trials_entry){.t = *t, .box = box};
	l->entry[l->n++].t.cand = arena_strdup(&l->arena, t->cand);
}

static void put_entry(const struct trials_entry *e, struct buf *out)
{
	const struct tried *t = &e->t;
	buf_printf(out, "%s %s %d %d", meas_status_name(t->status), tried_by_name(t->by), t->lost, e->box);
	const int64_t number[] = {t->at_ns / NS_PER_MS, t->ns,       t->default_ns, t->spent_ns,
				  t->build_ns,          t->draft_ns, t->guess_ns};
	for (size_t i = 0; i < sizeof number / sizeof *number; i++)
		buf_printf(out, " %" PRId64, number[i]);
	double sd = t->guess_sd >= 0 && t->guess_sd <= MOST_SD ? t->guess_sd : MOST_SD;
	buf_printf(out, " %.3f %s\n", sd, t->cand);
}

void trials_text(const struct trials *l, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, l, out);
	for (int i = 0; i < l->n; i++)
		put_entry(&l->entry[i], out);
}

/* Returns the word at *p, NUL-terminated, and moves *p behind it. NULL: none. */
static char *word(char **p)
{
	char *w = *p, *end = strchr(w, ' ');
	if (!end || end == w)
		return NULL;
	*end = 0;
	*p = end + 1;
	return w;
}

static const char *by_word(int i)
{
	return tried_by_name((enum tried_by)i);
}

static bool known_status(char **p, enum meas_status *out)
{
	const char *w = word(p);
	return w && meas_status_parse(w, out) >= 0;
}

static bool known_by(char **p, enum tried_by *out)
{
	const char *w = word(p);
	int i = w ? field_word(w, by_word) : -1;
	*out = i < 0 ? TRIED_DEFAULT : (enum tried_by)i;
	return i >= 0;
}

static bool number(char **p, int64_t most, int64_t *out)
{
	const char *w = word(p);
	return w && field_int(w, 0, most, out);
}

static bool deviation(char **p, double *out)
{
	char *end;
	const char *w = word(p);
	if (!w || strspn(w, "0123456789.") != strlen(w))
		return false;
	*out = strtod(w, &end);
	return !*end && *out <= MOST_SD;
}

/* A candidate with all parameters at their defaults has an empty text. */
static bool is_cand(const char *s)
{
	size_t n = 0;
	while (s[n] >= ' ' && s[n] <= '~')
		n++;
	return n < CAND_MAX && !s[n];
}

/* Parses one line without its newline; the candidate's text stays in `line`. */
static bool parse_entry(char *line, struct trials_entry *e)
{
	struct tried *t = &e->t;
	int64_t lost, box, at_ms;
	int64_t *const ns[] = {&t->ns,       &t->default_ns, &t->spent_ns,
			       &t->build_ns, &t->draft_ns,   &t->guess_ns};
	*e = (struct trials_entry){0};
	if (!known_status(&line, &t->status) || !known_by(&line, &t->by) || !number(&line, 1, &lost) ||
	    !number(&line, MOST_COUNT, &box) || !number(&line, MOST_NS / NS_PER_MS, &at_ms))
		return false;
	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		if (!number(&line, MOST_NS, ns[i]))
			return false;
	if (!deviation(&line, &t->guess_sd) || !is_cand(line))
		return false;
	t->lost = lost;
	t->at_ns = at_ms * NS_PER_MS;
	t->cand = line;
	e->box = (int)box;
	return true;
}

static int parse_entries(const char *text, struct trials *l)
{
	char line[CAND_MAX + 256];
	for (int i = 1; *text; i++) {
		size_t n = strcspn(text, "\n");
		struct trials_entry e;
		if (l->n == TRIALS_MAX)
			return fail(E_CORRUPT, "more than %d lines", TRIALS_MAX);
		if (!text[n] || n >= sizeof line)
			return fail(E_CORRUPT, "line %d is too long or without an end", i);
		memcpy(line, text, n);
		line[n] = 0;
		if (strlen(line) != n || !parse_entry(line, &e) || e.box > l->boxes || find(l, e.t.cand) >= 0)
			return fail(E_CORRUPT, "line %d is not a valid trial", i);
		l->cand_bytes += strlen(e.t.cand);
		e.t.cand = arena_strdup(&l->arena, e.t.cand);
		l->entry[l->n++] = e;
		text += n + 1;
	}
	return E_OK;
}

static bool in_range(const struct trials *l)
{
	bool good = l->boxes >= 0 && l->boxes <= MOST_COUNT && l->spent_ns <= MOST_NS;
	for (int i = 0; i < MEAS_STATUSES; i++)
		good &= l->count[i] >= 0 && l->count[i] <= MOST_COUNT;
	return good;
}

bool trials_is_former(const char *text)
{
	return !strncmp(text, FORMER_LINE, strlen(FORMER_LINE));
}

int trials_parse(const char *text, struct trials *out)
{
	*out = (struct trials){0};
	bool former = trials_is_former(text);
	if (!former && strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not a log of trials of this version");
	text += strlen(FIRST_LINE);
	int rc = fields_parse(fields, NFIELDS, &text, &out->arena, out);
	if (rc >= 0 && former)
		out->task = hash_text(out->task_text);
	if (rc >= 0 && !in_range(out))
		rc = fail(E_CORRUPT, "its counts are out of range");
	if (rc >= 0)
		rc = parse_entries(text, out);
	if (rc < 0)
		trials_free(out);
	return fail_in(rc, "trials");
}

int trials_put(struct cache *c, const struct trials *l)
{
	struct buf text = {0};
	trials_text(l, &text);
	int rc = buf_ok(&text) ? cache_put(c, CACHE_TRIALS, trials_key(l), text.p, text.n)
			       : fail(E_NOMEM, "no memory for a log of trials");
	buf_free(&text);
	return rc;
}

int trials_get(struct cache *c, struct key k, struct trials *out)
{
	struct arena scratch = {0};
	struct blob text;
	*out = (struct trials){0};
	int rc = cache_get(c, CACHE_TRIALS, k, &scratch, &text);
	if (rc >= 0) {
		rc = memchr(text.p, 0, text.n) ? E_CORRUPT : trials_parse(text.p, out);
		if (rc >= 0 && !key_equal(trials_key(out), k)) {
			trials_free(out);
			rc = E_CORRUPT;
		}
	}
	arena_free(&scratch);
	return rc == E_CORRUPT ? fail(E_NOTFOUND, "no log of trials in the cache") : rc;
}

int trials_each(struct cache *c, int (*fn)(void *ctx, const struct trials *l), void *ctx)
{
	struct arena a = {0};
	struct key *key;
	struct trials *l = ARENA_NEW(&a, struct trials);
	int n = cache_keys(c, CACHE_TRIALS, &a, &key), count = 0, rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = trials_get(c, key[i], l);
		if (rc == E_NOTFOUND) {
			rc = E_OK;
			continue;
		}
		if (rc >= 0) {
			rc = fn(ctx, l);
			count++;
		}
		trials_free(l);
	}
	arena_free(&a);
	return rc < 0 ? rc : count;
}
