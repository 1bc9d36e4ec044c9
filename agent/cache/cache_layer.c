/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"
#include "platform/base/disk.h"
#include "platform/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 8 };

/* The number in "hone:PASSWORD:NUMBER:..." */
static bool is_daemons(const char *line, uid_t uid)
{
	const char *id = strncmp(line, "hone:", 5) ? NULL : strchr(line + 5, ':');
	char *end;
	if (!id || !isdigit((unsigned char)id[1]))
		return false;
	unsigned long long n = strtoull(id + 1, &end, 10);
	return *end == ':' && n == uid;
}

/* True for root, this process's user and the daemon's user. This reads /etc/passwd itself: getpwuid() may
 * wait for a network, and fgetpwent() is not thread-safe. */
static bool one_of_us(uid_t uid)
{
	char part[256]; /* part of a line */
	bool hone = false, begins = true;
	if (uid == 0 || uid == geteuid())
		return true;
	FILE *f = fopen("/etc/passwd", "re");
	while (f && !hone && fgets(part, sizeof part, f)) {
		hone = begins && is_daemons(part, uid);
		begins = strchr(part, '\n') != NULL;
	}
	if (f)
		fclose(f);
	return hone;
}

static bool others_write(const struct stat *st)
{
	bool open = st->st_mode & 022 && !(S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX);
	return open || !one_of_us(st->st_uid);
}

/* In a sticky folder that others may write, any name may be a stranger's link. */
static bool is_named_by_us(const struct seg *s, const char *dir, const struct stat *file)
{
	char path[PATH_MAX];
	struct stat here;
	return snprintf(path, sizeof path, "%s/%s", dir, s->name) < (int)sizeof path &&
	       lstat(path, &here) == 0 && here.st_ino == file->st_ino && here.st_dev == file->st_dev &&
	       file->st_nlink == 1;
}

static bool is_foreign(const struct seg *s, const char *dir)
{
	struct stat file, folder;
	if (fstat(s->fd, &file) < 0 || stat(dir, &folder) < 0 || others_write(&file) || others_write(&folder))
		return true;
	return folder.st_mode & 022 && !is_named_by_us(s, dir, &file);
}

unsigned cache_file_mode(const char *dir)
{
	struct stat st;
	return stat(dir, &st) == 0 ? 0600 | (st.st_mode & 044) : 0600;
}

bool cache_top_seg(const struct cache *c, const struct seg *s)
{
	return s->fd >= 0 && s->layer == c->nlayers - 1 && s->own;
}

void cache_remove_seg(const struct cache *c, struct seg *s)
{
	char path[PATH_MAX];
	struct stat here, ours;
	if (snprintf(path, sizeof path, "%s/%s", c->layer[s->layer].dir, s->name) < (int)sizeof path &&
	    fstat(s->fd, &ours) == 0 && lstat(path, &here) == 0 &&
	    (S_ISLNK(here.st_mode) || (here.st_ino == ours.st_ino && here.st_dev == ours.st_dev)))
		disk->unlink(path);
	seg_close(s);
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
			return fail(E_NOMEM, "no memory to open a cache");
		c->seg = more;
		c->nsegs++;
	}
	c->seg[at] = *s;
	/* A program that only reads goes by the kind alone: it has no room to look at the name. */
	c->seg[at].own = s->kind != SEG_MIXED && (!CACHE_WRITES || cache_own_name(s->name));
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

static void raise(uint64_t *to, uint64_t v)
{
	*to = v > *to ? v : *to;
}

/* The skipped files of a folder, for one line to the user. */
struct passed {
	int n;
	char why[256]; /* the reason for the first one */
};

/* Opens one file. Returns 1 if it was removed meanwhile, or is a link to nothing. */
static int open_one(struct cache *c, int layer, const char *name, struct passed *p)
{
	struct layer *of = &c->layer[layer];
	struct seg s;
	int rc = seg_open(of->dir, name, c->lock_fd >= 0 && layer == c->nlayers - 1, &s);
	if (rc == E_NOTFOUND || rc == E_USAGE)
		return rc == E_NOTFOUND ? 1 : rc;
	if (rc < 0) {
		of->unopened += rc == E_IO || rc == E_BUSY;
		of->not_now |= rc == E_BUSY;
		raise(&of->hidden, cache_number(name));
		if (!p->n++)
			snprintf(p->why, sizeof p->why, "%s", err_text());
		return 0;
	}
	raise(&of->last, s.number);
	s.layer = layer;
	s.foreign = is_foreign(&s, of->dir);
	rc = cache_seg_add(c, &s);
	if (rc < 0)
		seg_close(&s);
	return rc < 0 ? rc : 0;
}

