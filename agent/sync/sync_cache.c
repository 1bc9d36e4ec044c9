/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_cache.h"

#include "agent/control/leash.h"
#include "agent/sync/offered.h"
#include "agent/cache/share_kept.h"
#include "agent/sync/taken.h"
#include "platform/base/log.h"
#include "platform/machine/target.h"

#include <stdlib.h>

#define LOCK_WAIT_NS (5 * NS_PER_S)
#define LOCK_TRY_NS NS_PER_S /* of it at once: then it looks for a signal and for a honed */

struct keeper {
	struct leash *leash;
	struct cache_through through;
	struct cache *cache;
	struct offered *offered; /* NULL: not opened yet */
	struct taken_sum sum;
	char cls[33], label[160], server[1024], state[512], id[33];
};

static int put(void *ctx, enum cache_type t, struct key k, const void *p, size_t n)
{
	if (t == CACHE_FORGET)
		return leash_forget(ctx, *(const uint8_t *)p, k);
	return leash_put(ctx, (int)t, k, p, n);
}

static int commit_through(void *ctx)
{
	return leash_commit(ctx);
}

static bool alive(void *ctx)
{
	return leash_held(ctx);
}

static int again(void *ctx)
{
	return leash_again(ctx);
}

/* The cache's id is a CACHE_SHARED record of its own, 32 hex digits. It lies in the cache, so it is lost
 * together with the records that were taken. */
static struct key id_key(void)
{
	return hash_text(
	    "the cache that hone-sync brings to"); /* stored keys are made of it: never change it */
}

static void read_id(struct keeper *k)
{
	struct arena a = {0};
	struct blob b;
	if (cache_is_own(k->cache, CACHE_SHARED, id_key()) &&
	    cache_get(k->cache, CACHE_SHARED, id_key(), &a, &b) >= 0 && b.n == 32)
		snprintf(k->id, sizeof k->id, "%.32s", (const char *)b.p);
	arena_free(&a);
}

static int give_id(struct keeper *k)
{
	uint8_t id[16];
	if (k->id[0])
		return E_OK;
	int rc = crypto_random(id, sizeof id);
	if (rc < 0)
		return rc;
	hex_write(id, sizeof id, k->id);
	return cache_put(k->cache, CACHE_SHARED, id_key(), k->id, 32);
}

static int records_of(const struct taken_sum *t)
{
	return t->incumbents + t->hints;
}

static int take(void *ctx, const struct snapshot *s, const void *lines, size_t n, struct sync_sum *sum)
{
	struct keeper *k = ctx;
	const struct taken_sum before = k->sum;
	int rc = give_id(k);
	if (rc >= 0)
		rc = taken_lines(k->cache, lines, n, s, k->server, &k->sum);
	sum->taken += records_of(&k->sum) - records_of(&before);
	sum->choices += k->sum.choices - before.choices;
	sum->refused += k->sum.refused - before.refused;
	return rc;
}

static int take_back(void *ctx, const struct snapshot *s)
{
	struct keeper *k = ctx;
	int n = taken_revoke(k->cache, s);
	if (n > 0)
		log_info("hone-sync: removed %d record%s that the fleet revoked", n, plural_s(n));
	return n;
}

/* Stores the division where the tuning jobs look for it: hone-sync's state folder if honed keeps the cache,
 * else the cache itself. */
static int share(void *ctx, const struct snapshot *s, const char *board)
{
	const struct keeper *k = ctx;
	const struct share division = {s->parts, s->salt, board};
	return share_kept_put(leash_held(k->leash) ? k->state : cache_dir(k->cache), s->cls, &division);
}

static int commit(void *ctx)
{
	struct keeper *k = ctx;
	return cache_commit(k->cache);
}

static int next(void *ctx, struct arena *a, const char **line)
{
	struct keeper *k = ctx;
	int rc = k->offered ? E_OK : offered_open(k->cache, k->cls, k->server, &k->offered);
	return rc < 0 ? rc : offered_next(k->offered, a, line);
}

