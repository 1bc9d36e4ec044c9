/* SPDX-License-Identifier: Apache-2.0 */
/* The requested range is evicted, and its bytes stay. Both ways count as a read: in a fresh mapping, the
 * touched pages are present afterwards, and a page that may not be read kills the process. */
#include "platform/machine/evict.h"
#include "tests/lib/around.h"
#include "tests/lib/test.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 6 };

static size_t page;

/* PAGES fresh pages between two that cannot be read. */
static char *open_pages(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + page, PAGES * page, PROT_READ | PROT_WRITE) < 0)
		abort();
	return p + page;
}

static void close_pages(char *p)
{
	munmap(p - page, (PAGES + 2) * page);
}

/* Bit i: page i has been touched. */
static unsigned touched(char *p)
{
	unsigned char there[PAGES];
	unsigned bits = 0;
	CHECK(mincore(p, PAGES * page, there) == 0);
	for (int i = 0; i < PAGES; i++)
		bits |= (there[i] & 1u) << i;
	return bits;
}

static bool by_reading(const void *p, size_t n)
{
	evict_by_reading(p, n);
	return true;
}

static void check_pages(bool (*evict)(const void *, size_t))
{
	static const struct {
		int page, back; /* begins `back` bytes before this page */
		int pages, more;
		unsigned want;
	} cases[] = {
	    {0, 0, 0, 0, 0}, {0, 0, PAGES, 0, 63}, {1, 0, 2, 0, 6},
	    {2, 1, 0, 1, 2}, {2, 1, 0, 2, 6},      {5, 0, 1, 0, 32},
	    {3, 0, 0, 1, 8}, {4, 3, 1, 3, 8 | 16}, {4, 70, 1, 71, 8 | 16 | 32},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *p = open_pages();
		char *from = p + (size_t)cases[i].page * page - cases[i].back;
		bool can = evict(from, (size_t)cases[i].pages * page + (size_t)cases[i].more);
		if (!can || touched(p) != cases[i].want)
			printf("case %zu: pages %x, wanted %x\n", i, touched(p), cases[i].want);
		CHECK(!can || touched(p) == cases[i].want);
		close_pages(p);
	}
}

TEST(flushes_every_line_and_no_other)
{
	char c = 0;
	if (!evict_range(&c, 1))
		SKIP("this processor lets no process flush cache lines");
	if (test_emulated())
		SKIP("the emulator flushes no cache lines");
	check_pages(evict_range);
}

TEST(reads_every_line_and_no_other)
{
	check_pages(by_reading);
}

TEST(bytes_stay)
{
	char *p = open_pages();
	for (size_t i = 0; i < PAGES * page; i++)
		p[i] = (char)(i * 7);
	(void)evict_range(p, PAGES * page);
	evict_by_reading(p + 3, PAGES * page - 3);
	int wrong = 0;
	for (size_t i = 0; i < PAGES * page; i++)
		wrong += p[i] != (char)(i * 7);
	CHECK(wrong == 0);
	close_pages(p);
}

TEST_MAIN
