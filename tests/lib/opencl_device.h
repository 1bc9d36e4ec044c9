/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL device that tests run kernels on: the first one that can (PoCL, where no other driver is
 * installed), opened once; and runs of an emitted object on copies of the host's buffers. */
#ifndef TESTS_OPENCL_DEVICE_H
#define TESTS_OPENCL_DEVICE_H

#include "kernels/emit/emit.h"
#include "kernels/loops/loops.h"
#include "tests/lib/opencl_run.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <math.h>

/* Drivers keep memory until the process ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libpocl\nleak:libOpenCL\nleak:libLLVM\nleak:libclang\nleak:_dl_init\nleak:dlopen\n";
}

/* A test's last line is its summary. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

/* NULL: there is none; the reason is in *why. */
static inline struct opencl_dev *opencl_device(const char **why)
{
	static struct opencl_dev *dev;
	static char text[512];
	struct opencl *o;
	*why = text;
	if (dev)
		return dev;
	setenv("POCL_KERNEL_CACHE", "0", 0);
	setenv("POCL_CACHE_DIR", scratch_folder(), 0);
	if (opencl_open(NULL, &o) < 0) {
		snprintf(text, sizeof text, "%s", err_text());
		return NULL;
	}
	for (int i = 0; i < opencl_count(o) && !dev; i++)
		if (opencl_use(o, i, &dev) < 0)
			printf("%s\n", err_text());
	if (!dev)
		snprintf(text, sizeof text, "no OpenCL device: apt-get install pocl-opencl-icd");
	return dev;
}

enum { DEVICE_SLACK = 256 }; /* bytes behind a buffer, which must stay as they are */

/* A run of a program: the host's memory of each buffer, and how the indices are launched. */
struct device_run {
	const struct loops *l;
	void *const *buf;     /* of the host; read before, written after */
	const int64_t *bytes; /* of each buffer; of scratch, for one work item */
	const int64_t *param;
	int at_once; /* work items of a launch */
	int group;
	bool backwards; /* launches go from the last index to the first */
};

static inline int device_put(struct opencl_dev *d, const struct device_run *r, int i, int64_t bytes,
			     struct opencl_buf **out)
{
	void *p;
	if (r->l->buf[i].texture) {
		bool halves = r->l->buf[i].dtype == DT_F16;
		int made = opencl_alloc_image(d, halves, bytes / (halves ? 2 : 4), out);
		return made < 0 ? made : opencl_write(*out, 0, r->buf[i], bytes);
	}
	int rc = opencl_alloc(d, bytes + DEVICE_SLACK, out);
	if (rc >= 0)
		rc = opencl_map(*out, 0, bytes + DEVICE_SLACK, &p);
	if (rc < 0)
		return rc;
	for (int64_t at = 0; at + r->bytes[i] <= bytes && r->bytes[i]; at += r->bytes[i])
		memcpy((char *)p + at, r->buf[i], (size_t)r->bytes[i]);
	memset((char *)p + bytes, 0x5a, DEVICE_SLACK);
	return opencl_unmap(*out);
}

/* Copies the (first) part back. */
static inline int device_get(struct opencl_buf *b, const struct device_run *r, int i, int64_t bytes)
{
	void *p;
	if (r->l->buf[i].texture)
		return E_OK;
	int rc = opencl_map(b, 0, bytes + DEVICE_SLACK, &p);
	if (rc < 0)
		return rc;
	memcpy(r->buf[i], p, (size_t)r->bytes[i]);
	for (int k = 0; k < DEVICE_SLACK; k++)
		if (((char *)p)[bytes + k] != 0x5a)
			rc = fail(E_WRONG, "the kernel wrote behind buffer %s", r->l->buf[i].name);
	int unmapped = opencl_unmap(b);
	return rc < 0 ? rc : unmapped;
}

static inline int device_launch(struct opencl_dev *d, struct opencl_code *c, const struct device_run *r,
				struct opencl_buf **buf)
{
	int rc = E_OK;
	struct opencl_spot spot[LOOPS_MAX_BUFS] = {{NULL}};
	for (int i = 0; i < loops_arguments(r->l); i++)
		spot[i].buf = buf[i];
	for (int e = 0; e < r->l->nentries && rc >= 0; e++) {
		int k = opencl_entry(c, r->l->entry[e].name);
		int64_t n = ix_eval(r->l->entry[e].extent, r->param, NULL, NULL), step = r->at_once;
		rc = k;
		for (int64_t i = 0; i < n && rc >= 0; i += step) {
			int64_t begin = r->backwards ? (n - 1 - i) / step * step : i,
				end = begin + step < n ? begin + step : n;
			rc = opencl_run(d, c, k,
					&(struct opencl_launch){.spot = spot,
								.nspots = loops_arguments(r->l),
								.param = r->param,
								.nparams = r->l->nparams,
								.begin = begin,
								.end = end,
								.group = r->group});
		}
	}
	return rc;
}

/* Runs every entry over its extent. E_WRONG: a kernel wrote behind a buffer. */
static inline int device_run(struct opencl_dev *d, const struct blob *object, const struct device_run *r)
{
	struct opencl_code *c = NULL;
	struct opencl_buf *buf[LOOPS_MAX_BUFS] = {NULL};
	int64_t bytes[LOOPS_MAX_BUFS];
	int rc = opencl_load(d, object->p, object->n, &c);
	for (int i = 0; i < loops_arguments(r->l) && rc >= 0; i++) {
		bool each = r->l->buf[i].role == BUF_SCRATCH && !r->l->buf[i].common;
		bytes[i] = r->bytes[i] * (each ? r->at_once : 1);
		rc = device_put(d, r, i, bytes[i], &buf[i]);
	}
	if (rc >= 0)
		rc = device_launch(d, c, r, buf);
	for (int i = 0; i < loops_arguments(r->l) && rc >= 0; i++)
		rc = device_get(buf[i], r, i, bytes[i]);
	for (int i = 0; i < r->l->nbufs; i++)
		opencl_free(buf[i]);
	opencl_unload(c);
	return rc;
}

/* Equal, both NaN, or zeros and subnormals of one sign: a device may keep those. */
static inline bool device_same(float a, float b)
{
	a = fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
	b = fabsf(b) < 0x1p-126f ? copysignf(0, b) : b;
	return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b));
}

/* The number of programs that a test runs: SEEDS, or `usual`; SEED=n runs one alone. */
static inline uint64_t device_seeds(uint64_t usual, uint64_t *first)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	*first = from ? strtoull(from, NULL, 0) : 1;
	return from ? 1 : count ? strtoull(count, NULL, 0) : usual;
}

#endif
