/* SPDX-License-Identifier: Apache-2.0 */
/* The peaks of a device that a cache folder keeps, and the mark that they are doubtful. */
#include "agent/worker/device.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static struct target some_target(struct rng *r)
{
	struct target t;
	CHECK_OK(target_host(&t));
	snprintf(t.isa, sizeof t.isa, "opencl");
	t.fma_gflops = 1 + 100 * rng_unit(r);
	t.copy_gbs = 1 + rng_unit(r);
	for (int i = 3; i >= 0; i--)
		t.bw_gbs[i] = (i < 3 ? t.bw_gbs[i + 1] : 1) * (1 + rng_unit(r));
	return t;
}

/* The file may be copied, restored or touched, whatever its time becomes. */
TEST(doubt_is_a_word_in_the_file)
{
	const char *dir = scratch_folder();
	char path[300];
	struct rng r;
	struct stat before, after;
	rng_seed(&r, 6);
	snprintf(path, sizeof path, "%s/target-opencl:7", dir);
	device_doubt("opencl:7", dir); /* nothing is kept */
	CHECK(!file_exists(path) && !device_is_doubted("opencl:7", dir) &&
	      !device_is_doubted("opencl:7", ""));
	for (int i = 0; i < 20; i++) {
		struct target t = some_target(&r), read = t;
		const struct timespec at = {.tv_sec = (time_t)rng_below(&r, rng_below(&r, 2) ? 1 : 1 << 30)};
		read.fma_gflops = 0;
		target_write_peaks(dir, path, &t);
		CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){at, at}, 0) == 0);
		CHECK(!device_is_doubted("opencl:7", dir));
		device_doubt("opencl:7", dir);
		CHECK(stat(path, &before) == 0);
		device_doubt("opencl:7", dir);
		CHECK(stat(path, &after) == 0 && before.st_size == after.st_size);
		CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){at, at}, 0) == 0);
		CHECK(device_is_doubted("opencl:7", dir) && !device_is_doubted("opencl:0", dir));
		CHECK(target_read_peaks(path, &read) && read.fma_gflops > 0);
		/* A former version kept them without the feature of textures. */
		static const char *const features[] = {"", "+textures", "+w16", "+textures,+w16"};
		for (int k = 0; k < 16; k++) {
			int had = k / 4, has = k % 4;
			strcpy(t.features, features[had]);
			strcpy(read.features, features[has]);
			target_write_peaks(dir, path, &t);
			CHECK(device_read_peaks(path, &read) == (had == has || (had % 2 == 0 && has == had + 1)));
			CHECK(!strcmp(read.features, features[has]));
		}
	}
}

/* Kernels of any size that reach at most what the measured peaks allow, from whatever cache, are no reason
 * for doubt; kernels that are twice as fast are. */
TEST(kernels_that_outpace_the_peaks)
{
	static const double set[] = {8 << 10, 256 << 10, 2 << 20, 1e12};
	struct rng r;
	rng_seed(&r, 9);
	for (int i = 0; i < 2000; i++) {
		struct target t = some_target(&r);
		struct device_pace k = {.memory_bound = rng_below(&r, 2),
					.bytes = exp2(8 + 20 * rng_unit(&r))};
		double most = k.memory_bound ? 0 : 1;
		for (int s = 0; s < 4 && k.memory_bound;
		     s++) /* a cache that holds the smaller set may hold it */
			most = !most && k.bytes < set[s] ? t.bw_gbs[s > 0 ? s - 1 : 0] : most;
		double pace = most * 4 * rng_unit(&r);
		k.share = k.memory_bound ? 0.1 + rng_unit(&r) * 10 : pace;
		k.ns = k.memory_bound ? k.bytes / pace : 1000;
		CHECK(device_is_outpaced(&t, &k) == (pace > 1.5 * most));
		k.share = 0; /* not known */
		CHECK(!device_is_outpaced(&t, &k));
	}
}

TEST_MAIN
