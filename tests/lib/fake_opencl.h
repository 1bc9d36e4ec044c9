/* SPDX-License-Identifier: Apache-2.0 */
/* The path of the driver that lies (tests/lib/fake_opencl.c), which lies beside this program, and the choice
 * of its lie. */
#ifndef TESTS_FAKE_OPENCL_H
#define TESTS_FAKE_OPENCL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline const char *fake_opencl(void)
{
	static char path[600];
	char self[500];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	snprintf(path, sizeof path, "%s/fake/libOpenCL.so.1", self);
	return path;
}

/* How the kernels of a program behave where the driver judges (FAKE_JUDGES). Those that are right take
 * fake_us(); "later" is from the third launch of a kernel on, after its first run and the first timed one. */
enum fake_class {
	FAKE_WRONG,
	FAKE_CRASH, /* the first launch ends the process */
	FAKE_STUCK_LATER,
	FAKE_LOST_LATER,
	FAKE_CRASH_LATER,
	FAKE_RIGHT,
	FAKE_STUCK, /* the first launch never ends; not drawn */
	FAKE_CLASSES
};

#define FAKE_JUDGES "judge %d %u %x %d" /* floats of a tensor, salt, a program's hash, and its class */

static inline uint32_t fake_hash(const char *source, size_t n)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)source[i]) * 16777619u;
	return h & 0xffffff;
}

static inline uint32_t fake_drawn(uint32_t hash, unsigned salt)
{
	hash = (hash ^ salt * 2654435761u) * 2246822519u;
	return hash ^ hash >> 15;
}

/* Half of all programs are right. */
static inline enum fake_class fake_class(uint32_t hash, unsigned salt)
{
	uint32_t of = fake_drawn(hash, salt) % 10;
	return of < FAKE_RIGHT ? (enum fake_class)of : FAKE_RIGHT;
}

static inline int fake_us(uint32_t hash, unsigned salt)
{
	return 300 + 200 * (int)(fake_drawn(hash, salt) >> 8 & 15);
}

/* "": it tells the truth. */
static inline void fake_lie(const char *lie)
{
	setenv("FAKE_OPENCL", lie, 1);
}

#endif
