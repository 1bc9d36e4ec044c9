/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates in this process: text -> loops -> object -> loaded code -> one checked run. Where kernels run
 * for real, that first run happens in a child process, whose crash or hang is data. */
#include "agent/local.h"
#include "kernels/space.h"
#include "platform/log.h"
#include "platform/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	IDLE_EXERCISES = 4, /* tasks kept that no handle uses */
	IDLE_OBJECTS = 32,  /* code kept that no handle uses: its numbers may be varied next */
	STACK_BYTES = 1 << 20,
	STACK_GUARD_BYTES = 1 << 16, /* at its low end: a multiple of every page size */
	CRASH_STACK_BYTES = 1 << 16, /* after that */
};

static struct local *local_of(struct runner *r)
{
	return (struct local *)r;
}

/* ---- what is kept between candidates ---- */

static int find_exercise(struct local *l, const char *text, struct exercise **out)
{
	struct key k = hash_text(text);
	for (struct exercise **at = &l->exercises; *at; at = &(*at)->next) {
		struct exercise *x = *at;
		if (!key_equal(x->key, k))
			continue;
		*at = x->next;
		x->next = l->exercises;
		*out = l->exercises = x;
		return E_OK;
	}
	struct exercise *x;
	int rc = exercise_open(text, &x);
	if (rc < 0)
		return rc;
	x->next = l->exercises;
	*out = l->exercises = x;
	return E_OK;
}

static struct object *find_object(struct local *l, struct key k)
{
	for (struct object **at = &l->objects; *at; at = &(*at)->next) {
		struct object *o = *at;
		if (!key_equal(o->key, k))
			continue;
		*at = o->next;
		o->next = l->objects;
		return l->objects = o;
	}
	return NULL;
}

static void object_close(struct local *l, struct object *o)
{
	l->dev->unload(o->code);
	free(o->bytes);
	free(o);
}

/* Lets go of what has been unused for longest. */
static void trim(struct local *l)
{
	int idle = 0;
	for (struct object **at = &l->objects; *at;) {
		struct object *o = *at;
		if (o->users || ++idle <= IDLE_OBJECTS) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		object_close(l, o);
	}
	idle = 0;
	for (struct exercise **at = &l->exercises; *at;) {
		struct exercise *x = *at;
		if (x->users || ++idle <= IDLE_EXERCISES) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		exercise_close(x);
	}
}

/* ---- building ---- */

static struct key object_key(const struct exercise *x, const struct loops *l)
{
	struct buf text = {0};
	loops_print(l, &text);
	struct key k = hash_join(x->key, hash_bytes(buf_str(&text), text.n, 0));
	buf_free(&text);
	return k;
}

static enum meas_status build_status(int rc)
{
	if (rc == E_INFEASIBLE)
		return strncmp(err_text(), "spill", 5) == 0 ? MEAS_SPILL : MEAS_INFEASIBLE;
	return rc == E_CORRUPT ? MEAS_INFEASIBLE : MEAS_BUILD;
}

static int make_object(struct local *l, struct key k, const struct loops *loops, struct object **out)
{
	struct blob bytes;
	int rc = l->emit->emit(loops, &l->target, &l->arena, &bytes);
	if (rc < 0)
		return rc;
	struct object *o = calloc(1, sizeof *o);
	void *copy = malloc(bytes.n ? bytes.n : 1);
	if (!o || !copy) {
		free(o);
		free(copy);
		return fail(E_NOMEM, "no memory for an object");
	}
	memcpy(copy, bytes.p, bytes.n);
	*o = (struct object){.next = l->objects, .key = k, .bytes = copy, .n = bytes.n};
	rc = l->dev->load(o->bytes, o->n, &o->code);
	if (rc < 0) {
		free(copy);
		free(o);
		return rc == E_CORRUPT ? fail_in(E_UNSUPPORTED, "load") : rc;
	}
	*out = l->objects = o;
	return E_OK;
}

static int compile(struct local *l, struct exercise *x, const char *cand, struct built **out)
{
	struct loops *loops;
	struct manifest *m = ARENA_NEW(&l->arena, struct manifest);
	struct object *o;
	int rc = lower(&x->task, cand, &l->target, &l->arena, &loops, m);
	if (rc < 0)
		return rc;
	strncpy(m->emitter, l->emit->name, sizeof m->emitter - 1);
	strncpy(m->version, l->emit->version(), sizeof m->version - 1);
	struct key k = object_key(x, loops);
	o = find_object(l, k);
	if (!o && (rc = make_object(l, k, loops, &o)) < 0)
		return rc;
	rc = built_open(x, o, m, l->dev, l->base.threads, out);
	return rc == E_CORRUPT ? fail_in(E_UNSUPPORTED, "manifest") : rc;
}

/* ---- the first run ---- */

