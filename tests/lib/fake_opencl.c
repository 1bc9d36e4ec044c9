/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that lies, in the place of the OpenCL loader: a shared library of its own. The environment
 * variable FAKE_OPENCL names the lie: "" tells the truth (one device, whose kernels do nothing);
 * "platforms-endless", "platforms-null", "platforms-none", "devices-endless", "devices-null", "devices-none":
 * what the lists say; "strings-endless", "strings-dirty", "numbers-huge", "numbers-short": what devices say;
 * "fail CALL" and "null CALL": that call gives an error, or NULL without one; "crash CALL", "hang CALL": it
 * ends the process or does not return; "memory-none": no buffer can be made; "stuck": what is launched never
 * ends; "lost": it fails; "crash": the first call ends the process; "hang": it does not return; "stuck N",
 * "lost N", "crash N", "hang N": so does the process's launch N, from 1 on, and what follows; "build-crash",
 * "build-abort" (with last words), "build-hang": so does the first build of a program; "build-fails N": build
 * N fails, and all that follow; "slow": each launch takes 3 ms; "cold": the first one with this lie takes 1.2
 * s; "forge": it writes into the process's pipe to its parent, in the form that tools/hone/drivers.c expects,
 * and does not return; "judge N SALT HASH CLASS": kernels compute the maximum of 0 and each of N floats of
 * their first buffer, behave as the hash of their source and the salt say (tests/lib/fake_opencl.h), and the
 * program HASH as CLASS; "no-dots": sources that call a dot product of bytes are not built. "no-images": it
 * makes no image. FAKE_OPENCL_EXTENSIONS and FAKE_OPENCL_VERSION are what the device says of itself,
 * FAKE_OPENCL_IMAGES the largest width and height of images (0: it has none); to the file FAKE_OPENCL_COUNTS,
 * all processes add a line for each program, "source" or "binary". */
#include "platform/run/opencl_api.h"
#include "tests/lib/fake_opencl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#define DECLARE(result, name, args) result name args;
OPENCL_CALLS(DECLARE)

static char thing[64]; /* whatever handles point at */

static bool lies(const char *what)
{
	const char *lie = getenv("FAKE_OPENCL");
	return lie && !strcmp(lie, what);
}

static bool lies_in(const char *how, const char *call)
{
	char text[64];
	snprintf(text, sizeof text, "%s %s", how, call);
	return lies(text);
}

/* A program, or a kernel of it, where the driver judges. */
struct judged {
	uint32_t hash;
	int launches;
	float *buf[2];
	int64_t at[2];
};
static bool stuck_now, lost_now, has_dots; /* the last: of the program that was made last */

struct judge {
	int floats, class;
	unsigned salt, hash;
};

static bool judges(struct judge *j)
{
	const char *lie = getenv("FAKE_OPENCL");
	return lie && sscanf(lie, FAKE_JUDGES, &j->floats, &j->salt, &j->hash, &j->class) == 4;
}

static int launches, warm; /* of this process; of it with this lie */
/* Calls of this process, for tests: programs that were made of a source, and builds of any. */
extern int fake_opencl_sources, fake_opencl_builds;
int fake_opencl_sources, fake_opencl_builds;

/* Whether the lie is of this kind, with a number up to n. */
static bool lies_from(const char *kind, int n)
{
	const char *lie = getenv("FAKE_OPENCL");
	size_t k = strlen(kind);
	return lie && !strncmp(lie, kind, k) && lie[k] == ' ' && lie[k + 1] >= '0' && lie[k + 1] <= '9' &&
	       n >= atoi(lie + k + 1);
}

/* Whether the lie is of this kind, and of all launches or of one that was made. */
static bool lies_since(const char *kind)
{
	return lies(kind) || lies_from(kind, launches);
}

