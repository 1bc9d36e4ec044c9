/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache after power cuts: runs are recorded, and for every point of them the states that a cut
 * there may leave are made and opened (tests/lib/crash.h). TORTURE_STATES sets their number (make torture:
 * 20,000). */
#include "agent/cache/cache.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "tests/lib/crash.h"
#include "tests/lib/silent.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { KEYS = 24, PUTS = 260, SHARE = 1500 };

static bool no_crc; /* true: a deliberately broken cache */

static uint32_t crc_table[256];

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		crc_table[i] = i;
		for (int b = 0; b < 8; b++)
			crc_table[i] = crc_table[i] >> 1 ^ (crc_table[i] & 1 ? UINT32_C(0x82f63b78) : 0);
	}
}

/* Replaces the library's. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = crc >> 8 ^ crc_table[(crc ^ p[i]) & 255];
	return no_crc ? 0 : ~crc;
}

/* What the run reported, and when: after how many operations on files. */
struct said {
	int at;
	int key;     /* -1: everything before this was acknowledged */
	int version; /* 0: forgotten */
};

enum { SAID = PUTS * 16 };
static struct words {
	struct said said[SAID];
	int n;
} * words;            /* shared with children */
static bool dying;    /* processes are killed meanwhile */
static bool careless; /* and their successors do not sync the files that they find: a deliberately broken
			 cache */
static int deaths;    /* number of killed processes */
static char folder[64], state[64];

static const char *shm(void)
{
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void make_dirs(void)
{
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	snprintf(folder, sizeof folder, "%s/hone-run-XXXXXX", shm());
	snprintf(state, sizeof state, "%s/hone-cut-XXXXXX", shm());
	words = mmap(NULL, sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!mkdtemp(folder) || !mkdtemp(state) || words == MAP_FAILED)
		abort();
}

static void empty_dir(const char *path)
{
	char file[PATH_MAX];
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && snprintf(file, sizeof file, "%s/%s", path, e->d_name) > 0)
			unlink(file);
	if (d)
		closedir(d);
}

static void remove_dirs(void)
{
	empty_dir(folder);
	empty_dir(state);
	rmdir(folder);
	rmdir(state);
	munmap(words, sizeof *words);
	crash_forget();
}

static struct key key_of(int i, int version)
{
	const int v[2] = {i, version};
	return mix_bytes(v, sizeof v, 7);
}

/* The payload of a key's version; a few are larger than a segment. */
static size_t payload(int key, int version, char out[12000])
{
	struct rng r;
	rng_seed(&r, (uint64_t)(key * 1000 + version));
	size_t n = 20 + rng_below(&r, rng_below(&r, 20) ? 400 : 11000);
	for (size_t i = 0; i < n; i++)
		out[i] = (char)rng_below(&r, 256);
	memcpy(out, &version, sizeof version);
	return n;
}

static void say(int key, int version)
{
	if (words->n == SAID)
		abort();
	words->said[words->n++] = (struct said){crash.n, key, version};
}

static void done(int rc)
{
	if (rc < 0 && !crash.dead)
		CHECK_OK(rc);
}

static const struct cache_options options = {.segment_bytes = 4096, .seeds = ""};

/* Puts code and record of a new version, or forgets a key; now and then commits, compacts, or starts a new
 * process, which leaves the commit to the close. NULL: the process died in that. */
static struct cache *one_put(struct cache *c, struct rng *r, int version)
{
	char p[12000];
	int key = (int)rng_below(r, KEYS);
	if (rng_below(r, 12) == 0) {
		say(key, 0);
		done(cache_forget(c, CACHE_HISTORY, key_of(key, 0)));
	} else {
		size_t n = payload(key, version, p);
		if (key % 3 == 0)
			done(cache_put(c, CACHE_CODE, key_of(key, version), p, n));
		say(key, version);
		done(cache_put(c, CACHE_HISTORY, key_of(key, 0), p, n));
	}
	uint32_t what = rng_below(r, 60);
	if (what < 12)
		done(cache_commit(c));
	else if (what == 12)
		done(cache_compact(c));
	else if (what == 13)
		close_silently(c);
	if (what < 14 && !crash.dead)
		say(-1, 0);
	if (what != 13)
		return c;
	c = NULL;
	if (!crash.dead)
		done(cache_open_with(&c, folder, CACHE_WRITE, 0, &options));
	return c;
}

