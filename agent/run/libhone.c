/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/libhone.h"
#include "agent/run/machine.h"
#include "agent/run/source.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)HONE_STOPPED == (int)E_STOPPED && (int)HONE_BUSY == (int)E_BUSY &&
		   (int)HONE_NOTFOUND == (int)E_NOTFOUND && (int)HONE_USAGE == (int)E_USAGE,
	       "enum hone_status are some of enum err");
_Static_assert((int)HONE_BOOL == (int)DT_BOOL && (int)HONE_U8 == (int)DT_U8 && (int)HONE_I64 == (int)DT_I64 &&
		   (int)HONE_MAX_RANK == (int)MAX_RANK,
	       "enum hone_dtype is enum dtype");

void hone_init(void *structure, size_t size)
{
	memset(structure, 0, size);
	memcpy(structure, &size, sizeof size);
}

int hone_copy_out(void *out, const void *from, size_t bytes, size_t least)
{
	size_t theirs = 0;
	if (out)
		memcpy(&theirs, out, sizeof theirs);
	if (theirs < least)
		return fail(E_USAGE, "the structure's size is not set: initialise it with HONE_INIT");
	size_t n = theirs < bytes ? theirs : bytes;
	memcpy((char *)out + sizeof n, (const char *)from + sizeof n, n - sizeof n);
	return E_OK;
}

int hone_copy_in(void *out, const void *from, size_t bytes, size_t least)
{
	memset(out, 0, bytes);
	if (!from)
		return E_OK;
	size_t theirs;
	memcpy(&theirs, from, sizeof theirs);
	if (theirs < least || theirs > 65536)
		return fail(E_USAGE, "the structure's size is not set: initialise it with HONE_INIT");
	for (size_t i = bytes; i < theirs; i++)
		if (((const char *)from)[i])
			return fail(E_USAGE,
				    "an option is set that only a newer version has: this is hone %s",
				    HONE_VERSION);
	memcpy(out, from, theirs < bytes ? theirs : bytes);
	return E_OK;
}

const char *hone_version(void)
{
	return HONE_VERSION;
}

const char *hone_error(void)
{
	return err_text();
}

const char *hone_status_name(int status)
{
	return err_name(status);
}

const char *hone_dtype_name(int dtype)
{
	return dtype > DT_NONE && dtype < DTYPES ? dtype_name((enum dtype)dtype) : NULL;
}

size_t hone_dtype_bytes(int dtype)
{
	return dtype > DT_NONE && dtype < DTYPES ? dtype_bytes((enum dtype)dtype) : 0;
}

int hone_absolute(const char *path, char *out, size_t n)
{
	char here[4096];
	bool add = path[0] != '/' && getcwd(here, sizeof here) && here[0] == '/';
	if (snprintf(out, n, "%s%s%s", add ? here : "", add ? "/" : "", path) >= (int)n)
		return fail(E_USAGE, "the path is too long: %.200s", path);
	return E_OK;
}

/* Adds a cache folder. A folder that cannot be used is logged and counts as empty. */
static void add_cache(struct hone_handle *h, const char *given)
{
	struct cache *c = NULL;
	char *dir = h->dir[h->ncaches];
	int rc = hone_absolute(given, dir, sizeof *h->dir);
	if (rc >= 0)
		rc = cache_open(&c, dir, true, 0);
	if (rc >= 0)
		rc = cache_source(c, &h->target, h->threads, hone_level(h), REC_BEST, &h->source[h->ncaches]);
	if (rc < 0) {
		log_info("hone: %s: this cache counts as empty", err_text());
		cache_close(c);
		return;
	}
	h->cache[h->ncaches++] = c;
}

/* Finds the user's cache and the daemon's; returns their number. */
static int usual_caches(char own[4096], const char *dir[2])
{
	const char *daemons = getenv("HONE_DAEMON_CACHE");
	int n = 0;
	if (file_cache_dir(own, 4096) >= 0)
		dir[n++] = own;
	daemons = daemons && *daemons ? daemons : CACHE_DAEMON;
	if (file_is_dir(daemons))
		dir[n++] = daemons;
	return n;
}

