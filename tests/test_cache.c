/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache.h"
#include "search/job.h"
#include "tests/test.h"

#include <fcntl.h>
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
	snprintf(dir, sizeof dir, "/tmp/hone-cache-XXXXXX");
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
	CHECK(cache_refresh(reader) > 0);
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

/* Every right record or a miss, whatever happened to the file. */
static void check_damaged(const char *path, const char *bytes, size_t n, int nrecs)
{
	struct arena a = {0};
	struct cache *c;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(write(fd, bytes, n) == (ssize_t)n);
	close(fd);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	for (int i = 0; i < nrecs; i++) {
		struct rec want = sample(i), got;
		int rc = cache_get_rec(c, rec_key(&want), &a, &got);
		CHECK(rc == E_NOTFOUND || (rc == E_OK && same_rec(&want, &got)));
	}
	cache_close(c);
	arena_free(&a);
}

TEST(damage_anywhere_is_a_miss)
{
	enum { N = 3 };
	struct cache *c;
	char path[128];
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	snprintf(path, sizeof path, "%s/cache.hone", dir);
	struct arena a = {0};
	struct blob file;
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n);
	for (size_t at = 0; at < file.n && !test_bad; at++) {
		bytes[at] ^= (char)(1 << at % 8);
		check_damaged(path, bytes, file.n, N);
		bytes[at] ^= (char)(1 << at % 8);
		check_damaged(path, bytes, at, N);
	}
	/* Damage in the first record leaves the others readable, and a writer goes on behind a torn tail. */
	bytes[40] ^= 1;
	int fd = open(path, O_WRONLY | O_TRUNC);
	CHECK(write(fd, bytes, file.n - 5) == (ssize_t)file.n - 5);
	close(fd);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	struct rec got, one = sample(1), last = sample(2);
	CHECK_OK(cache_get_rec(c, rec_key(&one), &a, &got));
	CHECK(cache_get_rec(c, rec_key(&last), &a, &got) == E_NOTFOUND);
	CHECK_OK(cache_put_rec(c, &last));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK_OK(cache_get_rec(c, rec_key(&last), &a, &got));
	CHECK_OK(cache_get_rec(c, rec_key(&one), &a, &got));
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
	struct arena a = {0};
	struct cache *c;
	struct rec r, got;
	struct rlimit old, small;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	small = (struct rlimit){.rlim_cur = 3000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	int refused = 0;
	for (int i = 0; i < 20; i++) {
		r = sample(i);
		int rc = cache_put_rec(c, &r);
		refused += rc < 0;
		CHECK(rc == E_OK || rc == E_IO);
	}
	CHECK(refused > 10);
	CHECK_FAILS(cache_commit(c), E_IO, "--cache");
	for (int i = 0; i < 20; i++) {
		r = sample(i);
		CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
		CHECK(same_rec(&r, &got));
	}
	setrlimit(RLIMIT_FSIZE, &old); /* room again: the next commit writes what was kept */
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	for (int i = 0; i < 20; i++) {
		r = sample(i);
		CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
		CHECK(same_rec(&r, &got));
	}
	cache_close(c);
	arena_free(&a);
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
		char path[128];
		snprintf(path, sizeof path, "%s/cache.hone", dir);
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		CHECK_OK(cache_get(c, CACHE_CODE, k, &a, &b));
		cache_close(c);
		REQUIRE(chmod(open_folder ? dir : path, open_folder ? 0777 : 0666) == 0);
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		CHECK(cache_get(c, CACHE_CODE, k, &a, &b) == E_NOTFOUND);
		CHECK_OK(cache_get(c, CACHE_CHOICES, k, &a, &b));
		cache_close(c);
		REQUIRE(chmod(open_folder ? dir : path, open_folder ? 0700 : 0600) == 0);
	}
	arena_free(&a);
	remove_dir();
}