static void run_flushed(const struct local *l, const struct built *b)
{
	unsigned old = fpu_flush();
	built_run(b, l->dev, NULL);
	fpu_restore(old);
}

/* 200 times what the machine's peaks allow, and 0.2 s for a busy machine. */
static int64_t patience_ns(const struct local *l, const struct exercise *x)
{
	double gflops = l->target.fma_gflops > 0 ? l->target.fma_gflops : 1;
	double gbs = l->target.bw_gbs[3] > 0 ? l->target.bw_gbs[3] : 1;
	double ns = task_flops(&x->task) / gflops + task_bytes(&x->task, true) / gbs;
	return (int64_t)(ns * 200) + 200 * NS_PER_MS;
}

/* Waits until the other end of the pipe closes; false: the time was over first. */
static bool wait_closed(int fd, int64_t end_ns)
{
	for (;;) {
		int64_t left = end_ns - clock_now(&clock_real);
		if (left <= 0)
			return false;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t ms = left / NS_PER_MS + 1;
		if (poll(&p, 1, ms > 1000 ? 1000 : (int)ms) > 0)
			return true;
	}
}

/* A candidate that crashed left its frames marked in the sanitizer's map of the stack that the next one gets.
 */
#define NO_SHADOW __attribute__((no_sanitize_address))

struct first_run {
	const struct local *l;
	const struct built *b;
	pid_t parent;
};

/* Not by default action: that would dump the worker's memory, which is the candidate's too. */
NO_SHADOW static void crash(int sig)
{
	_exit(sig);
}

NO_SHADOW static void catch_crashes(void *stack)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
	const stack_t s = {.ss_sp = stack, .ss_size = CRASH_STACK_BYTES};
	struct sigaction act = {.sa_handler = crash, .sa_flags = SA_ONSTACK};
	sigaltstack(&s, NULL);
	for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
		sigaction(fatal[i], &act, NULL);
}

NO_SHADOW static int be_the_candidate(void *ctx)
{
	const struct first_run *f = ctx;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_crashes((char *)f->l->stack + STACK_GUARD_BYTES);
	if (getppid() == f->parent)
		run_flushed(f->l, f->b);
	return 0;
}

static int open_stack(struct local *l)
{
	if (l->stack)
		return E_OK;
	void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	if (p == MAP_FAILED || mprotect(p, STACK_GUARD_BYTES, PROT_NONE) < 0)
		return fail(E_NOMEM, "no memory for the stack of candidates: %s", strerror(errno));
	l->stack = p;
	return E_OK;
}

/* Runs in a process of its own that shares this one's memory: forking a worker with a compiler in it copies
 * page tables and faults afterwards. A crash or hang is the child's alone; a wild write is not. */
static int run_isolated(struct local *l, const struct built *b, int64_t deadline_ns, enum meas_status *status)
{
	int fd[2], rc = open_stack(l);
	struct first_run f = {l, b, getpid()};
	if (rc < 0)
		return rc;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return fail(E_IO, "no pipe for a candidate: %s", strerror(errno));
	pid_t pid = clone(be_the_candidate, (char *)l->stack + STACK_BYTES, CLONE_VM | SIGCHLD, &f);
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return fail(E_IO, "no process for a candidate: %s; free some memory or processes",
			    strerror(errno));
	}
	int64_t end = clock_now(&clock_real) + patience_ns(l, b->x);
	bool finished = wait_closed(fd[0], end < deadline_ns ? end : deadline_ns);
	close(fd[0]);
	if (!finished)
		kill(pid, SIGKILL);
	int how = 0;
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	*status = !finished ? MEAS_TIMEOUT : WIFEXITED(how) && WEXITSTATUS(how) == 0 ? MEAS_OK : MEAS_CRASH;
	if (!finished && end >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline came while a candidate ran for the first time");
	return E_OK;
}

static int check(struct local *l, struct built *b, int64_t deadline_ns, struct meas *m)
{
	int rc = E_OK;
	exercise_poison(b->x);
	if (l->isolate)
		rc = run_isolated(l, b, deadline_ns, &m->status);
	else
		run_flushed(l, b);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	rc = exercise_check(b->x, &m->max_rel_err);
	if (rc != E_WRONG)
		return rc;
	m->status = MEAS_WRONG;
	return E_OK;
}

/* ---- the slots ---- */

