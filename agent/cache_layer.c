/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache_parts.h"
#include "platform/disk.h"
#include "platform/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 8, SCAN_NAME = 63 };

/* The names of a folder's segments, sorted; ones that are too long are not ours. */
struct names {
	char (*name)[SCAN_NAME + 1];
	int n, cap;
};

static bool is_segment(const char *name)
{
	size_t n = strlen(name);
	return n <= SCAN_NAME &&
	       ((n > 4 && name[0] != '.' && !strcmp(name + n - 4, ".seg")) || !strcmp(name, CACHE_OLD_FILE));
}

static int names_add(struct names *l, const char *name)
{
	if (l->n >= MAX_SEGS / MAX_LAYERS)
		return fail(E_CORRUPT, "it holds too many files");
	if (l->n == l->cap) {
		int cap = l->cap ? l->cap * 2 : 16;
		void *more = realloc(l->name, (size_t)cap * sizeof *l->name);
		if (!more)
			return fail(E_NOMEM, "no memory to list the cache");
		l->name = more;
		l->cap = cap;
	}
	memset(l->name[l->n], 0, sizeof *l->name);
	snprintf(l->name[l->n++], sizeof *l->name, "%s", name);
	return E_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* An absent folder has none. */
static int list(const char *dir, struct names *l)
{
	DIR *d = opendir(dir);
	l->n = 0;
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? E_OK
							   : fail(E_IO, "cache %s: %s", dir, strerror(errno));
	int rc = E_OK;
	for (struct dirent *e; rc >= 0 && (e = readdir(d));)
		if (is_segment(e->d_name))
			rc = names_add(l, e->d_name);
	closedir(d);
	if (l->n)
		qsort(l->name, (size_t)l->n, sizeof *l->name, by_name);
	return fail_in(rc, "cache %s", dir);
}

static bool same_names(const struct names *a, const struct names *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->name, b->name, (size_t)a->n * sizeof *a->name));
}

/* Root, this process's user and the daemon's. /etc/passwd itself is read: other ways to ask may wait for a
 * network. */
static bool one_of_us(uid_t uid)
{
	if (uid == 0 || uid == geteuid())
		return true;
	FILE *f = fopen("/etc/passwd", "re");
	bool hone = false;
	for (struct passwd *p; f && (p = fgetpwent(f));)
		hone |= p->pw_uid == uid && !strcmp(p->pw_name, "hone");
	if (f)
		fclose(f);
	return hone;
}

static bool others_write(const struct stat *st)
{
	bool open = st->st_mode & 022 && !(S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX);
	return open || !one_of_us(st->st_uid);
}

static bool is_foreign(const struct seg *s, const char *dir)
{
	struct stat file, folder;
	return fstat(s->fd, &file) < 0 || stat(dir, &folder) < 0 || others_write(&file) ||
	       others_write(&folder);
}

unsigned cache_file_mode(const char *dir)
{
	struct stat st;
	return stat(dir, &st) == 0 ? 0600 | (st.st_mode & 044) : 0600;
}

bool cache_top_seg(const struct cache *c, const struct seg *s)
{
	return s->fd >= 0 && s->layer == c->nlayers - 1;
}

int cache_seg_add(struct cache *c, const struct seg *s)
{
	int at = 0;
	while (at < c->nsegs && c->seg[at].fd >= 0)
		at++;
	if (at == MAX_SEGS)
		return fail(E_UNSUPPORTED, "the cache has too many files");
	if (at == c->nsegs) {
		struct seg *more = realloc(c->seg, (size_t)(at + 1) * sizeof *more);
		if (!more)
			return fail(E_NOMEM, "no memory for the cache's files");
		c->seg = more;
		c->nsegs++;
	}
	c->seg[at] = *s;
	return at;
}

static void close_layer(struct cache *c, int layer)
{
	for (int i = 0; i < c->nsegs; i++)
		if (c->seg[i].layer == layer)
			seg_close(&c->seg[i]);
}

void cache_layers_close(struct cache *c)
{
	for (int i = 0; i < c->nlayers; i++)
		close_layer(c, i);
	free(c->seg);
	c->seg = NULL;
	c->nsegs = 0;
}

static uint64_t number_of(const char *name)
{
	char *end;
	unsigned long long n = strtoull(name, &end, 16);
	return end > name && !strcmp(end, ".seg") && n < SEG_NUMBERS ? n : 0;
}

