/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for honed in a thread: a socket in a folder of its own, which serves one connection at a time.
 * `answer` gets each line and writes the reply. */
#ifndef TESTS_FAKE_HONED_H
#define TESTS_FAKE_HONED_H

#include "agent/control/control.h"
#include "platform/base/buf.h"
#include "tests/lib/test.h"
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fake {
	char dir[64], socket[96];
	int listener;
	pthread_t thread;
	atomic_int asked; /* lines received */
	/* Appends the reply, in whole lines or not; false: the connection ends. */
	bool (*answer)(struct fake *f, const char *op, long long id, const json_t *request, struct buf *out);
	const char *said; /* for answer's use */
};

static inline bool fake_send(int fd, struct buf *b)
{
	size_t at = 0;
	while (at < b->n) {
		ssize_t k = send(fd, b->p + at, b->n - at, MSG_NOSIGNAL);
		if (k <= 0)
			return false;
		at += (size_t)k;
	}
	buf_clear(b);
	return true;
}

static inline void fake_serve(struct fake *f, int fd)
{
	static char line[16384];
	struct buf out = {0};
	size_t n = 0;
	bool on = true;
	while (on) {
		ssize_t k = recv(fd, line + n, sizeof line - n, 0);
		if (k <= 0)
			break;
		n += (size_t)k;
		for (char *end; on && (end = memchr(line, '\n', n));) {
			json_t *r = json_loadb(line, (size_t)(end - line), 0, NULL);
			const char *op = json_string_value(json_object_get(r, "op"));
			atomic_fetch_add(&f->asked, 1);
			on =
			    f->answer(f, op ? op : "", json_integer_value(json_object_get(r, "id")), r, &out);
			on &= fake_send(fd, &out);
			json_decref(r);
			n -= (size_t)(end + 1 - line);
			memmove(line, end + 1, n);
		}
	}
	buf_free(&out);
}

static inline void *fake_run(void *ctx)
{
	struct fake *f = ctx;
	for (int fd; (fd = accept(f->listener, NULL, NULL)) >= 0; close(fd))
		fake_serve(f, fd);
	return NULL;
}

static inline void fake_listen(struct fake *f)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof at.sun_path, "%s", f->socket);
	unlink(f->socket);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(f->listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(f->listener, 8) < 0 ||
	    pthread_create(&f->thread, NULL, fake_run, f) != 0)
		abort();
}

/* Makes the folder and points HONE_SOCKET and HONE_RUN there; nobody listens yet. */
static inline void fake_folder(struct fake *f)
{
	snprintf(f->dir, sizeof f->dir, "/tmp/hone-fake-XXXXXX");
	if (!mkdtemp(f->dir))
		abort();
	snprintf(f->socket, sizeof f->socket, "%s/honed.sock", f->dir);
	setenv("HONE_SOCKET", f->socket, 1);
	setenv("HONE_RUN", f->dir, 1);
}

static inline void fake_hush(struct fake *f) /* stops listening */
{
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listener);
	unlink(f->socket);
}

static inline void fake_remove(struct fake *f)
{
	char cmd[96];
	snprintf(cmd, sizeof cmd, "rm -rf %s", f->dir);
	CHECK(system(cmd) == 0);
}

/* Answers hello; false: another request. */
static inline bool fake_hello(const char *op, long long id, struct buf *out)
{
	if (strcmp(op, "hello"))
		return false;
	buf_printf(
	    out,
	    "{\"id\":%lld,\"ok\":true,\"version\":%d,\"honed\":\"0\",\"mode\":\"resident\",\"ready\":true}\n",
	    id, CONTROL_VERSION);
	return true;
}

#endif
