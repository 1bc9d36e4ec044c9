/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the stream: a runner whose work is done by a child. A child that dies, hangs or sends
 * nonsense is stopped, and the next call starts another. Handles contain the number of the child that made
 * them, so that an old handle is never taken for one of a new child. */
#include "agent/worker/builders.h"
#include "agent/worker/wire.h"
#include "agent/worker/wire_msg.h"
#include "platform/base/log.h"
#include "platform/machine/topo.h"
#include "platform/run/dev.h"
#include "platform/run/device_name.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* A worker that reaches the deadline itself answers within this time; one that does not is stopped. */
#define GRACE_NS (20 * NS_PER_MS)
/* A worker that takes longer to start, or to hand over its code, is broken. */
#define START_NS (10 * NS_PER_S)
/* Timeout of a build inside a box, including its task's inputs and the check: a compiler that hangs must not
 * cost the whole box. */
#define BUILD_NS (20 * NS_PER_S)
/* The same on a device with a driver, which hangs more often: it builds, and may compile at the first launch.
 */
#define DEVICE_NS (12 * NS_PER_S)
/* A worker that is not needed any more ends by itself in this time, or is killed. */
#define LEAVE_NS (100 * NS_PER_MS)

enum { HANDLE_BITS = 16, MAX_BIRTHS = 1 << 14, BUILDERS_ENOUGH = 2 };

struct remote {
	struct runner base;
	struct wire_hello hello;
	struct wire_hello of_builders; /* the same without libraries */
	struct hire hire;
	struct child child;        /* in -1: none now */
	cpu_set_t spared;          /* cpus that the worker leaves to builders */
	struct builders *builders; /* NULL: none */
	int births;                /* children started so far */
	int blamed;                /* by the last answer: the kernel that lost the device; -1: none */
	enum meas_status how;      /* it hung, or not */
	struct arena arena;
	struct buf request, reply;
};

static int exchange(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c);
static int nonsense(struct remote *w);

static int64_t within(const struct remote *w, int64_t ns, int64_t deadline_ns)
{
	int64_t latest_ns = clock_now(w->base.clock) + ns;
	return latest_ns < deadline_ns ? latest_ns : deadline_ns;
}

static int64_t by(const struct remote *w, int64_t deadline_ns)
{
	return within(w, START_NS, deadline_ns);
}

/* Leaves the cores of the fastest cluster, which the target describes, if the threads have room there. */
static void keep_to_cluster(const struct remote *w, cpu_set_t *cpus)
{
	struct clusters c;
	if (!CPU_COUNT(cpus))
		return;
	topo_clusters("", cpus, &c);
	if (w->base.threads <= c.of[0].cores)
		*cpus = c.of[0].cpus;
}

/* Tells the worker our cpus less the spared ones, our priority and our memory limit: a worker that is not our
 * child does not inherit them. */
static void place_worker(struct remote *w)
{
	cpu_set_t mine;
	struct rlimit memory;
	int nice = getpriority(PRIO_PROCESS, 0);
	w->hello.cpus = 0;
	topo_allowed(&mine);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &w->spared))
			CPU_CLR(cpu, &mine);
	keep_to_cluster(w, &mine);
	for (int cpu = 0; cpu < 64 && CPU_COUNT(&mine) <= 64; cpu++)
		if (CPU_ISSET(cpu, &mine))
			w->hello.cpus |= UINT64_C(1) << cpu;
	if (getrlimit(RLIMIT_DATA, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY)
		w->hello.memory_bytes = (int64_t)memory.rlim_cur;
	w->hello.nice = sched_getscheduler(0) == SCHED_IDLE ? 20 : nice < 0 ? 0 : nice;
}

static int learn_emitter(struct remote *w, struct cur *c)
{
	arena_reset(&w->arena);
	const char *emitter = wire_get_str(c, sizeof w->base.emitter - 1, &w->arena);
	if (!emitter || c->at != c->n)
		return nonsense(w);
	snprintf(w->base.emitter, sizeof w->base.emitter, "%s", emitter);
	return E_OK;
}

static int greet(struct remote *w, int64_t deadline_ns)
{
	struct cur c;
	struct buf keep = w->request; /* a request may be waiting for the new worker */
	w->request = (struct buf){0};
	wire_put_hello(&w->request, &w->hello);
	int rc = exchange(w, WIRE_HELLO, by(w, deadline_ns), &c);
	if (rc >= 0)
		rc = learn_emitter(w, &c);
	buf_free(&w->request);
	w->request = keep;
	return rc;
}

