/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache on a disk that damages data, refuses calls, or is full. */
#include "tests/lib/cache_dir.h"
#include "platform/base/mix.h"
#include "platform/base/rng.h"

static int check_damaged(const char *path, const char *bytes, size_t n, int nrecs)
{
	struct cache *c;
	write_bytes(path, bytes, n);
	CHECK_OK(cache_open(&c, dir, true, 0));
	int found = check_records(c, nrecs);
	cache_close(c);
	return found;
}

/* Damages every byte and tries every length, also under a reader that has the file open. */
TEST(damage_anywhere_is_a_miss)
{
	enum { N = 3 };
	struct cache *c, *meanwhile;
	struct arena a = {0};
	struct blob file;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	put_records(c, 0, N);
	cache_close(c);
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s", file_of(dir, 0));
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n);
	REQUIRE_OK(cache_open(&meanwhile, dir, true, 0));
	for (size_t at = 0; at < file.n && !test_bad; at++) {
		bytes[at] ^= (char)(1 << at % 8);
		CHECK(check_damaged(path, bytes, file.n, N) >= (at < SEG_HEAD ? 0 : N - 1));
		check_records(meanwhile, N);
		CHECK(cache_refresh(meanwhile) >= 0);
		check_records(meanwhile, N);
		bytes[at] ^= (char)(1 << at % 8);
		check_damaged(path, bytes, at, N);
		check_records(meanwhile, N);
	}
	CHECK(check_damaged(path, bytes, file.n, N) == N);
	CHECK(cache_refresh(meanwhile) >= 0);
	CHECK(check_records(meanwhile, N) == N);
	cache_close(meanwhile);
	arena_free(&a);
	remove_dir();
}

static int64_t damaged_bytes(int nrecs, int *found, int *code)
{
	struct cache *c;
	struct cache_state st;
	CHECK_OK(cache_open(&c, dir, true, 0));
	cache_state(c, &st);
	*found = check_records(c, nrecs);
	*code = st.count[CACHE_CODE];
	cache_close(c);
	return st.damaged_bytes;
}

/* Bytes flipped anywhere behind a file's head: the next writer removes what is damaged, and nothing else. */
TEST(a_writer_removes_damage)
{
	enum { N = 12 };
	struct rng rng;
	int lost = 0;
	rng_seed(&rng, 17);
	for (int round = 0; round < 30; round++) {
		struct cache *c;
		struct arena a = {0};
		struct blob file;
		char path[PATH_MAX];
		int found, code, found_then, code_then;
		REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
		for (int i = 0; i < N; i++) {
			put_records(c, i, i + 1);
			CHECK_OK(cache_put(c, CACHE_CODE, (struct key){1, (uint64_t)i}, dir, 10 + 3 * (size_t)i));
			CHECK_OK(cache_commit(c));
		}
		cache_close(c);
		snprintf(path, sizeof path, "%s", file_of(dir, rng_below(&rng, (uint32_t)files_of(dir))));
		REQUIRE_OK(file_read(&a, path, 0, &file));
		char *bytes = arena_memdup(&a, file.p, file.n);
		size_t at = SEG_HEAD + rng_below(&rng, (uint32_t)file.n / 2 - SEG_HEAD);
		for (size_t n = 1 + rng_below(&rng, 300); n-- > 0 && at < file.n; at++)
			bytes[at] ^= 0x5a;
		write_bytes(path, bytes, file.n);
		CHECK(damaged_bytes(N, &found, &code) > 0);
		lost += found + code < 2 * N;
		REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
		cache_close(c);
		CHECK(damaged_bytes(N, &found_then, &code_then) == 0);
		CHECK(found_then == found && code_then == code);
		arena_free(&a);
		remove_dir();
	}
	CHECK(lost > 15); /* else it was a batch mark */
}

