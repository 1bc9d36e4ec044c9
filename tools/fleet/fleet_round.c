/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_round.h"
#include "platform/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST_MOST = 4096, ID_BYTES = 8 };

/* Administration. */

int rollout_stop(struct db_conn *c)
{
	return store_set(c, "stop", "1");
}

static int go_on(struct db_conn *c, void *ctx)
{
	const int64_t *now_s = ctx;
	int rc = store_set(c, "stop", "0");
	return rc < 0
		   ? rc
		   : store_exec(c,
				"UPDATE shown SET since_s = $1 WHERE channel < 2 AND NOT EXISTS (SELECT 1 "
				"FROM shown AS a WHERE a.class = shown.class AND a.channel = 2 AND a.type = "
				"shown.type AND a.key = shown.key AND a.cand = shown.cand)",
				DB_PARAMS(DB_I(*now_s)), NULL, NULL);
}

int rollout_go_on(struct db_conn *c, int64_t now_s)
{
	return store_do(c, go_on, &now_s);
}

int rollout_stopped(struct db_conn *c)
{
	char text[8];
	int rc = store_get(c, "stop", text, sizeof text);
	return rc == E_NOTFOUND ? 0 : rc < 0 ? rc : !strcmp(text, "1");
}

static int set_withdraw(struct db_conn *c, void *ctx)
{
	int rc = store_set(c, "withdraw", ctx);
	return rc < 0 ? rc : rollout_stop(c);
}

int rollout_withdraw(struct db_conn *c, const char *cls)
{
	uint8_t id[ID_BYTES];
	char hex[2 * ID_BYTES + 1], text[80];
	int rc = crypto_random(id, sizeof id);
	if (rc < 0)
		return rc;
	hex_write(id, sizeof id, hex);
	snprintf(text, sizeof text, "%s %.32s", hex, cls ? cls : "all");
	return store_do(c, set_withdraw, text);
}

/* The beginning of a round. */

/* Grows a list in the arena; n: its length so far. */
static void *grown(struct arena *a, void *p, int n, size_t each)
{
	if (n & (n - 1)) /* there is room for the next power of two */
		return p;
	void *more = arena_try(a, n ? 2 * (size_t)n : 1, each);
	if (more && n)
		memcpy(more, p, (size_t)n * each);
	return more;
}

static int on_member(void *ctx, const struct db_value *col, int n)
{
	struct round *r = ctx;
	(void)n;
	r->board = grown(&r->a, r->board, r->nboard, sizeof *r->board);
	if (!r->board)
		return E_NOMEM;
	struct round_member *m = &r->board[r->nboard++];
	*m = (struct round_member){.revoked_s = col[2].i,
			     .revoked = col[2].i != 0,
			     .words = col[3].i,
			     .good = col[4].i,
			     .struck = col[5].i != 0};
	snprintf(m->id, sizeof m->id, "%s", col[0].p);
	snprintf(m->cls, sizeof m->cls, "%s", col[1].p);
	return E_OK;
}

static int on_revoked(void *ctx, const struct db_value *col, int n)
{
	struct round *r = ctx;
	(void)n;
	r->record = grown(&r->a, r->record, r->nrecord, sizeof *r->record);
	if (!r->record)
		return E_NOMEM;
	if (key_parse(col[0].p, &r->record[r->nrecord]) >= 0)
		r->nrecord++;
	return E_OK;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct round_member *)a)->id, ((const struct round_member *)b)->id);
}

static int read_withdraw(struct round *r)
{
	char text[80];
	int rc = store_get(r->c, "withdraw", text, sizeof text);
	if (rc == E_NOTFOUND)
		return E_OK;
	return rc < 0 || sscanf(text, "%32s %32s", r->withdraw, r->withdraw_of) == 2
		   ? rc
		   : fail(E_CORRUPT, "setting withdraw: '%s' is not ID CLASS", text);
}

/* Computes r->revoked, a hash of all that is revoked, and r->rules, a hash of all that an aggregation depends
 * on, except words and time. */
