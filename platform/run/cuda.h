/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's devices by CUDA's driver API: lists them with their limits, loads the programs that the emitter
 * ptx makes, and runs them. The driver (libcuda.so.1) is opened at run time, no toolkit is needed to build or
 * run, and no driver is touched before cuda_open. Clocks and power modes are never changed.
 * platform/run/dev_cuda.c makes a `struct dev` of it.
 *
 * The code trusts no driver: it bounds counts and lengths, refuses handles that are NULL, cuts texts to
 * printable ASCII, and takes negative numbers for 0. A call that fails gives an error with the
 * call's and the code's names ("cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"): E_NOMEM where
 * memory is lacking, E_INFEASIBLE where the driver cannot build or launch this kernel, else E_IO. After an
 * error that ends a context (an illegal address, a launch that failed, a device that is gone) the device is
 * lost: every later call on it fails at once with E_IO, and those that free leave the driver alone. A driver
 * that crashes takes the process with it. A hanging call is not interrupted; callers run unproven kernels in
 * a process that may be killed.
 *
 * All users of a device in a process share its primary context, and each has a stream of its own. Calls make
 * the context current and then put back the one that was current before, so that an application that uses
 * CUDA itself keeps its own. Nothing here is thread-safe, but any thread may call; contexts do not survive
 * fork. The driver stays loaded until the process ends. */
#ifndef PLATFORM_CUDA_H
#define PLATFORM_CUDA_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/machine/target.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cuda;      /* the driver, and the devices that it found */
struct cuda_dev;  /* a device in use: its context and stream */
struct cuda_buf;  /* memory on it */
struct cuda_code; /* a program, linked for one device */
struct cuda_job;  /* a launch with its arguments, which can be started any number of times */

enum { CUDA_MAX_DEVICES = 64, CUDA_MAX_ENTRIES = 8, CUDA_MAX_ARGS = 192 };
enum { CUDA_MAX_BINARY = 16 << 20 /* bytes */ };
enum { CUDA_STATIC = 48 << 10 /* bytes of shared memory that a program itself can have */ };

/* A device's limits; a number that it does not tell is 0, a text "". */
struct cuda_info {
	char name[128];
	char uuid[40];      /* hexadecimal digits: 8-4-4-4-12 */
	int64_t driver;     /* newest CUDA that the driver supports: 1000 * major + 10 * minor */
	int64_t capability; /* 10 * major + minor: 87 is sm_87 */
	int64_t units;      /* streaming multiprocessors */
	int64_t clock_mhz, memory_mhz, bus_bits;
	int64_t group_items;  /* most threads of a block */
	int64_t grid;         /* most blocks of a launch */
	int64_t registers;    /* of a block */
	int64_t shared_bytes; /* of a block, without asking for more */
	int64_t shared_most;  /* of a block that asks for more */
	int64_t l2_bytes;
	int64_t global_bytes; /* all memory */
	bool integrated;      /* host and device share memory */
	bool maps_host;       /* kernels can use memory of the host */
	bool managed,
	    pageable;    /* the driver moves memory by itself; kernels can use any memory of the host */
	bool prohibited; /* an administrator forbids its use */
	bool watchdog;   /* long kernels are ended: a display is connected */
};

/* Makes an info that another process sent as safe as those of cuda_info. */
void cuda_info_clean(struct cuda_info *i);

/* Opens the driver (NULL: libcuda.so.1) and lists its devices. No device is no error. E_NOTFOUND: there is no
 * driver; E_UNSUPPORTED: the library is not one, or too old; else the error says why it does not start. */
int cuda_open(const char *library, struct cuda **out) MUST_CHECK;
int cuda_count(const struct cuda *c);
const struct cuda_info *cuda_info(const struct cuda *c, int device);
/* Which devices were left out and why, as one line; "": none. */
const char *cuda_note(const struct cuda *c);
void cuda_close(struct cuda *c); /* after everything that was made of it */

/* The target of its kernels, without peaks: cpu is the newest of the code generator's that device and driver
 * know ("sm_87"), and features the version of PTX that the driver takes ("+ptx74"). */
void cuda_target(const struct cuda_info *i, struct target *t);
/* Whether kernels can run there; E_UNSUPPORTED says why not. */
int cuda_usable(const struct cuda_info *i) MUST_CHECK;
int cuda_use(struct cuda *c, int device, struct cuda_dev **out) MUST_CHECK;
const struct cuda_info *cuda_dev_info(const struct cuda_dev *d);
/* Whether buffers can be mapped without a copy. */
bool cuda_shares(const struct cuda_info *i);
void cuda_leave(struct cuda_dev *d);

