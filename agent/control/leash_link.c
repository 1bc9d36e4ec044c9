/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/leash_link.h"

#include "platform/run/child.h"
#include "platform/run/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LAST_NS (100 * NS_PER_MS) /* the last words wait so long for another message, and for room */

struct link {
	int fd;
	link_event *event;
	void *ctx;
	pthread_t thread;
	pthread_mutex_t sending;
	pthread_mutex_t mutex; /* guards the fields below, except `in` */
	pthread_cond_t said;
	bool gone;
	int64_t asked; /* the id of the awaited reply; 0: none */
	json_t *reply; /* the awaited reply; NULL: not yet */
	int64_t last_id;
	size_t n;
	char in[CONTROL_SAID]; /* used by the thread only: an incomplete line */
};

/* Drops replies that no caller waits for any more. */
static void take_line(struct link *k, const char *line, size_t n)
{
	json_t *j = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	const char *event = json_string_value(json_object_get(j, "event"));
	int64_t id = json_integer_value(json_object_get(j, "id"));
	if (event)
		k->event(k->ctx, event);
	pthread_mutex_lock(&k->mutex);
	if (!event && id > 0 && id == k->asked && !k->reply)
		k->reply = json_incref(j);
	pthread_cond_signal(&k->said); /* a waiting caller also checks what the event changed */
	pthread_mutex_unlock(&k->mutex);
	json_decref(j);
}

/* Handles all whole lines and moves the rest to the front. False: a line is too long. */
static bool take_lines(struct link *k)
{
	char *from = k->in, *end = k->in + k->n, *nl;
	for (; (nl = memchr(from, '\n', (size_t)(end - from))); from = nl + 1)
		take_line(k, from, (size_t)(nl - from));
	k->n = (size_t)(end - from);
	memmove(k->in, from, k->n);
	return k->n < sizeof k->in;
}

static void *read_all(void *ctx)
{
	struct link *k = ctx;
	for (ssize_t n;;) {
		n = recv(k->fd, k->in + k->n, sizeof k->in - k->n, 0);
		if (n < 0 && errno == EINTR)
			continue;
		k->n += n > 0 ? (size_t)n : 0;
		if (n <= 0 || !take_lines(k))
			break;
	}
	pthread_mutex_lock(&k->mutex);
	k->gone = true;
	pthread_mutex_unlock(&k->mutex);
	k->event(k->ctx, NULL);
	pthread_mutex_lock(&k->mutex);
	pthread_cond_signal(&k->said);
	pthread_mutex_unlock(&k->mutex);
	return NULL;
}

/* Blocks signals in the thread: the program's own threads handle them. */
static int start_thread(struct link *k)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int e = pthread_create(&k->thread, NULL, read_all, k);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e ? fail(E_NOMEM, "no thread for the connection to honed: %s", strerror(e)) : E_OK;
}

static void free_link(struct link *k)
{
	pthread_cond_destroy(&k->said);
	pthread_mutex_destroy(&k->mutex);
	pthread_mutex_destroy(&k->sending);
	json_decref(k->reply);
	close(k->fd);
	free(k);
}

int link_open(int fd, link_event *event, void *ctx, struct link **out)
{
	pthread_condattr_t a;
	struct link *k = calloc(1, sizeof *k);
	if (!k) {
		close(fd);
		return fail(E_NOMEM, "no memory for the connection to honed");
	}
	*k = (struct link){.fd = fd, .event = event, .ctx = ctx};
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_mutex_init(&k->mutex, NULL);
	pthread_mutex_init(&k->sending, NULL);
	pthread_cond_init(&k->said, &a);
	pthread_condattr_destroy(&a);
	int rc = start_thread(k);
	if (rc < 0)
		free_link(k);
	else
		*out = k;
	return rc;
}

void link_close(struct link *k)
{
	if (!k)
		return;
	shutdown(k->fd, SHUT_RDWR);
	pthread_join(k->thread, NULL);
	free_link(k);
}

bool link_alive(struct link *k)
{
	pthread_mutex_lock(&k->mutex);
	bool alive = !k->gone;
	pthread_mutex_unlock(&k->mutex);
	return alive;
}

static int is_gone(void)
{
	return fail(E_IO, "honed closed the connection");
}

/* A peer that does not read what is sent counts as gone. */
static int send_all(struct link *k, const void *p, size_t n)
{
	struct clock *c = &clock_real;
	int rc = link_alive(k) ? fd_write_full(k->fd, p, n, c, clock_now(c) + LINK_PATIENCE_NS) : E_IO;
	if (rc < 0)
		shutdown(k->fd, SHUT_RDWR);
	return rc < 0 ? is_gone() : E_OK;
}

