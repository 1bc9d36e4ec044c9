/* SPDX-License-Identifier: Apache-2.0 */
/* Pages are zeroed, aligned, end where they should and leave nothing behind; a process that writes past
 * guarded pages is killed. */
#include "platform/base/pages.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {0, 1, 64, 65, 4096, 65535, 65536, 3 << 20, (4 << 20) + 100, (5 << 20) + 4};
enum { SIZES = sizeof sizes / sizeof *sizes, KINDS = PAGES_SHARED + 1 };

/* The signal that kills a child which writes one byte at p; 0: none. */
static int writing(char *p)
{
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		*(volatile char *)p = 1;
		_exit(0);
	}
	int status = -1;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(zeroed_aligned_and_writable)
{
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < SIZES; i++) {
			struct pages g;
			CHECK_OK(pages_open(&g, sizes[i], (enum pages_kind)k));
			CHECK(g.bytes == sizes[i] && (uintptr_t)g.p % 64 == 0);
			size_t n = (sizes[i] + 63) / 64 * 64;
			const char *p = g.p;
			for (size_t j = 0; j < n; j += 61)
				CHECK(p[j] == 0);
			memset(g.p, 1, n);
			pages_close(&g);
			CHECK(!g.p && !g.map);
			pages_close(&g); /* closing twice is allowed */
		}
}

TEST(a_guard_ends_who_runs_over)
{
	for (int k = PAGES_GUARDED; k < KINDS; k++)
		for (int i = 0; i < SIZES; i++) {
			struct pages g;
			CHECK_OK(pages_open(&g, sizes[i], (enum pages_kind)k));
			char *end = (char *)g.p + (sizes[i] + 63) / 64 * 64;
			CHECK(writing(end) != 0 && (!sizes[i] || writing(end - 1) == 0));
			CHECK(!sizes[i] || end[-1] == (k == PAGES_SHARED)); /* written by the child */
			pages_close(&g);
		}
}

/* Huge pages lie whole inside the region: they never reach past its end. */
TEST(large_ones_begin_at_a_huge_page)
{
	struct pages g;
	CHECK_OK(pages_open(&g, 3 << 20, PAGES_PLAIN));
	CHECK((uintptr_t)g.p % (2 << 20) == 0);
	CHECK((char *)g.p + (4 << 20) <= (char *)g.map + g.map_bytes);
	pages_close(&g);
	CHECK_OK(pages_open(&g, 100 << 10, PAGES_GUARDED));
	CHECK(((uintptr_t)g.p + (100 << 10)) % (2 << 20) == 0);
	pages_close(&g);
}

TEST(too_much_is_an_error)
{
	/* 32-bit machines have an eighth of their addresses. */
	size_t much = sizeof much == 8 ? SIZE_MAX / 8 : SIZE_MAX / 4 + 1;
	for (int k = 0; k < KINDS; k++) {
		struct pages g;
		CHECK_FAILS(pages_open(&g, SIZE_MAX, (enum pages_kind)k), E_NOMEM, "");
		CHECK_FAILS(pages_open(&g, much, (enum pages_kind)k), E_NOMEM, "");
		CHECK(!g.map);
		pages_close(&g);
	}
}

TEST_MAIN
