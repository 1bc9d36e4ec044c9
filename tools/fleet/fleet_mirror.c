/* SPDX-License-Identifier: Apache-2.0 */
/* Sends to the place what the database has: roots, blobs, then snapshots. */
#include "tools/fleet/fleet_round.h"
#include "platform/base/log.h"
#include "tools/fleet/publish.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH = 2 * SHA256_BYTES + 1, AT_ONCE = 64, ROOT_BYTES = 64 << 10 };

static int open_place(struct fleet *f)
{
	return f->place ? E_OK : place_open(f->c.publish, &f->place);
}

/* Root documents are files 1, 2, ... that the owner of the keys puts into KEYS/root. */
static int send_roots(struct round *r)
{
	struct fleet *f = r->f;
	for (;;) {
		char path[PATH_MAX], name[32];
		struct blob b;
		snprintf(path, sizeof path, "%s/root/%" PRId64, f->c.keys, f->roots + 1);
		snprintf(name, sizeof name, "root/%" PRId64, f->roots + 1);
		int rc = file_read(&r->a, path, ROOT_BYTES, &b);
		if (rc >= 0)
			rc = place_put(f->place, name, b.p, b.n, true);
		if (rc < 0)
			return rc == E_NOTFOUND ? E_OK : rc;
		f->roots++;
	}
}

/* Rows that wait to be sent, AT_ONCE at most. */
struct waiting {
	struct arena a;
	int n;
	struct one {
		char hash[HASH], cls[33];
		int64_t channel, serial, records;
		bool placed; /* the place had it before: it is only offered again */
		struct blob bytes;
	} one[AT_ONCE];
};

static int keep_bytes(struct waiting *w, const struct db_value *v)
{
	char *p = arena_try(&w->a, v->n + 1, 1);
	if (!p)
		return E_NOMEM;
	memcpy(p, v->p, v->n);
	w->one[w->n++].bytes = (struct blob){p, v->n};
	return E_OK;
}

static int on_blob(void *ctx, const struct db_value *col, int n)
{
	struct waiting *w = ctx;
	(void)n;
	snprintf(w->one[w->n].hash, HASH, "%s", col[0].p);
	return keep_bytes(w, &col[1]);
}

static int on_snapshot(void *ctx, const struct db_value *col, int n)
{
	struct waiting *w = ctx;
	struct one *o = &w->one[w->n];
	(void)n;
	snprintf(o->cls, sizeof o->cls, "%s", col[0].p);
	o->channel = col[1].i;
	o->serial = col[2].i;
	o->records = col[4].i;
	o->placed = col[5].i;
	return keep_bytes(w, &col[3]);
}

static int send_blob(struct round *r, const struct one *o)
{
	char name[HASH + 8];
	snprintf(name, sizeof name, "blob/%s", o->hash);
	int rc = place_put(r->f->place, name, o->bytes.p, o->bytes.n, true);
	return rc < 0 ? rc
		      : store_exec(r->c, "UPDATE blobs SET sent = 1, placed = 1 WHERE hash = $1",
				   DB_PARAMS(DB_T(o->hash)), NULL, NULL);
}

static int on_serial(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	*(int64_t *)ctx = col[0].type == DB_INT ? col[0].i : 0;
	return E_OK;
}

/* A former leader that was suspended must not put an old snapshot over the new leader's: either its
 * connection is gone, or the database has a newer serial. */
static int is_newest(struct round *r, const struct one *o)
{
	int64_t newest = 0;
	int rc = db_exec(r->c, "SELECT MAX(serial) FROM snapshots WHERE class = $1 AND channel = $2",
			 DB_PARAMS(DB_T(o->cls), DB_I(o->channel)), on_serial, &newest);
	return rc < 0 ? rc : newest == o->serial;
}

static int send_snapshot(struct round *r, const struct one *o)
{
	char name[PUBLISH_NAME];
	int rc = is_newest(r, o);
	snprintf(name, sizeof name, "%s/%s/snapshot", o->cls, channel_names[o->channel]);
	if (rc > 0)
		rc = place_put(r->f->place, name, o->bytes.p, o->bytes.n, false);
	if (rc >= 0 && !o->placed)
		log_info("hone-fleet: published channel %s of class %s: %" PRId64
			 " record%s, serial %" PRId64,
			 channel_names[o->channel], o->cls, o->records, plural_s(o->records), o->serial);
	return rc < 0 ? rc
		      : store_exec(
			    r->c,
			    "UPDATE snapshots SET sent = 1, placed = 1 WHERE class = $1 AND channel = $2 AND "
			    "serial = $3",
			    DB_PARAMS(DB_T(o->cls), DB_I(o->channel), DB_I(o->serial)), NULL, NULL);
}

