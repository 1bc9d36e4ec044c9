/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a process, from the kernel. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* 'R', 'S', 'T' (stopped), 'Z' (ended, not yet waited for); '?': there is no such process. */
static inline char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = pid > 0 ? fopen(path, "re") : NULL;
	const char *p = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
	if (f)
		fclose(f);
	return p && p[1] ? p[2] : '?';
}

#endif
