/* SPDX-License-Identifier: Apache-2.0 */
/* Enrolled boards send much, or records that are hard to divide: the records that honest boards agree on are
 * published nevertheless, and revocations first of all. */
#include "tests/lib/fleet_world.h"
#include "platform/base/mix.h"
#include "platform/base/rng.h"
#include "tests/lib/postgres.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

enum { HONEST = 3, ATTACKER = 5, OTHER = 7, BIG = 30000 };

/* Files are put into the place by rename(2); if no_blobs is set, it fails for blobs. */
static bool no_blobs;

int rename(const char *from_path, const char *to)
{
	if (no_blobs && strstr(to, "/blob/")) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_renameat2, AT_FDCWD, from_path, AT_FDCWD, to, 0);
}

static void honest(struct world *w, int from_task, int to_task, int cand)
{
	for (int b = 0; b < HONEST; b++) {
		for (int i = from_task; i < to_task; i++)
			say(w, i, cand, (MS + b * MS / 50) >> cand);
		from(w, b);
	}
}

/* Sends the lines that were said in batches as long as allowed. Returns the number of accepted batches. */
static int from_all(struct world *w, int board)
{
	int batches = 0;
	for (int i = 0, n; i < w->nline; i += n) {
		size_t bytes = 512;
		for (n = 0; i + n < w->nline && n < BATCH_RECORDS; n++) {
			bytes += strlen(w->line[i + n]) + 1;
			if (bytes > BATCH_BYTES)
				break;
		}
		int status = world_post(w, board, w->cls, w->line + i, n);
		CHECK(status == 202 || status == 400);
		batches += status == 202;
	}
	w->nline = 0;
	arena_reset(&w->a);
	return batches;
}

static bool revoked_everywhere(struct world *w, int boards)
{
	bool good = true;
	for (int c = 0; c < CHANNELS; c++) {
		struct world_view *v = view(w, c);
		good &= v->there && v->s.nboard == boards;
		view_free(v);
	}
	return good;
}

static int rows(struct world *w, const char *sql)
{
	return store_exec(world_conn(w), sql, NULL, 0, NULL, NULL);
}

/* Six batches once stopped a class: all keys had the same upper half, and their blob was too long. */
TEST(keys_that_begin_alike_freeze_no_class)
{
	struct world *w = world_new();
	honest(w, 0, 10, 1);
	round_good(w);
	for (int i = 0; i < 8 * 32; i++)
		w->line[w->nline++] =
		    record_big_choices(&w->a, (struct key){7, (uint64_t)i}, w->class_key, i, BIG);
	int batches = from_all(w, ATTACKER);
	honest(w, 10, 20, 1);
	honest(w, 0, 1, 2);
	CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
	world_now_s += 60;
	round_good(w);
	CHECK(on(w, 0, 2, 2, 2) && on(w, 9, 1, 1, 1) && on(w, 19, 1, 1, 1) && revoked_everywhere(w, 1));
	printf("%d batches of choices taken\n", batches);
	world_free(w);
}

/* A key must be that of the content, whatever a board says. */
TEST(keys_that_a_board_chose_are_refused)
{
	struct world *w = world_new();
	const struct rec r = world_rec(w, 0, 1, MS);
	struct buf text = {0};
	struct key k;
	rec_text(&r, &text);
	const char *choices = record_choices(&w->a, hash_text("net"), w->class_key, "hone-choices 1\n", &k);
	const char *const line[] = {
	    record_as_line(&w->a, CACHE_CHOICES, hash_text("net"), choices),
	    record_as_line(&w->a, CACHE_CHOICES, (struct key){k.hi, k.lo ^ 1}, choices),
	    record_as_line(&w->a, CACHE_REC, (struct key){7, 7}, buf_str(&text))};
	const char *const good[] = {record_as_line(&w->a, CACHE_CHOICES, k, choices), record_line(&w->a, &r)};
	for (size_t i = 0; i < sizeof line / sizeof *line; i++)
		CHECK(world_post(w, ATTACKER, w->cls, &line[i], 1) == 400);
	/* Older boards sent choices that do not name their target: the batch is taken, the line ignored. */
	const char *former = record_as_line(&w->a, CACHE_CHOICES, k, "hone-choices 1\n");
	CHECK(world_post(w, ATTACKER, w->cls, &former, 1) == 202);
	CHECK(world_post(w, ATTACKER, w->cls, good, 2) == 202);
	struct key other = hash_text("another class");
	const char *foreign = record_choices_line(&w->a, hash_text("net"), other, "hone-choices 1\n");
	CHECK(world_post(w, ATTACKER, w->cls, &foreign, 1) == 400);
	round_good(w);
	CHECK(rows(w, "SELECT key FROM words") == 2);
	buf_free(&text);
	world_free(w);
}