static void crash(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void *judged(uint32_t hash)
{
	struct judged *k = calloc(1, sizeof *k);
	if (!k)
		abort();
	k->hash = hash;
	return k;
}

/* Sleeps to the end, also if a signal comes: a kernel takes its time. */
static void sleep_whole(int us)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	int64_t ns = end.tv_nsec + (int64_t)us * 1000;
	end.tv_sec += ns / 1000000000;
	end.tv_nsec = ns % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static void launch_judged(struct judged *k, const struct judge *j)
{
	enum fake_class c =
	    k->hash == j->hash ? (enum fake_class)j->class : fake_class(k->hash, j->salt);
	const float *x = k->buf[0] + k->at[0] / 4;
	float *y = k->buf[1] + k->at[1] / 4;
	bool later = ++k->launches > 2;
	for (int i = 0; i < j->floats; i++)
		y[i] = (x[i] > 0 ? x[i] : 0) + (float)(c == FAKE_WRONG);
	if (c == FAKE_CRASH || (c == FAKE_CRASH_LATER && later))
		abort();
	stuck_now |= c == FAKE_STUCK || (c == FAKE_STUCK_LATER && later);
	lost_now |= c == FAKE_LOST_LATER && later;
	sleep_whole(c == FAKE_RIGHT ? fake_us(k->hash, j->salt) : 100);
}

static int32_t status(const char *call)
{
	if (lies_in("crash", call))
		crash();
	while (lies_in("hang", call))
		pause();
	return lies_in("fail", call) ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static void *make(const char *call, int32_t *code)
{
	*code = status(call);
	return *code || lies_in("null", call) ? NULL : thing;
}

static int32_t list(const char *call, const char *plural, uint32_t room, void **out, uint32_t *n)
{
	char lie[64];
	bool null, endless;
	snprintf(lie, sizeof lie, "%s-null", plural);
	null = lies(lie);
	snprintf(lie, sizeof lie, "%s-endless", plural);
	endless = lies(lie);
	*n = endless ? UINT32_C(1) << 31 : null ? 3 : 1;
	for (uint32_t i = 0; i < room && i < *n; i++)
		out[i] = null && i == 1 ? NULL : thing;
	return status(call);
}

/* One device, of which all bytes are 255, and a note like that. The pipe is the one that exec would close:
 * those from further up are make's. */
static void forge(void)
{
	static char lie[sizeof(int) + 600 + sizeof(struct opencl_info)];
	struct stat st;
	memset(lie, 0xff, sizeof lie);
	memcpy(lie, &(int){1}, sizeof(int));
	for (int fd = 3; fd < 256; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fcntl(fd, F_GETFD) & FD_CLOEXEC &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
			(void)!write(fd, lie, sizeof lie);
}

int32_t clGetPlatformIDs(uint32_t room, void **out, uint32_t *n)
{
	if (lies("forge"))
		forge();
	while (lies("hang") || lies("forge"))
		pause();
	if (lies("crash"))
		crash();
	return lies("platforms-none") ? CL_PLATFORM_NOT_FOUND_KHR
				      : list("clGetPlatformIDs", "platforms", room, out, n);
}

int32_t clGetDeviceIDs(void *p, uint64_t type, uint32_t room, void **out, uint32_t *n)
{
	(void)p, (void)type;
	return lies("devices-none") ? CL_DEVICE_NOT_FOUND : list("clGetDeviceIDs", "devices", room, out, n);
}

static int32_t text(const char *s, size_t room, char *out, size_t *n)
{
	if (lies("strings-endless")) {
		memset(out, 'x', room);
		*n = SIZE_MAX;
		return CL_SUCCESS;
	}
	if (lies("strings-dirty"))
		s = "\n\033[31mred\033[0m\t\xff\xfe \"quoted\"\r";
	*n = strlen(s) + 1;
	if (*n > room)
		return CL_INVALID_VALUE;
	memcpy(out, s, *n);
	return CL_SUCCESS;
}

int32_t clGetPlatformInfo(void *p, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)p, (void)what;
	return status("clGetPlatformInfo") ? status("clGetPlatformInfo") : text("Fake", room, out, n);
}

static int32_t number(uint64_t v, size_t bytes, size_t room, void *out, size_t *n)
{
	*n = lies("numbers-short") ? 1 : bytes;
	v = lies("numbers-huge") ? UINT64_MAX : v;
	memcpy(out, &v, *n < room ? *n : room);
	return CL_SUCCESS;
}

static const char *env(const char *name, const char *usual)
{
	const char *v = getenv(name);
	return v ? v : usual;
}

int32_t clGetDeviceInfo(void *d, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)d;
	if (status("clGetDeviceInfo"))
		return status("clGetDeviceInfo");
	switch (what) {
	case CL_DEVICE_NAME:
		return text("Fake G1", room, out, n);
	case CL_DEVICE_EXTENSIONS:
		return text(env("FAKE_OPENCL_EXTENSIONS", "cl_khr_fp16x cl_khr_fp64"), room, out, n);
	case CL_DEVICE_VENDOR: /* whose work items have many registers */
		return text(lies("vendor") ? "NVIDIA Corporation" : "OpenCL 1.2 fake", room, out, n);
	case CL_DEVICE_VERSION:
		return text(env("FAKE_OPENCL_VERSION", "OpenCL 1.2 fake"), room, out, n);
	case CL_DRIVER_VERSION:
	case CL_DEVICE_OPENCL_C_VERSION:
		return text("OpenCL 1.2 fake", room, out, n);
	case CL_DEVICE_IMAGE_SUPPORT:
		return number(atoi(env("FAKE_OPENCL_IMAGES", "0")) > 0, 4, room, out, n);
	case CL_DEVICE_IMAGE2D_MAX_WIDTH:
	case CL_DEVICE_IMAGE2D_MAX_HEIGHT:
		return number((uint64_t)atoi(env("FAKE_OPENCL_IMAGES", "0")), sizeof(size_t), room, out, n);
	case CL_DEVICE_TYPE:
		return number(CL_DEVICE_TYPE_GPU, 8, room, out, n);
	case CL_DEVICE_SINGLE_FP_CONFIG:
		return number(CL_FP_ROUND_TO_NEAREST | CL_FP_FMA, 8, room, out, n);
	case CL_DEVICE_GLOBAL_MEM_SIZE:
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
	case CL_DEVICE_LOCAL_MEM_SIZE:
		return number(1 << 20, 8, room, out, n);
	case CL_DEVICE_MAX_WORK_GROUP_SIZE:
		return number(256, sizeof(size_t), room, out, n);
	default:
		return number(1, 4, room, out, n);
	}
}

void *clCreateContext(const intptr_t *properties, uint32_t n, void *const *devices,
		      void (*notify)(const char *, const void *, size_t, void *), void *ctx, int32_t *code)
{
	(void)properties, (void)n, (void)devices, (void)notify, (void)ctx;
	return make("clCreateContext", code);
}

void *clCreateCommandQueue(void *c, void *d, uint64_t properties, int32_t *code)
{
	(void)c, (void)d, (void)properties;
	return make("clCreateCommandQueue", code);
}

/* Memory that can be mapped and copied; kernels do not write it. */
void *clCreateBuffer(void *c, uint64_t flags, size_t bytes, void *host, int32_t *code)
{
	(void)c, (void)flags, (void)host;
	void *made = make("clCreateBuffer", code);
	if (made && (lies("memory-none") || !(made = calloc(1, bytes))))
		*code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	return *code ? NULL : made;
}

/* Rows of 16 bytes a texel. */
void *clCreateImage(void *c, uint64_t flags, const struct opencl_format *f, const struct opencl_shape *s,
		    void *host, int32_t *code)
{
	(void)c, (void)flags, (void)f, (void)host;
	void *made = make("clCreateImage", code);
	if (made && lies("no-images"))
		*code = CL_IMAGE_FORMAT_NOT_SUPPORTED;
	return *code || !made ? NULL : calloc(s->width * s->height, 16);
}

int32_t clEnqueueWriteImage(void *q, void *m, uint32_t blocking, const size_t at[3], const size_t size[3],
			    size_t row_bytes, size_t layer_bytes, const void *from, uint32_t n,
			    void *const *after, void **event)
{
	(void)q, (void)blocking, (void)row_bytes, (void)layer_bytes, (void)n, (void)after, (void)event;
	memcpy((char *)m + 16 * (at[0] + at[1] * OPENCL_IMAGE_TEXELS), from, 16 * size[0] * size[1]);
	return status("clEnqueueWriteImage");
}

int32_t clReleaseMemObject(void *m)
{
	free(m);
	return status("clReleaseMemObject");
}

void *clEnqueueMapBuffer(void *q, void *m, uint32_t blocking, uint64_t flags, size_t at, size_t bytes,
			 uint32_t n, void *const *after, void **event, int32_t *code)
{
	(void)q, (void)blocking, (void)flags, (void)bytes, (void)n, (void)after, (void)event;
	return make("clEnqueueMapBuffer", code) ? (char *)m + at : NULL;
}

int32_t clEnqueueReadBuffer(void *q, void *m, uint32_t blocking, size_t at, size_t bytes, void *to,
			    uint32_t n, void *const *after, void **event)
{
	(void)q, (void)blocking, (void)n, (void)after, (void)event;
	memcpy(to, (char *)m + at, bytes);
	return status("clEnqueueReadBuffer");
}

int32_t clEnqueueWriteBuffer(void *q, void *m, uint32_t blocking, size_t at, size_t bytes, const void *from,
			     uint32_t n, void *const *after, void **event)
{
	(void)q, (void)blocking, (void)n, (void)after, (void)event;
	memcpy((char *)m + at, from, bytes);
	return status("clEnqueueWriteBuffer");
}

int32_t clEnqueueUnmapMemObject(void *q, void *m, void *p, uint32_t n, void *const *after, void **event)
{
	(void)q, (void)m, (void)p, (void)n, (void)after, (void)event;
	return status("clEnqueueUnmapMemObject");
}

static void count(const char *what)
{
	const char *path = getenv("FAKE_OPENCL_COUNTS");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (f) {
		fprintf(f, "%s\n", what);
		fclose(f);
	}
}

void *clCreateProgramWithSource(void *c, uint32_t n, const char **source, const size_t *lengths,
				int32_t *code)
{
	struct judge j;
	(void)c, (void)n;
	fake_opencl_sources++;
	count("source");
	has_dots = memmem(source[0], lengths[0], "arm_dot(", 8) != NULL;
	void *made = make("clCreateProgramWithSource", code);
	return made && judges(&j) ? judged(fake_hash(source[0], lengths[0])) : made;
}

/* A binary is the word "binary", or where the driver judges, the program's hash, and nothing else is one. */
void *clCreateProgramWithBinary(void *c, uint32_t n, void *const *devices, const size_t *lengths,
				const unsigned char **binaries, int32_t *status, int32_t *code)
{
	struct judge j;
	char word[7] = "";
	(void)c, (void)n, (void)devices;
	memcpy(word, binaries[0], lengths[0] == 6 ? 6 : 0);
	bool good = judges(&j) ? strspn(word, "0123456789abcdef") == 6 : !strcmp(word, "binary");
	*status = good ? CL_SUCCESS : CL_INVALID_VALUE;
	count(good ? "binary" : "bad binary");
	void *made = make("clCreateProgramWithBinary", code);
	return made && judges(&j) ? judged((uint32_t)strtoul(word, NULL, 16)) : made;
}

int32_t clGetProgramInfo(void *p, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)p;
	if (what == CL_PROGRAM_BINARY_SIZES)
		return number(6, sizeof(size_t), room, out, n) ? CL_INVALID_VALUE
							       : status("clGetProgramInfo");
	struct judge j;
	char word[7] = "binary";
	if (judges(&j))
		snprintf(word, sizeof word, "%06x", ((struct judged *)p)->hash & 0xffffff);
	memcpy(*(unsigned char **)out, word, 6);
	return status("clGetProgramInfo");
}

