/* SPDX-License-Identifier: Apache-2.0 */
/* Receives batches. Cheap checks come first, and a batch is kept only after all checks. */
#include "tools/fleet/fleet_parts.h"
#include "agent/cache/cache.h"
#include "platform/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_S = 86400 };

struct coming {
	struct fleet *f;
	const struct fleet_request *q;
	struct signed_doc doc;
	struct store_board board;
	struct batch batch;
	int64_t now_s;
};

static void say_taken(const struct coming *in, const char *name, int n, bool known, struct fleet_reply *r)
{
	fleet_say_json(r, 202,
		       json_pack("{s:s,s:i,s:b,s:o}", "name", name, "records", n, "known", known, "board",
				 json_text(in->board.name)));
}

/* Refuses a batch over a limit. The operator is told once a day for each board, the board each time. */
static void say_limit(struct coming *in, struct db_conn *c, bool all, struct fleet_reply *r)
{
	const struct fleet_conf *f = &in->f->c;
	const char *id = in->board.id;
	int first = all ? store_full(c, in->now_s) : store_over(c, id, in->now_s);
	char why[160];
	if (all)
		snprintf(why, sizeof why, "all boards together may send %" PRId64 " bytes a day (all-bytes)",
			 f->all_bytes);
	else
		snprintf(why, sizeof why,
			 "a board may send %" PRId64 " batches (board-day) and %" PRId64
			 " bytes (board-bytes) a day",
			 f->board_day, f->board_bytes);
	if (first < 0) {
		fleet_say_fault(r, first);
		return;
	}
	fleet_say(r, 429, "%s", why);
	if (first) {
		log_error("board %s has reached its limit of today: %s", id, why);
		fleet_refused(in->f, COUNT_LIMIT, in->q, id, why);
	} else {
		fleet_count(in->f, COUNT_LIMIT, 1);
	}
	r->retry_after_s = (int)(DAY_S - in->now_s % DAY_S);
}

/* Checks that the batch is signed by a board that may send; false: r says why not. */
static bool who_is_it(struct coming *in, struct db_conn *c, struct fleet_reply *r)
{
	const struct fleet_request *q = in->q;
	int rc = signed_parse(q->body ? q->body : "", q->n, "records", &in->doc);
	if (rc < 0 || in->doc.n < 1) {
		fleet_refuse(in->f, q, r, 400, COUNT_ENVELOPE, NULL, "%s",
			     rc < 0 ? err_text() : "not signed");
		return false;
	}
	const char *id = in->doc.by[0].id;
	rc = store_board(c, id, &in->board);
	if (rc == E_NOTFOUND) {
		fleet_refuse(in->f, q, r, 401, COUNT_UNKNOWN, id, "board %s is not enrolled", id);
		return false;
	}
	if (rc < 0) {
		fleet_say_fault(r, rc);
		return false;
	}
	if (signed_check(&in->doc, &in->board.key, 1, 1, NULL) < 0) {
		fleet_refuse(in->f, q, r, 401, COUNT_SIGNATURE, id, "not signed by board %s", id);
		return false;
	}
	if (in->board.revoked_s) {
		fleet_refuse(in->f, q, r, 403, COUNT_REVOKED, id,
			     "board %s is revoked; ask the fleet's operator", id);
		return false;
	}
	return true;
}

/* A board over its limit still learns that a batch was sent before, but nothing else of a batch is read. */
static bool within_limit(struct coming *in, struct db_conn *c, struct fleet_reply *r)
{
	struct sha256 hash;
	char name[2 * sizeof hash.b + 1];
	const struct fleet_conf *f = &in->f->c;
	if (in->board.day != in->now_s / DAY_S ||
	    (in->board.sent < f->board_day && in->board.sent_bytes + (int64_t)in->q->n <= f->board_bytes))
		return true;
	int rc = crypto_sha256(in->doc.payload.p, in->doc.payload.n, &hash);
	if (rc >= 0) {
		hex_write(hash.b, sizeof hash.b, name);
		rc = store_batch_known(c, name);
	}
	if (rc < 0)
		fleet_say_fault(r, rc);
	else if (rc)
		say_taken(in, name, 0, true, r);
	else
		say_limit(in, c, false, r);
	return false;
}

static bool read_batch(struct coming *in, struct db_conn *c, struct arena *a, struct fleet_reply *r)
{
	int rc = batch_parse(in->doc.payload.p, in->doc.payload.n, a, &in->batch);
	if (rc >= 0 && strcmp(in->batch.board, in->board.id) != 0)
		rc =
		    fail(E_CORRUPT, "the batch names board %s, but another board signed it", in->batch.board);
	if (rc == E_NOMEM) {
		fleet_say_fault(r, rc);
	} else if (rc < 0) {
		/* each refused batch counts toward the board's day (board-day), which limits these lines */
		log_error("board %s: a batch is refused: %s", in->board.id, err_text());
		fleet_refuse(in->f, in->q, r, 400, COUNT_BATCH, in->board.id, "%s", err_text());
		int charged = store_charge(c, in->board.id, in->q->n, in->now_s);
		if (charged < 0)
			fleet_say_fault(r, charged);
	}
	return rc >= 0;
}

static int keep(struct db_conn *c, void *ctx)
{
	const struct coming *in = ctx;
	const struct fleet_conf *f = &in->f->c;
	const struct store_limits most = {f->board_day, f->board_bytes, f->all_bytes};
	return store_batch(c, &in->batch, in->q->body, in->q->n, in->now_s, &most);
}

static void take(struct coming *in, struct db_conn *c, struct fleet_reply *r)
{
	char name[2 * SHA256_BYTES + 1];
	hex_write(in->batch.name.b, sizeof in->batch.name.b, name);
	int rc = store_do(c, keep, in);
	if (rc < 0) {
		fleet_say_fault(r, rc);
	} else if (rc == BATCH_LIMIT || rc == BATCH_FULL) {
		say_limit(in, c, rc == BATCH_FULL, r);
	} else {
		fleet_count(in->f, rc == BATCH_TAKEN ? COUNT_BATCHES : COUNT_KNOWN, 1);
		fleet_count(in->f, COUNT_RECORDS, rc == BATCH_TAKEN ? in->batch.n : 0);
		say_taken(in, name, in->batch.n, rc == BATCH_KNOWN, r);
	}
}

void fleet_records(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct arena a = {.cap_bytes = 64 << 20};
	struct coming *in = calloc(1, sizeof *in);
	if (!in) {
		fleet_say_fault(r, fail(E_BUSY, "no memory"));
		return;
	}
	*in = (struct coming){.f = f, .q = q, .now_s = f->date_s()};
	if (who_is_it(in, c, r) && within_limit(in, c, r) && read_batch(in, c, &a, r))
		take(in, c, r);
	arena_free(&a);
	free(in);
}