static int new_handle(struct local *l)
{
	for (int i = 0; i < l->cap; i++)
		if (!l->built[i])
			return i;
	int cap = l->cap ? l->cap * 2 : 16;
	struct built **p = realloc(l->built, (size_t)cap * sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for handles");
	memset(p + l->cap, 0, (size_t)(cap - l->cap) * sizeof *p);
	int first = l->cap;
	l->built = p;
	l->cap = cap;
	return first;
}

static bool is_data(int rc)
{
	return rc == E_INFEASIBLE || rc == E_CORRUPT || rc == E_UNSUPPORTED || rc == E_NOTFOUND;
}

static int local_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		       struct meas *m)
{
	struct local *l = local_of(r);
	struct exercise *x;
	struct built *b = NULL;
	*handle = -1;
	*m = (struct meas){.status = MEAS_OK, .threads = r->threads};
	if (clock_now(r->clock) >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline has passed");
	arena_reset(&l->arena);
	int rc = find_exercise(l, task, &x);
	if (rc < 0)
		return fail_in(rc, "task");
	x->users++; /* while it is built */
	int64_t start = clock_now(r->clock);
	rc = compile(l, x, cand, &b);
	m->build_ns = clock_now(r->clock) - start;
	x->users--;
	if (is_data(rc)) {
		m->status = build_status(rc);
		rc = E_OK;
	}
	if (b && (rc = check(l, b, deadline_ns, m)) >= 0 && m->status == MEAS_OK &&
	    (rc = new_handle(l)) >= 0) {
		*handle = rc;
		l->built[rc] = b;
		rc = E_OK;
	} else if (b) {
		built_close(b);
	}
	if (rc >= 0 && m->status != MEAS_OK)
		log_more("%s: %s: %s", meas_status_name(m->status), cand,
			 m->status == MEAS_CRASH || m->status == MEAS_TIMEOUT ? "first run" : err_text());
	trim(l);
	return rc;
}

/* A copy: no call for a deadline. */
static int local_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	(void)deadline_ns;
	struct local *l = local_of(r);
	if (handle < 0 || handle >= l->cap || !l->built[handle])
		return fail(E_USAGE, "handle %d is not a built candidate", handle);
	const struct built *b = l->built[handle];
	struct code c = {.m = b->m, .object = {.p = b->object->bytes, .n = b->object->n}};
	struct buf bytes = {0};
	code_bytes(&c, &bytes);
	void *copy = buf_ok(&bytes) ? arena_try(a, bytes.n, 1) : NULL;
	if (copy) {
		memcpy(copy, bytes.p, bytes.n);
		*out = (struct blob){.p = copy, .n = bytes.n};
	}
	buf_free(&bytes);
	return copy ? E_OK : fail(E_NOMEM, "no memory for code");
}

static void local_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	(void)deadline_ns;
	struct local *l = local_of(r);
	for (int i = handle < 0 ? 0 : handle; i < l->cap && (handle < 0 || i == handle); i++) {
		if (l->built[i])
			built_close(l->built[i]);
		l->built[i] = NULL;
	}
	trim(l);
}

static void local_close(struct runner *r)
{
	struct local *l = local_of(r);
	local_drop(r, -1, INT64_MAX);
	while (l->objects) {
		struct object *next = l->objects->next;
		object_close(l, l->objects);
		l->objects = next;
	}
	while (l->exercises) {
		struct exercise *next = l->exercises->next;
		exercise_close(l->exercises);
		l->exercises = next;
	}
	pool_close(l->pool);
	arena_free(&l->arena);
	pages_close(&l->sweep);
	if (l->stack)
		munmap(l->stack, STACK_BYTES);
	free(l->built);
	free(l);
}

static const struct runner_ops ops = {
    .build = local_build,
    .time = local_time,
    .code = local_code,
    .drop = local_drop,
    .close = local_close,
};

/* One cpu per core first; more threads than cores are left to the system. */
static int open_pool(struct local *l, int threads)
{
	struct topo topo;
	if (threads == 1)
		return E_OK;
	int rc = topo_read(&topo, NULL);
	if (rc < 0)
		return rc;
	bool pin = threads <= topo.cores && threads <= (int)(sizeof topo.core_cpu / sizeof topo.core_cpu[0]);
	if (pin)
		l->cpu = topo.core_cpu[0];
	return pool_open(&l->pool, threads, pin ? topo.core_cpu : NULL);
}

int runner_local(const struct dev *device, const struct emit *emitter, const struct target *t, int threads,
		 bool isolate, struct runner **out)
{
	if (strcmp(device->emitter, emitter->name) != 0)
		return fail(E_USAGE, "device %s runs what emitter %s makes, not %s", device->name,
			    device->emitter, emitter->name);
	if (threads < 1)
		return fail(E_USAGE, "%d threads: at least one is needed", threads);
	struct local *l = calloc(1, sizeof *l);
	if (!l)
		return fail(E_NOMEM, "no memory for a runner");
	l->dev = device;
	l->emit = emitter;
	l->target = *t;
	l->isolate = isolate;
	l->cpu = -1;
	l->base =
	    (struct runner){.ops = &ops, .clock = device->clock(), .target = &l->target, .threads = threads};
	rng_seed(&l->rng, 1);
	int rc = open_pool(l, threads);
	if (rc < 0) {
		local_close(&l->base);
		return rc;
	}
	*out = &l->base;
	return E_OK;
}