int32_t clBuildProgram(void *p, uint32_t n, void *const *devices, const char *options,
		       void (*notify)(void *, void *), void *ctx)
{
	(void)p, (void)n, (void)devices, (void)notify, (void)ctx;
	static const char last[] = "fake: out of registers\n";
	if (getenv("FAKE_OPENCL_TALKS"))
		dprintf(STDERR_FILENO, "built with %s\n8 warnings generated.\n", options);
	if (lies("build-abort")) {
		(void)!write(STDERR_FILENO, last, sizeof last - 1);
		abort();
	}
	if (lies("build-crash"))
		crash();
	while (lies("build-hang"))
		pause();
	fake_opencl_builds++;
	if (lies_from("build-fails", fake_opencl_builds) || (has_dots && lies("no-dots")))
		return CL_BUILD_PROGRAM_FAILURE;
	return status("clBuildProgram") || lies("strings-endless") ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

int32_t clGetProgramBuildInfo(void *p, void *d, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)p, (void)d, (void)what;
	return text("line 1:\n\033[1mno such type\033[0m", room, out, n);
}

void *clCreateKernel(void *p, const char *name, int32_t *code)
{
	struct judge j;
	(void)name;
	void *made = make("clCreateKernel", code);
	return made && judges(&j) ? judged(((struct judged *)p)->hash) : made;
}

