/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/opencl_api.h"
#include "platform/run/driver_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	int32_t code;
	const char *name;
} names[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-8, "CL_MEM_COPY_OVERLAP"},
    {-10, "CL_IMAGE_FORMAT_NOT_SUPPORTED"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-12, "CL_MAP_FAILURE"},
    {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-15, "CL_COMPILE_PROGRAM_FAILURE"},
    {-16, "CL_LINKER_NOT_AVAILABLE"},
    {-17, "CL_LINK_PROGRAM_FAILURE"},
    {-18, "CL_DEVICE_PARTITION_FAILED"},
    {-19, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"},
    {-30, "CL_INVALID_VALUE"},
    {-31, "CL_INVALID_DEVICE_TYPE"},
    {-32, "CL_INVALID_PLATFORM"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-35, "CL_INVALID_QUEUE_PROPERTIES"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-37, "CL_INVALID_HOST_PTR"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-39, "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR"},
    {-40, "CL_INVALID_IMAGE_SIZE"},
    {-42, "CL_INVALID_BINARY"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-44, "CL_INVALID_PROGRAM"},
    {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-47, "CL_INVALID_KERNEL_DEFINITION"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-53, "CL_INVALID_WORK_DIMENSION"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-56, "CL_INVALID_GLOBAL_OFFSET"},
    {-57, "CL_INVALID_EVENT_WAIT_LIST"},
    {-58, "CL_INVALID_EVENT"},
    {-59, "CL_INVALID_OPERATION"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-64, "CL_INVALID_PROPERTY"},
    {-65, "CL_INVALID_IMAGE_DESCRIPTOR"},
    {-66, "CL_INVALID_COMPILER_OPTIONS"},
    {-67, "CL_INVALID_LINKER_OPTIONS"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};

const char *opencl_code_name(int32_t code)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == code)
			return names[i].name;
	return "an unknown code";
}

/* Whether the device works, but not for this kernel. */
static bool is_refusal(int32_t code)
{
	return code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_WORK_GROUP_SIZE ||
	       code == CL_IMAGE_FORMAT_NOT_SUPPORTED || code == CL_INVALID_IMAGE_SIZE ||
	       code == CL_INVALID_IMAGE_DESCRIPTOR || code == CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
}

int opencl_fail(const char *call, int32_t code)
{
	int rc = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
			 code == CL_OUT_OF_HOST_MEMORY
		     ? E_NOMEM
		 : is_refusal(code) ? E_INFEASIBLE
				    : E_IO;
	return fail(rc, "%s: %s (%d)", call, opencl_code_name(code), (int)code);
}

bool opencl_lists(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

void opencl_info_clean(struct opencl_info *i)
{
	const struct {
		char *text;
		size_t room;
	} texts[] = {{i->platform, sizeof i->platform},     {i->name, sizeof i->name},
		     {i->vendor, sizeof i->vendor},         {i->version, sizeof i->version},
		     {i->c_version, sizeof i->c_version},   {i->driver, sizeof i->driver},
		     {i->extensions, sizeof i->extensions}, {i->kind, sizeof i->kind}};
	int64_t *const numbers[] = {&i->units,        &i->clock_mhz,   &i->group_items, &i->local_bytes,
				    &i->global_bytes, &i->alloc_bytes, &i->image_width, &i->image_height};
	bool *const flags[] = {&i->local_is_memory,   &i->unified,       &i->fp16,
			       &i->half_fma,          &i->fp64,          &i->fma,
			       &i->exact_divide,      &i->little_endian, &i->available,
			       &i->rounds_to_nearest, &i->compiles};
	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
		driver_text_clean(texts[k].text, texts[k].room);
	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		*numbers[k] = *numbers[k] < 0 ? 0 : *numbers[k];
	for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
		driver_flag_clean(flags[k]);
}

/* Adds a feature for each extension that emitters know, by its name ("+cl_khr_integer_dot_product"), if the
 * device lists it and has the version of OpenCL that its functions belong to. Arithmetic in f16 must round as
 * the IR says, and be done in hardware. Textures are images. */
static void add_features(const struct opencl_info *i, struct target *t)
{
	static const char head[] = "OpenCL ";
	long version =
	    strncmp(i->version, head, sizeof head - 1) ? 1 : strtol(i->version + sizeof head - 1, NULL, 10);
	const struct {
		const char *name;
		bool good;
	} known[] = {{"cl_khr_fp16", i->half_fma},
		     {"cl_khr_integer_dot_product", version >= 3},
		     {"cl_khr_subgroup_shuffle", version >= 3},
		     {"cl_intel_subgroups", true},
		     {"cl_arm_integer_dot_product_int8", true},
		     {"cl_arm_integer_dot_product_accumulate_int8", true}};
	size_t n = 0;
	if (i->image_width >= OPENCL_IMAGE_TEXELS && i->image_height >= OPENCL_IMAGE_TEXELS)
		n = (size_t)snprintf(t->features, sizeof t->features, "+textures");
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (known[k].good && opencl_lists(i->extensions, known[k].name))
			n += (size_t)snprintf(t->features + n, sizeof t->features - n, "%s+%s", n ? "," : "",
					      known[k].name);
}

/* Registers of a work item, each of a float, that a compiler uses before it spills or runs half as many items
 * at a time; OpenCL does not tell them. NVIDIA: 255; AMD: 256 vector registers; Intel: 128 of 32 bytes for 8
 * items; Mali and VideoCore: 64; Adreno: 48 of 4 floats, and few of its kernels use more than two thirds.
 * Some are left for addresses. */
static const struct {
	const char *vendor;
	int registers;
} vendors[] = {{"NVIDIA", 240}, {"Advanced Micro", 240}, {"AMD", 240},    {"Intel", 96},
	       {"ARM", 64},     {"QUALCOMM", 128},       {"Broadcom", 64}};

enum { ITEM_LANES = 4, USUAL_REGISTERS = 128 };

static int most_group(const struct opencl_info *i)
{
	int n = 1;
	while (n < TARGET_MOST_GROUP && 2 * n <= i->group_items)
		n *= 2;
	return n > 1 ? n : 0;
}

static int item_registers(const struct opencl_info *i)
{
	for (size_t v = 0; v < sizeof vendors / sizeof *vendors && strcmp(i->kind, "cpu") != 0; v++)
		if (strstr(i->vendor, vendors[v].vendor))
			return vendors[v].registers;
	return USUAL_REGISTERS;
}

/* The usual vectors have 4 lanes: 16 bytes are the widest access of most devices. The caches are not known:
 * what is listed here makes rules choose no blocks for caches. */
void opencl_target(const struct opencl_info *i, struct target *t)
{
	*t = (struct target){.isa = "opencl",
			     .cpu = "generic",
			     .lanes = ITEM_LANES,
			     .regs = item_registers(i) / ITEM_LANES,
			     .fma = i->fma,
			     .l1_bytes = 16 << 10,
			     .l2_bytes = 512 << 10,
			     .line_bytes = 64,
			     .cores = i->units < 1      ? 1
				      : i->units < 4096 ? (int)i->units
							: 4096,
			     .group = most_group(i),
			     .serial = !strcmp(i->kind, "cpu")};
	struct target host;
	if (target_host(&host) >= 0) /* the board's power mode is the device's, too */
		snprintf(t->mode, sizeof t->mode, "%s", host.mode);
	driver_text_word(t->soc, sizeof t->soc, i->name[0] ? i->name : "OpenCL");
	driver_text_word(t->rev, sizeof t->rev, i->driver);
	add_features(i, t);
}
