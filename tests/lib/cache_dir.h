/* SPDX-License-Identifier: Apache-2.0 */
/* A cache in a folder of its own, and records to put into it. */
#ifndef TESTS_CACHE_DIR_H
#define TESTS_CACHE_DIR_H

#include "agent/cache/cache.h"
#include "agent/cache/segment.h"
#include "platform/base/disk.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "search/job.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static inline const char *fresh_dir(void)
{
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	/* Tests sync thousands of times, so the folder is in memory if possible. */
	snprintf(dir, sizeof dir, "%s/hone-cache-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	return dir;
}

static inline void remove_dir(void)
{
	char cmd[128];
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	CHECK(system(cmd) == 0);
}

/* Path of the cache's i-th file in the order of names; "": none. */
static inline const char *file_of(const char *folder, size_t i)
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

static inline int files_of(const char *folder)
{
	int n = 0;
	while (*file_of(folder, (size_t)n))
		n++;
	return n;
}

/* Small segments, so that few records fill several of them. */
static const struct cache_options small = {.segment_bytes = 4096};

static inline struct rec sample(int i)
{
	struct rec r = {
	    .task = mix_bytes(&i, sizeof i, 0),
	    .kind = REC_BEST,
	    .target_key = hash_text("board"),
	    .threads = 2,
	    .level = true,
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

static inline bool same_rec(const struct rec *a, const struct rec *b)
{
	struct buf x = {0}, y = {0};
	rec_text(a, &x);
	rec_text(b, &y);
	bool same = !strcmp(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	return same;
}

/* Checks that each record is right or a miss; returns how many were found. */
static inline int check_records(struct cache *c, int nrecs)
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

static inline void write_bytes(const char *path, const char *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	CHECK(pwrite(fd, bytes, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0);
	close(fd);
}

static inline void put_records(struct cache *c, int from, int to)
{
	for (int i = from; i < to; i++) {
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
	}
}

/* Makes a cache with the first n records. */
static inline void make(const char *folder, int n)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	put_records(c, 0, n);
	cache_close(c);
}

/* Path of `name` in the folder; the last four results are valid. */
static inline const char *below(const char *name)
{
	static char path[4][160];
	static int turn;
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof *path, "%s/%s", dir, name);
	return path[turn];
}

/* disk.create of a full disk. */
static inline int no_create(const char *path, unsigned mode)
{
	(void)path, (void)mode;
	return -ENOSPC;
}

#endif
