/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the signed description of a pack (first byte 0), as an unsigned pack (1), or as the
 * records of an undamaged pack (2): they are refused, or taken as candidates, never as code. */
#include "agent/cache/hint.h"
#include "agent/sync/pack.h"
#include "agent/cache/segment.h"
#include "platform/base/disk.h"
#include "platform/base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char dir[32];

static void fuzz_about(const uint8_t *p, size_t n)
{
	struct pack_about one, two;
	struct buf b = {0};
	if (pack_about_parse(p, n, &one) < 0)
		return;
	pack_about_print(&one, &b);
	if (pack_about_parse(b.p, b.n, &two) < 0 || memcmp(&one, &two, sizeof one))
		abort();
	buf_free(&b);
}

static int check_rec(void *ctx, const struct rec *r)
{
	(void)ctx;
	if (r->meas.status != MEAS_OK || strlen(r->task_text) > TAKEN_BYTES)
		abort();
	return 0;
}

static void take(const char *path)
{
	struct cache *c;
	struct arena a = {0};
	struct cache_state st;
	struct taken_sum sum = {0};
	struct exchange_sum recipes = {0};
	const struct cache_options o = {.seeds = ""};
	if (cache_open_with(&c, "/nowhere", CACHE_MEMORY, 0, &o) < 0)
		abort();
	int rc = pack_import_unsigned(c, path, &sum, &recipes);
	cache_state(c, &st);
	if (st.count[CACHE_CODE] || st.count[CACHE_TRIALS] || st.count[CACHE_HISTORY] ||
	    (rc < 0 && (st.count[CACHE_REC] || st.count[CACHE_RECIPE])) || st.count[CACHE_RECIPE] != recipes.taken || cache_each_rec(c, &a, check_rec, NULL) < 0)
		abort();
	cache_close(c);
	arena_free(&a);
}

static void fuzz_file(const uint8_t *p, size_t n)
{
	char path[64];
	snprintf(path, sizeof path, "%s/file.seg", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	close(fd);
	take(path);
}

/* A record: a byte of its type, two of its length, its text; the key is the right one where there is one. */
static struct head head_of(const uint8_t *p, const char *text, uint32_t n)
{
	struct arena a = {0};
	struct rec r;
	struct head h = {.n = n, .type = p[0] % CACHE_TYPES, .key = hash_text("key")};
	if (rec_parse(text, &a, &r) >= 0)
		h.key = rec_key(&r);
	arena_free(&a);
	return h;
}

static void fuzz_records(const uint8_t *p, size_t n)
{
	struct seg s = {.kind = SEG_MIXED, .number = 1};
	struct buf b = {0};
	char path[64];
	if (seg_create(dir, "made.seg", SEG_HEAD, 0600, &s) < 0)
		abort();
	while (n >= 3) {
		size_t len = p[1] | (size_t)p[2] << 8;
		len = len > n - 3 ? n - 3 : len;
		char *text = strndup((const char *)p + 3, len);
		struct head h = head_of(p, text, (uint32_t)len);
		seg_record(&b, &s, SEG_HEAD + (int64_t)b.n, &h, p + 3);
		free(text);
		p += 3 + len;
		n -= 3 + len;
	}
	if (b.n && disk->write(s.fd, b.p, b.n, SEG_HEAD) < 0)
		abort();
	seg_close(&s);
	snprintf(path, sizeof path, "%s/made.seg", dir);
	take(path);
	unlink(path);
	buf_free(&b);
}

static void (*const ways[])(const uint8_t *p, size_t n) = {fuzz_about, fuzz_file, fuzz_records};

static void remove_dir(void)
{
	char cmd[64];
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	if (system(cmd) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (!dir[0]) {
		log_level_set(LOG_QUIET);
		snprintf(dir, sizeof dir, "%s/hone-fuzz-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
		if (!mkdtemp(dir) || crypto_start() < 0)
			abort();
		atexit(remove_dir);
	}
	if (n)
		ways[p[0] % (sizeof ways / sizeof *ways)](p + 1, n - 1);
	return 0;
}
