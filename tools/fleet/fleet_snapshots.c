/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a class's snapshots: the lines of its channels, in signed blobs. */
#include "tools/fleet/fleet_round.h"
#include "platform/base/log.h"
#include "search/share.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1024, HASH = 2 * SHA256_BYTES + 1, DEPTH = 128, NEW = -1 };

/* A channel's newest snapshot, or an older one; serial 0: there is none. */
struct kept_snapshot {
	int64_t serial, origin, made_s, expires_s;
	char content[HASH], state[HASH];
	struct blob doc;
};

struct channel_now {
	struct kept_snapshot last;
	bool write, bad; /* bad: the channel failed, nothing is written */
	int64_t serial, expires_s;
	int64_t origin; /* first serial with these blobs; NEW: not known yet */
	int records;
	char content[HASH], state[HASH];
	struct snapshot s;
	struct blob *bytes; /* the blobs to write; NULL: none is new */
	struct buf doc;
};

struct class_snapshots {
	struct round *r;
	const char *cls;
	struct arena a;
	enum snapshots_how how;
	bool again; /* the next round must try again, since not all was made */
	struct channel_now channel[CHANNELS];
};

/* Shards. */

static int by_key(const void *a, const void *b)
{
	const struct shard_line *x = a, *y = b;
	if (x->key.hi != y->key.hi)
		return x->key.hi < y->key.hi ? -1 : 1;
	if (x->key.lo != y->key.lo)
		return x->key.lo < y->key.lo ? -1 : 1;
	return (int)x->type - (int)y->type;
}

struct span {
	int lo, hi, depth;
};

static size_t span_bytes(const struct shard_line *l, struct span s)
{
	size_t n = 0;
	for (int i = s.lo; i < s.hi; i++)
		n += l[i].n + 1;
	return n;
}

static bool bit(struct key k, int i)
{
	return (i < 64 ? k.hi >> (63 - i) : k.lo >> (127 - i)) & 1;
}

