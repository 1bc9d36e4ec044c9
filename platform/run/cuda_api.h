/* SPDX-License-Identifier: Apache-2.0 */
/* The part of CUDA's driver API that is used, declared here so that no toolkit is needed (NVIDIA, CUDA Driver
 * API, and cuda.h for the numbers). Drivers from CUDA 10.2 on have all of CUDA_CALLS, and what graphs need of
 * CUDA_GRAPH_CALLS. */
#ifndef PLATFORM_CUDA_API_H
#define PLATFORM_CUDA_API_H

#include "platform/base/hash.h"
#include "platform/run/cuda.h"

/* A handle (of a context, stream, module, function or link) is a void pointer, a device is its number, an
 * address of a device's memory a uint64_t. */

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_UNKNOWN = 999
};
enum {
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
	CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
	CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
	CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
	CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
	CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};
enum { CU_COMPUTEMODE_PROHIBITED = 2, CU_STREAM_NON_BLOCKING = 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2 };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, CU_JIT_INPUT_PTX = 1 };
enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
	CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

/* X(name, arguments): the functions that are looked up in the driver; each returns an error code. */
#define CUDA_CALLS(X)                                                                                        \
	X(cuInit, (unsigned flags))                                                                          \
	X(cuDriverGetVersion, (int *version))                                                                \
	X(cuDeviceGetCount, (int *n))                                                                        \
	X(cuDeviceGet, (int *device, int number))                                                            \
	X(cuDeviceGetName, (char *out, int room, int device))                                                \
	X(cuDeviceGetUuid, (unsigned char out[16], int device))                                              \
	X(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                                 \
	X(cuDeviceGetAttribute, (int *out, int what, int device))                                            \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                            \
	X(cuDevicePrimaryCtxRelease, (int device))                                                           \
	X(cuCtxPushCurrent_v2, (void *context))                                                              \
	X(cuCtxPopCurrent_v2, (void **context))                                                              \
	X(cuStreamCreate, (void **stream, unsigned flags))                                                   \
	X(cuStreamDestroy_v2, (void *stream))                                                                \
	X(cuStreamQuery, (void *stream))                                                                     \
	X(cuStreamSynchronize, (void *stream))                                                               \
	X(cuMemAlloc_v2, (uint64_t * at, size_t bytes))                                                      \
	X(cuMemFree_v2, (uint64_t at))                                                                       \
	X(cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))                                         \
	X(cuMemHostGetDevicePointer_v2, (uint64_t * at, void *host, unsigned flags))                         \
	X(cuMemFreeHost, (void *at))                                                                         \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream))                 \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))                       \
	X(cuLinkCreate_v2, (unsigned n, const int *options, void **values, void **link))                     \
	X(cuLinkAddData_v2, (void *link, int type, void *data, size_t bytes, const char *name, unsigned n,   \
			     const int *options, void **values))                                             \
	X(cuLinkComplete, (void *link, void **cubin, size_t *bytes))                                         \
	X(cuLinkDestroy, (void *link))                                                                       \
	X(cuModuleLoadData, (void **module, const void *image))                                              \
	X(cuModuleUnload, (void *module))                                                                    \
	X(cuModuleGetFunction, (void **function, void *module, const char *name))                            \
	X(cuFuncGetAttribute, (int *out, int what, void *function))                                          \
	X(cuFuncSetAttribute, (void *function, int what, int value))                                         \
	X(cuLaunchKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,  \
			   unsigned bz, unsigned shared, void *stream, void **params, void **extra))

/* The same, but a driver may lack them, and then has no graphs; of the two that instantiate one, one is
 * enough: the first is CUDA 11.4's. */
#define CUDA_GRAPH_CALLS(X)                                                                                  \
	X(cuStreamBeginCapture_v2, (void *stream, int mode))                                                 \
	X(cuStreamEndCapture, (void *stream, void **graph))                                                  \
	X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))                 \
	X(cuGraphInstantiate, (void **exec, void *graph, void **bad_node, char *log, size_t room))           \
	X(cuGraphDestroy, (void *graph))                                                                     \
	X(cuGraphExecDestroy, (void *exec))                                                                  \
	X(cuGraphLaunch, (void *exec, void *stream))

struct cuda_api {
#define CUDA_FIELD(name, args) int(*name) args;
	CUDA_CALLS(CUDA_FIELD)
	CUDA_GRAPH_CALLS(CUDA_FIELD) /* each may be NULL */
#undef CUDA_FIELD
};

struct cuda {
	void *library;
	struct cuda_api api;
	int ndevices;
	struct {
		int id;
		struct cuda_info info;
	} device[CUDA_MAX_DEVICES];
	char note[512];
};

struct cuda_dev {
	const struct cuda_api *api;
	const struct cuda_info *info;
	int id;
	void *context, *stream;
	unsigned moved; /* counts buffers that were moved */
	bool lost;      /* it hangs, and so may every call; or its context is broken for good */
	char why[160];
};

struct cuda_code {
	struct cuda_dev *dev;
	void *module;
	struct key key; /* of the object on this device: what its cubin is for */
	void *cubin;    /* malloc'd */
	size_t bytes;
	int nentries;
	struct cuda_symbol {
		char name[32];
		int group, threads; /* items of a block, and threads of an item */
		int shared;         /* bytes of shared memory that a launch asks for */
		void *function;     /* NULL: not looked up yet */
		struct cuda_made made;
	} entry[CUDA_MAX_ENTRIES];
};

/* The error of a call: its text, and the code that cuda.h says. */
int cuda_fail(const char *call, int code);
/* The error of a call on a device, which may be lost by it; E_OK for CUDA_SUCCESS. */
int cuda_done(struct cuda_dev *d, const char *call, int code);
/* A handle that a call made: NULL is an error whatever the code says. */
int cuda_got(struct cuda_dev *d, const char *call, bool there, int code);
/* Makes the device's context current, until cuda_exit(). E_IO: it is lost. */
int cuda_enter(struct cuda_dev *d) MUST_CHECK;
void cuda_exit(struct cuda_dev *d);
/* Starts a job in a stream. The context is current. */
int cuda_launch_in(struct cuda_job *j, void *stream) MUST_CHECK;
/* cuda_graph.c: a graph of n > 0 jobs, as of cuda_record(). */
struct cuda_graph;
int cuda_graph_make(struct cuda_dev *d, struct cuda_job *const *job, int n,
		    struct cuda_graph **out) MUST_CHECK;
int cuda_graph_start(struct cuda_graph *g) MUST_CHECK;
void cuda_graph_free(struct cuda_graph *g);
/* The first line of an object: its entries, without functions. *source: where the PTX begins. */
int cuda_parse_head(const char *object, size_t n, struct cuda_code *c, size_t *source) MUST_CHECK;

#endif