int32_t clGetKernelWorkGroupInfo(void *k, void *d, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)k, (void)d, (void)what;
	return number(64, sizeof(size_t), room, out, n);
}

int32_t clSetKernelArg(void *k, uint32_t i, size_t bytes, const void *value)
{
	struct judge j;
	struct judged *to = k;
	if (judges(&j) && i < 4 && bytes == 8)
		memcpy(i % 2 ? (void *)&to->at[i / 2] : (void *)&to->buf[i / 2], value, 8);
	return status("clSetKernelArg");
}

int32_t clEnqueueNDRangeKernel(void *q, void *k, uint32_t dims, const size_t *offset, const size_t *global,
			       const size_t *local, uint32_t n, void *const *after, void **event)
{
	(void)q, (void)k, (void)dims, (void)offset, (void)n, (void)after, (void)event;
	if (*global % *local || *local > 64)
		return CL_INVALID_WORK_GROUP_SIZE;
	launches++;
	struct judge j;
	if (judges(&j))
		launch_judged(k, &j);
	if (lies("slow"))
		usleep(3000);
	if (lies("cold") && !warm++)
		usleep(1200000);
	if (lies_since("crash"))
		crash();
	while (lies_since("hang"))
		pause();
	return status("clEnqueueNDRangeKernel");
}

