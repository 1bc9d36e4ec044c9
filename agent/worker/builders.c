/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/builders.h"
#include "agent/worker/wire_msg.h"
#include "platform/run/child.h"
#include "platform/base/log.h"
#include "platform/base/until.h"
#include "platform/run/patience.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 32, MOST_DEATHS = 8 /* see builders.h */ };

/* A build that takes longer counts as hung. */
#define HANG_NS (10 * NS_PER_S)
/* Longest time for the rest of a message that has begun to arrive: its sender does nothing else meanwhile. */
#define MESSAGE_NS (100 * NS_PER_MS)
/* A builder that is not our child may finish its job for so long when builders must rest; most need less. */
#define REST_NS (100 * NS_PER_MS)

struct job {
	struct key key;
	enum ahead state;         /* AHEAD_NOT: free slot */
	uint64_t number;          /* in the order of adding */
	struct patience patience; /* timeout of the build */
	struct buf request;
	struct made made;
};

struct builder {
	struct child child; /* in -1: none now */
	bool greeted;       /* it has answered its HELLO */
	struct job *job;    /* NULL: idle */
	int cpu;            /* -1: any */
};

struct builders {
	struct hire *from;
	const struct wire_hello *hello;
	struct clock *clock;
	int n, deaths;
	bool resting;
	struct builder builder[MOST_BUILDERS];
	struct job job[JOBS];
	uint64_t added;
	struct buf reply;
};

int builders_open(struct hire *from, const struct wire_hello *hello, int n, const int *cpus,
		  struct clock *clock, struct builders **out)
{
	struct builders *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for builders");
	b->from = from;
	b->hello = hello;
	b->clock = clock;
	b->n = n < MOST_BUILDERS ? n : MOST_BUILDERS;
	for (int i = 0; i < b->n; i++)
		b->builder[i] = (struct builder){.child = {.in = -1, .out = -1}, .cpu = cpus ? cpus[i] : -1};
	*out = b;
	return E_OK;
}

static void clear_job(struct job *j)
{
	buf_free(&j->request);
	buf_free(&j->made.code);
	*j = (struct job){0};
}

static struct job *find(struct builders *b, struct key k)
{
	for (int i = 0; i < JOBS; i++)
		if (b->job[i].state != AHEAD_NOT && key_equal(b->job[i].key, k))
			return &b->job[i];
	return NULL;
}

/* Stops the builder without waiting: it holds no result that is worth it. */
static void stop(struct builder *w)
{
	(void)child_stop(&w->child, 0);
	w->greeted = false;
	w->job = NULL;
}

void builders_close(struct builders *b)
{
	if (!b)
		return;
	for (int i = 0; i < b->n; i++)
		stop(&b->builder[i]);
	for (int i = 0; i < JOBS; i++)
		clear_job(&b->job[i]);
	buf_free(&b->reply);
	free(b);
}

void builders_clear(struct builders *b)
{
	for (int i = 0; i < b->n; i++)
		if (b->builder[i].job)
			stop(&b->builder[i]);
	for (int i = 0; i < JOBS; i++)
		clear_job(&b->job[i]);
}

static void end_job(struct job *j, enum meas_status status)
{
	j->made.m = (struct meas){.status = status};
	j->state = AHEAD_DONE;
}

/* Stops the builder after an error; its job ends with `status`. */
static void lose(struct builders *b, struct builder *w, enum meas_status status)
{
	log_more("builder stopped: %s", err_text());
	if (w->job)
		end_job(w->job, status);
	stop(w);
	if (++b->deaths == MOST_DEATHS)
		log_more("%d builders have died: candidates are no longer built ahead", b->deaths);
}

/* As lose(), but the job is not to blame: it is forgotten, and build() does it later. */
static void lose_alone(struct builders *b, struct builder *w)
{
	if (w->job)
		clear_job(w->job);
	w->job = NULL;
	lose(b, w, MEAS_CRASH);
}

/* If the builder was let go of because all workers rest, its job is queued again. */
static bool left(struct builder *w)
{
	if (!child_let_go(&w->child))
		return false;
	if (w->job)
		w->job->state = AHEAD_QUEUED;
	stop(w);
	return true;
}

/* The answer to HELLO is read later, before the first result. */
static int start(struct builders *b, struct builder *w, int64_t end_ns)
{
	struct wire_hello hello = *b->hello;
	struct buf body = {0};
	int rc = hire(b->from, b->clock, end_ns, &w->child);
	if (rc < 0)
		return rc;
	hello.threads = 1;
	if (w->cpu >= 0)
		hello.cpus = w->cpu < 64 ? UINT64_C(1) << w->cpu : 0;
	wire_put_hello(&body, &hello);
	rc = wire_send(w->child.in, b->clock, end_ns, WIRE_HELLO, &body);
	buf_free(&body);
	return rc;
}

