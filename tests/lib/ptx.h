/* SPDX-License-Identifier: Apache-2.0 */
/* Runs PTX text (NVIDIA's assembly language for GPUs) on the host, so that tests prove GPU kernels without a
 * GPU.
 *
 * It takes the PTX that LLVM's NVPTX back end emits for sm_70 to sm_90 (a list of what it knows:
 * ptx_decode.c), and finds what a GPU would let pass in silence:
 *   - answers: IEEE arithmetic with the rounding that an instruction names, fused multiply-adds, .ftz; two
 * runs with the same seed give the same bits;
 *   - order: blocks run one after the other in an order drawn from the seed. Within a block a warp runs until
 * it waits at a barrier or its time slice ends, and the next warp is drawn; lanes of a warp that diverged are
 * run in turns;
 *   - races on shared memory: two threads use a byte, at least one writes it, and no barrier lies between.
 * Lanes of one warp are no exception: only bar.warp.sync or bar.sync orders them;
 *   - asynchronous copies: they land at a moment between their issue and the wait for them that the seed
 * chooses. Who reads or writes the bytes before the wait (and, for other threads, a barrier behind it) is in
 * a race;
 *   - bounds: every access of global memory is asked of `may`; accesses to shared, param and module memory
 * are checked against the declared sizes; every address must be aligned to what is accessed;
 *   - matrices of warps (wmma of m16n16k16: f16, bf16, s8, u8): all lanes of a warp must come, places and
 * strides must be aligned, and any lane may touch any element (ptx_matrix.c says how they are held);
 *   - reads of registers and of shared memory that were never written;
 *   - barriers that some threads of the block never reach;
 *   - endless loops: a launch ends after `budget` instructions of warps.
 *
 * Not promised: the last bits of sums of matrices of floats, the last bits of .approx and .full
 * instructions (here they are rounded from doubles; a GPU's differ), races on global memory without
 * `global_races` (but their results differ between seeds), the speed or the limits of a real device.
 *
 * A struct ptx belongs to one thread at a time; ptx_run changes no more than the module's .global variables.
 * Errors' texts name the line of the PTX text, and for runs the block and the thread. */
#ifndef TESTS_PTX_H
#define TESTS_PTX_H

#include "platform/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx; /* a parsed module; keeps no reference to the text */

/* E_CORRUPT: malformed; E_UNSUPPORTED: an instruction, type or directive that the interpreter does not know.
 * The text may end with a NUL within its n bytes; comment lines may precede .version. */
int ptx_load(const char *text, size_t n, struct ptx **out) MUST_CHECK;
void ptx_free(struct ptx *p);

/* What the text declares of an entry. */
struct ptx_entry {
	const char *name;
	int nparams;
	unsigned reqntid[3]; /* zeros: none */
	unsigned maxntid[3]; /* zeros: none */
	size_t shared_bytes; /* of the .shared variables that it uses, without .extern ones */
	size_t local_bytes;  /* of its .local variables, for each thread */
	const char *target;  /* "sm_80" */
};
int ptx_entries(const struct ptx *p);
const struct ptx_entry *ptx_entry(const struct ptx *p, int i);           /* 0 <= i < ptx_entries */
const struct ptx_entry *ptx_find(const struct ptx *p, const char *name); /* NULL: there is none */
size_t ptx_param_bytes(const struct ptx_entry *e, int i);                /* 0 <= i < nparams */

struct ptx_launch {
	const char *entry;
	unsigned grid[3], block[3];
	void *const *param; /* the address of each parameter's bytes, as cuLaunchKernel's kernelParams */
	int nparams;
	size_t shared_bytes; /* for the .extern .shared array */
	uint64_t seed;       /* order of blocks, warps and landing copies */
	uint64_t budget;     /* most instructions of warps in the whole launch; 0: 2^36 */
	/* Whether the kernel may read (write) these bytes of global memory, which are host memory at this
	 * address. It is asked about the hull of a warp's access first, and if that is refused, about each
	 * thread's bytes. */
	bool (*may)(void *user, uint64_t address, size_t bytes, bool write);
	void *user;
	/* Also finds races on global memory: within a block as on shared memory; between blocks of the launch
	 * any use of bytes that another writes, unless both are atomic (locks and flags between blocks are
	 * not understood). Costs time and memory for each address that is used. */
	bool global_races;
	uint64_t *ran; /* NULL, or where the number of executed instructions, summed over threads, is added */
};
/* E_CORRUPT: out of bounds, misaligned, a race, an unmet barrier, a value that was never written, the budget.
 * E_USAGE: the launch does not fit the entry (unknown name, number of parameters, block against .reqntid). */
int ptx_run(const struct ptx *p, const struct ptx_launch *l) MUST_CHECK;

#endif