/* The worker must be up by the caller's deadline. A socket at which we are not served (its limit of workers
 * is reached, or the program behind it is broken) is not used any more. */
static int start(struct remote *w, int64_t deadline_ns)
{
	int rc;
	place_worker(w);
	do {
		rc = hire(&w->hire, w->base.clock, by(w, deadline_ns), &w->child);
		if (rc < 0)
			return rc;
		w->births++;
		rc = greet(w, deadline_ns);
	} while (rc == E_CHILD && hire_elsewhere(&w->hire));
	return fail_in(rc, "hone-worker");
}

static void stop(struct remote *w)
{
	(void)child_stop(&w->child, 0);
}

/* Which kernel a failed TIME blames. */
static void take_blame(struct remote *w, struct cur *c)
{
	int at = (int)cur_u32(c);
	uint32_t how = cur_u32(c);
	if (c->bad || c->at != c->n || (how != MEAS_TIMEOUT && how != MEAS_CRASH))
		return;
	w->blamed = at;
	w->how = (enum meas_status)how;
}

/* Sends the request, receives the reply and its rc. After an error of the stream the child is stopped. */
static int exchange(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c)
{
	uint32_t got = 0;
	w->blamed = -1;
	int64_t end = deadline_ns > INT64_MAX - GRACE_NS ? INT64_MAX : deadline_ns + GRACE_NS;
	int rc = wire_send(w->child.in, w->base.clock, end, type, &w->request);
	if (rc >= 0)
		rc = w->builders ? builders_wait(w->builders, w->child.out, end)
				 : fd_await(w->child.out, w->base.clock, end, WORKER_STOP_NS);
	if (rc >= 0)
		rc = wire_receive(w->child.out, w->base.clock, end, &got, &w->reply);
	if (rc < 0) {
		stop(w);
		if (rc == E_TIMEOUT)
			return fail_in(rc, "the worker did not answer in time and was stopped");
		return rc == E_NOMEM || rc == E_STOPPED ? rc : fail_in(E_CHILD, "the worker died");
	}
	*c = (struct cur){.p = (const uint8_t *)buf_str(&w->reply), .n = w->reply.n};
	int said = (int)cur_u32(c);
	if (got != (type | WIRE_REPLY) || c->bad || said > 0 || said < E_LAST) {
		stop(w);
		return fail(E_CHILD, "the worker sent an invalid answer and was stopped");
	}
	if (said == E_OK)
		return E_OK;
	arena_reset(&w->arena);
	const char *text = wire_get_str(c, 8192, &w->arena);
	if (said == E_CHILD) { /* its device is lost */
		take_blame(w, c);
		stop(w);
	}
	return fail(said, "%s", text ? text : "the worker gave no reason");
}