/* Memory of the device, bytes > 0. */
int cuda_alloc(struct cuda_dev *d, int64_t bytes, struct cuda_buf **out) MUST_CHECK;
/* The host's address of bytes [at, at + bytes) of the buffer, bytes > 0, for reading and writing until
 * cuda_unmap; it waits for all that was started before, and no kernel that uses the buffer is started
 * meanwhile. Where host and device share memory, the first map moves the buffer to where both see it. Buffers
 * are not allocated there at first, because the device does not cache host memory. Elsewhere the part is
 * copied. The address is a multiple of 64 bytes where `at` is. E_USAGE: outside of the buffer, or mapped
 * already. */
int cuda_map(struct cuda_buf *b, int64_t at, int64_t bytes, void **out) MUST_CHECK;
/* Launches that are started from now on see what the host has written. Does not wait. */
int cuda_unmap(struct cuda_buf *b) MUST_CHECK;
void cuda_free(struct cuda_buf *b);
/* Copies bytes to or from an unmapped buffer, after all that was started before, and waits for it. E_USAGE:
 * outside of the buffer. */
int cuda_write(struct cuda_buf *b, int64_t at, const void *from, int64_t bytes) MUST_CHECK;
int cuda_read(struct cuda_buf *b, int64_t at, void *to, int64_t bytes) MUST_CHECK;

/* Links an object of the emitter ptx: "//hone-ptx NAME,group,threads,shared[;NAME,...]\n" and PTX. Shared
 * memory of up to CUDA_STATIC bytes is part of the program, of more a launch asks for all. Behind a
 * NUL it may hold a cubin (cuda_binary), which is taken instead if it is whole, of this PTX, device and
 * driver, and the driver accepts it. */
int cuda_load(struct cuda_dev *d, const void *object, size_t n, struct cuda_code **out) MUST_CHECK;
int cuda_entry(struct cuda_code *c, const char *symbol); /* number of an entry >= 0; E_NOTFOUND */
/* What the driver made of an entry. A kernel with local memory has spilled registers: it is right, but slow.
 */
struct cuda_made {
	int registers;       /* of a thread */
	int64_t local_bytes; /* of a thread */
	int most_threads;    /* of a block */
};
int cuda_made(struct cuda_code *c, int entry, struct cuda_made *out) MUST_CHECK;
/* Adds the cubin to the object that the code was loaded from, which holds none. */
int cuda_binary(const struct cuda_code *c, struct buf *object) MUST_CHECK;
void cuda_unload(struct cuda_code *c);

struct cuda_spot {            /* part of a buffer, from byte `at` on, a multiple of 16 */
	struct cuda_buf *buf; /* unmapped; must outlive the job */
	int64_t at;
};

/* A launch of [begin, end) of an entry. */
struct cuda_launch {
	const struct cuda_spot *spot; /* in the order of the kernel ABI */
	int nspots;
	const int64_t *param;
	int nparams;
	int64_t begin, end;
	int64_t at_once; /* items at a time: a scratch buffer must hold a part for each of them. 0: all */
};
/* Makes a launch ready. The values of params are copied. */
int cuda_prepare(struct cuda_code *c, int entry, const struct cuda_launch *at,
		 struct cuda_job **out) MUST_CHECK;
/* Puts it in the stream, behind all that was started before, and returns. A job's arguments change only when
 * one of its buffers is mapped for the first time. */
int cuda_start(struct cuda_job *j) MUST_CHECK;
void cuda_drop(struct cuda_job *j);
/* Records n > 0 jobs as one, a graph, which costs the host less. None of them is itself a graph. They must
 * outlive the new job, which starts them in this order. If a buffer was moved, its next start records anew.
 * Any error, also of its start, leaves the device as it was, unless that is lost: the jobs can be started one
 * by one. E_UNSUPPORTED: the driver has no graphs. */
int cuda_record(struct cuda_dev *d, struct cuda_job *const *job, int n, struct cuda_job **out) MUST_CHECK;
/* Waits until all that was started has ended. INT64_MAX: waits in the driver. Else the driver is asked again
 * and again, and E_TIMEOUT is returned at deadline_ns of `clock`. After any error the device is lost. What
 * launches use is freed behind a wait. */
int cuda_wait(struct cuda_dev *d, struct clock *clock, int64_t deadline_ns) MUST_CHECK;
/* Measures the device's peaks in less than two seconds beside what the driver compiles: its flops in
 * fma_gflops, the bandwidth of its caches and memory in bw_gbs and copy_gbs, and the time of an empty kernel
 * in launch_ns: started one by one, and in a graph (0: the driver has none). t comes from
 * cuda_target(): the size of its second cache decides how much memory is read. */
int cuda_measure(struct cuda_dev *d, struct target *t) MUST_CHECK;

#endif
