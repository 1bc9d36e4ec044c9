/* SPDX-License-Identifier: Apache-2.0 */
/* A device in use: memory, programs, launches. The queue runs commands in order. */
#include "platform/run/opencl_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opencl_dev {
	const struct opencl_api *api;
	const struct opencl_info *info;
	void *id, *context, *queue;
};

struct opencl_buf {
	struct opencl_dev *dev;
	void *mem;
	size_t bytes;
	void *mapped;
};

struct opencl_code {
	struct opencl_dev *dev;
	void *program;
	int nentries;
	struct {
		char name[32];
		void *kernel;
	} entry[OPENCL_MAX_ENTRIES];
};

/* A handle that a call made: NULL is an error whatever the code says. */
static int made(const char *call, const void *handle, int32_t code)
{
	if (code != CL_SUCCESS)
		return opencl_fail(call, code);
	return handle ? E_OK : fail(E_IO, "%s: it gave NULL without an error", call);
}

static int done(const char *call, int32_t code)
{
	return code == CL_SUCCESS ? E_OK : opencl_fail(call, code);
}

int opencl_use(struct opencl *o, int device, struct opencl_dev **out)
{
	if (device < 0 || device >= o->ndevices)
		return fail(E_NOTFOUND, "there is no OpenCL device %d; %d are known", device, o->ndevices);
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
	rc = made("clCreateContext", d->context, code);
	if (rc >= 0) {
		d->queue = d->api->clCreateCommandQueue(d->context, d->id, 0, &code);
		rc = made("clCreateCommandQueue", d->queue, code);
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
	if (d->queue)
		d->api->clReleaseCommandQueue(d->queue);
	if (d->context)
		d->api->clReleaseContext(d->context);
	free(d);
}

int opencl_alloc(struct opencl_dev *d, int64_t bytes, struct opencl_buf **out)
{
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
	int rc = made("clCreateBuffer", b->mem, code);
	if (rc < 0)
		free(b);
	else
		*out = b;
	return rc;
}

int opencl_map(struct opencl_buf *b, void **out)
{
	int32_t code = CL_SUCCESS;
	if (b->mapped)
		return fail(E_USAGE, "the OpenCL buffer is mapped already");
	void *p = b->dev->api->clEnqueueMapBuffer(b->dev->queue, b->mem, 1, CL_MAP_READ | CL_MAP_WRITE, 0,
						  b->bytes, 0, NULL, NULL, &code);
	int rc = made("clEnqueueMapBuffer", p, code);
	if (rc >= 0)
		*out = b->mapped = p;
	return rc;
}

int opencl_unmap(struct opencl_buf *b)
{
	void *p = b->mapped;
	if (!p)
		return fail(E_USAGE, "the OpenCL buffer is not mapped");
	b->mapped = NULL;
	int rc = done("clEnqueueUnmapMemObject",
		      b->dev->api->clEnqueueUnmapMemObject(b->dev->queue, b->mem, p, 0, NULL, NULL));
	return rc < 0 ? rc : done("clFinish", b->dev->api->clFinish(b->dev->queue));
}

void opencl_free(struct opencl_buf *b)
{
	if (!b)
		return;
	if (b->mapped && opencl_unmap(b) < 0)
		b->mapped = NULL; /* releasing it ends the map, too */
	b->dev->api->clReleaseMemObject(b->mem);
	free(b);
}

/* Takes the options from the object's first line; returns where the source begins. */
static int take_options(const struct opencl_info *info, const char *object, size_t n, char *out, size_t room,
			size_t *source)
{
	static const char head[] = "//hone-opencl";
	static const char *const known[] = {"-cl-std=CL1.2", "-cl-denorms-are-zero"};
	const char *end = memchr(object, '\n', n < 256 ? n : 256), *at = object + sizeof head - 1;
	if (!end || end < at || memcmp(object, head, sizeof head - 1))
		return fail(E_CORRUPT, "an OpenCL object must begin with \"%s\"", head);
	*out = 0;
	while (at < end) {
		size_t k = 0, len;
		if (*at++ != ' ')
			return fail(E_CORRUPT, "an OpenCL object's options are malformed");
		for (len = 0; at + len < end && at[len] != ' ';)
			len++;
		while (k < 2 && (strlen(known[k]) != len || memcmp(known[k], at, len)))
			k++;
		if (k == 2 || strstr(out, known[k]))
			return fail(E_CORRUPT, "an OpenCL object has an option that is not known");
		snprintf(out + strlen(out), room - strlen(out), "%s ", known[k]);
		at += len;
	}
	if (info->exact_divide)
		snprintf(out + strlen(out), room - strlen(out), "-cl-fp32-correctly-rounded-divide-sqrt");
	*source = (size_t)(end + 1 - object);
	return E_OK;
}

/* Puts the first words of the compiler's log behind the error. */
static int build_failed(const struct opencl_code *c, int32_t code)
{
	enum { MOST = 64 << 10 };
	char *log = calloc(1, MOST + 1), words[400] = "";
	size_t n = 0;
	if (log && c->dev->api->clGetProgramBuildInfo(c->program, c->dev->id, CL_PROGRAM_BUILD_LOG, MOST, log,
						      &n) == CL_SUCCESS)
		opencl_clean(words, sizeof words, log, n < MOST ? n : MOST);
	free(log);
	int rc = opencl_fail("clBuildProgram", code);
	char text[160];
	snprintf(text, sizeof text, "%s", err_text());
	return fail(rc, "%s%s%s", text, words[0] ? ": " : "", words);
}

static int build(struct opencl_code *c, const char *source, size_t n, const char *options)
{
	const struct opencl_api *api = c->dev->api;
	int32_t code = CL_SUCCESS;
	c->program = api->clCreateProgramWithSource(c->dev->context, 1, &source, &n, &code);
	int rc = made("clCreateProgramWithSource", c->program, code);
	if (rc < 0)
		return rc;
	code = api->clBuildProgram(c->program, 1, &c->dev->id, options, NULL, NULL);
	return code == CL_SUCCESS ? E_OK : build_failed(c, code);
}

int opencl_load(struct opencl_dev *d, const void *object, size_t n, struct opencl_code **out)
{
	char options[160];
	size_t source = 0;
	int rc = take_options(d->info, object, n, options, sizeof options, &source);
	if (rc < 0)
		return rc;
	struct opencl_code *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory for an OpenCL program");
	c->dev = d;
	rc = build(c, (const char *)object + source, n - source, options);
	if (rc < 0)
		opencl_unload(c);
	else
		*out = c;
	return rc;
}

int opencl_entry(struct opencl_code *c, const char *symbol)
{
	int32_t code = CL_SUCCESS;
	for (int i = 0; i < c->nentries; i++)
		if (!strcmp(c->entry[i].name, symbol))
			return i;
	if (c->nentries == OPENCL_MAX_ENTRIES || strlen(symbol) >= sizeof c->entry[0].name)
		return fail(E_UNSUPPORTED, "an OpenCL program has too many entry points, or too long names");
	void *k = c->dev->api->clCreateKernel(c->program, symbol, &code);
	if (code == CL_INVALID_KERNEL_NAME)
		return fail(E_NOTFOUND, "the code has no entry point '%s'", symbol);
	int rc = made("clCreateKernel", k, code);
	if (rc < 0)
		return rc;
	strcpy(c->entry[c->nentries].name, symbol);
	c->entry[c->nentries].kernel = k;
	return c->nentries++;
}

void opencl_unload(struct opencl_code *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->nentries; i++)
		c->dev->api->clReleaseKernel(c->entry[i].kernel);
	if (c->program)
		c->dev->api->clReleaseProgram(c->program);
	free(c);
}

