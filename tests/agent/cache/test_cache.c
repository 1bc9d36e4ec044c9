/* SPDX-License-Identifier: Apache-2.0 */
/* The cache returns what was put, also to readers beside the writer. */
#include "tests/lib/cache_dir.h"

#include <sys/syscall.h>

static ino_t synced; /* the last folder that was synced */

/* Replaces the C library's. */
int fsync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		synced = st.st_ino;
	return (int)syscall(SYS_fsync, fd);
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
	CHECK(back.origin == ORIGIN_SEARCH && !strstr(buf_str(&text), "\norigin "));
	CHECK_FAILS(rec_parse("", &a, &back), E_CORRUPT, "not a record");
	buf_puts(&text, "more\n");
	CHECK_FAILS(rec_parse(buf_str(&text), &a, &back), E_CORRUPT, "more lines");
	/* A text that is cut anywhere gives an error, and never a crash. */
	for (size_t n = 0; n + 6 < text.n; n++) {
		char *cut = arena_strndup(&a, text.p, n);
		CHECK(rec_parse(cut, &a, &back) == E_CORRUPT);
	}
	r.origin = ORIGIN_HINT;
	buf_clear(&text);
	rec_text(&r, &text);
	REQUIRE_OK(rec_parse(buf_str(&text), &a, &back));
	CHECK(back.origin == ORIGIN_HINT && same_rec(&r, &back) && key_equal(rec_key(&r), rec_key(&back)));
	buf_puts(&text, "origin hint\n");
	CHECK_FAILS(rec_parse(buf_str(&text), &a, &back), E_CORRUPT, "more lines");
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
	put_records(c, 0, 1000);
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

TEST(two_writers)
{
	struct cache *c, *second;
	char pid[32];
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	snprintf(pid, sizeof pid, "process %ld (", (long)getpid());
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
	CHECK(refused == N / 64); /* not at every put, since each try costs flash */
	CHECK_FAILS(cache_commit(c), E_IO, "--cache");
	CHECK(check_records(c, N) == N);
	CHECK(files_of(dir) == 0);
	setrlimit(RLIMIT_FSIZE, &old); /* room again: the next commit writes the waiting records */
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, N) == N);
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

/* Code is read only from places that nobody else can write; from other places choices become hints, and the
 * rest is a miss. */
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
		bool records = !open_folder; /* they lie in a file of their own */
		CHECK(cache_get(c, CACHE_CHOICES, k, &a, &b) == (records ? E_OK : E_NOTFOUND));
		CHECK(cache_get(c, CACHE_HINT_CHOICES, k, &a, &b) == (records ? E_NOTFOUND : E_OK));
		cache_close(c);
		REQUIRE(chmod(path, open_folder ? 0700 : 0600) == 0);
	}
	arena_free(&a);
	remove_dir();
}

/* A user who may list the folder may read its files, whatever the umask. */
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

/* The file below a cache in memory shrinks or grows: puts of this process stay, and hide older records. */
TEST(memory_outlives_the_file)
{
	struct arena a = {0};
	struct cache *c, *writer;
	struct rec old = sample(0), mine = sample(1), got;
	struct blob b;
	REQUIRE_OK(cache_open(&writer, fresh_dir(), false, 0));
	REQUIRE_OK(cache_put_rec(writer, &old));
	cache_close(writer);
	REQUIRE_OK(cache_open_memory(&c, dir));
	CHECK_OK(cache_get_rec(c, rec_key(&old), &a, &got));
	REQUIRE(chmod(dir, 0777) == 0);
	CHECK_OK(cache_put_rec(c, &mine));
	CHECK_OK(cache_put(c, CACHE_CODE, mine.task, "code", 4));
	CHECK_OK(cache_get(c, CACHE_CODE, mine.task, &a, &b)); /* made by this process, so trusted */
	REQUIRE(truncate(file_of(dir, 0), 0) == 0);
	CHECK_OK(cache_refresh(c));
	CHECK(cache_get_rec(c, rec_key(&old), &a, &got) == E_NOTFOUND);
	CHECK_OK(cache_get_rec(c, rec_key(&mine), &a, &got));
	CHECK(same_rec(&mine, &got));
	REQUIRE(chmod(dir, 0700) == 0);
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

/* A loop of links or a FIFO in a file's place neither prevents tuning nor blocks it. */
TEST(whatever_stands_in_a_files_place)
{
	char path[256];
	for (int fifo = 0; fifo < 2; fifo++) {
		struct cache *c;
		struct rec r = sample(0);
		snprintf(path, sizeof path, "%s/00000001.seg", fresh_dir());
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

/* Runs in a child process: puts n records, some of them many times, with compactions between. */
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
	_exit(0); /* like a crash: no close */
}

/* A reader beside a live writer never sees half a record, and never loses a record that it has seen, even
 * while its files are replaced. */
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

/* The bytes that a batch costs are counted, also over a compaction and another process. */
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
		CHECK_OK(cache_put_rec(c, &r)); /* an equal record is not written again */
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
