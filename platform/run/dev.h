/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: load code bytes, run and time them. A device is one file dev_NAME.c that defines `const struct dev
 * dev_NAME`; the Makefile writes dev_table[]. A device knows no tensors: it sees objects, pointers and
 * ranges.
 *
 * Kernel ABI: void entry(void *const *buf, const int64_t *param, int64_t begin, int64_t end). Every caller
 * passes its own buf array; its last entry is thread-private scratch. Kernels call nothing, start no threads,
 * keep no state.
 *
 * How to add one: fill the slots below; probe() finding nothing is not an error (return 0). */
#ifndef PLATFORM_DEV_H
#define PLATFORM_DEV_H

#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/base/file.h"
#include "platform/machine/target.h"

typedef void kernel_fn(void *const *buf, const int64_t *param, int64_t begin, int64_t end);

struct dev_code; /* loaded code; the device defines it */

struct dev {
	const char *name;    /* "cpu", "sim" */
	const char *emitter; /* the emitter whose objects it loads: "llvm", "sim" */
	bool risky;          /* a launch may take the machine down: see agent/worker/marked.h */
	int (*probe)(struct target *t); /* 1: usable, t filled without peaks; 0: not here; < 0: broken */
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

extern const struct dev *const dev_table[]; /* NULL-terminated, by file name */
const struct dev *dev_find(const char *name);

#endif
