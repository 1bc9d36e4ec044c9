/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet in a folder: keys, boards that send signed batches, rounds, and the published files as boards see
 * them. */
#ifndef TESTS_FLEET_WORLD_H
#define TESTS_FLEET_WORLD_H

#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tests/lib/cands.h"
#include "tests/lib/records.h"
#include "tests/lib/test.h"
#include "tools/fleet/fleet.h"
#include "tools/fleet/fleet_round.h"
#include "tools/fleet/publish.h"
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORLD_BOARDS = 12, MS = 1000000 };
#define WORLD_START INT64_C(1700000000)

static int64_t world_now_s;

static const char *world_db; /* URL of an empty database; NULL: a file */

static inline int64_t world_date(void)
{
	return world_now_s;
}

struct world {
	char dir[64], cls[33], db[128], keys[128], publish[128];
	struct key class_key;
	struct fleet_conf conf;
	struct fleet *f; /* NULL: closed */
	struct public_key fleet_key;
	struct private_key *board[WORLD_BOARDS];
	char id[WORLD_BOARDS][KEY_ID_HEX + 1];
	struct arena a;    /* holds the lines */
	const char **line; /* waiting to be sent */
	int nline;
};

static inline void world_key(const char *path, struct private_key **out)
{
	CHECK_OK(private_key_make(out));
	CHECK_OK(private_key_write(*out, path));
}

static inline void world_keys(struct world *w)
{
	char path[256];
	struct private_key *ca, *key;
	struct buf pem = {0};
	CHECK_OK(file_mkdirs(w->keys, 0700));
	snprintf(path, sizeof path, "%s/ca.key", w->keys);
	world_key(path, &ca);
	snprintf(path, sizeof path, "%s/fleet.key", w->keys);
	world_key(path, &key);
	private_key_public(key, &w->fleet_key);
	CHECK_OK(cert_write_ca(ca, "fleet", &pem));
	snprintf(path, sizeof path, "%s/ca.pem", w->keys);
	CHECK_OK(file_write(path, pem.p, pem.n));
	buf_free(&pem);
	private_key_free(ca);
	private_key_free(key);
}

static inline void world_open(struct world *w)
{
	if (fleet_open(&w->conf, &clock_real, world_date, &w->f) < 0) {
		printf("fleet_open: %s\n", err_text());
		abort();
	}
}

static inline void world_close(struct world *w)
{
	fleet_close(w->f);
	w->f = NULL;
}

static inline struct db_conn *world_conn(struct world *w)
{
	return fleet_conn(w->f);
}

static inline void world_enrol(struct world *w)
{
	char token[TOKEN_TEXT], id[65];
	CHECK_OK(store_token_make(world_conn(w), "", world_now_s, world_now_s + 1000, WORLD_BOARDS, token));
	CHECK_OK(store_token_id(token, id));
	for (int i = 0; i < WORLD_BOARDS; i++) {
		struct store_board b = {.enrolled_s = world_now_s};
		CHECK_OK(private_key_make(&w->board[i]));
		private_key_public(w->board[i], &b.key);
		public_key_id(&b.key, b.id);
		memcpy(w->id[i], b.id, sizeof b.id);
		CHECK_OK(store_enrol(world_conn(w), id, &b));
	}
}

static inline struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof *w);
	log_level_set(LOG_QUIET);
	world_now_s = WORLD_START;
	snprintf(w->dir, sizeof w->dir, "%s/hone-round-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(w->dir) || crypto_start() < 0)
		abort();
	snprintf(w->db, sizeof w->db, "%s/fleet.db", w->dir);
	snprintf(w->keys, sizeof w->keys, "%s/keys", w->dir);
	snprintf(w->publish, sizeof w->publish, "%s/pub", w->dir);
	w->class_key = hash_text("board");
	key_text(w->class_key, w->cls);
	w->line = calloc(65536, sizeof *w->line);
	w->conf = (struct fleet_conf){.db = world_db ? world_db : w->db,
				      .keys = w->keys,
				      .publish = w->publish,
				      .threads = 1,
				      .quorum = {1, 2, 3},
				      .tolerance_pct = 15,
				      .poll_s = 21600,
				      .expire_s = 90 * 86400,
				      .board_day = 1000000,
				      .board_bytes = INT64_C(1) << 40,
				      .all_bytes = INT64_C(1) << 40,
				      .parts_min = 4};
	world_keys(w);
	world_open(w);
	world_enrol(w);
	return w;
}

static inline void world_free(struct world *w)
{
	char cmd[128];
	world_close(w);
	for (int i = 0; i < WORLD_BOARDS; i++)
		private_key_free(w->board[i]);
	snprintf(cmd, sizeof cmd, "rm -rf %s", w->dir);
	CHECK(system(cmd) == 0);
	arena_free(&w->a);
	free(w->line);
	free(w);
}

/* A record of task i with candidate number `cand`. */
static inline struct rec world_rec(struct world *w, int i, int cand, int64_t ns)
{
	struct rec r = record(&w->a, i, w->class_key, ns);
	cand_of(r.task_text, cand, r.cand);
	return r;
}

static inline void world_say(struct world *w, const struct rec *r)
{
	w->line[w->nline++] = record_line(&w->a, r);
}

static inline void say(struct world *w, int i, int cand, int64_t ns)
{
	struct rec r = world_rec(w, i, cand, ns);
	world_say(w, &r);
}

