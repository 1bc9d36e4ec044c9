/* SPDX-License-Identifier: Apache-2.0 */
/* The path of the CUDA driver that lies (tests/lib/fake_cuda.c), which lies beside this program, and the
 * choice of its lie. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline const char *fake_cuda(void)
{
	static char path[600];
	char self[500];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	snprintf(path, sizeof path, "%s/fake/libcuda.so.1", self);
	return path;
}

/* What a device that was lost held stays with its driver. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libcuda\n";
}

/* A test's last line is its summary. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

/* From now on the most contexts that a device has at a time, in all processes, are counted from 0. */
static inline void fake_cuda_count(const char *file)
{
	unlink(file);
	setenv("FAKE_CUDA_CONTEXTS", file, 1);
}

static inline int fake_cuda_contexts(void)
{
	FILE *f = fopen(getenv("FAKE_CUDA_CONTEXTS"), "rb");
	int n = f ? fgetc(f) : 0;
	if (f)
		fclose(f);
	return n == EOF ? 0 : n;
}

/* "": it tells the truth. */
static inline void cuda_lie(const char *lie)
{
	setenv("FAKE_CUDA", lie, 1);
}

#endif
