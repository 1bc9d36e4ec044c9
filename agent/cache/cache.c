/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"
#include "platform/base/disk.h"
#include "platform/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_CAP = 64 << 10 };

/* Adds a layer above the others; callers begin with the lowest. If all places are taken, the lowest layer is
 * dropped. */
static int add_layer(struct cache *c, const char *dir, size_t n, bool seed)
{
	if (c->nlayers == MAX_LAYERS) {
		free(c->layer[0].dir);
		memmove(c->layer, c->layer + 1, --c->nlayers * sizeof *c->layer);
		c->left_out++;
	}
	struct layer *l = &c->layer[c->nlayers];
	*l = (struct layer){.seed = seed};
	l->dir = strndup(dir, n);
	if (!l->dir)
		return fail(E_NOMEM, "no memory to open a cache");
	c->nlayers++;
	return strlen(l->dir) < PATH_MAX - 80
		   ? E_OK
		   : fail(E_USAGE, "the path of cache folder %.80s... is too long", dir);
}

static int add_seeds(struct cache *c)
{
	const char *list = c->o.seeds ? c->o.seeds : getenv("HONE_SEEDS");
	list = list ? list : CACHE_SEED;
	int rc = E_OK;
	for (size_t end = strlen(list); end && rc >= 0;) {
		size_t from = end;
		while (from && list[from - 1] != ':')
			from--;
		if (end > from)
			rc = add_layer(c, list + from, end - from, true);
		end = from ? from - 1 : 0;
	}
	return rc;
}

static bool not_ours_to_write(const char *dir)
{
	return file_is_dir(dir) && faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) < 0 &&
	       (errno == EACCES || errno == EROFS || errno == EPERM);
}

/* Adds the folder, and the user's cache folder above it if this process may not write it. */
static int add_folders(struct cache *c, const char *dir)
{
	char user[PATH_MAX];
	int rc = add_layer(c, dir, strlen(dir), false);
	if (rc < 0 || c->memory || c->o.only_here || !not_ours_to_write(dir) ||
	    file_cache_dir(user, sizeof user) < 0 || !strcmp(user, dir))
		return rc;
	rc = add_layer(c, user, strlen(user), false);
	c->layer[c->nlayers - 1].implied = true;
	return rc;
}

int cache_refuse_unwritable(const char *dir)
{
	if (!not_ours_to_write(dir))
		return E_OK;
	const char *remedy = errno == EROFS ? "mount it writable" : "chown it";
	return fail(E_IO, "cache %s: user %u cannot write to it (%s): %s, or use another folder", dir,
		    (unsigned)geteuid(), strerror(errno), remedy);
}

/* Makes the folder that is written, and takes its lock. */
static int hold_folder(struct cache *c, const char *dir, int64_t wait_ns)
{
	bool implied = c->layer[c->nlayers - 1].implied;
	char why[64] = "";
	if (c->o.only_here && cache_refuse_unwritable(dir) < 0)
		return E_IO;
	if (implied && faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) < 0)
		snprintf(why, sizeof why, "%s", strerror(errno));
	new_folder_note(&c->made, cache_dir(c));
	int rc = fail_in(file_mkdirs(cache_dir(c), 0755), "cache %s", cache_dir(c));
	if (rc >= 0 && c->lock_fd < 0)
		rc = cache_lock(c, cache_dir(c), wait_ns);
	if (implied && rc >= 0)
		log_info("hone: cannot write to %s (%s): results are kept in %s", dir, why, cache_dir(c));
	return implied ? fail_in(rc, "cannot write to %s (%s), nor to the user's cache instead", dir, why)
		       : rc;
}

static int open_cache(struct cache *c, const char *dir, enum cache_mode mode, int64_t wait_ns)
{
	bool writes = CACHE_WRITES && mode == CACHE_WRITE;
	int rc = add_seeds(c);
	if (rc >= 0)
		rc = add_folders(c, dir);
	if (rc >= 0 && c->left_out)
		log_info("hone: cache %s: its %d lowest seed layer%s ignored: at most %d layers are possible",
			 dir, c->left_out, c->left_out == 1 ? " is" : "s are", MAX_LAYERS);
	if (rc >= 0 && writes)
		rc = hold_folder(c, dir, wait_ns);
	if (rc >= 0)
		rc = cache_index_start(c);
	if (rc >= 0)
		rc = cache_layers_load(c);
	if (rc >= 0 && writes && c->nformer && cache_forget_claims(c) < 0)
		log_more("%s", err_text()); /* the next open tries again */
	if (rc >= 0 && writes)
		cache_compact_at_open(c);
	return rc;
}

