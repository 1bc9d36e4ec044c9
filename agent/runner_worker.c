/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the stream: a runner whose work is done by a child. A child that dies, hangs or talks
 * nonsense is stopped; the next call starts another. Handles carry the number of the child that made them, so
 * that an old one is never taken for one of a new child's. */
#include "agent/wire.h"
#include "agent/wire_msg.h"
#include "platform/child.h"
#include "platform/log.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker that is itself at the deadline answers within this; one that does not is stopped. */
#define GRACE_NS (20 * NS_PER_MS)
/* A worker that has not started by then, or not handed over what it has, is broken. */
#define START_NS (10 * NS_PER_S)

enum { HANDLE_BITS = 16, MAX_BIRTHS = 1 << 14 };

struct remote {
	struct runner base;
	struct target target;
	char path[PATH_MAX], device[32];
	struct child child; /* pid 0: none now */
	int births;         /* children started so far */
	struct arena arena;
	struct buf request, reply;
};

static int find_worker(const char *path, char out[PATH_MAX])
{
	const char *env = getenv("HONE_WORKER");
	char dir[PATH_MAX - 16];
	if (!path && env && env[0])
		path = env;
	if (path) {
		snprintf(out, PATH_MAX, "%s", path);
	} else {
		int rc = file_self_dir(dir, sizeof dir);
		if (rc < 0)
			return rc;
		snprintf(out, PATH_MAX, "%s/hone-worker", dir);
	}
	if (!file_exists(out))
		return fail(E_NOTFOUND, "no hone-worker at %s; install it there or set HONE_WORKER", out);
	return E_OK;
}

static int exchange(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c);

static int64_t by(const struct remote *w, int64_t deadline_ns)
{
	int64_t latest_ns = clock_now(w->base.clock) + START_NS;
	return latest_ns < deadline_ns ? latest_ns : deadline_ns;
}

/* The child has to be up by the caller's deadline. */
static int start(struct remote *w, int64_t deadline_ns)
{
	char threads[16];
	struct buf target = {0};
	struct cur c;
	snprintf(threads, sizeof threads, "%d", w->base.threads);
	target_text(&w->target, &target);
	char *argv[] = {w->path,    "--serve",   "--device",
			w->device,  "--threads", threads,
			"--target", target.p,    (log_level() == LOG_VERBOSE ? "--verbose" : NULL),
			NULL};
	int rc =
	    buf_ok(&target) ? child_start(&w->child, argv, NULL) : fail(E_NOMEM, "no memory for a worker");
	buf_free(&target);
	if (rc < 0)
		return rc;
	w->births++;
	struct buf keep = w->request; /* a request may wait for the new worker */
	w->request = (struct buf){0};
	rc = exchange(w, WIRE_HELLO, by(w, deadline_ns), &c);
	buf_free(&w->request);
	w->request = keep;
	return fail_in(rc, "hone-worker");
}

static void stop(struct remote *w)
{
	(void)child_stop(&w->child, 0);
}

/* Sends the request, receives the reply and its rc. After an error of the stream the child is gone. */
static int exchange(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c)
{
	uint32_t got = 0;
	int64_t end = deadline_ns > INT64_MAX - GRACE_NS ? INT64_MAX : deadline_ns + GRACE_NS;
	int rc = wire_send(w->child.in, w->base.clock, end, type, &w->request);
	if (rc >= 0)
		rc = wire_receive(w->child.out, w->base.clock, end, &got, &w->reply);
	if (rc < 0) {
		stop(w);
		if (rc == E_TIMEOUT)
			return fail_in(rc, "the worker did not answer in time and was stopped");
		return rc == E_NOMEM ? rc : fail_in(E_CHILD, "the worker died");
	}
	*c = (struct cur){.p = (const uint8_t *)buf_str(&w->reply), .n = w->reply.n};
	int said = (int)cur_u32(c);
	if (got != (type | WIRE_REPLY) || c->bad || said > 0 || said < E_STOPPED) {
		stop(w);
		return fail(E_CHILD, "the worker answered nonsense and was stopped");
	}
	if (said == E_OK)
		return E_OK;
	arena_reset(&w->arena);
	const char *text = wire_get_str(c, 8192, &w->arena);
	return fail(said, "%s", text ? text : "the worker gave no reason");
}

/* A request to the living child, or to a new one. */
static int ask(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c)
{
	if (!w->child.pid) {
		int rc = w->births < MAX_BIRTHS ? start(w, deadline_ns)
						: fail(E_CHILD, "%d workers have died; giving up", w->births);
		if (rc < 0)
			return rc;
	}
	return exchange(w, type, deadline_ns, c);
}

static int nonsense(struct remote *w)
{
	stop(w);
	return fail(E_CHILD, "the worker's answer is damaged; it was stopped");
}

/* Handle of the living child, as callers see it, and back: -1 if its child is gone. */
static int outer(const struct remote *w, int inner)
{
	return w->births << HANDLE_BITS | inner;
}

