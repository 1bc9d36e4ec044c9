/* SPDX-License-Identifier: Apache-2.0 */
/* The path of the management library that lies (tests/lib/fake_nvml.c), which lies beside this program. */
#ifndef TESTS_FAKE_NVML_H
#define TESTS_FAKE_NVML_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline const char *fake_nvml(void)
{
	static char path[600];
	char self[500];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	snprintf(path, sizeof path, "%s/fake/libnvidia-ml.so.1", self);
	return path;
}

#endif
