/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the times of a network's kernels add up to the time of the whole network. Both are measured in runs
 * of their own, so other load can slow one of them alone. */
#ifndef TOOLS_ADDS_UP_H
#define TOOLS_ADDS_UP_H

#include "platform/base/buf.h"

/* Appends a note if the sum of n kernels' times differs from the whole by more than a quarter of it and by
 * more than timing n kernels costs; nothing, if not, or if a time is 0. device: what the kernels run on,
 * "opencl:0"; NULL: the processor. */
void adds_up_note(double sum_ns, double whole_ns, int n, const char *device, struct buf *out);

#endif
