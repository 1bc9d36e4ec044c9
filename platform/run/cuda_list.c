/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the driver and asks every device for its limits. */
#include "platform/run/cuda_api.h"
#include "platform/run/driver_text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver may have a call under the name of its second version alone; both are called alike here. */
static void *find_call(void *library, const char *name)
{
	char second[64];
	void *call = dlsym(library, name);
	snprintf(second, sizeof second, "%s_v2", name);
	return call ? call : dlsym(library, second);
}

static int find_calls(struct cuda *c)
{
#define FIND(name, args)                                                                                     \
	*(void **)&c->api.name = find_call(c->library, #name);                                               \
	if (!c->api.name)                                                                                    \
		return fail(E_UNSUPPORTED, "libcuda.so.1 has no function " #name                             \
					   ": it is too old, or not NVIDIA's driver");
	CUDA_CALLS(FIND)
#undef FIND
#define FIND(name, args) *(void **)&c->api.name = dlsym(c->library, #name);
	CUDA_GRAPH_CALLS(FIND)
#undef FIND
	return E_OK;
}

/* Adds the last error to the note, which has room for a few. */
static void left_out(struct cuda *c, int number)
{
	size_t n = strlen(c->note);
	snprintf(c->note + n, sizeof c->note - n, "%sdevice %d is left out: %.160s", n ? "; " : "", number,
		 err_text());
}

/* 0: the driver does not tell. */
static int64_t get_number(const struct cuda *c, int id, int what)
{
	int v = 0;
	int code = c->api.cuDeviceGetAttribute(&v, what, id);
	return code == CUDA_SUCCESS && v > 0 ? v : 0;
}

static void get_name(const struct cuda *c, int id, struct cuda_info *i)
{
	char text[256] = "";
	unsigned char u[16] = {0};
	if (c->api.cuDeviceGetName(text, sizeof text - 1, id) == CUDA_SUCCESS)
		driver_text_copy(i->name, sizeof i->name, text, sizeof text - 1);
	if (c->api.cuDeviceGetUuid(u, id) == CUDA_SUCCESS)
		snprintf(i->uuid, sizeof i->uuid,
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
			 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
			 u[15]);
}

/* 10 * major + minor; 0: not known. */
static int64_t get_capability(const struct cuda *c, int id)
{
	int64_t major = get_number(c, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		minor = get_number(c, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return major > 0 && major < 1000 && minor < 10 ? 10 * major + minor : 0;
}

static void get_info(const struct cuda *c, int id, int version, struct cuda_info *i)
{
	size_t bytes = 0;
	memset(i, 0, sizeof *i);
	get_name(c, id, i);
	if (c->api.cuDeviceTotalMem_v2(&bytes, id) == CUDA_SUCCESS)
		i->global_bytes = (int64_t)(bytes < SIZE_MAX / 2 ? bytes : SIZE_MAX / 2);
	i->driver = version;
	i->capability = get_capability(c, id);
	i->units = get_number(c, id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	i->clock_mhz = get_number(c, id, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
	i->memory_mhz = get_number(c, id, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) / 1000;
	i->bus_bits = get_number(c, id, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
	i->group_items = get_number(c, id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	i->grid = get_number(c, id, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
	i->registers = get_number(c, id, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
	i->shared_bytes = get_number(c, id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	i->shared_most = get_number(c, id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
	i->l2_bytes = get_number(c, id, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
	i->integrated = get_number(c, id, CU_DEVICE_ATTRIBUTE_INTEGRATED) > 0;
	i->maps_host = get_number(c, id, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) > 0;
	i->managed = get_number(c, id, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) > 0;
	i->pageable = get_number(c, id, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) > 0;
	i->watchdog = get_number(c, id, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) > 0;
	i->prohibited = get_number(c, id, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED;
}

static int list_devices(struct cuda *c)
{
	int n = 0, version = 0;
	int code = c->api.cuDriverGetVersion(&version);
	if (code != CUDA_SUCCESS)
		return cuda_fail("cuDriverGetVersion", code);
	code = c->api.cuDeviceGetCount(&n);
	if (code != CUDA_SUCCESS && code != CUDA_ERROR_NO_DEVICE)
		return cuda_fail("cuDeviceGetCount", code);
	for (int i = 0; i < n && i < CUDA_MAX_DEVICES; i++) {
		int id = 0;
		code = c->api.cuDeviceGet(&id, i);
		if (code != CUDA_SUCCESS) {
			(void)cuda_fail("cuDeviceGet", code);
			left_out(c, i);
			break; /* the numbers of those that follow would change */
		}
		c->device[i].id = id;
		get_info(c, id, version > 0 ? version : 0, &c->device[i].info);
		c->ndevices = i + 1;
	}
	return E_OK;
}

static int init(struct cuda *c)
{
	int code = c->api.cuInit(0);
	if (code == CUDA_SUCCESS)
		return list_devices(c);
	int rc = code == CUDA_ERROR_NO_DEVICE ? E_OK : cuda_fail("cuInit", code);
	return rc < 0 ? fail_in(rc, "the CUDA driver does not start") : rc;
}

int cuda_open(const char *library, struct cuda **out)
{
	struct cuda *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory for the list of CUDA devices");
	int rc = E_OK;
	c->library = dlopen(library ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		rc = fail(E_NOTFOUND, "no CUDA driver: %s", dlerror());
	if (rc >= 0)
		rc = find_calls(c);
	if (rc >= 0)
		rc = init(c);
	if (rc < 0)
		cuda_close(c);
	else
		*out = c;
	return rc;
}

/* The library stays open: the driver leaves threads and exit handlers behind. */
void cuda_close(struct cuda *c)
{
	free(c);
}

int cuda_count(const struct cuda *c)
{
	return c->ndevices;
}

const struct cuda_info *cuda_info(const struct cuda *c, int device)
{
	return &c->device[device].info;
}

const char *cuda_note(const struct cuda *c)
{
	return c->note;
}
