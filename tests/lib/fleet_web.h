/* SPDX-License-Identifier: Apache-2.0 */
/* A web server in a thread, on a free port of loopback, which serves one connection at a time: the files of a
 * folder, with ETag, If-None-Match, Range and If-Range, unless the test's own function answers. It counts
 * every byte that crosses its socket. */
#ifndef TESTS_FLEET_WEB_H
#define TESTS_FLEET_WEB_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"
#include "platform/base/mix.h"
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

struct web_ask {
	char method[8], path[256]; /* path: without the first / */
	const char *head, *body;
	size_t n; /* of the body */
};

struct web {
	const char *dir;
	char url[64];
	int listener, port;
	pthread_t thread;
	atomic_bool ends;
	atomic_int asked;
	atomic_long in_bytes, out_bytes;
	/* Returns > 0: it answered, the connection stays; 0: the connection ends; < 0: send the folder's
	 * file. */
	int (*answer)(struct web *w, int fd, const struct web_ask *q);
	int mode, count; /* for answer's use */
	void *ctx;
};

static inline bool web_send(struct web *w, int fd, const void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
		if (k <= 0 || atomic_load(&w->ends))
			return false;
		at += (size_t)k;
		atomic_fetch_add(&w->out_bytes, k);
	}
	return true;
}

static inline bool web_says(struct web *w, int fd, const char *text)
{
	return web_send(w, fd, text, strlen(text));
}

/* Sends an answer; more: header lines, each with its \r\n. */
static inline int web_reply(struct web *w, int fd, int status, const char *more, const void *p, size_t n)
{
	char head[1024];
	snprintf(head, sizeof head, "HTTP/1.1 %d x\r\n%sContent-Length: %zu\r\n\r\n", status, more, n);
	return web_says(w, fd, head) && web_send(w, fd, p, n);
}

/* Copies a request header's value to out; "": there is none. */
static inline void web_header(const struct web_ask *q, const char *name, char *out, size_t room)
{
	char line[64];
	snprintf(line, sizeof line, "\r\n%s: ", name);
	const char *p = strcasestr(q->head, line);
	p = p ? p + strlen(line) : "";
	snprintf(out, room, "%.*s", (int)strcspn(p, "\r"), p);
}

static inline int web_file(struct web *w, int fd, const struct web_ask *q)
{
	struct arena a = {0};
	struct blob b;
	char path[512], etag[64], more[256], have[128], range[64], if_range[128];
	snprintf(path, sizeof path, "%s/%s", w->dir, q->path);
	if (strstr(path, "..") || file_is_dir(path) || file_read(&a, path, 0, &b) < 0) {
		arena_free(&a);
		return web_reply(w, fd, 404, "Content-Type: text/plain\r\n", "none\n", 5);
	}
	struct key k = mix_bytes(b.p, b.n, 0);
	snprintf(etag, sizeof etag, "\"%016llx\"", (unsigned long long)k.lo);
	snprintf(more, sizeof more, "ETag: %s\r\n", etag);
	web_header(q, "If-None-Match", have, sizeof have);
	web_header(q, "Range", range, sizeof range);
	web_header(q, "If-Range", if_range, sizeof if_range);
	size_t from = 0;
	int rc;
	if (!strcmp(have, etag)) {
		char head[256];
		snprintf(head, sizeof head, "HTTP/1.1 304 x\r\n%s\r\n", more);
		rc = web_says(w, fd, head);
	} else if (sscanf(range, "bytes=%zu-", &from) == 1 && !strcmp(if_range, etag) && from < b.n) {
		snprintf(more + strlen(more), 128, "Content-Range: bytes %zu-%zu/%zu\r\n", from, b.n - 1,
			 b.n);
		rc = web_reply(w, fd, 206, more, (const char *)b.p + from, b.n - from);
	} else {
		rc = web_reply(w, fd, 200, more, b.p, b.n);
	}
	arena_free(&a);
	return rc;
}

/* Serves the requests of one connection. */
static inline void web_serve(struct web *w, int fd)
{
	struct buf in = {0};
	char part[4096];
	int on = 1;
	for (ssize_t k; on > 0 && !atomic_load(&w->ends);) {
		const char *end = in.n ? strstr(in.p, "\r\n\r\n") : NULL;
		const char *length = end ? strcasestr(in.p, "\r\nContent-Length: ") : NULL;
		size_t head = end ? (size_t)(end - in.p) + 4 : 0;
		size_t body = length && length < end ? strtoul(length + 18, NULL, 10) : 0;
		if (!end || in.n < head + body) {
			struct pollfd p = {.fd = fd, .events = POLLIN};
			if (poll(&p, 1, 50) == 0)
				continue;
			k = recv(fd, part, sizeof part, 0);
			if (k <= 0)
				break;
			atomic_fetch_add(&w->in_bytes, k);
			buf_add(&in, part, (size_t)k);
			continue;
		}
		struct web_ask q = {.head = in.p, .body = in.p + head, .n = body};
		sscanf(in.p, "%7s /%255[^ ]", q.method, q.path);
		atomic_fetch_add(&w->asked, 1);
		on = w->answer ? w->answer(w, fd, &q) : -1;
		if (on < 0)
			on = web_file(w, fd, &q);
		memmove(in.p, in.p + head + body, in.n - head - body + 1);
		in.n -= head + body;
	}
	buf_free(&in);
}

static inline void *web_run(void *ctx)
{
	struct web *w = ctx;
	for (int fd; (fd = accept(w->listener, NULL, NULL)) >= 0; close(fd))
		if (!atomic_load(&w->ends))
			web_serve(w, fd);
	return NULL;
}

static inline void web_start(struct web *w)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(w->listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(w->listener, 16) < 0 ||
	    getsockname(w->listener, (struct sockaddr *)&at, &n) < 0 ||
	    pthread_create(&w->thread, NULL, web_run, w) != 0)
		abort();
	w->port = ntohs(at.sin_port);
	snprintf(w->url, sizeof w->url, "http://127.0.0.1:%d", w->port);
}

static inline void web_stop(struct web *w)
{
	atomic_store(&w->ends, true);
	shutdown(w->listener, SHUT_RDWR);
	pthread_join(w->thread, NULL);
	close(w->listener);
}

#endif
