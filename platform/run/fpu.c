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

#elif defined(__aarch64__)

#define FZ (UINT64_C(1) << 24)

static uint64_t get(void)
{
	uint64_t v;
	__asm__ volatile("mrs %0, fpcr" : "=r"(v));
	return v;
}

static void put(uint64_t v)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(v));
}

unsigned fpu_flush(void)
{
	uint64_t old = get();
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
