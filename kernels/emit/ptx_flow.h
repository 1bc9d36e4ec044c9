/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of a PTX kernel as the assembler may schedule them: basic blocks joined where it uses
 * predicates instead of branches, without dead code, with the registers that are live after each. Reads the
 * text that LLVM writes (emit_ptx.c); other texts give a wrong estimate, but nothing worse. */
#ifndef KERNELS_PTX_FLOW_H
#define KERNELS_PTX_FLOW_H

#include "platform/base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow_class {
	PTX_PLAIN,
	PTX_MATH,   /* sums and products: what conversions of loaded bytes are not */
	PTX_GLOBAL, /* loads */
	PTX_GLOBAL_CONST,
	PTX_SHARED,
	PTX_STORE,
	PTX_BARRIER,
	PTX_BRANCH,
	PTX_IMMEDIATE, /* constants and parameters, which instructions take as operands */
	PTX_CONVERT    /* integer to f32, which takes longer than other arithmetic */
};

struct flow_ins {
	uint8_t kind, ndefs, nuses;
	bool guarded; /* under a predicate instead of a branch: what it sets may keep its old value */
	bool renames; /* its result is its operand, or that plus a constant that addresses contain */
	bool dead, bytes, uncond, negated, ret; /* negated: a branch taken where its guard is false */
	bool matrix;                            /* a product of fragments */
	int8_t truth;                           /* it sets a predicate to 0 or 1; -1: to neither */
	int next;                               /* in its block; -1: the last */
	int label;                              /* of a branch; -1: none */
	uint32_t first; /* in reg: ndefs registers that it sets, then nuses that it reads */
};

struct flow_block {
	int head, tail, n; /* instructions; -1: none */
	int to[2], nto, nfrom;
	bool gone;
	uint64_t *in, *out; /* sets of live registers */
};

struct ptx_flow {
	struct flow_ins *ins;
	struct flow_block *block;
	uint32_t *reg;
	uint8_t *weight; /* per register: registers of 32 bits */
	uint32_t *sets;  /* per register: how many instructions set it */
	int nins, nblocks, nregs, words;
};

/* Reads the entry'th kernel of the text, n bytes. False: there is none, or it is too large. */
bool ptx_flow(const char *text, size_t n, int entry, struct arena *a, struct ptx_flow *out);

static inline bool ptx_in(const uint64_t *set, uint32_t r)
{
	return set[r / 64] >> (r % 64) & 1;
}

#endif
