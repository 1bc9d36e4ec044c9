/* SPDX-License-Identifier: Apache-2.0 */
/* The optional data folder as tests use it: archives unpacked into a temporary folder that goes with the
 * process. */
#ifndef TESTS_ONNX_DATA_H
#define TESTS_ONNX_DATA_H

#include "tests/lib/test.h"
#include <unistd.h>

static char onnx_tmp[64];

__attribute__((destructor)) static void onnx_tmp_remove(void)
{
	char cmd[128];
	if (!onnx_tmp[0])
		return;
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", onnx_tmp);
	if (system(cmd))
		printf("left behind: %s\n", onnx_tmp);
}

/* The process's temporary folder, made on first use. */
static inline const char *onnx_tmp_dir(void)
{
	if (!onnx_tmp[0]) {
		strcpy(onnx_tmp, "/tmp/hone-test-XXXXXX");
		if (!mkdtemp(onnx_tmp)) {
			perror("mkdtemp");
			exit(2);
		}
	}
	return onnx_tmp;
}

/* A shell command on the data folder ($D) and the temporary one ($T). Returns 0 if it went well. */
static inline int onnx_shell(const char *cmd)
{
	setenv("D", test_data(), 1);
	setenv("T", onnx_tmp_dir(), 1);
	return system(cmd);
}

#endif