int cache_open_with(struct cache **out, const char *dir, enum cache_mode mode, int64_t wait_ns,
		    const struct cache_options *o)
{
	struct cache *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory to open a cache");
	c->memory = mode == CACHE_MEMORY || mode == CACHE_THROUGH;
	c->through = mode == CACHE_THROUGH ? o->through : NULL;
	c->lock_fd = CACHE_WRITES && o && o->lock_fd > 0 ? o->lock_fd : -1;
	c->o = o ? *o : (struct cache_options){0};
	c->o.cap_bytes = c->o.cap_bytes ? c->o.cap_bytes : CAP_BYTES;
	c->cap_given = o && o->cap_bytes;
	c->o.batch_records = c->o.batch_records < BATCH_RECORDS      ? BATCH_RECORDS
			     : c->o.batch_records > CACHE_MOST_BATCH ? CACHE_MOST_BATCH
								     : c->o.batch_records;
	for (int kind = 0; kind <= SEG_CODE; kind++)
		c->active[kind] = -1;
	int rc = c->o.cap_bytes >= LEAST_CAP && c->o.cap_bytes <= CACHE_MOST_BYTES
		     ? open_cache(c, dir, mode, wait_ns)
		     : fail(E_USAGE, "the limit of a cache must be %d KiB to %d MiB", LEAST_CAP >> 10,
			    CACHE_MOST_BYTES >> 20);
	c->in_vain = rc < 0;
	if (rc < 0)
		cache_close(c);
	else
		*out = c;
	return rc;
}

int cache_open(struct cache **out, const char *dir, bool read_only, int64_t wait_ns)
{
	return cache_open_with(out, dir, read_only ? CACHE_READ : CACHE_WRITE, wait_ns, NULL);
}

int cache_open_memory(struct cache **out, const char *dir)
{
	return cache_open_with(out, dir, CACHE_MEMORY, 0, NULL);
}

static void unlock(struct cache *c)
{
	if (c->lock_fd >= 0 && c->nlayers)
		cache_unlock(cache_dir(c), c->lock_fd);
	else if (c->lock_fd >= 0)
		file_unlock(c->lock_fd);
}

/* lock_fd NULL: the lock is released. */
static void close_cache(struct cache *c, int *lock_fd)
{
	bool told = c->told;
	bool lost = CACHE_WRITES && cache_commit(c) < 0;
	if (lost && !told)
		log_error("%s: the results of this process may be lost", err_text());
	cache_layers_close(c);
	if (CACHE_WRITES && lock_fd)
		*lock_fd = c->lock_fd;
	else if (CACHE_WRITES)
		unlock(c);
	if (CACHE_WRITES && !lock_fd && (lost || c->in_vain))
		new_folder_drop(&c->made);
	for (int i = 0; i < c->nlayers; i++)
		free(c->layer[i].dir);
	buf_free(&c->bytes);
	free(c->put);
	free(c->slot);
	free(c->alias);
	free(c);
}

void cache_close(struct cache *c)
{
	if (c)
		close_cache(c, NULL);
}

int cache_close_held(struct cache *c)
{
	int fd = -1;
	if (c)
		close_cache(c, &fd);
	return fd;
}

void cache_let_go(const char *dir, int lock_fd)
{
	if (CACHE_WRITES && lock_fd >= 0)
		cache_unlock(dir, lock_fd);
}

const char *cache_dir(const struct cache *c)
{
	return c->layer[c->nlayers - 1].dir;
}

bool cache_is_through(const struct cache *c)
{
	return c->through && c->through->alive(c->through->ctx);
}

uint64_t cache_generation(const struct cache *c)
{
	return c->generation;
}

int cache_commit(struct cache *c)
{
	int rc = cache_flush(c);
	c->told = rc < 0;
	return rc;
}

int cache_hand_over(struct cache *c)
{
	if (!c->through || c->unsaid || !c->through->alive(c->through->ctx))
		return cache_commit(c);
	return E_OK;
}

