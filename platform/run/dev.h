/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: load code bytes, run and time them. A device is one file dev_NAME.c that defines `const struct dev
 * dev_NAME`; the Makefile writes dev_table[]. A device knows no tensors: it sees objects, pointers and
 * ranges. There are two kinds: of a processor, kernels work in the process's memory and the caller's threads
 * run them; a device with memory of its own (`own` is set: OpenCL, CUDA) is opened first, and gets launches.
 *
 * Kernel ABI of a processor: void entry(void *const *buf, const int64_t *param, int64_t begin, int64_t end).
 * Every caller passes its own buf array; its last entry is thread-private scratch. Kernels call nothing,
 * start no threads, keep no state.
 *
 * How to add one: fill the slots below; probe() finding nothing is not an error (return 0). */
#ifndef PLATFORM_DEV_H
#define PLATFORM_DEV_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/base/file.h"
#include "platform/machine/target.h"

typedef void kernel_fn(void *const *buf, const int64_t *param, int64_t begin, int64_t end);

struct dev_code; /* loaded code; the device defines it */
struct dev_own;

/* Device "opencl:2" is number 2 of the kind "opencl". */
enum { DEV_NAME_MAX = 32 };

struct dev {
	const char *name;               /* "cpu", "sim" */
	const char *emitter;            /* the emitter whose objects it loads: "llvm", "ptx" */
	bool risky;                     /* a launch may take the machine down: see agent/worker/marked.h */
	int (*probe)(struct target *t); /* 1: usable, t filled without peaks; 0: not here; < 0: broken */
	const struct dev_own *own; /* not NULL: load, load_all, run and address are NULL, probe only looks
				      whether there may be one */
	/* Loads a copy. Refuses objects that it cannot run: E_CORRUPT, E_UNSUPPORTED. */
	int (*load)(const void *obj, size_t n, struct dev_code **out);
	/* Loads n > 0 objects at once, all or none, which is faster; each is unloaded separately. */
	int (*load_all)(const struct blob *obj, int n, struct dev_code **out);
	int (*entry)(struct dev_code *c, const char *symbol); /* number of an entry >= 0; E_NOTFOUND */
	void (*run)(struct dev_code *c, int entry, void *const *buf, const int64_t *param, int64_t begin,
		    int64_t end);
	/* Address of an entry's instructions, for profilers; NULL if they are not in this process's
	 * memory. */
	const void *(*address)(struct dev_code *c, int entry, size_t *bytes);
	void (*unload)(struct dev_code *c);
	/* The clock that timings on this device are taken with: real, or the simulator's virtual one. */
	struct clock *(*clock)(void);
};

/* ---- devices with memory of their own ---- */

struct dev_unit;   /* such a device in use */
struct dev_mem;    /* memory on it */
struct dev_launch; /* a launch that can be started any number of times */

struct dev_limits {
	int64_t memory_bytes; /* all of its memory */
	int64_t buffer_bytes; /* the largest dev_mem */
	int units;            /* compute units */
	bool unified;         /* it shares the process's memory: map() copies nothing */
	char uuid[40];        /* by which platform/run/gpu_state.h knows it; "": it does not */
};

struct dev_spot { /* part of a memory */
	struct dev_mem *mem;
	int64_t at; /* byte */
};

/* What an entry is launched for: its range, and the buffers in the order of the kernel ABI, scratch last. */
struct dev_work {
	const struct dev_spot *buf;
	int nbufs;
	const int64_t *param;
	int nparams;
	int64_t begin, end;
	int64_t at_once; /* indices at a time, each with a part of the scratch; 0: all */
};

/* A device that does not answer is lost: wait() gives E_TIMEOUT, and from then on every call fails at once
 * with E_IO. E_NOMEM: it lacks memory or resources; E_INFEASIBLE: it cannot build or launch this kernel;
 * E_IO: it is broken, or gone. Codes, memories and launches are freed before close(). Not thread-safe. */
struct dev_own {
	int (*open)(int number, struct dev_unit **out);
	void (*close)(struct dev_unit *u);
	void (*limits)(const struct dev_unit *u, struct dev_limits *out);
	/* Its target without peaks. */
	void (*target)(const struct dev_unit *u, struct target *t);
	/* Adds measured peaks, of the whole device, in under two seconds. */
	int (*measure)(struct dev_unit *u, struct target *t);
	int (*load)(struct dev_unit *u, const void *obj, size_t n, struct dev_code **out);
	/* Adds to the object that the code was loaded from what makes its next load fast, on this device,
	 * after the first launch. E_UNSUPPORTED: nothing does. */
	int (*keep)(struct dev_code *c, struct buf *object);
	int (*alloc)(struct dev_unit *u, int64_t bytes, struct dev_mem **out);
	/* Memory that kernels read as a texture of so many floats, or halves (f16), a multiple of 4: it is
	 * written as a whole, and neither read back nor mapped. In a dev_spot its `at` is 0. E_INFEASIBLE:
	 * the device has none, or none so large. NULL: no device of this kind has them. */
	int (*texture)(struct dev_unit *u, bool halves, int64_t elems, struct dev_mem **out);
	void (*free)(struct dev_mem *m);
	/* Copies after all launches that were started. */
	int (*write)(struct dev_mem *m, int64_t at, const void *from, int64_t bytes);
	int (*read)(struct dev_mem *m, int64_t at, void *to, int64_t bytes);
	/* The process's address of bytes [at, at + bytes) of a memory, bytes > 0, to read and write until
	 * unmap(), after all launches that were started. Meanwhile no launch that uses the memory is started,
	 * and nothing else of it is mapped or copied. Each call may give another address. The memory of a
	 * device that is lost stays mapped until it is freed. */
	int (*map)(struct dev_mem *m, int64_t at, int64_t bytes, void **out);
	int (*unmap)(struct dev_mem *m); /* does not wait */
	/* The values of params are copied, the memories must stay, and are not mapped now. */
	int (*prepare)(struct dev_code *c, int entry, const struct dev_work *w, struct dev_launch **out);
	void (*drop)(struct dev_launch *l);
	/* Starts behind all launches that were started before, and does not wait. */
	int (*start)(struct dev_launch *l);
	/* Records n > 0 launches as one, a graph. None of them is itself a graph. They must outlive the new
	 * launch. It starts them in this order, in less time than they take one by one, and is started and
	 * dropped like others. If recording or starting it fails, they can be started one by one. NULL: the
	 * device records no graphs. */
	int (*record)(struct dev_unit *u, struct dev_launch *const *l, int n, struct dev_launch **out);
	/* Waits for all that was started, at most until deadline_ns of the real clock (INT64_MAX: for ever,
	 * with less processor time). */
	int (*wait)(struct dev_unit *u, int64_t deadline_ns);
};

extern const struct dev *const dev_table[]; /* NULL-terminated, by file name */
/* The device of a name (platform/run/device_name.h): "cpu", "opencl" or "opencl:0". NULL: error text says
 * which there are. */
const struct dev *dev_find(const char *name);
/* Its number; 0 if there is none. */
int dev_number(const char *name);

#endif
