/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/store.h"

#include "agent/cache/hint.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENT_BYTES = 1 << 20 /* of records: a box fills one, and a new one takes two more syncs */ };
enum what { DO_PUT, DO_FORGET, DO_BRING, DO_DROP, DO_COMMIT, DO_PREPARE, DO_REST, DO_LOOK };

struct task {
	enum what what;
	int type;
	bool lost; /* DO_COMMIT: there was no memory for an earlier put */
	struct key key;
	size_t n;
	struct task *next;
	struct stored stored; /* DO_COMMIT, DO_PREPARE */
};                            /* and n bytes */

struct list {
	struct task *first, **last;
	size_t bytes;
};

struct store {
	char *dir;
	int64_t cap_bytes;
	struct list waits, works, done; /* works: belongs to the thread while `busy` */
	bool busy, lost;
	/* Used only by the working thread: */
	struct cache *cache;
	int lock_fd; /* of a closed cache whose lock stays held; -1: none */
	char *lock_dir;
	bool unwritten;        /* something was put since the last commit that succeeded */
	bool opened;           /* the cache was opened at least once */
	int64_t written_bytes; /* the cache's count when it was first opened */
	struct inventory holds; /* when the store last knew */
	bool lacks;             /* and less was found since the last result */
	int bad;               /* error of a put since the last commit that no commit can repair; 0: none */
	char why[sizeof((struct stored *)0)->text];
};

static void list_start(struct list *l)
{
	*l = (struct list){.last = &l->first};
}

static void list_add(struct list *l, struct task *t)
{
	t->next = NULL;
	*l->last = t;
	l->last = &t->next;
	l->bytes += sizeof *t + t->n;
}

static struct task *list_pop(struct list *l)
{
	struct task *t = l->first;
	if (!t)
		return NULL;
	l->first = t->next;
	l->bytes -= sizeof *t + t->n;
	if (!l->first)
		l->last = &l->first;
	return t;
}

/* Names the key of the configuration that chooses the folder: honed's reader has no --cache. */
#define OTHER_FOLDER "name another folder (cache in [honed] of honed.conf)"

int store_refuse(const char *dir)
{
	if (file_exists(dir) && !file_is_dir(dir))
		return fail(E_IO, "cache %s is a file, not a folder: remove it, or " OTHER_FOLDER, dir);
	if (cache_refuse_other(dir) < 0)
		return fail(E_USAGE, "cache %s holds other files, and none of a cache: " OTHER_FOLDER, dir);
	return E_OK;
}

int store_open(const char *dir, int64_t cap_bytes, struct store **out)
{
	struct store *s = calloc(1, sizeof *s);
	if (s)
		s->dir = strdup(dir);
	if (!s || !s->dir) {
		free(s);
		return fail(E_NOMEM, "no memory for the cache's queue");
	}
	s->cap_bytes = cap_bytes;
	s->lock_fd = -1;
	list_start(&s->waits);
	list_start(&s->works);
	list_start(&s->done);
	*out = s;
	return E_OK;
}

void store_expect(struct store *s, const struct inventory *holds)
{
	s->holds = *holds;
}

void store_abandon(struct store *s)
{
	for (struct task *t; s && (t = list_pop(&s->waits));)
		free(t);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (store_begin(s)) {
		store_work(s);
		store_end(s);
	}
	cache_close(s->cache);
	if (s->lock_fd >= 0)
		cache_let_go(s->lock_dir, s->lock_fd);
	for (struct task *t; (t = list_pop(&s->done));)
		free(t);
	free(s->lock_dir);
	free(s->dir);
	free(s);
}

static void add(struct store *s, struct task t, struct blob payload)
{
	struct task *own = malloc(sizeof *own + t.n);
	if (!own) {
		s->lost = true;
		return;
	}
	*own = t;
	if (payload.p)
		memcpy(own + 1, payload.p, t.n);
	list_add(&s->waits, own);
}

