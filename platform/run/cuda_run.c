/* SPDX-License-Identifier: Apache-2.0 */
/* A device in use: memory and launches. The stream runs commands in order. */
#include "platform/run/cuda_api.h"
#include "platform/run/driver_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cuda_buf {
	struct cuda_dev *dev;
	uint64_t at; /* its address for kernels */
	size_t bytes;
	char *host; /* the same memory for the host; NULL: the host does not see it */
	bool mapped;
	char *copy; /* of the mapped part, from map_at on, if there is no host; malloc'd */
	size_t map_at, map_bytes;
};

struct cuda_job {
	struct cuda_dev *dev;
	struct cuda_graph *graph; /* of a graph, which has only this and the device; else NULL */
	void *function;
	int group, threads, shared, nargs; /* nargs: with the range's two, which are the last */
	int64_t begin, end, once;
	int nspots;
	struct cuda_spot spot[CUDA_MAX_ARGS];
	uint64_t value[CUDA_MAX_ARGS]; /* those of the spots are set when it starts */
	void *arg[CUDA_MAX_ARGS];      /* addresses of the values */
};

int cuda_enter(struct cuda_dev *d)
{
	if (d->lost)
		return fail(E_IO, "the CUDA device is lost (%s); start this program again to use it", d->why);
	return cuda_done(d, "cuCtxPushCurrent_v2", d->api->cuCtxPushCurrent_v2(d->context));
}

void cuda_exit(struct cuda_dev *d)
{
	void *before = NULL;
	(void)d->api->cuCtxPopCurrent_v2(&before);
}

static int make_stream(struct cuda_dev *d)
{
	int rc = cuda_enter(d);
	if (rc < 0)
		return rc;
	int code = d->api->cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
	rc = cuda_got(d, "cuStreamCreate", d->stream != NULL, code);
	cuda_exit(d);
	return rc;
}

int cuda_use(struct cuda *c, int device, struct cuda_dev **out)
{
	char there[64];
	if (device < 0 || device >= c->ndevices)
		return fail(E_NOTFOUND, "there is no CUDA device %d; %s%s%s", device,
			    driver_devices("cuda", c->ndevices, there), c->note[0] ? "; " : "", c->note);
	int rc = cuda_usable(&c->device[device].info);
	struct cuda_dev *d = rc < 0 ? NULL : calloc(1, sizeof *d);
	if (rc < 0)
		return rc;
	if (!d)
		return fail(E_NOMEM, "no memory for a CUDA device");
	d->api = &c->api;
	d->info = &c->device[device].info;
	d->id = c->device[device].id;
	int code = d->api->cuDevicePrimaryCtxRetain(&d->context, d->id);
	rc = cuda_got(d, "cuDevicePrimaryCtxRetain", d->context != NULL, code);
	if (rc < 0)
		d->context = NULL;
	else
		rc = make_stream(d);
	if (rc < 0)
		cuda_leave(d);
	else
		*out = d;
	return rc;
}

const struct cuda_info *cuda_dev_info(const struct cuda_dev *d)
{
	return d->info;
}

void cuda_leave(struct cuda_dev *d)
{
	if (!d)
		return;
	if (d->stream && !d->lost && cuda_enter(d) >= 0) {
		(void)cuda_done(d, "cuStreamDestroy_v2", d->api->cuStreamDestroy_v2(d->stream));
		cuda_exit(d);
	}
	if (d->context && !d->lost)
		(void)d->api->cuDevicePrimaryCtxRelease(d->id);
	free(d);
}

/* ---- memory ---- */

static int alloc(struct cuda_buf *b)
{
	struct cuda_dev *d = b->dev;
	int rc = cuda_enter(d);
	if (rc < 0)
		return rc;
	int code = d->api->cuMemAlloc_v2(&b->at, b->bytes);
	rc = cuda_got(d, "cuMemAlloc_v2", b->at != 0, code);
	cuda_exit(d);
	return rc;
}

int cuda_alloc(struct cuda_dev *d, int64_t bytes, struct cuda_buf **out)
{
	if (bytes < 1 || bytes > d->info->global_bytes || (uint64_t)bytes > SIZE_MAX)
		return fail(E_NOMEM, "a buffer of %lld bytes: the CUDA device allows 1 to %lld",
			    (long long)bytes, (long long)d->info->global_bytes);
	struct cuda_buf *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for a CUDA buffer");
	b->dev = d;
	b->bytes = (size_t)bytes;
	int rc = alloc(b);
	if (rc < 0)
		free(b);
	else
		*out = b;
	return rc;
}

