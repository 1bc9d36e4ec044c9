/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a test whose commands, workers or libhone use a driver of the tests (tests/lib/fake_cuda.h,
 * tests/lib/fake_opencl.h), and makes what such tests begin with. */
#ifndef TESTS_FAKE_DRIVER_H
#define TESTS_FAKE_DRIVER_H

#include "agent/run/plan_device.h"
#include "agent/worker/device.h"
#include "kernels/task/tensor.h"
#include "tests/lib/cli_model.h"
#include "tools/hone/guard.h"

#include <dlfcn.h>
#include <sys/stat.h>

/* Programs that start from now on, and this one, find the driver by its name. This process calls nothing of
 * it: a driver does not survive a fork. */
static inline void fake_driver_open(const char *path)
{
	char folder[600];
	snprintf(folder, sizeof folder, "%s", path);
	*strrchr(folder, '/') = 0;
	setenv("LD_LIBRARY_PATH", folder, 1);
	REQUIRE(dlopen(path, RTLD_NOW));
}

/* Commands wait a short time for drivers that hang or hold a kernel, as the lie says, and long for all
 * others: the machine may have other work. */
static inline void fake_driver_patience(const char *lie)
{
	bool hangs = strstr(lie, "hang") || strstr(lie, "stuck");
	plan_device_spare(hangs ? NS_PER_S / 5 : 10 * NS_PER_S);
	guard_patience(hangs ? NS_PER_S / 2 : 30 * NS_PER_S);
	device_patience(hangs ? NS_PER_S : 30 * NS_PER_S);
}

/* A model of 2 or 3 convolutions, with a node before the last one that the processor runs. Made once. */
static inline const char *model_with_gap(int convolutions)
{
	static char path[256];
	static float w[64];
	static const int32_t axis = 1;
	struct onnx_maker k;
	if (path[0])
		return path;
	for (int i = 0; i < 64; i++)
		w[i] = (float)(i % 7 - 3) / 8;
	mk_start(&k, 13, 8);
	mk_input(&k, "x", 1, "1 8 8 8");
	mk_init(&k, "W", 1, "8 8 1 1", w, sizeof w);
	mk_init(&k, "A", 6, "", &axis, sizeof axis);
	mk_node(&k, "Conv", "x W", "a");
	if (convolutions == 3) {
		mk_node(&k, "Relu", "a", "b");
		mk_node(&k, "Conv", "b W", "c");
	}
	mk_node(&k, "CumSum", convolutions == 3 ? "c A" : "a A", "d");
	mk_node(&k, "Conv", "d W", "y");
	mk_output(&k, "y");
	snprintf(path, sizeof path, "%s", write_model(&k, "gap.onnx"));
	return path;
}

/* A folder without records. */
static inline const char *no_records(void)
{
	static char path[256];
	snprintf(path, sizeof path, "%s", in_dir("fresh"));
	(void)mkdir(path, 0755);
	return path;
}

/* Output y that hone run wrote to a folder, in the arena. */
static inline const struct tensor *answer_y(struct arena *a, const char *folder)
{
	struct tensor *t = ARENA_NEW(a, struct tensor);
	char file[300];
	snprintf(file, sizeof file, "%s/y.npy", folder);
	int rc = tensor_read(a, file, t, NULL);
	CHECK_OK(rc);
	return rc < 0 ? NULL : t;
}

#endif