static void hash_rules(struct round *r)
{
	const struct fleet_conf *c = &r->f->c;
	const int64_t number[] = {c->quorum[0], c->quorum[1], c->quorum[2], c->tolerance_pct, c->stage_ns,
				  c->poll_s,    c->expire_s,  c->parts_min, r->stop};
	struct key k = hash_text(r->signer);
	for (int i = 0; i < r->nboard; i++)
		if (r->board[i].revoked)
			k = hash_join(k, hash_text(r->board[i].id));
	for (int i = 0; i < r->nrecord; i++)
		k = hash_join(k, r->record[i]);
	key_text(k, r->revoked);
	key_text(hash_join(k, hash_bytes(number, sizeof number)), r->rules);
}

static int read_members(struct round *r)
{
	struct public_key key;
	private_key_public(r->f->key, &key);
	public_key_id(&key, r->signer);
	r->nboard = r->nrecord = 0;
	int rc = db_exec(r->c, "SELECT id, class, revoked_s, words, good, struck FROM boards", NULL, 0,
			 on_member, r);
	if (rc >= 0)
		rc = db_exec(r->c, "SELECT hash FROM revoked ORDER BY at_s DESC, hash", NULL, 0, on_revoked,
			     r);
	if (rc >= 0 && r->nboard)
		qsort(r->board, (size_t)r->nboard, sizeof *r->board, by_id);
	if (rc >= 0)
		hash_rules(r);
	return rc;
}

static int round_begin(struct round *r)
{
	/* The order matters: an operator who withdraws between the two reads stops this round at least, and
	 * the next round goes back. */
	int rc = read_withdraw(r);
	if (rc >= 0)
		rc = rollout_stopped(r->c);
	r->stop = rc > 0;
	return rc < 0 ? rc : read_members(r);
}

/* Classes that have something to do. */

struct todo {
	char cls[33];
	bool withdraw;
};

struct todos {
	struct round *r;
	int n;
	struct todo *t;
};

static int on_class(void *ctx, const struct db_value *col, int n)
{
	struct todos *s = ctx;
	struct round *r = s->r;
	(void)n;
	bool of = !strcmp(r->withdraw_of, "all") || !strcmp(r->withdraw_of, col[0].p);
	bool withdraw = of && strcmp(r->withdraw, col[4].p) != 0;
	if (!withdraw && !col[1].i && col[2].i > r->now_s && !strcmp(col[3].p, r->rules))
		return E_OK;
	s->t = grown(&r->a, s->t, s->n, sizeof *s->t);
	if (!s->t)
		return E_NOMEM;
	struct todo *t = &s->t[s->n++];
	t->withdraw = withdraw;
	snprintf(t->cls, sizeof t->cls, "%s", col[0].p);
	return E_OK;
}

void round_note(struct round *r, int rc)
{
	if (rc >= 0 || r->rc < 0)
		return;
	r->rc = rc;
	snprintf(r->why, sizeof r->why, "%s", err_text());
}

void fleet_on_step(struct fleet *f, int (*step)(void *ctx), void *ctx)
{
	f->step = step;
	f->step_ctx = ctx;
}

int round_step(struct round *r)
{
	return r->f->step ? r->f->step(r->f->step_ctx) : E_OK;
}

/* If aggregation fails, the class's snapshots have the records of before. */
static int do_class(struct round *r, const struct todo *t)
{
	int rc = round_step(r);
	if (rc < 0)
		return rc;
	rc = fail_in(round_words(r, t->cls), "class %s", t->cls);
	round_note(r, rc);
	rc = round_snapshots(r, t->cls,
			     t->withdraw ? SNAPSHOTS_BACK
			     : rc < 0    ? SNAPSHOTS_AGAIN
					 : SNAPSHOTS_NEW);
	return fail_in(rc, "class %s", t->cls);
}

static void do_classes(struct round *r)
{
	struct todos s = {.r = r};
	round_note(r,
		   db_exec(r->c, "SELECT class, dirty, due_s, rules, withdrawn FROM classes ORDER BY class",
			   NULL, 0, on_class, &s));
	for (int i = 0; i < s.n && r->rc != E_STOPPED; i++)
		round_note(r, do_class(r, &s.t[i]));
}

