/* SPDX-License-Identifier: Apache-2.0 */
/* The cache after power cuts: runs are recorded, and for every point of them the states that a cut there may
 * leave are made and opened (tests/crash.h). TORTURE_STATES says how many (make torture: 20,000). */
#include "agent/cache.h"
#include "platform/log.h"
#include "tests/crash.h"

#include <dirent.h>

enum { KEYS = 24, PUTS = 260, SHARE = 1500 };

static bool no_crc; /* a broken cache */

/* In place of the library's; a bit at a time. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	crc = ~crc;
	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int b = 0; b < 8; b++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return no_crc ? 0 : ~crc;
}

/* What the run said, and when: how many operations on files came before it. */
struct said {
	int at;
	int key;     /* -1: everything before this was acknowledged */
	int version; /* 0: forgotten */
};

static struct said said[PUTS * 4];
static int nsaid;
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
	if (!mkdtemp(folder) || !mkdtemp(state))
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
	crash_forget();
}

static struct key key_of(int i, int version)
{
	const int v[2] = {i, version};
	return hash_bytes(v, sizeof v, 7);
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
	said[nsaid++] = (struct said){crash.n, key, version};
}

/* Code and record of a new version, or a forgotten key; now and then a commit, a compaction, or a new
 * process.
 */
static struct cache *one_put(struct cache *c, struct rng *r, int version)
{
	static const struct cache_options o = {.segment_bytes = 4096, .seeds = ""};
	char p[12000];
	int key = (int)rng_below(r, KEYS);
	if (rng_below(r, 12) == 0) {
		say(key, 0);
		CHECK_OK(cache_forget(c, CACHE_HISTORY, key_of(key, 0)));
	} else {
		size_t n = payload(key, version, p);
		if (key % 3 == 0)
			CHECK_OK(cache_put(c, CACHE_CODE, key_of(key, version), p, n));
		say(key, version);
		CHECK_OK(cache_put(c, CACHE_HISTORY, key_of(key, 0), p, n));
	}
	uint32_t what = rng_below(r, 60);
	if (what < 12)
		CHECK_OK(cache_commit(c));
	else if (what == 12)
		CHECK_OK(cache_compact(c));
	else if (what == 13)
		cache_close(c);
	if (what < 14)
		say(-1, 0);
	if (what == 13)
		CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &o));
	return c;
}

static void record(uint64_t seed)
{
	static const struct cache_options o = {.segment_bytes = 4096, .seeds = ""};
	struct cache *c;
	struct rng r;
	rng_seed(&r, seed);
	crash_forget();
	empty_dir(folder);
	nsaid = 0;
	disk = &crash_disk;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &o));
	for (int i = 1; i <= PUTS && !test_bad; i++)
		c = one_put(c, &r, i);
	cache_close(c);
	say(-1, 0);
	disk = &disk_system;
}

struct verdict {
	int states, lost, wrong, refused;
};

/* What was said of a key before the cut: all that counts comes after the last acknowledged version. Returns
 * whether `version` is possible. */
static bool allowed(int key, int version, int cut)
{
	bool ok = version == 0;
	int acked = -1;
	for (int i = 0; i < nsaid && said[i].at <= cut; i++)
		acked = said[i].key < 0 ? i : acked;
	for (int i = 0; i < nsaid && said[i].at <= cut; i++) {
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
		int version = 0;
		bool right = true;
		if (cache_get(c, CACHE_HISTORY, key_of(key, 0), &a, &b) >= 0) {
			memcpy(&version, b.p, sizeof version);
			right = version > 0 && version <= PUTS && payload(key, version, want) == b.n &&
				!memcmp(b.p, want, b.n);
		}
		v->wrong += !right;
		v->lost += right && !allowed(key, version, cut);
		/* No record before its code. */
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

/* Every point with everything kept and everything dropped, and others at random. */
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

/* The same harness finds out a cache that does not sync, */
TEST(a_cache_without_fsync_is_caught)
{
	make_dirs();
	crash.deaf = true;
	struct verdict v = torture(SHARE, 1);
	crash.deaf = false;
	CHECK(v.lost > 0);
	remove_dirs();
}

/* and one that does not check. */
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
