/* SPDX-License-Identifier: Apache-2.0 */
/* How many registers of 32 bits NVIDIA's assembler gives each thread of an entry, from the loops alone. The
 * constants were fitted to what ptxas 12.4 makes of random candidates: two of three estimates are within the
 * margin (make bench-ptxas prints their share). The others are mostly of bytes, whose conversions and guarded
 * loads the assembler starts earlier than is known here. */
#ifndef KERNELS_PTX_REGS_H
#define KERNELS_PTX_REGS_H

#include "kernels/loops/loops.h"

enum { PTX_REGS_MARGIN = 16 };

struct ptx_regs {
	int least; /* that a loop carries: with fewer than these and the margin, registers are spilled */
	int usual; /* estimate, where the limit is the most that a thread can have (ptx_limit(1, 1)) */
};

struct ptx_regs ptx_registers(const struct loops *l, const struct entry *e);
/* The most that a thread may have where a unit runs so many blocks of so many threads. */
int ptx_limit(int threads, int blocks);

#endif