/* Damage in the first record leaves the others readable, and a writer continues beside a torn tail. */
TEST(a_writer_goes_on_after_damage)
{
	struct cache *c;
	struct arena a = {0};
	struct blob file;
	struct rec r, got;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	for (int i = 0; i < 3; i++) {
		r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
		REQUIRE_OK(cache_commit(c));
	}
	cache_close(c);
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s", file_of(dir, 0));
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n), *last = NULL;
	for (char *p = bytes; (p = memmem(p, file.n - (size_t)(p - bytes), "HREC", 4)); p++)
		last = p; /* a mark */
	bytes[SEG_HEAD + 40] ^= 1;
	memset(last - 90, 0x5a, 200); /* the mark and the end of the last record */
	write_bytes(path, bytes, file.n);
	REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	CHECK(check_records(c, 3) == 1);
	r = sample(2);
	CHECK_OK(cache_put_rec(c, &r));
	CHECK_OK(cache_commit(c));
	CHECK(files_of(dir) == 2);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, 3) == 2);
	CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Bytes of a record that lie in another place, inside a payload or left over from another file, do not
 * count. */
TEST(misplaced_records_do_not_count)
{
	struct cache *c;
	struct arena a = {0};
	struct blob file, got;
	struct rec r = sample(0), inner = sample(1);
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	REQUIRE_OK(cache_put_rec(c, &inner));
	cache_close(c);
	REQUIRE_OK(file_read(&a, file_of(dir, 0), 0, &file));
	remove_dir();
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	REQUIRE_OK(cache_put(c, CACHE_HISTORY, r.task, (const char *)file.p + SEG_HEAD, 1000));
	cache_close(c);
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s", file_of(dir, 0));
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n);
	bytes[SEG_HEAD + 5] ^= 1; /* the length of the outer record */
	check_damaged(path, bytes, file.n, 0);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(cache_get(c, CACHE_REC, rec_key(&inner), &a, &got) == E_NOTFOUND);
	CHECK(cache_get(c, CACHE_HISTORY, r.task, &a, &got) == E_NOTFOUND);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Bytes that this process has read; -1: the system does not report it. */
static long long bytes_read(void)
{
	long long n = -1;
	FILE *f = fopen("/proc/self/io", "r");
	if (f && fscanf(f, "rchar: %lld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

/* Many heads behind one another each claim the rest of the file: opening reads it a few times, not once per
 * head, and the records behind them are found. */
TEST(a_crafted_file_costs_no_more_than_its_size)
{
	enum { HEADS = (1 << 20) / REC_HEAD, RECORDS = 10, BYTES = 2 << 20 };
	struct cache *c;
	struct rec r;
	struct blob file;
	struct arena a = {0};
	struct buf heads = {0};
	if (bytes_read() < 0)
		SKIP("no /proc/self/io");
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0,
				   &(struct cache_options){.segment_bytes = BYTES}));
	char *much = arena_alloc(&a, HEADS * REC_HEAD);
	REQUIRE_OK(cache_put(c, CACHE_HISTORY, hash_text("x"), much, HEADS * REC_HEAD));
	for (int i = 0; i < RECORDS; i++) {
		r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	REQUIRE_OK(file_read(&a, file_of(dir, 0), 0, &file));
	for (int i = 0; i < HEADS; i++) {
		buf_puts(&heads, "HREC");
		buf_u32(&heads, (uint32_t)(BYTES - SEG_HEAD - (i + 2) * REC_HEAD));
		buf_u32(&heads, CACHE_REC);
		buf_u64(&heads, 1);
		buf_u64(&heads, (uint64_t)i);
	}
	int fd = open(file_of(dir, 0), O_WRONLY);
	REQUIRE(buf_ok(&heads) && pwrite(fd, heads.p, heads.n, SEG_HEAD) == (ssize_t)heads.n);
	close(fd);
	long long before = bytes_read();
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(bytes_read() - before < 48 << 20);
	CHECK(check_records(c, RECORDS) == RECORDS);
	cache_close(c);
	buf_free(&heads);
	arena_free(&a);
	remove_dir();
}

/* A disk that refuses its k-th call, and for a while all that follow. */
static struct {
	int calls, at, count, error;
} faulty;

static int refuse(void)
{
	int i = faulty.calls++;
	return i >= faulty.at && i < faulty.at + faulty.count ? -faulty.error : 0;
}

static int bad_create(const char *path, unsigned mode)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.create(path, mode);
}

/* Writes only half of the bytes. */
static int bad_write(int fd, const void *p, size_t n, int64_t at)
{
	int rc = refuse(), some = disk_system.write(fd, p, rc < 0 ? n / 2 : n, at);
	return rc < 0 ? rc : some;
}

static int bad_sync(int fd)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.sync(fd);
}

static int bad_rename(const char *from, const char *to)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.rename(from, to);
}

