/* SPDX-License-Identifier: Apache-2.0 */
/* A cache in a temporary folder, and the target of the board that its records come from. */
#ifndef TESTS_BOARD_CACHE_H
#define TESTS_BOARD_CACHE_H

#include "agent/cache/cache.h"
#include "agent/cache/kept_code.h"
#include "kernels/loops/code.h"
#include "tests/lib/test.h"

#include <unistd.h>

static struct cache *cache;
static struct target target = {.soc = "board", .isa = "x86-64-v3", .lanes = 8};
static char dir[64];
static const char *code_features = ""; /* that put_code says the code needs */

static inline void open_cache(void)
{
	snprintf(dir, sizeof dir, "/tmp/hone-test-XXXXXX");
	if (!mkdtemp(dir) || cache_open(&cache, dir, false, 0) < 0)
		abort();
}

static inline void close_cache(void)
{
	char cmd[96];
	cache_close(cache);
	snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
	CHECK(system(cmd) == 0);
}

/* Stores code for r whose object is these bytes, so that a test can recognise it. */
static inline void put_code(const struct rec *r, const char *version, const char *object)
{
	struct code c = {.m = {.emitter = "llvm", .isa = "x86-64-v3", .lanes = 8},
			 .object = {object, strlen(object)}};
	struct buf b = {0};
	snprintf(c.m.version, sizeof c.m.version, "%s", version);
	snprintf(c.m.features, sizeof c.m.features, "%s", code_features);
	c.m.nentries = c.m.nbufs = 1;
	c.m.alias_out = c.m.alias_in = -1;
	strcpy(c.m.entry[0], "k0");
	strcpy(c.m.extent_expr[0], "4");
	c.m.buf[0] = (struct code_buf){.name = "Y", .role = BUF_OUT, .elems = 4};
	code_bytes(&c, &b);
	CHECK_OK(kept_code_put(cache, r, (struct blob){b.p, b.n}));
	buf_free(&b);
}

#endif
