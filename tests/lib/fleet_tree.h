/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet's published files in a folder, signed by keys of its own, and a board with a cache that reads them.
 */
#ifndef TESTS_FLEET_TREE_H
#define TESTS_FLEET_TREE_H

#include "agent/cache/exchange.h"
#include "agent/cache/hint.h"
#include "agent/sync/sync.h"
#include "agent/sync/sync_cache.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "platform/machine/target.h"
#include "search/job.h"
#include "tests/lib/cands.h"
#include "tests/lib/fleet_web.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <glob.h>
#include <unistd.h>

enum { TREE_ROOTS = 3, TREE_BLOBS = 8 };
#define TREE_MADE_S INT64_C(1800000000)
#define TREE_LIFE_S (90 * INT64_C(86400))

struct tree {
	char dir[64], www[80], image[80], state[80], cache[80];
	char cls[33];
	struct target target;
	struct private_key *root[TREE_ROOTS], *fleet, *stranger;
	struct root doc; /* newest root document */
	struct snapshot s;
	struct snapshot_blob blob[TREE_BLOBS];
	struct sync_conf conf;
	struct sync_now now;
};

static inline const char *tree_path(const struct tree *t, const char *name)
{
	static char path[8][256];
	static int turn;
	turn = (turn + 1) % 8;
	snprintf(path[turn], sizeof *path, "%s/%s", t->dir, name);
	return path[turn];
}

static inline void tree_write(const struct tree *t, const char *name, const void *p, size_t n)
{
	char dir[256];
	snprintf(dir, sizeof dir, "%s", tree_path(t, name));
	*strrchr(dir, '/') = 0;
	CHECK_OK(file_mkdirs(dir, 0700));
	CHECK_OK(file_write(tree_path(t, name), p, n));
}

/* Signs the root document with n root keys from `first` on. */
static inline void tree_sign_root(struct tree *t, int first, int n, struct buf *out)
{
	const struct private_key *key[TREE_ROOTS];
	struct buf payload = {0};
	for (int i = 0; i < n; i++)
		key[i] = t->root[(first + i) % TREE_ROOTS];
	root_print(&t->doc, &payload);
	CHECK_OK(signed_write("root", payload.p, payload.n, key, n, out));
	buf_free(&payload);
}

static inline void tree_write_root(struct tree *t)
{
	struct buf doc = {0};
	char name[64];
	tree_sign_root(t, 0, 2, &doc);
	snprintf(name, sizeof name, "www/root/%d", (int)t->doc.version);
	tree_write(t, name, doc.p, doc.n);
	buf_free(&doc);
}

/* Makes a root document that trusts this fleet key. */
static inline void tree_make_root(struct tree *t, int64_t version, const struct private_key *fleet)
{
	t->doc = (struct root){.version = version};
	t->doc.role[ROLE_ROOT].threshold = 2;
	for (int i = 0; i < TREE_ROOTS; i++)
		private_key_public(t->root[i], &t->doc.role[ROLE_ROOT].key[i]);
	t->doc.role[ROLE_ROOT].n = TREE_ROOTS;
	t->doc.role[ROLE_FLEET].threshold = t->doc.role[ROLE_FLEET].n = 1;
	private_key_public(fleet, &t->doc.role[ROLE_FLEET].key[0]);
}

static inline void tree_sign(const struct snapshot *s, const struct private_key *key, struct buf *out)
{
	struct buf payload = {0};
	CHECK_OK(snapshot_print(s, &payload));
	CHECK_OK(signed_write("snapshot", payload.p, payload.n, &key, 1, out));
	buf_free(&payload);
}

static inline const char *tree_snapshot_name(const struct tree *t)
{
	static char name[96];
	snprintf(name, sizeof name, "www/%s/all/snapshot", t->cls);
	return name;
}

static inline void tree_publish(struct tree *t)
{
	struct buf doc = {0};
	tree_sign(&t->s, t->fleet, &doc);
	tree_write(t, tree_snapshot_name(t), doc.p, doc.n);
	buf_free(&doc);
}

static inline const char *tree_blob_name(const struct snapshot_blob *b)
{
	static char name[96];
	char hex[65];
	hex_write(b->sha256.b, SHA256_BYTES, hex);
	snprintf(name, sizeof name, "www/blob/%s", hex);
	return name;
}

/* Adds a blob to the snapshot. */
static inline struct snapshot_blob *tree_add_blob(struct tree *t, const char *lines)
{
	struct snapshot_blob *b = &t->blob[t->s.nblob++];
	*b = (struct snapshot_blob){.kind = "records", .bytes = (int64_t)strlen(lines)};
	CHECK_OK(crypto_sha256(lines, strlen(lines), &b->sha256));
	tree_write(t, tree_blob_name(b), lines, strlen(lines));
	return b;
}

/* A stranger's i-th record, as blobs have it. */
static inline struct rec tree_rec(const struct tree *t, int i)
{
	static char text[8][512];
	char *task = text[i & 7];
	snprintf(task, sizeof *text,
		 "task syms=0\n"
		 "operand X in f32 [1,%d,7,7] 0.1/4.2.3.1\n"
		 "operand W const f32 [24,%d] plain\n"
		 "operand Y out f32 [1,24,7,7] 0.1/4.2.3.1\n"
		 "stage n:1 k:24 y:7 x:7 | c:%d\n"
		 "read X [n,c,y,x]\n"
		 "read W [k,c]\n"
		 "body r0 r1 mul\n"
		 "sum\n"
		 "post acc 0 max\n"
		 "write Y [n,k,y,x]\n",
		 4 * (i + 1), 4 * (i + 1), 4 * (i + 1));
	struct rec r = {.task = hash_text(task),
			.kind = REC_BEST,
			.target_key = target_key(&t->target),
			.device = "cpu",
			.threads = 1,
			.emitter = "llvm-19.1.7/1",
			.meas = {.status = MEAS_OK, .runs = 5, .min_ns = 1000 + i, .median_ns = 1100 + i},
			.task_text = task,
			.label = "conv"};
	cand_of(task, i, r.cand);
	target_label(&t->target, r.target);
	return r;
}