/* Opens what is named. Returns 1 where one went away meanwhile, or leads nowhere. */
static int open_named(struct cache *c, int layer, const struct names *l)
{
	struct layer *of = &c->layer[layer];
	int gone = 0;
	for (int i = 0; i < l->n; i++) {
		struct seg s;
		uint64_t number = number_of(l->name[i]);
		of->last = number > of->last ? number : of->last;
		int rc = seg_open(of->dir, l->name[i], c->lock_fd >= 0 && layer == c->nlayers - 1, &s);
		gone |= rc == E_NOTFOUND;
		if (rc == E_NOTFOUND)
			continue;
		if (rc == E_NOMEM || rc == E_USAGE)
			return rc;
		of->unread |= rc == E_IO;
		if (rc < 0) {
			log_info("hone: %s: it is passed over", err_text());
			continue;
		}
		of->last = s.number > of->last ? s.number : of->last;
		s.layer = layer;
		s.foreign = is_foreign(&s, of->dir);
		rc = cache_seg_add(c, &s);
		if (rc < 0) {
			seg_close(&s);
			return rc;
		}
	}
	return gone;
}

/* Opens a folder's segments. It is listed again afterwards: a writer may have replaced them meanwhile, and a
 * listing during that may show neither the old nor the new. After some tries what there is has to do. */
static int open_layer(struct cache *c, int layer)
{
	struct names l = {0}, again = {0};
	const char *dir = c->layer[layer].dir;
	int rc = E_OK, gone = 0;
	for (int i = 0; i < TRIES; i++) {
		close_layer(c, layer);
		c->layer[layer].unread = false;
		rc = list(dir, &l);
		gone = rc < 0 ? rc : open_named(c, layer, &l);
		rc = gone < 0 ? gone : list(dir, &again);
		if (rc < 0 || (!gone && same_names(&l, &again)))
			break;
	}
	c->layer[layer].unread |= gone > 0;
	free(l.name);
	free(again.name);
	return rc;
}

/* Packs lie below what this folder's writer made. Records are read before code: it is written before them, so
 * whoever reads them in this order meets no record before its code. */
static int by_number(const void *a, const void *b)
{
	static const int order[] = {[SEG_MIXED] = 0, [SEG_RECORDS] = 1, [SEG_CODE] = 2};
	const struct seg *x = a, *y = b;
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->kind != y->kind)
		return order[x->kind] < order[y->kind] ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Those that another one replaces do not count; the writer removes them. A stranger's file replaces none of
 * ours. */
static void drop_replaced(struct cache *c)
{
	for (int i = 0; i < c->nsegs; i++)
		for (int j = 0; j < c->nsegs && c->seg[i].fd >= 0; j++) {
			struct seg *old = &c->seg[i], *by = &c->seg[j];
			char path[PATH_MAX];
			if (by->fd < 0 || by->layer != old->layer || by->kind != old->kind ||
			    old->number >= by->replaces || (by->foreign && !old->foreign))
				continue;
			if (c->lock_fd >= 0 && cache_top_seg(c, old) &&
			    snprintf(path, sizeof path, "%s/%s", c->layer[old->layer].dir, old->name) <
				(int)sizeof path)
				disk->unlink(path);
			seg_close(old);
		}
}

struct scan {
	struct cache *c;
	int seg;
};

static int scanned(void *ctx, const struct head *h, const uint8_t *payload, int64_t at)
{
	struct scan *s = ctx;
	return cache_index(s->c, s->seg, h, payload, at);
}

static int scan(struct cache *c, int seg, bool all)
{
	struct scan ctx = {c, seg};
	struct seg *s = &c->seg[seg];
	int rc = seg_scan(s, all, scanned, &ctx);
	c->layer[s->layer].unread |= s->unread;
	return rc;
}

static bool goes_on(const struct seg *s)
{
	return s->clean && s->writable && (!s->foreign || s->kind == SEG_RECORDS);
}

/* The writer goes on in the last segment of each kind, if it ends well. */
static void choose_active(struct cache *c)
{
	for (int kind = SEG_RECORDS; kind <= SEG_CODE; kind++)
		c->active[kind] = -1;
	for (int i = 0; i < c->nsegs && c->lock_fd >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind != SEG_MIXED)
			c->active[c->seg[i].kind] = goes_on(&c->seg[i]) ? i : -1;
}

static int open_all(struct cache *c)
{
	for (int i = 0; i < c->nlayers; i++) {
		int rc = open_layer(c, i);
		bool top = i == c->nlayers - 1 && !c->memory;
		if (rc == E_NOMEM || (rc < 0 && top))
			return rc;
		if (rc < 0)
			log_info("hone: %s: it is passed over", err_text());
	}
	return E_OK;
}

