/* SPDX-License-Identifier: Apache-2.0 */
/* Builds candidates in this process: text -> loops -> object -> loaded code -> one checked run. On a real
 * device that first run happens in a child process, so that a crash or hang is data. */
#include "agent/worker/local.h"
#include "kernels/library/library.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "platform/machine/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MOST_KEPT =
	    1 << 20,        /* bytes of source and binary: without the binary, the source is compiled again */
	IDLE_EXERCISES = 4, /* tasks kept although no handle uses them */
	/* objects kept although no handle uses them: a candidate with other numbers may need them next */
	IDLE_OBJECTS = 32,
};

static struct local *local_of(struct runner *r)
{
	return (struct local *)r;
}

/* ---- kept between candidates ---- */

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
	int rc = exercise_open(text, &l->constants, &x);
	if (rc < 0)
		return rc;
	x->next = l->exercises;
	*out = l->exercises = x;
	return E_OK;
}

static struct local_object *find_object(struct local *l, struct key k)
{
	for (struct local_object **at = &l->objects; *at; at = &(*at)->next) {
		struct local_object *o = *at;
		if (!key_equal(o->key, k))
			continue;
		*at = o->next;
		o->next = l->objects;
		return l->objects = o;
	}
	return NULL;
}

static void object_close(struct local *l, struct local_object *o)
{
	l->dev->unload(o->code);
	free(o->bytes);
	free(o);
}

