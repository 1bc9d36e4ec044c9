/* SPDX-License-Identifier: Apache-2.0 */
/* The part of libhone that runs plans on devices with memory of their own (agent/run/plan_device.h), the
 * kernels of libraries (kernels/library/library.h), and puts errors into outputs for hone calibrate
 * (agent/run/inject.h): libhone-device.so, a library of its own, which libhone opens from beside itself, or
 * from the folder hone there, when an application asks for such a device, a plan has such a kernel, or
 * $HONE_CALIBRATE is set. Other programs map nothing of it. Both work on the same structures, so
 * they must be of the same build: device_fit says whether they are. */
#ifndef AGENT_DEVICE_LIB_H
#define AGENT_DEVICE_LIB_H

#include "agent/run/plan_device.h"

#define DEVICE_LIB "libhone-device.so"
#define DEVICE_LIB_SYMBOL "hone_device_lib"

struct device_fit {
	char version[24];
	unsigned plan_bytes, step_bytes, place_bytes, graph_bytes, code_bytes, target_bytes;
};

/* libhone's functions, for errors: their text must be in libhone's memory. */
struct device_host {
	int (*fail)(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	int (*fail_in)(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	const char *(*text)(void);
};

struct device_lib {
	struct device_fit fit;
	void (*use)(const struct device_host *host); /* first, once or several times with the same */
	/* As in plan_device.h. Each device that is opened is used by one thread at a time. */
	int (*open)(const char *name, struct plan_device **out);
	void (*close)(struct plan_device *d);
	void (*target)(const struct plan_device *d, struct target *t);
	struct plan_device_use (*of)(const struct plan *p);
	const struct foreign_code *libraries; /* kernels/library/library.h */
	const struct injector *injector;      /* agent/run/inject.h */
};

extern const struct device_lib hone_device_lib;

#endif
