/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices: KIND ("cpu", "opencl"), or KIND:N for the one with the number N of its kind ("opencl:0").
 * N is a plain decimal number below 1000: without sign, blanks or leading zeros, and nothing behind it.
 * "cpu:NAME" is a cluster of the processor (platform/machine/topo.h), "cpu" the fastest one. */
#ifndef PLATFORM_DEVICE_NAME_H
#define PLATFORM_DEVICE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { DEVICE_NAME = 40 }; /* bytes of the longest name, and NUL */
/* The kinds with memory of their own, each a file dev_KIND.c; ends with NULL. */
extern const char *const device_kinds[];
/* Returns the length of KIND, 0 if it is no such name. *number: N, -1 if there is none. */
size_t device_name_read(const char *name, int *number);
/* Whether it is KIND:N with one of device_kinds. The device need not be there. */
bool device_is_named(const char *name);
/* Whether it names a device ("cuda:0") whose contexts take 100 to 300 MB each: of all processes of a box one
 * at a time has one (but for agent/worker/runner_apart.h). */
bool device_is_sole(const char *name);
/* Whether it is "cpu", or "cpu:NAME" with what may be a cluster's name. The cluster need not be there. */
bool device_is_processor(const char *name);

#endif