/* Adds a report about a hint. */
static inline void say_hint(struct world *w, int i, int cand, enum meas_status status, int64_t ns)
{
	struct rec r = world_rec(w, i, cand, ns);
	r.kind = REC_HINT;
	r.meas.status = status;
	world_say(w, &r);
}

static inline int world_post(struct world *w, int board, const char *cls, const char *const *line, int n)
{
	struct buf payload = {0}, doc = {0};
	const struct private_key *key = w->board[board];
	struct fleet_reply r;
	CHECK_OK(batch_print(cls, w->id[board], "a board", line, n, &payload));
	CHECK_OK(signed_write("records", payload.p, payload.n, &key, 1, &doc));
	struct fleet_request q = {
	    .method = "POST", .path = "/v1/records", .query = "", .body = doc.p, .n = doc.n};
	fleet_answer(w->f, 0, &q, &r);
	int status = r.status;
	if (status != 202)
		printf("board %d: %d %s\n", board, status, buf_str(&r.body));
	fleet_reply_free(&r);
	buf_free(&payload);
	buf_free(&doc);
	return status;
}

/* Sends the waiting lines as a board's batches. */
static inline void from(struct world *w, int board)
{
	for (int i = 0; i < w->nline; i += BATCH_RECORDS) {
		int n = w->nline - i < BATCH_RECORDS ? w->nline - i : BATCH_RECORDS;
		CHECK(world_post(w, board, w->cls, w->line + i, n) == 202);
	}
	w->nline = 0;
}

static inline void round_good(struct world *w)
{
	int rc = fleet_round(w->f);
	CHECK_OK(rc);
	CHECK(rc == 1);
}

/* The published snapshot and records of a channel. */
struct world_view {
	struct arena a;
	bool there;
	struct snapshot s;
	struct stat st;
	int nrec;
	struct rec *rec;
};

static inline void view_blob(struct world *w, const struct snapshot_blob *b, struct world_view *v)
{
	char path[256], hex[65];
	struct blob bytes;
	struct sha256 h;
	hex_write(b->sha256.b, 32, hex);
	snprintf(path, sizeof path, "%s/blob/%s", w->publish, hex);
	REQUIRE_OK(file_read(&v->a, path, SNAPSHOT_BLOB, &bytes));
	CHECK_OK(crypto_sha256(bytes.p, bytes.n, &h));
	CHECK((int64_t)bytes.n == b->bytes && !memcmp(&h, &b->sha256, sizeof h) && bytes.n > 0);
	const char *p = bytes.p, *end = p + bytes.n;
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		struct exchange_line l;
		REQUIRE(stop != NULL);
		REQUIRE_OK(exchange_parse(p, (size_t)(stop - p), &v->a, &l));
		if (l.type == CACHE_REC)
			CHECK_OK(rec_parse(l.text, &v->a, &v->rec[v->nrec++]));
		p = stop + 1;
	}
}

static inline struct world_view *view(struct world *w, enum channel c)
{
	struct world_view *v = calloc(1, sizeof *v);
	char path[256];
	struct blob doc;
	struct signed_doc d;
	snprintf(path, sizeof path, "%s/%s/%s/snapshot", w->publish, w->cls, channel_names[c]);
	if (stat(path, &v->st) < 0)
		return v;
	v->there = true;
	v->rec = ARENA_ARRAY(&v->a, struct rec, 65536);
	CHECK_OK(file_read(&v->a, path, SNAPSHOT_BYTES, &doc));
	CHECK_OK(signed_parse(doc.p, doc.n, "snapshot", &d));
	CHECK_OK(signed_check(&d, &w->fleet_key, 1, 1, NULL));
	CHECK_OK(snapshot_parse(d.payload.p, d.payload.n, &v->a, &v->s));
	CHECK(v->s.channel == c && !strcmp(v->s.cls, w->cls));
	for (int i = 0; i < v->s.nblob; i++)
		view_blob(w, &v->s.blob[i], v);
	return v;
}

static inline void view_free(struct world_view *v)
{
	arena_free(&v->a);
	free(v);
}

static inline const struct rec *view_rec(struct world *w, const struct world_view *v, int i)
{
	struct key task = hash_text(record_task(&w->a, i));
	for (int j = 0; j < v->nrec; j++)
		if (key_equal(v->rec[j].task, task))
			return &v->rec[j];
	return NULL;
}

/* The number of task i's candidate in a view; -1: none. */
static inline int view_cand(struct world *w, const struct world_view *v, int i)
{
	int cand = -1;
	const struct rec *r = view_rec(w, v, i);
	if (r)
		sscanf(r->cand, "par=1 outer=m | block=m:%d", &cand);
	return cand > 0 ? cand - 1 : -1; /* cand_of adds 1 */
}

/* Returns whether task i has these candidates on canary, early and all; -1: none. */
static inline bool on(struct world *w, int i, int canary, int early, int all)
{
	int want[CHANNELS] = {canary, early, all};
	bool good = true;
	for (int c = 0; c < CHANNELS; c++) {
		struct world_view *v = view(w, c);
		int got = view_cand(w, v, i);
		if (got != want[c])
			printf("task %d on %s: %d, wanted %d\n", i, channel_names[c], got, want[c]);
		good &= got == want[c];
		view_free(v);
	}
	return good;
}

static inline int64_t serial(struct world *w, enum channel c)
{
	struct world_view *v = view(w, c);
	int64_t n = v->s.serial;
	view_free(v);
	return n;
}

#endif
