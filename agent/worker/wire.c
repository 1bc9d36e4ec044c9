/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the stream. */
#include "agent/worker/wire.h"

#include "agent/worker/driver_words.h"
#include "agent/worker/wire_msg.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 20 };

/* A request is being served; read by the thread that watches the stream. */
static atomic_bool working;

/* The file descriptor that answers TIME while the worker serves it, else -1. A signal handler reads it. */
static volatile sig_atomic_t timing_out = -1;

struct server {
	struct runner *r;
	int out;
	struct arena arena; /* of one request */
	struct buf request, reply, code;
	int blamed; /* kernel that lost the device in a timed run; -1: none */
	enum meas_status how;
};

void wire_place(uint64_t cpus)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (int cpu = 0; cpu < 64; cpu++)
		if (cpus >> cpu & 1)
			CPU_SET(cpu, &set);
	if (cpus)
		(void)sched_setaffinity(0, sizeof set, &set);
}

/* One handler per request: reads its payload, adds the result to the reply. */
typedef int handler(struct server *s, struct cur *c);

static int whole(const struct cur *c)
{
	return c->bad || c->at != c->n ? fail(E_CORRUPT, "the content of a request does not fit its type")
				       : E_OK;
}

static int serve_build(struct server *s, struct cur *c)
{
	int64_t left = (int64_t)cur_u64(c);
	const char *task = wire_get_str(c, MAX_TEXT, &s->arena), *cand = wire_get_str(c, MAX_TEXT, &s->arena);
	struct meas m = {0};
	int handle = -1, rc = whole(c);
	if (rc >= 0)
		rc = s->r->ops->build(s->r, task, cand, wire_deadline(s->r->clock, left), &handle, &m);
	buf_u32(&s->reply, (uint32_t)handle);
	wire_put_meas(&s->reply, &m);
	return rc;
}

static int serve_time(struct server *s, struct cur *c)
{
	int64_t left = (int64_t)cur_u64(c), abort_ns = (int64_t)cur_u64(c);
	uint32_t rounds = cur_u32(c), how = cur_u32(c), n = cur_u32(c);
	if (n > WIRE_MAX_HANDLES || rounds > WIRE_MAX_ROUNDS)
		return fail(E_CORRUPT, "cannot time %u kernels in %u rounds", n, rounds);
	int *handle = ARENA_ARRAY(&s->arena, int, n);
	struct meas *m = ARENA_ARRAY(&s->arena, struct meas, n);
	for (uint32_t i = 0; i < n; i++)
		handle[i] = (int)cur_u32(c);
	int rc = whole(c);
	timing_out = s->out;
	if (rc >= 0)
		rc = s->r->ops->time(s->r, handle, (int)n, (int)rounds, abort_ns, how,
				     wire_deadline(s->r->clock, left), m);
	timing_out = -1;
	s->blamed = rc == E_CHILD ? meas_blamed(m, (int)n) : -1;
	s->how = s->blamed < 0 ? MEAS_OK : m[s->blamed].status;
	for (uint32_t i = 0; i < n; i++)
		wire_put_meas(&s->reply, &m[i]);
	return rc;
}

static int serve_code(struct server *s, struct cur *c)
{
	int handle = (int)cur_u32(c), rc = whole(c);
	struct blob code = {0};
	if (rc >= 0)
		rc = s->r->ops->code(s->r, handle, INT64_MAX, &s->arena, &code);
	if (rc >= 0) {
		buf_u32(&s->reply, (uint32_t)code.n);
		buf_add(&s->reply, code.p, code.n);
	}
	return rc;
}

static int serve_drop(struct server *s, struct cur *c)
{
	int handle = (int)cur_u32(c), rc = whole(c);
	if (rc >= 0)
		s->r->ops->drop(s->r, handle < 0 ? -1 : handle, INT64_MAX);
	return rc;
}

