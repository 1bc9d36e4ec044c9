/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a job's connection: a thread that answers as honed would, or as the test tells it. */
#ifndef TESTS_FAKE_OWNER_H
#define TESTS_FAKE_OWNER_H

#include "agent/control/control.h"
#include "agent/control/leash.h"
#include "tests/lib/test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FAKE_PUTS = 256 };

struct fake_put {
	int op, type;
	struct key key;
	void *p;
	size_t n;
};

struct fake_honed {
	int fd;            /* the job's connection; -1: not yet */
	int listener;      /* -1: uses a socket pair */
	char path[108];    /* of the listener */
	const char *cache; /* the folder that it calls its cache */
	int version;
	_Atomic(const char *) taint; /* reason in the next `taints` releases; NULL: none */
	atomic_int taints;
	atomic_bool withholds;   /* no answer to requests for leases */
	int silent_on;           /* no answer to requests that put or forget this type; 0: none */
	int slow_quiet, slow_ms; /* grants slow_quiet quiet leases at once, each later one after slow_ms */
	bool slow_once;          /* only the first of those */
	atomic_int freeze_ms;    /* stops the job for so long in the first run of its network; 0: not */
	pid_t job_pid;           /* as it told */
	char why[256];           /* of the last `done` */
	atomic_int said[OP_COUNT], leased[LEASE_QUIET + 1];
	_Atomic(const char *) refuses; /* error of puts and commits; NULL: none */
	atomic_int nputs, ncommitted;
	struct fake_put put[FAKE_PUTS];
	struct request last[OP_COUNT];
	void (*on_commit)(struct fake_honed *f); /* called before each answer to a commit; NULL: none */
	pthread_t thread;
};

static inline void fake_say(struct fake_honed *f, const char *text)
{
	size_t n = strlen(text);
	(void)!send(f->fd, text, n, MSG_NOSIGNAL); /* the job may have ended */
}