static int send_request(struct link *k, const struct request *r, const void *payload)
{
	struct buf line = {0};
	control_print(r, &line);
	buf_add(&line, payload, payload ? (size_t)r->bytes : 0);
	pthread_mutex_lock(&k->sending);
	int rc =
	    buf_ok(&line) ? send_all(k, line.p, line.n) : fail(E_NOMEM, "no memory for a message to honed");
	pthread_mutex_unlock(&k->sending);
	buf_free(&line);
	return rc;
}

int link_say(struct link *k, const struct request *r)
{
	return send_request(k, r, NULL);
}

/* Keeps the mutex, so that the caller sends nothing behind a part of a message. The job's thread may hold it
 * while it sends a short one, as when it withdraws a request whose time is over. */
void link_say_last(struct link *k, const struct request *r)
{
	struct buf line = {0};
	int64_t by_ns = clock_now(&clock_real) + LAST_NS;
	const struct timespec until = {.tv_sec = by_ns / NS_PER_S, .tv_nsec = by_ns % NS_PER_S};
	if (pthread_mutex_clocklock(&k->sending, CLOCK_MONOTONIC, &until) != 0)
		return;
	control_print(r, &line);
	if (!buf_ok(&line)) {
		buf_free(&line);
		return;
	}
	ssize_t sent = send(k->fd, line.p, line.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	size_t at = sent > 0 ? (size_t)sent : 0;
	if (at < line.n && (sent >= 0 || errno == EAGAIN)) /* honed has much of this job to read yet */
		(void)!fd_write_full(k->fd, line.p + at, line.n - at, &clock_real, by_ns);
	buf_free(&line);
}

/* Waits until the reply is there, or a short time has passed. */
static void wait_a_moment(struct link *k, int64_t left_ns)
{
	int64_t until_ns =
	    clock_now(&clock_real) + (left_ns < PATIENCE_SLICE_NS ? left_ns : PATIENCE_SLICE_NS);
	const struct timespec t = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
	pthread_cond_timedwait(&k->said, &k->mutex, &t);
}

/* Called with the mutex held. */
static int await(struct link *k, const volatile sig_atomic_t *stop, int64_t deadline_ns,
		 struct patience *patience)
{
	while (!k->reply) {
		int64_t now_ns = clock_now(&clock_real), left_ns = deadline_ns - now_ns;
		int64_t silence_ns = patience_left(patience, now_ns);
		if (k->gone)
			return is_gone();
		if (stop && *stop)
			return fail(E_STOPPED, "stopped");
		if (left_ns <= 0)
			return fail(E_TIMEOUT, "honed did not answer before the deadline");
		if (silence_ns <= 0) {
			shutdown(k->fd, SHUT_RDWR);
			return fail(E_IO, "honed does not answer");
		}
		wait_a_moment(k, left_ns < silence_ns ? left_ns : silence_ns);
	}
	return E_OK;
}

static int judge(json_t *reply)
{
	if (json_is_true(json_object_get(reply, "ok")))
		return E_OK;
	const char *text = json_string_value(json_object_get(reply, "error"));
	return fail(control_code(json_string_value(json_object_get(reply, "code"))), "honed: %s",
		    text ? text : "it gave no reason");
}

/* A lease is granted when it can be, so honed's silence has no limit then. */
int link_ask(struct link *k, struct request *r, const void *payload, const volatile sig_atomic_t *stop,
	     int64_t deadline_ns, json_t **reply)
{
	*reply = NULL;
	pthread_mutex_lock(&k->mutex);
	r->has_id = true;
	r->id = k->asked = ++k->last_id;
	pthread_mutex_unlock(&k->mutex);
	int rc = send_request(k, r, payload);
	int64_t now_ns = clock_now(&clock_real);
	struct patience patience =
	    patience_until(now_ns, r->op == OP_LEASE ? INT64_MAX : now_ns + LINK_PATIENCE_NS);
	pthread_mutex_lock(&k->mutex);
	if (rc >= 0)
		rc = await(k, stop, deadline_ns, &patience);
	*reply = k->reply;
	k->reply = NULL;
	k->asked = 0;
	pthread_mutex_unlock(&k->mutex);
	if (rc >= 0)
		rc = judge(*reply);
	if (rc < 0) {
		json_decref(*reply);
		*reply = NULL;
	}
	return rc;
}
