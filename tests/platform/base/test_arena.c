/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/arena.h"
#include "tests/lib/test.h"

#include <stdbool.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static bool zero(const void *p, size_t n)
{
	const char *c = p;
	for (size_t i = 0; i < n; i++)
		if (c[i])
			return false;
	return true;
}

TEST(zeroed_aligned_and_apart)
{
	struct arena a = {0};
	char *last = NULL;
	size_t last_n = 0;
	for (size_t n = 1; n < 20000; n = n * 3 / 2 + 1) {
		char *p = arena_alloc(&a, n);
		CHECK((uintptr_t)p % 16 == 0);
		CHECK(zero(p, n));
		CHECK(!last || p >= last + last_n || p + n <= last);
		memset(p, 0xAB, n);
		last = p;
		last_n = n;
	}
	arena_free(&a);
	CHECK(a.head == NULL && a.used_bytes == 0);
}

TEST(reset_keeps_blocks_and_zeroes_again)
{
	struct arena a = {0};
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 100; i++) {
			size_t n = (size_t)(i * 977 % 5000) + 1;
			char *p = arena_alloc(&a, n);
			CHECK(zero(p, n));
			memset(p, 0xCD, n);
		}
		size_t blocks = 0;
		static size_t first;
		for (struct arena_block *b = a.head; b; b = *(struct arena_block **)b)
			blocks++;
		if (round == 0)
			first = blocks;
		CHECK(blocks <= first + 2);
		arena_reset(&a);
		CHECK(a.used_bytes == 0);
	}
	arena_free(&a);
}

TEST(large_alignment)
{
	struct arena a = {0};
	for (size_t align = 1; align <= 4096; align *= 2) {
		(void)arena_alloc(&a, 1);
		CHECK((uintptr_t)arena_aligned(&a, 100, align) % align == 0);
	}
	arena_free(&a);
}

TEST(try_refuses)
{
	struct arena a = {.cap_bytes = 1000};
	CHECK(arena_try(&a, 100, 4) != NULL);
	CHECK(arena_try(&a, 1000, 4) == NULL);
	CHECK(strstr(err_text(), "1000 elements of 4 bytes"));
	CHECK(arena_try(&a, SIZE_MAX / 2, 4) == NULL);
	CHECK(arena_try(&a, SIZE_MAX, 1) == NULL);
	a.cap_bytes = 0;
	CHECK(arena_try(&a, SIZE_MAX, 1) == NULL);
	CHECK(arena_try(&a, SIZE_MAX - 20, 1) == NULL);
	CHECK(arena_try(&a, 0, 4) != NULL);
	arena_free(&a);
}

TEST(strings)
{
	struct arena a = {0};
	CHECK(strcmp(arena_strdup(&a, "hello"), "hello") == 0);
	CHECK(strcmp(arena_strndup(&a, "hello", 3), "hel") == 0);
	CHECK(strcmp(arena_strndup(&a, "hi", 30), "hi") == 0);
	CHECK(strcmp(arena_printf(&a, "%d-%s", 7, "x"), "7-x") == 0);
	int v[3] = {1, 2, 3};
	int *w = arena_memdup(&a, v, sizeof v);
	CHECK(w != v && memcmp(v, w, sizeof v) == 0);
	arena_free(&a);
}

/* Bytes beside dropped bytes stay as they are, and memory handed out after a reset is zero. */
TEST(drop_leaves_the_neighbours)
{
	enum { BIG = 1 << 20 };
	struct arena a = {0};
	for (int round = 0; round < 2; round++) {
		char *before = arena_alloc(&a, 100), *big = arena_alloc(&a, BIG),
		     *after = arena_alloc(&a, 100);
		CHECK(big[0] == 0 && big[BIG - 1] == 0);
		memset(before, 1, 100);
		memset(big, 2, BIG);
		memset(after, 3, 100);
		arena_drop(big + 1000, 0);
		CHECK(big[1000] == 2);
		arena_drop(big, BIG);
		for (int i = 0; i < 100; i++)
			CHECK(before[i] == 1 && after[i] == 3);
		arena_reset(&a);
	}
	arena_free(&a);
}

TEST(alloc_over_the_cap_aborts)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct arena a = {.cap_bytes = 100};
		(void)!freopen("/dev/null", "w", stderr);
		(void)arena_alloc(&a, 200);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST_MAIN
