/* SPDX-License-Identifier: Apache-2.0 */
/* Runs emitted programs on an emulated Arm processor, without a C library: for each program it reads the bytes
 * of all buffers from stdin, runs it over its extent, and writes the bytes to stdout. The test writes the
 * table of programs. Subnormals are flushed, as fpu_flush does it. */
#include "table.h"

#ifdef __aarch64__
enum { READ = 63, WRITE = 64, EXIT = 93 };

static long call(long number, long a, long b, long c)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

static void flush_subnormals(void)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(1ul << 24));
}
#else
enum { READ = 3, WRITE = 4, EXIT = 1 };

static long call(long number, long a, long b, long c)
{
	register long r7 __asm__("r7") = number;
	register long r0 __asm__("r0") = a;
	register long r1 __asm__("r1") = b;
	register long r2 __asm__("r2") = c;
	__asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
	return r0;
}

static void flush_subnormals(void)
{
	__asm__ volatile("vmsr fpscr, %0" : : "r"(1u << 24));
}
#endif

static char memory[TOTAL] __attribute__((aligned(64)));

static void all(long number, int fd)
{
	for (long at = 0, n; at < TOTAL; at += n) {
		n = call(number, fd, (long)(memory + at), TOTAL - at);
		if (n <= 0)
			call(EXIT, 1, 0, 0);
	}
}

void _start(void)
{
	void *bufs[sizeof buf_at / sizeof *buf_at];
	flush_subnormals();
	for (unsigned i = 0; i < sizeof bufs / sizeof *bufs; i++)
		bufs[i] = memory + buf_at[i];
	for (int i = 0; i < NPROGRAMS; i++) {
		all(READ, 0);
		programs[i].run(bufs, 0, 0, programs[i].extent);
		all(WRITE, 1);
	}
	call(EXIT, 0, 0, 0);
}
