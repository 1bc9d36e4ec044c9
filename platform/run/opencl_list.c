/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the ICD loader and asks every device for its limits. */
#include "platform/run/opencl_api.h"
#include "platform/run/driver_text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_calls(struct opencl *o)
{
#define FIND(result, name, args)                                                                             \
	*(void **)&o->api.name = dlsym(o->library, #name);                                                   \
	if (!o->api.name)                                                                                    \
		return fail(E_UNSUPPORTED, "the OpenCL loader has no function " #name);
	OPENCL_CALLS(FIND)
#undef FIND
	return E_OK;
}

/* Adds the last error to the note, which has room for a few. */
static void left_out(struct opencl *o, const char *what, int number)
{
	size_t n = strlen(o->note);
	snprintf(o->note + n, sizeof o->note - n, "%s%s %d is left out: %.160s", n ? "; " : "", what, number,
		 err_text());
}

/* A text that the driver writes into a buffer of bounded size. */
typedef int32_t info_call(void *h, uint32_t what, size_t room, void *out, size_t *n);

static void get_text(info_call *call, void *h, uint32_t what, char *out, size_t room)
{
	enum { MOST = 64 << 10 };
	size_t n = 0;
	char *text = calloc(1, MOST + 1);
	*out = 0;
	if (text && call(h, what, MOST, text, &n) == CL_SUCCESS)
		driver_text_copy(out, room, text, n < MOST ? n : MOST);
	free(text);
}

/* A number of 4 or 8 bytes; 0 if the driver does not tell it, or in another size. */
static int64_t get_number(const struct opencl *o, void *d, uint32_t what, size_t bytes)
{
	uint64_t v[4] = {0}; /* more than is asked for, if a driver writes more than the room it is given */
	uint32_t small;
	size_t n = 0;
	if (o->api.clGetDeviceInfo(d, what, bytes, v, &n) != CL_SUCCESS || n != bytes)
		return 0;
	memcpy(&small, v, sizeof small);
	uint64_t r = bytes == 4 ? small : v[0];
	return r > INT64_MAX ? INT64_MAX : (int64_t)r;
}

static const char *kind_name(int64_t type)
{
	return type & CL_DEVICE_TYPE_GPU           ? "gpu"
	       : type & CL_DEVICE_TYPE_CPU         ? "cpu"
	       : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
						   : "other";
}

static void get_texts(struct opencl *o, void *platform, void *d, struct opencl_info *i)
{
	info_call *call = o->api.clGetDeviceInfo;
	get_text(o->api.clGetPlatformInfo, platform, CL_PLATFORM_NAME, i->platform, sizeof i->platform);
	get_text(call, d, CL_DEVICE_NAME, i->name, sizeof i->name);
	get_text(call, d, CL_DEVICE_VENDOR, i->vendor, sizeof i->vendor);
	get_text(call, d, CL_DEVICE_VERSION, i->version, sizeof i->version);
	get_text(call, d, CL_DEVICE_OPENCL_C_VERSION, i->c_version, sizeof i->c_version);
	get_text(call, d, CL_DRIVER_VERSION, i->driver, sizeof i->driver);
	get_text(call, d, CL_DEVICE_EXTENSIONS, i->extensions, sizeof i->extensions);
}

static void get_info(struct opencl *o, void *platform, void *d, struct opencl_info *i)
{
	const int64_t half_needs = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA;
	int64_t floats = get_number(o, d, CL_DEVICE_SINGLE_FP_CONFIG, 8);
	get_texts(o, platform, d, i);
	strcpy(i->kind, kind_name(get_number(o, d, CL_DEVICE_TYPE, 8)));
	i->units = get_number(o, d, CL_DEVICE_MAX_COMPUTE_UNITS, 4);
	i->clock_mhz = get_number(o, d, CL_DEVICE_MAX_CLOCK_FREQUENCY, 4);
	i->group_items = get_number(o, d, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
	i->local_bytes = get_number(o, d, CL_DEVICE_LOCAL_MEM_SIZE, 8);
	i->global_bytes = get_number(o, d, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
	i->alloc_bytes = get_number(o, d, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
	if (get_number(o, d, CL_DEVICE_IMAGE_SUPPORT, 4)) {
		i->image_width = get_number(o, d, CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof(size_t));
		i->image_height = get_number(o, d, CL_DEVICE_IMAGE2D_MAX_HEIGHT, sizeof(size_t));
	}
	i->local_is_memory = get_number(o, d, CL_DEVICE_LOCAL_MEM_TYPE, 4) == CL_GLOBAL_MEM;
	i->unified = get_number(o, d, CL_DEVICE_HOST_UNIFIED_MEMORY, 4) != 0;
	i->fp16 = opencl_lists(i->extensions, "cl_khr_fp16");
	i->half_fma = i->fp16 && (get_number(o, d, CL_DEVICE_HALF_FP_CONFIG, 8) & half_needs) == half_needs;
	i->fp64 = opencl_lists(i->extensions, "cl_khr_fp64");
	i->fma = floats & CL_FP_FMA;
	i->exact_divide = floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
	i->rounds_to_nearest = floats & CL_FP_ROUND_TO_NEAREST;
	i->little_endian = get_number(o, d, CL_DEVICE_ENDIAN_LITTLE, 4) != 0;
	i->available = get_number(o, d, CL_DEVICE_AVAILABLE, 4) != 0;
	i->compiles = get_number(o, d, CL_DEVICE_COMPILER_AVAILABLE, 4) != 0;
}

static int list_devices(struct opencl *o, void *platform)
{
	void *id[OPENCL_MAX_DEVICES] = {NULL};
	uint32_t n = 0;
	int32_t code = o->api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, OPENCL_MAX_DEVICES, id, &n);
	if (code == CL_DEVICE_NOT_FOUND)
		return E_OK;
	if (code != CL_SUCCESS)
		return opencl_fail("clGetDeviceIDs", code);
	for (uint32_t i = 0; i < n && i < OPENCL_MAX_DEVICES && o->ndevices < OPENCL_MAX_DEVICES; i++) {
		if (!id[i])
			return fail(E_CORRUPT, "clGetDeviceIDs: device %u of %u is NULL", (unsigned)i,
				    (unsigned)n);
		int at = o->ndevices++;
		o->device[at].platform = platform;
		o->device[at].id = id[i];
		get_info(o, platform, id[i], &o->device[at].info);
	}
	return E_OK;
}

static int list_platforms(struct opencl *o)
{
	void *id[OPENCL_MAX_PLATFORMS] = {NULL};
	uint32_t n = 0;
	int32_t code = o->api.clGetPlatformIDs(OPENCL_MAX_PLATFORMS, id, &n);
	if (code == CL_PLATFORM_NOT_FOUND_KHR)
		return E_OK;
	if (code != CL_SUCCESS)
		return opencl_fail("clGetPlatformIDs", code);
	for (uint32_t i = 0; i < n && i < OPENCL_MAX_PLATFORMS; i++) {
		int rc = id[i] ? list_devices(o, id[i])
			       : fail(E_CORRUPT, "clGetPlatformIDs: it is NULL, one of %u", (unsigned)n);
		if (rc < 0)
			left_out(o, "platform", (int)i);
		if (!id[i])
			break;
	}
	return E_OK;
}

int opencl_open(const char *library, struct opencl **out)
{
	struct opencl *o = calloc(1, sizeof *o);
	if (!o)
		return fail(E_NOMEM, "no memory for the list of OpenCL devices");
	int rc = E_OK;
	o->library = dlopen(library ? library : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!o->library)
		rc = fail(E_NOTFOUND, "no OpenCL loader: %s", dlerror());
	if (rc >= 0)
		rc = find_calls(o);
	if (rc >= 0)
		rc = list_platforms(o);
	if (rc < 0)
		opencl_close(o);
	else
		*out = o;
	return rc;
}

/* The library stays open: drivers leave threads and exit handlers behind. */
void opencl_close(struct opencl *o)
{
	free(o);
}

int opencl_count(const struct opencl *o)
{
	return o->ndevices;
}

const struct opencl_info *opencl_info(const struct opencl *o, int device)
{
	return &o->device[device].info;
}

const char *opencl_note(const struct opencl *o)
{
	return o->note;
}

int opencl_usable(const struct opencl_info *i)
{
	const char *why = !i->available           ? "it is not available"
			  : !i->compiles          ? "it has no compiler"
			  : !i->little_endian     ? "it is big-endian"
			  : !i->rounds_to_nearest ? "it does not round to nearest"
			  : i->group_items < 1    ? "it tells no size of work groups"
						  : NULL;
	return why ? fail(E_UNSUPPORTED, "OpenCL device %s cannot run kernels: %s", i->name, why) : E_OK;
}
