/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache without descriptors, memory, segment numbers or room under the cap, and with a wrong
 * clock. */
#include "tests/lib/cache_dir.h"
#include "platform/base/mix.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

/* Catches what is written to stderr. */
static int said_fd = -1, stderr_fd = -1;

static void listen_to_log(void)
{
	char path[] = "/tmp/hone-said-XXXXXX";
	fflush(stderr);
	said_fd = mkstemp(path);
	unlink(path);
	stderr_fd = dup(2);
	dup2(said_fd, 2);
	log_level_set(LOG_NORMAL);
}

/* Counts the caught lines. */
static int lines_said(void)
{
	char text[8192];
	int lines = 0;
	fflush(stderr);
	dup2(stderr_fd, 2);
	close(stderr_fd);
	log_level_set(LOG_QUIET);
	ssize_t n = pread(said_fd, text, sizeof text, 0);
	close(said_fd);
	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

/* Forgotten records stay forgotten if the seed that holds them is away while the cache is compacted. */
TEST(forgotten_while_the_seed_is_away)
{
	struct cache *c;
	struct cache_state st;
	struct rec r = sample(1);
	make(below(fresh_dir() ? "seed" : ""), 3);
	char seed[160];
	snprintf(seed, sizeof seed, "%s", below("seed"));
	const struct cache_options with = {.seeds = seed}, without = {.seeds = ""};
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &with));
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&r)));
	cache_close(c);
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &without));
		CHECK_OK(cache_compact(c));
		cache_state(c, &st);
		CHECK(st.dead_bytes < 120); /* two marks */
		cache_close(c);
	}
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &with));
	CHECK(check_records(c, 3) == 2);
	cache_close(c);
	remove_dir();
}

/* But the number of tombstones is bounded. */
TEST(tombstones_are_bounded)
{
	enum { N = 40000 };
	struct cache *c;
	struct cache_state st;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	for (int i = 0; i < N; i++) {
		struct key k = mix_bytes(&i, sizeof i, 5);
		CHECK_OK(cache_put(c, CACHE_HISTORY, k, "x", 1));
		CHECK_OK(cache_forget(c, CACHE_HISTORY, k));
	}
	CHECK_OK(cache_compact(c));
	cache_state(c, &st);
	CHECK(st.file_bytes < 33 * 16384 + 300 && st.file_bytes > 32 * 16384 && st.dead_bytes < 120);
	cache_close(c);
	remove_dir();
}

/* Makes a file for every five records. */
static void make_many(int n)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	for (int i = 0; i < n; i += 5) {
		put_records(c, i, i + 5);
		CHECK_OK(cache_commit(c));
	}
	cache_close(c);
}

/* With few descriptors left, readers miss the records of files that they cannot open, log this once, and find
 * the records later. A writer that can open some of the files throws nothing away. */