static struct job *oldest(struct builders *b, enum ahead state)
{
	struct job *first = NULL;
	for (int i = 0; i < JOBS; i++)
		if (b->job[i].state == state && (!first || b->job[i].number < first->number))
			first = &b->job[i];
	return first;
}

static void begin(struct builders *b, struct builder *w, struct job *j)
{
	int64_t end_ns = clock_now(b->clock) + MESSAGE_NS;
	int rc = w->child.in >= 0 ? E_OK : start(b, w, end_ns);
	w->job = j;
	j->state = AHEAD_RUNNING;
	int64_t now_ns = clock_now(b->clock);
	j->patience = patience_until(now_ns, now_ns + HANG_NS);
	if (rc >= 0)
		rc = wire_send(w->child.in, b->clock, end_ns, WIRE_EMIT, &j->request);
	if (rc < 0 && !left(w))
		lose_alone(b, w);
}

static void begin_all(struct builders *b)
{
	for (int i = 0; i < b->n && !b->resting && b->deaths < MOST_DEATHS; i++) {
		struct job *j = b->builder[i].job ? NULL : oldest(b, AHEAD_QUEUED);
		if (j)
			begin(b, &b->builder[i], j);
	}
}

/* Reads the builder's result of its job. A request that the builder refuses is forgotten, and build() does it
 * later. */
static int read_made(struct builders *b, struct job *j)
{
	struct cur c = {.p = (const uint8_t *)buf_str(&b->reply), .n = b->reply.n};
	int said = (int)cur_u32(&c);
	if (said < 0) {
		clear_job(j);
		return E_OK;
	}
	wire_get_meas(&c, &j->made.m);
	j->made.object.hi = cur_u64(&c);
	j->made.object.lo = cur_u64(&c);
	size_t n = cur_u32(&c);
	const void *code = cur_bytes(&c, n);
	if (said || c.bad || c.at != c.n || (n > 0) != (j->made.m.status == MEAS_OK))
		return fail(E_CHILD, "the builder's answer is damaged");
	buf_add(&j->made.code, code, n);
	if (!buf_ok(&j->made.code))
		return fail(E_NOMEM, "no memory for what a builder made");
	buf_free(&j->request);
	j->state = AHEAD_DONE;
	return E_OK;
}

/* Returns 1 if the message was the answer to HELLO, which says nothing about the job even if it is an
 * error. */
static int read_greeting(struct builders *b, struct builder *w, uint32_t type)
{
	if (w->greeted)
		return E_OK;
	struct cur c = {.p = (const uint8_t *)buf_str(&b->reply), .n = b->reply.n};
	int said = (int)cur_u32(&c);
	w->greeted = type == (WIRE_HELLO | WIRE_REPLY) && !c.bad && said == E_OK;
	return w->greeted ? 1 : fail(E_BUSY, "the builder was not accepted");
}

static void finish(struct builders *b, struct builder *w)
{
	uint32_t type = 0;
	int rc = wire_receive(w->child.out, b->clock, clock_now(b->clock) + MESSAGE_NS, &type, &b->reply);
	if (rc >= 0)
		rc = read_greeting(b, w, type);
	if (rc == 1)
		return;
	if (rc >= 0 && (!w->job || type != (WIRE_EMIT | WIRE_REPLY)))
		rc = fail(E_CHILD, "the builder sent an unexpected answer");
	if (rc >= 0)
		rc = read_made(b, w->job);
	if (rc < 0 && left(w))
		return;
	if (rc == E_TIMEOUT || rc == E_NOMEM || rc == E_BUSY)
		lose_alone(b, w);
	else if (rc < 0)
		lose(b, w, MEAS_CRASH);
	w->job = NULL;
}

static void stop_hung(struct builders *b)
{
	for (int i = 0; i < b->n; i++) {
		struct builder *w = &b->builder[i];
		if (!w->job || patience_left(&w->job->patience, clock_now(b->clock)) > 0)
			continue;
		(void)fail(E_TIMEOUT, "a build took longer than %d s", (int)(HANG_NS / NS_PER_S));
		lose(b, w, MEAS_TIMEOUT);
	}
}

/* A resting child sends nothing; a builder that is not our child cannot be made to rest. */
static bool can_answer(const struct builders *b, const struct builder *w)
{
	return !b->resting || w->child.pid == 0;
}