static int on_silent(void *ctx, const struct db_value *col, int n)
{
	struct todos *s = ctx;
	(void)n;
	s->t = grown(&s->r->a, s->t, s->n, sizeof *s->t);
	if (!s->t)
		return E_NOMEM;
	snprintf(s->t[s->n++].cls, sizeof s->t->cls, "%s", col[0].p);
	return E_OK;
}

/* Publishes revocations before anything that boards sent is read. */
static void revoke_first(struct round *r)
{
	struct todos s = {.r = r};
	int rc = read_members(r);
	if (rc >= 0)
		rc = db_exec(
		    r->c,
		    "SELECT class FROM classes WHERE revoked <> $1 AND EXISTS (SELECT 1 FROM snapshots "
		    "WHERE snapshots.class = classes.class) ORDER BY class",
		    DB_PARAMS(DB_T(r->revoked)), on_silent, &s);
	if (rc >= 0 && s.n)
		rc = rollout_stopped(r->c);
	r->stop = rc > 0;
	round_note(r, rc);
	for (int i = 0; i < s.n && rc >= 0; i++) {
		rc = round_step(r);
		if (rc >= 0)
			round_note(r, fail_in(round_snapshots(r, s.t[i].cls, SNAPSHOTS_KEPT), "class %s",
					      s.t[i].cls));
		round_note(r, rc);
	}
	if (s.n && rc != E_STOPPED)
		round_note(r, round_publish(r));
}

static int sweep(struct round *r)
{
	int64_t last = 0;
	int rc = store_get_int(r->c, "swept_s", 0, &last);
	if (rc < 0 || (r->f->led && r->now_s - last < SWEEP_S && last <= r->now_s))
		return rc;
	rc = round_sweep(r);
	if (rc >= 0)
		rc = store_set_int(r->c, "swept_s", r->now_s);
	r->f->led = rc >= 0;
	return rc;
}

static int log_order(void *ctx, const struct db_value *col, int n)
{
	char line[512];
	(void)ctx;
	(void)n;
	snprintf(line, sizeof line, "%.120s: %.300s", col[0].p, col[1].p);
	log_one_line(line);
	log_info("hone-fleet: %s", line);
	return E_OK;
}

/* Logs what operators ordered by commands (rename, revoke), which write to the database without this server.
 * Commands give whole seconds; the last two are left to the next round, as their commands may still write. */
static int log_commands(struct round *r)
{
	int64_t until_us = (r->now_s - 2) * 1000000, from_us = r->f->commands_us ? r->f->commands_us : until_us;
	int rc = db_exec(r->c,
			 "SELECT who, what FROM admin WHERE at_us > $1 AND at_us <= $2 AND who LIKE 'user %' ORDER "
			 "BY at_us, id",
			 DB_PARAMS(DB_I(from_us), DB_I(until_us)), log_order, NULL);
	if (rc >= 0)
		r->f->commands_us = until_us > from_us ? until_us : from_us;
	return rc < 0 ? rc : E_OK;
}

static int lead_round(struct round *r)
{
	round_note(r, log_commands(r));
	revoke_first(r);
	if (r->rc == E_STOPPED)
		return fail(r->rc, "%s", r->why);
	round_note(r, fleet_digest(r->f, r->c, DIGEST_MOST));
	int rc = round_begin(r);
	round_note(r, rc);
	if (rc >= 0)
		do_classes(r);
	if (r->rc != E_STOPPED)
		round_note(r, sweep(r));
	if (r->rc != E_STOPPED)
		round_note(r, round_publish(r));
	return r->rc < 0 ? fail(r->rc, "%s", r->why) : 1;
}

int fleet_round(struct fleet *f)
{
	struct round r = {.f = f, .c = fleet_conn(f), .now_s = f->date_s()};
	int rc = db_lead(r.c);
	if (rc == 0 && !f->follows)
		log_info("hone-fleet: another hone-fleet publishes from this database, by its own options; "
			 "this one answers boards, and takes over when that one ends");
	f->follows = rc == 0;
	if (rc > 0)
		rc = lead_round(&r);
	else
		f->led = false;
	arena_free(&r.a);
	return rc;
}
