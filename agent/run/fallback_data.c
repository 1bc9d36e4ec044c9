/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/fallback_data.h"
#include "platform/base/buf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { MOST_ISAS = 8, ISA_BYTES = 24 };
static const size_t most_bytes = (size_t)64 << 20;

extern const unsigned char hone_fallback_data[] __attribute__((weak));
extern const unsigned char hone_fallback_end[] __attribute__((weak));

static struct archive { /* archives asked for so far, found or not */
	char isa[ISA_BYTES];
	struct blob bytes; /* malloc'd; n 0: there is none */
} kept[MOST_ISAS];
static int nkept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int unpack(const void *packed, size_t n, uint64_t bytes, struct blob *out)
{
	if (!bytes || bytes > most_bytes)
		return fail(E_CORRUPT, "an archive of fallback kernels does not state its size");
	void *p = malloc((size_t)bytes);
	if (!p)
		return fail(E_NOMEM, "no memory to unpack fallback kernels");
	size_t got = ZSTD_decompress(p, (size_t)bytes, packed, n);
	if (ZSTD_isError(got) || got != bytes) {
		free(p);
		return fail(E_CORRUPT, "an archive of fallback kernels is damaged");
	}
	*out = (struct blob){p, (size_t)bytes};
	return E_OK;
}

static int linked(const char *isa, struct blob *out)
{
	struct cur c = {.p = hone_fallback_data};
	if (hone_fallback_data && hone_fallback_end)
		c.n = (size_t)(hone_fallback_end - hone_fallback_data);
	while (c.at < c.n) {
		const char *name = cur_bytes(&c, ISA_BYTES);
		uint64_t bytes = cur_u64(&c), n = cur_u64(&c);
		const void *packed = cur_bytes(&c, (size_t)n);
		if (!packed)
			break;
		if (!strncmp(name, isa, ISA_BYTES))
			return unpack(packed, (size_t)n, bytes, out);
		(void)cur_bytes(&c, (size_t)(-n % 8));
	}
	return fail(E_NOTFOUND, "no fallback kernels for %s are linked into this program", isa);
}

static int read_in(const char *dir, int n, const char *isa, struct blob *out)
{
	char path[4096];
	struct arena a = {0};
	struct blob file;
	if (snprintf(path, sizeof path, "%.*s/%s.fallback.zst", n, dir, isa) >= (int)sizeof path)
		return fail(E_NOTFOUND, "the library's path is too long");
	int rc = file_read(&a, path, most_bytes, &file);
	if (rc >= 0)
		rc = fail_in(unpack(file.p, file.n, ZSTD_getFrameContentSize(file.p, file.n), out), "%s",
			     path);
	arena_free(&a);
	return rc;
}

/* Looks beside the library: in hone/, or, in a build folder, in fallback/. Trusting these folders adds no
 * risk: whoever can write there can replace the library. */
static int beside(const char *isa, struct blob *out)
{
	static const char *const names[] = {"hone", "fallback"};
	Dl_info self;
	char dir[4096];
	int rc = E_NOTFOUND;
	bool known = dladdr((void *)(uintptr_t)fallback_archive, &self) && self.dli_fname;
	for (int i = 0; i < 2 && known && rc < 0; i++) {
		const char *slash = strrchr(self.dli_fname, '/');
		int n = snprintf(dir, sizeof dir, "%.*s/%s", slash ? (int)(slash - self.dli_fname) : 1,
				 slash ? self.dli_fname : ".", names[i]);
		rc = n < (int)sizeof dir ? read_in(dir, n, isa, out) : rc;
	}
	return rc >= 0 ? rc : read_in(HONE_LIBDIR, (int)strlen(HONE_LIBDIR), isa, out);
}

/* The caller holds `lock`. */
static struct archive *find(const char *isa)
{
	for (int i = 0; i < nkept; i++)
		if (!strcmp(kept[i].isa, isa))
			return &kept[i];
	if (nkept == MOST_ISAS)
		return NULL;
	struct archive *x = &kept[nkept];
	snprintf(x->isa, sizeof x->isa, "%s", isa);
	int rc = beside(isa, &x->bytes);
	if (rc < 0)
		rc = linked(isa, &x->bytes);
	nkept += rc != E_NOMEM; /* after E_NOMEM it is looked for again */
	return rc == E_NOMEM ? NULL : x;
}

int fallback_archive(const char *isa, struct blob *out)
{
	pthread_mutex_lock(&lock);
	const struct archive *x = find(isa);
	*out = x ? x->bytes : (struct blob){0};
	pthread_mutex_unlock(&lock);
	return out->n ? E_OK : fail(E_NOTFOUND, "no fallback kernels for %s", isa);
}
