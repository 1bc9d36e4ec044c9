/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL devices: lists them with their limits, loads the programs that the emitter opencl makes, and runs
 * them. The ICD loader (libOpenCL.so.1) is opened at run time, and opens the vendors' drivers: nothing of
 * OpenCL is linked, and no driver is touched before opencl_open. platform/run/dev_opencl.c makes a
 * `struct dev` of it.
 *
 * What a driver says is not trusted: counts and lengths are bounded, handles that are NULL are refused,
 * strings are cut to printable ASCII, numbers to int64_t. A call that fails gives an error with the call's
 * and the code's names ("clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"): E_NOMEM where the device
 * lacks memory or resources, E_INFEASIBLE where it cannot build or launch this kernel, else E_IO. A driver
 * that crashes takes the process with it, and one that hangs is not ended (opencl_wait returns, but the
 * device is lost to this process): who runs unproven kernels does it in a process that may die.
 *
 * Nothing here is thread-safe; contexts do not survive fork. Drivers stay loaded until the process ends. */
#ifndef PLATFORM_OPENCL_H
#define PLATFORM_OPENCL_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/machine/target.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opencl;      /* the loader, and the devices that it found */
struct opencl_dev;  /* a device in use: its context and queue */
struct opencl_buf;  /* device memory that the host can map, or an image */
struct opencl_code; /* a program, built for one device */
struct opencl_job;  /* a launch with its arguments, which can be started any number of times */

enum { OPENCL_MAX_PLATFORMS = 16, OPENCL_MAX_DEVICES = 64, OPENCL_MAX_ENTRIES = 8, OPENCL_MAX_ARGS = 256 };
enum { OPENCL_MAX_BINARY = 16 << 20 /* bytes */ };
enum { OPENCL_IMAGE_TEXELS = 1024 /* of four elements, of a row of each image */ };

/* A device's limits; a number that it does not tell is 0, a text "". */
struct opencl_info {
	char platform[128], name[128], vendor[128];
	char version[128];   /* "OpenCL 3.0 PoCL HSTR: ..." */
	char c_version[128]; /* "OpenCL C 1.2 PoCL" */
	char driver[128];
	char extensions[8192]; /* names with a space between */
	char kind[12];         /* "cpu", "gpu", "accelerator", "other" */
	int64_t units;         /* compute units */
	int64_t clock_mhz;
	int64_t group_items;  /* most work items of a group */
	int64_t local_bytes;  /* local memory of a group */
	int64_t global_bytes; /* global memory, and the largest buffer */
	int64_t alloc_bytes;
	int64_t image_width, image_height; /* of the largest image of two dimensions; 0: it has no images */
	bool local_is_memory;              /* local memory is a part of the global one */
	bool unified;                      /* host and device share memory */
	bool fp16, fp64;                   /* arithmetic */
	bool half_fma;     /* a fused multiply-add of f16 in hardware, to nearest, with infinities */
	bool fma;          /* a fused multiply-add in hardware */
	bool exact_divide; /* can round divisions and square roots of f32 correctly */
	bool little_endian, rounds_to_nearest, available, compiles;
};

/* Makes an info that another process sent as safe as those of opencl_info: texts of printable ASCII that end,
 * numbers from 0 on, flags of 0 or 1. */
void opencl_info_clean(struct opencl_info *i);

/* Opens the loader (NULL: libOpenCL.so.1) and lists the devices of all platforms. No platform or device is
 * no error. E_NOTFOUND: there is no loader; E_UNSUPPORTED: the library is not one. */
int opencl_open(const char *library, struct opencl **out) MUST_CHECK;
int opencl_count(const struct opencl *o);
const struct opencl_info *opencl_info(const struct opencl *o, int device);
/* What platforms and devices were left out and why, as one line; "": none. */
const char *opencl_note(const struct opencl *o);
void opencl_close(struct opencl *o); /* after everything that was made of it */

/* The target of its kernels, without peaks. Words of the driver are cut to what a target may hold. */
void opencl_target(const struct opencl_info *i, struct target *t);
/* Whether programs can run there; E_UNSUPPORTED says why not. */
int opencl_usable(const struct opencl_info *i) MUST_CHECK;
int opencl_use(struct opencl *o, int device, struct opencl_dev **out) MUST_CHECK;
const struct opencl_info *opencl_dev_info(const struct opencl_dev *d);
void opencl_leave(struct opencl_dev *d);

