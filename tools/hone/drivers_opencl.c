/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "platform/run/opencl.h"
#include "tools/hone/drivers_parts.h"

#define DRIVER "the OpenCL driver of your GPU (for a processor: apt-get install pocl-opencl-icd)"

static int list_open(void **list)
{
	struct opencl *o = NULL;
	int rc = opencl_open(NULL, &o);
	*list = o;
	return rc;
}

static int list_count(const void *list)
{
	return opencl_count(list);
}

static const void *list_info(const void *list, int device)
{
	return opencl_info(list, device);
}

static const char *list_note(const void *list)
{
	return opencl_note(list);
}

static void clean(void *info)
{
	opencl_info_clean(info);
}

static int usable(const void *info)
{
	return opencl_usable(info);
}

static void target(const void *info, struct target *t)
{
	opencl_target(info, t);
}

static json_t *device_json(const void *info)
{
	const struct opencl_info *i = info;
	json_t *j = json_pack("{so so so so so so so so}", "name", json_text(i->name), "platform",
			      json_text(i->platform), "vendor", json_text(i->vendor), "opencl_version",
			      json_text(i->version), "c_version", json_text(i->c_version), "driver",
			      json_text(i->driver), "extensions", json_text(i->extensions), "device_kind",
			      json_text(i->kind));
	json_t *limits = json_pack(
	    "{sI sI sI sI sI sI sb sb sb sb sb sb}", "units", (json_int_t)i->units, "clock_mhz",
	    (json_int_t)i->clock_mhz, "group_items", (json_int_t)i->group_items, "local_bytes",
	    (json_int_t)i->local_bytes, "global_bytes", (json_int_t)i->global_bytes, "buffer_bytes",
	    (json_int_t)i->alloc_bytes, "local_is_memory", i->local_is_memory, "unified", i->unified, "fp16",
	    i->fp16, "fp64", i->fp64, "fma", i->fma, "exact_divide", i->exact_divide);
	json_object_update(j, limits);
	json_decref(limits);
	return j;
}

static void print(const void *info, const char *lead, int indent)
{
	const struct opencl_info *i = info;
	drivers_say(lead, indent, "%s, %s, %s, %lld unit%s at %lld MHz, groups of up to %lld", i->name,
		    i->kind, i->version, (long long)i->units, plural_s(i->units), (long long)i->clock_mhz,
		    (long long)i->group_items);
	drivers_say("", 2, "memory: %lld MiB%s, buffers of up to %lld MiB, %lld KiB local%s",
		    (long long)i->global_bytes >> 20, i->unified ? " shared with the processor" : "",
		    (long long)i->alloc_bytes >> 20, (long long)i->local_bytes >> 10,
		    i->local_is_memory ? " (in memory)" : "");
	drivers_say("", 2, "platform %s, driver %s%s%s%s%s%s", i->platform, i->driver,
		    i->fp16 || i->fp64 || i->fma || i->exact_divide ? ";" : "", i->fp16 ? " fp16" : "",
		    i->fp64 ? " fp64" : "", i->fma ? " fma" : "", i->exact_divide ? " exact division" : "");
}

const struct driver driver_opencl = {
    .name = "opencl",
    .says = "an OpenCL driver",
    .no_library = "no OpenCL loader: apt-get install ocl-icd-libopencl1, and install " DRIVER,
    .no_device = "install " DRIVER,
    .most = OPENCL_MAX_DEVICES,
    .bytes = sizeof(struct opencl_info),
    .open = list_open,
    .count = list_count,
    .info = list_info,
    .note = list_note,
    .clean = clean,
    .usable = usable,
    .target = target,
    .json = device_json,
    .print = print,
};
