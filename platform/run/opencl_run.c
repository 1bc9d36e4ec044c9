/* SPDX-License-Identifier: Apache-2.0 */
/* A device in use: memory, programs, launches. The queue runs commands in order. */
#include "platform/run/opencl_api.h"
#include "platform/run/driver_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct opencl_buf {
	struct opencl_dev *dev;
	void *mem;
	size_t bytes;
	size_t texel_bytes; /* of an image; 0: it is none */
	void *mapped;
};

struct opencl_job {
	struct opencl_dev *dev;
	void *kernel;
	int nargs;             /* without the range's */
	size_t group, threads; /* indices of a group, and work items of an index */
	int64_t begin, end, once;
};

static int done(const char *call, int32_t code)
{
	return code == CL_SUCCESS ? E_OK : opencl_fail(call, code);
}

int opencl_use(struct opencl *o, int device, struct opencl_dev **out)
{
	char there[64];
	if (device < 0 || device >= o->ndevices)
		return fail(E_NOTFOUND, "there is no OpenCL device %d; %s", device,
			    driver_devices("opencl", o->ndevices, there));
	int rc = opencl_usable(&o->device[device].info);
	struct opencl_dev *d = rc < 0 ? NULL : calloc(1, sizeof *d);
	if (rc < 0)
		return rc;
	if (!d)
		return fail(E_NOMEM, "no memory for an OpenCL device");
	d->api = &o->api;
	d->info = &o->device[device].info;
	d->id = o->device[device].id;
	const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)o->device[device].platform, 0};
	int32_t code = CL_SUCCESS;
	d->context = d->api->clCreateContext(properties, 1, &d->id, NULL, NULL, &code);
	rc = opencl_made("clCreateContext", d->context, code);
	if (rc >= 0) {
		d->queue = d->api->clCreateCommandQueue(d->context, d->id, 0, &code);
		rc = opencl_made("clCreateCommandQueue", d->queue, code);
	}
	if (rc < 0)
		opencl_leave(d);
	else
		*out = d;
	return rc;
}

const struct opencl_info *opencl_dev_info(const struct opencl_dev *d)
{
	return d->info;
}

void opencl_leave(struct opencl_dev *d)
{
	if (!d)
		return;
	if (d->queue && !d->lost)
		d->api->clReleaseCommandQueue(d->queue);
	if (d->context && !d->lost)
		d->api->clReleaseContext(d->context);
	free(d);
}

int opencl_alloc(struct opencl_dev *d, int64_t bytes, struct opencl_buf **out)
{
	if (d->lost)
		return opencl_lost();
	if (bytes < 1 || bytes > d->info->alloc_bytes || (uint64_t)bytes > SIZE_MAX)
		return fail(E_NOMEM, "a buffer of %lld bytes: the OpenCL device allows 1 to %lld",
			    (long long)bytes, (long long)d->info->alloc_bytes);
	struct opencl_buf *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for an OpenCL buffer");
	int32_t code = CL_SUCCESS;
	b->dev = d;
	b->bytes = (size_t)bytes;
	b->mem = d->api->clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, b->bytes, NULL,
					&code);
	int rc = opencl_made("clCreateBuffer", b->mem, code);
	if (rc < 0)
		free(b);
	else
		*out = b;
	return rc;
}

int opencl_alloc_image(struct opencl_dev *d, bool halves, int64_t elems, struct opencl_buf **out)
{
	const int64_t most = d->info->image_width < OPENCL_IMAGE_TEXELS ? 0 : d->info->image_height,
		      texels = elems / 4,
		      rows = texels / OPENCL_IMAGE_TEXELS + (texels % OPENCL_IMAGE_TEXELS > 0);
	if (d->lost)
		return opencl_lost();
	if (elems < 4 || elems % 4 || rows > most)
		return fail(E_INFEASIBLE,
			    "an image of %lld floats, %lld rows: the OpenCL device allows %lld rows",
			    (long long)elems, (long long)rows, (long long)most);
	struct opencl_buf *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for an OpenCL image");
	const struct opencl_format format = {CL_RGBA, halves ? CL_HALF_FLOAT : CL_FLOAT};
	const struct opencl_shape shape = {
	    .type = CL_MEM_OBJECT_IMAGE2D, .width = OPENCL_IMAGE_TEXELS, .height = (size_t)rows};
	int32_t code = CL_SUCCESS;
	b->dev = d;
	b->texel_bytes = halves ? 8 : 16;
	b->bytes = (size_t)texels * b->texel_bytes;
	b->mem = d->api->clCreateImage(d->context, CL_MEM_READ_ONLY, &format, &shape, NULL, &code);
	int rc = opencl_made("clCreateImage", b->mem, code);
	if (rc < 0)
		free(b);
	else
		*out = b;
	return rc == E_IO ? fail_in(E_INFEASIBLE, "image") : rc; /* the device does without images */
}

