/* SPDX-License-Identifier: Apache-2.0 */
/* How many registers of 32 bits NVIDIA's assembler gives each thread of a kernel.
 *
 * The estimate reads the PTX. In each basic block (ptx_flow.h) it counts the most registers that are live at
 * once, in two orders: `early`, with loads from global memory first, and behind them conversions of loaded
 * bytes to f32, as far as stores allow; and `deep`, where from there each value is computed just before it is
 * needed. The assembler's order lies between them, mostly near the first. So a block takes
 *   PTX_REGS_BASE + (4 early + deep) / 5,
 * and a kernel what its largest block takes, up to what a thread may have; deep counts at most as 3/2 early.
 * Registers count 1 for 32 bits and 2 for 64; predicates, constants and parameters count nothing. From shared
 * memory the assembler loads early only up to 128 registers: where `early` needs more, these loads are taken
 * to their first uses, with PTX_REGS_AHEAD registers for those of the next uses; and where a block loads far
 * more from there than `early` has, it takes PTX_REGS_UNIT more. The result is rounded to a multiple of
 * PTX_REGS_UNIT, as a unit gives registers to threads.
 *
 * The assembler may allocate 90 registers more than are ever live, because it moves loads further up to hide
 * their latency. So the emitter bounds it (.maxnreg) at PTX_REGS_MARGIN over the estimate, and never below
 * 9/8 of what is live (ptx_most): then more blocks run side by side, which hides latency, too. One kernel in
 * ten has more without the bound. Where the bound follows what is live, the assembler mostly uses it up, so
 * the estimate is never more than PTX_REGS_MARGIN below the bound (with products of fragments, which leave
 * some of it, PTX_REGS_UNIT / 2 more). At 23 registers over 145 live ones
 * ptxas 11.8 and 12.4 spilled 12 bytes, at 32 over 88 of products of fragments 13.0 spilled 8. Fitted to
 * ptxas 12.4 on 687 kernels of random candidates, of which 97 % are within the margin; of 1760 others 97 to
 * 98 %; of random candidates of large layers 87 to 97 % (make bench-ptxas prints the shares). Of 135 of
 * those, 94 % are since the estimate follows the bound, and 90 % were before. Without the bound, 90 and 83 %
 * were. Of 850 candidates of 22 kinds, 95 % are, and 93 % on sm_86 and later, where kernels that convert
 * bytes need fewer registers than the estimate. */
#ifndef KERNELS_PTX_REGS_H
#define KERNELS_PTX_REGS_H

#include "kernels/loops/loops.h"

enum {
	PTX_REGS_MARGIN = 16,
	PTX_REGS_BASE = 6, /* addresses and the stack of calls that no block sees */
	PTX_REGS_AHEAD = 40,
	PTX_REGS_UNIT = 8,
	PTX_REGS_SLACK = 8, /* one of so many live registers is left for what the assembler moves */
	PTX_REGS_SPILL = 64
};

struct ptx_regs {
	int usual; /* estimate, where the limit is the most that a thread can have (resident_registers(1, 1))
		    */
	int least; /* live at once in the best of the two orders and the text's */
	int all;   /* as usual, neither rounded nor cut at what a thread can have */
	bool products; /* of fragments: the kernel has some */
};

/* Estimates the registers of one kernel (entry) in a text of n bytes. It takes about 0.1 ms for each 1000
 * instructions. All fields are 0 if the text is not one that emit_ptx writes, or is too long. */
struct ptx_regs ptx_registers(const char *text, size_t n, int entry);
/* Registers that a loop carries: with fewer than these and the margin, some are surely spilled. */
int ptx_carried(const struct loops *l, const struct entry *e);
/* The bound that the emitter sets, where a thread may have `limit`; 0: none below that. */
int ptx_most(const struct ptx_regs *r, int limit);
/* Whether the assembler probably spills: it did so only where the estimate was far over the limit and half of
 * the registers are live in any order, where it was farther and three eighths are (118 over 255 with 125
 * live: 16 bytes on two of four architectures), where it was half as far and nearly all are, or where no
 * order leaves it room. */
bool ptx_spills(const struct ptx_regs *r, int limit);

#endif