static inline void tree_line(const struct rec *r, struct buf *out)
{
	struct buf text = {0};
	rec_text(r, &text);
	json_t *j = exchange_record(CACHE_REC, rec_key(r), buf_str(&text));
	char *line = json_dumps(j, JSON_COMPACT);
	buf_printf(out, "%s\n", line);
	free(line);
	json_decref(j);
	buf_free(&text);
}

/* Adds records i to j - 1 as a blob. */
static inline struct snapshot_blob *tree_add_records(struct tree *t, int i, int j)
{
	struct buf lines = {0};
	for (; i < j; i++) {
		struct rec r = tree_rec(t, i);
		tree_line(&r, &lines);
	}
	struct snapshot_blob *b = tree_add_blob(t, buf_str(&lines));
	buf_free(&lines);
	return b;
}

/* Makes a fleet with root 1 and a snapshot of serial 5 with three records, and a board that has never
 * synced. */
static inline void tree_open(struct tree *t)
{
	*t = (struct tree){0};
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	CHECK_OK(crypto_start());
	snprintf(t->dir, sizeof t->dir, "%s/hone-sync-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(t->dir) || target_host(&t->target) < 0)
		abort();
	snprintf(t->www, sizeof t->www, "%s/www", t->dir);
	snprintf(t->image, sizeof t->image, "%s/root.signed", t->dir);
	snprintf(t->state, sizeof t->state, "%s/state", t->dir);
	snprintf(t->cache, sizeof t->cache, "%s/cache", t->dir);
	key_text(target_key(&t->target), t->cls);
	for (int i = 0; i < TREE_ROOTS; i++)
		CHECK_OK(private_key_make(&t->root[i]));
	CHECK_OK(private_key_make(&t->fleet));
	CHECK_OK(private_key_make(&t->stranger));
	tree_make_root(t, 1, t->fleet);
	struct buf doc = {0};
	tree_sign_root(t, 0, 2, &doc);
	tree_write(t, "root.signed", doc.p, doc.n);
	buf_free(&doc);
	tree_write_root(t);
	t->s = (struct snapshot){.channel = CHANNEL_ALL,
				 .serial = 5,
				 .made_s = TREE_MADE_S,
				 .expires_s = TREE_MADE_S + TREE_LIFE_S,
				 .client = SNAPSHOT_CLIENT,
				 .poll_s = 3600,
				 .blob = t->blob};
	snprintf(t->s.cls, sizeof t->s.cls, "%s", t->cls);
	tree_add_records(t, 0, 3);
	tree_publish(t);
	t->conf = (struct sync_conf){.server = t->www,
				     .root = t->image,
				     .state = t->state,
				     .channel = CHANNEL_ALL,
				     .has_channel = true,
				     .every_ns = 3600 * NS_PER_S,
				     .run_ns = 20 * NS_PER_S};
	t->now = (struct sync_now){.clock = &clock_real, .date_s = TREE_MADE_S + 100, .boot = "boot 1"};
}

static inline void tree_close(struct tree *t)
{
	char cmd[96];
	for (int i = 0; i < TREE_ROOTS; i++)
		private_key_free(t->root[i]);
	private_key_free(t->fleet);
	private_key_free(t->stranger);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", t->dir);
	CHECK(system(cmd) == 0);
}

/* Runs one sync of the board. */
static inline int tree_sync(struct tree *t, struct sync_sum *sum)
{
	struct sync_cache to;
	const struct sync_cache_options o = {
	    .dir = t->cache, .state = t->state, .server = "fleet", .clock = &clock_real};
	int rc = sync_cache_open(&o, &to);
	if (rc < 0)
		return rc;
	rc = sync_run(&t->conf, &to, &t->now, sum);
	sync_cache_close(&to);
	return rc;
}

/* How many of records i to j - 1 the board's cache has as hints; it must have none of them as its own. */
static inline int tree_has(const struct tree *t, int i, int j)
{
	struct cache *c;
	struct arena a = {0};
	int n = 0;
	CHECK_OK(cache_open(&c, t->cache, true, 0));
	for (; i < j; i++) {
		struct rec r = tree_rec(t, i), got;
		CHECK(cache_get_rec(c, rec_key(&r), &a, &got) == E_NOTFOUND);
		n += hint_get(c, &r, &a, &got) >= 0;
	}
	cache_close(c);
	arena_free(&a);
	return n;
}

/* Hash of all bytes of the cache and of the board's sync state (trust, key, what it has taken). */
static inline struct key tree_hash(const struct tree *t)
{
	struct key k = {0};
	static const char *const of[] = {"cache/*.seg", "state/trust", "state/taken", "state/key.pem",
					 "state/cert.pem"};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		glob_t g;
		if (glob(tree_path(t, of[i]), 0, NULL, &g) == 0)
			for (size_t n = 0; n < g.gl_pathc; n++) {
				struct arena a = {0};
				struct blob b;
				CHECK_OK(file_read(&a, g.gl_pathv[n], 0, &b));
				k = hash_join(k, hash_join(hash_text(g.gl_pathv[n]), mix_bytes(b.p, b.n, 0)));
				arena_free(&a);
			}
		globfree(&g);
	}
	return k;
}

#endif