/* The whole rows, then what is left. */
static int write_image(struct opencl_buf *b, const char *from)
{
	size_t texels = b->bytes / b->texel_bytes, whole = texels / OPENCL_IMAGE_TEXELS, at[3] = {0},
	       size[2][3] = {{OPENCL_IMAGE_TEXELS, whole, 1}, {texels % OPENCL_IMAGE_TEXELS, 1, 1}};
	int32_t code = CL_SUCCESS;
	for (int part = 0; part < 2 && code == CL_SUCCESS; part++) {
		if (size[part][0] && size[part][1])
			code = b->dev->api->clEnqueueWriteImage(b->dev->queue, b->mem, 1, at, size[part], 0,
								0, from, 0, NULL, NULL);
		at[1] = whole;
		from += whole * OPENCL_IMAGE_TEXELS * b->texel_bytes;
	}
	return done("clEnqueueWriteImage", code);
}

/* A part of a buffer that is not mapped. */
static int check_part(const struct opencl_buf *b, int64_t at, int64_t bytes)
{
	if (b->dev->lost)
		return opencl_lost();
	if (b->mapped || at < 0 || bytes < 0 || (uint64_t)at > b->bytes ||
	    (uint64_t)bytes > b->bytes - (uint64_t)at)
		return fail(E_USAGE, "bytes %lld to %lld of an OpenCL buffer of %zu, or it is mapped already",
			    (long long)at, (long long)((uint64_t)at + (uint64_t)bytes), b->bytes);
	return b->texel_bytes ? fail(E_USAGE, "an OpenCL image is written as a whole, and else only read by "
					      "kernels")
			      : E_OK;
}

/* flags: CL_MAP_READ, CL_MAP_WRITE. */
static int map_part(struct opencl_buf *b, uint64_t flags, int64_t at, int64_t bytes)
{
	int32_t code = CL_SUCCESS;
	b->mapped = b->dev->api->clEnqueueMapBuffer(b->dev->queue, b->mem, 1, flags, (size_t)at,
						    (size_t)bytes, 0, NULL, NULL, &code);
	int rc = opencl_made("clEnqueueMapBuffer", b->mapped, code);
	if (rc < 0)
		b->mapped = NULL;
	return rc;
}

int opencl_map(struct opencl_buf *b, int64_t at, int64_t bytes, void **out)
{
	int rc =
	    bytes > 0 ? check_part(b, at, bytes) : fail(E_USAGE, "a map of %lld bytes", (long long)bytes);
	if (rc >= 0)
		rc = map_part(b, CL_MAP_READ | CL_MAP_WRITE, at, bytes);
	if (rc >= 0)
		*out = b->mapped;
	return rc;
}

int opencl_unmap(struct opencl_buf *b)
{
	void *p = b->mapped;
	if (b->dev->lost)
		return opencl_lost();
	if (!p)
		return fail(E_USAGE, "the OpenCL buffer is not mapped");
	b->mapped = NULL;
	return done("clEnqueueUnmapMemObject",
		    b->dev->api->clEnqueueUnmapMemObject(b->dev->queue, b->mem, p, 0, NULL, NULL));
}

void opencl_free(struct opencl_buf *b)
{
	if (!b)
		return;
	if (b->mapped && opencl_unmap(b) < 0)
		b->mapped = NULL; /* releasing it ends the map, too */
	if (!b->dev->lost)
		b->dev->api->clReleaseMemObject(b->mem);
	free(b);
}

/* Copies through a map of the part; one of from and to is given. False: it cannot be mapped. */
static bool copy_mapped(struct opencl_buf *b, int64_t at, const void *from, void *to, int64_t bytes, int *rc)
{
	if (!b->dev->info->unified || map_part(b, from ? CL_MAP_WRITE : CL_MAP_READ, at, bytes) < 0)
		return false;
	memcpy(from ? b->mapped : to, from ? from : b->mapped, (size_t)bytes);
	*rc = opencl_unmap(b);
	return true;
}