static int serve_emit(struct server *s, struct cur *c)
{
	const char *task = wire_get_str(c, MAX_TEXT, &s->arena), *cand = wire_get_str(c, MAX_TEXT, &s->arena);
	struct meas m = {0};
	struct key k = {0};
	int rc = whole(c);
	buf_clear(&s->code);
	if (rc >= 0)
		rc = local_emit(s->r, task, cand, &k, &s->code, &m);
	wire_put_meas(&s->reply, &m);
	buf_u64(&s->reply, k.hi);
	buf_u64(&s->reply, k.lo);
	buf_u32(&s->reply, (uint32_t)s->code.n);
	buf_add(&s->reply, buf_str(&s->code), s->code.n);
	return rc;
}

static int serve_load(struct server *s, struct cur *c)
{
	int64_t left = (int64_t)cur_u64(c);
	const char *task = wire_get_str(c, MAX_TEXT, &s->arena);
	struct key k = {.hi = cur_u64(c)};
	k.lo = cur_u64(c);
	size_t n = cur_u32(c);
	const void *p = cur_bytes(c, n);
	struct meas m = {0};
	int handle = -1, rc = whole(c);
	if (rc >= 0)
		rc = local_load(s->r, task, k, (struct blob){.p = p, .n = n},
				wire_deadline(s->r->clock, left), &handle, &m);
	buf_u32(&s->reply, (uint32_t)handle);
	wire_put_meas(&s->reply, &m);
	return rc;
}

static int serve_place(struct server *s, struct cur *c)
{
	(void)s;
	uint64_t cpus = cur_u64(c);
	int rc = whole(c);
	if (rc >= 0)
		wire_place(cpus);
	return rc;
}

static handler *const handlers[WIRE_TYPES] = {
    [WIRE_BUILD] = serve_build, [WIRE_TIME] = serve_time, [WIRE_CODE] = serve_code,
    [WIRE_DROP] = serve_drop,   [WIRE_EMIT] = serve_emit, [WIRE_LOAD] = serve_load,
    [WIRE_PLACE] = serve_place,
};

static int answer(struct server *s, uint32_t type)
{
	struct cur c = {.p = (const uint8_t *)buf_str(&s->request), .n = s->request.n};
	buf_u32(&s->reply, 0); /* rc, if good */
	s->blamed = -1;
	s->how = MEAS_OK;
	int rc = type < WIRE_TYPES && handlers[type] ? handlers[type](s, &c)
						     : fail(E_CORRUPT, "unknown request type %u", type);
	if (rc >= 0)
		return E_OK;
	buf_clear(&s->reply);
	buf_u32(&s->reply, (uint32_t)rc);
	wire_put_str(&s->reply, err_text());
	if (type == WIRE_TIME) {
		buf_u32(&s->reply, (uint32_t)s->blamed);
		buf_u32(&s->reply, s->how);
	}
	return E_OK;
}

static void put_number(uint8_t *to, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(v >> 8 * i);
}

/* In a signal handler: no memory is allocated, and no lock taken. */
void wire_last_words(int at, enum meas_status how)
{
	static const char hung[] = "device: it did not end a kernel that had run before",
			  crashed[] = "device: its driver crashed in a kernel that had run before";
	const char *text = how == MEAS_TIMEOUT ? hung : crashed;
	const size_t n = (how == MEAS_TIMEOUT ? sizeof hung : sizeof crashed) - 1;
	uint8_t bytes[128];
	const uint32_t head[] = {WIRE_MAGIC, WIRE_TIME | WIRE_REPLY, (uint32_t)n + 16, (uint32_t)E_CHILD,
				 (uint32_t)n};
	if (timing_out < 0)
		return;
	for (int i = 0; i < 5; i++)
		put_number(bytes + 4 * i, head[i]);
	memcpy(bytes + 20, text, n);
	put_number(bytes + 20 + n, (uint32_t)at);
	put_number(bytes + 24 + n, how);
	(void)!write(timing_out, bytes, 28 + n);
}

/* ---- the stream's beginning and end ---- */

/* A connection that sends no HELLO in this time is no client. */
#define HELLO_NS (10 * NS_PER_S)

enum { MOST_THREADS = 256, MOST_NICE = 20 };

