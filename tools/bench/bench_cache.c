/* SPDX-License-Identifier: Apache-2.0 */
/* The cache on flash: bytes that reach the device per record, time to open 100,000 records, time to find one.
 * If this process may mount one, the device is an ext4 file system of its own on a loop device, and the bytes
 * include the file system's journal. Else /proc/self/io tells how many bytes this process dirtied. */
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "platform/base/mix.h"
#include "agent/cache/json.h"
#include "tools/hone/cmd.h"
#include "platform/base/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_BYTES = 212, BATCH = 64, WRITTEN = 2000, MANY = 100000, OPENINGS = 9, LOOKUPS = 200000 };

struct device {
	char dir[128], image[160], loop[64];
	bool mounted;
};

static bool run(const char *format, const char *a, const char *b)
{
	char cmd[512];
	snprintf(cmd, sizeof cmd, format, a, b);
	return system(cmd) == 0;
}

static void loop_of(struct device *d)
{
	char cmd[256];
	snprintf(cmd, sizeof cmd, "losetup -j %s | cut -d: -f1", d->image);
	FILE *f = popen(cmd, "r");
	if (f && fscanf(f, "/dev/%63s", d->loop) != 1)
		d->loop[0] = 0;
	if (f)
		pclose(f);
}

static void mount_device(struct device *d)
{
	snprintf(d->image, sizeof d->image, "%s.img", d->dir);
	d->mounted = geteuid() == 0 && run("truncate -s 256M %s", d->image, "") &&
		     run("mkfs.ext4 -q -F %s 2>/dev/null", d->image, "") &&
		     run("mount -o loop,noatime %s %s 2>/dev/null", d->image, d->dir);
	if (d->mounted)
		loop_of(d);
}

static void unmount_device(const struct device *d)
{
	if (d->mounted)
		run("umount %s", d->dir, "");
	run("rm -rf %s %s", d->dir, d->image);
}

/* Bytes written so far: to the device, or by this process. */
static int64_t bytes_written(const struct device *d)
{
	char path[128];
	long long n = -1;
	snprintf(path, sizeof path, d->loop[0] ? "/sys/block/%s/stat" : "/proc/self/io", d->loop);
	sync();
	FILE *f = fopen(path, "re");
	if (f && d->loop[0] && fscanf(f, "%*d %*d %*d %*d %*d %*d %lld", &n) == 1)
		n *= 512;
	char word[32];
	while (f && !d->loop[0] && fscanf(f, "%31s %lld", word, &n) == 2 && strcmp(word, "write_bytes:"))
		;
	if (f)
		fclose(f);
	return n;
}

static int fill(const char *dir, int n)
{
	char payload[RECORD_BYTES];
	struct cache *c;
	int rc = cache_open(&c, dir, false, 0);
	for (int i = 0; i < n && rc >= 0; i++) {
		memset(payload, 'a' + i % 26, sizeof payload);
		rc = cache_put(c, CACHE_HISTORY, mix_bytes(&i, sizeof i, 0), payload, sizeof payload);
	}
	if (rc >= 0)
		cache_close(c);
	return rc;
}

struct figures {
	double bytes, own_bytes; /* bytes per record: on the device, and by the cache's own count */
	double open_ms, find_us, index_mb;
};

static int measure_bytes(const struct device *d, struct figures *f)
{
	char dir[160];
	struct cache *c;
	struct cache_state s;
	snprintf(dir, sizeof dir, "%s/few", d->dir);
	int64_t before = bytes_written(d);
	int rc = fill(dir, WRITTEN);
	f->bytes = (double)(bytes_written(d) - before) / WRITTEN;
	if (rc >= 0)
		rc = cache_open(&c, dir, true, 0);
	if (rc < 0)
		return rc;
	cache_state(c, &s);
	f->own_bytes = (double)s.written_bytes / WRITTEN;
	cache_close(c);
	return rc;
}

static int measure_times(const struct device *d, struct figures *f)
{
	char dir[160];
	struct cache *c = NULL;
	struct arena a = {0};
	struct blob b;
	double ms[OPENINGS];
	snprintf(dir, sizeof dir, "%s/many", d->dir);
	int rc = fill(dir, MANY);
	for (int i = 0; i < OPENINGS && rc >= 0; i++) {
		cache_close(c);
		int64_t start = clock_now(&clock_real);
		rc = cache_open(&c, dir, true, 0);
		ms[i] = (double)(clock_now(&clock_real) - start) / 1e6;
	}
	if (rc < 0)
		return rc;
	int64_t start = clock_now(&clock_real);
	for (int i = 0; i < LOOKUPS && rc >= 0; i++) {
		int k = (int)((int64_t)i * 7919 % MANY);
		arena_reset(&a);
		rc = cache_get(c, CACHE_HISTORY, mix_bytes(&k, sizeof k, 0), &a, &b);
	}
	struct cache_state s;
	cache_state(c, &s);
	f->find_us = (double)(clock_now(&clock_real) - start) / 1e3 / LOOKUPS;
	f->open_ms = stats_median(ms, OPENINGS);
	f->index_mb = (double)s.index_bytes / 1e6;
	arena_free(&a);
	cache_close(c);
	return rc;
}

static int run_bench(const struct args *a)
{
	struct device d = {.dir = "/tmp/hone-bench-XXXXXX"};
	struct figures f = {0};
	if (!mkdtemp(d.dir))
		return fail(E_IO, "cannot make a folder in /tmp");
	setenv("HONE_SEEDS", "", 1);
	mount_device(&d);
	int rc = measure_bytes(&d, &f);
	if (rc >= 0)
		rc = measure_times(&d, &f);
	unmount_device(&d);
	if (rc < 0)
		return rc;
	const char *where = d.loop[0] ? "ext4 on a loop device, with its journal" : "/proc/self/io";
	if (a->json)
		return json_out(json_pack("{ss sf sf sf sf sf}", "where", where, "bytes", f.bytes,
					  "own_bytes", f.own_bytes, "open_ms", f.open_ms, "find_us",
					  f.find_us, "index_mb", f.index_mb));
	printf("written    %.0f bytes for a record of %d bytes, in batches of %d: %.2f times its size (%s); "
	       "counted by the cache: %.0f\n",
	       f.bytes, RECORD_BYTES, BATCH, f.bytes / RECORD_BYTES, where, f.own_bytes);
	printf("open       %.1f ms for %d records, with warm page cache; index %.1f MB\n", f.open_ms, MANY,
	       f.index_mb);
	printf("look-up    %.2f us\n", f.find_us);
	return 0;
}

static const struct opt opts[] = {{NULL}};

static const struct cmd bench_cache = {
    .usage = "",
    .summary = "measure bytes written per record, and the times to open a cache and to find a record",
    .details = "",
    .opts = opts,
    .run = run_bench,
    .name = "bench-cache",
};

int main(int argc, char **argv)
{
	return cmd_main(&bench_cache, argc, argv);
}