static void tell(const struct cache *c)
{
	int told = -1;
	for (int i = 0; i < c->nsegs; i++)
		if (c->seg[i].fd >= 0 && c->seg[i].foreign && told != c->seg[i].layer) {
			told = c->seg[i].layer;
			log_info("hone: %s can be written by others: the code in it is not run",
				 c->layer[told].dir);
		}
	if (c->damaged_bytes)
		log_more("cache %s: %lld bytes are damaged and were skipped", cache_dir(c),
			 (long long)c->damaged_bytes);
}

/* A writer that was killed may have left what no sync has seen: what is taken for durable is made so. A disk
 * that cannot is said, and nothing is thrown away. */
static void sync_top(struct cache *c)
{
	int rc = E_OK;
	for (int i = 0; i < c->nsegs && rc >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].writable)
			rc = disk->sync(c->seg[i].fd);
	if (rc >= 0)
		rc = disk->sync_dir(cache_dir(c));
	if (rc >= 0)
		return;
	c->layer[c->nlayers - 1].unread = true;
	log_info("hone: cache %s: %s; %s", cache_dir(c), strerror(-rc), disk_remedy(rc));
}

int cache_layers_load(struct cache *c)
{
	int rc = open_all(c);
	if (rc >= 0 && c->lock_fd >= 0)
		sync_top(c);
	if (c->nsegs)
		qsort(c->seg, (size_t)c->nsegs, sizeof *c->seg, by_number);
	drop_replaced(c);
	c->damaged_bytes = 0;
	for (int i = 0; i < c->nsegs && rc >= 0; i++) {
		struct seg *s = &c->seg[i];
		rc = scan(c, i, true);
		if (s->fd >= 0)
			c->damaged_bytes += (s->clean ? s->end : s->size) - s->start - s->good_bytes;
	}
	choose_active(c);
	if (rc >= 0)
		tell(c);
	return rc < 0 ? rc : E_OK;
}

/* 1: the folder is not what it was: it has to be read again. */
static int follow(struct cache *c, int layer, int *found)
{
	struct stat st;
	struct layer *of = &c->layer[layer];
	int last[SEG_MIXED + 1] = {-1, -1, -1, -1}, rc = 0;
	for (int i = 0; i < c->nsegs; i++) {
		if (c->seg[i].fd < 0 || c->seg[i].layer != layer)
			continue;
		if (fstat(c->seg[i].fd, &st) < 0 || st.st_nlink == 0 || st.st_size < c->seg[i].end)
			return 1;
		last[c->seg[i].kind] = i;
	}
	for (int kind = SEG_RECORDS; kind <= SEG_MIXED && rc >= 0; kind++)
		if (last[kind] >= 0 && (rc = scan(c, last[kind], false)) > 0)
			*found = 1;
	char path[PATH_MAX];
	bool next = snprintf(path, sizeof path, "%s/%08llx.seg", of->dir, (unsigned long long)of->last + 1) <
			(int)sizeof path &&
		    access(path, F_OK) == 0;
	bool empty = last[SEG_RECORDS] < 0 && last[SEG_CODE] < 0 && last[SEG_MIXED] < 0;
	return rc < 0 ? rc : next || (empty && file_is_dir(of->dir));
}

int cache_layers_follow(struct cache *c)
{
	int found = 0, again = 0;
	for (int i = 0; i < c->nlayers && !again; i++) {
		if (c->lock_fd >= 0 && i == c->nlayers - 1)
			break;
		again = follow(c, i, &found);
	}
	if (again <= 0)
		return again < 0 ? again : found;
	uint64_t before = c->generation;
	int segs = c->nsegs;
	cache_layers_close(c);
	cache_index_clear(c);
	int rc = cache_layers_load(c);
	return rc < 0 ? rc : c->generation != before || c->nsegs != segs;
}

/* Names the process in the lock file, for the one that is refused. */
static void write_holder(int fd)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		log_more("the cache's lock file does not say who holds it: %s", strerror(errno));
}

int cache_lock(struct cache *c, const char *dir, int64_t wait_ns)
{
	char path[PATH_MAX], holder[32] = "";
	if (snprintf(path, sizeof path, "%s/lock", dir) >= (int)sizeof path)
		return fail(E_USAGE, "the path of cache folder %.80s... is too long", dir);
	int rc = file_lock(path, wait_ns, &c->lock_fd);
	if (rc >= 0) {
		write_holder(c->lock_fd);
		return E_OK;
	}
	c->lock_fd = -1;
	if (rc != E_BUSY)
		return rc;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, holder, sizeof holder - 1);
	if (fd >= 0)
		close(fd);
	holder[n > 0 ? n : 0] = 0;
	holder[strcspn(holder, "\n")] = 0;
	return fail(E_BUSY,
		    "cache %s is in use by process %s; wait for it to end, or use another --cache folder",
		    dir, isdigit((unsigned char)holder[0]) ? holder : "(unknown)");
}
