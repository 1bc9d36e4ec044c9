/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an image whose sums are right: an error, or a plan, which is not run. */
#include "agent/image.h"
#include "platform/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { META = 56, WEIGHTS = 64, SUM = 72, LABEL = 76, HEAD = 80, ALIGN = 4096 };

static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t v = 0;
	memcpy(&v, p, (size_t)bytes);
	return v;
}

/* Sums are made right, and what the description asks of memory is kept within 16 MiB. */
static void mend(uint8_t *p, size_t n)
{
	uint64_t meta = number(p + META, 8), label = number(p + LABEL, 4),
		 end = (meta + label + HEAD + ALIGN - 1) / ALIGN * ALIGN;
	memcpy(p, "HIM2", 4);
	if (meta > n || label > n || end > n)
		return;
	for (size_t at = HEAD + label; at + 8 <= end && at < HEAD + label + 40; at += 8)
		memset(p + at + 3, 0, 5);
	uint64_t weights = n - end;
	memcpy(p + WEIGHTS, &weights, 8);
	uint32_t sum = crc32c(0, p + end, n - end);
	memcpy(p + SUM, &sum, 4);
	sum = crc32c(0, p + 8, end - 8);
	memcpy(p + 4, &sum, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static char path[64];
	struct target here;
	struct image im;
	struct plan *plan;
	uint8_t *p = n >= HEAD ? malloc(n) : NULL;
	if (!p || target_host(&here) < 0)
		return 0;
	memcpy(p, bytes, n);
	mend(p, n);
	if (!path[0])
		snprintf(path, sizeof path, "/tmp/hone-fuzz-image-%d", (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool written = fd >= 0 && write(fd, p, n) == (ssize_t)n;
	if (fd >= 0)
		close(fd);
	free(p);
	if (written && image_read(path, NULL, &here, NULL, &im, &plan) >= 0)
		plan_free(plan);
	unlink(path);
	return 0;
}
