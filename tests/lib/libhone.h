/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of libhone: handles and models of a small network, and a cache that is tuned for it. */
#ifndef TESTS_LIBHONE_H
#define TESTS_LIBHONE_H

#include "agent/run/hone.h"
#include "tests/lib/around.h"
#include "tests/lib/cli.h"

#include <math.h>

static inline struct hone_handle *opened(const char *cache, int threads, unsigned flags)
{
	static const char *const none = "";
	struct hone_options o;
	struct hone_handle *h = NULL;
	HONE_INIT(o);
	o.caches = cache ? &cache : &none;
	o.ncaches = cache != NULL;
	o.threads = threads;
	o.flags = flags;
	CHECK_OK(hone_open(&o, &h));
	return h;
}

static inline struct hone_model *loaded(struct hone_handle *h, const char *path)
{
	struct hone_model *m = NULL;
	CHECK_OK(hone_load(h, path, NULL, &m));
	return m;
}

static inline struct hone_model_info info_of(const struct hone_model *m)
{
	struct hone_model_info s;
	HONE_INIT(s);
	CHECK_OK(hone_summary(m, &s));
	return s;
}

/* A box that ends as soon as every task has its default kernel; an emulator takes minutes to compile them. */
static inline const char *estimate(void)
{
	return test_emulated() ? "--rigor estimate --budget 600s" : "--rigor estimate --budget 60s";
}

/* A cache with every kernel of the steering network, made on first use, or $HONE_TUNED; NULL: no worker. */
static inline const char *tuned(void)
{
	static char path[256];
	if (getenv("HONE_TUNED"))
		return getenv("HONE_TUNED");
	if (!worker())
		return NULL;
	if (!path[0]) {
		snprintf(path, sizeof path, "%s", in_dir("filled"));
		CHECK_RUN(0, "tune %s %s --threads 1 --cache %s", steering(), estimate(), path);
	}
	return path;
}

static inline void copy_folder(const char *from, const char *to)
{
	char cmd[1200];
	snprintf(cmd, sizeof cmd, "mkdir -p '%s' && cp -r '%s/.' '%s'", to, from, to);
	CHECK(system(cmd) == 0);
}

static inline void fill_input(float *x, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes / sizeof *x; i++)
		x[i] = (float)((i * 37 + (size_t)seed * 11) % 101) / 101.0f - 0.5f;
}

static inline float first_output(struct hone_model *m, int seed)
{
	struct hone_tensor x;
	HONE_INIT(x);
	CHECK_OK(hone_input(m, 0, &x));
	fill_input(hone_input_buffer(m, 0), x.bytes, seed);
	CHECK_OK(hone_run(m));
	const float *y = hone_output_buffer(m, 0);
	return y ? y[0] : NAN;
}

static inline bool near(float a, float b)
{
	return fabsf(a - b) <= 1e-4f + 1e-3f * fabsf(b);
}

#endif