void store_put(struct store *s, int type, struct key k, struct blob payload)
{
	add(s, (struct task){.what = DO_PUT, .type = type, .key = k, .n = payload.n}, payload);
}

void store_forget(struct store *s, int type, struct key k)
{
	add(s, (struct task){.what = DO_FORGET, .type = type, .key = k}, (struct blob){0});
}

void store_bring(struct store *s, int type, struct key k, struct blob payload)
{
	add(s, (struct task){.what = DO_BRING, .type = type, .key = k, .n = payload.n}, payload);
}

void store_drop(struct store *s, int type, struct key k)
{
	add(s, (struct task){.what = DO_DROP, .type = type, .key = k}, (struct blob){0});
}

void store_keep(struct store *s, int64_t ticket)
{
	add(s, (struct task){.what = DO_COMMIT, .lost = s->lost, .stored.ticket = ticket}, (struct blob){0});
	s->lost = false;
}

void store_prepare(struct store *s)
{
	add(s, (struct task){.what = DO_PREPARE}, (struct blob){0});
}

void store_rest(struct store *s)
{
	add(s, (struct task){.what = DO_REST}, (struct blob){0});
}

void store_look(struct store *s)
{
	add(s, (struct task){.what = DO_LOOK}, (struct blob){0});
	store_keep(s, 0);
}

size_t store_bytes(const struct store *s)
{
	return s->waits.bytes + s->works.bytes;
}

bool store_begin(struct store *s)
{
	if (s->busy || !s->waits.first)
		return false;
	s->works = s->waits;
	list_start(&s->waits);
	s->busy = true;
	return true;
}

void store_end(struct store *s)
{
	for (struct task *t; (t = list_pop(&s->works));)
		if (t->what == DO_COMMIT || t->what == DO_PREPARE)
			list_add(&s->done, t);
		else
			free(t);
	s->busy = false;
}

bool store_told(struct store *s, struct stored *out)
{
	struct task *t = list_pop(&s->done);
	if (!t)
		return false;
	*out = t->stored;
	free(t);
	return true;
}

/* Compares what the cache has with what it had when the store last knew. */
static void compare(struct store *s)
{
	struct inventory now;
	inventory_take(s->cache, &now);
	s->lacks |= inventory_lacks(s->cache, &s->holds, &now);
	s->holds = now;
}

static int open_cache(struct store *s)
{
	struct cache_state state;
	if (s->cache)
		return E_OK;
	int rc = store_refuse(s->dir);
	if (rc < 0)
		return rc;
	struct cache_options o = {
	    .cap_bytes = s->cap_bytes,
	    .batch_records = CACHE_MOST_BATCH,
	    .lock_fd = s->lock_fd,
	    .only_here = true, /* no other process reads the user's own folder */
	};
	if (!s->cap_bytes || s->cap_bytes >= 16 * SEGMENT_BYTES)
		o.segment_bytes = SEGMENT_BYTES;
	s->lock_fd = -1;
	rc = cache_open_with(&s->cache, s->dir, CACHE_WRITE, 0, &o);
	if (rc < 0) {
		s->cache = NULL;
		return rc;
	}
	compare(s);
	if (!s->opened) {
		cache_state(s->cache, &state);
		s->written_bytes = state.written_bytes;
		s->opened = true;
	}
	return E_OK;
}

/* Notes that a put is lost; the next commit reports it. */
static void lose(struct store *s, int rc)
{
	if (rc >= 0 || s->bad < 0)
		return;
	s->bad = rc;
	snprintf(s->why, sizeof s->why, "%s", err_text());
}

static void write_one(struct store *s, struct task *t)
{
	const enum cache_type type = (enum cache_type)t->type;
	int rc = open_cache(s);
	s->unwritten = true;
	lose(s, rc);
	if (rc < 0)
		return;
	rc = t->what == DO_PUT     ? cache_put(s->cache, type, t->key, t + 1, t->n)
	     : t->what == DO_BRING ? hint_bring(s->cache, type, t->key, t + 1, t->n)
	     : t->what == DO_DROP  ? hint_drop(s->cache, type, t->key)
				   : cache_forget(s->cache, type, t->key);
	if (rc != E_IO) /* a full disk: the put stays in memory, and the commit tries again */
		lose(s, rc);
}