static int set_arg(const struct opencl_api *api, void *k, int i, size_t bytes, const void *value)
{
	int32_t code = api->clSetKernelArg(k, (uint32_t)i, bytes, value);
	char call[48];
	snprintf(call, sizeof call, "clSetKernelArg of argument %d", i);
	return done(call, code);
}

static int set_args(const struct opencl_api *api, void *k, const struct opencl_launch *at)
{
	int rc = E_OK, n = 0;
	for (int i = 0; i < at->nbufs && rc >= 0; i++)
		rc = at->buf[i]->mapped ? fail(E_USAGE, "OpenCL buffer %d is mapped", i)
					: set_arg(api, k, n++, sizeof(void *), &at->buf[i]->mem);
	for (int i = 0; i < at->nparams && rc >= 0; i++)
		rc = set_arg(api, k, n++, 8, &at->param[i]);
	if (rc >= 0)
		rc = set_arg(api, k, n++, 8, &at->begin);
	return rc < 0 ? rc : set_arg(api, k, n, 8, &at->end);
}

/* A processor has no use for groups, each of which its driver makes a loop of; a GPU fills its lanes with
 * them (64: the widest of common ones). Never more than the device and the kernel allow. */
static size_t group_of(const struct opencl_code *c, void *k, int wanted)
{
	const struct opencl_dev *d = c->dev;
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

static int enqueue(struct opencl_code *c, void *k, size_t items, size_t group)
{
	const struct opencl_api *api = c->dev->api;
	size_t global = (items + group - 1) / group * group;
	void *event = NULL;
	int rc =
	    done("clEnqueueNDRangeKernel",
		 api->clEnqueueNDRangeKernel(c->dev->queue, k, 1, NULL, &global, &group, 0, NULL, &event));
	if (rc < 0)
		return rc;
	if (!event)
		return fail(E_IO, "clEnqueueNDRangeKernel: it gave no event");
	rc = done("clWaitForEvents", api->clWaitForEvents(1, &event));
	api->clReleaseEvent(event);
	return rc;
}

int opencl_run(struct opencl_code *c, int entry, const struct opencl_launch *at)
{
	if (entry < 0 || entry >= c->nentries || at->begin < 0 ||
	    at->nbufs + at->nparams + 2 > OPENCL_MAX_ARGS)
		return fail(E_USAGE, "a launch of entry %d from %lld to %lld", entry, (long long)at->begin,
			    (long long)at->end);
	if (at->end <= at->begin)
		return E_OK;
	if (at->end - at->begin > INT32_MAX)
		return fail(E_INFEASIBLE, "a launch of %lld work items", (long long)(at->end - at->begin));
	void *k = c->entry[entry].kernel;
	int rc = set_args(c->dev->api, k, at);
	return rc < 0 ? rc : enqueue(c, k, (size_t)(at->end - at->begin), group_of(c, k, at->group));
}
