/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of drivers: what drivers.c needs of it. drivers_NAME.c defines `struct driver driver_NAME`. Not for
 * others. */
#ifndef TOOLS_DRIVERS_PARTS_H
#define TOOLS_DRIVERS_PARTS_H

#include "platform/machine/target.h"
#include "platform/run/gpu_state.h"
#include <jansson.h>
#include <stddef.h>

struct driver {
	const char *name;       /* "opencl" */
	const char *says;       /* "an OpenCL driver" */
	const char *no_library; /* what to install where the library is missing */
	const char *no_device;  /* what to install where it lists no device */
	int most;               /* devices */
	size_t bytes;           /* of an info */
	/* In the child: the devices. E_NOTFOUND: the library is missing. */
	int (*open)(void **list);
	int (*count)(const void *list);
	const void *(*info)(const void *list, int device);
	const char *(*note)(const void *list);
	/* What a device does now; NULL: it is not told. It may hang: all else is sent before. */
	void (*state)(const void *list, int device, struct gpu_state *out);
	/* In this process: of an info. */
	void (*clean)(void *info);
	int (*usable)(const void *info);
	void (*target)(const void *info, struct target *t);
	json_t *(*json)(const void *info); /* without device, usable, why and peaks */
	/* lead: "opencl:0: ". */
	void (*print)(const void *info, const char *lead, int indent);
};

extern const struct driver driver_opencl, driver_cuda;

/* Prints a line behind `lead`; where it needs more lines, they begin in column `indent`. Words that are wider
 * than a line, as a driver's names may be, are cut. */
void drivers_say(const char *lead, int indent, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
