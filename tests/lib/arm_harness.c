/* SPDX-License-Identifier: Apache-2.0 */
/* Runs emitted programs on an emulated Arm processor, without a C library: for each program it reads the
 * bytes of its memory from stdin, runs its entries, each in two pieces as two threads would, and writes the
 * bytes to stdout. tests/lib/arm_programs.h writes the table of programs. Subnormals are flushed, as
 * fpu_flush does it. */
typedef void kernel(void *const *bufs, const void *params, long long begin, long long end);

enum { MOST_ENTRIES = 4, MOST_BUFS = 24 };

/* LOADED: the programs are not linked with this one. The object of each comes before its memory, behind the
 * number of its bytes, and the linker of platform/run/elf.h loads it. */
#ifdef LOADED
typedef const char *entry;
#define ENTRY(name) #name
#else
typedef kernel *entry;
#define ENTRY(name) name
#endif

struct program {
	int nentries, nbufs;
	long bytes; /* of its memory */
	entry run[MOST_ENTRIES];
	long long extent[MOST_ENTRIES];
	const long long *params;
	int buf_at[MOST_BUFS];
};

#include "table.h"
#ifdef __aarch64__
enum { READ = 63, WRITE = 64, EXIT = 93, MPROTECT = 226 };

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
enum { READ = 3, WRITE = 4, EXIT = 1, MPROTECT = 125 };

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

static void stop(void)
{
	call(EXIT, 1, 0, 0);
}

static void all(long number, int fd, void *p, long bytes)
{
	for (long at = 0, n; at < bytes; at += n) {
		n = call(number, fd, (long)p + at, bytes - at);
		if (n <= 0)
			stop();
	}
}

#ifdef LOADED
#include "arm_loader.h"
#else
static void load(void)
{
}

static kernel *find(entry e)
{
	return e;
}
#endif

static char memory[MOST_BYTES] __attribute__((aligned(64)));

static void run(const struct program *p)
{
	void *bufs[MOST_BUFS];
	for (int b = 0; b < p->nbufs; b++)
		bufs[b] = memory + p->buf_at[b];
	for (int e = 0; e < p->nentries; e++) {
		kernel *fn = find(p->run[e]);
		long long extent = p->extent[e], middle = extent / 2;
		fn(bufs, p->params, 0, middle);
		fn(bufs, p->params, middle, extent);
	}
}

void _start(void)
{
	flush_subnormals();
	for (int i = 0; i < NPROGRAMS; i++) {
		load();
		all(READ, 0, memory, programs[i].bytes);
		run(&programs[i]);
		all(WRITE, 1, memory, programs[i].bytes);
	}
	call(EXIT, 0, 0, 0);
}