TEST(no_descriptors_left)
{
	enum { N = 200, MOST = 60 };
	struct cache *c;
	struct arena a = {0};
	struct rlimit old, tight;
	int acked = 0;
	make_many(N);
	CHECK(files_of(dir) > 12);
	getrlimit(RLIMIT_NOFILE, &old);
	for (int left = 0, seen = 0; left < MOST && !test_bad; left++) {
		listen_to_log();
		int first = dup(0), refreshed = -1, found = -1;
		close(first);
		tight = (struct rlimit){.rlim_cur = (rlim_t)(first + left), .rlim_max = old.rlim_max};
		setrlimit(RLIMIT_NOFILE, &tight);
		int rc = cache_open(&c, dir, true, 0);
		if (rc >= 0) {
			refreshed = cache_refresh(c);
			found = check_records(c, N);
			refreshed = refreshed < 0 ? refreshed : cache_refresh(c);
		}
		setrlimit(RLIMIT_NOFILE, &old);
		int lines = lines_said();
		CHECK_OK(rc);
		CHECK(found >= seen && refreshed >= 0 && lines == (found < N));
		seen = found;
		CHECK(cache_refresh(c) >= 0 && check_records(c, N) == N);
		cache_close(c);
	}
	for (int left = 0; left < MOST && !test_bad; left++) {
		listen_to_log();
		int first = dup(0);
		close(first);
		tight = (struct rlimit){.rlim_cur = (rlim_t)(first + left), .rlim_max = old.rlim_max};
		setrlimit(RLIMIT_NOFILE, &tight);
		int rc = cache_open_with(&c, dir, CACHE_WRITE, 0, &small);
		if (rc >= 0) {
			struct rec r = sample(left);
			r.meas.min_ns = 7000 + left;
			CHECK_OK(cache_put_rec(c, &r));
			acked = cache_commit(c) >= 0 ? left : acked;
			setrlimit(RLIMIT_NOFILE, &old);
			cache_close(c);
		}
		setrlimit(RLIMIT_NOFILE, &old);
		CHECK(lines_said() <= 1 && (rc >= 0 || rc == E_IO));
	}
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(acked > 0);
	for (int i = 0; i < N; i++) {
		struct rec want = sample(i), got;
		CHECK_OK(cache_get_rec(c, rec_key(&want), &a, &got));
		CHECK(got.meas.min_ns == (i < MOST ? 7000 + i : 1000 + i) || i < 3);
	}
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* A record that was put while newer files could not be opened is newer than the records in them. */
TEST(puts_beside_unopened_files)
{
	struct cache *c;
	struct arena a = {0};
	struct rlimit old, tight;
	int done = 0;
	getrlimit(RLIMIT_NOFILE, &old);
	for (int left = 2; left < 30 && !test_bad; left++) {
		make_many(100);
		int first = dup(0);
		close(first);
		tight = (struct rlimit){.rlim_cur = (rlim_t)(first + left), .rlim_max = old.rlim_max};
		setrlimit(RLIMIT_NOFILE, &tight);
		int rc = cache_open_with(&c, dir, CACHE_WRITE, 0, &small);
		struct rec r = sample(99), got;
		r.meas.min_ns = 7;
		if (rc >= 0) {
			CHECK_OK(cache_put_rec(c, &r));
			(void)!cache_commit(c);
			setrlimit(RLIMIT_NOFILE, &old);
			CHECK_OK(cache_commit(c));
			cache_close(c);
		}
		setrlimit(RLIMIT_NOFILE, &old);
		REQUIRE_OK(cache_open(&c, dir, true, 0));
		CHECK(cache_get_rec(c, rec_key(&r), &a, &got) >= 0 && (rc < 0 || got.meas.min_ns == 7));
		CHECK(check_records(c, 99) == 99);
		done += rc >= 0;
		cache_close(c);
		remove_dir();
	}
	CHECK(done > 10);
	arena_free(&a);
}

/* The clock and the files' times decide nothing: the clock stands still, and jumps by decades. */
static void set_times(time_t s)
{
	const struct timespec t[2] = {{.tv_sec = s}, {.tv_sec = s}};
	CHECK(utimensat(AT_FDCWD, dir, t, 0) == 0);
	for (size_t i = 0; *file_of(dir, i); i++)
		CHECK(utimensat(AT_FDCWD, file_of(dir, i), t, 0) == 0);
}

TEST(clock_jumps)
{
	static const time_t times[] = {0, 0, 4102444800, 86400, 86400, INT32_MAX, 1};
	struct cache *c, *reader;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	set_times(0);
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	for (int i = 0; i < 21 && !test_bad; i++) {
		put_records(c, 5 * i, 5 * i + 5);
		CHECK_OK(i % 4 == 3 ? cache_compact(c) : cache_commit(c));
		set_times(times[i % 7]);
		CHECK(cache_refresh(reader) > 0 && check_records(reader, 200) == 5 * i + 5);
		CHECK(cache_refresh(reader) == 0);
		if (i % 5 != 4)
			continue;
		cache_close(c);
		set_times(times[i % 7]);
		REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	}
	cache_close(c);
	cache_close(reader);
	remove_dir();
}

/* An empty (sparse) file of a terabyte takes no time to read. */
TEST(a_sparse_file)
{
	struct cache *c;
	make(fresh_dir(), 3);
	int fd = open(below("big.seg"), O_WRONLY | O_CREAT, 0600), first = open(file_of(dir, 0), O_WRONLY);
	if (ftruncate(fd, (off_t)1 << 40) < 0)
		SKIP("cannot make a sparse file of a terabyte");
	CHECK(pwrite(fd, "HSEG", 4, 0) == 4);
	close(fd);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, 3) == 3);
	CHECK(ftruncate(first, (off_t)1 << 40) == 0); /* one that is open grows */
	CHECK(cache_refresh(c) >= 0 && check_records(c, 3) == 3);
	close(first);
	cache_close(c);
	remove_dir();
}

