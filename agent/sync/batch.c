/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/batch.h"

#include "agent/cache/chosen_rec.h"
#include "agent/cache/trials.h"
#include <stdlib.h>
#include <string.h>

/* The next line of the payload, without its \n; NULL: no whole one is left. */
static const char *next_line(const char **at, const char *end, size_t *n)
{
	const char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
	if (!stop)
		return NULL;
	*n = (size_t)(stop - line);
	*at = stop + 1;
	return line;
}

static int head_read(const json_t *o, struct batch *b)
{
	int64_t n = 0;
	int rc = json_read_hex(o, "class", b->cls, sizeof b->cls - 1);
	if (rc >= 0)
		rc = json_read_hex(o, "board", b->board, KEY_ID_HEX);
	if (rc >= 0)
		rc = json_read_text(o, "label", b->label, sizeof b->label);
	if (rc >= 0)
		rc = json_read_whole(o, "n", 1, BATCH_RECORDS, &n);
	b->n = (int)n;
	return rc;
}

static int head_parse(const char *line, size_t n, struct batch *b)
{
	json_t *o;
	int rc = line ? json_read(line, n, &o) : fail(E_CORRUPT, "missing first line");
	if (rc < 0)
		return rc;
	rc = head_read(o, b);
	json_decref(o);
	return rc;
}

static int class_of_rec(const char *text, struct arena *a, struct key *out)
{
	struct rec r;
	int rc = rec_parse(text, a, &r);
	*out = r.target_key;
	return rc;
}

static int class_of_trials(const char *text, struct arena *a, struct key *out)
{
	struct trials *t = ARENA_NEW(a, struct trials);
	int rc = trials_parse(text, t);
	*out = t->target_key;
	trials_free(t);
	return rc;
}

static int class_of_choices(const char *text, struct arena *a, struct key *out)
{
	struct chosen_rec r;
	(void)a;
	int rc = chosen_rec_parse(text, &r);
	*out = r.target_key;
	return rc;
}

static int (*const class_of[CACHE_TYPES])(const char *text, struct arena *a, struct key *out) = {
    [CACHE_REC] = class_of_rec,
    [CACHE_TRIALS] = class_of_trials,
    [CACHE_CHOICES] = class_of_choices,
};

/* Whether the batch may have the record. */
static int check_line(const struct batch *b, const struct exchange_line *l)
{
	struct arena a = {0};
	struct key cls, its = {0};
	int rc = key_parse(b->cls, &cls);
	if (rc >= 0 && l->type == CACHE_RECIPE)
		rc =
		    fail(E_CORRUPT, "a recipe, which a fleet does not take: it decides what a model answers");
	if (rc >= 0 && class_of[l->type]) {
		rc = class_of[l->type](l->text, &a, &its);
		if (rc >= 0 && !key_equal(cls, its))
			rc = fail(E_CORRUPT, "the record is of another class of boards");
	}
	arena_free(&a);
	return rc;
}

static int check_new(const struct batch *b, int i)
{
	for (int j = 0; j < i; j++)
		if (b->line[j].type == b->line[i].type && key_equal(b->line[j].key, b->line[i].key))
			return fail(E_CORRUPT, "the same record as in line %d", j + 2);
	return E_OK;
}

/* Boards of the former version send choices that do not say which task they are for. Nobody can use those,
 * but the other lines of such a batch still count. */
static bool is_former_choices(const struct exchange_line *l)
{
	return l->type == CACHE_CHOICES && l->text && chosen_rec_is_former(l->text);
}

/* Returns 1 if the line is skipped. */
static int record_parse(const char *line, size_t n, struct arena *a, struct batch *b, int i)
{
	if (!line)
		return fail(E_CORRUPT, "missing line: %d records were announced", b->n);
	if (n >= EXCHANGE_LINE_BYTES || memchr(line, 0, n))
		return fail(E_CORRUPT, "not a record");
	b->line[i] = (struct exchange_line){0};
	int rc = exchange_parse(line, n, a, &b->line[i]);
	if (rc == E_CORRUPT && is_former_choices(&b->line[i]))
		return 1;
	if (rc >= 0)
		rc = check_line(b, &b->line[i]);
	if (rc >= 0)
		rc = check_new(b, i);
	if (rc >= 0)
		b->raw[i] = arena_strndup(a, line, n);
	return rc;
}

int batch_parse(const void *payload, size_t n, struct arena *a, struct batch *out)
{
	const char *at = payload, *end = at + n;
	size_t length = 0;
	*out = (struct batch){0};
	if (n > BATCH_BYTES)
		return fail(E_CORRUPT, "batch: %zu bytes, more than the %d allowed", n, BATCH_BYTES);
	const char *line = next_line(&at, end, &length);
	int rc = fail_in(head_parse(line, length, out), "batch: line 1");
	int kept = 0;
	for (int i = 0; i < out->n && rc >= 0; i++) {
		line = next_line(&at, end, &length);
		rc = fail_in(record_parse(line, length, a, out, kept), "batch: line %d", i + 2);
		kept += rc == 0;
	}
	if (rc >= 0 && at != end)
		rc = fail(E_CORRUPT, "batch: more than the %d records that were announced", out->n);
	out->n = kept;
	return rc < 0 ? rc : crypto_sha256(payload, n, &out->name);
}

int batch_print(const char *cls, const char *board, const char *label, const char *const *line, int n,
		struct buf *out)
{
	size_t start = out->n;
	if (n < 1 || n > BATCH_RECORDS)
		return fail(E_USAGE, "a batch of %d records; 1 to %d are possible", n, BATCH_RECORDS);
	json_t *o =
	    json_pack("{ss ss so si}", "class", cls, "board", board, "label", json_text(label), "n", n);
	char *head = o ? json_dumps(o, JSON_COMPACT) : NULL;
	buf_puts(out, head ? head : "");
	buf_puts(out, "\n");
	for (int i = 0; i < n; i++)
		buf_printf(out, "%s\n", line[i]);
	json_decref(o);
	if (!head || !buf_ok(out))
		return fail(E_NOMEM, "no memory for a batch");
	free(head);
	if (out->n - start > BATCH_BYTES)
		return fail(E_USAGE, "a batch of %zu bytes; %d are possible", out->n - start, BATCH_BYTES);
	return E_OK;
}