/* Sends a request to the living child, or starts one. */
static int ask(struct remote *w, uint32_t type, int64_t deadline_ns, struct cur *c)
{
	if (w->child.in < 0) {
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

/* Converts a handle of the living child to the caller's form and back; -1: its child is gone. */
static int outer(const struct remote *w, int inner)
{
	return w->births << HANDLE_BITS | inner;
}

static int inner(const struct remote *w, int handle)
{
	bool alive = w->child.in >= 0 && handle >= 0 && handle >> HANDLE_BITS == w->births;
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

static struct key build_key(const char *task, const char *cand)
{
	return hash_join(hash_text(task), hash_text(cand));
}

/* Reads the answer to BUILD or LOAD. */
static int take_handle(struct remote *w, struct cur *c, int *handle, struct meas *m)
{
	int h = (int)cur_u32(c);
	wire_get_meas(c, m);
	if (c->bad || c->at != c->n || h < -1 || h >= 1 << HANDLE_BITS || (h >= 0) != (m->status == MEAS_OK))
		return nonsense(w);
	*handle = h < 0 ? -1 : outer(w, h);
	if (m->status == MEAS_TIMEOUT && device_is_named(w->hello.device))
		stop(w); /* its device is lost */
	return E_OK;
}

static int load(struct remote *w, const char *task, struct key object, struct blob code, int64_t deadline_ns,
		int *handle, struct meas *m)
{
	struct cur c;
	buf_clear(&w->request);
	buf_u64(&w->request, (uint64_t)wire_left(w->base.clock, deadline_ns));
	wire_put_str(&w->request, task);
	buf_u64(&w->request, object.hi);
	buf_u64(&w->request, object.lo);
	buf_u32(&w->request, (uint32_t)code.n);
	buf_add(&w->request, code.p, code.n);
	int rc = ask(w, WIRE_LOAD, deadline_ns, &c);
	return rc < 0 ? rc : take_handle(w, &c, handle, m);
}

/* Fetches the result of a builder. E_NOTFOUND: it has none. The caller frees out->code. */
static int take_made(struct remote *w, const char *task, const char *cand, int64_t deadline_ns,
		     struct made *out)
{
	struct key k = build_key(task, cand);
	int rc = w->builders ? builders_collect(w->builders, k, deadline_ns, out) : E_NOTFOUND;
	if (rc < 0 && w->builders)
		builders_forget(w->builders, k);
	return rc;
}

/* Fetches and loads the result of a builder. */
static int take_ahead(struct remote *w, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		      struct meas *m)
{
	struct made made;
	int rc = take_made(w, task, cand, deadline_ns, &made);
	if (rc < 0)
		return rc;
	const struct blob code = {.p = buf_str(&made.code), .n = made.code.n};
	if (made.m.status == MEAS_OK) {
		rc = load(w, task, made.object, code, deadline_ns, handle, m);
		m->build_ns += made.m.build_ns;
	} else {
		*m = made.m;
	}
	buf_free(&made.code);
	return rc;
}

static int build(struct remote *w, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		 struct meas *m)
{
	struct cur c;
	int rc = take_ahead(w, task, cand, deadline_ns, handle, m);
	if (rc != E_NOTFOUND)
		return rc;
	buf_clear(&w->request);
	buf_u64(&w->request, (uint64_t)wire_left(w->base.clock, deadline_ns));
	wire_put_str(&w->request, task);
	wire_put_str(&w->request, cand);
	rc = ask(w, WIRE_BUILD, deadline_ns, &c);
	return rc < 0 ? rc : take_handle(w, &c, handle, m);
}

/* A candidate that hung on a device has lost it, and with it the worker's other handles, which the caller
 * learns from E_TIMEOUT. Near the caller's deadline the worker stays, for it still has to hand over code. */
static int lose_device(struct remote *w, int rc, int64_t deadline_ns, const struct meas *m)
{
	if (rc == E_TIMEOUT && w->child.in >= 0 && clock_now(w->base.clock) < deadline_ns)
		stop(w);
	if (rc >= 0 && m->status == MEAS_TIMEOUT && w->child.in < 0)
		return fail(E_TIMEOUT, "the candidate hung, and its worker was stopped");
	return rc;
}

static int remote_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct remote *w = remote_of(r);
	bool apart = device_is_named(w->hello.device), limited = deadline_ns != INT64_MAX;
	*handle = -1;
	*m = (struct meas){.threads = r->threads};
	if (wire_left(r->clock, deadline_ns) == 0)
		return fail(E_TIMEOUT, "the deadline has passed");
	int64_t end_ns = limited ? within(w, apart ? DEVICE_NS : BUILD_NS, deadline_ns) : deadline_ns;
	int rc = build(w, task, cand, end_ns, handle, m);
	return apart && limited ? lose_device(w, rc, deadline_ns, m) : rc;
}

static enum ahead remote_ahead(struct runner *r, const char *task, const char *cand)
{
	struct remote *w = remote_of(r);
	return w->builders ? builders_add(w->builders, build_key(task, cand), task, cand) : AHEAD_NOT;
}

static enum ahead remote_progress(struct runner *r, const char *task, const char *cand)
{
	struct remote *w = remote_of(r);
	return w->builders ? builders_progress(w->builders, build_key(task, cand)) : AHEAD_NOT;
}

/* The worker was lost while it timed: by one kernel, if its last words say so, else by any of them. */
static void blame(const struct remote *w, struct meas *m, int n)
{
	if (w->blamed >= 0 && w->blamed < n)
		meas_blame(m, n, w->blamed, w->how);
	for (int i = 0; i < n && (w->blamed < 0 || w->blamed >= n); i++)
		m[i] = (struct meas){.status = MEAS_CRASH, .threads = w->base.threads};
}

static int remote_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
		       unsigned how, int64_t deadline_ns, struct meas *m)
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
	buf_u32(&w->request, how);
	buf_u32(&w->request, (uint32_t)n);
	meas_blame(m, n, -1, MEAS_OK);
	for (int i = 0; i < n; i++) {
		int h = inner(w, handles[i]);
		if (h < 0)
			return gone(handles[i]);
		buf_u32(&w->request, (uint32_t)h);
	}
	bool rest = w->builders && how & TIME_QUIET;
	if (rest)
		builders_rest(w->builders, true);
	int rc = ask(w, WIRE_TIME, deadline_ns, &c);
	if (rest)
		builders_rest(w->builders, false);
	if (rc == E_CHILD)
		blame(w, m, n);
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

/* If the child cannot be reached it is gone, and so is the handle: there is nothing to report. */
static void remote_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct remote *w = remote_of(r);
	struct cur c;
	int h = handle < 0 ? DROP_ALL : inner(w, handle);
	if (handle < 0 && w->builders)
		builders_clear(w->builders);
	if (handle == DROP_DEVICE && device_is_sole(w->hello.device))
		(void)child_stop(&w->child, LEAVE_NS);
	if (w->child.in < 0 || (handle >= 0 && h < 0))
		return;
	buf_clear(&w->request);
	buf_u32(&w->request, (uint32_t)h);
	(void)!exchange(w, WIRE_DROP, by(w, deadline_ns), &c);
}

