/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the parts of the virtual machine share: vm.c loads and checks objects, vm_math.c
 * computes, vm_run.c executes and keeps time. */
#ifndef PLATFORM_VM_PARTS_H
#define PLATFORM_VM_PARTS_H

#include "platform/run/vm.h"

#include <string.h>

enum {
	TICK = 16,       /* ticks of a cycle of 1 ns */
	L1_LINES = 512,  /* 32 KiB */
	L2_LINES = 4096, /* 256 KiB */
};

struct vm {
	struct vm_object o;
	struct vm_ins *code;
	int64_t *r;                          /* integer registers */
	float (*v)[VM_LANES];                /* vector registers */
	int64_t *ready;                      /* tick at which a vector register has its value */
	int64_t elems[VM_MAX_BUFS];          /* set by VM_EXTENT */
	uint64_t l1[L1_LINES], l2[L2_LINES]; /* line held, + 1; 0: none */
	int64_t front, alu, mem;             /* ticks at which the front end and each port are free */
	int64_t alu_ticks; /* ticks of an arithmetic instruction of 4 lanes: more if registers spill */
	void *const *bufs;
};

/* Kinds of an instruction's fields, in the order dst a b c d: 'i' integer register, 'v' vector register, 'o'
 * optional integer register, 'b' buffer, '-' unused (any value). NULL: no such instruction. */
extern const char *const vm_shape[VM_OPS];

static inline float vm_from_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* All vector operations but loads and stores, on registers that were checked. */
void vm_vector(struct vm *vm, const struct vm_ins *s);

#endif
