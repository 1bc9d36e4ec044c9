/* SPDX-License-Identifier: Apache-2.0 */
/* What hone tune says of the processor after a box for a device: which kernels it runs beside the device, and
 * whether it runs the whole network faster alone. */
#ifndef TOOLS_PROCESSOR_H
#define TOOLS_PROCESSOR_H

#include "agent/cache/json.h"
#include "agent/tune/tune_model.h"
#include "tools/hone/cmd.h"

/* Whether the processor alone is faster: by the interval of the rounds, or where they are few, or another box
 * measured it, by a tenth. */
bool processor_is_faster(const struct tune_report *r);
/* Appends what to do if it is faster; nothing, if not. Only kernels that are built in can still be tuned. */
void processor_advice(const char *device, const struct tune_report *r, struct buf *out);
/* Prints lines on standard output. device: "opencl:0"; NULL: prints nothing. */
void processor_print(const char *device, const struct tune_report *r);
/* The Next: line if it is faster: tunes it, or, if all of its kernels are tuned, measures it. */
void processor_next(const struct args *a, const struct tune_report *r);
/* Adds "device" ({"name", "on_processor"}) and "processor" ({"ms", "device_ms", "threads", "kernels",
 * "tuned", "measured", "gain", "faster"}; null where nothing is known); both null without a device. */
void processor_json(json_t *to, const char *device, const struct tune_report *r);

#endif