static void remote_close(struct runner *r)
{
	struct remote *w = remote_of(r);
	builders_close(w->builders);
	(void)child_stop(&w->child, LEAVE_NS);
	arena_free(&w->arena);
	buf_free(&w->request);
	buf_free(&w->reply);
	free(w);
}

static const struct runner_ops ops = {
    .build = remote_build,
    .ahead = remote_ahead,
    .progress = remote_progress,
    .time = remote_time,
    .code = remote_code,
    .drop = remote_drop,
    .close = remote_close,
};

void worker_compiles_for(const char *device, char out[DEV_NAME_MAX])
{
	int kind = device_is_sole(device) ? (int)strcspn(device, ":") : DEV_NAME_MAX;
	snprintf(out, DEV_NAME_MAX, "%.*s", kind, device);
}

static struct remote *make_remote(const struct wire_hello *hello)
{
	struct remote *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->child = (struct child){.in = -1, .out = -1};
	w->hello = *hello;
	w->base = (struct runner){
	    .ops = &ops, .clock = &clock_real, .target = &w->hello.target, .threads = hello->threads};
	return w;
}

/* rc: the result of hire_find. */
static int start_first(struct remote *w, int rc, int64_t deadline_ns, struct runner **out)
{
	if (rc >= 0)
		rc = start(w, deadline_ns);
	if (rc < 0)
		remote_close(&w->base);
	else
		*out = &w->base;
	return rc < 0 ? rc : E_OK;
}

static int hire_one(const char *path, const struct wire_hello *hello, struct runner **out)
{
	struct remote *w = make_remote(hello);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	int rc = hire_find(&w->hire, path);
	/* workers behind the socket may open no device and no library */
	if (device_is_named(hello->device) || hello->libraries[0])
		hire_program(&w->hire);
	return start_first(w, rc, INT64_MAX, out);
}

int runner_worker(const char *path, const char *device, const struct target *t, int threads,
		  struct runner **out)
{
	struct wire_hello hello = {.target = *t, .threads = threads};
	snprintf(hello.device, sizeof hello.device, "%s", device);
	return hire_one(path, &hello, out);
}

int runner_worker_libraries(const char *path, const struct target *t, int threads, const char *libraries,
			    struct runner **out)
{
	struct wire_hello hello = {.device = "cpu", .target = *t, .threads = threads};
	int n = snprintf(hello.libraries, sizeof hello.libraries, "%s", libraries);
	return n < 0 || (size_t)n >= sizeof hello.libraries
		   ? fail(E_USAGE, "the list of libraries has more than %zu characters",
			  sizeof hello.libraries - 1)
		   : hire_one(path, &hello, out);
}

int runner_worker_again(struct runner *like, int64_t deadline_ns, struct runner **out)
{
	const struct remote *first = remote_of(like);
	struct wire_hello hello = first->hello;
	hello.libraries[0] = 0;
	struct remote *w = make_remote(&hello);
	if (!w)
		return fail(E_NOMEM, "no memory for a runner");
	w->hire = first->hire;
	w->spared = first->spared;
	return start_first(w, E_OK, deadline_ns, out);
}