/* The highest possible number is taken: nothing is written that no reader would read. */
TEST(no_number_is_left)
{
	struct cache *c;
	make(fresh_dir(), 3);
	REQUIRE_OK(file_write(below("3fffffff.seg"), "x", 1));
	REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	put_records(c, 3, 60);
	CHECK_FAILS(cache_commit(c), E_IO, "number");
	CHECK(check_records(c, 60) == 60);
	listen_to_log();
	cache_close(c); /* the failure was logged already */
	CHECK(lines_said() == 0);
	REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	put_records(c, 3, 30);
	listen_to_log();
	cache_close(c);
	CHECK(lines_said() == 1);
	remove_dir();
}

/* A record that a cut tore counts as damaged with its own bytes, without the zeros behind it. */
TEST(damage_is_what_is_damaged)
{
	struct cache *c;
	struct cache_state st;
	struct arena a = {0};
	struct blob file;
	char path[PATH_MAX];
	make(fresh_dir(), 3);
	snprintf(path, sizeof path, "%s", file_of(dir, 0));
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n), *last = NULL;
	for (char *p = bytes; (p = memmem(p, file.n - (size_t)(p - bytes), "HREC", 4)); p++)
		last = p;
	memset(last + 20, 0, 100); /* the mark */
	write_bytes(path, bytes, file.n);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	cache_state(c, &st);
	CHECK(st.damaged_bytes > 0 && st.damaged_bytes <= 20 && check_records(c, 3) == 3);
	cache_close(c);
	bytes[SEG_HEAD + 40] ^= 1;
	write_bytes(path, bytes, file.n);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	cache_state(c, &st);
	CHECK(st.damaged_bytes > 300 && st.damaged_bytes < 2000 && check_records(c, 3) == 2);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Bytes of memory that this process uses. */
static long long resident(void)
{
	long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%*d %lld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

#ifdef __SANITIZE_ADDRESS__
enum { HELD = 1 << 30 }; /* the sanitizer keeps freed memory */
#else
enum { HELD = 16 << 20 };
#endif

/* In memory, a key that is put again and again takes the place of one record. */
TEST(memory_is_bounded_by_what_lives)
{
	enum { N = 4000, KEYS = 20, BYTES = 100000 };
	static char payload[BYTES];
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	REQUIRE_OK(cache_open_memory(&c, fresh_dir()));
	long long before = resident();
	for (int i = 0; i < N && !test_bad; i++) {
		const int key = i % KEYS;
		memcpy(payload, &i, sizeof i);
		CHECK_OK(
		    cache_put(c, CACHE_HISTORY, mix_bytes(&key, sizeof key, 1), payload, BYTES - i % 7));
		CHECK_OK(cache_put(c, CACHE_TRIALS, mix_bytes(&key, sizeof key, 1), &i, sizeof i));
		if (i % 11 == 5)
			CHECK_OK(cache_forget(c, CACHE_TRIALS, mix_bytes(&key, sizeof key, 1)));
	}
	CHECK(resident() - before < HELD);
	for (int i = N - KEYS; i < N; i++) {
		const int key = i % KEYS;
		int got = -1;
		CHECK_OK(cache_get(c, CACHE_HISTORY, mix_bytes(&key, sizeof key, 1), &a, &b));
		memcpy(&got, b.p, sizeof got);
		CHECK(got == i && b.n == (size_t)(BYTES - i % 7));
		int rc = cache_get(c, CACHE_TRIALS, mix_bytes(&key, sizeof key, 1), &a, &b);
		CHECK((rc == E_NOTFOUND) == (i % 11 == 5));
	}
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* A broken disk. */
static int broken_create(const char *path, unsigned mode)
{
	(void)path, (void)mode;
	return -EIO;
}

/* Eviction at the cap holds one record in memory at a time, and if the copy fails nothing is evicted. */
TEST(eviction_that_fails_evicts_nothing)
{
	enum { N = 400, CODE = 3000 };
	static char code[CODE];
	const struct cache_options o = {.cap_bytes = 1 << 20, .segment_bytes = 64 << 10, .seeds = ""};
	struct disk broken = disk_system;
	struct cache *c;
	struct cache_state st;
	broken.create = broken_create;
	int refused = 0;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	for (int i = 0; i < N && !test_bad; i++) {
		struct rec r = sample(i);
		disk = refused ? &broken : &disk_system;
		CHECK(cache_put(c, CACHE_CODE, code_key(&r), code, CODE) != E_NOMEM);
		CHECK(cache_put_rec(c, &r) != E_NOMEM);
		cache_state(c, &st);
		if (st.file_bytes > o.cap_bytes * 3 / 4)
			refused = 1;
	}
	CHECK(refused && cache_commit(c) == E_IO);
	cache_state(c, &st);
	CHECK(st.count[CACHE_REC] == N && st.count[CACHE_CODE] == N);
	disk = &disk_system;
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	CHECK(st.count[CACHE_REC] == N && st.count[CACHE_CODE] < N && st.file_bytes <= o.cap_bytes);
	cache_close(c);
	remove_dir();
}

/* With too many seeds the lowest are skipped, in one line. */
TEST(too_many_seeds)
{
	struct cache *c;
	char seeds[2048] = "", name[32];
	fresh_dir();
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "seed%d", i);
		make(below(name), i + 1); /* the lowest has the most records */
		snprintf(seeds + strlen(seeds), sizeof seeds - strlen(seeds), "%s:", below(name));
	}
	for (int writer = 0; writer < 2; writer++) {
		listen_to_log();
		int rc = cache_open_with(&c, below("own"), writer ? CACHE_WRITE : CACHE_READ, 0,
					 &(struct cache_options){.seeds = seeds});
		CHECK(lines_said() == 1);
		REQUIRE_OK(rc);
		CHECK(check_records(c, 20) == 7);
		cache_close(c);
	}
	remove_dir();
}