int opencl_write(struct opencl_buf *b, int64_t at, const void *from, int64_t bytes)
{
	if (b->texel_bytes && !b->dev->lost && !at && bytes == (int64_t)b->bytes)
		return write_image(b, from);
	int rc = check_part(b, at, bytes);
	if (rc < 0 || bytes == 0 || copy_mapped(b, at, from, NULL, bytes, &rc))
		return rc;
	return done("clEnqueueWriteBuffer",
		    b->dev->api->clEnqueueWriteBuffer(b->dev->queue, b->mem, 1, (size_t)at, (size_t)bytes,
						      from, 0, NULL, NULL));
}

int opencl_read(struct opencl_buf *b, int64_t at, void *to, int64_t bytes)
{
	int rc = check_part(b, at, bytes);
	if (rc < 0 || bytes == 0 || copy_mapped(b, at, NULL, to, bytes, &rc))
		return rc;
	return done("clEnqueueReadBuffer",
		    b->dev->api->clEnqueueReadBuffer(b->dev->queue, b->mem, 1, (size_t)at, (size_t)bytes, to,
						     0, NULL, NULL));
}

/* The indices of a group that the kernel's source requires (0: any), and the work items of an index. */
static size_t group_required(const struct opencl_dev *d, void *k, size_t *threads)
{
	size_t size[3] = {0}, n = 0;
	int32_t code = d->api->clGetKernelWorkGroupInfo(k, d->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
							sizeof size, size, &n);
	bool known = code == CL_SUCCESS && n == sizeof size && size[0] <= TARGET_MOST_GROUP &&
		     size[1] <= TARGET_MOST_GROUP;
	*threads = known && size[1] > 1 ? size[1] : 1;
	return known ? size[0] : 0;
}

/* A processor has no use for groups, each of which its driver makes a loop of; a GPU fills its lanes with
 * them (64: the widest of common ones). Never more than the device and the kernel allow. */
static size_t group_of(const struct opencl_code *c, void *k, int wanted, size_t *threads)
{
	const struct opencl_dev *d = c->dev;
	size_t required = group_required(d, k, threads);
	if (required)
		return required;
	size_t group = wanted > 0                     ? (size_t)wanted
		       : strcmp(d->info->kind, "cpu") ? 64
						      : 1,
	       most[2] = {0}, n = 0;
	if ((int64_t)group > d->info->group_items)
		group = (size_t)d->info->group_items;
	if (d->api->clGetKernelWorkGroupInfo(k, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof *most, most, &n) ==
		CL_SUCCESS &&
	    n == sizeof *most && most[0] && most[0] < group)
		group = most[0];
	return group;
}

static int set_arg(const struct opencl_job *j, int i, size_t bytes, const void *value)
{
	int32_t code = j->dev->api->clSetKernelArg(j->kernel, (uint32_t)i, bytes, value);
	char call[48];
	snprintf(call, sizeof call, "clSetKernelArg of argument %d", i);
	return done(call, code);
}

/* All arguments but the range, which are the last two. */
static int set_args(struct opencl_job *j, const struct opencl_launch *at)
{
	int rc = E_OK, n = 0;
	for (int i = 0; i < at->nspots && rc >= 0; i++) {
		const struct opencl_spot *s = &at->spot[i];
		if (s->buf->mapped || s->at < 0 || (uint64_t)s->at > s->buf->bytes)
			return fail(E_USAGE, "OpenCL buffer %d is mapped, or begins behind its memory", i);
		rc = set_arg(j, n++, sizeof(void *), &s->buf->mem);
		if (rc >= 0)
			rc = set_arg(j, n++, 8, &s->at);
	}
	for (int i = 0; i < at->nparams && rc >= 0; i++)
		rc = set_arg(j, n++, 8, &at->param[i]);
	j->nargs = n;
	return rc;
}

static int set_range(const struct opencl_job *j, int64_t begin, int64_t end)
{
	int rc = set_arg(j, j->nargs, 8, &begin);
	return rc < 0 ? rc : set_arg(j, j->nargs + 1, 8, &end);
}

