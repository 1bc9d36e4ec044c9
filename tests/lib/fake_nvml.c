/* SPDX-License-Identifier: Apache-2.0 */
/* A management library of NVIDIA's that knows the GPUs of the CUDA driver that lies (tests/lib/fake_cuda.c):
 * a shared library in the place of libnvidia-ml.so.1. FAKE_NVML names its lies, with ";" between them: "hang
 * CALL", "CALL=CODE"; "garbage": every number is 4294967295 and all reasons hold the clock down; "slowed N":
 * these do; "flips N": they do in every other of the first N answers.
 *
 * It also exports what changes clocks, power limits and modes. Each such call adds its name to the file that
 * FAKE_NVML_SET names. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))
#define CALL(name, args)                                                                                     \
	SEEN int name args;                                                                                  \
	int name args

static const char *lie(const char *name)
{
	const char *p = getenv("FAKE_NVML");
	size_t n = strlen(name);
	while (p && *p) {
		size_t len = strcspn(p, ";");
		if (len >= n && !strncmp(p, name, n) && (len == n || p[n] == ' ' || p[n] == '='))
			return p + n;
		p += len + (p[len] == ';');
	}
	return NULL;
}

static int begin(const char *call)
{
	char hang[80];
	snprintf(hang, sizeof hang, "hang %s", call);
	while (lie(hang))
		pause();
	return lie(call) ? atoi(lie(call) + 1) : 0;
}

static unsigned number(unsigned n)
{
	return lie("garbage") ? 4294967295U : n;
}

CALL(nvmlInit_v2, (void))
{
	return begin(__func__);
}

CALL(nvmlShutdown, (void))
{
	return begin(__func__);
}

CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device))
{
	static char gpu;
	int code = begin(__func__);
	*device = &gpu;
	return code ? code : strncmp(uuid, "GPU-00102030-4050-", 18) ? 6 : 0;
}

CALL(nvmlDeviceGetClockInfo, (void *device, int type, unsigned *mhz))
{
	(void)device;
	*mhz = number(type == 1 ? 1230 : 2619);
	return begin(__func__);
}

CALL(nvmlDeviceGetMaxClockInfo, (void *device, int type, unsigned *mhz))
{
	(void)device, (void)type;
	*mhz = number(1980);
	return begin(__func__);
}

CALL(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *c))
{
	(void)device, (void)sensor;
	*c = number(45);
	return begin(__func__);
}

CALL(nvmlDeviceGetPowerUsage, (void *device, unsigned *mw))
{
	(void)device;
	*mw = number(120500);
	return begin(__func__);
}

CALL(nvmlDeviceGetUtilizationRates, (void *device, unsigned *two))
{
	(void)device;
	two[0] = number(3);
	two[1] = number(1);
	return begin(__func__);
}

CALL(nvmlDeviceGetCurrentClocksThrottleReasons, (void *device, unsigned long long *bits))
{
	static int answers;
	(void)device;
	answers++;
	*bits = lie("garbage")                                      ? ~0ULL
		: lie("slowed")                                     ? strtoull(lie("slowed"), NULL, 10)
		: lie("flips") && answers <= atoi(lie("flips") + 1) ? (answers % 2 ? 0ULL : 0x40ULL)
								    : 1ULL;
	return begin(__func__);
}

/* ---- what hone must never call; the arguments do not matter ---- */

static int set(const char *call)
{
	const char *path = getenv("FAKE_NVML_SET");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (f) {
		fprintf(f, "%s\n", call);
		fclose(f);
	}
	return 0;
}

#define SETTERS(X)                                                                                           \
	X(nvmlDeviceSetApplicationsClocks)                                                                   \
	X(nvmlDeviceResetApplicationsClocks)                                                                 \
	X(nvmlDeviceSetGpuLockedClocks)                                                                      \
	X(nvmlDeviceResetGpuLockedClocks)                                                                    \
	X(nvmlDeviceSetMemoryLockedClocks)                                                                   \
	X(nvmlDeviceResetMemoryLockedClocks)                                                                 \
	X(nvmlDeviceSetPowerManagementLimit)                                                                 \
	X(nvmlDeviceSetPowerManagementLimit_v2)                                                              \
	X(nvmlDeviceSetPersistenceMode)                                                                      \
	X(nvmlDeviceSetComputeMode)                                                                          \
	X(nvmlDeviceSetAutoBoostedClocksEnabled)                                                             \
	X(nvmlDeviceSetDefaultAutoBoostedClocksEnabled)                                                      \
	X(nvmlDeviceSetAPIRestriction)                                                                       \
	X(nvmlDeviceSetGpuOperationMode)                                                                     \
	X(nvmlDeviceSetFanSpeed_v2)                                                                          \
	X(nvmlDeviceSetMemClkVfOffset)                                                                       \
	X(nvmlDeviceSetGpcClkVfOffset)                                                                       \
	X(nvmlDeviceSetClockOffsets)
#define SETTER(name)                                                                                         \
	CALL(name, (void))                                                                                   \
	{                                                                                                    \
		return set(__func__);                                                                        \
	}
SETTERS(SETTER)