/* A file in the folder claims enormous counts: no count overflows, or falls later. */
static void claim(uint64_t generation, uint64_t written)
{
	const struct head h = {.n = 16, .type = CACHE_MARK};
	struct seg s = {.kind = SEG_RECORDS, .number = 1};
	struct buf mark = {0}, b = {0};
	buf_u64(&mark, generation);
	buf_u64(&mark, written);
	REQUIRE_OK(seg_create(fresh_dir(), CACHE_TEMP_FILE, 0, 0600, &s));
	seg_record(&b, &s, SEG_HEAD, &h, mark.p);
	CHECK(pwrite(s.fd, b.p, b.n, SEG_HEAD) == (ssize_t)b.n);
	CHECK_OK(seg_name(dir, CACHE_TEMP_FILE, &s));
	seg_close(&s);
	buf_free(&mark);
	buf_free(&b);
}

TEST(counts_that_are_crafted)
{
	static const uint64_t most = UINT64_C(1) << 53;
	static const uint64_t claims[][2] = {{UINT64_MAX, INT64_MAX - 1},
					     {UINT64_MAX - 1, UINT64_MAX},
					     {most + 1, most + 1},
					     {most, most},
					     {7, 7}};
	for (int i = 0; i < 5; i++) {
		uint64_t before = 0;
		claim(claims[i][0], claims[i][1]);
		for (int open = 0; open < 4; open++) {
			struct cache *c;
			struct cache_state st;
			REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
			CHECK(cache_generation(c) == before || (!open && i > 2));
			put_records(c, 20 * open, 20 * open + 20);
			CHECK_OK(cache_commit(c));
			CHECK(cache_generation(c) > before || before == most);
			before = cache_generation(c);
			cache_state(c, &st);
			CHECK(before <= most && st.written_bytes > 0 && st.written_bytes < INT64_MAX / 2);
			cache_close(c);
		}
		CHECK((before == most) == (i == 3));
		remove_dir();
	}
}

/* Early in a boot there are no random numbers: salts still differ. */
static int salts_without_random_numbers(void)
{
	static uint64_t salt[1000];
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
	uint64_t v;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ||
	    getrandom(&v, sizeof v, GRND_NONBLOCK) >= 0)
		return 77;
	for (int i = 0; i < 1000; i++) {
		salt[i] = seg_salt();
		for (int k = 0; k < i; k++)
			CHECK(salt[i] != salt[k]);
	}
	return test_bad;
}

TEST(salts_early_in_a_boot)
{
	int status = -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(salts_without_random_numbers());
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("this process may not filter its calls");
	CHECK(WEXITSTATUS(status) == 0);
}

TEST_MAIN
