/* SPDX-License-Identifier: Apache-2.0 */
/* Sets flush-to-zero and denormals-are-zero for the calling thread. */
#include "platform/run/pool.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { FTZ = 0x8000, DAZ = 0x0040 };

unsigned fpu_flush(void)
{
	unsigned old = _mm_getcsr();
	_mm_setcsr(old | FTZ | DAZ);
	return old;
}

void fpu_restore(unsigned old)
{
	_mm_setcsr((_mm_getcsr() & ~(unsigned)(FTZ | DAZ)) | (old & (FTZ | DAZ)));
}

#elif defined(__aarch64__) || (defined(__arm__) && defined(__ARM_FP))

#ifdef __aarch64__
typedef uint64_t word;
#define GET "mrs %0, fpcr"
#define PUT "msr fpcr, %0"
#else
typedef uint32_t word;
#define GET "vmrs %0, fpscr"
#define PUT "vmsr fpscr, %0"
#endif
#define FZ ((word)1 << 24)

static word get(void)
{
	word v;
	__asm__ volatile(GET : "=r"(v));
	return v;
}

static void put(word v)
{
	__asm__ volatile(PUT : : "r"(v));
}

unsigned fpu_flush(void)
{
	word old = get();
	put(old | FZ);
	return (unsigned)old;
}

void fpu_restore(unsigned old)
{
	put((get() & ~FZ) | (old & FZ));
}

#else

unsigned fpu_flush(void)
{
	return 0;
}

void fpu_restore(unsigned old)
{
	(void)old;
}

#endif