static int open_caches(struct hone_handle *h, const struct hone_options *o)
{
	char own[4096];
	const char *usual[2], *const *dir = o->caches;
	int n = o->ncaches;
	if (!dir) {
		n = usual_caches(own, usual);
		dir = usual;
	}
	if (n < 0 || n > MAX_CACHES)
		return fail(E_USAGE, "ncaches is %d; it must be 0 to %d", n, MAX_CACHES);
	for (int i = 0; i < n; i++) {
		if (!dir[i] || !*dir[i] || strlen(dir[i]) >= sizeof *h->dir)
			return fail(E_USAGE, "the name of cache folder %d is missing or too long", i);
		if (!h->target.fma_gflops)
			(void)target_recall(dir[i], &h->target);
	}
	for (int i = 0; i < n; i++)
		add_cache(h, dir[i]);
	return E_OK;
}

static int open_threads(struct hone_handle *h, const struct hone_options *o)
{
	int n = o->threads ? o->threads : h->target.cores < 64 ? h->target.cores : 64;
	if (n < 1 || n > 64)
		return fail(E_USAGE, "%d threads: must be 1 to 64, or 0 for as many as there are cores", n);
	h->threads = n;
	return n == 1 ? E_OK : machine_pool(n, !(h->flags & HONE_NO_PIN), &h->pool);
}

static void release(struct hone_handle *h)
{
	if (atomic_fetch_sub(&h->users, 1) != 1)
		return;
	device_release(h);
	for (int i = 0; i < h->ncaches; i++) {
		cache_source_free(&h->source[i]);
		cache_close(h->cache[i]);
	}
	if (h->pool)
		pool_close(h->pool);
	turns_close(&h->pool_turns);
	pthread_mutex_destroy(&h->cache_lock);
	free(h);
}

/* The calling thread is bound to the cluster that is asked for meanwhile: the target is that of the
 * processors it may use, and so are those of the threads that it starts. */
static int open_parts(struct hone_handle *h, const struct hone_options *o)
{
	cpu_set_t was;
	const char *device = device_asked(o->device);
	int rc = topo_keep_to(device, &was);
	if (rc < 0)
		return rc;
	topo_device(h->cluster);
	rc = target_host(&h->target);
	if (rc >= 0)
		rc = open_threads(h, o);
	if (rc >= 0)
		rc = open_caches(h, o);
	if (topo_cluster_of(device))
		(void)sched_setaffinity(0, sizeof was, &was);
	return rc < 0 ? rc : device_choose(h, device);
}

void hone_keep(struct hone_handle *h)
{
	atomic_fetch_add(&h->users, 1);
}

int hone_open(const struct hone_options *options, struct hone_handle **out)
{
	enum {
		KNOWN = HONE_EXACT | HONE_NO_PIN | HONE_KEEP_IMAGES | HONE_VERBOSE | HONE_W16 | HONE_INT8 |
			HONE_HALF | HONE_HALF_SUM | HONE_NEEDS_RECIPE
	};
	struct hone_options o;
	if (!out)
		return fail(E_USAGE, "hone_open: out is NULL");
	*out = NULL;
	int rc = hone_copy_in(&o, options, sizeof o, offsetof(struct hone_options, caches));
	if (rc >= 0 && o.flags & ~(unsigned)KNOWN)
		rc = fail(E_USAGE, "hone_open: unknown flags %#x for hone %s", o.flags & ~(unsigned)KNOWN,
			  HONE_VERSION);
	if (rc >= 0 && o.flags & HONE_EXACT && o.flags & (HONE_W16 | HONE_INT8 | HONE_HALF | HONE_HALF_SUM))
		rc = fail(E_USAGE,
			  "hone_open: HONE_EXACT excludes HONE_W16, HONE_HALF, HONE_HALF_SUM and HONE_INT8");
	if (rc >= 0 && o.flags & (HONE_HALF | HONE_HALF_SUM) && o.flags & HONE_INT8)
		rc = fail(E_USAGE, "hone_open: HONE_%s excludes HONE_INT8",
			  o.flags & HONE_HALF ? "HALF" : "HALF_SUM");
	struct hone_handle *h = rc < 0 ? NULL : calloc(1, sizeof *h);
	if (!h)
		return rc < 0 ? rc : fail(E_NOMEM, "hone_open: no memory");
	log_level_set(o.flags & HONE_VERBOSE ? LOG_VERBOSE : LOG_QUIET);
	atomic_init(&h->users, 1);
	h->flags = o.flags;
	turns_open(&h->pool_turns);
	pthread_mutex_init(&h->cache_lock, NULL);
	rc = open_parts(h, &o);
	if (rc < 0) {
		release(h);
		return fail_in(rc, "hone_open");
	}
	*out = h;
	return err_clear(E_OK);
}

void hone_close(struct hone_handle *h)
{
	if (h)
		release(h);
}

int hone_threads(const struct hone_handle *h)
{
	return h->threads;
}