/* Frees the objects that have been unused for longest. */
static void trim(struct local *l)
{
	int idle = 0;
	for (struct local_object **at = &l->objects; *at;) {
		struct local_object *o = *at;
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

static struct key object_key(struct key task, const struct loops *l)
{
	struct buf text = {0};
	loops_print(l, &text);
	struct key k = hash_join(task, hash_bytes(buf_str(&text), text.n));
	buf_free(&text);
	return k;
}

static enum meas_status build_status(int rc)
{
	if (rc == E_SPILL)
		return MEAS_SPILL;
	return rc == E_INFEASIBLE || rc == E_CORRUPT ? MEAS_INFEASIBLE : MEAS_BUILD;
}

static int keep_object(struct local *l, struct key k, struct blob bytes, struct local_object **out)
{
	struct local_object *o = calloc(1, sizeof *o);
	void *copy = malloc(bytes.n ? bytes.n : 1);
	if (!o || !copy) {
		free(o);
		free(copy);
		return fail(E_NOMEM, "no memory for an object");
	}
	if (bytes.n)
		memcpy(copy, bytes.p, bytes.n);
	*o = (struct local_object){.next = l->objects, .key = k, .bytes = copy, .n = bytes.n};
	*out = l->objects = o;
	return E_OK;
}

static int load_object(struct local *l, struct local_object *o)
{
	int rc = o->code   ? E_OK
		 : l->unit ? l->dev->own->load(l->unit, o->bytes, o->n, &o->code)
			   : l->dev->load(o->bytes, o->n, &o->code);
	if (l->unit && rc == E_IO)
		return fail_in(E_CHILD, "device");
	return rc == E_CORRUPT ? fail_in(E_UNSUPPORTED, "load") : rc;
}

static void sign(const struct local *l, struct manifest *m)
{
	strncpy(m->emitter, l->emit->name, sizeof m->emitter - 1);
	strncpy(m->version, l->emit->version(), sizeof m->version - 1);
}

/* The code of a library's candidate, which says what the library has to compute. */
static int make_library(struct local *l, const struct task *t, struct key task, const char *cand,
			struct manifest *m, struct local_object **o)
{
	struct blob bytes;
	int rc = l->dev->own ? fail(E_INFEASIBLE, "libraries run on the processor")
			     : library_code(t, cand, &l->arena, m, &bytes);
	if (rc < 0)
		return rc;
	sign(l, m);
	memcpy(m->isa, l->target.isa, sizeof m->isa);
	m->lanes = l->target.lanes;
	struct key k = hash_join(task, hash_text(cand));
	*o = find_object(l, k);
	return *o ? E_OK : keep_object(l, k, bytes, o);
}

/* Makes code that is not loaded yet; compiles only if no other candidate of the task had the same loops. The
 * manifest lives in the candidate's arena. */
static int make_code(struct local *l, const struct task *t, struct key task, const char *cand,
		     struct manifest **m, struct local_object **o)
{
	struct loops *loops;
	struct blob bytes;
	*m = ARENA_NEW(&l->arena, struct manifest);
	if (library_is_cand(cand))
		return make_library(l, t, task, cand, *m, o);
	int rc = lower(t, cand, &l->target, &l->arena, &loops, *m);
	if (rc < 0)
		return rc;
	sign(l, *m);
	struct key k = object_key(task, loops);
	if ((*o = find_object(l, k)))
		return E_OK;
	rc = l->emit->emit(loops, &l->target, &l->arena, &bytes);
	return rc < 0 ? rc : keep_object(l, k, bytes, o);
}

static int open_built(struct local *l, struct exercise *x, struct local_object *o, const struct manifest *m,
		      struct local_built **out)
{
	int rc = load_object(l, o);
	if (rc >= 0)
		rc = built_open(l, x, o, m, out);
	return rc == E_CORRUPT ? fail_in(E_UNSUPPORTED, "manifest") : rc;
}

static int compile(struct local *l, struct exercise *x, const char *cand, struct local_built **out)
{
	struct manifest *m;
	struct local_object *o;
	int rc = make_code(l, &x->task, x->key, cand, &m, &o);
	return rc < 0 ? rc : open_built(l, x, o, m, out);
}

/* The first run of a library's piece was in another process: this one makes its own pieces, and lets the
 * library do what it does once. */
static int warm_up(const struct local *l, const struct local_built *b)
{
	unsigned old = fpu_flush();
	bool good = foreign_ready(b->object->code, b->bufs, NULL);
	if (good)
		built_run(b, l->dev, NULL);
	fpu_restore(old);
	return good && foreign_good(b->object->code, NULL) ? E_OK
							   : fail(E_WRONG, "the library makes no piece");
}

static int check(struct local *l, struct local_built *b, int64_t deadline_ns, struct meas *m)
{
	int64_t start = clock_now(l->base.clock);
	int rc = local_first_run(l, b, deadline_ns, &m->status);
	if (rc >= 0 && m->status == MEAS_OK)
		rc = exercise_check(b->x, code_pairs(&b->m) ? TOLERANCE_PAIRS : TOLERANCE_REL,
				    &m->max_rel_err);
	if (rc >= 0 && m->status == MEAS_OK && foreign_is(b->object->bytes, b->object->n))
		rc = warm_up(l, b);
	m->check_ns += clock_now(l->base.clock) - start;
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
	struct local_built **p = realloc(l->built, (size_t)cap * sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for handles");
	memset(p + l->cap, 0, (size_t)(cap - l->cap) * sizeof *p);
	int first = l->cap;
	l->built = p;
	l->cap = cap;
	return first;
}

/* E_NOMEM counts as data, too: a worker's memory is limited, and a task or candidate that needs more is not
 * the machine's fault. */
static bool is_data(int rc)
{
	return rc == E_INFEASIBLE || rc == E_SPILL || rc == E_CORRUPT || rc == E_UNSUPPORTED ||
	       rc == E_NOTFOUND || rc == E_NOMEM;
}

/* An error that the candidate has caused becomes data. */
static int judge(int rc, struct meas *m)
{
	if (!is_data(rc))
		return rc;
	m->status = build_status(rc);
	return E_OK;
}

/* Checks a built candidate, if there is one, and gives it a handle. */
static int keep_built(struct local *l, struct local_built *b, int64_t deadline_ns, int *handle,
		      struct meas *m)
{
	int rc = b ? check(l, b, deadline_ns, m) : E_OK;
	if (b && rc >= 0 && m->status == MEAS_OK && (rc = new_handle(l)) >= 0) {
		*handle = rc;
		l->built[rc] = b;
		return E_OK;
	}
	if (b)
		built_close(b);
	return rc;
}

static void tell_failure(const char *cand, const struct meas *m)
{
	if (m->status != MEAS_OK)
		log_more("%s: %s: %s", meas_status_name(m->status), cand,
			 m->status == MEAS_CRASH || m->status == MEAS_TIMEOUT ? "first run" : err_text());
}

static int begin(struct local *l, const char *task, int64_t deadline_ns, struct exercise **x, struct meas *m)
{
	*m = (struct meas){.status = MEAS_OK, .threads = l->base.threads};
	if (l->dev->own && !l->unit)
		return fail(E_USAGE, "this worker compiles for %s, and has opened no device", l->dev->name);
	if (clock_now(l->base.clock) >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline has passed");
	arena_reset(&l->arena);
	int64_t start = clock_now(l->base.clock);
	int rc = find_exercise(l, task, x);
	m->check_ns = clock_now(l->base.clock) - start;
	return fail_in(rc, "task");
}

static int local_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		       struct meas *m)
{
	struct local *l = local_of(r);
	struct exercise *x;
	struct local_built *b = NULL;
	*handle = -1;
	int rc = begin(l, task, deadline_ns, &x, m);
	if (rc < 0)
		return rc == E_NOMEM ? judge(rc, m) : rc;
	x->users++; /* keeps it while it builds */
	int64_t start = clock_now(r->clock);
	rc = judge(compile(l, x, cand, &b), m);
	m->build_ns = clock_now(r->clock) - start;
	x->users--;
	if (rc >= 0)
		rc = keep_built(l, b, deadline_ns, handle, m);
	if (rc >= 0)
		tell_failure(cand, m);
	trim(l);
	return rc;
}

int local_load(struct runner *r, const char *task, struct key object, struct blob code, int64_t deadline_ns,
	       int *handle, struct meas *m)
{
	struct local *l = local_of(r);
	struct exercise *x;
	struct local_built *b = NULL;
	*handle = -1;
	int rc = begin(l, task, deadline_ns, &x, m);
	if (rc < 0)
		return rc == E_NOMEM ? judge(rc, m) : rc;
	struct code *c = ARENA_NEW(&l->arena, struct code);
	struct local_object *o = find_object(l, object);
	x->users++; /* keeps it while it loads */
	int64_t start = clock_now(r->clock);
	rc = code_parse(code.p, code.n, &l->arena, c);
	if (rc >= 0 && !o)
		rc = keep_object(l, object, c->object, &o);
	if (rc >= 0)
		rc = judge(open_built(l, x, o, &c->m, &b), m);
	m->build_ns = clock_now(r->clock) - start;
	x->users--;
	if (rc >= 0)
		rc = keep_built(l, b, deadline_ns, handle, m);
	if (rc >= 0)
		tell_failure("built elsewhere", m);
	trim(l);
	return rc;
}

/* Adds the code, with what the device's driver made of its source, if it has a driver. */
static void put_code(const struct local *l, const struct manifest *m, const struct local_object *o,
		     struct buf *out)
{
	struct buf object = {0};
	struct code c = {.m = *m, .object = {.p = o->bytes, .n = o->n}};
	if (l->unit && o->code) {
		const char *nul = o->n ? memchr(o->bytes, 0, o->n) : NULL; /* what a builder's driver made */
		buf_add(&object, o->bytes, nul ? (size_t)(nul - (char *)o->bytes) : o->n);
		if (l->dev->own->keep(o->code, &object) >= 0 && object.n <= MOST_KEPT)
			c.object = (struct blob){.p = object.p, .n = object.n};
	}
	code_bytes(&c, out);
	buf_free(&object);
}

int local_emit(struct runner *r, const char *task, const char *cand, struct key *object, struct buf *code,
	       struct meas *m)
{
	struct local *l = local_of(r);
	struct manifest *made;
	struct local_object *o;
	arena_reset(&l->arena);
	*m = (struct meas){.status = MEAS_OK, .threads = r->threads};
	*object = (struct key){0};
	struct task *t = ARENA_NEW(&l->arena, struct task);
	int rc = task_parse(task, t);
	if (rc < 0)
		return fail_in(rc, "task");
	int64_t start = clock_now(r->clock);
	rc = make_code(l, t, hash_text(task), cand, &made, &o);
	if (rc >= 0 && l->unit) /* the driver compiles the source here, not where candidates are timed */
		rc = load_object(l, o);
	rc = judge(rc, m);
	m->build_ns = clock_now(r->clock) - start;
	if (rc >= 0 && m->status == MEAS_OK) {
		put_code(l, made, o, code);
		*object = o->key;
		rc = buf_ok(code) ? E_OK : fail(E_NOMEM, "no memory for code");
	}
	if (rc >= 0)
		tell_failure(cand, m);
	trim(l);
	return rc;
}

/* This runner has no other core to build on. */
static enum ahead local_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task, (void)cand;
	return AHEAD_NOT;
}

/* Copies; never waits, so the deadline is not used. */
static int local_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	(void)deadline_ns;
	struct local *l = local_of(r);
	if (handle < 0 || handle >= l->cap || !l->built[handle])
		return fail(E_USAGE, "handle %d is not a built candidate", handle);
	const struct local_built *b = l->built[handle];
	struct buf bytes = {0};
	put_code(l, &b->m, b->object, &bytes);
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
		struct local_object *next = l->objects->next;
		object_close(l, l->objects);
		l->objects = next;
	}
	while (l->exercises) {
		struct exercise *next = l->exercises->next;
		exercise_close(l->exercises);
		l->exercises = next;
	}
	pool_close(l->pool);
	if (l->unit)
		l->dev->own->close(l->unit);
	gpu_watch_close(l->gpu);
	arena_free(&l->arena);
	pages_close(&l->sweep);
	sensors_close(&l->sensors);
	local_first_close(l);
	free(l->built);
	free(l);
}