/* Finds the first line of the span whose next key bit is 1. */
static int split(const struct shard_line *l, struct span s)
{
	int lo = s.lo, hi = s.hi;
	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;
		if (bit(l[mid].key, s.depth))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Cuts the lines into at most `most` spans; *end: the first line that is in no span. */
static int cut(const struct shard_line *l, int n, size_t limit, struct span *out, int most, int *end)
{
	struct span todo[DEPTH + 2];
	int made = 0, waiting = 0;
	todo[waiting++] = (struct span){0, n, 0};
	*end = 0;
	while (waiting) {
		struct span s = todo[--waiting];
		if (s.lo == s.hi)
			continue;
		if (s.depth == DEPTH || span_bytes(l, s) <= limit) {
			if (made == most)
				return made;
			out[made++] = s;
			*end = s.hi;
			continue;
		}
		int mid = split(l, s);
		todo[waiting++] = (struct span){mid, s.hi, s.depth + 1};
		todo[waiting++] = (struct span){s.lo, mid, s.depth + 1};
	}
	return made;
}

/* Joins the lines of a span into a blob. Lines of one key cannot be divided, so those that do not fit are
 * left out. */
static int join(struct shard_line *l, struct span s, struct arena *a, struct blob *out)
{
	size_t n = 0, most = span_bytes(l, s);
	most = most < SNAPSHOT_BLOB ? most : SNAPSHOT_BLOB;
	char *p = arena_try(a, most, 1);
	if (!p)
		return E_NOMEM;
	for (int i = s.lo; i < s.hi; i++) {
		l[i].left = n + l[i].n + 1 > most;
		if (l[i].left)
			continue;
		memcpy(p + n, l[i].line, l[i].n);
		n += l[i].n;
		p[n++] = '\n';
	}
	*out = (struct blob){p, n};
	return E_OK;
}

int round_shards(struct shard_line *line, int n, struct arena *a, struct blob **out)
{
	struct span span[SNAPSHOT_BLOBS];
	int cuts = 0, end = 0, made = 0, rc = E_OK;
	if (n)
		qsort(line, (size_t)n, sizeof *line, by_key);
	for (size_t limit = SHARD_BYTES; end < n && limit <= SNAPSHOT_BLOB; limit *= 2)
		cuts = cut(line, n, limit, span, SNAPSHOT_BLOBS, &end);
	*out = arena_try(a, (size_t)cuts + 1, sizeof **out);
	if (!*out)
		return E_NOMEM;
	for (int i = 0; i < cuts && rc >= 0; i++) {
		rc = join(line, span[i], a, &(*out)[made]);
		made += rc >= 0 && (*out)[made].n;
	}
	for (int i = end; i < n; i++)
		line[i].left = true;
	return rc < 0 ? rc : made;
}

/* The lines of a channel. */

struct lines {
	struct arena *a;
	struct shard_line *l;
	int n, room;
	char type[16], key[33];
};

static int on_line(void *ctx, const struct db_value *col, int n)
{
	struct lines *s = ctx;
	(void)n;
	if (s->n == s->room) {
		int room = s->room ? 2 * s->room : 256;
		struct shard_line *more = arena_try(s->a, (size_t)room, sizeof *more);
		if (!more)
			return E_NOMEM;
		if (s->n)
			memcpy(more, s->l, (size_t)s->n * sizeof *more);
		s->l = more;
		s->room = room;
	}
	snprintf(s->type, sizeof s->type, "%" PRId64, col[0].i);
	snprintf(s->key, sizeof s->key, "%s", col[1].p);
	struct shard_line *l = &s->l[s->n];
	*l = (struct shard_line){
	    .type = (enum cache_type)col[0].i, .line = arena_try(s->a, col[2].n + 1, 1), .n = col[2].n};
	if (!l->line)
		return E_NOMEM;
	memcpy((char *)l->line, col[2].p, col[2].n);
	s->n += key_parse(col[1].p, &l->key) >= 0 && l->n;
	return E_OK;
}

static int load_lines(struct class_snapshots *s, enum channel c, struct lines *out)
{
	int rc = PAGE;
	*out = (struct lines){.a = &s->a, .type = "0"};
	while (rc == PAGE)
		rc = db_exec(
		    s->r->c,
		    "SELECT type, key, line FROM shown WHERE class = $1 AND channel = $2 AND now = 1 AND "
		    "(type, key) > ($3, $4) ORDER BY type, key LIMIT $5",
		    DB_PARAMS(DB_T(s->cls), DB_I(c), DB_I(atoi(out->type)), DB_T(out->key), DB_I(PAGE)),
		    on_line, out);
	return rc;
}

static int on_board(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	snprintf(ctx, KEY_ID_HEX + 1, "%s", col[0].p);
	return E_OK;
}

/* Reports lines that do not fit although round_words found room for them, with a board that said one of
 * them. */
static int tell_left(struct class_snapshots *s, enum channel c, const struct lines *lines)
{
	char key[33], board[KEY_ID_HEX + 1] = "", why[160];
	int left = 0, first = 0;
	for (int i = lines->n - 1; i >= 0; i--)
		if (lines->l[i].left)
			left++, first = i;
	if (!left)
		return 0;
	key_text(lines->l[first].key, key);
	int rc = db_exec(
	    s->r->c,
	    "SELECT board FROM words WHERE class = $1 AND type = $2 AND key = $3 AND failed = 0 ORDER BY "
	    "board LIMIT 1",
	    DB_PARAMS(DB_T(s->cls), DB_I(lines->l[first].type), DB_T(key)), on_board, board);
	snprintf(why, sizeof why,
		 "class %s: blobs of channel %s have no room for %d record%s, the first of them %s", s->cls,
		 channel_names[c], left, plural_s(left), key);
	log_error("board %s: %s; they are left out", board, why);
	fleet_refused(s->r->f, COUNT_ROOM, NULL, board, why);
	return rc < 0 ? rc : left;
}

static int shown_blobs(struct class_snapshots *s, enum channel c)
{
	struct lines lines;
	struct channel_now *x = &s->channel[c];
	int rc = load_lines(s, c, &lines);
	if (rc >= 0)
		rc = round_shards(lines.l, lines.n, &s->a, &x->bytes);
	int n = rc, left = rc < 0 ? 0 : tell_left(s, c, &lines);
	if (rc < 0 || left < 0)
		return rc < 0 ? rc : left;
	x->s.blob = arena_try(&s->a, (size_t)n + 1, sizeof *x->s.blob);
	if (!x->s.blob)
		return E_NOMEM;
	x->records = lines.n - left;
	x->s.nblob = n;
	for (int i = 0; i < x->s.nblob; i++) {
		struct snapshot_blob *b = &x->s.blob[i];
		*b = (struct snapshot_blob){.kind = "records", .bytes = (int64_t)x->bytes[i].n};
		rc = crypto_sha256(x->bytes[i].p, x->bytes[i].n, &b->sha256);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Former snapshots. */

struct reading {
	struct arena *a;
	struct kept_snapshot *k;
	int *records;
};

static int on_kept(void *ctx, const struct db_value *col, int n)
{
	struct reading *g = ctx;
	(void)n;
	*g->k = (struct kept_snapshot){
	    .serial = col[0].i, .origin = col[1].i, .made_s = col[4].i, .expires_s = col[5].i};
	snprintf(g->k->content, HASH, "%s", col[2].p);
	snprintf(g->k->state, HASH, "%s", col[3].p);
	*g->records = (int)col[6].i;
	char *p = arena_try(g->a, col[7].n + 1, 1);
	if (!p)
		return E_NOMEM;
	memcpy(p, col[7].p, col[7].n);
	g->k->doc = (struct blob){p, col[7].n};
	return E_OK;
}

#define KEPT_COLUMNS "serial, origin, content, state, made_s, expires_s, records, doc"

static int read_last(struct class_snapshots *s, enum channel c)
{
	struct reading g = {&s->a, &s->channel[c].last, &s->channel[c].records};
	return db_exec(s->r->c,
		       "SELECT " KEPT_COLUMNS
		       " FROM snapshots WHERE class = $1 AND channel = $2 ORDER BY serial DESC "
		       "LIMIT 1",
		       DB_PARAMS(DB_T(s->cls), DB_I(c)), on_kept, &g);
}

/* Reads the snapshot of before the channel's last state; serial 0: there is none. */
static int read_before(struct class_snapshots *s, enum channel c, struct kept_snapshot *out)
{
	struct reading g = {&s->a, out, &s->channel[c].records};
	*out = (struct kept_snapshot){0};
	s->channel[c].records = 0;
	return db_exec(s->r->c,
		       "SELECT " KEPT_COLUMNS
		       " FROM snapshots WHERE class = $1 AND channel = $2 AND origin < $3 "
		       "ORDER BY origin DESC LIMIT 1",
		       DB_PARAMS(DB_T(s->cls), DB_I(c), DB_I(s->channel[c].last.origin)), on_kept, &g);
}

/* Reads the newest snapshot that was sent to the place; serial 0: there is none. */
static int read_placed(struct class_snapshots *s, enum channel c, struct kept_snapshot *out)
{
	struct reading g = {&s->a, out, &s->channel[c].records};
	*out = (struct kept_snapshot){0};
	s->channel[c].records = 0;
	return db_exec(
	    s->r->c,
	    "SELECT " KEPT_COLUMNS
	    " FROM snapshots WHERE class = $1 AND channel = $2 AND placed = 1 ORDER BY serial DESC "
	    "LIMIT 1",
	    DB_PARAMS(DB_T(s->cls), DB_I(c)), on_kept, &g);
}

static int old_blobs(struct class_snapshots *s, enum channel c, const struct kept_snapshot *k)
{
	struct signed_doc doc;
	struct snapshot old = {0};
	s->channel[c].origin = k->origin;
	if (!k->serial)
		return E_OK;
	int rc = signed_parse(k->doc.p, k->doc.n, "snapshot", &doc);
	if (rc >= 0)
		rc = snapshot_parse(doc.payload.p, doc.payload.n, &s->a, &old);
	s->channel[c].s.nblob = old.nblob;
	s->channel[c].s.blob = old.blob;
	return rc;
}

/* What all channels have in common. */

static int revoked_lists(struct class_snapshots *s, struct snapshot *out)
{
	const struct round *r = s->r;
	out->board = arena_try(&s->a, SNAPSHOT_REVOKED, sizeof *out->board);
	out->record = r->record;
	out->nrecord = r->nrecord < SNAPSHOT_REVOKED ? r->nrecord : SNAPSHOT_REVOKED;
	if (!out->board)
		return E_NOMEM;
	for (int i = 0; i < r->nboard && out->nboard < SNAPSHOT_REVOKED; i++)
		if (r->board[i].revoked)
			memcpy(out->board[out->nboard++], r->board[i].id, sizeof *out->board);
	return E_OK;
}

/* Divides the search as search/share.h says. A new division is a new search for every board, so the old
 * number of parts stays while it is more than half and less than twice the wanted one. */
static void share(const struct class_snapshots *s, int before, struct snapshot *out)
{
	int boards = 0;
	char text[64];
	for (int i = 0; i < s->r->nboard; i++)
		boards += !s->r->board[i].revoked && !strcmp(s->r->board[i].cls, s->cls);
	int want = share_parts(boards),
	    parts = before > 1 && before < 2 * want && want < 2 * before ? before : want;
	if (boards < s->r->f->c.parts_min || boards < 2)
		return;
	out->parts = parts;
	snprintf(text, sizeof text, "share %.32s %d", s->cls, parts);
	key_text(hash_text(text), out->salt);
}

/* Reads from the last snapshot its number of parts; returns whether it is signed by the present key. */
static bool look_back(struct class_snapshots *s, enum channel c, int *parts)
{
	struct signed_doc doc;
	struct snapshot old;
	const struct kept_snapshot *k = &s->channel[c].last;
	*parts = 0;
	if (!k->serial || signed_parse(k->doc.p, k->doc.n, "snapshot", &doc) < 0 ||
	    snapshot_parse(doc.payload.p, doc.payload.n, &s->a, &old) < 0)
		return false;
	*parts = old.parts;
	return doc.n > 0 && !strcmp(doc.by[0].id, s->r->signer);
}

/* Computes content (hash of all but serial and dates) and state (hash of the blobs). */
static int hash_snapshot(struct channel_now *x)
{
	struct buf b = {0};
	x->s.serial = 1;
	x->s.made_s = x->s.expires_s = 0;
	int rc = snapshot_print(&x->s, &b);
	if (rc >= 0)
		rc = crypto_sha256_hex(&b, x->content);
	buf_clear(&b);
	for (int i = 0; i < x->s.nblob; i++)
		buf_add(&b, x->s.blob[i].sha256.b, SHA256_BYTES);
	if (rc >= 0)
		rc = crypto_sha256_hex(&b, x->state);
	buf_free(&b);
	return rc;
}

static int blobs_of(struct class_snapshots *s, enum channel c)
{
	struct channel_now *x = &s->channel[c];
	struct kept_snapshot before = x->last;
	bool stays = c != CHANNEL_CANARY && s->r->stop;
	int rc = E_OK;
	if (!stays && s->how != SNAPSHOTS_KEPT)
		return shown_blobs(s, c);
	if (!stays)
		rc = read_placed(s, c, &before);
	else if (s->how == SNAPSHOTS_BACK && x->last.serial)
		rc = read_before(s, c, &before);
	return rc < 0 ? rc : old_blobs(s, c, &before);
}

static void note(struct class_snapshots *s, enum channel c, int rc)
{
	s->again = true;
	round_note(s->r, fail_in(rc, "class %s, channel %s", s->cls, channel_names[c]));
}

/* Chooses the records that go out with the revocations: the wanted ones, or if that fails those of the last
 * snapshot, or none. */
static void find_blobs(struct class_snapshots *s, enum channel c)
{
	struct channel_now *x = &s->channel[c];
	int rc = blobs_of(s, c);
	if (rc >= 0)
		return;
	note(s, c, rc);
	x->bytes = NULL;
	rc = old_blobs(s, c, &x->last);
	if (rc >= 0)
		return;
	note(s, c, rc);
	x->origin = NEW;
	x->records = x->s.nblob = 0;
}

static int sign(struct class_snapshots *s, struct channel_now *x)
{
	const struct private_key *key = s->r->f->key;
	struct buf payload = {0};
	int rc = snapshot_print(&x->s, &payload);
	if (rc >= 0)
		rc = signed_write("snapshot", payload.p, payload.n, &key, 1, &x->doc);
	buf_free(&payload);
	return rc < 0 ? rc : buf_ok(&x->doc) ? E_OK : fail(E_NOMEM, "no memory");
}

static int64_t renew_s(const struct round *r, int64_t expires_s)
{
	return expires_s - r->f->c.expire_s / 4;
}

/* Numbers, dates and signs the snapshot if it must be written. */
static int date_channel(struct class_snapshots *s, struct channel_now *x, bool ours)
{
	const struct round *r = s->r;
	x->expires_s = x->last.expires_s;
	x->write = !ours || strcmp(x->content, x->last.content) || r->now_s >= renew_s(r, x->expires_s);
	if (!x->write)
		return E_OK;
	x->serial = x->s.serial = x->last.serial < r->now_s ? r->now_s : x->last.serial + 1;
	x->s.made_s = r->now_s;
	x->expires_s = x->s.expires_s = r->now_s + r->f->c.expire_s;
	if (!strcmp(x->state, x->last.state))
		x->origin = x->last.origin;
	else if (x->origin == NEW)
		x->origin = x->serial;
	return sign(s, x);
}

/* Makes a channel's snapshot, if it is new or the last one expires soon. */
static int make_channel(struct class_snapshots *s, enum channel c)
{
	struct channel_now *x = &s->channel[c];
	int parts, rc = read_last(s, c);
	x->origin = NEW;
	x->s = (struct snapshot){.channel = c, .client = SNAPSHOT_CLIENT, .poll_s = s->r->f->c.poll_s};
	snprintf(x->s.cls, sizeof x->s.cls, "%s", s->cls);
	if (rc < 0)
		return rc;
	find_blobs(s, c);
	rc = revoked_lists(s, &x->s);
	bool ours = rc >= 0 && look_back(s, c, &parts);
	if (rc >= 0) {
		share(s, parts, &x->s);
		rc = hash_snapshot(x);
	}
	return rc < 0 ? rc : date_channel(s, x, ours);
}

/* Writes all of a class in one transaction. */

static int write_blob(struct db_conn *c, const struct snapshot_blob *b, const struct blob *bytes)
{
	char hex[HASH];
	hex_write(b->sha256.b, SHA256_BYTES, hex);
	int rc = db_exec(c, "UPDATE blobs SET left_s = 0 WHERE hash = $1", DB_PARAMS(DB_T(hex)), NULL, NULL);
	return rc ? rc
		  : db_exec(c, "INSERT INTO blobs (hash, sent, left_s, bytes) VALUES ($1, 0, 0, $2)",
			    DB_PARAMS(DB_T(hex), DB_B(bytes->p, bytes->n)), NULL, NULL);
}

/* Keeps only the newest snapshot of each state, and the last KEEP_STATES of them. States that were withdrawn
 * are deleted, so no withdrawal goes back to them. */
static int forget_states(struct class_snapshots *s, struct db_conn *c, const struct channel_now *x,
			 int channel)
{
	int rc = db_exec(
	    c, "DELETE FROM snapshots WHERE class = $1 AND channel = $2 AND serial < $3 AND origin >= $4",
	    DB_PARAMS(DB_T(s->cls), DB_I(channel), DB_I(x->serial), DB_I(x->origin)), NULL, NULL);
	return rc < 0 ? rc
		      : db_exec(c,
				"DELETE FROM snapshots WHERE class = $1 AND channel = $2 AND serial <= "
				"(SELECT serial "
				"FROM snapshots WHERE class = $1 AND channel = $2 ORDER BY serial DESC LIMIT "
				"1 OFFSET "
				"$3)",
				DB_PARAMS(DB_T(s->cls), DB_I(channel), DB_I(KEEP_STATES)), NULL, NULL);
}

static int write_channel(struct class_snapshots *s, struct db_conn *c, const struct channel_now *x,
			 int channel)
{
	int rc = E_OK;
	for (int i = 0; x->bytes && i < x->s.nblob && rc >= 0; i++)
		rc = write_blob(c, &x->s.blob[i], &x->bytes[i]);
	if (rc >= 0)
		rc = db_exec(
		    c,
		    "INSERT INTO snapshots (class, channel, serial, origin, content, state, made_s, "
		    "expires_s, records, sent, doc) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10)",
		    DB_PARAMS(DB_T(s->cls), DB_I(channel), DB_I(x->serial), DB_I(x->origin), DB_T(x->content),
			      DB_T(x->state), DB_I(x->s.made_s), DB_I(x->expires_s), DB_I(x->records),
			      DB_B(x->doc.p, x->doc.n)),
		    NULL, NULL);
	return rc < 0 ? rc : forget_states(s, c, x, channel);
}

static int on_due(void *ctx, const struct db_value *col, int n)
{
	int64_t *due_s = ctx;
	(void)n;
	if (col[0].type == DB_INT && col[0].i < *due_s)
		*due_s = col[0].i;
	return E_OK;
}

/* Finds the time when a stage ends or a snapshot must be renewed, so that the class changes without new
 * words. */
static int find_due(struct class_snapshots *s, struct db_conn *c, int64_t *due_s)
{
	int64_t stage_s = fleet_stage_s(&s->r->f->c);
	stage_s = stage_s ? stage_s : CANARY_S;
	*due_s = INT64_MAX;
	int rc = db_exec(c, "SELECT MIN(since_s) FROM shown WHERE class = $1 AND now = 1 AND since_s > $2",
			 DB_PARAMS(DB_T(s->cls), DB_I(s->r->now_s - stage_s)), on_due, due_s);
	*due_s = *due_s < INT64_MAX ? *due_s + stage_s : INT64_MAX;
	for (int i = 0; i < CHANNELS; i++) {
		int64_t end_s = renew_s(s->r, s->channel[i].expires_s);
		*due_s = end_s < *due_s ? end_s : *due_s;
	}
	return rc;
}

static int write_class(struct db_conn *c, void *ctx)
{
	struct class_snapshots *s = ctx;
	int64_t due_s;
	int rc = E_OK;
	bool said = true, again = s->again || s->how == SNAPSHOTS_AGAIN;
	for (int i = 0; i < CHANNELS && rc >= 0; i++) {
		said &= !s->channel[i].bad;
		if (s->channel[i].write)
			rc = write_channel(s, c, &s->channel[i], i);
	}
	if (rc >= 0 && said)
		rc = db_exec(c, "UPDATE classes SET revoked = $2 WHERE class = $1",
			     DB_PARAMS(DB_T(s->cls), DB_T(s->r->revoked)), NULL, NULL);
	if (rc < 0 || s->how == SNAPSHOTS_KEPT)
		return rc;
	rc = find_due(s, c, &due_s);
	return rc < 0 ? rc
		      : db_exec(c,
				"UPDATE classes SET dirty = $6, due_s = $2, rules = $3, withdrawn = CASE "
				"WHEN $4 = 1 "
				"THEN $5 ELSE withdrawn END WHERE class = $1",
				DB_PARAMS(DB_T(s->cls), DB_I(due_s), DB_T(s->r->rules),
					  DB_I(s->how == SNAPSHOTS_BACK), DB_T(s->r->withdraw), DB_I(again)),
				NULL, NULL);
}

int round_snapshots(struct round *r, const char *cls, enum snapshots_how how)
{
	struct class_snapshots s = {.r = r, .cls = cls, .how = how};
	for (int i = 0; i < CHANNELS; i++) {
		int rc = make_channel(&s, i);
		if (rc < 0) {
			note(&s, i, rc);
			s.channel[i].bad = true;
			s.channel[i].write = false;
		}
	}
	int rc = store_do(r->c, write_class, &s);
	for (int i = 0; i < CHANNELS; i++)
		buf_free(&s.channel[i].doc);
	arena_free(&s.a);
	return rc;
}