static int open_named(struct cache *c, int layer, const struct segment_names *l, struct passed *p)
{
	struct layer *of = &c->layer[layer];
	int gone = 0;
	raise(&of->last, l->last);
	of->names = cache_names_key(l);
	of->unread = of->not_now = false;
	of->unopened = l->more;
	of->hidden = l->more ? l->last : 0;
	*p = (struct passed){.n = l->more, .why = "it holds too many files"};
	for (int i = 0; i < l->n; i++) {
		int rc = open_one(c, layer, l->name[i], p);
		if (rc < 0)
			return rc;
		gone |= rc;
	}
	return gone;
}

/* Opens a folder's segments. It lists the folder again afterwards: a writer may have replaced segments
 * meanwhile, and a listing during that may show neither the old nor the new ones. After TRIES tries it uses
 * the segments that it has. */
static int open_layer(struct cache *c, int layer)
{
	struct segment_names l = {0}, again = {0};
	struct layer *of = &c->layer[layer];
	struct passed p = {0};
	int rc = E_OK, gone = 0;
	for (int i = 0; i < TRIES; i++) {
		close_layer(c, layer);
		rc = cache_list(of->dir, &l);
		gone = rc < 0 ? rc : open_named(c, layer, &l, &p);
		rc = gone < 0 ? gone : cache_list(of->dir, &again);
		if (rc == E_BUSY && gone >= 0) { /* try again later; a writer needs no second look */
			of->not_now = true;
			rc = E_OK;
			break;
		}
		if (rc < 0 || (!gone && key_equal(of->names, cache_names_key(&again))))
			break;
	}
	of->unread |= gone > 0;
	of->unopened += rc < 0;
	of->not_now |= rc == E_BUSY;
	free(l.name);
	free(again.name);
	if (rc >= 0 && p.n && !of->told++)
		log_info("hone: cache %s: %d of its files ignored: %s", of->dir, p.n, p.why);
	if (rc >= 0 && !p.n && !of->not_now)
		of->told = 0;
	return rc;
}

/* Packs and other files of users come below the segments of this folder's writer. Records are read before
 * code, though written after it: a reader that follows this order, and then reads all code segments that
 * exist by then, finds the code of every record that it has read. */
static int by_number(const void *a, const void *b)
{
	const struct seg *x = a, *y = b;
	bool own = x->own;
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (own != y->own)
		return own ? 1 : -1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* By layer and kind: a writer's segments with lower numbers do not count. A stranger's file does not replace
 * this user's segments, nor does a file that no writer named. */
struct replaced {
	uint64_t by_ours[MAX_LAYERS][SEG_CODE + 1], by_any[MAX_LAYERS][SEG_CODE + 1];
};

/* Closes replaced segments. The writer removes their files if the replacements are known to be durable. */
static void drop_replaced(struct cache *c)
{
	struct replaced r = {0};
	for (int i = 0; i < c->nsegs; i++) {
		const struct seg *s = &c->seg[i];
		if (s->fd < 0 || !s->own)
			continue;
		raise(&r.by_any[s->layer][s->kind], s->replaces);
		if (!s->foreign)
			raise(&r.by_ours[s->layer][s->kind], s->replaces);
	}
	for (int i = 0; i < c->nsegs; i++) {
		struct seg *s = &c->seg[i];
		if (s->fd < 0 || !s->own ||
		    s->number >= (s->foreign ? r.by_any : r.by_ours)[s->layer][s->kind])
			continue;
		if (c->lock_fd >= 0 && cache_top_seg(c, s) && !c->layer[s->layer].unread)
			cache_remove_seg(c, s);
		seg_close(s);
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

static bool goes_on(const struct cache *c, const struct seg *s)
{
	return s->clean && s->writable && (!s->foreign || s->kind == SEG_RECORDS) &&
	       s->number > c->layer[s->layer].hidden;
}

/* The writer appends to the last segment of each kind, if that one ends cleanly. */
static void choose_active(struct cache *c)
{
	for (int kind = SEG_RECORDS; kind <= SEG_CODE; kind++)
		c->active[kind] = -1;
	for (int i = 0; i < c->nsegs && c->lock_fd >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]))
			c->active[c->seg[i].kind] = goes_on(c, &c->seg[i]) ? i : -1;
}

/* Opens all layers and skips those that cannot be listed. Of the layer that is written, only readers skip it,
 * and only for want of descriptors or if it was added by itself. */
static int open_all(struct cache *c)
{
	for (int i = 0; i < c->nlayers; i++) {
		int rc = open_layer(c, i);
		bool needed = i == c->nlayers - 1 && !c->memory && (c->lock_fd >= 0 || !c->layer[i].implied);
		if (rc == E_NOMEM || (rc < 0 && needed && (rc != E_BUSY || c->lock_fd >= 0)))
			return rc == E_BUSY ? E_IO : rc;
		if (rc >= 0)
			continue;
		log_info("hone: %s: this folder is ignored", err_text());
	}
	return E_OK;
}

static void tell(struct cache *c)
{
	for (int i = 0; i < c->nsegs; i++) {
		struct layer *of = &c->layer[c->seg[i].layer];
		if (c->seg[i].fd < 0 || !c->seg[i].foreign || of->told_foreign)
			continue;
		of->told_foreign = true;
		log_info("hone: others can write to %s, so its records count as hints and its code is not run; chmod go-w it",
			 of->dir);
	}
	if (c->damaged_bytes)
		log_more("cache %s: %lld bytes are damaged and were skipped", cache_dir(c),
			 (long long)c->damaged_bytes);
}

/* A writer that was killed may have left records that were never synced: syncs the files, so that their
 * records are durable. If the disk fails, this is logged, and nothing is thrown away. */
static void sync_top(struct cache *c)
{
	int rc = E_OK, n = 0;
	for (int i = 0; i < c->nsegs && rc >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]) && ++n)
			rc = disk->sync(c->seg[i].fd);
	if (rc >= 0 && n)
		rc = disk->sync_dir(cache_dir(c));
	if (rc >= 0)
		return;
	struct layer *top = &c->layer[c->nlayers - 1];
	top->unread = true;
	if (!top->not_now && !top->told_sync++) /* the want of descriptors was logged already */
		log_info("hone: cache %s: %s; %s", top->dir, strerror(-rc), disk_remedy(rc));
}

