/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/resident.h"

#include <string.h>

enum {
	REGISTERS_AT_ONCE = 256, /* of a warp: it gets a multiple of that */
	WARPS_AT_ONCE = 4,       /* of a unit: it has registers for a multiple of that */
	SHARED_AT_ONCE = 128     /* bytes */
};

const struct gpu_unit *gpu_unit(const struct target *tg)
{
	static const struct gpu_unit units[] = {{"sm_72", 32, 64, 96, 0},  {"sm_75", 16, 32, 64, 0},
						{"sm_80", 32, 64, 164, 1}, {"sm_86", 16, 48, 100, 1},
						{"sm_87", 16, 48, 164, 1}, {"sm_89", 24, 48, 100, 1},
						{"sm_90", 32, 64, 228, 1}};
	for (size_t i = 0; i < sizeof units / sizeof *units && !strcmp(tg->isa, "cuda"); i++)
		if (!strcmp(tg->cpu, units[i].cpu))
			return &units[i];
	return NULL;
}

static int64_t up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int resident_blocks(const struct target *tg, int threads, int registers, int64_t shared_bytes)
{
	const struct gpu_unit *u = gpu_unit(tg);
	if (!u || threads < 1 || registers > THREAD_REGISTERS)
		return 0;
	int64_t warps = up(threads, UNIT_WARP) / UNIT_WARP,
		each = up((int64_t)UNIT_WARP * (registers > 0 ? registers : 1), REGISTERS_AT_ONCE),
		shared = up(shared_bytes, SHARED_AT_ONCE) + ((int64_t)u->taken_kb << 10);
	int64_t n = least(u->blocks, u->warps / warps);
	n = least(n, UNIT_REGISTERS / each / WARPS_AT_ONCE * WARPS_AT_ONCE / warps);
	return (int)(shared ? least(n, ((int64_t)u->shared_kb << 10) / shared) : n);
}

int resident_registers(int threads, int blocks)
{
	int64_t warps = up(threads, UNIT_WARP) / UNIT_WARP * (blocks > 1 ? blocks : 1),
		n = UNIT_REGISTERS / (UNIT_WARP * up(warps, WARPS_AT_ONCE)) / 8 * 8;
	return (int)least(n, THREAD_REGISTERS);
}
