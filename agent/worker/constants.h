/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of floats and bytes of tasks that are made runnable (agent/worker/exercise.h): seeded random
 * values, and every packing of them that built kernels use.
 *
 * Tasks of a network often have weights of the same form: with and without a residual, say. Such tasks share
 * one constant and its packings, because new memory and the packing take longer than compiling a kernel (512
 * to 512 channels for Winograd: 38 MB, 30 ms). A constant lives as long as an exercise uses it. */
#ifndef AGENT_CONSTANTS_H
#define AGENT_CONSTANTS_H

#include "kernels/loops/code.h"
#include "platform/base/pages.h"
#include "platform/base/rng.h"

struct packed; /* a constant in one packing */

struct constant {
	struct constant *next;
	struct operand as; /* its form: dims, layout and fill */
	int nth;           /* of the constants of this form in a task, which have different values */
	double scale;      /* factor of the values of floats */
	int users;         /* exercises */
	struct pages data; /* physical, ends at a guard page */
	void *plain;       /* row-major: data.p if that is too, else malloc'd */
	struct packed *packed;
};

/* Fills n random values: floats as rng_fill; bytes of the whole range, and more often its ends. */
void values_fill(struct rng *r, enum dtype type, void *p, int64_t n);
/* Finds or makes the nth constant of the form of `o`. Each call needs one constant_close. */
int constant_open(struct constant **all, const struct operand *o, int nth, double scale,
		  struct constant **out) MUST_CHECK;
void constant_close(struct constant **all, struct constant *c);
bool constant_alike(const struct operand *a, const struct operand *b);
/* Returns the constant of buffer `b`, packed. All users of one packing share it; each call needs one
 * constant_unpack. */
int constant_pack(struct constant *c, const struct code_buf *b, struct packed **out) MUST_CHECK;
void constant_unpack(struct packed *p);
void *packed_data(const struct packed *p);
size_t packed_bytes(const struct packed *p);

#endif
