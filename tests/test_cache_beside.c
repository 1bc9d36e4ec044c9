/* SPDX-License-Identifier: Apache-2.0 */
/* The cache beside others: other writers, strangers in its folder, file systems that change under it, and a
 * process that has no descriptors left. */
#include "tests/cache_dir.h"

#include <sched.h>
#include <sys/mount.h>

static void put_records(struct cache *c, int from, int to)
{
	for (int i = from; i < to; i++) {
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
	}
}

static void make(const char *folder, int n)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	put_records(c, 0, n);
	cache_close(c);
}

static const char *below(const char *name)
{
	static char path[4][160];
	static int turn;
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof *path, "%s/%s", dir, name);
	return path[turn];
}

/* What goes to stderr meanwhile. */
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

/* Lines that were said. */
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

/* A pack is written while the writer of the folder that it goes to makes a segment: neither takes the other's
 * file.
 */
static const char *victim; /* a pack goes there when the writer has its next file half ready */

static int pack_at_rename(const char *from, const char *to)
{
	const char *path = victim;
	struct cache *other;
	victim = NULL;
	if (path && cache_open(&other, below("other"), true, 0) >= 0) {
		CHECK(cache_pack(other, path, true) == 50);
		cache_close(other);
	}
	return disk_system.rename(from, to);
}

TEST(a_pack_beside_a_writer)
{
	struct disk packing = disk_system;
	struct cache *c;
	make(below(fresh_dir() ? "other" : ""), 50);
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &small));
	packing.rename = pack_at_rename;
	disk = &packing;
	victim = below("own/board.seg");
	put_records(c, 0, 40);
	CHECK_OK(cache_commit(c));
	CHECK(!victim);
	disk = &disk_system;
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), true, 0));
	CHECK(check_records(c, 50) == 50);
	/* Names that a writer may give at any moment, and its own folder, are refused. */
	CHECK_FAILS(cache_pack(c, below("other/00000003.seg"), true), E_USAGE, "another one");
	CHECK_FAILS(cache_pack(c, below("own/again.seg"), true), E_USAGE, "own folder");
	CHECK(file_exists(below("own/board.seg")));
	cache_close(c);
	/* A writer takes over the pack that it saw, and not one that has its name by now. */
	REQUIRE_OK(cache_open(&c, below("own"), false, 0));
	CHECK(check_records(c, 50) == 50 && !file_exists(below("own/board.seg")));
	cache_close(c);
	remove_dir();
}

/* A new cache does not go on where the donor of a pack was. */
TEST(a_pack_counts_nothing)
{
	struct cache *c;
	struct cache_state st;
	make(below(fresh_dir() ? "donor" : ""), 1000);
	REQUIRE_OK(cache_open(&c, below("donor"), false, 0));
	CHECK(cache_generation(c) > 15);
	REQUIRE(mkdir(below("own"), 0755) == 0);
	CHECK(cache_pack(c, below("own/board.seg"), true) == 1000);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), true, 0));
	cache_state(c, &st);
	CHECK(st.count[CACHE_REC] == 1000 && st.generation == 0 && st.written_bytes == 0);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), false, 0));
	CHECK(cache_generation(c) == 2 && check_records(c, 1000) == 1000); /* taken over: two copies */
	cache_state(c, &st);
	CHECK(st.written_bytes < 2 * st.file_bytes + 3 * FLASH_BLOCK);
	cache_close(c);
	remove_dir();
}