/* Lets the worker that measures compile. */
static int emit(struct remote *w, const char *task, const char *cand, int64_t deadline_ns, struct made *out)
{
	struct cur c;
	buf_clear(&w->request);
	wire_put_str(&w->request, task);
	wire_put_str(&w->request, cand);
	int rc = ask(w, WIRE_EMIT, within(w, BUILD_NS, deadline_ns), &c);
	if (rc < 0)
		return rc;
	wire_get_meas(&c, &out->m);
	out->object.hi = cur_u64(&c);
	out->object.lo = cur_u64(&c);
	size_t n = cur_u32(&c);
	const void *bytes = cur_bytes(&c, n);
	if (c.bad || c.at != c.n || (n > 0) != (out->m.status == MEAS_OK))
		return nonsense(w);
	buf_add(&out->code, bytes, n);
	return E_OK;
}

int runner_worker_emit(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
		       struct key *object, struct buf *code, struct meas *m)
{
	struct remote *w = remote_of(r);
	struct made made = {0};
	int rc = take_made(w, task, cand, deadline_ns, &made);
	if (rc == E_NOTFOUND)
		rc = emit(w, task, cand, deadline_ns, &made);
	*object = made.object;
	*m = made.m;
	buf_add(code, buf_str(&made.code), made.code.n);
	if (rc >= 0 && !(buf_ok(&made.code) && buf_ok(code)))
		rc = fail(E_NOMEM, "no memory for code");
	buf_free(&made.code);
	return rc;
}

int runner_worker_load(struct runner *r, const char *task, struct key object, struct blob code,
		       int64_t deadline_ns, int *handle, struct meas *m)
{
	*handle = -1;
	*m = (struct meas){.threads = r->threads};
	return load(remote_of(r), task, object, code, deadline_ns, handle, m);
}

void runner_worker_rest(struct runner *r, bool rest)
{
	struct remote *w = remote_of(r);
	if (w->builders)
		builders_rest(w->builders, rest);
}

/* Finds cores that the threads do not use, the fastest first. */
static int spare_cores(struct remote *w, int want, int cpus[MOST_BUILDERS])
{
	struct topo topo;
	int n = 0;
	if (topo_read(&topo, NULL) < 0)
		return 0;
	while (n < want && w->base.threads + n < topo.cores) {
		cpus[n] = topo.core_cpu[w->base.threads + n];
		n++;
	}
	return n;
}

/* Tells the worker that measures to leave these cores to the builders. If that fails, the worker's
 * replacement is told. */
static void spare(struct remote *w, const int *cpus, int n)
{
	struct cur c;
	for (int i = 0; i < n; i++)
		CPU_SET(cpus[i], &w->spared);
	place_worker(w);
	buf_clear(&w->request);
	buf_u64(&w->request, w->hello.cpus);
	if (w->child.in >= 0)
		(void)!exchange(w, WIRE_PLACE, by(w, INT64_MAX), &c);
}

int runner_worker_builders(struct runner *r, int builders)
{
	struct remote *w = remote_of(r);
	int cpus[MOST_BUILDERS], want = builders < 0 ? BUILDERS_ENOUGH : builders;
	if (want > MOST_BUILDERS)
		return fail(E_USAGE, "%d builders; at most %d are possible", want, MOST_BUILDERS);
	int n = spare_cores(w, want, cpus);
	r->builders = builders < 0 ? n : builders;
	bool bound = n > 0 && n == r->builders;
	if (!r->builders)
		return E_OK;
	if (bound)
		spare(w, cpus, n);
	w->of_builders = w->hello;
	w->of_builders.libraries[0] = 0;
	worker_compiles_for(w->hello.device, w->of_builders.device);
	return builders_open(&w->hire, &w->of_builders, r->builders, bound ? cpus : NULL, r->clock,
			     &w->builders);
}

void worker_emitter(const char *device, const struct target *t, char out[32])
{
	struct runner *r;
	char name[DEV_NAME_MAX];
	out[0] = 0;
	worker_compiles_for(device, name);
	if (runner_worker(NULL, name, t, 1, &r) < 0)
		return;
	snprintf(out, 32, "%s", r->emitter);
	r->ops->close(r);
}