/* Records of one board alone have LONE_BYTES of a channel; those left out are counted, with the board's
 * name. */
static void one_board_alone(void)
{
	enum { MANY = 128 };
	struct world *w = world_new();
	struct buf why = {0};
	char name[64];
	honest(w, 0, 10, 1);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "model %d", i);
		w->line[w->nline++] = record_big_choices(&w->a, hash_text(name), w->class_key, i, BIG);
	}
	CHECK(from_all(w, ATTACKER) == 4);
	round_good(w);
	struct world_view *v = view(w, CHANNEL_CANARY);
	int64_t bytes = 0;
	for (int i = 0; i < v->s.nblob; i++)
		bytes += v->s.blob[i].bytes;
	CHECK(v->nrec == 10 && bytes > LONE_BYTES / 2 && bytes <= LONE_BYTES + 10 * 2000);
	view_free(v);
	buf_printf(&why, "SELECT n FROM left_out WHERE board = '%s' AND n > 40 AND n < %d", w->id[ATTACKER],
		   MANY);
	CHECK(rows(w, buf_str(&why)) == 1 && rows(w, "SELECT n FROM left_out") == 1);
	CHECK_OK(fleet_flush(w->f));
	buf_clear(&why);
	buf_printf(&why, "SELECT why FROM rejects WHERE what = 'room' AND who = '%s'", w->id[ATTACKER]);
	CHECK(rows(w, buf_str(&why)) == 1);
	for (int i = 0; i < 3; i++) { /* the operator is told once */
		honest(w, 10 + i, 11 + i, 1);
		world_now_s += 60;
		round_good(w);
	}
	CHECK_OK(fleet_flush(w->f));
	CHECK(rows(w, buf_str(&why)) == 1 && on(w, 12, 1, 1, 1));
	CHECK_OK(store_revoke(world_conn(w), w->id[ATTACKER], "nonsense", world_now_s));
	round_good(w);
	CHECK(rows(w, "SELECT n FROM left_out") == 0 && on(w, 12, 1, 1, 1));
	v = view(w, CHANNEL_CANARY);
	bytes = 0;
	for (int i = 0; i < v->s.nblob; i++)
		bytes += v->s.blob[i].bytes;
	CHECK(bytes < 13 * 2000);
	view_free(v);
	buf_free(&why);
	world_free(w);
}

TEST(one_board_alone_fills_no_channel)
{
	struct db_conn *c;
	one_board_alone();
	world_db = postgres_url();
	if (!world_db)
		SKIP(NO_POSTGRES);
	REQUIRE_OK(db_open(world_db, &c));
	CHECK_OK(db_exec(c, "DROP SCHEMA public CASCADE", NULL, 0, NULL, NULL));
	CHECK_OK(db_exec(c, "CREATE SCHEMA public", NULL, 0, NULL, NULL));
	db_close(c);
	one_board_alone();
	world_db = NULL;
}

/* Boards lie in pairs: records that more boards agree on keep their place. */
TEST(pairs_of_boards_fill_no_channel_for_others)
{
	enum { MANY = 9 * 34, PAIRS = 2 };
	struct world *w = world_new();
	char name[64];
	for (int p = 0; p < PAIRS; p++)
		for (int b = 0; b < 2; b++) {
			for (int i = 0; i < MANY; i++) {
				snprintf(name, sizeof name, "model %d of %d", i, p);
				w->line[w->nline++] =
				    record_big_choices(&w->a, hash_text(name), w->class_key, i, BIG);
			}
			CHECK(from_all(w, ATTACKER + 2 * p + b) >= 9);
		}
	honest(w, 0, 300, 1);
	round_good(w);
	struct world_view *v = view(w, CHANNEL_EARLY);
	int64_t bytes = 0;
	for (int i = 0; i < v->s.nblob; i++)
		bytes += v->s.blob[i].bytes;
	CHECK(v->nrec == 300 && bytes <= CHANNEL_BYTES && bytes > CHANNEL_BYTES / 2);
	view_free(v);
	CHECK(rows(w, "SELECT board FROM left_out") >= 1 && on(w, 299, 1, 1, 1));
	world_free(w);
}

/* Shards. */