/* Tells what the cache has. One that cannot be written may be read all the same; what cannot be read has
 * nothing. */
static void tell_holds(struct store *s, struct stored *out)
{
	struct inventory now;
	if (s->cache) {
		inventory_take(s->cache, &s->holds);
	} else if (inventory_is_known(&s->holds)) {
		int lacks = inventory_compare(s->dir, &s->holds, &now);
		s->lacks |= lacks != 0;
		s->holds = lacks < 0 ? (struct inventory){0} : now;
	}
	out->holds = s->holds;
	out->lacks = s->lacks;
	s->lacks = false;
}

static void commit(struct store *s, struct task *t)
{
	struct cache_state state = {.written_bytes = s->written_bytes};
	struct stored *out = &t->stored;
	int rc = open_cache(s);
	if (rc >= 0) {
		rc = cache_commit(s->cache); /* makes a folder that was removed, too */
		if (rc >= 0 && !s->unwritten)
			rc = cache_try(s->cache);
		cache_state(s->cache, &state);
	}
	if (t->lost)
		rc = fail(E_NOMEM, "no memory for a record");
	snprintf(out->text, sizeof out->text, "%s", s->bad < 0 ? s->why : rc < 0 ? err_text() : "");
	out->rc = s->bad < 0 ? s->bad : rc;
	out->lost = s->bad < 0 || t->lost;
	out->generation = s->cache ? cache_generation(s->cache) : 0;
	out->written_bytes = state.written_bytes - s->written_bytes;
	s->bad = 0;
	s->unwritten = s->unwritten && rc < 0;
	tell_holds(s, out);
}

/* Errors here are not reported: the first commit fails with them, too, and reports them. */
static void prepare(struct store *s, struct task *t)
{
	int rc = open_cache(s);
	int64_t from_ns = clock_now(&clock_real);
	int syncs = rc < 0 ? rc : cache_prepare(s->cache);
	if (syncs > 0)
		t->stored.sync_ns = (clock_now(&clock_real) - from_ns) / syncs;
	tell_holds(s, &t->stored);
}

static void rest(struct store *s, struct task *t)
{
	(void)t;
	if (!s->cache)
		return;
	free(s->lock_dir);
	s->lock_dir = strdup(cache_dir(s->cache));
	if (s->lock_dir)
		s->lock_fd = cache_close_held(s->cache);
	else
		cache_close(s->cache);
	s->cache = NULL;
}

/* The lock is released, too: its file may be gone with the folder. */
static void look(struct store *s, struct task *t)
{
	(void)t;
	cache_close(s->cache);
	s->cache = NULL;
	if (s->lock_fd >= 0)
		cache_let_go(s->lock_dir, s->lock_fd);
	s->lock_fd = -1;
}

/* Whether others changed the files, though this process has the lock, since the store last knew. What is open
 * may be files that are gone. */
static bool was_changed(const struct store *s)
{
	return s->cache && !key_equal(inventory_files(s->dir), s->holds.files);
}

void store_work(struct store *s)
{
	static void (*const fn[])(struct store *, struct task *) = {
	    [DO_PUT] = write_one, [DO_FORGET] = write_one, [DO_BRING] = write_one, [DO_DROP] = write_one,
	    [DO_COMMIT] = commit, [DO_PREPARE] = prepare,  [DO_REST] = rest,       [DO_LOOK] = look};
	if (was_changed(s))
		look(s, NULL);
	for (struct task *t = s->works.first; t; t = t->next)
		fn[t->what](s, t);
	if (was_changed(s)) /* by this work */
		inventory_take(s->cache, &s->holds);
}