static int bad_unlink(const char *path)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.unlink(path);
}

static int bad_sync_dir(const char *path)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.sync_dir(path);
}

static int64_t good_read(int fd, void *p, size_t n, int64_t at)
{
	return disk_system.read(fd, p, n, at);
}

static int64_t bad_read(int fd, void *p, size_t n, int64_t at)
{
	int rc = refuse();
	return rc < 0 ? rc : disk_system.read(fd, p, n, at);
}

static const struct disk bad_disk = {
    bad_create, bad_write, good_read, bad_sync, bad_rename, bad_unlink, bad_sync_dir,
};

/* Puts records and code, with commits and a compaction: while calls fail all can be read, and after that all
 * is durable. Returns whether the fault was met. */
static bool run_faulty(const struct disk *bad, int at, int count, int error)
{
	enum { N = 20 };
	struct cache *c;
	struct blob b;
	struct arena a = {0};
	int said = 0;
	CHECK_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	faulty.calls = 0, faulty.at = at, faulty.count = count, faulty.error = error;
	disk = bad;
	for (int i = 0; i < N && !test_bad; i++) {
		struct rec r = sample(i);
		CHECK_OK(cache_put(c, CACHE_CODE, r.task, "code", 4));
		CHECK_OK(cache_put_rec(c, &r));
		int rc = i % 5 == 4 ? cache_commit(c) : i == 17 ? cache_compact(c) : E_OK;
		said += rc == E_IO && strstr(err_text(), strerror(error));
		CHECK(rc == E_OK || (rc == E_IO && strstr(err_text(), dir)));
		CHECK(i % 5 != 4 || bad->read == bad_read || check_records(c, N) == i + 1);
	}
	disk = &disk_system;
	CHECK_OK(cache_commit(c));
	cache_close(c);
	CHECK_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, N) == N);
	struct rec last = sample(N - 1);
	CHECK_OK(cache_get(c, CACHE_CODE, last.task, &a, &b));
	cache_close(c);
	arena_free(&a);
	remove_dir();
	CHECK(count == 1 || said || bad->read == bad_read || faulty.calls <= at);
	return faulty.calls > at;
}

TEST(every_call_may_fail)
{
	static const int error[] = {EIO, ENOSPC, EROFS};
	for (int e = 0; e < 3; e++)
		for (int count = 1; count < 100; count += 98)
			for (int at = 0; run_faulty(&bad_disk, at, count, error[e]) && !test_bad; at++)
				;
}

/* Records that cannot be read for a while are misses then; they are not taken for absent, and no copy leaves
 * them out. */
TEST(every_read_may_fail)
{
	struct disk bad = disk_system;
	bad.read = bad_read;
	for (int count = 1; count < 100; count += 98)
		for (int at = 0; run_faulty(&bad, at, count, EIO) && !test_bad; at++)
			;
}

/* The system refuses to read a file for a while: its records are not taken for dead. */
static int64_t no_read(int fd, void *p, size_t n, int64_t at)
{
	return at >= SEG_HEAD ? -EIO : disk_system.read(fd, p, n, at);
}

TEST(unreadable_files_are_not_thrown_away)
{
	struct disk blind = disk_system;
	struct cache *c;
	make(fresh_dir(), 40);
	blind.read = no_read;
	disk = &blind;
	int rc = cache_open(&c, dir, false, 0);
	disk = &disk_system;
	REQUIRE_OK(rc);
	CHECK(check_records(c, 40) == 0);
	CHECK_FAILS(cache_compact(c), E_IO, "in full");
	struct rec r = sample(40);
	CHECK_OK(cache_put_rec(c, &r));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, 41) == 41);
	cache_close(c);
	remove_dir();
}

/* One bad sector hides the records in it, and no others. */
static int bad_sector(int fd, void *p, size_t n, int64_t at, int64_t sector)
{
	return at < sector + 512 && at + (int64_t)n > sector ? -EIO : (int)disk_system.read(fd, p, n, at);
}

static int64_t read_around(int fd, void *p, size_t n, int64_t at)
{
	return bad_sector(fd, p, n, at, 8192);
}