static struct key key_that_begins(struct rng *r, struct key k, int bits)
{
	uint64_t hi = rng_u64(r), lo = rng_u64(r);
	uint64_t top = bits >= 64 ? ~UINT64_C(0) : bits ? ~UINT64_C(0) << (64 - bits) : 0;
	uint64_t low = bits >= 128 ? ~UINT64_C(0) : bits > 64 ? ~UINT64_C(0) << (128 - bits) : 0;
	return (struct key){(k.hi & top) | (hi & ~top), (k.lo & low) | (lo & ~low)};
}

static bool shards_good(struct shard_line *l, int n, struct arena *a, int *left)
{
	struct blob *out;
	size_t total = 0, want = 0;
	int made = round_shards(l, n, a, &out);
	bool good = made >= 0 && made <= SNAPSHOT_BLOBS;
	for (int i = 0; i < made; i++) {
		good &= out[i].n > 0 && out[i].n <= SNAPSHOT_BLOB;
		total += out[i].n;
	}
	*left = 0;
	for (int i = 0; i < n; i++) {
		want += l[i].left ? 0 : l[i].n + 1;
		*left += l[i].left;
	}
	return good && total == want;
}

/* An attacker chose the keys: many lines begin with the same bits. */
TEST(no_keys_make_shards_fail)
{
	enum { N = 600, LINE = 32 << 10 };
	struct shard_line *l = calloc(N, sizeof *l);
	struct arena a = {0};
	struct rng r;
	char *text = malloc(LINE);
	int left, some = 0, turns = 0;
	memset(text, 'x', LINE);
	rng_seed(&r, 3);
	for (int bits = 0; bits <= 128; bits++)
		for (int share = 1; share <= 4; share++, turns++) {
			struct key k = {rng_u64(&r), rng_u64(&r)};
			for (int i = 0; i < N; i++) {
				bool chosen = rng_below(&r, 4) < (uint32_t)share;
				l[i] = (struct shard_line){.key = key_that_begins(&r, k, chosen ? bits : 0),
							   .type = i & 1 ? CACHE_REC : CACHE_CHOICES,
							   .line = text,
							   .n = 1 + rng_below(&r, chosen ? LINE - 1 : 1000)};
			}
			CHECK(shards_good(l, N, &a, &left));
			CHECK(left == 0 || bits > 100);
			some += left > 0;
			arena_reset(&a);
		}
	CHECK(some > 0); /* only lines of one key cannot be divided */
	printf("%d sets of keys, %d with lines left out\n", turns, some);
	arena_free(&a);
	free(text);
	free(l);
}

/* A few lines that each nearly fill a blob, among many short ones. */
TEST(long_lines_among_short_ones)
{
	enum { N = 1500, LINE = 3 << 20 };
	struct shard_line *l = calloc(N, sizeof *l);
	struct arena a = {0};
	char *text = calloc(1, LINE);
	int left;
	memset(text, 'x', LINE);
	for (int i = 0; i < N; i++)
		l[i] = (struct shard_line){
		    .key = mix_bytes(&i, sizeof i, 0), .line = text, .n = i % 2 ? 10 : 4 << 10};
	for (int i = 0; i < 8; i++)
		l[i].n = i == 7 ? LINE : 3 << 19;
	CHECK(shards_good(l, N, &a, &left) && left == 0);
	arena_free(&a);
	free(text);
	free(l);
}

/* Steps that fail. */

static const struct db *real_db;
static const char *fails; /* statements that contain this text fail */
static int64_t fails_of;  /* only if the second parameter is this; < 0: any */
static void (*sees)(struct db_conn *c);

static int exec_or_fail(struct db_conn *c, const char *sql, const struct db_value *param, int n,
			db_row_fn *fn, void *ctx)
{
	bool meant = fails && strstr(sql, fails) && (fails_of < 0 || (n > 1 && param[1].i == fails_of));
	if (meant && sees) {
		sees(c);
		sees = NULL;
	}
	return meant ? fail(E_CORRUPT, "told to fail") : real_db->exec(c, sql, param, n, fn, ctx);
}

static int round_failing(struct world *w, const char *statement, int64_t of)
{
	struct db spied = *world_conn(w)->db;
	real_db = world_conn(w)->db;
	spied.exec = exec_or_fail;
	fails = statement, fails_of = of;
	world_conn(w)->db = &spied;
	int rc = fleet_round(w->f);
	world_conn(w)->db = real_db;
	fails = NULL;
	return rc;
}

#define SHOWN "FROM shown WHERE class = $1 AND channel = $2 AND now = 1 AND (type"