/* The file shrinks under a cache in memory, or grows: what was put stays, and comes first. */
TEST(memory_outlives_the_file)
{
	struct arena a = {0};
	struct cache *c, *writer;
	struct rec old = sample(0), mine = sample(1), got;
	struct blob b;
	char path[128];
	REQUIRE_OK(cache_open(&writer, fresh_dir(), false, 0));
	REQUIRE_OK(cache_put_rec(writer, &old));
	REQUIRE(chmod(dir, 0777) == 0);
	REQUIRE_OK(cache_open_memory(&c, dir));
	REQUIRE_OK(cache_put_rec(c, &mine));
	REQUIRE_OK(cache_put(c, CACHE_CODE, mine.task, "code", 4));
	CHECK_OK(cache_get(c, CACHE_CODE, mine.task, &a, &b)); /* made here, whoever may write the folder */
	snprintf(path, sizeof path, "%s/cache.hone", dir);
	REQUIRE(truncate(path, 0) == 0);
	CHECK(cache_refresh(c) == 0);
	CHECK(cache_get_rec(c, rec_key(&old), &a, &got) == E_NOTFOUND);
	CHECK_OK(cache_get_rec(c, rec_key(&mine), &a, &got));
	CHECK(same_rec(&mine, &got));
	cache_close(writer);
	REQUIRE_OK(cache_open(&writer, dir, false, 0));
	struct rec theirs = sample(1);
	theirs.meas.min_ns = 7;
	REQUIRE_OK(cache_put_rec(writer, &old));
	REQUIRE_OK(cache_put_rec(writer, &theirs));
	CHECK(cache_refresh(c) > 0);
	CHECK_OK(cache_get_rec(c, rec_key(&old), &a, &got));
	CHECK_OK(cache_get_rec(c, rec_key(&mine), &a, &got));
	CHECK(same_rec(&mine, &got));
	cache_close(writer);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Neither a loop of links nor a FIFO in the file's place is a reason not to tune, or to wait. */
TEST(in_memory_whatever_stands_in_the_way)
{
	char path[256];
	for (int fifo = 0; fifo < 2; fifo++) {
		struct arena a = {0};
		struct cache *c;
		struct rec r = sample(0), got;
		snprintf(path, sizeof path, "%s/cache.hone", fresh_dir());
		REQUIRE((fifo ? mkfifo(path, 0600) : symlink(path, path)) == 0);
		if (fifo)
			REQUIRE_OK(cache_open(&c, dir, true, 0));
		else
			CHECK_FAILS(cache_open(&c, dir, true, 0), E_IO, "cache.hone");
		if (fifo)
			cache_close(c);
		REQUIRE_OK(cache_open_memory(&c, dir));
		CHECK(cache_get_rec(c, rec_key(&r), &a, &got) == E_NOTFOUND);
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
		cache_close(c);
		arena_free(&a);
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
	enum { HEAD = 28, HEADS = (1 << 20) / HEAD, RECORDS = 10 };
	struct arena a = {0};
	struct cache *c;
	struct rec r, got;
	struct buf file = {0};
	struct blob good;
	char path[128];
	if (bytes_read() < 0)
		SKIP("no /proc/self/io");
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < RECORDS; i++) {
		r = sample(i);
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	snprintf(path, sizeof path, "%s/cache.hone", dir);
	REQUIRE_OK(file_read(&a, path, 0, &good));
	for (int i = 0; i < HEADS; i++) {
		buf_puts(&file, "HREC");
		buf_u32(&file, (uint32_t)((HEADS - i - 1) * HEAD));
		buf_u32(&file, CACHE_REC);
		buf_u64(&file, 1);
		buf_u64(&file, (uint64_t)i);
	}
	buf_add(&file, good.p, good.n);
	int fd = open(path, O_WRONLY | O_TRUNC);
	REQUIRE(buf_ok(&file) && write(fd, file.p, file.n) == (ssize_t)file.n);
	close(fd);
	long long before = bytes_read();
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(bytes_read() - before < 32 << 20);
	r = sample(RECORDS - 1);
	CHECK_OK(cache_get_rec(c, rec_key(&r), &a, &got));
	cache_close(c);
	buf_free(&file);
	arena_free(&a);
	remove_dir();
}

/* A reader beside a living writer never sees half a record. */
TEST(reader_beside_writer)
{
	struct arena a = {0};
	struct cache *reader;
	fresh_dir();
	pid_t pid = fork();
	if (pid == 0) {
		struct cache *c;
		if (cache_open(&c, dir, false, 0) < 0)
			_exit(1);
		for (int i = 0; i < 400; i++) {
			struct rec r = sample(i);
			if (cache_put_rec(c, &r) < 0)
				_exit(1);
		}
		_exit(0); /* as a crash: no close */
	}
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	int status = -1;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		CHECK(cache_refresh(reader) >= 0);
		for (int i = 0; i < 400; i += 37) {
			struct rec want = sample(i), got;
			int rc = cache_get_rec(reader, rec_key(&want), &a, &got);
			CHECK(rc == E_NOTFOUND || (rc == E_OK && same_rec(&want, &got)));
		}
		arena_reset(&a);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(cache_refresh(reader) >= 0);
	int n = 0;
	CHECK(cache_each_rec(reader, &a, count_rec, &n) == 400);
	cache_close(reader);
	arena_free(&a);
	remove_dir();
}

TEST_MAIN