static int version_of(struct cache *c, int key, struct blob *b, struct arena *a)
{
	int version = 0;
	if (cache_get(c, CACHE_HISTORY, key_of(key, 0), a, b) >= 0)
		memcpy(&version, b->p, sizeof version);
	return version;
}

/* The process was killed: its memory and its lock are gone, its writes are there. The next process may report
 * as durable what it reads. */
static struct cache *next_process(struct cache *dead)
{
	struct cache *c = NULL;
	struct arena a = {0};
	struct blob b;
	close_silently(dead);
	crash.dead = false;
	crash.dies_at = 0;
	deaths++;
	crash.deaf = careless;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &options));
	crash.deaf = false;
	for (int key = 0; key < KEYS && c; key++)
		say(key, version_of(c, key, &b, &a));
	arena_free(&a);
	return c;
}

static void record(uint64_t seed)
{
	struct cache *c;
	struct rng r;
	rng_seed(&r, seed);
	crash_forget();
	empty_dir(folder);
	words->n = 0;
	disk = &crash_disk;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &options));
	for (int i = 1; i <= PUTS && !test_bad; i++) {
		if (dying && !crash.dies_at)
			crash.dies_at = crash.n + 1 + (int)rng_below(&r, 50);
		c = one_put(c, &r, i);
		if (crash.dead)
			c = next_process(c);
	}
	crash.dies_at = 0;
	cache_close(c);
	say(-1, 0);
	disk = &disk_system;
}

struct verdict {
	int states, lost, wrong, refused;
};

/* Returns whether a key may have `version` after the cut: the last acknowledged version or any later one. */
static bool allowed(int key, int version, int cut)
{
	bool ok = version == 0;
	int acked = -1;
	const struct said *said = words->said;
	for (int i = 0; i < words->n && said[i].at <= cut; i++)
		acked = said[i].key < 0 ? i : acked;
	for (int i = 0; i < words->n && said[i].at <= cut; i++) {
		if (said[i].key != key)
			continue;
		ok = said[i].version == version || (i > acked && ok);
	}
	return ok;
}

static void judge(struct cache *c, int cut, struct verdict *v)
{
	struct arena a = {0};
	char want[12000];
	for (int key = 0; key < KEYS; key++) {
		struct blob b;
		int version = version_of(c, key, &b, &a);
		bool right = !version || (version > 0 && version <= PUTS &&
					  payload(key, version, want) == b.n && !memcmp(b.p, want, b.n));
		v->wrong += !right;
		v->lost += right && !allowed(key, version, cut);
		/* No record is found without its code. */
		if (right && version && key % 3 == 0 &&
		    cache_get(c, CACHE_CODE, key_of(key, version), &a, &b) < 0)
			v->lost++;
	}
	arena_free(&a);
}

static bool goes_on(void)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	struct key k = hash_text("after the cut");
	if (cache_open(&c, state, false, 0) < 0)
		return false;
	bool ok = cache_put(c, CACHE_CHOICES, k, "on", 2) >= 0 && cache_commit(c) >= 0;
	cache_close(c);
	if (cache_open(&c, state, true, 0) < 0)
		return false;
	ok = ok && cache_get(c, CACHE_CHOICES, k, &a, &b) >= 0;
	cache_close(c);
	arena_free(&a);
	return ok;
}

static void cut_at(int cut, enum crash_how how, struct rng *r, struct verdict *v)
{
	struct cache *c;
	empty_dir(state);
	crash_make(state, cut, how, r);
	v->states++;
	if (cache_open(&c, state, v->states % 2, 0) < 0) {
		v->refused++;
		return;
	}
	judge(c, cut, v);
	cache_close(c);
	if (v->states % 16 == 0)
		v->refused += !goes_on();
}

/* Cuts at every point with all writes kept and all dropped, and others at random. */
static struct verdict torture(int states, uint64_t seed)
{
	struct verdict v = {0};
	struct rng r;
	rng_seed(&r, seed);
	for (int run = 0; v.states < states && !test_bad; run++) {
		record(seed + (uint64_t)run);
		for (int cut = 0; cut <= crash.n; cut++)
			for (int how = 0; how < CUT_HOWS; how++)
				if (how < CUT_TEARS_512 || rng_below(&r, 3))
					cut_at(cut, (enum crash_how)how, &r, &v);
	}
	return v;
}

static int states_wanted(void)
{
	const char *text = getenv("TORTURE_STATES");
	return text ? atoi(text) : SHARE;
}

