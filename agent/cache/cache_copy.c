/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"
#include "platform/base/disk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 20 };

static int refused(struct copy *w, int rc)
{
	w->s.no_room = seg_no_room(rc);
	return fail(E_IO, "cache %s: %s; %s", w->dir, strerror(-rc), disk_remedy(rc));
}

static int flush(struct copy *w)
{
	if (!buf_ok(&w->out))
		return fail(E_NOMEM, "no memory to copy the cache");
	int rc = disk->write(w->s.fd, w->out.p, w->out.n, w->flushed);
	w->written += cache_cost(w->flushed, (int64_t)w->out.n);
	w->flushed += (int64_t)w->out.n;
	buf_clear(&w->out);
	return rc < 0 ? refused(w, rc) : E_OK;
}

/* A bad record is left out: *at < 0. */
static int copy_slot(struct copy *w, const struct slot *s, struct arena *a, int64_t *at)
{
	struct head h = {.n = s->n, .type = s->type, .key = s->key};
	struct blob b = {.p = &s->type, .n = 1};
	int rc = 1;
	arena_reset(a);
	if (s->n == GONE) {
		h.type = CACHE_FORGET;
		h.n = 1;
	} else if (s->seg == IN_MEMORY) {
		b = (struct blob){w->c->bytes.p + w->c->put[s->at].at, s->n};
	} else {
		uint8_t *p = arena_try(a, REC_HEAD + (size_t)s->n + REC_CRC, 1);
		const struct head there = cache_slot_head(s);
		rc =
		    p ? fail_in(seg_read(&w->c->seg[s->seg], s->at, &there, p), "cache %s", w->dir) : E_NOMEM;
		b = (struct blob){p ? p + REC_HEAD : NULL, s->n};
	}
	*at = rc > 0 ? w->flushed + (int64_t)w->out.n : -1;
	if (rc > 0)
		seg_record(&w->out, &w->s, *at, &h, b.p);
	return rc >= 0 && w->out.n >= CHUNK ? flush(w) : rc;
}

static int copy_all(struct copy *w)
{
	struct arena a = {0};
	int rc = E_OK;
	w->flushed = SEG_HEAD;
	w->written = FLASH_BLOCK;
	for (int i = 0; i < w->n && rc >= 0; i++)
		rc = copy_slot(w, w->slot[i], &a, &w->at[i]);
	arena_free(&a);
	if (rc >= 0 && w->marks)
		cache_mark(w->c, &w->out, &w->s, w->flushed + (int64_t)w->out.n);
	if (rc >= 0)
		rc = flush(w);
	int synced = rc < 0 ? 0 : disk->sync(w->s.fd);
	w->s.end = w->s.size = w->flushed;
	w->s.good_bytes = w->s.end - w->s.start;
	buf_free(&w->out);
	return synced < 0 ? refused(w, synced) : rc;
}

/* Readers refuse a file larger than MAX_FILE. */
static int check_size(const struct copy *w)
{
	int64_t bytes = SEG_HEAD + REC_HEAD + MARK_BYTES + REC_CRC;
	for (int i = 0; i < w->n; i++)
		bytes += cache_slot_bytes(w->slot[i]);
	return bytes <= MAX_FILE ? E_OK
				 : fail(E_UNSUPPORTED,
					"cache %s: its %lld MiB do not fit into one file of at most %d MiB; "
					"remove records with hone forget",
					cache_dir(w->c), (long long)(bytes >> 20), MAX_FILE >> 20);
}

int cache_copy(struct copy *w)
{
	char path[PATH_MAX];
	int rc = check_size(w);
	if (rc >= 0)
		rc = seg_create(w->dir, w->temp, SEG_HEAD, w->mode, &w->s);
	if (rc < 0)
		return rc;
	if (w->name)
		snprintf(w->s.name, sizeof w->s.name, "%s", w->name);
	rc = copy_all(w);
	if (w->marks)
		w->c->written_bytes += w->written;
	w->named = rc >= 0;
	if (rc >= 0)
		return seg_name(w->dir, w->temp, &w->s);
	seg_close(&w->s);
	if (snprintf(path, sizeof path, "%s/%s", w->dir, w->temp) < (int)sizeof path)
		disk->unlink(path);
	return rc;
}

/* "DIR/NAME.seg" -> its parts. */
static int split_path(const char *path, char dir[PATH_MAX], const char **name)
{
	const char *slash = strrchr(path, '/');
	*name = slash ? slash + 1 : path;
	size_t n = slash ? (size_t)(slash - path) : 0, end = strlen(*name);
	if (n >= PATH_MAX - 100 || end < 5 || end > 60 || strcmp(*name + end - 4, ".seg") || **name == '.')
		return fail(E_USAGE, "%.80s: a pack's name must be NAME.seg, with at most 60 letters", path);
	if (cache_own_name(*name))
		return fail(
		    E_USAGE,
		    "%.80s: this name is reserved for a cache's own files: choose another one for the pack",
		    path);
	snprintf(dir, PATH_MAX, "%.*s", slash == path ? 1 : (int)n, slash ? path : "");
	if (!slash)
		snprintf(dir, PATH_MAX, ".");
	return E_OK;
}

/* In the cache's own folder the pack would be read again as a layer of the cache. */
static int not_its_own(const struct cache *c, const char *dir)
{
	struct stat a, b;
	if (stat(dir, &a) == 0 && stat(cache_dir(c), &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return fail(E_USAGE, "%s is the cache's own folder: write the pack to another one", dir);
	return E_OK;
}

int cache_pack(struct cache *c, const char *path, bool with_code)
{
	struct arena a = {0};
	char dir[PATH_MAX], temp[96];
	struct copy w = {.c = c, .dir = dir, .temp = temp, .mode = 0644};
	int n = 0, rc = split_path(path, dir, &w.name);
	if (rc >= 0)
		rc = not_its_own(c, dir);
	if (rc < 0)
		return rc;
	struct slot **list = ARENA_ARRAY(&a, struct slot *, c->nused + 1);
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if (s->type && s->n != GONE && s->seg != NOWHERE && (with_code || s->type != CACHE_CODE))
			list[w.n++] = s;
	}
	qsort_r(list, (size_t)w.n, sizeof *list, cache_order_slots, c);
	w.slot = list;
	w.at = ARENA_ARRAY(&a, int64_t, w.n + 1);
	w.s = (struct seg){.kind = SEG_MIXED, .number = 1};
	snprintf(temp, sizeof temp, "%s.%016llx.tmp", w.name, (unsigned long long)seg_salt());
	rc = cache_copy(&w);
	if (rc >= 0)
		seg_close(&w.s);
	for (int i = 0; i < w.n; i++)
		n += w.at[i] >= 0;
	arena_free(&a);
	return rc < 0 ? rc : n;
}
