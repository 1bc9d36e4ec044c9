/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_push.h"

#include "agent/cache/json.h"
#include "agent/sync/batch.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPLY = 64 << 10, BATCHES_MOST = 64 };
enum { REFUSALS_MOST = 64 /* of batches, in one run; each counts toward the day's batches of a board */ };

struct parcel {
	struct arena a; /* owns the lines */
	const char *line[BATCH_RECORDS];
	unsigned char type[BATCH_RECORDS]; /* enum cache_type of each line */
	int number[BATCH_RECORDS];         /* of each line, in this run */
	int n;
	size_t bytes;
	bool end;         /* there are no more lines */
	const char *next; /* a line that did not fit into the last batch, the last one offered; NULL: none */
	int next_type;
};

static int fill(struct push *q, struct parcel *p)
{
	const size_t room = BATCH_BYTES - 1024;
	while (p->n < BATCH_RECORDS && !p->end) {
		const char *line = p->next;
		int rc = line ? p->next_type : q->to->next(q->to->ctx, &p->a, &line);
		if (rc < 0)
			return rc;
		q->lines += rc > 0 && !p->next;
		p->next = NULL;
		size_t n = rc > 0 ? strlen(line) + 1 : 0;
		p->end = rc == 0;
		if (p->end || n > room)
			continue;
		if (p->bytes + n > room) {
			p->next = line;
			p->next_type = rc;
			break;
		}
		p->type[p->n] = (unsigned char)rc;
		p->number[p->n] = q->lines - 1;
		p->line[p->n++] = line;
		p->bytes += n;
	}
	return E_OK;
}

static int print_batch(struct push *q, const char *const *line, int n, struct buf *out)
{
	struct buf payload = {0};
	const struct private_key *key[] = {q->key};
	int rc = batch_print(q->to->cls, q->board, q->to->label, line, n, &payload);
	if (rc >= 0)
		rc = signed_write("records", payload.p, payload.n, key, 1, out);
	buf_free(&payload);
	return rc;
}

/* An operator may have given the board another name. A name that is not well formed is passed over. */
static void take_name(struct push *q, const struct fetched *got)
{
	json_t *j = json_loadb(buf_str(&got->body), got->body.n, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(j, "board"));
	if (name && sync_name_good(name))
		snprintf(q->name, sizeof q->name, "%s", name);
	json_decref(j);
}

/* Sends n lines as one batch. E_UNSUPPORTED: the server refuses it. */
static int post_batch(struct push *q, const char *const *line, int n)
{
	struct buf doc = {0};
	struct fetched got = {0};
	int rc = print_batch(q, line, n, &doc);
	if (rc >= 0)
		rc = fetch_post(q->fetch, "records", "application/octet-stream", doc.p, doc.n, MOST_REPLY,
				&got);
	if (rc >= 0)
		take_name(q, &got);
	buf_free(&doc);
	buf_free(&got.body);
	return rc;
}

/* Sends the n lines of a parcel from `at`. Returns 1 if the server refuses them. */
static int send_lines(struct push *q, const struct parcel *p, int at, int n)
{
	int rc = post_batch(q, p->line + at, n);
	if (rc == E_UNSUPPORTED) {
		q->refusals++;
		snprintf(q->why, sizeof q->why, "%s", err_text());
		log_more("hone-sync: a batch of %d line%s was refused: %s", n, plural_s(n), err_text());
		return 1;
	}
	if (rc >= 0)
		rc = q->to->sent(q->to->ctx, p->number + at, n);
	if (rc < 0)
		return rc;
	q->sum->batches++;
	q->sum->sent += n;
	for (int i = at; i < at + n; i++)
		q->sum->sent_of[p->type[i]]++;
	return 0;
}

/* Sends a parcel. Lines that the server refuses are sent again in halves; a line that it refuses alone stays
 * unsent, and so do all lines that come after REFUSALS_MOST refusals. */
static int send_parcel(struct push *q, const struct parcel *p)
{
	struct {
		int at, n;
	} part[BATCH_RECORDS] = {{0, p->n}};
	for (int top = 1; top;) {
		int at = part[--top].at, n = part[top].n, half = n / 2;
		if (q->refusals >= REFUSALS_MOST) {
			q->left += n;
			continue;
		}
		int rc = send_lines(q, p, at, n);
		if (rc < 0)
			return rc;
		if (rc && half) {
			part[top].at = at + half;
			part[top++].n = n - half;
			part[top].at = at;
			part[top++].n = half;
			continue;
		}
		q->sum->unsent += rc;
		q->tried = p->number[at + n - 1] + 1;
	}
	return E_OK;
}

static void empty(struct parcel *p)
{
	char *next = p->next ? strdup(p->next) : NULL;
	arena_reset(&p->a);
	p->next = next ? arena_strdup(&p->a, next) : NULL;
	free(next);
	p->n = 0;
	p->bytes = 0;
}

/* Passes over the first q->from lines. */
static int pass_over(struct push *q, struct parcel *p)
{
	while (q->lines < q->from && !p->end) {
		const char *line;
		int rc = q->to->next(q->to->ctx, &p->a, &line);
		if (rc < 0)
			return rc;
		p->end = rc == 0;
		q->lines += rc > 0;
		arena_reset(&p->a);
	}
	q->tried = q->sum->untried = q->lines;
	return E_OK;
}

static int explain(const struct push *q)
{
	const struct sync_sum *s = q->sum;
	char rest[64] = "";
	if (s->untried)
		snprintf(rest, sizeof rest, "; %d %s not tried in this run", s->untried,
			 s->untried == 1 ? "was" : "were");
	if (s->unsent)
		return fail(E_UNSUPPORTED, "the server refused %d line%s: %s%s", s->unsent,
			    plural_s(s->unsent), q->why, rest);
	if (q->left)
		return fail(E_UNSUPPORTED, "the server refused %d batch%s: %s%s", q->refusals,
			    q->refusals == 1 ? "" : "es", q->why, rest);
	return fail(E_UNSUPPORTED, "%d line%s that the server refused before %s for the next run", s->untried,
		    plural_s(s->untried), s->untried == 1 ? "waits" : "wait");
}

int sync_push(struct push *q)
{
	struct parcel p = {0};
	int rc = pass_over(q, &p);
	for (int i = 0; i < BATCHES_MOST && rc >= 0 && !p.end; i++) {
		rc = fill(q, &p);
		if (rc >= 0 && p.n)
			rc = send_parcel(q, &p);
		empty(&p);
	}
	arena_free(&p.a);
	q->all_answered = rc >= 0;
	q->sum->untried += q->left;
	/* Lines that were sent are not offered again, so the next run's numbers do not count them. */
	q->from = rc >= 0 && p.end && !q->left ? 0 : q->tried - q->sum->sent;
	return rc >= 0 && q->sum->unsent + q->sum->untried ? explain(q) : rc;
}
