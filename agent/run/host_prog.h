/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the portable path as instructions between buffers: equal subexpressions are computed once,
 * reads that lie as they are needed are used in place, and one value of a row is applied as a scalar. */
#ifndef AGENT_HOST_PROG_H
#define AGENT_HOST_PROG_H

#include "kernels/task/task.h"

enum {
	PROG_SLOTS = 20,       /* buffers of HOST_BLOCK floats */
	PROG_ACC = PROG_SLOTS, /* slot of what was reduced, which the caller has */
	PROG_PLACES
};

/* slot[to] = op(slot[a], slot[b], slot[c]). */
struct host_ins {
	enum prog_op op; /* P_READ: the caller loads read `read`; P_IMM: fills with imm */
	uint8_t to, a, b, c;
	/* b is not a slot: imm, or the one value of each row that read `read` has. */
	bool by_imm, by_row;
	uint8_t read;
	float imm;
};

struct host_prog {
	int n, result;  /* result: a slot */
	uint32_t reads; /* bit i: read i is used */
	struct host_ins *ins;
};

/* row[r]: read r is one value of each row. Makes a program whose every value is computed once, or, if that
 * needs too many slots, as it is written. E_UNSUPPORTED: the stack is too deep even so. */
int host_prog_make(const struct prog *p, const bool row[MAX_OPERANDS], struct arena *a,
		   struct host_prog *out) MUST_CHECK;

#endif
