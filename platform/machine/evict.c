/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/evict.h"

#include <stdint.h>

enum { LINE = 64 };

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* clflushopt instructions overlap with each other; clflush waits for the one before. */
__attribute__((target("clflushopt"))) static void flush_overlapped(const char *p, const char *end)
{
	for (; p < end; p += LINE)
		_mm_clflushopt((void *)(uintptr_t)p);
}

static void flush_in_order(const char *p, const char *end)
{
	for (; p < end; p += LINE)
		_mm_clflush(p);
}

bool evict_range(const void *p, size_t n)
{
	const char *first = (const char *)p - (uintptr_t)p % LINE;
	unsigned a, b = 0, c, d;
	bool overlapped = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 23);
	_mm_mfence();
	if (n)
		(overlapped ? flush_overlapped : flush_in_order)(first, (const char *)p + n);
	_mm_mfence();
	return true;
}

#elif defined(__aarch64__)

/* Linux lets processes clean and invalidate to the point of coherency. */
bool evict_range(const void *p, size_t n)
{
	for (uintptr_t at = (uintptr_t)p & ~(uintptr_t)(LINE - 1), end = (uintptr_t)p + n; n && at < end;
	     at += LINE)
		__asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb sy" : : : "memory");
	return true;
}

#else

bool evict_range(const void *p, size_t n)
{
	(void)p;
	(void)n;
	return false;
}

#endif

void evict_by_reading(const void *p, size_t n)
{
	const volatile char *at = p;
	for (size_t i = 0; i < n; i += LINE)
		(void)at[i];
	if (n)
		(void)at[n - 1]; /* if p is inside a line, the loop ends before the last line */
}