void local_cage(struct runner *r, bool (*cage)(const void *ctx), const void *ctx)
{
	struct local *l = local_of(r);
	l->cage = cage;
	l->cage_ctx = ctx;
}

static const struct runner_ops ops = {
    .build = local_build,
    .ahead = local_ahead,
    .progress = local_ahead,
    .time = local_time,
    .code = local_code,
    .drop = local_drop,
    .close = local_close,
};

/* Uses one cpu per core first; if there are more threads than cores, the system places them. */
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

static void watch_gpu(struct local *l)
{
	struct dev_limits limits;
	l->dev->own->limits(l->unit, &limits);
	if (limits.uuid[0] && gpu_watch_open(limits.uuid, limits.unified, NULL, NULL, &l->gpu) < 0)
		log_more("throttling of the device is not seen: %s", err_text());
}

int runner_local(const struct dev *device, int number, const struct emit *emitter, const struct target *t,
		 int threads, bool isolate, struct runner **out)
{
	if (strcmp(device->emitter, emitter->name) != 0)
		return fail(E_USAGE, "device %s runs code of emitter %s, not of %s", device->name,
			    device->emitter, emitter->name);
	if (threads < 1 || (device->own && threads > 1))
		return fail(E_USAGE, "%d threads; device %s needs %s1", threads, device->name,
			    device->own ? "" : "at least ");
	struct local *l = calloc(1, sizeof *l);
	if (!l)
		return fail(E_NOMEM, "no memory for a runner");
	l->dev = device;
	l->emit = emitter;
	l->target = *t;
	l->isolate = isolate;
	l->cpu = -1;
	sensors_open(&l->sensors);
	l->base =
	    (struct runner){.ops = &ops, .clock = device->clock(), .target = &l->target, .threads = threads};
	snprintf(l->base.emitter, sizeof l->base.emitter, "%s", emitter->version());
	rng_seed(&l->rng, 1);
	int rc = !device->own ? open_pool(l, threads)
		 : number < 0 ? E_OK
			      : device->own->open(number, &l->unit);
	if (rc < 0) {
		local_close(&l->base);
		return rc;
	}
	if (l->unit)
		watch_gpu(l);
	*out = &l->base;
	return E_OK;
}
