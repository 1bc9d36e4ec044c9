/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_line.h"
#include "search/job.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Accepts only plain device names, so the text that revoked_hash hashes can be read in only one way. */
static bool is_name(const char *s)
{
	return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-")];
}

static const char *record_line(enum cache_type t, struct key k, const char *text, struct arena *a)
{
	json_t *j = text ? exchange_record(t, k, text) : NULL;
	char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
	const char *kept = line ? arena_strdup(a, line) : NULL;
	json_decref(j);
	free(line);
	return kept;
}

/* Makes a record of r's candidate with these times, and with no other field of r. */
static const char *rec_line(const struct rec *r, const struct meas *m, struct arena *a)
{
	struct buf text = {0};
	struct rec own = {.task = r->task,
			  .kind = REC_BEST,
			  .target_key = r->target_key,
			  .threads = r->threads,
			  .level = r->level,
			  .meas = *m,
			  .task_text = r->task_text,
			  .label = ""};
	snprintf(own.device, sizeof own.device, "%s", r->device);
	snprintf(own.cand, sizeof own.cand, "%s", r->cand);
	rec_text(&own, &text);
	const char *line = buf_ok(&text) ? record_line(CACHE_REC, rec_key(&own), buf_str(&text), a) : NULL;
	buf_free(&text);
	return line;
}

/* Makes a word from a record. The result of a hint is a word like any other. A candidate that was stopped
 * early gives its time so far as a lower limit, or no word. Defaults give no word. */
static int rec_word(const struct exchange_line *l, struct arena *a, struct word *w, const char **plain)
{
	static const struct meas none = {.status = MEAS_OK, .runs = 1, .min_ns = 1, .median_ns = 1};
	struct rec r;
	int rc = rec_parse(l->text, a, &r);
	if (rc < 0 || (r.kind != REC_BEST && r.kind != REC_HINT) || !is_name(r.device))
		return rc < 0 ? rc : 0;
	bool timed = r.meas.status == MEAS_OK || r.meas.status == MEAS_ABORTED;
	w->cand = revoked_hash(&r);
	w->median_ns = timed ? r.meas.median_ns : 0;
	w->failed = !timed && r.meas.status != MEAS_TIMEOUT;
	r.kind = REC_BEST;
	w->key = rec_key(&r);
	*plain = w->failed ? "" : rec_line(&r, &none, a);
	return w->failed || w->median_ns > 0;
}

int line_word(const struct exchange_line *l, struct arena *a, struct word *w, const char **plain)
{
	int rc = l->type == CACHE_CHOICES;
	*w = (struct word){.key = l->key, .type = l->type};
	*plain = "";
	if (l->type == CACHE_REC) {
		rc = rec_word(l, a, w, plain);
	} else if (rc) {
		w->cand = hash_text(l->text);
		*plain = record_line(l->type, l->key, l->text, a);
	}
	return rc > 0 && !*plain ? fail(E_NOMEM, "no memory for a line") : rc;
}

static const char *publish_rec(const struct agreed *g, const char *text, struct arena *a)
{
	struct rec r;
	const struct meas m = {.status = MEAS_OK,
			       .runs = g->boards,
			       .min_ns = g->median_ns,
			       .median_ns = g->median_ns,
			       .spread_ns = g->mad_ns};
	if (rec_parse(text, a, &r) < 0 || !key_equal(revoked_hash(&r), g->cand))
		return NULL;
	return rec_line(&r, &m, a);
}

static const char *publish_line(const struct agreed *g, const char *plain, struct arena *a)
{
	struct exchange_line l;
	const char *line = NULL;
	if (exchange_parse(plain, strlen(plain), a, &l) < 0 || l.type != g->type)
		return NULL;
	if (g->type == CACHE_REC)
		line = publish_rec(g, l.text, a);
	else if (key_equal(hash_text(l.text), g->cand))
		line = record_line(l.type, l.key, l.text, a);
	/* Boards must be able to read the line. */
	bool good = line && exchange_parse(line, strlen(line), a, &l) >= 0 && key_equal(l.key, g->key);
	return good ? line : NULL;
}

char *line_publish(const struct agreed *g, const char *plain)
{
	struct arena a = {0};
	const char *line = publish_line(g, plain, &a);
	char *out = line ? strdup(line) : NULL;
	arena_free(&a);
	return out;
}
