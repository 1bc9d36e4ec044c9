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
#include "platform/base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS = 40, PER_COMMIT = 5, COMPACT_EVERY = 60, TEAR = 4096, ACKS = 100000 };
enum { FLAG_FLUSH = 1, FLAG_FUA = 2, FLAG_DISCARD = 4, FLAG_MARK = 8 };
#define LOG_MAGIC UINT64_C(0x6a736677736872)

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

struct entry {
	uint64_t at, n, flags; /* bytes of the device */
	const char *data;      /* NULL: no data */
	uint64_t end;          /* offset in the log */
};

struct device {
	struct blob base, log;
	struct entry *entry;
	int n;
	int ack[ACKS];
	long long ack_at[ACKS];
	int nacks;
};

static int parse_log(struct device *d, struct arena *a)
{
	struct cur c = {.p = d->log.p, .n = d->log.n};
	uint64_t magic = cur_u64(&c);
	cur_u64(&c);
	uint64_t n = cur_u64(&c), sector = cur_u32(&c);
	if (c.bad || magic != LOG_MAGIC || n > d->log.n || sector < 512 || sector > 4096)
		return fail(E_CORRUPT, "no log of writes");
	d->entry = ARENA_ARRAY(a, struct entry, n + 1);
	c.at = sector;
	for (uint64_t i = 0; i < n && !c.bad; i++) {
		struct entry *e = &d->entry[i];
		size_t from = c.at;
		e->at = cur_u64(&c) * sector;
		e->n = cur_u64(&c) * sector;
		e->flags = cur_u64(&c);
		c.at = from + sector;
		if (!(e->flags & (FLAG_DISCARD | FLAG_MARK)) && e->n)
			e->data = cur_bytes(&c, e->n);
		e->end = c.at;
		if (c.bad || e->at + e->n > d->base.n)
			return fail(E_CORRUPT, "entry %llu of the log is cut off", (unsigned long long)i);
		d->n++;
	}
	return E_OK;
}

static void apply(char *image, const struct entry *e, bool torn, struct rng *r)
{
	if (e->flags & FLAG_DISCARD)
		memset(image + e->at, 0, e->n);
	for (uint64_t at = 0; e->data && at < e->n; at += TEAR) {
		uint64_t n = e->n - at < TEAR ? e->n - at : TEAR;
		if (!torn || rng_below(r, 2))
			memcpy(image + e->at + at, e->data + at, n);
	}
}

/* Applies what a cut before entry `cut` leaves; `image` begins as a copy of the base. */
static void make_image(const struct device *d, int cut, struct rng *r, char *image)
{
	int flushed = 0;
	for (int i = 0; i < cut; i++)
		if (d->entry[i].flags & FLAG_FLUSH)
			flushed = i;
	uint32_t how = rng_below(r, 4); /* it keeps all writes that were not flushed (0), none (1), or some */
	for (int i = 0; i < cut; i++) {
		const struct entry *e = &d->entry[i];
		bool durable = i <= flushed || e->flags & FLAG_FUA;
		if (durable || how == 0 || (how > 1 && rng_below(r, 2)))
			apply(image, e, !durable && how == 3 && rng_below(r, 3) == 0, r);
	}
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

static int one_cut(const struct device *d, int cut, const char *mount, struct rng *r, struct found *f)
{
	char path[64], cmd[512];
	int acked = 0;
	for (int i = 0; i < d->nacks; i++)
		if (cut > 0 && d->ack_at[i] <= (long long)d->entry[cut - 1].end)
			acked = d->ack[i];
	char *image = malloc(d->base.n);
	if (!image)
		return fail(E_NOMEM, "no memory for an image");
	memcpy(image, d->base.p, d->base.n);
	make_image(d, cut, r, image);
	snprintf(path, sizeof path, "/dev/shm/hone-cut-%d.img", (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool ok = fd >= 0 && write(fd, image, d->base.n) == (ssize_t)d->base.n;
	if (fd >= 0)
		close(fd);
	free(image);
	snprintf(cmd, sizeof cmd, "mount -o loop %s %s 2>/dev/null", path, mount);
	if (!ok || system(cmd) != 0) {
		f->unmounted++;
		return E_OK;
	}
	snprintf(cmd, sizeof cmd, "%s/cache", mount);
	judge(cmd, acked, d->ack[d->nacks - 1] + 1, f);
	snprintf(cmd, sizeof cmd, "umount %s", mount);
	ok = system(cmd) == 0;
	unlink(path);
	return ok ? E_OK : fail(E_IO, "cannot unmount %s", mount);
}

static int cut(char *const *arg, int cuts)
{
	static struct device d;
	struct arena a = {0};
	struct rng r;
	struct found f = {0};
	int rc = file_read(&a, arg[0], 0, &d.base);
	if (rc >= 0)
		rc = file_read(&a, arg[1], 0, &d.log);
	if (rc >= 0)
		rc = parse_log(&d, &a);
	FILE *acks = rc < 0 ? NULL : fopen(arg[2], "r");
	while (acks && d.nacks < ACKS && fscanf(acks, "%d %lld", &d.ack[d.nacks], &d.ack_at[d.nacks]) == 2)
		d.nacks++;
	if (acks)
		fclose(acks);
	if (rc >= 0 && !d.nacks)
		rc = fail(E_CORRUPT, "nothing was acknowledged");
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