TEST(power_cuts)
{
	make_dirs();
	struct verdict v = torture(states_wanted(), 1);
	printf("%d crash states: %d acknowledged batches lost, %d wrong records, %d opens failed\n", v.states,
	       v.lost, v.wrong, v.refused);
	CHECK(v.states >= states_wanted() && !v.lost && !v.wrong && !v.refused);
	remove_dirs();
}

/* Processes are killed between their calls, and others continue with their files; then the power is cut. */
TEST(power_cuts_after_kills)
{
	make_dirs();
	dying = true;
	deaths = 0;
	struct verdict v = torture(states_wanted() / 2, 1000);
	dying = false;
	printf("%d crash states after %d kills: %d acknowledged batches lost, %d wrong records, %d opens "
	       "failed\n",
	       v.states, deaths, v.lost, v.wrong, v.refused);
	CHECK(deaths > 3 && !v.lost && !v.wrong && !v.refused);
	remove_dirs();
}

/* A process that is really killed before its k-th call, or in the middle of a write. */
static struct {
	int calls, at;
} killed;

static bool kills(void)
{
	return killed.calls++ == killed.at;
}

static int kill_create(const char *path, unsigned mode)
{
	return kills() ? raise(SIGKILL) : disk_system.create(path, mode);
}

static int kill_write(int fd, const void *p, size_t n, int64_t at)
{
	bool now = kills();
	int rc = disk_system.write(fd, p, now ? n / 2 : n, at);
	return now ? raise(SIGKILL) : rc;
}

static int kill_sync(int fd)
{
	return kills() ? raise(SIGKILL) : disk_system.sync(fd);
}

static int kill_rename(const char *from, const char *to)
{
	return kills() ? raise(SIGKILL) : disk_system.rename(from, to);
}

static int kill_unlink(const char *path)
{
	return kills() ? raise(SIGKILL) : disk_system.unlink(path);
}

static int kill_sync_dir(const char *path)
{
	return kills() ? raise(SIGKILL) : disk_system.sync_dir(path);
}

static int64_t kill_read(int fd, void *p, size_t n, int64_t at)
{
	return disk_system.read(fd, p, n, at);
}

static const struct disk killing_disk = {
    kill_create, kill_write, kill_read, kill_sync, kill_rename, kill_unlink, kill_sync_dir,
};

static void write_until_killed(int at, int puts)
{
	struct cache *c;
	struct rng r;
	rng_seed(&r, 5);
	killed.calls = 0, killed.at = at;
	disk = &killing_disk;
	if (cache_open_with(&c, folder, CACHE_WRITE, 0, &options) < 0)
		_exit(2);
	for (int i = 1; i <= puts; i++)
		c = one_put(c, &r, i);
	cache_close(c);
	_exit(test_bad);
}

TEST(killed_at_every_call)
{
	struct verdict v = {0};
	int status = -1, puts = states_wanted() > SHARE ? PUTS : 80;
	make_dirs();
	for (int at = 0; !WIFEXITED(status) && !test_bad; at++) {
		struct cache *c;
		empty_dir(folder);
		words->n = 0;
		pid_t pid = fork();
		if (pid == 0)
			write_until_killed(at, puts);
		CHECK(waitpid(pid, &status, 0) == pid);
		v.states++;
		if (cache_open_with(&c, folder, CACHE_WRITE, 0, &options) < 0) {
			v.refused++;
			continue;
		}
		judge(c, 0, &v);
		cache_close(c);
	}
	printf("%d kills: %d acknowledged batches lost, %d wrong records, %d opens failed\n", v.states,
	       v.lost, v.wrong, v.refused);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(v.states > puts && !v.lost && !v.wrong && !v.refused);
	remove_dirs();
}

/* The same harness detects a cache that does not sync. */
TEST(a_cache_without_fsync_is_caught)
{
	make_dirs();
	crash.deaf = true;
	struct verdict v = torture(SHARE, 1);
	crash.deaf = false;
	CHECK(v.lost > 0);
	remove_dirs();
}

/* It detects a cache that takes a dead process's writes for durable. */
TEST(a_cache_that_trusts_the_dead_is_caught)
{
	make_dirs();
	dying = careless = true;
	struct verdict v = torture(SHARE, 1000);
	dying = careless = false;
	CHECK(v.lost > 0);
	remove_dirs();
}

/* It detects a cache that does not check CRCs. */
TEST(a_cache_without_crc_is_caught)
{
	make_dirs();
	no_crc = true;
	struct verdict v = torture(SHARE, 1);
	no_crc = false;
	CHECK(v.wrong > 0);
	remove_dirs();
}

TEST_MAIN
