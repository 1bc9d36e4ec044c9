/* SPDX-License-Identifier: Apache-2.0 */
/* Part of arm_harness.c: loads objects by our own linker, and has what the linker needs of a C library. */
#include "platform/run/elf.h"

#include <string.h>

void *memcpy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = ((const char *)from)[i];
	return to;
}

void *memset(void *to, int c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = (char)c;
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;
	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] - y[i];
	return 0;
}

void *memchr(const void *p, int c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const unsigned char *)p)[i] == c)
			return (char *)p + i;
	return 0;
}

char *strcpy(char *to, const char *from)
{
	char *at = to;
	while ((*at++ = *from++))
		;
	return to;
}

/* The compiler's own names of these on ARMv7. */
#ifdef __arm__
void __aeabi_memset(void *to, size_t n, int c);
void __aeabi_memclr(void *to, size_t n);
void __aeabi_memset(void *to, size_t n, int c)
{
	memset(to, c, n);
}
void __aeabi_memclr(void *to, size_t n)
{
	memset(to, 0, n);
}
void *__aeabi_memcpy(void *to, const void *from, size_t n) __attribute__((alias("memcpy")));
void *__aeabi_memcpy4(void *to, const void *from, size_t n) __attribute__((alias("memcpy")));
void *__aeabi_memcpy8(void *to, const void *from, size_t n) __attribute__((alias("memcpy")));
void __aeabi_memset4(void *to, size_t n, int c) __attribute__((alias("__aeabi_memset")));
void __aeabi_memset8(void *to, size_t n, int c) __attribute__((alias("__aeabi_memset")));
void __aeabi_memclr4(void *to, size_t n) __attribute__((alias("__aeabi_memclr")));
void __aeabi_memclr8(void *to, size_t n) __attribute__((alias("__aeabi_memclr")));
#endif

int fail(int rc, const char *fmt, ...)
{
	(void)fmt;
	return rc;
}

enum { MOST_CODE = 1 << 20 };

static uint8_t object[MOST_CODE], image[MOST_CODE] __attribute__((aligned(4096)));
static struct elf elf;

static void load(void)
{
	uint32_t n;
	all(READ, 0, &n, sizeof n);
	if (n > sizeof object)
		stop();
	all(READ, 0, object, (long)n);
	if (elf_read(&elf, object, n, elf_machine()) < 0 || elf.image_bytes > sizeof image)
		stop();
	if (elf_link(&elf, (uintptr_t)image, image) < 0 || call(MPROTECT, (long)image, sizeof image, 7) < 0)
		stop();
}

static kernel *find(entry name)
{
	for (int i = 0; i < elf.nentries; i++) {
		const char *x = elf.entry[i].name, *y = name;
		for (; *x && *x == *y; x++)
			y++;
		if (!*x && !*y)
			return (kernel *)(uintptr_t)(image + elf.entry[i].at);
	}
	stop();
	return 0;
}
