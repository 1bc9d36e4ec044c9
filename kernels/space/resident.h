/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks of threads a unit (SM) of an NVIDIA GPU runs side by side: as many as its registers, its
 * shared memory, its warps and its slots for blocks allow (NVIDIA, CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability", and the Occupancy Calculator). Other GPUs do not say. */
#ifndef KERNELS_RESIDENT_H
#define KERNELS_RESIDENT_H

#include "platform/machine/target.h"

enum {
	UNIT_REGISTERS = 65536, /* of 32 bits, of every architecture */
	UNIT_WARP = 32,         /* threads that issue together */
	THREAD_REGISTERS = 255  /* the most of a thread */
};

struct gpu_unit {
	char cpu[8];
	int blocks, warps;       /* the most that are resident */
	int shared_kb, taken_kb; /* shared memory, and the part of each block's that the system takes */
};

/* NULL: not CUDA, or an architecture that is not known. */
const struct gpu_unit *gpu_unit(const struct target *tg);
/* Blocks of `threads` threads with so many registers each, and so much shared memory of their own. 0: not
 * even one, or the unit is not known. */
int resident_blocks(const struct target *tg, int threads, int registers, int64_t shared_bytes);
/* The most registers that each thread may have where so many blocks of so many threads are resident. A unit
 * has four schedulers, each with a quarter of the registers. */
int resident_registers(int threads, int blocks);

#endif