int opencl_prepare(struct opencl_code *c, int entry, const struct opencl_launch *at, struct opencl_job **out)
{
	if (entry < 0 || entry >= c->nentries || at->begin < 0 || at->end < at->begin || at->at_once < 0 ||
	    2 * at->nspots + at->nparams + 2 > OPENCL_MAX_ARGS)
		return fail(E_USAGE, "a launch of entry %d from %lld to %lld", entry, (long long)at->begin,
			    (long long)at->end);
	int64_t items = at->end - at->begin, once = at->at_once ? at->at_once : INT32_MAX;
	if (!at->at_once && items > INT32_MAX)
		return fail(E_INFEASIBLE, "a launch of %lld work items", (long long)items);
	if (c->dev->lost)
		return opencl_lost();
	struct opencl_job *j = calloc(1, sizeof *j);
	if (!j)
		return fail(E_NOMEM, "no memory for an OpenCL launch");
	*j = (struct opencl_job){.dev = c->dev, .begin = at->begin, .end = at->end};
	int32_t code = CL_SUCCESS;
	j->kernel = c->dev->api->clCreateKernel(c->program, c->entry[entry].name, &code);
	int rc = opencl_made("clCreateKernel", j->kernel, code);
	if (rc >= 0)
		rc = set_args(j, at);
	if (rc >= 0) {
		j->once = once < items ? once : items;
		j->group = group_of(c, j->kernel, at->group, &j->threads);
		rc = set_range(j, j->begin, j->begin + j->once);
	}
	if (rc < 0)
		opencl_drop(j);
	else
		*out = j;
	return rc;
}

static int enqueue(const struct opencl_job *j, int64_t items)
{
	size_t group[2] = {j->group, j->threads},
	       global[2] = {((size_t)items + j->group - 1) / j->group * j->group, j->threads};
	return done("clEnqueueNDRangeKernel",
		    j->dev->api->clEnqueueNDRangeKernel(j->dev->queue, j->kernel, 1 + (j->threads > 1), NULL,
							global, group, 0, NULL, NULL));
}

int opencl_start(const struct opencl_job *j)
{
	bool parts = j->end - j->begin > j->once;
	int rc = j->dev->lost ? opencl_lost() : E_OK;
	for (int64_t at = j->begin; at < j->end && rc >= 0; at += j->once) {
		int64_t end = at + j->once < j->end ? at + j->once : j->end;
		if (parts)
			rc = set_range(j, at, end);
		if (rc >= 0)
			rc = enqueue(j, end - at);
	}
	return rc;
}

void opencl_drop(struct opencl_job *j)
{
	if (!j)
		return;
	if (j->kernel && !j->dev->lost)
		j->dev->api->clReleaseKernel(j->kernel);
	free(j);
}

enum { SPIN_NS = 200000, NAP_NS = 20000 };

/* Asks for an event's state until it has ended; sleeps between two questions once SPIN_NS have passed. */
static int poll(struct opencl_dev *d, void *event, struct clock *clock, int64_t deadline_ns)
{
	int64_t start_ns = clock_now(clock), now_ns = start_ns;
	for (;;) {
		int32_t state = 1;
		size_t n = 0;
		int32_t code = d->api->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
						      &state, &n);
		if (code != CL_SUCCESS || n != sizeof state)
			return code == CL_SUCCESS ? fail(E_IO, "clGetEventInfo: it gave no state")
						  : opencl_fail("clGetEventInfo", code);
		if (state < 0)
			return opencl_fail("a kernel", state);
		if (state == 0)
			return E_OK;
		now_ns = clock_now(clock);
		if (now_ns >= deadline_ns)
			return fail(E_TIMEOUT, "the OpenCL device did not end a kernel in time");
		if (now_ns - start_ns > SPIN_NS)
			nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	}
}

int opencl_wait(struct opencl_dev *d, struct clock *clock, int64_t deadline_ns)
{
	void *event = NULL;
	if (d->lost)
		return opencl_lost();
	if (deadline_ns == INT64_MAX)
		return done("clFinish", d->api->clFinish(d->queue));
	int rc = done("clEnqueueMarkerWithWaitList",
		      d->api->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &event));
	if (rc >= 0 && !event)
		return fail(E_IO, "clEnqueueMarkerWithWaitList: it gave no event");
	if (rc >= 0)
		rc = done("clFlush", d->api->clFlush(d->queue));
	if (rc >= 0)
		rc = poll(d, event, clock, deadline_ns);
	d->lost = rc == E_TIMEOUT;
	if (event && !d->lost)
		d->api->clReleaseEvent(event);
	return rc;
}