/* Sends blobs until none waits. */
static int send_blobs(struct round *r, struct waiting *w)
{
	int rc;
	do {
		arena_reset(&w->a);
		w->n = 0;
		rc = db_exec(r->c, "SELECT hash, bytes FROM blobs WHERE sent = 0 ORDER BY hash LIMIT $1",
			     DB_PARAMS(DB_I(AT_ONCE)), on_blob, w);
		for (int i = 0; rc >= 0 && i < w->n; i++)
			rc = (rc = round_step(r)) < 0 ? rc : send_blob(r, &w->one[i]);
	} while (rc >= 0 && w->n);
	return rc;
}

static const char unsent[] = "SELECT hash FROM blobs WHERE hash = $1 AND sent = 0";
static const char unplaced[] = "SELECT hash FROM blobs WHERE hash = $1 AND placed = 0";

/* 1: no blob of the snapshot is missing; missing: a statement that finds a blob's hash if it is. */
static int is_whole(struct round *r, struct waiting *w, const struct one *o, const char *missing)
{
	struct signed_doc doc;
	struct snapshot p = {0};
	char hex[HASH];
	int rc = db_exec(r->c, "SELECT hash FROM blobs WHERE sent = 0 LIMIT 1", NULL, 0, NULL, NULL);
	if (rc <= 0)
		return rc < 0 ? rc : 1;
	rc = signed_parse(o->bytes.p, o->bytes.n, "snapshot", &doc);
	if (rc >= 0)
		rc = snapshot_parse(doc.payload.p, doc.payload.n, &w->a, &p);
	for (int i = 0; i < p.nblob && rc >= 0; i++) {
		hex_write(p.blob[i].sha256.b, SHA256_BYTES, hex);
		rc = db_exec(r->c, missing, DB_PARAMS(DB_T(hex)), NULL, NULL);
		if (rc > 0)
			return 0;
	}
	return rc < 0 ? rc : 1;
}

/* Sends the waiting snapshots whose blobs are all there. */
static int send_snapshots(struct round *r, struct waiting *w, const char *missing)
{
	struct one last = {.channel = -1};
	int rc;
	do {
		arena_reset(&w->a);
		w->n = 0;
		rc = db_exec(r->c,
			     "SELECT class, channel, serial, doc, records, placed FROM snapshots WHERE sent "
			     "= 0 AND (class, channel, "
			     "serial) > ($2, $3, $4) ORDER BY class, channel, serial LIMIT $1",
			     DB_PARAMS(DB_I(AT_ONCE), DB_T(last.cls), DB_I(last.channel), DB_I(last.serial)),
			     on_snapshot, w);
		for (int i = 0; rc >= 0 && i < w->n; i++) {
			rc = (rc = round_step(r)) < 0 ? rc : is_whole(r, w, &w->one[i], missing);
			if (rc > 0)
				rc = send_snapshot(r, &w->one[i]);
		}
		if (w->n)
			last = w->one[w->n - 1];
	} while (rc >= 0 && w->n);
	return rc;
}

/* Snapshots that need no new blob are sent first, since they may have revocations. If blobs cannot be sent, a
 * snapshot is still sent if its blobs were sent once (they are offered again every hour). */
static int send_all(struct round *r, struct waiting *w)
{
	int rc = send_snapshots(r, w, unsent);
	round_note(r, fail_in(rc, "publish = %s", r->f->c.publish));
	if (rc == E_STOPPED)
		return rc;
	rc = send_blobs(r, w);
	round_note(r, fail_in(rc, "publish = %s", r->f->c.publish));
	return rc == E_STOPPED ? rc : send_snapshots(r, w, rc < 0 ? unplaced : unsent);
}

int round_publish(struct round *r)
{
	struct waiting *w = calloc(1, sizeof *w);
	int rc = w ? open_place(r->f) : fail(E_NOMEM, "no memory");
	bool open = rc >= 0;
	if (open)
		rc = send_roots(r);
	round_note(r, fail_in(rc, "publish = %s", r->f->c.publish));
	if (open && rc != E_STOPPED)
		rc = send_all(r, w);
	if (w)
		arena_free(&w->a);
	free(w);
	return fail_in(rc, "publish = %s", r->f->c.publish);
}

/* Blobs that no snapshot names. */

struct named {
	struct arena a;
	struct snapshot_blob *b;
	int n, room;
};

static int by_hash(const void *a, const void *b)
{
	return memcmp(&((const struct snapshot_blob *)a)->sha256, &((const struct snapshot_blob *)b)->sha256,
		      SHA256_BYTES);
}

static int add_named(struct named *s, const struct snapshot *p)
{
	for (int i = 0; i < p->nblob; i++) {
		if (s->n == s->room) {
			int room = s->room ? 2 * s->room : 1024;
			struct snapshot_blob *more = realloc(s->b, (size_t)room * sizeof *more);
			if (!more)
				return fail(E_NOMEM, "no memory for %d blobs", room);
			s->b = more;
			s->room = room;
		}
		s->b[s->n++] = p->blob[i];
	}
	return E_OK;
}