static int sent(void *ctx, const int *line, int n)
{
	struct keeper *k = ctx;
	return k->offered ? offered_sent(k->offered, line, n) : E_OK;
}

static int open_through(struct keeper *k, const struct sync_cache_options *o)
{
	const struct cache_options co = {.through = &k->through};
	return cache_open_with(&k->cache, o->dir, CACHE_THROUGH, 0, &co);
}

/* Waits as long as another process writes the cache, unless that is a honed. */
static int open_own(struct keeper *k, const struct sync_cache_options *o)
{
	const struct cache_options co = {.only_here = true};
	const int64_t wait_ns = o->wait_ns ? o->wait_ns : LOCK_WAIT_NS, from_ns = clock_now(&clock_real);
	int64_t left_ns = wait_ns;
	int rc = cache_refuse_other(o->dir);
	if (rc >= 0)
		rc = cache_open_with(&k->cache, o->dir, CACHE_WRITE, 0, &co);
	if (rc == E_BUSY && o->wait_ns)
		log_info("hone-sync: %s; waiting until it ends", err_text());
	while (rc == E_BUSY && left_ns > 0 && !(o->stop && *o->stop)) {
		if (leash_again(k->leash) >= 0)
			return open_through(k, o);
		rc = cache_open_with(&k->cache, o->dir, CACHE_WRITE,
				     left_ns < LOCK_TRY_NS ? left_ns : LOCK_TRY_NS, &co);
		left_ns = wait_ns - (clock_now(&clock_real) - from_ns);
	}
	return rc == E_IO ? fail_in(rc, "honed does not run with this cache; start it, correct this, or name "
					"another folder with --cache")
			  : rc;
}

static int open_cache(struct keeper *k, const struct sync_cache_options *o)
{
	const struct leash_options lo = {
	    .socket = o->socket, .cache = o->dir, .clock = o->clock, .syncs = true};
	int rc = leash_open(&lo, &k->leash);
	if (rc < 0)
		return rc;
	k->through = (struct cache_through){k->leash, put, commit_through, alive, again};
	return leash_held(k->leash) ? open_through(k, o) : open_own(k, o);
}

static int name_class(struct keeper *k)
{
	struct target t;
	int rc = target_host(&t);
	if (rc < 0)
		return rc;
	key_text(target_key(&t), k->cls);
	snprintf(k->label, sizeof k->label, "%s %s %d", t.soc, t.isa, t.lanes);
	return E_OK;
}

int sync_cache_open(const struct sync_cache_options *o, struct sync_cache *out)
{
	struct keeper *k = calloc(1, sizeof *k);
	*out = (struct sync_cache){.ctx = k,
				   .revoke = take_back,
				   .take = take,
				   .share = share,
				   .commit = commit,
				   .next = next,
				   .sent = sent};
	if (!k)
		return fail(E_NOMEM, "no memory for the cache");
	out->cls = k->cls;
	out->label = k->label;
	out->id = k->id;
	snprintf(k->state, sizeof k->state, "%s", o->state);
	snprintf(k->server, sizeof k->server, "%s", o->server ? o->server : "");
	int rc = name_class(k);
	if (rc >= 0)
		rc = open_cache(k, o);
	if (rc >= 0)
		read_id(k);
	else
		sync_cache_close(out);
	return rc < 0 ? rc : E_OK;
}

void sync_cache_close(struct sync_cache *s)
{
	struct keeper *k = s->ctx;
	if (!k)
		return;
	offered_close(k->offered);
	if (k->cache) {
		taken_tell(k->cache, &k->sum);
		cache_close(k->cache);
	}
	leash_close(k->leash);
	free(k);
	*s = (struct sync_cache){0};
}

struct cache *sync_cache_of(const struct sync_cache *s)
{
	const struct keeper *k = s->ctx;
	return k ? k->cache : NULL;
}