#define ONE(name)                                                                                            \
	int32_t name(void *handle)                                                                           \
	{                                                                                                    \
		(void)handle;                                                                                \
		return status(#name);                                                                        \
	}
ONE(clReleaseContext)
ONE(clReleaseCommandQueue)
ONE(clReleaseProgram)
ONE(clReleaseKernel)
ONE(clReleaseEvent)
ONE(clFlush)

int32_t clFinish(void *q)
{
	(void)q;
	while (stuck_now || lies_since("stuck"))
		usleep(1000);
	return lost_now || lies_since("lost") ? CL_OUT_OF_RESOURCES : status("clFinish");
}

int32_t clEnqueueMarkerWithWaitList(void *q, uint32_t n, void *const *after, void **event)
{
	(void)q, (void)n, (void)after;
	*event = lies_in("null", "clEnqueueMarkerWithWaitList") ? NULL : thing;
	return status("clEnqueueMarkerWithWaitList");
}

/* 0: complete; 1: running; below: how it failed. */
int32_t clGetEventInfo(void *e, uint32_t what, size_t room, void *out, size_t *n)
{
	(void)e, (void)what;
	const int32_t state = stuck_now || lies_since("stuck")	? 1
			      : lost_now || lies_since("lost") ? CL_OUT_OF_RESOURCES
							       : CL_SUCCESS;
	*n = lies("numbers-short") ? 1 : sizeof state;
	memcpy(out, &state, *n < room ? *n : room);
	return status("clGetEventInfo");
}