static inline bool fake_read(struct fake_honed *f, void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(f->fd, (char *)p + at, n - at);
		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

static inline void fake_keep(struct fake_honed *f, const struct request *r)
{
	int i = atomic_load(&f->nputs);
	struct fake_put *p = &f->put[i % FAKE_PUTS];
	*p = (struct fake_put){(int)r->op, r->type, r->key, malloc((size_t)r->bytes + 1), (size_t)r->bytes};
	if (!fake_read(f, p->p, p->n))
		printf("a put was cut short\n");
	atomic_store(&f->nputs, i + 1);
}

static inline void fake_more(struct fake_honed *f, const struct request *r, char *more, size_t n)
{
	*more = 0;
	if (r->op == OP_HELLO)
		snprintf(more, n, "\"version\":%d,\"honed\":\"fake\"", f->version);
	else if (r->op == OP_STATUS)
		snprintf(more, n, "\"cache\":\"%s\"", f->cache);
	else if (r->op == OP_SYNC)
		snprintf(more, n, "\"cache\":\"%s\"", f->cache);
	else if (r->op == OP_JOB)
		snprintf(more, n, "\"cache\":\"%s\",\"cpus\":[0]", f->cache);
	else if (r->op == OP_RELEASE && atomic_load(&f->taints) > 0)
		snprintf(more, n, "\"tainted\":\"%s\"", atomic_load(&f->taint));
	else if (r->op == OP_RELEASE)
		snprintf(more, n, "\"tainted\":false");
	else if (r->op == OP_COMMIT)
		snprintf(more, n, "\"generation\":7");
}

/* Stops the job in its first quiet lease, in which it runs its network for the first time: it knows its
 * machine already. */
static inline void fake_freeze(struct fake_honed *f, const struct request *r)
{
	if (r->op == OP_JOB)
		f->job_pid = (pid_t)r->job;
	if (r->op != OP_LEASE || r->lease != LEASE_QUIET || !f->freeze_ms || f->job_pid <= 1 ||
	    f->job_pid == getpid())
		return;
	usleep(1000); /* the run is under way */
	kill(f->job_pid, SIGSTOP);
	usleep((useconds_t)f->freeze_ms * 1000);
	kill(f->job_pid, SIGCONT);
	f->freeze_ms = 0;
}

static inline int fake_slow_ms(struct fake_honed *f)
{
	int ms = f->slow_ms;
	f->slow_ms = f->slow_once ? 0 : ms;
	return ms;
}

static inline void fake_answer(struct fake_honed *f, const struct request *r)
{
	struct buf b = {0};
	char more[512];
	f->last[r->op] = *r;
	if (r->op == OP_DONE)
		snprintf(f->why, sizeof f->why, "%s", r->text);
	atomic_fetch_add(&f->said[r->op], 1);
	if (r->op == OP_PUT || r->op == OP_FORGET)
		fake_keep(f, r);
	if (r->op == OP_LEASE)
		atomic_fetch_add(&f->leased[r->lease], 1);
	if (r->op == OP_LEASE && r->lease == LEASE_QUIET && f->slow_ms &&
	    atomic_load(&f->leased[LEASE_QUIET]) > f->slow_quiet)
		usleep((useconds_t)fake_slow_ms(f) * 1000);
	if (r->op == OP_COMMIT && f->on_commit)
		f->on_commit(f);
	bool refused = atomic_load(&f->refuses) && (r->op == OP_PUT || r->op == OP_COMMIT);
	bool silent = (r->op == OP_PUT || r->op == OP_FORGET) && r->type == f->silent_on;
	if (r->op == OP_PROGRESS || r->op == OP_DONE || (r->op == OP_LEASE && atomic_load(&f->withholds)) ||
	    silent)
		return;
	fake_more(f, r, more, sizeof more);
	if (r->op == OP_RELEASE && atomic_load(&f->taints) > 0)
		atomic_fetch_sub(&f->taints, 1);
	if (r->op == OP_COMMIT && !refused)
		atomic_store(&f->ncommitted, atomic_load(&f->nputs));
	if (refused)
		control_bad(r, E_IO, atomic_load(&f->refuses), &b);
	else
		control_good(r, *more ? more : NULL, &b);
	fake_say(f, buf_str(&b));
	buf_free(&b);
	fake_freeze(f, r);
}

static inline void fake_serve_one(struct fake_honed *f)
{
	static _Thread_local char line[CONTROL_LINE];
	struct request r;
	for (size_t n = 0; f->fd >= 0 && n < sizeof line && fake_read(f, line + n, 1);) {
		if (line[n++] != '\n')
			continue;
		if (control_parse(line, n - 1, &r) >= 0)
			fake_answer(f, &r);
		else
			printf("the job says %.*s: %s\n", (int)n - 1, line, err_text());
		n = 0;
	}
}

/* Serves one connection after the other. */
static inline void *fake_serve(void *ctx)
{
	struct fake_honed *f = ctx;
	if (f->listener < 0)
		fake_serve_one(f);
	for (int fd; f->listener >= 0 && (fd = accept(f->listener, NULL, NULL)) >= 0;) {
		if (f->fd >= 0)
			close(f->fd);
		f->fd = fd;
		fake_serve_one(f);
	}
	return NULL;
}

/* Serves a job that the test starts: its end of the socket pair is in $HONE_CONTROL_FD. */
static inline void fake_start_child(struct fake_honed *f)
{
	int fd[2];
	char text[16];
	*f = (struct fake_honed){.listener = -1, .version = CONTROL_VERSION, .cache = "/"};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		abort();
	f->fd = fd[0];
	snprintf(text, sizeof text, "%d", fd[1]);
	setenv("HONE_CONTROL_FD", text, 1);
	if (pthread_create(&f->thread, NULL, fake_serve, f))
		abort();
}

/* Serves jobs that connect to f->path. */
static inline void fake_start(struct fake_honed *f, const char *cache)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	*f = (struct fake_honed){.fd = -1, .version = CONTROL_VERSION, .cache = cache};
	unsetenv("HONE_CONTROL_FD");
	snprintf(f->path, sizeof f->path, "/tmp/hone-fake-%d.sock", (int)getpid());
	snprintf(a.sun_path, sizeof a.sun_path, "%s", f->path);
	unlink(f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(f->listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(f->listener, 4) < 0 ||
	    pthread_create(&f->thread, NULL, fake_serve, f))
		abort();
}

/* Closes the connection, stops, and frees the puts that it kept. */
static inline void fake_die(struct fake_honed *f)
{
	shutdown(f->fd, SHUT_RDWR);
	if (f->listener >= 0)
		shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->fd);
	if (f->listener >= 0) {
		close(f->listener);
		unlink(f->path);
	}
	for (int i = 0; i < atomic_load(&f->nputs) && i < FAKE_PUTS; i++)
		free(f->put[i].p);
	atomic_store(&f->nputs, 0);
	unsetenv("HONE_CONTROL_FD");
}

/* Waits until cond holds, 10 s at most. */
#define FAKE_WAIT(cond)                                                                                      \
	for (int tries_ = 0; !(cond) && tries_ < 10000; tries_++)                                            \
	usleep(1000)

#endif