void cuda_free(struct cuda_buf *b)
{
	if (!b)
		return;
	struct cuda_dev *d = b->dev;
	if (!d->lost && cuda_enter(d) >= 0) {
		int code = b->host ? d->api->cuMemFreeHost(b->host) : d->api->cuMemFree_v2(b->at);
		(void)cuda_done(d, "cuMemFree_v2", code);
		cuda_exit(d);
	}
	free(b->copy);
	free(b);
}

/* A part of a buffer that is not mapped. */
static int check_part(const struct cuda_buf *b, int64_t at, int64_t bytes)
{
	if (b->mapped || at < 0 || bytes < 0 || (uint64_t)at > b->bytes ||
	    (uint64_t)bytes > b->bytes - (uint64_t)at)
		return fail(E_USAGE, "bytes %lld to %lld of a CUDA buffer of %zu, or it is mapped already",
			    (long long)at, (long long)((uint64_t)at + (uint64_t)bytes), b->bytes);
	return E_OK;
}

/* The calls from here to cuda_map are made with the context current. */
static int synchronize(struct cuda_dev *d)
{
	return cuda_done(d, "cuStreamSynchronize", d->api->cuStreamSynchronize(d->stream));
}

/* One of from and to is given. */
static int copy(const struct cuda_buf *b, size_t at, const void *from, void *to, size_t bytes)
{
	struct cuda_dev *d = b->dev;
	if (b->host) {
		int rc = synchronize(d);
		if (rc >= 0)
			memcpy(from ? b->host + at : to, from ? from : b->host + at, bytes);
		return rc;
	}
	int rc = from ? cuda_done(d, "cuMemcpyHtoDAsync_v2",
				  d->api->cuMemcpyHtoDAsync_v2(b->at + at, from, bytes, d->stream))
		      : cuda_done(d, "cuMemcpyDtoHAsync_v2",
				  d->api->cuMemcpyDtoHAsync_v2(to, b->at + at, bytes, d->stream));
	return rc < 0 ? rc : synchronize(d);
}

static int copy_whole(struct cuda_buf *b, int64_t at, const void *from, void *to, int64_t bytes)
{
	int rc = check_part(b, at, bytes);
	if (rc < 0 || bytes == 0)
		return rc;
	rc = cuda_enter(b->dev);
	if (rc < 0)
		return rc;
	rc = copy(b, (size_t)at, from, to, (size_t)bytes);
	cuda_exit(b->dev);
	return rc;
}

int cuda_write(struct cuda_buf *b, int64_t at, const void *from, int64_t bytes)
{
	return copy_whole(b, at, from, NULL, bytes);
}

int cuda_read(struct cuda_buf *b, int64_t at, void *to, int64_t bytes)
{
	return copy_whole(b, at, NULL, to, bytes);
}

