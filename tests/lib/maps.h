/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process has mapped a loader or driver of OpenCL or CUDA. */
#ifndef TESTS_MAPS_H
#define TESTS_MAPS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* True also if the maps of the process cannot be read. pid 0: this one. */
static inline bool maps_driver(pid_t pid)
{
	static const char *const parts[] = {"libOpenCL", "libpocl", "libLLVM", "libcuda", "libnvidia"};
	char path[64] = "/proc/self/maps", line[4096];
	int lines = 0;
	bool found = false;
	if (pid)
		snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *file = strchr(line, '/');
		const char *name = file ? strrchr(file, '/') + 1 : "";
		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
			found |= !strncmp(name, parts[i], strlen(parts[i]));
		lines++;
	}
	if (f)
		fclose(f);
	return found || !lines;
}

#endif