TEST(a_bad_sector)
{
	enum { N = 60 };
	struct disk bad = disk_system;
	struct cache *c;
	make(fresh_dir(), N);
	bad.read = read_around;
	disk = &bad;
	int rc = cache_open(&c, dir, false, 0);
	int found = rc < 0 ? 0 : check_records(c, N);
	struct rec r = sample(N);
	if (rc >= 0) {
		CHECK_OK(cache_put_rec(c, &r));
		cache_close(c);
	}
	disk = &disk_system;
	REQUIRE_OK(rc);
	CHECK(found > N - 14 && found < N);
	CHECK(files_of(dir) == 2);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, N + 1) == N + 1);
	cache_close(c);
	remove_dir();
}

/* A process that opens the cache while files are removed finds an older record or its successor. */
static int look_before_unlink(const char *path)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	if (cache_open(&c, dir, true, 0) < 0)
		return -EIO;
	CHECK_OK(cache_get(c, CACHE_HISTORY, hash_text("often"), &a, &b));
	cache_close(c);
	arena_free(&a);
	faulty.calls++;
	return disk_system.unlink(path);
}

TEST(a_record_is_found_while_files_are_removed)
{
	static char filler[3000];
	const struct cache_options o = {.cap_bytes = 256 << 10, .segment_bytes = 16 << 10, .seeds = ""};
	struct disk looking = disk_system;
	struct cache *c;
	struct cache_state st;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	looking.unlink = look_before_unlink;
	faulty.calls = 0;
	disk = &looking;
	for (int i = 0; i < 300 && !test_bad; i++) {
		const int key = i % 20;
		CHECK_OK(cache_put(c, CACHE_HISTORY, hash_text("often"), &i, sizeof i));
		memset(filler, i, sizeof filler);
		CHECK_OK(cache_put(c, CACHE_HISTORY, mix_bytes(&key, sizeof key, 1), filler, sizeof filler));
		CHECK_OK(cache_commit(c));
		cache_state(c, &st);
		CHECK(st.waiting_bytes == 0 && st.file_bytes <= o.cap_bytes);
	}
	disk = &disk_system;
	cache_close(c);
	CHECK(faulty.calls > 10);
	remove_dir();
}

/* The copy of a compaction gets its name, and then the disk refuses: later commits count, even if the copy is
 * there after a power cut. */
static int cut_unlink(const char *path)
{
	return strstr(path, ".seg") ? -EIO : disk_system.unlink(path);
}

static int failing_sync_dir(const char *path)
{
	(void)path;
	return -EIO;
}

TEST(a_compaction_that_fails_at_its_end_loses_nothing_later)
{
	struct disk bad = disk_system;
	struct cache *c;
	struct rec r;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	for (int i = 0; i < 20; i++) {
		r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
		if (i != 10)
			continue;
		CHECK_OK(cache_commit(c));
		bad.sync_dir = failing_sync_dir;
		bad.unlink = cut_unlink;
		disk = &bad;
		CHECK_FAILS(cache_compact(c), E_IO, "");
		disk = &disk_system;
	}
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	CHECK(check_records(c, 20) == 20);
	cache_close(c);
	remove_dir();
}

/* A writer was killed between its write and its sync: the next one reports the records as durable only after
 * a sync. */
static int syncs;

static int counting_sync(int fd)
{
	syncs++;
	return disk_system.sync(fd);
}

TEST(leftovers_of_a_killed_writer_are_synced)
{
	struct disk counting = disk_system;
	struct cache *c;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	struct rec r = sample(0);
	CHECK_OK(cache_put_rec(c, &r));
	cache_close(c);
	counting.sync = counting_sync;
	disk = &counting;
	syncs = 0;
	REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	CHECK(syncs == 1);
	cache_close(c);
	disk = &disk_system;
	remove_dir();
}

/* Links to nothing, and numbers that leave no room, hide no existing record. */
TEST(files_that_are_none_of_ours)
{
	struct cache *c;
	char path[128];
	for (int i = 0; i < 3; i++) {
		REQUIRE_OK(cache_open_with(&c, i ? dir : fresh_dir(), CACHE_WRITE, 0, &small));
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
		cache_close(c);
		snprintf(path, sizeof path, "%s/%s", dir, i ? "fffffffe.seg" : "00000000.seg");
		CHECK(symlink("nowhere", path) == 0 || i > 1);
	}
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	CHECK(check_records(c, 3) == 3);
	cache_close(c);
	remove_dir();
}

TEST_MAIN