/* Waits at most `ms` for the builders or fd (-1: none). 1: fd can be read. */
static int turn(struct builders *b, int fd, int ms)
{
	struct pollfd p[MOST_BUILDERS + 1] = {{.fd = fd, .events = POLLIN}};
	begin_all(b);
	for (int i = 0; i < b->n; i++)
		p[i + 1] = (struct pollfd){.fd = can_answer(b, &b->builder[i]) ? b->builder[i].child.out : -1,
					   .events = POLLIN};
	int n = poll(p, (nfds_t)b->n + 1, ms);
	if (n < 0 && errno != EINTR)
		return fail(E_IO, "cannot wait for a pipe: %s", strerror(errno));
	for (int i = 0; i < b->n && n > 0; i++)
		if (p[i + 1].revents)
			finish(b, &b->builder[i]);
	stop_hung(b);
	if (n > 0)
		begin_all(b);
	return n > 0 && p[0].revents;
}

/* Waits are short, because the deadline's clock may differ from poll's. */
static int patience_ms(struct builders *b, int64_t deadline_ns)
{
	int64_t left = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - clock_now(b->clock);
	return left <= 0 ? 0 : left > 100 * NS_PER_MS ? 100 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

int builders_wait(struct builders *b, int fd, int64_t deadline_ns)
{
	for (;;) {
		int64_t since_ns = clock_now(b->clock);
		int ms = patience_ms(b, deadline_ns), rc = turn(b, fd, ms);
		child_waited(clock_now(b->clock) - since_ns);
		if (rc != 0)
			return rc < 0 ? rc : E_OK;
		if (ms == 0)
			return fail(E_TIMEOUT, "no answer before the deadline");
		if ((rc = until_stopped(WORKER_STOP_NS)) < 0)
			return rc;
	}
}

enum ahead builders_progress(struct builders *b, struct key k)
{
	(void)!turn(b, -1, 0);
	const struct job *j = find(b, k);
	return j ? j->state : AHEAD_NOT;
}

void builders_forget(struct builders *b, struct key k)
{
	struct job *j = find(b, k);
	if (j && j->state != AHEAD_RUNNING)
		clear_job(j);
}

enum ahead builders_add(struct builders *b, struct key k, const char *task, const char *cand)
{
	struct job *j = find(b, k);
	if (b->deaths >= MOST_DEATHS)
		return AHEAD_NOT;
	if (!j) {
		for (int i = 0; i < JOBS && !j; i++)
			if (b->job[i].state == AHEAD_NOT)
				j = &b->job[i];
		if (!j && !(j = oldest(b, AHEAD_DONE)))
			return AHEAD_NOT;
		clear_job(j);
		wire_put_str(&j->request, task);
		wire_put_str(&j->request, cand);
		if (!buf_ok(&j->request)) {
			clear_job(j);
			return AHEAD_NOT;
		}
		j->key = k;
		j->number = b->added++;
		j->state = AHEAD_QUEUED;
	}
	return builders_progress(b, k);
}

int builders_collect(struct builders *b, struct key k, int64_t deadline_ns, struct made *out)
{
	struct job *j;
	while ((j = find(b, k)) && j->state == AHEAD_RUNNING) {
		int ms = patience_ms(b, deadline_ns), rc = turn(b, -1, ms);
		if (rc < 0)
			return rc;
		if (ms == 0)
			return fail(E_TIMEOUT, "the deadline came before a builder's answer");
		if ((rc = until_stopped(WORKER_STOP_NS)) < 0)
			return rc;
	}
	if (!j || j->state != AHEAD_DONE)
		return fail(E_NOTFOUND, "nothing was built ahead");
	*out = j->made;
	j->made.code = (struct buf){0};
	clear_job(j);
	return E_OK;
}

static bool stranger_works(const struct builders *b)
{
	for (int i = 0; i < b->n; i++)
		if (b->builder[i].child.in >= 0 && b->builder[i].child.pid == 0 && b->builder[i].job)
			return true;
	return false;
}

/* We cannot stop these builders; one that still works after REST_NS is given up, and its job begins again
 * later. */
static void rest_strangers(struct builders *b)
{
	int64_t end_ns = clock_now(b->clock) + REST_NS;
	while (stranger_works(b) && clock_now(b->clock) < end_ns)
		if (turn(b, -1, 5) < 0)
			break;
	for (int i = 0; i < b->n && stranger_works(b); i++) {
		struct builder *w = &b->builder[i];
		if (w->child.pid == 0 && w->job) {
			w->job->state = AHEAD_QUEUED;
			stop(w);
		}
	}
}

void builders_rest(struct builders *b, bool rest)
{
	b->resting = rest;
	for (int i = 0; i < b->n; i++)
		if (b->builder[i].child.pid > 0)
			(void)kill(b->builder[i].child.pid, rest ? SIGSTOP : SIGCONT);
	if (rest)
		rest_strangers(b);
}