TEST(channels_fail_apart)
{
	for (int c = 0; c < CHANNELS; c++) {
		struct world *w = world_new();
		int want[CHANNELS] = {2, 2, 2};
		honest(w, 0, 2, 1);
		round_good(w);
		honest(w, 0, 1, 2);
		CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
		world_now_s += 60;
		CHECK_FAILS(round_failing(w, SHOWN, c), E_CORRUPT, channel_names[c]);
		want[c] = 1;
		CHECK(on(w, 0, want[0], want[1], want[2]) && on(w, 1, 1, 1, 1) && revoked_everywhere(w, 1));
		world_now_s += 60;
		round_good(w); /* with no new batch */
		CHECK(on(w, 0, 2, 2, 2) && on(w, 1, 1, 1, 1) && revoked_everywhere(w, 1));
		world_free(w);
	}
}

/* Whichever step of a round fails, boards learn afterwards what was revoked. */
TEST(revocations_go_out_whatever_fails)
{
	static const char *const statements[] = {
	    SHOWN,
	    "FROM batches WHERE taken = 0",
	    "FROM words WHERE class = $1 AND (type",
	    "FROM shown WHERE class = $1",
	    "INSERT INTO shown",
	    "SELECT board, line FROM words",
	    "FROM left_out",
	    "INSERT INTO blobs",
	    "FROM classes ORDER BY class",
	    "UPDATE classes SET dirty",
	};
	for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
		struct world *w = world_new();
		honest(w, 0, 2, 1);
		round_good(w);
		honest(w, 0, 1, 2);
		honest(w, 2, 3, 1);
		CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
		world_now_s += 60;
		int rc = round_failing(w, statements[i], -1);
		if (rc != E_CORRUPT || !revoked_everywhere(w, 1)) {
			printf("%s: %d %s\n", statements[i], rc, err_text());
			test_bad = 1;
		}
		round_good(w);
		CHECK(on(w, 0, 2, 2, 2) && on(w, 2, 1, 1, 1) && revoked_everywhere(w, 1));
		world_free(w);
	}
}

TEST(revocations_need_no_new_blob)
{
	struct world *w = world_new();
	honest(w, 0, 2, 1);
	round_good(w);
	honest(w, 0, 1, 2);
	world_now_s += 60;
	no_blobs = true;
	CHECK(fleet_round(w->f) == E_IO);
	CHECK(on(w, 0, 1, 1, 1));
	CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
	honest(w, 2, 3, 1);
	world_now_s += 60;
	CHECK(fleet_round(w->f) == E_IO);
	CHECK(on(w, 0, 1, 1, 1) && on(w, 2, -1, -1, -1) && revoked_everywhere(w, 1));
	CHECK_OK(store_revoke(world_conn(w), w->id[OTHER + 1], "stolen", world_now_s));
	world_now_s += SWEEP_S; /* when blobs are offered again */
	CHECK(fleet_round(w->f) == E_IO);
	CHECK(on(w, 0, 1, 1, 1) && on(w, 2, -1, -1, -1) && revoked_everywhere(w, 2));
	no_blobs = false;
	round_good(w);
	CHECK(on(w, 0, 2, 2, 2) && on(w, 2, 1, 1, 1) && revoked_everywhere(w, 2));
	world_free(w);
}

/* A revocation does not bring withdrawn records back. */
TEST(a_revocation_takes_no_withdrawal_back)
{
	struct world *w = world_new();
	for (int cand = 1; cand <= 2; cand++, world_now_s += 60) {
		honest(w, 0, 1, cand);
		round_good(w);
	}
	CHECK_OK(rollout_withdraw(world_conn(w), NULL));
	no_blobs = true;
	round_good(w);
	CHECK(on(w, 0, 2, 1, 1));
	CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
	world_now_s += 60;
	round_good(w);
	no_blobs = false;
	CHECK(on(w, 0, 2, 1, 1) && revoked_everywhere(w, 1));
	world_now_s += 60;
	round_good(w);
	CHECK(on(w, 0, 2, 1, 1));
	world_free(w);
}

static struct world *seen_world;
static bool seen_revoked;

static void see_place(struct db_conn *c)
{
	(void)c;
	seen_revoked = revoked_everywhere(seen_world, 1);
}

/* Revocations go out before batches are read. */
TEST(revocations_come_first)
{
	struct world *w = world_new();
	honest(w, 0, 2, 1);
	round_good(w);
	honest(w, 2, 3, 1);
	CHECK_OK(store_revoke(world_conn(w), w->id[OTHER], "stolen", world_now_s));
	seen_world = w;
	sees = see_place;
	world_now_s += 60;
	CHECK(round_failing(w, "FROM batches WHERE taken = 0", -1) == E_CORRUPT && seen_revoked);
	world_free(w);
}

TEST_MAIN
