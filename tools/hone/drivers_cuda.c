/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "platform/run/cuda.h"
#include "tools/hone/drivers_parts.h"

#define DRIVER "NVIDIA's driver, with libcuda.so.1 (a Jetson has it by JetPack: nvidia-l4t-cuda)"

static int list_open(void **list)
{
	struct cuda *c = NULL;
	int rc = cuda_open(NULL, &c);
	*list = c;
	return rc;
}

static int list_count(const void *list)
{
	return cuda_count(list);
}

static const void *list_info(const void *list, int device)
{
	return cuda_info(list, device);
}

static const char *list_note(const void *list)
{
	return cuda_note(list);
}

static void state(const void *list, int device, struct gpu_state *out)
{
	const struct cuda_info *i = cuda_info(list, device);
	struct gpu_watch *w;
	if (gpu_watch_open(i->uuid, cuda_shares(i), NULL, NULL, &w) < 0)
		return;
	gpu_watch_read(w, out);
	gpu_watch_close(w);
}

static void clean(void *info)
{
	cuda_info_clean(info);
}

static int usable(const void *info)
{
	return cuda_usable(info);
}

static void target(const void *info, struct target *t)
{
	cuda_target(info, t);
}

static json_t *device_json(const void *info)
{
	const struct cuda_info *i = info;
	json_t *j = json_pack("{so so ss sI sI sI sI sI sI}", "name", json_text(i->name), "uuid",
			      json_text(i->uuid), "device_kind", "gpu", "cuda_version", (json_int_t)i->driver,
			      "capability", (json_int_t)i->capability, "units", (json_int_t)i->units,
			      "clock_mhz", (json_int_t)i->clock_mhz, "memory_mhz", (json_int_t)i->memory_mhz,
			      "bus_bits", (json_int_t)i->bus_bits);
	json_t *limits =
	    json_pack("{sI sI sI sI sI sI sb sb sb sb}", "group_items", (json_int_t)i->group_items, "grid",
		      (json_int_t)i->grid, "group_registers", (json_int_t)i->registers, "shared_bytes",
		      (json_int_t)i->shared_bytes, "l2_bytes", (json_int_t)i->l2_bytes, "global_bytes",
		      (json_int_t)i->global_bytes, "unified", cuda_shares(i), "managed", i->managed,
		      "pageable", i->pageable, "watchdog", i->watchdog);
	json_object_update(j, limits);
	json_decref(limits);
	return j;
}

static void print(const void *info, const char *lead, int indent)
{
	const struct cuda_info *i = info;
	drivers_say(lead, indent,
		    "%s, gpu, compute capability %d.%d, %lld unit%s at %lld MHz, groups of up to %lld",
		    i->name, (int)(i->capability / 10), (int)(i->capability % 10), (long long)i->units,
		    plural_s(i->units), (long long)i->clock_mhz, (long long)i->group_items);
	drivers_say("", 2, "memory: %lld MiB%s, %lld KiB of it cached, %lld KiB shared by a group",
		    (long long)i->global_bytes >> 20, cuda_shares(i) ? " shared with the processor" : "",
		    (long long)i->l2_bytes >> 10, (long long)i->shared_bytes >> 10);
	drivers_say("", 2, "driver of CUDA %lld.%d%s", (long long)i->driver / 1000,
		    (int)(i->driver % 1000 / 10),
		    i->watchdog ? "; a display uses it: kernels of seconds are ended" : "");
}

const struct driver driver_cuda = {
    .name = "cuda",
    .says = "the CUDA driver",
    .no_library = "no CUDA driver: a GPU of NVIDIA needs " DRIVER,
    .no_device = "the driver finds no GPU that this user may open; hone doctor says more",
    .most = CUDA_MAX_DEVICES,
    .bytes = sizeof(struct cuda_info),
    .open = list_open,
    .count = list_count,
    .info = list_info,
    .note = list_note,
    .state = state,
    .clean = clean,
    .usable = usable,
    .target = target,
    .json = device_json,
    .print = print,
};
