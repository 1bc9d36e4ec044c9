/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/profile.h"
#include "platform/base/buf.h"
#include "platform/base/log.h"
#include "agent/run/plan_device.h"
#include "agent/cache/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *event_json(const struct plan_kernel *k, const struct trace_event *e, int thread, int64_t zero)
{
	double us = (double)(e->end_ns - e->begin_ns) / 1e3;
	return json_pack("{so ss ss so so si si s{ss so so}}", "name", json_text(k->name), "cat",
			 ready_kind(k), "ph", "X", "ts", json_real((double)(e->begin_ns - zero) / 1e3), "dur",
			 json_real(us), "pid", 1, "tid", thread + 1, "args", "kernels", ready_kind(k), "task",
			 json_text(k->label), "mflop", json_num(k->flops / 1e6));
}

/* maps: the two share memory, which the processor may use while it is mapped. */
static json_t *move_json(const struct trace_event *e, int lane, int64_t zero, bool maps)
{
	static const char *const name[2][2] = {{"copy from the device", "copy to the device"},
					       {"map the device's memory", "unmap the device's memory"}};
	return json_pack("{ss ss ss so so si si}", "name", name[maps][e->kernel == TRACE_TO_DEVICE], "cat",
			 maps ? "map" : "copy", "ph", "X", "ts",
			 json_real((double)(e->begin_ns - zero) / 1e3), "dur",
			 json_real((double)(e->end_ns - e->begin_ns) / 1e3), "pid", 1, "tid", lane + 1);
}

/* device: NULL for a thread of the processor. */
static json_t *lane_name(int lane, const char *device)
{
	char name[32];
	snprintf(name, sizeof name, "thread %d", lane + 1);
	return json_pack("{ss ss si si s{so}}", "name", "thread_name", "ph", "M", "pid", 1, "tid", lane + 1,
			 "args", "name", json_text(device ? device : name));
}

/* When the first event of any lane began. */
static int64_t first_ns(const struct trace *t)
{
	const struct trace_event *e;
	int64_t least = INT64_MAX;
	for (int i = 0; i < trace_threads(t); i++)
		if (trace_events(t, i, &e) && e->begin_ns < least)
			least = e->begin_ns;
	return least;
}

/* device: whose lane is the last one; NULL: there is none. */
static json_t *trace_json(const struct plan *p, const struct trace *t, const char *device)
{
	const struct plan_kernel *k;
	const struct trace_event *e;
	json_t *list = json_array();
	int nkernels = plan_kernels(p, &k);
	int64_t zero = first_ns(t);
	bool maps = plan_device_use(p).maps > 0;
	for (int i = 0; i < trace_threads(t); i++) {
		json_array_append_new(list, lane_name(i, i + 1 == trace_threads(t) ? device : NULL));
		int n = trace_events(t, i, &e);
		for (int j = 0; j < n; j++)
			if (e[j].kernel < 0)
				json_array_append_new(list, move_json(&e[j], i, zero, maps));
			else if (e[j].kernel < nkernels)
				json_array_append_new(list, event_json(&k[e[j].kernel], &e[j], i, zero));
	}
	return json_pack("{so ss}", "traceEvents", list, "displayTimeUnit", "ns");
}

static int write_json(const char *path, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
	int rc = text ? file_write(path, text, strlen(text)) : fail(E_NOMEM, "no memory for the trace");
	free(text);
	json_decref(o);
	return rc;
}

int profile_trace(struct ready *r, int runs, const char *path)
{
	const struct plan_kernel *k;
	/* The pool cuts a thread's share into four parts, and one thread may run the parts of all the
	 * others. */
	int threads = pool_threads(r->host->pool), lanes = threads + (r->host->name != NULL);
	struct plan_device_use use = plan_device_use(r->plan);
	int each = (plan_kernels(r->plan, &k) + 1) * runs * 8 * (4 * threads + 1) +
		   runs * (use.copies + 2 * use.maps);
	struct trace *t;
	int rc = trace_open(&t, &clock_real, lanes, each);
	if (rc < 0)
		return rc;
	plan_trace(r->plan, t);
	for (int i = 0; i < runs && rc >= 0; i++)
		rc = plan_run(r->plan, r->in, r->out);
	plan_trace(r->plan, NULL);
	if (rc >= 0 && trace_lost(t))
		log_info("%lld event%s missing from the trace", (long long)trace_lost(t),
			 trace_lost(t) == 1 ? " is" : "s are");
	if (rc >= 0)
		rc = write_json(path, trace_json(r->plan, t, r->host->name));
	trace_close(t);
	return rc;
}

static void symbol(void *ctx, const struct plan_kernel *k, int entry, const void *at, size_t bytes)
{
	struct buf *out = ctx;
	size_t from = out->n;
	buf_printf(out, "%lx %zx hone:%s [%s] %s", (unsigned long)(uintptr_t)at, bytes, k->name, k->label,
		   ready_kind(k));
	if (entry)
		buf_printf(out, " part %d", entry + 1);
	for (size_t i = from; buf_ok(out) && i < out->n; i++)
		if ((unsigned char)out->p[i] < ' ') /* a node's name may hold any byte */
			out->p[i] = '_';
	buf_puts(out, "\n");
}

/* Everybody can write in /tmp, so the file is created anew and never opened through somebody's link. */
static int create_map(const char *path)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return fail(E_IO, "cannot replace %s: %s; remove it", path, strerror(errno));
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? fail(E_IO, "cannot write %s: %s; is /tmp writable?", path, strerror(errno)) : fd;
}

int profile_perf_map(const struct plan *p)
{
	char path[64];
	struct buf text = {0};
	snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
	plan_symbols(p, symbol, &text);
	int fd = buf_ok(&text) ? create_map(path) : fail(E_NOMEM, "no memory for the map of kernels"),
	    rc = fd;
	if (fd >= 0 && text.n && write(fd, text.p, text.n) != (ssize_t)text.n)
		rc = fail(E_IO, "cannot write %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	buf_free(&text);
	return rc < 0 ? rc : 0;
}
