/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache.h"
#include "agent/segment.h"
#include "platform/disk.h"
#include "platform/log.h"
#include "search/job.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static ino_t synced; /* the last folder that was */

/* In place of the C library's. */
int fsync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		synced = st.st_ino;
	return (int)syscall(SYS_fsync, fd);
}

static char dir[64];

static const char *fresh_dir(void)
{
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	/* Thousands of syncs: in memory where that can be had. */
	snprintf(dir, sizeof dir, "%s/hone-cache-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	return dir;
}

static void remove_dir(void)
{
	char cmd[128];
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	CHECK(system(cmd) == 0);
}

/* The i-th file of the cache, by name. */
static const char *file_of(const char *folder, size_t i)
{
	static char path[PATH_MAX];
	char pattern[PATH_MAX];
	glob_t g;
	snprintf(pattern, sizeof pattern, "%s/*.seg", folder);
	path[0] = 0;
	if (glob(pattern, 0, NULL, &g) == 0) {
		if (i < g.gl_pathc)
			snprintf(path, sizeof path, "%s", g.gl_pathv[i]);
		globfree(&g);
	}
	return path;
}

static int files_of(const char *folder)
{
	int n = 0;
	while (*file_of(folder, (size_t)n))
		n++;
	return n;
}

static const struct cache_options small = {.segment_bytes = 4096};

static struct rec sample(int i)
{
	struct rec r = {
	    .task = hash_bytes(&i, sizeof i, 0),
	    .kind = REC_BEST,
	    .target_key = hash_text("board"),
	    .threads = 2,
	    .exact = true,
	    .meas = {
		.status = MEAS_OK, .runs = 5, .min_ns = 1000 + i, .median_ns = 1100, .max_rel_err = 1.5e-7}};
	snprintf(r.target, sizeof r.target, "soc x86-64-v3 8");
	snprintf(r.device, sizeof r.device, "cpu");
	snprintf(r.emitter, sizeof r.emitter, "llvm-19.1.7/1");
	snprintf(r.cand, sizeof r.cand, "lane=k:16 tile=x:%d | y=8", i);
	r.task_text = "axes n:1\\\n k:2\n";
	r.label = "conv 3x3";
	return r;
}

static bool same_rec(const struct rec *a, const struct rec *b)
{
	struct buf x = {0}, y = {0};
	rec_text(a, &x);
	rec_text(b, &y);
	bool same = !strcmp(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	return same;
}

TEST(text_round_trip)
{
	struct arena a = {0};
	struct rec r = sample(3), back;
	struct buf text = {0};
	rec_text(&r, &text);
	REQUIRE_OK(rec_parse(buf_str(&text), &a, &back));
	CHECK(same_rec(&r, &back));
	CHECK(!strcmp(back.task_text, r.task_text));
	CHECK(key_equal(rec_key(&r), rec_key(&back)));
	CHECK(back.meas.max_rel_err == r.meas.max_rel_err);
	CHECK_FAILS(rec_parse("", &a, &back), E_CORRUPT, "not a record");
	buf_puts(&text, "more\n");
	CHECK_FAILS(rec_parse(buf_str(&text), &a, &back), E_CORRUPT, "more lines");
	/* Cut anywhere it is an error, and never a crash. */
	for (size_t n = 0; n + 6 < text.n; n++) {
		char *cut = arena_strndup(&a, text.p, n);
		CHECK(rec_parse(cut, &a, &back) == E_CORRUPT);
	}
	buf_free(&text);
	arena_free(&a);
}

TEST(keys_differ)
{
	struct rec r = sample(1), q = r;
	q.threads = 1;
	CHECK(!key_equal(rec_key(&r), rec_key(&q)));
	q = r;
	q.kind = REC_DEFAULT;
	CHECK(!key_equal(rec_key(&r), rec_key(&q)));
	q = r;
	q.meas.min_ns++; /* not part of the key */
	snprintf(q.emitter, sizeof q.emitter, "other/1");
	CHECK(key_equal(rec_key(&r), rec_key(&q)));
	CHECK(!key_equal(code_key(&r), code_key(&q)));
	q = r;
	snprintf(q.cand, sizeof q.cand, "another schedule");
	CHECK(key_equal(rec_key(&r), rec_key(&q)));
	CHECK(!key_equal(code_key(&r), code_key(&q)));
}

static int count_rec(void *ctx, const struct rec *r)
{
	(void)r;
	++*(int *)ctx;
	return 0;
}

TEST(put_get_reopen)
{
	struct arena a = {0};
	struct cache *c, *reader;
	struct rec got;
	REQUIRE_OK(cache_open(&reader, fresh_dir(), true, 0));
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	for (int i = 0; i < 1000; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	struct rec newer = sample(7);
	newer.meas.min_ns = 1;
	REQUIRE_OK(cache_put_rec(c, &newer));
	REQUIRE_OK(cache_put(c, CACHE_CODE, newer.task, "code", 4));
	CHECK_FAILS(cache_get_rec(reader, rec_key(&newer), &a, &got), E_NOTFOUND, "not in");
	uint64_t before = cache_generation(c);
	CHECK_OK(cache_commit(c));
	CHECK(cache_generation(c) == before + 2); /* the code's batch, and the records' */
	CHECK(cache_refresh(reader) > 0);
	CHECK(cache_generation(reader) == cache_generation(c));
	CHECK(cache_refresh(reader) == 0);
	REQUIRE_OK(cache_get_rec(reader, rec_key(&newer), &a, &got));
	CHECK(got.meas.min_ns == 1);
	cache_close(c);
	cache_close(reader);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	struct blob code;
	REQUIRE_OK(cache_get(c, CACHE_CODE, newer.task, &a, &code));
	CHECK(code.n == 4 && !memcmp(code.p, "code", 4));
	int n = 0;
	CHECK(cache_each_rec(c, &a, count_rec, &n) == 1000 && n == 1000);
	uint8_t type = CACHE_REC;
	struct key k = rec_key(&newer);
	REQUIRE_OK(cache_put(c, CACHE_FORGET, k, &type, 1));
	CHECK(cache_get_rec(c, k, &a, &got) == E_NOTFOUND);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(cache_get_rec(c, k, &a, &got) == E_NOTFOUND);
	CHECK_FAILS(cache_put_rec(c, &newer), E_USAGE, "for reading");
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Every record is right or a miss. Returns how many are there. */
static int check_records(struct cache *c, int nrecs)
{
	struct arena a = {0};
	int found = 0;
	for (int i = 0; i < nrecs; i++) {
		struct rec want = sample(i), got;
		int rc = cache_get_rec(c, rec_key(&want), &a, &got);
		CHECK(rc == E_NOTFOUND || (rc == E_OK && same_rec(&want, &got)));
		found += rc == E_OK;
	}
	arena_free(&a);
	return found;
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	CHECK(pwrite(fd, bytes, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0);
	close(fd);
}

static int check_damaged(const char *path, const char *bytes, size_t n, int nrecs)
{
	struct cache *c;
	write_bytes(path, bytes, n);
	CHECK_OK(cache_open(&c, dir, true, 0));
	int found = check_records(c, nrecs);
	cache_close(c);
	return found;
}

/* Every byte, and every length, also under a reader that has the file open. */
TEST(damage_anywhere_is_a_miss)
{
	enum { N = 3 };
	struct cache *c, *meanwhile;
	struct arena a = {0};
	struct blob file;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
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

/* Damage in the first record leaves the others readable, and a writer goes on beside a torn tail. */
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
		last = p; /* a mark: */
	bytes[SEG_HEAD + 40] ^= 1;
	memset(last - 90, 0x5a, 200); /* it and the end of the last record */
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

/* Bytes that are a record in another place are none here: inside a payload, or left over from another file.
 */
TEST(what_looks_like_a_record_is_none)
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
	bytes[SEG_HEAD + 5] ^= 1; /* the length of the outer one */
	check_damaged(path, bytes, file.n, 0);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(cache_get(c, CACHE_REC, rec_key(&inner), &a, &got) == E_NOTFOUND);
	CHECK(cache_get(c, CACHE_HISTORY, r.task, &a, &got) == E_NOTFOUND);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

TEST(two_writers)
{
	struct cache *c, *second;
	char pid[32];
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	snprintf(pid, sizeof pid, "process %ld;", (long)getpid());
	CHECK_FAILS(cache_open(&second, dir, false, 0), E_BUSY, pid);
	CHECK_FAILS(cache_open(&second, dir, false, 20000000), E_BUSY, "--cache");
	CHECK_OK(cache_open(&second, dir, true, 0));
	cache_close(second);
	cache_close(c);
	CHECK_OK(cache_open(&c, dir, false, 0));
	cache_close(c);
	remove_dir();
}

TEST(full_disk_loses_nothing)
{
	enum { N = 200 };
	struct cache *c;
	struct rlimit old, tight;
	int refused = 0;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	tight = (struct rlimit){.rlim_cur = 3000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &tight);
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		int rc = cache_put_rec(c, &r);
		refused += rc < 0;
		CHECK(rc == E_OK || rc == E_IO);
	}
	CHECK(refused == N / 64); /* and not at every put: each try costs flash */
	CHECK_FAILS(cache_commit(c), E_IO, "--cache");
	CHECK(check_records(c, N) == N);
	CHECK(files_of(dir) == 0);
	setrlimit(RLIMIT_FSIZE, &old); /* room again: the next commit writes what was kept */
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, N) == N);
	cache_close(c);
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

/* Half of it gets there. */
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

static const struct disk bad_disk = {
    bad_create, bad_write, good_read, bad_sync, bad_rename, bad_unlink, bad_sync_dir,
};

/* Records and code, a commit now and then, a compaction: whatever fails, all can be read meanwhile, and after
 * the trouble all is durable. Returns whether the fault was met. */
static bool run_faulty(int at, int count, int error)
{
	enum { N = 20 };
	struct cache *c;
	struct blob b;
	struct arena a = {0};
	int said = 0;
	CHECK_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	faulty.calls = 0, faulty.at = at, faulty.count = count, faulty.error = error;
	disk = &bad_disk;
	for (int i = 0; i < N && !test_bad; i++) {
		struct rec r = sample(i);
		CHECK_OK(cache_put(c, CACHE_CODE, r.task, "code", 4));
		CHECK_OK(cache_put_rec(c, &r));
		int rc = i % 5 == 4 ? cache_commit(c) : i == 17 ? cache_compact(c) : E_OK;
		said += rc == E_IO && strstr(err_text(), strerror(error));
		CHECK(rc == E_OK || (rc == E_IO && strstr(err_text(), dir)));
		CHECK(i % 5 != 4 || check_records(c, N) == i + 1);
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
	CHECK(count == 1 || said || faulty.calls <= at);
	return faulty.calls > at;
}

TEST(every_call_may_fail)
{
	static const int error[] = {EIO, ENOSPC, EROFS};
	for (int e = 0; e < 3; e++)
		for (int count = 1; count < 100; count += 98)
			for (int at = 0; run_faulty(at, count, error[e]) && !test_bad; at++)
				;
}

/* The system refuses to read a file for a while: what is in it is not taken for dead. */
static int64_t no_read(int fd, void *p, size_t n, int64_t at)
{
	return at >= SEG_HEAD ? -EIO : disk_system.read(fd, p, n, at);
}

TEST(what_cannot_be_read_is_not_thrown_away)
{
	struct disk blind = disk_system;
	struct cache *c;
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < 40; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
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

TEST(unwritable_folder)
{
	struct arena a = {0};
	struct cache *c;
	struct rec r = sample(0), got;
	char path[96];
	fresh_dir();
	snprintf(path, sizeof path, "%s/file", dir);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	close(fd);
	snprintf(path, sizeof path, "%s/file/cache", dir); /* not a folder: also root cannot write there */
	CHECK_FAILS(cache_open(&c, path, false, 0), E_IO, path);
	REQUIRE_OK(cache_open_memory(&c, path));
	CHECK_OK(cache_put_rec(c, &r));
	CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
	CHECK(same_rec(&r, &got));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Records are data and are read from anywhere; code only from where nobody else can write. */
TEST(code_that_others_could_write_is_a_miss)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	struct key k = hash_text("kernel");
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	REQUIRE_OK(cache_put(c, CACHE_CODE, k, "code", 4));
	REQUIRE_OK(cache_put(c, CACHE_CHOICES, k, "data", 4));
	cache_close(c);
	for (int open_folder = 0; open_folder < 2; open_folder++) {
		const char *path = open_folder ? dir : file_of(dir, 0); /* code was written first */
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		CHECK_OK(cache_get(c, CACHE_CODE, k, &a, &b));
		cache_close(c);
		REQUIRE(chmod(path, open_folder ? 0777 : 0666) == 0);
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		CHECK(cache_get(c, CACHE_CODE, k, &a, &b) == E_NOTFOUND);
		CHECK_OK(cache_get(c, CACHE_CHOICES, k, &a, &b));
		cache_close(c);
		REQUIRE(chmod(path, open_folder ? 0700 : 0600) == 0);
	}
	arena_free(&a);
	remove_dir();
}

/* Who may list the folder may read what is in it, whatever the umask. */
TEST(modes_follow_the_folder)
{
	static const unsigned modes[][2] = {{0750, 0640}, {0700, 0600}, {0755, 0644}};
	for (int i = 0; i < 3; i++) {
		struct cache *c;
		struct stat st;
		REQUIRE(chmod(fresh_dir(), modes[i][0]) == 0);
		mode_t mask = umask(077);
		REQUIRE_OK(cache_open(&c, dir, false, 0));
		REQUIRE_OK(cache_put(c, CACHE_CODE, hash_text("k"), "code", 4));
		cache_close(c);
		umask(mask);
		REQUIRE(stat(file_of(dir, 0), &st) == 0);
		CHECK((st.st_mode & 0777) == modes[i][1]);
		remove_dir();
	}
}

/* The file shrinks under a cache in memory, or grows: what was put stays, and comes first. */
TEST(memory_outlives_the_file)
{
	struct arena a = {0};
	struct cache *c, *writer;
	struct rec old = sample(0), mine = sample(1), got;
	struct blob b;
	REQUIRE_OK(cache_open(&writer, fresh_dir(), false, 0));
	REQUIRE_OK(cache_put_rec(writer, &old));
	cache_close(writer);
	REQUIRE(chmod(dir, 0777) == 0);
	REQUIRE_OK(cache_open_memory(&c, dir));
	CHECK_OK(cache_get_rec(c, rec_key(&old), &a, &got));
	CHECK_OK(cache_put_rec(c, &mine));
	CHECK_OK(cache_put(c, CACHE_CODE, mine.task, "code", 4));
	CHECK_OK(cache_get(c, CACHE_CODE, mine.task, &a, &b)); /* made here, whoever may write the folder */
	REQUIRE(truncate(file_of(dir, 0), 0) == 0);
	CHECK_OK(cache_refresh(c));
	CHECK(cache_get_rec(c, rec_key(&old), &a, &got) == E_NOTFOUND);
	CHECK_OK(cache_get_rec(c, rec_key(&mine), &a, &got));
	CHECK(same_rec(&mine, &got));
	REQUIRE_OK(cache_open(&writer, dir, false, 0));
	struct rec theirs = sample(1);
	theirs.meas.min_ns = 7;
	REQUIRE_OK(cache_put_rec(writer, &old));
	REQUIRE_OK(cache_put_rec(writer, &theirs));
	REQUIRE_OK(cache_commit(writer));
	CHECK(cache_refresh(c) > 0);
	CHECK_OK(cache_get_rec(c, rec_key(&old), &a, &got));
	CHECK_OK(cache_get_rec(c, rec_key(&mine), &a, &got));
	CHECK(same_rec(&mine, &got));
	cache_close(writer);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Neither a loop of links nor a FIFO in a file's place is a reason not to tune, or to wait. */
TEST(whatever_stands_in_a_files_place)
{
	char path[256];
	for (int fifo = 0; fifo < 2; fifo++)
		for (int old = 0; old < 2; old++) {
			struct cache *c;
			struct rec r = sample(0);
			snprintf(path, sizeof path, "%s/%s", fresh_dir(),
				 old ? "cache.hone" : "00000001.seg");
			REQUIRE((fifo ? mkfifo(path, 0600) : symlink(path, path)) == 0);
			REQUIRE_OK(cache_open_memory(&c, dir));
			CHECK(check_records(c, 1) == 0);
			CHECK_OK(cache_put_rec(c, &r));
			CHECK(check_records(c, 1) == 1);
			cache_close(c);
			REQUIRE_OK(cache_open(&c, dir, false, 0));
			CHECK_OK(cache_put_rec(c, &r));
			cache_close(c);
			REQUIRE_OK(cache_open(&c, dir, true, 0));
			CHECK(check_records(c, 1) == 1);
			cache_close(c);
			remove_dir();
		}
}

TEST(a_commit_makes_the_name_durable)
{
	struct cache *c;
	struct stat st;
	struct rec r = sample(0);
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	REQUIRE(stat(dir, &st) == 0);
	REQUIRE_OK(cache_put_rec(c, &r));
	synced = 0;
	REQUIRE_OK(cache_commit(c));
	CHECK(synced == st.st_ino);
	cache_close(c);
	remove_dir();
}

/* Bytes that this process has read, -1: the system does not say. */
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

/* Heads, one behind the other, that each claim all the rest of the file: opening reads it a few times, not
 * once for each of them, and what follows is found. */
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

/* In a process of its own: puts n records, some of them many times, with a compaction now and then. */
static void write_beside(int n)
{
	struct cache *c;
	if (cache_open_with(&c, dir, CACHE_WRITE, 0, &small) < 0)
		_exit(1);
	for (int i = 0; i < n; i++) {
		struct rec r = sample(i);
		if (cache_put(c, CACHE_HISTORY, hash_text("again"), &i, sizeof i) < 0 ||
		    cache_put_rec(c, &r) < 0)
			_exit(2);
		if ((i % 7 == 0 && cache_commit(c) < 0) || (i % 50 == 49 && cache_compact(c) < 0))
			_exit(3);
	}
	if (cache_commit(c) < 0)
		_exit(4);
	_exit(0); /* as a crash: no close */
}

/* A reader beside a living writer never sees half a record, nor loses one that it has seen, also while the
 * files that it reads are replaced. */
TEST(reader_beside_writer)
{
	enum { N = 1000 };
	struct arena a = {0};
	struct cache *reader;
	struct blob b;
	fresh_dir();
	pid_t pid = fork();
	if (pid == 0)
		write_beside(N);
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	int status = -1, seen = 0, grown = 0;
	uint64_t generation = 0;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		CHECK(cache_refresh(reader) >= 0);
		int n = check_records(reader, N);
		CHECK(n >= seen && cache_generation(reader) >= generation);
		grown += n > seen;
		seen = n;
		generation = cache_generation(reader);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(cache_refresh(reader) >= 0);
	CHECK(check_records(reader, N) == N && grown > 1);
	int last = -1, n = 0;
	if (cache_get(reader, CACHE_HISTORY, hash_text("again"), &a, &b) >= 0)
		memcpy(&last, b.p, sizeof last);
	CHECK(last == N - 1);
	CHECK(cache_each_rec(reader, &a, count_rec, &n) == N);
	cache_close(reader);
	arena_free(&a);
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
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
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

static void make_layer(const char *folder, int from, int to, int64_t ns)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	for (int i = from; i < to; i++) {
		struct rec r = sample(i);
		r.meas.min_ns = ns;
		CHECK_OK(cache_put(c, CACHE_CODE, r.task, &ns, sizeof ns));
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
}

/* min_ns of record i; 0: a miss. */
static int64_t time_of(struct cache *c, int i)
{
	struct arena a = {0};
	struct rec want = sample(i), got;
	int64_t ns = cache_get_rec(c, rec_key(&want), &a, &got) < 0 ? 0 : got.meas.min_ns;
	arena_free(&a);
	return ns;
}

/* The uppermost counts, what is forgotten there is hidden below, through compactions, and seeds are never
 * written. */
TEST(layers)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	char low[96], mid[96], top[96], seeds[256];
	snprintf(low, sizeof low, "%s/low", fresh_dir());
	snprintf(mid, sizeof mid, "%s/mid", dir);
	snprintf(top, sizeof top, "%s/top", dir);
	snprintf(seeds, sizeof seeds, "%s:/nowhere::%s", mid, low);
	make_layer(low, 0, 10, 100);
	make_layer(mid, 5, 10, 200);
	REQUIRE(chmod(mid, 0777) == 0);
	const struct cache_options o = {.seeds = seeds};
	REQUIRE_OK(cache_open_with(&c, top, CACHE_WRITE, 0, &o));
	CHECK(time_of(c, 0) == 100 && time_of(c, 9) == 200);
	struct rec r = sample(9), gone = sample(3);
	CHECK_OK(cache_get(c, CACHE_CODE, r.task, &a,
			   &b)); /* others can write the folder above: the lower one's */
	CHECK(*(const int64_t *)b.p == 100);
	r.meas.min_ns = 300;
	CHECK_OK(cache_put_rec(c, &r));
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&gone)));
	CHECK_OK(cache_compact(c));
	cache_close(c);
	setenv("HONE_SEEDS", seeds, 1);
	REQUIRE_OK(cache_open(&c, top, true, 0));
	unsetenv("HONE_SEEDS");
	CHECK(time_of(c, 9) == 300 && time_of(c, 8) == 200 && !time_of(c, 3) && time_of(c, 4) == 100);
	struct cache_state st;
	cache_state(c, &st);
	CHECK(st.layers == 3 && st.count[CACHE_REC] == 9 && st.foreign && !strcmp(st.dir, top));
	cache_close(c);
	CHECK(files_of(low) == 2 && files_of(mid) == 2);
	arena_free(&a);
	remove_dir();
}

/* A user who may not write a folder reads it, and has results of its own above it. */
static int as_somebody(const char *state)
{
	struct cache *c;
	struct rec r = sample(1);
	r.meas.min_ns = 7;
	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	if (cache_open(&c, state, false, 0) < 0)
		return 2;
	bool above = strstr(cache_dir(c), "/user/hone") && time_of(c, 0) == 100;
	if (cache_put_rec(c, &r) < 0 || cache_commit(c) < 0)
		return 3;
	cache_close(c);
	if (cache_open(&c, state, true, 0) < 0)
		return 4;
	above = above && time_of(c, 0) == 100 && time_of(c, 1) == 7;
	cache_close(c);
	return above ? 0 : 5;
}

TEST(a_state_folder_of_somebody_else)
{
	char state[96], user[96];
	if (geteuid() != 0)
		SKIP("only root can be somebody else");
	snprintf(state, sizeof state, "%s/state", fresh_dir());
	snprintf(user, sizeof user, "%s/user", dir);
	REQUIRE(chmod(dir, 0755) == 0 && mkdir(user, 0777) == 0 && chmod(user, 0777) == 0);
	make_layer(state, 0, 2, 100);
	setenv("XDG_CACHE_HOME", user, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(as_somebody(state));
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	unsetenv("XDG_CACHE_HOME");
	struct cache *c;
	REQUIRE_OK(cache_open(&c, state, true, 0));
	CHECK(time_of(c, 1) == 100);
	cache_close(c);
	remove_dir();
}

/* The format before this one: no header, CRCs that begin with nothing. */
static void write_old(const char *path, int n)
{
	struct buf b = {0};
	const struct seg plain = {.plain = true};
	for (int i = 0; i < n; i++) {
		struct buf text = {0};
		struct rec r = sample(i);
		rec_text(&r, &text);
		const struct head h = {.n = (uint32_t)text.n, .type = CACHE_REC, .key = rec_key(&r)};
		seg_record(&b, &plain, 0, &h, text.p);
		const struct head code = {.n = 4, .type = CACHE_CODE, .key = r.task};
		seg_record(&b, &plain, 0, &code, "code");
		buf_free(&text);
	}
	write_bytes(path, b.p, b.n);
	buf_free(&b);
}

TEST(the_old_format_is_read_and_taken_over)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	char path[96];
	snprintf(path, sizeof path, "%s/cache.hone", fresh_dir());
	write_old(path, 5);
	for (int writer = 0; writer < 3; writer++) {
		struct rec r = sample(4);
		REQUIRE_OK(cache_open(&c, dir, writer != 1, 0));
		CHECK(check_records(c, 5) == 5);
		CHECK_OK(cache_get(c, CACHE_CODE, r.task, &a, &b));
		cache_close(c);
		CHECK(file_exists(path) == (writer == 0));
	}
	arena_free(&a);
	remove_dir();
}

/* More than half is dead: the next writer throws it away; a reader that is open goes on. */
TEST(what_is_dead_goes)
{
	enum { N = 2000, KEYS = 100 };
	struct cache *c, *reader;
	struct cache_state st;
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i % KEYS);
		r.meas.min_ns = i + 1;
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	cache_state(reader, &st);
	int64_t before = st.file_bytes;
	CHECK(st.dead_bytes > 300 << 10);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	cache_state(c, &st);
	CHECK(st.dead_bytes < 100 && st.file_bytes < before / 5 && st.segments == 1);
	for (int i = 0; i < KEYS; i++)
		CHECK(time_of(c, i) == N - KEYS + i + 1 && time_of(reader, i) == time_of(c, i));
	CHECK(cache_refresh(reader) > 0 && time_of(reader, 3) == time_of(c, 3));
	CHECK(cache_generation(reader) == cache_generation(c));
	cache_close(c);
	cache_close(reader);
	remove_dir();
}

/* At the cap code goes first: that of no record, then the oldest; records stay while there is code. */
TEST(code_goes_before_records)
{
	enum { N = 60, CODE = 20000 };
	static char code[CODE];
	const struct cache_options o = {.cap_bytes = 1 << 20, .segment_bytes = 16 << 10, .seeds = ""};
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	int orphans = 0, held = 0;
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		memset(code, i, sizeof code);
		CHECK_OK(
		    cache_put(c, CACHE_CODE, hash_bytes(&i, sizeof i, 9), code, CODE / 4)); /* of no record */
		CHECK_OK(cache_put(c, CACHE_CODE, code_key(&r), code, CODE));
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_commit(c));
	}
	struct cache_state st;
	cache_state(c, &st);
	CHECK(st.file_bytes <= o.cap_bytes && st.count[CACHE_REC] == N);
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		orphans += i < N / 2 && cache_get(c, CACHE_CODE, hash_bytes(&i, sizeof i, 9), &a, &b) >= 0;
		held += cache_get(c, CACHE_CODE, code_key(&r), &a, &b) >= 0;
	}
	struct rec last = sample(N - 1);
	CHECK(orphans == 0 && held > 10 && held < N);
	CHECK_OK(cache_get(c, CACHE_CODE, code_key(&last), &a, &b));
	for (int i = N; i < 5000; i++) { /* and with no code left, the oldest records */
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
	}
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	CHECK(st.file_bytes <= o.cap_bytes && st.count[CACHE_CODE] == 0);
	CHECK(time_of(c, 4999) && !time_of(c, 0));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* A pack serves as a seed, and in a cache's own folder until a writer takes it over. */
TEST(a_pack_serves)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	char path[128], own[96];
	const struct rec r = sample(1);
	snprintf(own, sizeof own, "%s/own", fresh_dir());
	make_layer(own, 0, 4, 100);
	REQUIRE_OK(cache_open(&c, own, true, 0));
	CHECK_FAILS(cache_pack(c, "x/board.bin", true), E_USAGE, "NAME.seg");
	CHECK_FAILS(cache_pack(c, "/nowhere/board.seg", true), E_IO, "/nowhere");
	for (int code = 0; code < 2; code++) {
		struct cache *seed;
		snprintf(path, sizeof path, "%s/board.seg", dir);
		CHECK(cache_pack(c, path, code) == (code ? 8 : 4));
		REQUIRE_OK(cache_open(&seed, dir, true, 0));
		CHECK(time_of(seed, 1) == 100);
		CHECK((cache_get(seed, CACHE_CODE, r.task, &a, &b) >= 0) == code);
		cache_close(seed);
	}
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	CHECK(time_of(c, 1) == 100 && !file_exists(path));
	CHECK_OK(cache_get(c, CACHE_CODE, r.task, &a, &b));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* What a batch costs is counted, also over a compaction and another process. */
TEST(written_bytes_are_counted)
{
	struct cache *c;
	struct cache_state st;
	int64_t last = 0;
	fresh_dir();
	for (int i = 0; i < 4; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_open(&c, dir, false, 0));
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_put_rec(c, &r)); /* the same is not written again */
		CHECK_OK(cache_commit(c));
		CHECK_OK(cache_put_rec(c, &r));
		uint64_t generation = cache_generation(c);
		CHECK_OK(cache_commit(c));
		CHECK(cache_generation(c) == generation);
		if (i == 2)
			CHECK_OK(cache_compact(c));
		cache_state(c, &st);
		CHECK(st.written_bytes >= last + 4096 && st.written_bytes < last + (600 << 10));
		last = st.written_bytes;
		cache_close(c);
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		cache_state(c, &st);
		CHECK(st.written_bytes <= last && st.written_bytes > last - 8193);
		last = st.written_bytes;
		cache_close(c);
	}
	remove_dir();
}

TEST_MAIN
