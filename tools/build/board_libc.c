/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc 2.31 does not have, and Debian 12's archives or we call. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct usage {
	size_t of[10];
};

char __libc_single_threaded; /* 0: C++ code counts references atomically */
uint32_t arc4random(void);
struct usage mallinfo2(void);
const char *strerrordesc_np(int number);
int _dl_find_object(void *address, void *found);

/* Static programs alone call it, to unwind exceptions. Neither we nor LLVM throw any. */
int _dl_find_object(void *address, void *found)
{
	(void)address, (void)found;
	return -1;
}

uint32_t arc4random(void)
{
	uint32_t x = 0;
	while (getrandom(&x, sizeof x, 0) != sizeof x)
		if (errno != EINTR)
			abort(); /* as glibc does: a constant would pass for a random number */
	return x;
}

/* LLVM's statistics alone call it. */
struct usage mallinfo2(void)
{
	return (struct usage){0};
}

const char *strerrordesc_np(int number)
{
	return strerror(number);
}
