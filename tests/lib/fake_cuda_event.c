/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the CUDA driver that lies, which no part of hone uses: for tools/peers/gpu_libs.py. An event is
 * the time at which it was recorded, when all before it on the stream is done. */
#include "tests/lib/fake_cuda_parts.h"

#include <time.h>

struct event {
	struct timespec at;
	bool recorded;
};

SEEN int cuEventCreate(void **event, unsigned flags);
SEEN int cuEventRecord(void *event, void *stream);
SEEN int cuEventSynchronize(void *event);
SEEN int cuEventElapsedTime(float *ms, void *from, void *to);

int cuEventCreate(void **event, unsigned flags)
{
	BEGIN(UNSAFE);
	*event = flags ? NULL : made(__func__, calloc(1, sizeof(struct event)));
	return end(*event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

int cuEventRecord(void *event, void *stream)
{
	int rc = cuStreamSynchronize(stream);
	if (rc != CUDA_SUCCESS)
		return rc;
	BEGIN(CURRENT);
	struct event *e = event;
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	e->recorded = true;
	return end(CUDA_SUCCESS);
}

int cuEventSynchronize(void *event)
{
	BEGIN(UNSAFE);
	return end(((struct event *)event)->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
	BEGIN(CURRENT);
	const struct event *a = from, *b = to;
	*ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 +
		      (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
	return end(a->recorded && b->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
