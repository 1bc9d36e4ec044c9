/* SPDX-License-Identifier: Apache-2.0 */
/* The part of OpenCL 1.2's C interface that is used, declared here so that no header package is needed
 * (Khronos, The OpenCL Specification 1.2, and cl.h for the numbers). */
#ifndef PLATFORM_OPENCL_API_H
#define PLATFORM_OPENCL_API_H

#include "platform/base/hash.h"
#include "platform/run/opencl.h"

/* A handle (of a platform, device, context, queue, buffer, program, kernel or event) is a void pointer. */

enum {
	CL_SUCCESS = 0,
	CL_DEVICE_NOT_FOUND = -1,
	CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
	CL_OUT_OF_RESOURCES = -5,
	CL_OUT_OF_HOST_MEMORY = -6,
	CL_IMAGE_FORMAT_NOT_SUPPORTED = -10,
	CL_BUILD_PROGRAM_FAILURE = -11,
	CL_INVALID_VALUE = -30,
	CL_INVALID_IMAGE_FORMAT_DESCRIPTOR = -39,
	CL_INVALID_IMAGE_SIZE = -40,
	CL_INVALID_KERNEL_NAME = -46,
	CL_INVALID_WORK_GROUP_SIZE = -54,
	CL_INVALID_IMAGE_DESCRIPTOR = -65,
	CL_PLATFORM_NOT_FOUND_KHR = -1001
};
enum {
	CL_PLATFORM_NAME = 0x0902,
	CL_DEVICE_TYPE = 0x1000,
	CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
	CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
	CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C,
	CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
	CL_DEVICE_IMAGE2D_MAX_WIDTH = 0x1011,
	CL_DEVICE_IMAGE2D_MAX_HEIGHT = 0x1012,
	CL_DEVICE_IMAGE_SUPPORT = 0x1016,
	CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
	CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
	CL_DEVICE_LOCAL_MEM_TYPE = 0x1022,
	CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
	CL_DEVICE_ENDIAN_LITTLE = 0x1026,
	CL_DEVICE_AVAILABLE = 0x1027,
	CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
	CL_DEVICE_NAME = 0x102B,
	CL_DEVICE_VENDOR = 0x102C,
	CL_DRIVER_VERSION = 0x102D,
	CL_DEVICE_VERSION = 0x102F,
	CL_DEVICE_EXTENSIONS = 0x1030,
	CL_DEVICE_HALF_FP_CONFIG = 0x1033,
	CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
	CL_DEVICE_OPENCL_C_VERSION = 0x103D,
	CL_CONTEXT_PLATFORM = 0x1084,
	CL_PROGRAM_BINARY_SIZES = 0x1165,
	CL_PROGRAM_BINARIES = 0x1166,
	CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
	CL_KERNEL_COMPILE_WORK_GROUP_SIZE = 0x11B1,
	CL_PROGRAM_BUILD_LOG = 0x1183,
	CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3
};
enum { CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_GPU = 4, CL_DEVICE_TYPE_ACCELERATOR = 8 };
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)
enum {
	CL_FP_INF_NAN = 2,
	CL_FP_ROUND_TO_NEAREST = 4,
	CL_FP_FMA = 32,
	CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 128
};
enum { CL_LOCAL_MEM = 1, CL_GLOBAL_MEM = 2 };
enum {
	CL_MEM_READ_WRITE = 1,
	CL_MEM_READ_ONLY = 4,
	CL_MEM_ALLOC_HOST_PTR = 16,
	CL_MAP_READ = 1,
	CL_MAP_WRITE = 2
};
enum { CL_RGBA = 0x10B5, CL_HALF_FLOAT = 0x10DD, CL_FLOAT = 0x10DE, CL_MEM_OBJECT_IMAGE2D = 0x10F1 };

struct opencl_format {
	uint32_t order, type;
};

struct opencl_shape { /* cl_image_desc */
	uint32_t type;
	size_t width, height, depth, layers, row_bytes, layer_bytes;
	uint32_t levels, samples;
	void *buffer;
};

