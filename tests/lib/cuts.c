/* SPDX-License-Identifier: Apache-2.0 */
/* Power cuts of a block device (tests/sh/torture.sh). QEMU's blklogwrites logs all writes and flushes (in the
 * format of dm-log-writes). From the log, this program makes the device as a cut may have left it: all that
 * was flushed, and any subset of the rest in any order, whole or torn at 4 KiB. The kernel mounts it, which
 * replays its journal, and the cache in it is opened.
 *
 * cuts run DIR LOG ACKS COMMITS: fills a cache in DIR; a line of ACKS for each commit: its number, LOG's size
 * cuts cut BASE LOG ACKS MOUNT CUTS: makes cuts of BASE and LOG, mounts each at MOUNT, prints the result */
#include "agent/cache/cache.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "tests/lib/block_log.h"

#include <sys/stat.h>

enum { KEYS = 40, PER_COMMIT = 5, COMPACT_EVERY = 60 };

static const struct cache_options options = {.segment_bytes = 16 << 10, .seeds = ""};

static struct key key_of(int i)
{
	return mix_bytes(&i, sizeof i, 3);
}

static size_t payload(int key, int commit, char out[1024])
{
	struct rng r;
	rng_seed(&r, (uint64_t)commit * KEYS + (uint64_t)key);
	size_t n = 20 + rng_below(&r, 900);
	for (size_t i = 0; i < n; i++)
		out[i] = (char)rng_below(&r, 256);
	memcpy(out, &commit, sizeof commit);
	return n;
}

/* The last commit up to n that wrote the key; 0: none. */
static int last_commit(int key, int n)
{
	for (int i = n; i > 0; i--)
		for (int j = 0; j < PER_COMMIT; j++)
			if ((i * 7 + j) % KEYS == key)
				return i;
	return 0;
}

static int run_one(struct cache *c, int commit)
{
	char p[1024];
	int rc = E_OK;
	for (int j = 0; j < PER_COMMIT && rc >= 0; j++) {
		int key = (commit * 7 + j) % KEYS;
		rc = cache_put(c, CACHE_HISTORY, key_of(key), p, payload(key, commit, p));
	}
	if (rc >= 0 && commit % 3 == 0)
		rc = cache_put(c, CACHE_CODE, key_of(1000 + commit), p, 500);
	return rc < 0 ? rc : commit % COMPACT_EVERY ? cache_commit(c) : cache_compact(c);
}

static int run(const char *dir, const char *log, const char *acks, int commits)
{
	struct cache *c;
	struct stat st;
	FILE *f = fopen(acks, "w");
	int rc = f ? cache_open_with(&c, dir, CACHE_WRITE, 0, &options) : E_IO;
	for (int i = 1; i <= commits && rc >= 0; i++) {
		rc = run_one(c, i);
		if (rc >= 0 && stat(log, &st) == 0)
			fprintf(f, "%d %lld\n", i, (long long)st.st_size);
	}
	if (f)
		fclose(f);
	if (rc >= 0)
		cache_close(c);
	return rc;
}

struct found {
	int lost, wrong, refused, unmounted;
};

static void judge(const char *dir, int acked, int commits, struct found *f)
{
	struct cache *c;
	struct arena a = {0};
	char want[1024];
	if (cache_open_with(&c, dir, CACHE_WRITE, 0, &options) < 0) {
		f->refused++;
		return;
	}
	for (int key = 0; key < KEYS; key++) {
		struct blob b;
		int commit = 0;
		if (cache_get(c, CACHE_HISTORY, key_of(key), &a, &b) >= 0) {
			memcpy(&commit, b.p, sizeof commit);
			f->wrong += commit < 1 || commit > commits || payload(key, commit, want) != b.n ||
				    memcmp(b.p, want, b.n) != 0;
		}
		f->lost += commit < last_commit(key, acked);
	}
	cache_close(c);
	arena_free(&a);
}

static int one_cut(const struct block_device *d, int cut, const char *mount, struct rng *r, struct found *f)
{
	char path[64], cmd[512];
	char *image = malloc(d->base.n);
	if (!image)
		return fail(E_NOMEM, "no memory for an image");
	memcpy(image, d->base.p, d->base.n);
	block_image(d, cut, r, image);
	snprintf(path, sizeof path, "/dev/shm/hone-cut-%d.img", (int)getpid());
	bool ok = block_write(path, image, d->base.n) >= 0;
	free(image);
	snprintf(cmd, sizeof cmd, "mount -o loop %s %s 2>/dev/null", path, mount);
	if (!ok || system(cmd) != 0) {
		f->unmounted++;
		return E_OK;
	}
	snprintf(cmd, sizeof cmd, "%s/cache", mount);
	judge(cmd, block_acked(d, cut), d->ack[d->nacks - 1] + 1, f);
	snprintf(cmd, sizeof cmd, "umount %s", mount);
	ok = system(cmd) == 0;
	unlink(path);
	return ok ? E_OK : fail(E_IO, "cannot unmount %s", mount);
}

static int cut(char *const *arg, int cuts)
{
	static struct block_device d;
	struct arena a = {0};
	struct rng r;
	struct found f = {0};
	int rc = block_open(&d, &a, arg[0], arg[1], arg[2]);
	rng_seed(&r, 1);
	for (int i = 0; i < cuts && rc >= 0; i++)
		rc = one_cut(&d, (int)rng_below(&r, (uint32_t)d.n + 1), arg[3], &r, &f);
	arena_free(&a);
	if (rc < 0)
		return rc;
	printf(
	    "%d cuts of a block device (%d writes and flushes, %d acknowledged commits): %d lost, %d wrong "
	    "records, %d opens failed, %d not mounted\n",
	    cuts, d.n, d.nacks, f.lost, f.wrong, f.refused, f.unmounted);
	return f.lost || f.wrong || f.refused || f.unmounted ? fail(E_WRONG, "the cache lost something") : 0;
}

int main(int argc, char **argv)
{
	int rc = fail(E_USAGE, "cuts run DIR LOG ACKS COMMITS, or cuts cut BASE LOG ACKS MOUNT CUTS");
	log_level_set(LOG_QUIET);
	if (argc == 6 && !strcmp(argv[1], "run"))
		rc = run(argv[2], argv[3], argv[4], atoi(argv[5]));
	else if (argc == 7 && !strcmp(argv[1], "cut"))
		rc = cut(&argv[2], atoi(argv[6]));
	if (rc < 0)
		fprintf(stderr, "cuts: %s\n", err_text());
	return rc < 0;
}
