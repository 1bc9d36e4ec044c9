/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a device by its name, as `--device` takes it: "cpu", "opencl:0" or "cuda:0". A device with a
 * driver is described by a hone-worker, because drivers may crash or hang. */
#ifndef AGENT_DEVICE_H
#define AGENT_DEVICE_H

#include "platform/base/err.h"
#include "platform/machine/target.h"

/* The target of a device with memory of its own (device_is_named of platform/run/device_name.h), with the
 * peaks that are kept in the folder ("": none); fma_gflops is 0 where none are. worker: the program, or
 * (NULL) as agent/worker/hire.h finds it. E_CHILD: there is no such device, or its driver ended the worker,
 * or hangs; E_TIMEOUT, E_STOPPED: this thread's limit came (platform/base/until.h). */
int device_target(const char *name, const char *worker, const char *dir, struct target *t) MUST_CHECK;
/* Measures the peaks of *t (of device_target), and keeps the higher value of each, in the folder, too. Errors
 * as of device_target. */
int device_measure(const char *name, const char *worker, const char *dir, struct target *t) MUST_CHECK;
/* Whether another job has just measured the peaks that the folder keeps. */
bool device_is_fresh(const char *name, const char *dir);
/* Whether a kernel passes the peaks by half, which tells that one was measured too low, because something
 * else used the machine. Caches may keep its bytes, so if these bind it, they are compared with reads of a
 * smaller set of data (bw_gbs: 8 KiB, 256 KiB or 2 MiB), which can only be faster. */
struct device_pace {
	double share; /* of the roofline; 1: all of it, 0: not known */
	bool memory_bound;
	double bytes, ns; /* each byte counts once */
};
bool device_is_outpaced(const struct target *t, const struct device_pace *k);
/* target_read_peaks, also for peaks that former versions kept before they listed textures. */
bool device_read_peaks(const char *path, struct target *t);
/* Marks the peaks that the folder keeps as too low; they are measured again before they are used next. The
 * mark is a line "doubtful" behind the text in DIR/target-NAME. */
void device_doubt(const char *name, const char *dir);
bool device_is_doubted(const char *name, const char *dir);
/* For tests: how long a driver may take to describe a device (default: 30 s). */
void device_patience(int64_t ns);
/* hone-worker's part: prints the target of a device that is apart as a line on stdout, or, behind a "!", why
 * it cannot be used. measure: with peaks. */
int device_describe(const char *name, bool measure) MUST_CHECK;

#endif