static int miss(void)
{
	return fail(E_NOTFOUND, "not in the cache");
}

/* Copies a record's bytes, from its segment or from the waiting puts, into p: REC_HEAD + payload + REC_CRC.
 * Returns 1, or 0: a miss. */
static int fetch(const struct cache *c, const struct slot *s, uint8_t *p)
{
	const struct head h = cache_slot_head(s);
	if (s->seg != IN_MEMORY)
		return seg_read(&c->seg[s->seg], s->at, &h, p);
	if (s->n)
		memcpy(p + REC_HEAD, c->bytes.p + c->put[s->at].at, s->n);
	return 1;
}

int cache_get(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *out)
{
	enum { BEFORE = 32 }; /* >= REC_HEAD, so that the payload is aligned as the arena's memory is */
	const struct slot *s = cache_slot(c, (uint8_t)t, k);
	if (!s->type || s->n == GONE || s->seg == NOWHERE)
		return miss();
	uint8_t *p = arena_try(a, BEFORE + (size_t)s->n + REC_CRC + 1, 1);
	if (!p)
		return E_NOMEM;
	int rc = fetch(c, s, p + BEFORE - REC_HEAD);
	if (rc < 0)
		log_more("%s", err_text());
	if (rc <= 0)
		return miss();
	p[BEFORE + s->n] = 0;
	*out = (struct blob){.p = p + BEFORE, .n = s->n};
	return E_OK;
}

/* True: the record is stored already, in the folder that is written or waiting. A copy in a lower layer does
 * not count, since that layer may go away. */
static bool is_there(struct cache *c, const struct head *h, const void *p)
{
	const struct slot *s = cache_slot(c, h->type, h->key);
	struct arena a = {0};
	struct blob old;
	bool here = s->type && s->n == h->n && s->seg != NOWHERE &&
		    (s->seg == IN_MEMORY || cache_top_seg(c, &c->seg[s->seg]));
	bool same = here && cache_get(c, h->type, h->key, &a, &old) >= 0 && !memcmp(old.p, p, old.n);
	arena_free(&a);
	return same;
}

int cache_put(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n)
{
	struct head h = {.n = (uint32_t)n, .type = (uint8_t)t, .key = k};
	if (c->lock_fd < 0 && !c->memory)
		return fail(E_USAGE, "cache %s was opened for reading", cache_dir(c));
	if (!cache_keeps((int)t))
		return fail(E_USAGE, "records of type %d cannot be kept", (int)t);
	if (n > MAX_PAYLOAD)
		return fail(E_UNSUPPORTED, "a record of %zu bytes is too large for the cache", n);
	if (!c->memory && (int64_t)n > c->o.cap_bytes / 4) /* it would evict everything else */
		return fail(
		    E_UNSUPPORTED,
		    "a record of %zu bytes is too large for a cache of %lld bytes: raise --cache-limit", n,
		    (long long)c->o.cap_bytes);
	uint8_t of = t == CACHE_FORGET && n == 1 ? *(const uint8_t *)p : CACHE_REC;
	if ((t == CACHE_FORGET && n != 1) || !cache_keeps(of) || of == CACHE_FORGET)
		return fail(E_USAGE, "one type is forgotten at a time");
	if (t != CACHE_FORGET && is_there(c, &h, p))
		return E_OK;
	const size_t part = (size_t)c->o.cap_bytes / 8, before = c->bytes.n / part;
	int rc = cache_wait(c, &h, p);
	/* After a failed write the next try comes only after a whole batch: every try costs flash. */
	bool many = rc > 0 && !c->through && c->waiting % c->o.batch_records == 0;
	if (rc >= 0 && CACHE_WRITES && c->through) {
		int said = cache_through_put(c);
		rc = said < 0 ? said : rc;
	}
	if (rc >= 0 && (!c->memory || c->through) && (many || c->bytes.n / part > before))
		rc = cache_flush(c);
	c->told = rc < 0;
	return rc < 0 ? rc : E_OK;
}

int cache_forget(struct cache *c, enum cache_type t, struct key k)
{
	uint8_t type = (uint8_t)t;
	const struct slot *s = cache_slot(c, type, k);
	return s->type && s->n != GONE ? cache_put(c, CACHE_FORGET, k, &type, 1) : E_OK;
}