/* Links in the lock's and a segment's place: nothing behind them is made, emptied or written. */
TEST(links_are_not_written_through)
{
	struct cache *c;
	struct arena a = {0};
	struct blob text, before, after;
	static const char words[] = "somebody's letters, which are longer than the number of a process";
	make(below(fresh_dir() ? "other" : ""), 3);
	CHECK_OK(file_write(below("letter"), words, sizeof words));
	REQUIRE(mkdir(below("own"), 0755) == 0);
	static const char *const targets[] = {"letter", "nothing"};
	for (int i = 0; i < 2; i++) {
		REQUIRE(symlink(below(targets[i]), below("own/lock")) == 0);
		CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "lock");
		CHECK_OK(cache_open_memory(&c, below("own")));
		cache_close(c);
		CHECK(unlink(below("own/lock")) == 0);
	}
	CHECK(!file_exists(below("nothing")));
	REQUIRE(link(below("letter"), below("own/lock")) == 0);
	CHECK_OK(cache_open(&c, below("own"), false, 0));
	cache_close(c);
	CHECK_OK(file_read(&a, below("letter"), 0, &text));
	CHECK(text.n == sizeof words && !memcmp(text.p, words, sizeof words));
	CHECK(unlink(below("own/lock")) == 0 && mkfifo(below("own/lock"), 0600) == 0);
	CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "regular");
	CHECK(unlink(below("own/lock")) == 0);
	char segment[PATH_MAX];
	snprintf(segment, sizeof segment, "%s", file_of(below("other"), 0));
	for (int hard = 0; hard < 2; hard++) {
		CHECK_OK(file_read(&a, segment, 0, &before));
		REQUIRE((hard ? link : symlink)(segment, below("own/00000007.seg")) == 0);
		REQUIRE_OK(cache_open(&c, below("own"), false, 0));
		put_records(c, 3, 6);
		cache_close(c);
		CHECK_OK(file_read(&a, segment, 0, &after));
		CHECK(before.n == after.n && !memcmp(before.p, after.p, after.n));
		REQUIRE_OK(cache_open(&c, below("own"), true, 0));
		CHECK(check_records(c, 6) == 6);
		cache_close(c);
		CHECK(unlink(below("own/00000007.seg")) == 0);
	}
	arena_free(&a);
	remove_dir();
}

/* A number that was used for nothing (the disk was full for a moment) hides no later segment from a reader.
 */
static int no_create(const char *path, unsigned mode)
{
	(void)path, (void)mode;
	return -ENOSPC;
}

TEST(a_reader_follows_over_skipped_numbers)
{
	struct disk full = disk_system;
	struct cache *c, *reader;
	full.create = no_create;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	put_records(c, 0, 3);
	CHECK_OK(cache_commit(c));
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	for (int i = 1; i < 5; i++) {
		disk = &full;
		put_records(c, 3 + 20 * (i - 1), 3 + 20 * i);
		CHECK_FAILS(cache_commit(c), E_IO, "No space");
		disk = &disk_system;
		CHECK_OK(cache_commit(c));
		CHECK(cache_refresh(reader) > 0);
		CHECK(check_records(reader, 100) == 3 + 20 * i);
		CHECK(cache_refresh(reader) == 0);
	}
	cache_close(c);
	cache_close(reader);
	remove_dir();
}

/* Seeds that are empty or absent are no news; one that comes, or is replaced by another, is. */
TEST(seeds_that_come_and_go)
{
	char seeds[256];
	struct cache *c, *reader;
	REQUIRE(mkdir(below(fresh_dir() ? "empty" : ""), 0755) == 0);
	snprintf(seeds, sizeof seeds, "%s:%s", below("empty"), below("absent"));
	const struct cache_options o = {.seeds = seeds};
	make(below("own"), 3);
	make(below("donor"), 6);
	REQUIRE_OK(cache_open_with(&reader, below("own"), CACHE_READ, 0, &o));
	for (int i = 0; i < 3; i++)
		CHECK(cache_refresh(reader) == 0);
	REQUIRE_OK(cache_open_with(&c, below("donor"), CACHE_READ, 0, &(struct cache_options){.seeds = ""}));
	CHECK(cache_pack(c, below("empty/board.seg"), true) == 6);
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 6) == 6);
	make(below("more"), 9);
	REQUIRE_OK(cache_open_with(&c, below("more"), CACHE_READ, 0, &(struct cache_options){.seeds = ""}));
	CHECK(cache_pack(c, below("empty/board.seg"), true) == 9);
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 9) == 9);
	make(below("absent"), 12);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 12) == 12);
	cache_close(reader);
	remove_dir();
}

/* What is forgotten stays so when the seed that holds it is away while the cache is compacted. */
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
		CHECK(st.dead_bytes < 100); /* a mark */
		cache_close(c);
	}
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &with));
	CHECK(check_records(c, 3) == 2);
	cache_close(c);
	remove_dir();
}

/* ... but not without bound. */
TEST(what_is_forgotten_is_bounded)
{
	enum { N = 40000 };
	struct cache *c;
	struct cache_state st;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	for (int i = 0; i < N; i++) {
		struct key k = hash_bytes(&i, sizeof i, 5);
		CHECK_OK(cache_put(c, CACHE_HISTORY, k, "x", 1));
		CHECK_OK(cache_forget(c, CACHE_HISTORY, k));
	}
	CHECK_OK(cache_compact(c));
	cache_state(c, &st);
	CHECK(st.file_bytes < 33 * 16384 + 300 && st.file_bytes > 32 * 16384 && st.dead_bytes < 100);
	cache_close(c);
	remove_dir();
}

