/* SPDX-License-Identifier: Apache-2.0 */
/* Turns batches of the inbox into words. Only the leader does this, so instances that receive batches do
 * little work for each. */
#include "tools/fleet/fleet_gain.h"
#include "tools/fleet/fleet_line.h"
#include "tools/fleet/fleet_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 16 /* batches in a transaction */ };

struct sent {
	char name[2 * SHA256_BYTES + 1], board[KEY_ID_HEX + 1], cls[33];
	int64_t came_s;
	const void *doc;
	size_t n;
	int nword;
	bool refused; /* the board has words in too many classes */
	struct word *word;
	const char **line; /* of each word: its plain line (tools/fleet/fleet_line.h) */
	int nall;
	const struct exchange_line *all;
};

struct digest {
	struct fleet *f;
	struct arena a; /* for what was read */
	int n;
	struct sent sent[AT_ONCE];
	struct batch batch;
};

static void text_to(const struct db_value *v, char *out, size_t n)
{
	snprintf(out, n, "%s", v->type == DB_TEXT ? v->p : "");
}

static int on_sent(void *ctx, const struct db_value *col, int n)
{
	struct digest *d = ctx;
	(void)n;
	if (d->n == AT_ONCE)
		return E_OK;
	struct sent *s = &d->sent[d->n++];
	text_to(&col[0], s->name, sizeof s->name);
	text_to(&col[1], s->board, sizeof s->board);
	text_to(&col[2], s->cls, sizeof s->cls);
	s->came_s = col[3].i;
	s->nword = s->nall = 0;
	s->n = col[4].type == DB_BLOB ? col[4].n : 0;
	s->doc = arena_memdup(&d->a, col[4].p ? col[4].p : "", s->n);
	return E_OK;
}

static int find_words(struct digest *d, struct sent *s)
{
	const struct batch *b = &d->batch;
	s->nall = b->n;
	s->all = arena_memdup(&d->a, b->line, (size_t)b->n * sizeof *b->line);
	s->word = ARENA_ARRAY(&d->a, struct word, b->n + 1);
	s->line = ARENA_ARRAY(&d->a, const char *, b->n + 1);
	for (int i = 0; i < b->n; i++) {
		int rc = line_word(&b->line[i], &d->a, &s->word[s->nword], &s->line[s->nword]);
		if (rc < 0)
			return rc;
		s->nword += rc && strlen(s->line[s->nword]) <= STORE_WORD;
	}
	return E_OK;
}

/* Batches were checked when they came, so one that cannot be read now was made by another version, and is
 * skipped. */
static void read_sent(struct digest *d, struct sent *s)
{
	struct signed_doc doc;
	int rc = signed_parse(s->doc, s->n, "records", &doc);
	if (rc >= 0)
		rc = batch_parse(doc.payload.p, doc.payload.n, &d->a, &d->batch);
	if (rc >= 0)
		rc = find_words(d, s);
	if (rc < 0) {
		s->nword = s->nall = 0;
		fleet_refused(d->f, COUNT_BATCH, NULL, s->board, err_text());
	}
}

static int take_one(struct db_conn *c, struct sent *s, struct arena *a)
{
	struct store_board b;
	int rc = store_board(c, s->board, &b);
	bool counts = rc >= 0 && !b.revoked_s && s->nall;
	rc = rc == E_NOTFOUND ? E_OK : rc;
	s->refused = false;
	if (counts && (rc = store_class(c, s->board, s->cls, s->nword > 0)) == 0) {
		counts = false;
		s->refused = true;
	}
	for (int i = 0; counts && i < s->nword && rc >= 0; i++)
		rc = store_word(c, s->board, s->cls, &s->word[i], s->line[i], s->came_s);
	for (int i = 0; counts && i < s->nall && rc >= 0; i++)
		rc = gain_add(c, s->cls, s->board, &s->all[i], a, s->came_s);
	if (counts && rc >= 0)
		rc = store_trim_words(c, s->board);
	return rc < 0 ? rc : store_taken(c, s->name);
}

static int take_some(struct db_conn *c, void *ctx)
{
	struct digest *d = ctx;
	int rc = E_OK;
	for (int i = 0; i < d->n && rc >= 0; i++)
		rc = take_one(c, &d->sent[i], &d->a);
	return rc;
}

static void note_refused(struct digest *d)
{
	char why[96];
	for (int i = 0; i < d->n; i++) {
		snprintf(why, sizeof why, "class %s refused: a board may use at most %d classes",
			 d->sent[i].cls, STORE_CLASSES);
		if (d->sent[i].refused)
			fleet_refused(d->f, COUNT_LIMIT, NULL, d->sent[i].board, why);
	}
}

static int digest_some(struct digest *d, struct db_conn *c, int most)
{
	arena_reset(&d->a);
	d->n = 0;
	int rc = store_waiting(c, most < AT_ONCE ? most : AT_ONCE, on_sent, d);
	for (int i = 0; i < d->n && rc >= 0; i++)
		read_sent(d, &d->sent[i]);
	if (rc >= 0 && d->n && (rc = store_do(c, take_some, d)) >= 0)
		note_refused(d);
	return rc < 0 ? rc : d->n;
}

int fleet_digest(struct fleet *f, struct db_conn *c, int most)
{
	struct digest *d = calloc(1, sizeof *d);
	int n = 0, rc = d ? E_OK : fail(E_NOMEM, "no memory");
	if (rc >= 0)
		d->f = f;
	while (rc >= 0 && n < most) {
		rc = digest_some(d, c, most - n);
		n += rc > 0 ? rc : 0;
		if (rc <= 0)
			break;
	}
	if (d)
		arena_free(&d->a);
	free(d);
	return rc < 0 ? rc : n;
}