/* Moves the buffer to memory that both see. Where that fails it stays, and maps copy. */
static int share(struct cuda_buf *b)
{
	struct cuda_dev *d = b->dev;
	void *host = NULL;
	uint64_t at = 0;
	if (b->host || !cuda_shares(d->info))
		return E_OK;
	int code =
	    d->api->cuMemHostAlloc(&host, b->bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	int rc = cuda_got(d, "cuMemHostAlloc", host != NULL, code);
	if (rc < 0)
		return d->lost ? rc : E_OK;
	code = d->api->cuMemHostGetDevicePointer_v2(&at, host, 0);
	rc = cuda_got(d, "cuMemHostGetDevicePointer_v2", at != 0, code);
	if (rc >= 0)
		rc = copy(b, 0, NULL, host, b->bytes);
	if (rc < 0) {
		if (!d->lost)
			(void)d->api->cuMemFreeHost(host);
		return d->lost ? rc : E_OK;
	}
	rc = cuda_done(d, "cuMemFree_v2", d->api->cuMemFree_v2(b->at));
	b->host = host;
	b->at = at;
	d->moved++;
	return rc;
}

static int copy_out(struct cuda_buf *b, size_t at, size_t bytes)
{
	enum { ALIGN = 64 };
	int rc = b->copy ? synchronize(b->dev) : E_OK; /* cuda_unmap() may still be copying from it */
	if (rc < 0)
		return rc;
	free(b->copy);
	b->copy = aligned_alloc(ALIGN, (at % ALIGN + bytes + ALIGN - 1) / ALIGN * ALIGN);
	return b->copy ? copy(b, at, NULL, b->copy + at % ALIGN, bytes)
		       : fail(E_NOMEM, "no memory for a copy of a CUDA buffer");
}

static int map(struct cuda_buf *b, size_t at, size_t bytes, void **out)
{
	int rc = share(b);
	if (rc >= 0)
		rc = b->host ? synchronize(b->dev) : copy_out(b, at, bytes);
	if (rc < 0)
		return rc;
	b->mapped = true;
	b->map_at = at;
	b->map_bytes = bytes;
	*out = b->host ? b->host + at : b->copy + at % 64;
	return E_OK;
}

int cuda_map(struct cuda_buf *b, int64_t at, int64_t bytes, void **out)
{
	int rc =
	    bytes > 0 ? check_part(b, at, bytes) : fail(E_USAGE, "a map of %lld bytes", (long long)bytes);
	if (rc >= 0)
		rc = cuda_enter(b->dev);
	if (rc < 0)
		return rc;
	rc = map(b, (size_t)at, (size_t)bytes, out);
	cuda_exit(b->dev);
	return rc;
}

/* A copy of memory that the driver has not pinned has left that memory when the call returns. */
int cuda_unmap(struct cuda_buf *b)
{
	struct cuda_dev *d = b->dev;
	int rc = cuda_enter(d);
	if (rc < 0)
		return rc;
	if (!b->mapped)
		rc = fail(E_USAGE, "the CUDA buffer is not mapped");
	else if (!b->host)
		rc = cuda_done(d, "cuMemcpyHtoDAsync_v2",
			       d->api->cuMemcpyHtoDAsync_v2(b->at + b->map_at, b->copy + b->map_at % 64,
							    b->map_bytes, d->stream));
	b->mapped = false;
	cuda_exit(d);
	return rc;
}

/* ---- launches ---- */

enum { ALIGNED = 16 /* bytes: the widest access of a kernel */ };

static int check_launch(const struct cuda_code *c, int entry, const struct cuda_launch *at)
{
	if (entry < 0 || entry >= c->nentries || !c->entry[entry].function || at->begin < 0 ||
	    at->end < at->begin || at->at_once < 0 || at->nspots < 0 || at->nparams < 0 ||
	    at->nspots > CUDA_MAX_ARGS || at->nparams > CUDA_MAX_ARGS ||
	    at->nspots + at->nparams + 2 > CUDA_MAX_ARGS)
		return fail(E_USAGE, "a launch of entry %d from %lld to %lld", entry, (long long)at->begin,
			    (long long)at->end);
	if (!at->at_once && at->end - at->begin > INT32_MAX)
		return fail(E_INFEASIBLE, "a launch of %lld work items", (long long)(at->end - at->begin));
	for (int i = 0; i < at->nspots; i++) {
		const struct cuda_spot *s = &at->spot[i];
		if (s->buf->mapped || s->at < 0 || (uint64_t)s->at > s->buf->bytes || s->at % ALIGNED)
			return fail(
			    E_USAGE,
			    "CUDA buffer %d is mapped, begins behind its memory, or at byte %lld, which is "
			    "no multiple of %d",
			    i, (long long)s->at, (int)ALIGNED);
	}
	return E_OK;
}

static void set_args(struct cuda_job *j, const struct cuda_launch *at)
{
	int n = j->nspots = at->nspots;
	for (int i = 0; i < n; i++)
		j->spot[i] = at->spot[i];
	for (int i = 0; i < at->nparams; i++)
		j->value[n++] = (uint64_t)at->param[i];
	j->nargs = n + 2;
	for (int i = 0; i < j->nargs; i++)
		j->arg[i] = &j->value[i];
}

int cuda_prepare(struct cuda_code *c, int entry, const struct cuda_launch *at, struct cuda_job **out)
{
	int rc = check_launch(c, entry, at);
	if (rc >= 0 && c->dev->lost)
		rc = cuda_enter(c->dev);
	if (rc < 0)
		return rc;
	struct cuda_job *j = calloc(1, sizeof *j);
	if (!j)
		return fail(E_NOMEM, "no memory for a CUDA launch");
	const struct cuda_symbol *e = &c->entry[entry];
	int64_t grid = c->dev->info->grid < INT32_MAX / e->group ? c->dev->info->grid : INT32_MAX / e->group,
		most = grid * e->group;
	j->dev = c->dev;
	j->function = e->function;
	j->group = e->group;
	j->threads = e->threads;
	j->shared = e->shared;
	j->begin = at->begin;
	j->end = at->end;
	j->once = at->at_once && at->at_once < most ? at->at_once : most;
	set_args(j, at);
	*out = j;
	return E_OK;
}

static int launch(struct cuda_job *j, void *stream, int64_t begin, int64_t end)
{
	j->value[j->nargs - 2] = (uint64_t)begin;
	j->value[j->nargs - 1] = (uint64_t)end;
	unsigned blocks = (unsigned)((end - begin + j->group - 1) / j->group);
	return cuda_done(j->dev, "cuLaunchKernel",
			 j->dev->api->cuLaunchKernel(j->function, blocks, 1, 1, (unsigned)j->group,
						     (unsigned)j->threads, 1, (unsigned)j->shared, stream, j->arg, NULL));
}

int cuda_launch_in(struct cuda_job *j, void *stream)
{
	int rc = E_OK;
	for (int i = 0; i < j->nspots; i++)
		j->value[i] = j->spot[i].buf->at + (uint64_t)j->spot[i].at;
	for (int64_t at = j->begin; at < j->end && rc >= 0;) {
		int64_t end = j->end - at > j->once ? at + j->once : j->end;
		rc = launch(j, stream, at, end);
		at = end;
	}
	return rc;
}

int cuda_start(struct cuda_job *j)
{
	if (j->graph)
		return cuda_graph_start(j->graph);
	int rc = cuda_enter(j->dev);
	if (rc < 0)
		return rc;
	rc = cuda_launch_in(j, j->dev->stream);
	cuda_exit(j->dev);
	return rc;
}

int cuda_record(struct cuda_dev *d, struct cuda_job *const *job, int n, struct cuda_job **out)
{
	for (int i = 0; i < n; i++)
		if (job[i]->graph || job[i]->dev != d)
			return fail(E_USAGE, "launch %d is a graph, or of another device", i);
	if (n < 1)
		return fail(E_USAGE, "a graph of %d launches", n);
	struct cuda_job *j = calloc(1, sizeof *j);
	if (!j)
		return fail(E_NOMEM, "no memory for a graph of launches");
	j->dev = d;
	int rc = cuda_graph_make(d, job, n, &j->graph);
	if (rc < 0)
		free(j);
	else
		*out = j;
	return rc;
}

void cuda_drop(struct cuda_job *j)
{
	if (j)
		cuda_graph_free(j->graph);
	free(j);
}

enum { SPIN_NS = 200000, NAP_NS = 20000 };

/* Asks for the stream's state until it has ended; sleeps between two questions once SPIN_NS have passed. */
static int poll(struct cuda_dev *d, struct clock *clock, int64_t deadline_ns)
{
	int64_t start_ns = clock_now(clock), now_ns = start_ns;
	for (;;) {
		int code = d->api->cuStreamQuery(d->stream);
		if (code != CUDA_ERROR_NOT_READY)
			return cuda_done(d, "cuStreamQuery", code);
		now_ns = clock_now(clock);
		if (now_ns >= deadline_ns)
			return fail(E_TIMEOUT, "the CUDA device did not end a kernel in time");
		if (now_ns - start_ns > SPIN_NS)
			nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	}
}

int cuda_wait(struct cuda_dev *d, struct clock *clock, int64_t deadline_ns)
{
	int rc = cuda_enter(d);
	if (rc >= 0) {
		rc = deadline_ns == INT64_MAX ? synchronize(d) : poll(d, clock, deadline_ns);
		cuda_exit(d);
	}
	if (rc < 0 && !d->lost) { /* nobody knows what still runs, so nothing may be freed any more */
		d->lost = true;
		snprintf(d->why, sizeof d->why, "%s", err_text());
	}
	return rc;
}