/* The generation does not fall where the folder becomes one that another user's is laid above. */
static int generation_as_somebody(const char *state, uint64_t before)
{
	struct cache *c;
	struct rec r = sample(1);
	if (setgid(65534) < 0 || setuid(65534) < 0 || cache_open(&c, state, false, 0) < 0)
		return 1;
	r.meas.min_ns = 7;
	bool right = cache_generation(c) == before && cache_put_rec(c, &r) >= 0 && cache_commit(c) >= 0 &&
		     cache_generation(c) == before + 1;
	cache_close(c);
	return right ? 0 : 2;
}

TEST(the_generation_does_not_fall)
{
	char state[160], user[160];
	struct cache *c;
	if (geteuid() != 0)
		SKIP("only root can be somebody else");
	snprintf(state, sizeof state, "%s/state", fresh_dir());
	snprintf(user, sizeof user, "%s/user", dir);
	REQUIRE(chmod(dir, 0755) == 0 && mkdir(user, 0777) == 0 && chmod(user, 0777) == 0);
	make(state, 200);
	REQUIRE_OK(cache_open(&c, state, true, 0));
	uint64_t generation = cache_generation(c);
	cache_close(c);
	setenv("XDG_CACHE_HOME", user, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(generation_as_somebody(state, generation));
	unsetenv("XDG_CACHE_HOME");
	int status = -1;
	CHECK(generation > 2 && waitpid(pid, &status, 0) == pid && status == 0);
	remove_dir();
}

/* A file for every five. */
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

/* With few descriptors left, readers miss what they cannot open, say so once, and find it when they can. A
 * writer that can open something throws nothing away. */
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

/* A record that was put while newer files could not be opened is newer than what is in them. */
TEST(what_is_put_beside_unopened_files)
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

/* The folder is removed, or moved away, under its writer: what comes later is kept in a new one, and nobody
 * else writes there meanwhile. */
TEST(the_folder_goes_away)
{
	char cmd[400];
	for (int moved = 0; moved < 2; moved++) {
		struct cache *c, *second;
		make(below(fresh_dir() ? "own" : ""), 3);
		REQUIRE_OK(cache_open(&c, below("own"), false, 0));
		put_records(c, 3, 6);
		CHECK_OK(cache_commit(c));
		snprintf(cmd, sizeof cmd, moved ? "mv %s %s" : "rm -rf %s", below("own"), below("away"));
		REQUIRE(system(cmd) == 0);
		put_records(c, 6, 9);
		REQUIRE_OK(cache_open(&second, below("own"), false, 0));
		CHECK_FAILS(cache_commit(c), E_IO, "in use by");
		CHECK(check_records(c, 9) == 9);
		cache_close(second);
		CHECK_OK(cache_commit(c));
		CHECK_FAILS(cache_open(&second, below("own"), false, 0), E_BUSY, "in use");
		cache_close(c);
		REQUIRE_OK(cache_open(&c, below("own"), true, 0));
		CHECK(check_records(c, 9) == 3);
		cache_close(c);
		if (moved) {
			REQUIRE_OK(cache_open(&c, below("away"), false, 0));
			CHECK(check_records(c, 9) == 6);
			cache_close(c);
		}
		remove_dir();
	}
}

/* What the clock says, and the times of files, decide nothing: it stands still, and jumps by decades. */
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

/* A file of a terabyte that holds nothing costs nobody the time to read it. */
TEST(a_sparse_file)
{
	struct cache *c;
	make(fresh_dir(), 3);
	int fd = open(below("big.seg"), O_WRONLY | O_CREAT, 0600), first = open(file_of(dir, 0), O_WRONLY);
	if (ftruncate(fd, (off_t)1 << 40) < 0)
		SKIP("no file of a terabyte can be made");
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

/* A lock that root left does not lock its folder's owner out. */
TEST(a_lock_of_somebody_else)
{
	struct cache *c;
	if (geteuid() != 0)
		SKIP("only root can be somebody else");
	make(fresh_dir(), 3);
	REQUIRE(chown(dir, 65534, 65534) == 0 && chmod(dir, 0755) == 0 && chmod(below("lock"), 0644) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		CHECK_OK(cache_open(&c, dir, false, 0));
		put_records(c, 3, 6);
		CHECK(!strcmp(cache_dir(c), dir));
		cache_close(c);
		_exit(test_bad);
	}
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, 6) == 6);
	cache_close(c);
	remove_dir();
}

