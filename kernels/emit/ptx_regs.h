/* SPDX-License-Identifier: Apache-2.0 */
/* How many registers of 32 bits NVIDIA's assembler gives each thread of a kernel.
 *
 * The estimate reads the PTX. In each basic block (ptx_flow.h) it counts the most registers that are live at
 * once, in two orders: `early`, with loads from global memory first, and behind them conversions of loaded
 * bytes to f32, as far as stores allow; and `deep`, where from there each value is computed just before it is
 * needed. The assembler's order lies between them, mostly near the first. So a block takes
 *   PTX_REGS_BASE + (4 early + deep) / 5,
 * and a kernel what its largest block takes, up to what a thread may have. Registers count 1 for 32 bits and
 * 2 for 64; predicates, constants and parameters count nothing. From shared memory the assembler loads early
 * only up to 128 registers: where `early` needs more, these loads are taken to their first uses.
 *
 * Fitted to ptxas 12.4 on 1800 random candidates, of which 94 % are within PTX_REGS_MARGIN; of 550 others it
 * is 91 %, of random candidates of large layers 75 to 87 % (make bench-ptxas prints the shares). Most others
 * are due to the assembler, which may allocate 60 registers more than are ever live in the code that it
 * makes. With the true number of live registers at hand, 94 % would be within the margin. */
#ifndef KERNELS_PTX_REGS_H
#define KERNELS_PTX_REGS_H

#include "kernels/loops/loops.h"

enum {
	PTX_REGS_MARGIN = 16,
	PTX_REGS_BASE = 6, /* addresses and the stack of calls that no block sees */
	PTX_REGS_SPILL = 64
};

struct ptx_regs {
	int usual; /* estimate, where the limit is the most that a thread can have (ptx_limit(1, 1)) */
	int least; /* live at once in the best of the two orders and the text's */
	int all;   /* as usual, not cut at what a thread can have */
};

/* Estimates the registers of one kernel (entry) in a text of n bytes. It takes about 0.1 ms for each 1000
 * instructions. All fields are 0 if the text is not one that emit_ptx writes, or is too long. */
struct ptx_regs ptx_registers(const char *text, size_t n, int entry);
/* Registers that a loop carries: with fewer than these and the margin, some are surely spilled. */
int ptx_carried(const struct loops *l, const struct entry *e);
/* The most that a thread may have where a unit runs so many blocks of so many threads. */
int ptx_limit(int threads, int blocks);
/* Whether the assembler probably spills: it did so only where the estimate was far over the limit. */
bool ptx_spills(const struct ptx_regs *r, int limit);

#endif