/* Memory that the driver allocates where the host can map it without a copy, if it can. bytes > 0. */
int opencl_alloc(struct opencl_dev *d, int64_t bytes, struct opencl_buf **out) MUST_CHECK;
/* An image of so many floats, or of halves (f16), which kernels only read: opencl_write alone takes it, for
 * all of its bytes at once. E_INFEASIBLE: the device has none, or none so large. */
int opencl_alloc_image(struct opencl_dev *d, bool halves, int64_t elems, struct opencl_buf **out) MUST_CHECK;
/* The host's address of bytes [at, at + bytes) of the buffer, bytes > 0, for reading and writing until
 * opencl_unmap; it waits for all that was started before, and no kernel that uses the buffer is started
 * meanwhile. A driver may give another address each time, and no alignment is promised. E_USAGE: outside of
 * the buffer, or a part of it is mapped already. */
int opencl_map(struct opencl_buf *b, int64_t at, int64_t bytes, void **out) MUST_CHECK;
/* Launches that are started from now on see what the host has written. Does not wait. */
int opencl_unmap(struct opencl_buf *b) MUST_CHECK;
void opencl_free(struct opencl_buf *b);
/* Copies bytes to or from an unmapped buffer, after all that was started before, and waits for it. Where host
 * and device share memory, the buffer is mapped for it; else, or if it cannot be mapped, the driver copies.
 * E_USAGE: outside of the buffer. */
int opencl_write(struct opencl_buf *b, int64_t at, const void *from, int64_t bytes) MUST_CHECK;
int opencl_read(struct opencl_buf *b, int64_t at, void *to, int64_t bytes) MUST_CHECK;

/* Builds an object of the emitter opencl: "//hone-opencl OPTIONS\n" and a source. Behind a NUL it may hold a
 * binary (opencl_binary), which is taken instead if it is of this source, device and driver, and the driver
 * accepts it. Options that are not in a short list are E_CORRUPT. Correct rounding of divisions is asked for
 * where the device offers it. */
int opencl_load(struct opencl_dev *d, const void *object, size_t n, struct opencl_code **out) MUST_CHECK;
int opencl_entry(struct opencl_code *c, const char *symbol); /* number of an entry >= 0; E_NOTFOUND */
/* Adds the binary to the object that the code was loaded from, which holds none. Best after the first launch,
 * as some drivers compile then. E_UNSUPPORTED: there is none. */
int opencl_binary(struct opencl_code *c, struct buf *object) MUST_CHECK;
void opencl_unload(struct opencl_code *c);

/* A part of a buffer, from byte `at` on, a multiple of the element's size. */
struct opencl_spot {
	struct opencl_buf *buf; /* unmapped; must outlive the job */
	int64_t at;
};

/* A launch of [begin, end) of an entry. */
struct opencl_launch {
	const struct opencl_spot *spot; /* in the order of the kernel ABI */
	int nspots;
	const int64_t *param;
	int nparams;
	int64_t begin, end;
	/* Work items at a time: a scratch buffer must hold a part for each of them. 0: all. */
	int64_t at_once;
	int group; /* work items of a group, if the kernel requires no number; 0: chosen here */
};
/* Makes a launch ready. The values of params are copied. */
int opencl_prepare(struct opencl_code *c, int entry, const struct opencl_launch *at,
		   struct opencl_job **out) MUST_CHECK;
/* Puts it in the queue, behind all that was started before, and returns. */
int opencl_start(const struct opencl_job *j) MUST_CHECK;
void opencl_drop(struct opencl_job *j);
/* Waits until all that was started has ended. INT64_MAX: sleeps in the driver. Else the driver is asked again
 * and again, and E_TIMEOUT is returned at deadline_ns of `clock`: the device is then lost. Every later call
 * on it but opencl_leave and the other calls that free fails at once with E_IO, and those free nothing of the
 * driver's, because a driver that hangs may hang in them, too. */
int opencl_wait(struct opencl_dev *d, struct clock *clock, int64_t deadline_ns) MUST_CHECK;
/* Measures the device's peaks in less than two seconds (on a busy machine: about four) beside what the driver
 * compiles: its flops in fma_gflops, the bandwidth of its caches and memory in bw_gbs and copy_gbs, and
 * the time of an empty kernel in launch_ns[0]; each is the best of several short runs. */
int opencl_measure(struct opencl_dev *d, struct target *t) MUST_CHECK;

#endif
