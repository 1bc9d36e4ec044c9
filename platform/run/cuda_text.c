/* SPDX-License-Identifier: Apache-2.0 */
/* Names of errors, and what the device's limits mean for kernels. */
#include "platform/run/cuda_api.h"
#include "platform/machine/target_isa.h"
#include "platform/run/driver_text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOST = 1, KERNEL = 2 }; /* the context is broken for good; the kernel cannot be built or launched */

static const struct {
	int code;
	const char *name;
	int is;
} names[] = {
    {1, "INVALID_VALUE"},
    {2, "OUT_OF_MEMORY"},
    {3, "NOT_INITIALIZED"},
    {4, "DEINITIALIZED", LOST},
    {34, "STUB_LIBRARY"},
    {36, "CALL_REQUIRES_NEWER_DRIVER"},
    {46, "DEVICE_UNAVAILABLE", LOST},
    {100, "NO_DEVICE"},
    {101, "INVALID_DEVICE"},
    {102, "DEVICE_NOT_LICENSED"},
    {200, "INVALID_IMAGE", KERNEL},
    {201, "INVALID_CONTEXT", LOST},
    {205, "MAP_FAILED"},
    {209, "NO_BINARY_FOR_GPU", KERNEL},
    {214, "ECC_UNCORRECTABLE", LOST},
    {215, "UNSUPPORTED_LIMIT"},
    {216, "CONTEXT_ALREADY_IN_USE"},
    {218, "INVALID_PTX", KERNEL},
    {220, "NVLINK_UNCORRECTABLE", LOST},
    {221, "JIT_COMPILER_NOT_FOUND"},
    {222, "UNSUPPORTED_PTX_VERSION", KERNEL},
    {223, "JIT_COMPILATION_DISABLED"},
    {300, "INVALID_SOURCE", KERNEL},
    {301, "FILE_NOT_FOUND"},
    {302, "SHARED_OBJECT_SYMBOL_NOT_FOUND"},
    {303, "SHARED_OBJECT_INIT_FAILED"},
    {304, "OPERATING_SYSTEM"},
    {400, "INVALID_HANDLE"},
    {401, "ILLEGAL_STATE"},
    {500, "NOT_FOUND"},
    {600, "NOT_READY"},
    {700, "ILLEGAL_ADDRESS", LOST},
    {701, "LAUNCH_OUT_OF_RESOURCES", KERNEL},
    {702, "LAUNCH_TIMEOUT", LOST},
    {708, "PRIMARY_CONTEXT_ACTIVE"},
    {709, "CONTEXT_IS_DESTROYED", LOST},
    {710, "ASSERT", LOST},
    {714, "HARDWARE_STACK_ERROR", LOST},
    {715, "ILLEGAL_INSTRUCTION", LOST},
    {716, "MISALIGNED_ADDRESS", LOST},
    {717, "INVALID_ADDRESS_SPACE", LOST},
    {718, "INVALID_PC", LOST},
    {719, "LAUNCH_FAILED", LOST},
    {800, "NOT_PERMITTED"},
    {801, "NOT_SUPPORTED"},
    {802, "SYSTEM_NOT_READY"},
    {803, "SYSTEM_DRIVER_MISMATCH"},
    {804, "COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {805, "MPS_CONNECTION_FAILED"},
    {900, "STREAM_CAPTURE_UNSUPPORTED"},
    {901, "STREAM_CAPTURE_INVALIDATED"},
    {902, "STREAM_CAPTURE_MERGE"},
    {903, "STREAM_CAPTURE_UNMATCHED"},
    {904, "STREAM_CAPTURE_UNJOINED"},
    {905, "STREAM_CAPTURE_ISOLATION"},
    {906, "STREAM_CAPTURE_IMPLICIT"},
    {907, "CAPTURED_EVENT"},
    {908, "STREAM_CAPTURE_WRONG_THREAD"},
    {909, "TIMEOUT"},
    {910, "GRAPH_EXEC_UPDATE_FAILURE"},
    {999, "UNKNOWN", LOST},
};

static int find(int code)
{
	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
		if (names[i].code == code)
			return i;
	return -1;
}

int cuda_fail(const char *call, int code)
{
	int i = find(code), is = i < 0 ? 0 : names[i].is;
	bool launch = (!strcmp(call, "cuLaunchKernel") || !strcmp(call, "cuFuncSetAttribute")) &&
		      code == CUDA_ERROR_INVALID_VALUE;
	int rc = code == CUDA_ERROR_OUT_OF_MEMORY ? E_NOMEM : is == KERNEL || launch ? E_INFEASIBLE : E_IO;
	return i < 0 ? fail(rc, "%s: an unknown error (%d)", call, code)
		     : fail(rc, "%s: CUDA_ERROR_%s (%d)", call, names[i].name, code);
}

int cuda_done(struct cuda_dev *d, const char *call, int code)
{
	if (code == CUDA_SUCCESS)
		return E_OK;
	int i = find(code), rc = cuda_fail(call, code);
	if (i >= 0 && names[i].is == LOST) {
		d->lost = true;
		snprintf(d->why, sizeof d->why, "%s", err_text());
	}
	return rc;
}

int cuda_got(struct cuda_dev *d, const char *call, bool there, int code)
{
	if (code != CUDA_SUCCESS)
		return cuda_done(d, call, code);
	return there ? E_OK : fail(E_IO, "%s: it gave NULL without an error", call);
}

void cuda_info_clean(struct cuda_info *i)
{
	int64_t *const numbers[] = {&i->driver,     &i->capability,   &i->units,       &i->clock_mhz,
				    &i->memory_mhz, &i->bus_bits,     &i->group_items, &i->grid,
				    &i->registers,  &i->shared_bytes, &i->shared_most, &i->l2_bytes,    &i->global_bytes};
	bool *const flags[] = {&i->integrated, &i->maps_host,  &i->managed,
			       &i->pageable,   &i->prohibited, &i->watchdog};
	driver_text_clean(i->name, sizeof i->name);
	driver_text_clean(i->uuid, sizeof i->uuid);
	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		*numbers[k] = *numbers[k] < 0 ? 0 : *numbers[k];
	for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
		driver_flag_clean(flags[k]);
}

bool cuda_shares(const struct cuda_info *i)
{
	return i->integrated && i->maps_host;
}

/* Versions of PTX that drivers take, by the newest CUDA that they support, up to the newest that the code
 * generator writes (NVIDIA, PTX ISA, release notes). */
static const struct {
	int driver, ptx;
} versions[] = {{12050, 85}, {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80},
		{11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74}, {11030, 73},
		{11020, 72}, {11010, 71}, {11000, 70}, {10020, 65}};

/* 0: the driver is too old. */
static int ptx_version(int64_t driver)
{
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		if (driver >= versions[i].driver)
			return versions[i].ptx;
	return 0;
}

/* Processors that the code generator knows, and the versions of PTX that have them. */
static const struct {
	int capability, ptx;
} processors[] = {{90, 78}, {89, 78}, {87, 74}, {86, 71}, {80, 70}, {75, 63}, {72, 61}};

static int processor(const struct cuda_info *i, int ptx)
{
	for (size_t k = 0; k < sizeof processors / sizeof *processors; k++)
		if (i->capability >= processors[k].capability && ptx >= processors[k].ptx)
			return processors[k].capability;
	return 0;
}

enum { WARP = 32, LEAST_GRID = 65535 };

int cuda_usable(const struct cuda_info *i)
{
	const char *why = i->prohibited           ? "its administrator forbids it (nvidia-smi -c 0 allows it)"
			  : i->capability < 72    ? "its compute capability is below 7.2"
			  : i->units < 1          ? "it tells no multiprocessors"
			  : i->group_items < WARP ? "it tells no size of blocks"
			  : i->grid < LEAST_GRID  ? "it tells no size of grids"
			  : i->global_bytes < 1   ? "it tells no memory"
						  : NULL;
	if (!ptx_version(i->driver))
		return fail(E_UNSUPPORTED,
			    "CUDA device %s cannot run kernels: its driver supports CUDA %d.%d, and 10.2 is "
			    "needed; install a newer driver",
			    i->name, (int)(i->driver / 1000), (int)(i->driver % 1000 / 10));
	return why ? fail(E_UNSUPPORTED, "CUDA device %s cannot run kernels: %s", i->name, why) : E_OK;
}

static int most_group(const struct cuda_info *i)
{
	int n = 1;
	while (n < 1024 && 2 * n <= i->group_items)
		n *= 2;
	return n > 1 ? n : 0;
}

static int64_t within(int64_t v, int64_t least, int64_t most)
{
	return v < least ? least : v > most ? most : v;
}

/* Of a thread's 255 registers some are left for addresses. The first cache is at least 32 KiB beside what
 * blocks share, and lines of 128 bytes are loaded by sectors of 32. */
enum { LANES = 4, REGISTERS = 240 };

/* The board's power mode is the device's, too. */
static void board_mode(struct target *t)
{
	char path[PATH_MAX];
	const char *root = getenv("HONE_SYSROOT");
	if (snprintf(path, sizeof path, "%s" POWER_MODE, root ? root : "") < (int)sizeof path)
		isa_power_mode(path, t);
}

void cuda_target(const struct cuda_info *i, struct target *t)
{
	int ptx = ptx_version(i->driver);
	*t = (struct target){.isa = "cuda",
			     .lanes = LANES,
			     .regs = REGISTERS / LANES,
			     .fma = true,
			     .l1_bytes = 32 << 10,
			     .l2_bytes = within(i->l2_bytes, 128 << 10, 1 << 30),
			     .line_bytes = 128,
			     .cores = (int)within(i->units, 1, 4096),
			     .group = most_group(i)};
	board_mode(t);
	snprintf(t->cpu, sizeof t->cpu, "sm_%d", processor(i, ptx));
	snprintf(t->features, sizeof t->features, "+ptx%d", ptx);
	driver_text_word(t->soc, sizeof t->soc, i->name[0] ? i->name : "CUDA");
	snprintf(t->rev, sizeof t->rev, "%d.%d", (int)within(i->driver / 1000, 0, 9999),
		 (int)(i->driver % 1000 / 10));
}
