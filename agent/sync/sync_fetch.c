/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_fetch.h"

#include "agent/sync/sync.h"
#include "agent/sync/sync_http.h"
#include "platform/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fetch {
	struct fetch_options o;
	struct fetch_sum sum;
	struct http *http; /* NULL: a folder */
};

int fetch_open(const struct fetch_options *o, struct fetch **out)
{
	struct fetch *f = calloc(1, sizeof *f);
	if (!f)
		return fail(E_NOMEM, "no memory for a connection");
	f->o = *o;
	int rc = sync_server_check(o->from);
	if (rc >= 0 && sync_is_folder(o->from) && !file_is_dir(o->from))
		rc = fail(E_NOTFOUND, "%s: no such folder", o->from);
	if (rc >= 0 && !sync_is_folder(o->from))
		rc = http_open(o, &f->sum, &f->http);
	if (rc < 0)
		free(f);
	else
		*out = f;
	return rc;
}

void fetch_close(struct fetch *f)
{
	if (!f)
		return;
	http_close(f->http);
	free(f);
}

void fetch_sum(const struct fetch *f, struct fetch_sum *out)
{
	*out = f->sum;
}

/* Reads a file of a folder. Any kind of file may have that name: only a regular one is read, never more than
 * `most` bytes. */
static int read_regular(const char *path, size_t most, struct buf *out)
{
	struct stat st;
	char part[16384];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fail(errno == ENOENT || errno == ENOTDIR ? E_NOTFOUND : E_IO, "%s: %s", path,
			    strerror(errno));
	int rc = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)
		     ? fail(E_CORRUPT, "%s is not a regular file", path)
		     : 0;
	for (ssize_t n = 1; rc >= 0 && n > 0;) {
		n = read(fd, part, sizeof part);
		if (n < 0)
			rc = fail(E_IO, "%s: %s", path, strerror(errno));
		else if ((size_t)n > most - out->n)
			rc = fail(E_CORRUPT, "%s has more than the %zu bytes allowed", path, most);
		else
			buf_add(out, part, (size_t)n);
	}
	close(fd);
	return rc >= 0 && !buf_ok(out) ? fail(E_NOMEM, "no memory for %s", path) : rc;
}

static int from_folder(struct fetch *f, const char *name, size_t most, struct buf *out)
{
	char path[PATH_MAX];
	if (f->o.stop && *f->o.stop)
		return fail(E_STOPPED, "stopped");
	if (clock_now(f->o.clock) >= f->o.deadline_ns)
		return fail(E_TIMEOUT, "%s/%s: the time limit of this run has passed", f->o.from, name);
	if (snprintf(path, sizeof path, "%s/%s", f->o.from, name) >= (int)sizeof path)
		return fail(E_USAGE, "%s: the name is too long", name);
	int rc = read_regular(path, most, out);
	f->sum.answered |= rc >= 0;
	return rc;
}

static int keep_etag(void *ctx, int status, const char *etag, size_t from)
{
	struct fetched *out = ctx;
	(void)status, (void)from;
	snprintf(out->etag, sizeof out->etag, "%s", etag);
	return E_OK;
}

static int keep_body(void *ctx, const void *p, size_t n)
{
	struct fetched *out = ctx;
	buf_add(&out->body, p, n);
	return buf_ok(&out->body) ? E_OK : fail(E_NOMEM, "no memory for an answer");
}

int fetch_get(struct fetch *f, const char *name, size_t most, const char *etag, struct fetched *out)
{
	*out = (struct fetched){0};
	const struct http_ask q = {
	    .name = name, .etag = etag, .most = most, .begin = keep_etag, .take = keep_body, .ctx = out};
	int rc = f->http ? http_ask(f->http, &q) : from_folder(f, name, most, &out->body);
	if (rc < 0)
		buf_free(&out->body);
	return rc < 0 ? rc : rc != 304;
}

int fetch_post(struct fetch *f, const char *name, const char *type, const void *p, size_t n, size_t most,
	       struct fetched *out)
{
	*out = (struct fetched){0};
	const struct http_ask q = {.name = name,
				   .type = type,
				   .body = p,
				   .n = n,
				   .most = most,
				   .begin = keep_etag,
				   .take = keep_body,
				   .ctx = out};
	int rc = f->http ? http_ask(f->http, &q)
			 : fail(E_UNSUPPORTED, "%s is a folder, and records can only be sent to a server",
				f->o.from);
	if (rc < 0)
		buf_free(&out->body);
	return rc < 0 ? rc : E_OK;
}

