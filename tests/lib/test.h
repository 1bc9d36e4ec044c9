/* SPDX-License-Identifier: Apache-2.0 */
/* A test is one binary tests/test_NAME.c with TEST(name) blocks and TEST_MAIN. Prints a line per failing
 * check and, last, "N passed, N failed, N skipped". `build/tests/test_x NAME` runs the blocks whose name
 * contains NAME; with TEST_TIMES set, a line says how long each takes. HONE_TEST_SHARE=25: tests of many
 * generated cases run each 25th alone, for emulators and other slow machines. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "platform/base/err.h"
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <time.h>

struct test_case {
	const char *name;
	void (*fn)(void);
	struct test_case *next;
};
static struct test_case *test_first, **test_last = &test_first;
static int test_bad, test_skipped;

#define TEST(id)                                                                                             \
	static void test_##id(void);                                                                         \
	static struct test_case case_##id = {#id, test_##id, NULL};                                          \
	__attribute__((constructor)) static void add_##id(void)                                              \
	{                                                                                                    \
		*test_last = &case_##id;                                                                     \
		test_last = &case_##id.next;                                                                 \
	}                                                                                                    \
	static void test_##id(void)

#define CHECK(cond)                                                                                          \
	do {                                                                                                 \
		if (!(cond)) {                                                                               \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);                            \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)
#define CHECK_OK(call)                                                                                       \
	do {                                                                                                 \
		int rc_ = (call);                                                                            \
		if (rc_ < 0) {                                                                               \
			printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, err_text());                    \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)
/* The call must fail with code rc and a text that contains `part`. */
#define CHECK_FAILS(call, rc, part)                                                                          \
	do {                                                                                                 \
		int rc_ = (call);                                                                            \
		if (rc_ != (rc) || !strstr(err_text(), part)) {                                              \
			printf("%s:%d: %s: got %d (%s), wanted %s with \"%s\"\n", __FILE__, __LINE__, #call, \
			       rc_, rc_ < 0 ? err_text() : "good", #rc, part);                               \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)
#define REQUIRE(cond)                                                                                        \
	do {                                                                                                 \
		CHECK(cond);                                                                                 \
		if (test_bad)                                                                                \
			return;                                                                              \
	} while (0)
#define REQUIRE_OK(call)                                                                                     \
	do {                                                                                                 \
		CHECK_OK(call);                                                                              \
		if (test_bad)                                                                                \
			return;                                                                              \
	} while (0)
#define SKIP(why)                                                                                            \
	do {                                                                                                 \
		printf("skip: %s\n", why);                                                                   \
		test_skipped = 1;                                                                            \
		return;                                                                                      \
	} while (0)

static inline double test_now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The step of a loop over generated cases. If it is not 1, too few run to count those with a property. */
static inline int test_share(void)
{
	const char *share = getenv("HONE_TEST_SHARE");
	return share && atoi(share) > 1 ? atoi(share) : 1;
}

static inline int test_count(const char *text, const char *part)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
		n++;
	return n;
}

#define TEST_MAIN                                                                                            \
	int main(int argc, char **argv)                                                                      \
	{                                                                                                    \
		int good = 0, bad = 0, skipped = 0;                                                          \
		setvbuf(stdout, NULL, _IOLBF, 0);                                                            \
		setenv("HONE_SOCKET", "/dev/null/honed.sock",                                                \
		       0); /* not a honed that runs on this machine */                                       \
		for (struct test_case *t = test_first; t; t = t->next) {                                     \
			if (argc > 1 && !strstr(t->name, argv[1]))                                           \
				continue;                                                                    \
			test_bad = test_skipped = 0;                                                         \
			double start_s = test_now_s();                                                       \
			t->fn();                                                                             \
			if (getenv("TEST_TIMES"))                                                            \
				printf("%8.2f s  %s\n", test_now_s() - start_s, t->name);                    \
			if (test_bad)                                                                        \
				printf("FAILED %s\n", t->name);                                              \
			bad += test_bad != 0;                                                                \
			skipped += !test_bad && test_skipped;                                                \
			good += !test_bad && !test_skipped;                                                  \
		}                                                                                            \
		printf("%d passed, %d failed, %d skipped\n", good, bad, skipped);                            \
		return bad != 0;                                                                             \
	}

/* The optional data folder ($HONE_DATA, else ../shared beside the project); NULL: absent, tests skip. */
static inline const char *test_data(void)
{
	const char *d = getenv("HONE_DATA");
	if (!d)
		d = "../shared";
	FILE *f = NULL;
	char path[512];
	snprintf(path, sizeof path, "%s/models/models.tsv", d);
	f = fopen(path, "r");
	if (!f)
		return NULL;
	fclose(f);
	return d;
}

#endif
