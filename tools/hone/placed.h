/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels of a network run on the processor, though a device was named, and why: in words and in JSON,
 * the same for all commands. */
#ifndef TOOLS_PLACED_H
#define TOOLS_PLACED_H

#include "agent/run/plan.h"
#include "agent/cache/json.h"

enum { PLACED_KINDS = 32 };

/* Kernels that run on the processor, counted by kind and reason; those that do not fit are one more row. */
struct placed {
	int kernels, here; /* of the network; of them on the processor */
	int n;
	struct placed_kind {
		char kind[32]; /* "conv", "matmul u8", "QLinearConv" */
		enum kernel_why why;
		int count;
	} row[PLACED_KINDS + 1];
};

/* Counts a kernel by its label. */
void placed_add(struct placed *p, const char *label, enum kernel_why why);
/* Counts all kernels of a plan that has a device. */
void placed_plan(struct placed *p, const struct plan *plan);
/* Prints "opencl:0: 7 of 34 kernels run on the processor: 4 QLinearConv (...), 3 matmul (...)" as a line on
 * standard output; nothing, if none does. */
void placed_print(const struct placed *p, const char *device);
/* [{"kind", "count", "why"}] */
json_t *placed_json(const struct placed *p);
/* Whether a kernel's label ends with a type of bytes, as in "conv 3x3 48->64 40x40 mul u8". */
bool placed_on_bytes(const char *label);

#endif
