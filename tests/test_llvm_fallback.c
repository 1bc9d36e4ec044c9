/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of fallback kernels can be made for every baseline of this machine, and hold the forms that networks need. */
#include "tests/test.h"
#include "agent/fallback.h"
#include "platform/buf.h"

#include <unistd.h>

TEST(archive_of_each_baseline)
{
	static const char *const isas[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
	char path[64];
	struct arena a = {0};
	struct blob b;
	snprintf(path, sizeof path, "/tmp/hone-fallback-%d", (int)getpid());
	for (int i = 0; i < 3; i++) {
		int n = fallback_make(isas[i], emit_find("llvm"), path);
		REQUIRE_OK(n);
		printf("%s: %d kernels\n", isas[i], n);
		CHECK(n >= 40);
		REQUIRE_OK(file_read(&a, path, 0, &b));
		struct cur c = {.p = b.p, .n = b.n};
		cur_bytes(&c, 4);
		CHECK(cur_u32(&c) == (uint32_t)n);
		for (int k = 0; k < n; k++) {
			struct code code;
			cur_bytes(&c, 16);
			uint32_t bytes = cur_u32(&c);
			const void *p = cur_bytes(&c, bytes);
			REQUIRE(p != NULL);
			CHECK_OK(code_parse(p, bytes, &a, &code));
			CHECK(!strcmp(code.m.isa, isas[i]) && code.m.nsyms > 0);
		}
		CHECK(!c.bad && c.at == c.n);
	}
	CHECK_FAILS(fallback_make("vax", emit_find("llvm"), path), E_NOTFOUND, "vax");
	unlink(path);
	arena_free(&a);
}

TEST_MAIN
