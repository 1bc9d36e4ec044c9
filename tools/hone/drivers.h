/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this machine that have drivers, OpenCL's and CUDA's, for people and scripts. A child process
 * asks the drivers, because a broken one may crash or hang; what it sends is not trusted. */
#ifndef TOOLS_DRIVERS_H
#define TOOLS_DRIVERS_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include <jansson.h>
#include <stdint.h>

#define DRIVERS_WAIT_NS (20 * INT64_C(1000000000)) /* a first call of PoCL takes 1 s on a slow board */

enum drivers { DRIVERS_OPENCL, DRIVERS_CUDA, DRIVERS };

const char *drivers_name(enum drivers d); /* "opencl" */
/* {"devices": [...], "note": ...}: the devices with their limits; where there is none, `note` says what to
 * install, else what was left out and why ("": nothing). The child is killed after wait_ns, and then the note
 * says that. dir: the cache folder, whose measured peaks are listed, too ("": none). */
json_t *drivers_json(enum drivers d, const char *dir, int64_t wait_ns);
/* Appends the names of those that can run kernels, a line each, to out, and the note to `note`, if that is
 * not NULL. */
void drivers_names(enum drivers d, int64_t wait_ns, struct buf *out, struct buf *note);
/* The same in words, on stdout. */
void drivers_print(enum drivers d, const char *dir, int64_t wait_ns);
/* E_USAGE: --device names no kind of device; the text lists those of this machine. */
int drivers_refuse(const char *device) MUST_CHECK;

#endif