static int inner(const struct remote *w, int handle)
{
	bool alive = w->child.pid && handle >= 0 && handle >> HANDLE_BITS == w->births;
	return alive ? handle & ((1 << HANDLE_BITS) - 1) : -1;
}

static int gone(int handle)
{
	return fail(E_CHILD, "handle %d was lost when its worker died; build it again", handle);
}

static struct remote *remote_of(struct runner *r)
{
	return (struct remote *)r;
}

static int remote_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct remote *w = remote_of(r);
	struct cur c;
	*handle = -1;
	*m = (struct meas){.threads = r->threads};
	int64_t left = wire_left(r->clock, deadline_ns);
	if (left == 0)
		return fail(E_TIMEOUT, "the deadline has passed");
	buf_clear(&w->request);
	buf_u64(&w->request, (uint64_t)left);
	wire_put_str(&w->request, task);
	wire_put_str(&w->request, cand);
	int rc = ask(w, WIRE_BUILD, deadline_ns, &c);
	if (rc < 0)
		return rc;
	int h = (int)cur_u32(&c);
	wire_get_meas(&c, m);
	if (c.bad || c.at != c.n || h < -1 || h >= 1 << HANDLE_BITS || (h >= 0) != (m->status == MEAS_OK))
		return nonsense(w);
	*handle = h < 0 ? -1 : outer(w, h);
	return E_OK;
}

static int remote_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, int cold,
		       int64_t deadline_ns, struct meas *m)
{
	struct remote *w = remote_of(r);
	struct cur c;
	if (n < 0 || n > WIRE_MAX_HANDLES || rounds < 0 || rounds > WIRE_MAX_ROUNDS)
		return fail(E_USAGE, "%d kernels in %d rounds cannot be timed", n, rounds);
	int64_t left = wire_left(r->clock, deadline_ns);
	if (left == 0)
		return fail(E_TIMEOUT, "the deadline has passed");
	buf_clear(&w->request);
	buf_u64(&w->request, (uint64_t)left);
	buf_u64(&w->request, (uint64_t)abort_ns);
	buf_u32(&w->request, (uint32_t)rounds);
	buf_u32(&w->request, cold != 0);
	buf_u32(&w->request, (uint32_t)n);
	for (int i = 0; i < n; i++) {
		int h = inner(w, handles[i]);
		if (h < 0)
			return gone(handles[i]);
		buf_u32(&w->request, (uint32_t)h);
	}
	int rc = ask(w, WIRE_TIME, deadline_ns, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		wire_get_meas(&c, &m[i]);
	return c.bad || c.at != c.n ? nonsense(w) : E_OK;
}

static int remote_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct remote *w = remote_of(r);
	struct cur c;
	int h = inner(w, handle);
	if (h < 0)
		return gone(handle);
	buf_clear(&w->request);
	buf_u32(&w->request, (uint32_t)h);
	int rc = ask(w, WIRE_CODE, by(w, deadline_ns), &c);
	if (rc < 0)
		return rc;
	size_t n = cur_u32(&c);
	const void *p = cur_bytes(&c, n);
	if (!p || c.at != c.n)
		return nonsense(w);
	void *copy = arena_try(a, n, 1);
	if (!copy)
		return E_NOMEM;
	memcpy(copy, p, n);
	*out = (struct blob){.p = copy, .n = n};
	return E_OK;
}

/* A child that cannot be told is gone, and the handle with it: nothing to report. */
static void remote_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct remote *w = remote_of(r);
	struct cur c;
	int h = handle < 0 ? -1 : inner(w, handle);
	if (!w->child.pid || (handle >= 0 && h < 0))
		return;
	buf_clear(&w->request);
	buf_u32(&w->request, (uint32_t)h);
	(void)!exchange(w, WIRE_DROP, by(w, deadline_ns), &c);
}

static void remote_close(struct runner *r)
{
	struct remote *w = remote_of(r);
	(void)child_stop(&w->child, 100 * NS_PER_MS);
	arena_free(&w->arena);
	buf_free(&w->request);
	buf_free(&w->reply);
	free(w);
}

static const struct runner_ops ops = {
    .build = remote_build,
    .time = remote_time,
    .code = remote_code,
    .drop = remote_drop,
    .close = remote_close,
};

int runner_worker(const char *path, const char *device, const struct target *t, int threads,
		  struct runner **out)
{
	struct remote *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	w->child = (struct child){.in = -1, .out = -1};
	w->target = *t;
	w->base =
	    (struct runner){.ops = &ops, .clock = &clock_real, .target = &w->target, .threads = threads};
	snprintf(w->device, sizeof w->device, "%s", device);
	int rc = find_worker(path, w->path);
	if (rc >= 0)
		rc = start(w, INT64_MAX);
	if (rc < 0) {
		remote_close(&w->base);
		return rc;
	}
	*out = &w->base;
	return E_OK;
}