int cache_refresh(struct cache *c)
{
	return cache_layers_follow(c);
}

int cache_put_rec(struct cache *c, const struct rec *r)
{
	struct buf text = {0};
	rec_text(r, &text);
	int rc = buf_ok(&text) ? cache_put(c, CACHE_REC, rec_key(r), text.p, text.n)
			       : fail(E_NOMEM, "no memory for a record");
	buf_free(&text);
	return rc;
}

int cache_get_rec(struct cache *c, struct key k, struct arena *a, struct rec *out)
{
	struct blob text;
	int rc = cache_get(c, CACHE_REC, k, a, &text);
	if (rc < 0)
		return rc;
	if (memchr(text.p, 0, text.n) || rec_parse(text.p, a, out) < 0 || !key_equal(rec_key(out), k))
		return miss();
	return E_OK;
}

bool cache_is_own(const struct cache *c, enum cache_type t, struct key k)
{
	const struct slot *s = cache_slot(c, (uint8_t)t, k);
	if (!s->type || s->n == GONE || s->seg == NOWHERE)
		return false;
	return s->seg == IN_MEMORY || cache_top_seg(c, &c->seg[s->seg]);
}

int cache_keys(const struct cache *c, enum cache_type t, struct arena *a, struct key **out)
{
	struct arena scratch = {0};
	struct slot *list = ARENA_ARRAY(&scratch, struct slot, c->nused + 1);
	int n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].type == t && c->slot[i].n != GONE && c->slot[i].seg != NOWHERE)
			list[n++] = c->slot[i];
	qsort_r(list, (size_t)n, sizeof *list, cache_order, (void *)(uintptr_t)c);
	*out = ARENA_ARRAY(a, struct key, n + 1);
	for (int i = 0; i < n; i++)
		(*out)[i] = list[i].key;
	arena_free(&scratch);
	return n;
}

int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r), void *ctx)
{
	struct key *key;
	int n = cache_keys(c, CACHE_REC, a, &key), count = 0;
	for (int i = 0; i < n; i++) {
		struct rec *r = ARENA_NEW(a, struct rec);
		int rc = cache_get_rec(c, key[i], a, r);
		if (rc == E_NOTFOUND)
			continue;
		if (rc >= 0)
			rc = fn(ctx, r);
		if (rc < 0)
			return rc;
		count++;
	}
	return count;
}

void cache_state(const struct cache *c, struct cache_state *out)
{
	int64_t lives = 0, good = 0; /* of the folder that is written */
	*out = (struct cache_state){.dir = cache_dir(c),
				    .damaged_bytes = c->damaged_bytes,
				    .written_bytes = c->written_bytes,
				    .index_bytes = (int64_t)(c->nslots * sizeof *c->slot),
				    .cap_bytes = c->o.cap_bytes,
				    .generation = c->generation};
	for (int i = 0; i < c->nlayers; i++)
		out->layers += file_is_dir(c->layer[i].dir);
	for (int i = 0; i < c->nsegs; i++) {
		const struct seg *s = &c->seg[i];
		out->segments += s->fd >= 0;
		out->foreign |= s->fd >= 0 && s->foreign;
		out->file_bytes += cache_top_seg(c, s) ? s->size : 0;
		good += cache_top_seg(c, s) ? s->good_bytes : 0;
	}
	for (size_t i = 0; i < c->nslots; i++) {
		const struct slot *s = &c->slot[i];
		if (!s->type || s->seg == NOWHERE)
			continue;
		int64_t n = cache_slot_bytes(s);
		bool on_top = s->seg != IN_MEMORY && cache_top_seg(c, &c->seg[s->seg]);
		lives += on_top ? n : 0;
		out->waiting_bytes += s->seg == IN_MEMORY ? n : 0;
		if (s->n == GONE)
			continue;
		out->count[s->type]++;
		*(s->type == CACHE_CODE ? &out->code_bytes : &out->record_bytes) += n;
		if (s->type == CACHE_HINT || s->type == CACHE_HINT_CHOICES || s->type == CACHE_SHARED)
			out->strangers_bytes += n;
	}
	out->dead_bytes = good - lives;
}