/* Downloads that can be resumed. */

struct part {
	int fd;
	size_t n; /* bytes of the whole blob */
	char etag[FETCH_ETAG];
	struct buf *body;
};

static int part_failed(const char *path)
{
	return fail(E_IO, "%s: %s", path, strerror(errno));
}

/* Loads a kept partial download if it can be resumed; else the body stays empty. */
static int part_read(struct part *p, const char *path)
{
	struct buf all = {0};
	int rc = read_regular(path, FETCH_HEAD + p->n, &all);
	size_t etag = rc >= 0 && all.n > FETCH_HEAD ? strcspn(all.p, "\n") : 0;
	bool good = etag >= 2 && etag < FETCH_ETAG && all.p[0] == '"' && all.p[etag - 1] == '"';
	for (size_t i = 0; i < etag && good; i++)
		good = (unsigned char)all.p[i] > ' ' && (unsigned char)all.p[i] <= '~';
	if (good) {
		memcpy(p->etag, all.p, etag);
		p->etag[etag] = 0;
		buf_add(p->body, all.p + FETCH_HEAD, all.n - FETCH_HEAD);
	}
	buf_free(&all);
	return buf_ok(p->body) ? E_OK : fail(E_NOMEM, "no memory for %s", path);
}

static int part_open(struct part *p, const char *path)
{
	p->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return p->fd < 0 ? part_failed(path) : E_OK;
}

static int put_all(int fd, const char *p, size_t n, off_t at)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = pwrite(fd, p + done, n - done, at + (off_t)done);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return fail(E_IO, "cannot keep a part of a blob: %s; free some space",
				    k < 0 ? strerror(errno) : "no room");
		done += (size_t)k;
	}
	return E_OK;
}

/* Begins a partial download anew (from 0), or continues where the kept part ends. */
static int part_begin(void *ctx, int status, const char *etag, size_t from)
{
	struct part *p = ctx;
	char head[FETCH_HEAD];
	(void)status;
	if (from)
		return E_OK;
	buf_clear(p->body);
	memset(head, '\n', sizeof head);
	memcpy(head, etag, strlen(etag));
	if (ftruncate(p->fd, 0) < 0)
		return part_failed("a part of a blob");
	return put_all(p->fd, head, sizeof head, 0);
}

static int part_take(void *ctx, const void *bytes, size_t n)
{
	struct part *p = ctx;
	size_t at = p->body->n;
	if (n > p->n - at)
		return fail(E_CORRUPT, "the answer has more than the %zu bytes allowed", p->n);
	buf_add(p->body, bytes, n);
	if (!buf_ok(p->body))
		return fail(E_NOMEM, "no memory for a blob");
	return put_all(p->fd, bytes, n, (off_t)(FETCH_HEAD + at));
}

static int ask_part(struct fetch *f, const char *name, struct part *p)
{
	struct http_ask q = {.name = name,
			     .etag = p->body->n ? p->etag : NULL,
			     .from = p->body->n,
			     .most = p->n,
			     .begin = part_begin,
			     .take = part_take,
			     .ctx = p};
	int rc = http_ask(f->http, &q);
	if (rc == 416) { /* the kept part cannot be resumed */
		buf_clear(p->body);
		q.etag = NULL;
		q.from = 0;
		rc = http_ask(f->http, &q);
	}
	return rc;
}

int fetch_blob(struct fetch *f, const char *name, size_t n, const char *part, struct buf *out)
{
	struct part p = {.fd = -1, .n = n, .body = out};
	buf_clear(out);
	int rc = f->http ? part_read(&p, part) : from_folder(f, name, n, out);
	if (rc >= 0 && f->http && out->n < n) {
		rc = part_open(&p, part);
		if (rc >= 0)
			rc = ask_part(f, name, &p);
		if (p.fd >= 0)
			close(p.fd);
	}
	if (rc >= 0 && out->n != n)
		rc = fail(E_CORRUPT, "%s/%s has %zu bytes instead of %zu", f->o.from, name, out->n, n);
	return rc < 0 ? rc : E_OK;
}