/* X(result, name, arguments): the functions that are looked up in the loader. */
#define OPENCL_CALLS(X)                                                                                      \
	X(int32_t, clGetPlatformIDs, (uint32_t room, void **out, uint32_t *n))                               \
	X(int32_t, clGetPlatformInfo, (void *p, uint32_t what, size_t room, void *out, size_t *n))           \
	X(int32_t, clGetDeviceIDs, (void *p, uint64_t type, uint32_t room, void **out, uint32_t *n))         \
	X(int32_t, clGetDeviceInfo, (void *d, uint32_t what, size_t room, void *out, size_t *n))             \
	X(void *, clCreateContext,                                                                           \
	  (const intptr_t *properties, uint32_t n, void *const *devices,                                     \
	   void (*notify)(const char *, const void *, size_t, void *), void *ctx, int32_t *code))            \
	X(int32_t, clReleaseContext, (void *c))                                                              \
	X(void *, clCreateCommandQueue, (void *c, void *d, uint64_t properties, int32_t *code))              \
	X(int32_t, clReleaseCommandQueue, (void *q))                                                         \
	X(void *, clCreateBuffer, (void *c, uint64_t flags, size_t bytes, void *host, int32_t *code))        \
	X(void *, clCreateImage,                                                                             \
	  (void *c, uint64_t flags, const struct opencl_format *f, const struct opencl_shape *s, void *host, \
	   int32_t *code))                                                                                   \
	X(int32_t, clEnqueueWriteImage,                                                                      \
	  (void *q, void *m, uint32_t blocking, const size_t at[3], const size_t size[3], size_t row_bytes,  \
	   size_t layer_bytes, const void *from, uint32_t n, void *const *after, void **event))              \
	X(int32_t, clReleaseMemObject, (void *m))                                                            \
	X(void *, clEnqueueMapBuffer,                                                                        \
	  (void *q, void *m, uint32_t blocking, uint64_t flags, size_t at, size_t bytes, uint32_t n,         \
	   void *const *after, void **event, int32_t *code))                                                 \
	X(int32_t, clEnqueueUnmapMemObject,                                                                  \
	  (void *q, void *m, void *p, uint32_t n, void *const *after, void **event))                         \
	X(int32_t, clEnqueueReadBuffer,                                                                      \
	  (void *q, void *m, uint32_t blocking, size_t at, size_t bytes, void *to, uint32_t n,               \
	   void *const *after, void **event))                                                                \
	X(int32_t, clEnqueueWriteBuffer,                                                                     \
	  (void *q, void *m, uint32_t blocking, size_t at, size_t bytes, const void *from, uint32_t n,       \
	   void *const *after, void **event))                                                                \
	X(int32_t, clEnqueueMarkerWithWaitList, (void *q, uint32_t n, void *const *after, void **event))     \
	X(int32_t, clGetEventInfo, (void *e, uint32_t what, size_t room, void *out, size_t *n))              \
	X(int32_t, clFlush, (void *q))                                                                       \
	X(int32_t, clFinish, (void *q))                                                                      \
	X(void *, clCreateProgramWithSource,                                                                 \
	  (void *c, uint32_t n, const char **text, const size_t *lengths, int32_t *code))                    \
	X(void *, clCreateProgramWithBinary,                                                                 \
	  (void *c, uint32_t n, void *const *devices, const size_t *lengths, const unsigned char **binaries, \
	   int32_t *status, int32_t *code))                                                                  \
	X(int32_t, clGetProgramInfo, (void *p, uint32_t what, size_t room, void *out, size_t *n))            \
	X(int32_t, clBuildProgram,                                                                           \
	  (void *p, uint32_t n, void *const *devices, const char *options, void (*notify)(void *, void *),   \
	   void *ctx))                                                                                       \
	X(int32_t, clGetProgramBuildInfo,                                                                    \
	  (void *p, void *d, uint32_t what, size_t room, void *out, size_t *n))                              \
	X(int32_t, clReleaseProgram, (void *p))                                                              \
	X(void *, clCreateKernel, (void *p, const char *name, int32_t *code))                                \
	X(int32_t, clReleaseKernel, (void *k))                                                               \
	X(int32_t, clGetKernelWorkGroupInfo,                                                                 \
	  (void *k, void *d, uint32_t what, size_t room, void *out, size_t *n))                              \
	X(int32_t, clSetKernelArg, (void *k, uint32_t i, size_t bytes, const void *value))                   \
	X(int32_t, clEnqueueNDRangeKernel,                                                                   \
	  (void *q, void *k, uint32_t dims, const size_t *offset, const size_t *global, const size_t *local, \
	   uint32_t n, void *const *after, void **event))                                                    \
	X(int32_t, clReleaseEvent, (void *e))

struct opencl_api {
#define OPENCL_FIELD(result, name, args) result(*name) args;
	OPENCL_CALLS(OPENCL_FIELD)
#undef OPENCL_FIELD
};

struct opencl {
	void *library;
	struct opencl_api api;
	int ndevices;
	struct {
		void *platform, *id;
		struct opencl_info info;
	} device[OPENCL_MAX_DEVICES];
	char note[512];
};

struct opencl_dev {
	const struct opencl_api *api;
	const struct opencl_info *info;
	void *id, *context, *queue;
	bool lost; /* it hangs, and so may every call */
};

struct opencl_code {
	struct opencl_dev *dev;
	void *program;
	struct key key; /* of the object on this device: what its binary is for */
	int nentries;
	struct {
		char name[32];
		void *kernel; /* keeps the name known to exist; a job makes its own */
	} entry[OPENCL_MAX_ENTRIES];
};

/* The error of every call on a device that hangs. */
int opencl_lost(void);
/* A handle that a call made: NULL is an error whatever the code says. */
int opencl_made(const char *call, const void *handle, int32_t code);
/* The name of an error code, "an unknown code" if it has none here. */
const char *opencl_code_name(int32_t code);
/* The error of a call: its text, and the code that opencl.h says. */
int opencl_fail(const char *call, int32_t code);
/* Whether a word is in a list of words with a space between. */
bool opencl_lists(const char *list, const char *word);

#endif