/* The highest number that a file may have is taken: nothing is written that nobody would read. */
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
	cache_close(c);
	CHECK(lines_said() == 1);
	remove_dir();
}

/* A record that a cut has torn in two counts with its own bytes, and not with the zeros behind it. */
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

/* Bytes of memory that this process holds. */
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

/* In memory a key that is put again and again takes the place of one. */
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
		    cache_put(c, CACHE_HISTORY, hash_bytes(&key, sizeof key, 1), payload, BYTES - i % 7));
		CHECK_OK(cache_put(c, CACHE_TRIALS, hash_bytes(&key, sizeof key, 1), &i, sizeof i));
		if (i % 11 == 5)
			CHECK_OK(cache_forget(c, CACHE_TRIALS, hash_bytes(&key, sizeof key, 1)));
	}
	CHECK(resident() - before < 16 << 20);
	for (int i = N - KEYS; i < N; i++) {
		const int key = i % KEYS;
		int got = -1;
		CHECK_OK(cache_get(c, CACHE_HISTORY, hash_bytes(&key, sizeof key, 1), &a, &b));
		memcpy(&got, b.p, sizeof got);
		CHECK(got == i && b.n == (size_t)(BYTES - i % 7));
		int rc = cache_get(c, CACHE_TRIALS, hash_bytes(&key, sizeof key, 1), &a, &b);
		CHECK((rc == E_NOTFOUND) == (i % 11 == 5));
	}
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* Eviction at the cap holds one record in memory at a time, and where the copy fails nothing has left. */
TEST(eviction_that_fails_evicts_nothing)
{
	enum { N = 400, CODE = 3000 };
	static char code[CODE];
	const struct cache_options o = {.cap_bytes = 1 << 20, .segment_bytes = 64 << 10, .seeds = ""};
	struct disk full = disk_system;
	struct cache *c;
	struct cache_state st;
	full.create = no_create;
	int refused = 0;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	for (int i = 0; i < N && !test_bad; i++) {
		struct rec r = sample(i);
		disk = refused ? &full : &disk_system;
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

/* A mount that becomes read-only over the folder: what is learnt stays in memory and is written when it may
 * be. */
static int under_a_read_only_mount(void)
{
	struct cache *c;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mkdir(below("m"), 0755) < 0 || mount("none", below("m"), "tmpfs", 0, NULL) < 0)
		return 77;
	CHECK_OK(cache_open_with(&c, below("m/own"), CACHE_WRITE, 0, &small));
	put_records(c, 0, 20);
	CHECK_OK(cache_commit(c));
	/* The system refuses to remount what a writer has open; a read-only view above it is what can be had.
	 */
	CHECK(mount(below("m"), below("m"), NULL, MS_BIND, NULL) == 0 &&
	      mount(NULL, below("m"), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	put_records(c, 20, 60);
	CHECK_FAILS(cache_commit(c), E_IO, "read-only: mount it writable");
	CHECK_FAILS(cache_compact(c), E_IO, "read-only");
	CHECK(check_records(c, 60) == 60);
	struct cache *reader, *late;
	CHECK_OK(cache_open(&reader, below("m/own"), true, 0));
	CHECK(check_records(reader, 60) >= 20);
	setenv("XDG_CACHE_HOME", below("user"),
	       1); /* a writer that comes now has the user's folder above it */
	CHECK_OK(cache_open(&late, below("m/own"), false, 0));
	CHECK(strstr(cache_dir(late), "user") && check_records(late, 60) >= 20);
	put_records(late, 60, 61);
	CHECK_OK(cache_commit(late));
	cache_close(late);
	unsetenv("XDG_CACHE_HOME");
	CHECK(mount(NULL, below("m"), NULL, MS_REMOUNT | MS_BIND, NULL) == 0);
	CHECK_OK(cache_commit(c));
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && check_records(reader, 60) == 60);
	cache_close(reader);
	/* And a whole file system. */
	CHECK(umount(below("m")) == 0 && mount(NULL, below("m"), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHECK_OK(cache_open(&c, below("m/own"), true, 0));
	CHECK(check_records(c, 60) == 60);
	cache_close(c);
	CHECK(umount(below("m")) == 0);
	return test_bad;
}

TEST(a_read_only_remount)
{
	int status = -1;
	fresh_dir();
	pid_t pid = fork();
	if (pid == 0)
		_exit(under_a_read_only_mount());
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	remove_dir();
	if (WEXITSTATUS(status) == 77)
		SKIP("this process may not mount");
	CHECK(WEXITSTATUS(status) == 0);
}

TEST_MAIN
