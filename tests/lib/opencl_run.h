/* SPDX-License-Identifier: Apache-2.0 */
/* One launch on an OpenCL device, which is waited for. */
#ifndef TESTS_OPENCL_RUN_H
#define TESTS_OPENCL_RUN_H

#include "platform/run/opencl.h"

static inline int opencl_run(struct opencl_dev *d, struct opencl_code *c, int entry,
			     const struct opencl_launch *at)
{
	struct opencl_job *j;
	int rc = opencl_prepare(c, entry, at, &j);
	if (rc < 0)
		return rc;
	rc = opencl_start(j);
	if (rc >= 0)
		rc = opencl_wait(d, &clock_real, INT64_MAX);
	opencl_drop(j);
	return rc;
}

#endif