static int on_doc(void *ctx, const struct db_value *col, int n)
{
	struct named *s = ctx;
	struct signed_doc doc;
	struct snapshot p;
	(void)n;
	arena_reset(&s->a);
	int rc = signed_parse(col[0].p, col[0].n, "snapshot", &doc);
	if (rc >= 0)
		rc = snapshot_parse(doc.payload.p, doc.payload.n, &s->a, &p);
	return rc < 0 ? rc : add_named(s, &p);
}

/* Collects the blobs that snapshots name, each once, sorted. */
static int find_named(struct round *r, struct named *s)
{
	int kept = 0;
	int rc = db_exec(r->c, "SELECT doc FROM snapshots", NULL, 0, on_doc, s);
	if (rc >= 0 && s->n)
		qsort(s->b, (size_t)s->n, sizeof *s->b, by_hash);
	for (int i = 0; rc >= 0 && i < s->n; i++)
		if (!i || by_hash(&s->b[i - 1], &s->b[i]))
			s->b[kept++] = s->b[i];
	s->n = kept;
	arena_free(&s->a);
	return rc;
}

struct old {
	struct named *named;
	struct arena *a;
	int64_t now_s;
	int n, room;
	struct gone {
		char hash[HASH];
		bool drop, named;
	} * gone;
};

/* Collects blobs that must be dropped, or whose mark left_s must change. */
static int on_old(void *ctx, const struct db_value *col, int n)
{
	struct old *o = ctx;
	struct snapshot_blob b;
	(void)n;
	if (hex_read(col[0].p, SHA256_BYTES, b.sha256.b) < 0)
		return E_OK;
	bool named = o->named->n && bsearch(&b, o->named->b, (size_t)o->named->n, sizeof b, by_hash);
	bool drop = !named && col[1].i && (o->now_s - col[1].i > GRACE_S);
	if (!drop && named == !col[1].i)
		return E_OK;
	if (o->n == o->room) {
		int room = o->room ? 2 * o->room : 256;
		struct gone *more = arena_try(o->a, (size_t)room, sizeof *more);
		if (!more)
			return E_NOMEM;
		if (o->n)
			memcpy(more, o->gone, (size_t)o->n * sizeof *more);
		o->gone = more;
		o->room = room;
	}
	struct gone *g = &o->gone[o->n++];
	*g = (struct gone){.drop = drop, .named = named};
	snprintf(g->hash, HASH, "%s", col[0].p);
	return E_OK;
}

static int drop_blob(struct round *r, const char *hash)
{
	char name[HASH + 8];
	snprintf(name, sizeof name, "blob/%s", hash);
	int rc = round_step(r);
	if (rc >= 0)
		rc = place_drop(r->f->place, name);
	return rc < 0
		   ? rc
		   : store_exec(r->c, "DELETE FROM blobs WHERE hash = $1", DB_PARAMS(DB_T(hash)), NULL, NULL);
}

static int sweep_blobs(struct round *r)
{
	struct named named = {0};
	struct old o = {.named = &named, .a = &r->a, .now_s = r->now_s};
	int rc = find_named(r, &named);
	if (rc >= 0)
		rc = db_exec(r->c, "SELECT hash, left_s FROM blobs", NULL, 0, on_old, &o);
	for (int i = 0; i < o.n && rc >= 0; i++)
		rc = o.gone[i].drop
			 ? drop_blob(r, o.gone[i].hash)
			 : store_exec(r->c, "UPDATE blobs SET left_s = $2 WHERE hash = $1",
				      DB_PARAMS(DB_T(o.gone[i].hash), DB_I(o.gone[i].named ? 0 : r->now_s)),
				      NULL, NULL);
	free(named.b);
	return rc;
}

int round_sweep(struct round *r)
{
	static const char *const again[] = {
	    "DELETE FROM shown WHERE now = 0 AND NOT EXISTS (SELECT 1 FROM words WHERE words.class = "
	    "shown.class "
	    "AND words.type = shown.type AND words.key = shown.key AND words.cand = shown.cand)",
	    "DELETE FROM kernels WHERE NOT EXISTS (SELECT 1 FROM words WHERE words.class = kernels.class AND "
	    "words.type = kernels.type AND words.key = kernels.key) AND NOT EXISTS (SELECT 1 FROM gains "
	    "WHERE "
	    "gains.class = kernels.class AND gains.type = kernels.type AND gains.key = kernels.key)",
	    "UPDATE blobs SET sent = 0 WHERE left_s = 0",
	    "UPDATE snapshots SET sent = 0 WHERE serial = (SELECT "
	    "MAX(serial) FROM snapshots s WHERE s.class = "
	    "snapshots.class AND s.channel = snapshots.channel)"};
	int rc = open_place(r->f);
	if (rc >= 0)
		rc = sweep_blobs(r);
	r->f->roots = 0;
	for (size_t i = 0; i < sizeof again / sizeof *again && rc >= 0; i++)
		rc = store_exec(r->c, again[i], NULL, 0, NULL, NULL);
	return rc;
}