static int load(struct cache *c)
{
	int rc = open_all(c);
	if (rc >= 0 && c->lock_fd >= 0)
		sync_top(c);
	if (c->nsegs)
		qsort(c->seg, (size_t)c->nsegs, sizeof *c->seg, by_number);
	if (rc >= 0)
		drop_replaced(c);
	c->damaged_bytes = 0;
	for (int i = 0; i < c->nsegs && rc >= 0; i++) {
		struct seg *s = &c->seg[i];
		rc = scan(c, i, true);
		if (s->fd >= 0)
			c->damaged_bytes += s->damaged_bytes;
	}
	choose_active(c);
	if (rc >= 0) {
		if (CACHE_WRITES && c->nformer)
			cache_adopt_claims(c);
		tell(c);
		return E_OK;
	}
	struct layer *top = &c->layer[c->nlayers - 1]; /* not all records are known */
	top->unopened++;
	top->not_now = true;
	return rc;
}

/* Returns 1: there are other files than those that were opened; 0: the same files; < 0: the folder cannot be
 * listed. */
static int has_others(const struct layer *l)
{
	struct segment_names now = {0};
	int rc = cache_list(l->dir, &now);
	if (rc >= 0)
		rc = !key_equal(l->names, cache_names_key(&now));
	else
		log_more("%s", err_text());
	free(now.name);
	return rc;
}

/* A folder that cannot be listed counts as unchanged. */
static bool has_changed(const struct layer *l)
{
	int others = has_others(l);
	return others > 0 || (others == 0 && l->not_now);
}

/* Loads again while files appear: the records read last may have their code in a segment that is newer than
 * the listing. */
int cache_layers_load(struct cache *c)
{
	for (int i = 1;; i++) {
		int rc = load(c);
		bool moved = false;
		for (int k = 0; rc >= 0 && k < c->nlayers - (c->lock_fd >= 0) && !moved; k++)
			moved = has_others(&c->layer[k]) > 0;
		if (!moved || i == TRIES)
			return rc;
		cache_layers_close(c);
		cache_index_clear(c);
	}
}

/* Reads what was appended to a layer. Returns 1: files were replaced, and all must be read again. */
static int follow(struct cache *c, int layer, int *found)
{
	struct stat st;
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
	return rc < 0 ? rc : has_changed(&c->layer[layer]);
}

int cache_reload(struct cache *c)
{
	cache_layers_close(c);
	cache_index_clear(c);
	return cache_layers_load(c);
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
	int rc = cache_reload(c);
	return rc < 0 ? rc : 1;
}