static int read_hello(struct cur *c, struct arena *a, struct wire_hello *h)
{
	const char *device = wire_get_str(c, sizeof h->device - 1, a), *target = wire_get_str(c, MAX_TEXT, a);
	uint32_t threads = cur_u32(c);
	h->cpus = cur_u64(c);
	uint32_t nice = cur_u32(c);
	h->memory_bytes = (int64_t)cur_u64(c);
	const char *libraries = wire_get_str(c, sizeof h->libraries - 1, a);
	int rc = whole(c);
	if (rc < 0)
		return rc;
	if (threads < 1 || threads > MOST_THREADS || nice > MOST_NICE)
		return fail(E_CORRUPT,
			    "cannot work with %u threads at priority %u: 1 to %d and 0 to %d are possible",
			    threads, nice, MOST_THREADS, MOST_NICE);
	if (h->memory_bytes < 0)
		return fail(E_CORRUPT, "the memory limit of a worker is negative");
	snprintf(h->device, sizeof h->device, "%s", device);
	snprintf(h->libraries, sizeof h->libraries, "%s", libraries);
	h->threads = (int)threads;
	h->nice = (int)nice;
	return target_parse(target, &h->target);
}

int wire_take_hello(int in, struct wire_hello *h)
{
	struct buf body = {0};
	struct arena a = {0};
	uint32_t type;
	*h = (struct wire_hello){0};
	int rc = wire_receive(in, &clock_real, clock_now(&clock_real) + HELLO_NS, &type, &body);
	if (rc >= 0 && type != WIRE_HELLO)
		rc = fail(E_CORRUPT, "the first request is not HELLO but type %u", type);
	if (rc >= 0) {
		struct cur c = {.p = (const uint8_t *)buf_str(&body), .n = body.n};
		rc = read_hello(&c, &a, h);
	}
	arena_free(&a);
	buf_free(&body);
	return rc;
}

static int answer_hello(int rc, const char *text, int out)
{
	struct buf reply = {0};
	buf_u32(&reply, (uint32_t)rc);
	wire_put_str(&reply, text);
	rc = wire_send(out, &clock_real, clock_now(&clock_real) + HELLO_NS, WIRE_HELLO | WIRE_REPLY, &reply);
	buf_free(&reply);
	return rc;
}

int wire_refuse(int rc, int out)
{
	return answer_hello(rc, err_text(), out);
}

/* The process ends here only while it works; between requests the main thread sees the end of the stream. */
static void *watch(void *ctx)
{
	struct pollfd p = {.fd = (int)(intptr_t)ctx, .events = POLLRDHUP};
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	while (!atomic_load(&working))
		clock_real.sleep(&clock_real, 5 * NS_PER_MS);
	_exit(0);
}

int wire_watch(int in)
{
	pthread_t t;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&t, NULL, watch, (void *)(intptr_t)in);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return fail(E_IO, "cannot start a thread to watch the stream: %s", strerror(err));
	pthread_detach(t);
	return E_OK;
}

/* Between requests the stream uses the real clock, because the runner's may be virtual. */
static int serve_one(struct server *s, int in, int out)
{
	uint32_t type;
	int rc = wire_receive(in, &clock_real, INT64_MAX, &type, &s->request);
	if (rc < 0)
		return rc;
	atomic_store(&working, true);
	buf_clear(&s->reply);
	arena_reset(&s->arena);
	rc = answer(s, type);
	atomic_store(&working, false);
	return rc < 0 ? rc : wire_send(out, &clock_real, INT64_MAX, type | WIRE_REPLY, &s->reply);
}

int wire_serve(struct runner *r, int in, int out)
{
	struct server s = {.r = r, .out = out};
	int rc = answer_hello(E_OK, r->emitter, out);
	while (rc >= 0 && (rc = serve_one(&s, in, out)) >= 0)
		driver_words_forget();
	arena_free(&s.arena);
	buf_free(&s.request);
	buf_free(&s.reply);
	buf_free(&s.code);
	return rc == E_CHILD ? E_OK : rc; /* end of stream */
}
