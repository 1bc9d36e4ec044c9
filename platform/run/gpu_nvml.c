/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library (NVML API reference; nvml.h for the numbers), declared here so that no toolkit
 * is needed. Only functions that read are looked up. */
#include "platform/run/gpu_parts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };
enum { /* reasons for the clock */
       SW_POWER_CAP = 4,
       HW_SLOWDOWN = 8,
       SW_THERMAL = 0x20,
       HW_THERMAL = 0x40,
       HW_POWER_BRAKE = 0x80
};

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml {
	void *library, *device;
	int (*init)(void);
	int (*shutdown)(void);
	int (*by_uuid)(const char *uuid, void **device);
	/* These may be missing. */
	int (*clock)(void *device, int type, unsigned *mhz);
	int (*most)(void *device, int type, unsigned *mhz);
	int (*temperature)(void *device, int sensor, unsigned *c);
	int (*power)(void *device, unsigned *mw);
	int (*load)(void *device, struct nvml_utilization *u);
	int (*reasons)(void *device, unsigned long long *bits);
};

static void find_calls(struct nvml *n)
{
#define FIND(field, name) *(void **)&n->field = dlsym(n->library, name)
	FIND(init, "nvmlInit_v2");
	FIND(shutdown, "nvmlShutdown");
	FIND(by_uuid, "nvmlDeviceGetHandleByUUID");
	FIND(clock, "nvmlDeviceGetClockInfo");
	FIND(most, "nvmlDeviceGetMaxClockInfo");
	FIND(temperature, "nvmlDeviceGetTemperature");
	FIND(power, "nvmlDeviceGetPowerUsage");
	FIND(load, "nvmlDeviceGetUtilizationRates");
	FIND(reasons, "nvmlDeviceGetCurrentClocksEventReasons");
	if (!n->reasons) /* the name before driver 535 */
		FIND(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
#undef FIND
}

int nvml_open(const char *library, const char *uuid, struct nvml **out)
{
	char name[64];
	struct nvml *n = calloc(1, sizeof *n);
	if (!n)
		return fail(E_NOMEM, "no memory for NVML");
	n->library = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		free(n);
		return fail(E_NOTFOUND, "there is no libnvidia-ml.so.1");
	}
	find_calls(n);
	int code = n->init && n->shutdown && n->by_uuid ? n->init() : -1;
	if (code != 0) {
		free(n); /* the library stays, because it may have started threads */
		return fail(E_NOTFOUND, "libnvidia-ml.so.1 does not start (%d)", code);
	}
	snprintf(name, sizeof name, "GPU-%.40s", uuid);
	code = n->by_uuid(name, &n->device);
	if (code == 0 && n->device) {
		*out = n;
		return E_OK;
	}
	nvml_close(n);
	return fail(E_NOTFOUND, "libnvidia-ml.so.1 does not know this GPU (%d)", code);
}

static int64_t clock_of(int (*get)(void *device, int type, unsigned *mhz), void *device, int type)
{
	unsigned v = 0;
	return get && get(device, type, &v) == 0 ? (int64_t)v : -1;
}

static unsigned slowed_by(unsigned long long bits)
{
	return (bits & SW_POWER_CAP ? GPU_SLOWED_POWER : 0) |
	       (bits & (SW_THERMAL | HW_THERMAL) ? GPU_SLOWED_HEAT : 0) |
	       (bits & HW_SLOWDOWN ? GPU_SLOWED_HARDWARE : 0) |
	       (bits & HW_POWER_BRAKE ? GPU_SLOWED_BRAKE : 0);
}

void nvml_read(const struct nvml *n, struct gpu_state *out)
{
	unsigned v = 0;
	unsigned long long bits = 0;
	struct nvml_utilization u = {0, 0};
	*out = GPU_STATE_NONE;
	out->clock_mhz = clock_of(n->clock, n->device, NVML_CLOCK_SM);
	out->clock_most_mhz = clock_of(n->most, n->device, NVML_CLOCK_SM);
	out->memory_mhz = clock_of(n->clock, n->device, NVML_CLOCK_MEM);
	if (n->temperature && n->temperature(n->device, NVML_TEMPERATURE_GPU, &v) == 0)
		out->temp_mc = (int64_t)(int)v * 1000;
	if (n->power && n->power(n->device, &v) == 0)
		out->power_mw = v;
	if (n->load && n->load(n->device, &u) == 0)
		out->load_pct = u.gpu <= 100 ? (int)u.gpu : -1;
	if (n->reasons && n->reasons(n->device, &bits) == 0) {
		out->slowed = slowed_by(bits);
		out->events = 0;
	}
}

/* The library stays, because it may have started threads. */
void nvml_close(struct nvml *n)
{
	if (n)
		(void)n->shutdown();
	free(n);
}
