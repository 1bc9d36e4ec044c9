/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the published files, for fleets without another web server. A path must match one of three forms
 * letter by letter, so none leads out of the folder. */
#include "tools/fleet/fleet_parts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOREVER "public, max-age=31536000, immutable"

/* Whether p has n lower-case hex digits, then `after`. */
static bool hex_then(const char *p, size_t n, char after)
{
	return strspn(p, "0123456789abcdef") == n && p[n] == after;
}

static bool is_root(const char *p)
{
	size_t n = strspn(p, "0123456789");
	return *p != '0' && n >= 1 && n <= 16 && !p[n];
}

static bool is_snapshot(const char *p)
{
	enum channel channel;
	char name[16] = "";
	if (!hex_then(p, 32, '/'))
		return false;
	const char *slash = strchr(p + 33, '/');
	if (!slash || slash - (p + 33) >= (int)sizeof name || strcmp(slash, "/snapshot") != 0)
		return false;
	memcpy(name, p + 33, (size_t)(slash - (p + 33)));
	return channel_parse(name, &channel) >= 0;
}

/* Cache-Control of a file; NULL: no file can have this path. */
static const char *cache_of(const char *p)
{
	if (!strncmp(p, "blob/", 5))
		return hex_then(p + 5, 64, 0) ? FOREVER : NULL;
	if (!strncmp(p, "root/", 5))
		return is_root(p + 5) ? FOREVER : NULL;
	return is_snapshot(p) ? "public, max-age=60" : NULL;
}

static void make_etag(const char *p, const struct stat *st, char *out, size_t n)
{
	if (!strncmp(p, "blob/", 5))
		snprintf(out, n, "\"%.64s\"", p + 5);
	else
		snprintf(out, n, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"",
			 (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
			 (uint64_t)st->st_size, (uint64_t)st->st_ino);
}

/* Whether a list of tags has this one; a W/ prefix makes no difference here. */
static bool has_tag(const char *list, const char *etag)
{
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
		p += strspn(p, " \t");
		p += !strncmp(p, "W/", 2) ? 2 : 0;
		size_t n = strcspn(p, ", \t");
		if ((n == 1 && *p == '*') || (n == strlen(etag) && !strncmp(p, etag, n)))
			return true;
	}
	return false;
}

static bool whole(const char **p, int64_t *out)
{
	char *end;
	if (!isdigit((unsigned char)**p))
		return false;
	errno = 0;
	*out = strtoll(*p, &end, 10);
	*p = end;
	return errno == 0;
}

enum range { RANGE_NONE, RANGE_PART, RANGE_BAD };

/* Parses one range. Several ranges, and malformed ones, are ignored, as the RFC permits. */
static enum range take_range(const char *p, int64_t size, int64_t *from, int64_t *n)
{
	int64_t a = -1, b = -1;
	if (strncmp(p, "bytes=", 6) != 0)
		return RANGE_NONE;
	p += 6;
	bool first = whole(&p, &a), dash = *p == '-';
	p += dash;
	bool last = dash && whole(&p, &b);
	if (!dash || *p || (!first && !last) || (first && last && b < a))
		return RANGE_NONE;
	if (!first) { /* the last b bytes */
		*from = b < size ? size - b : 0;
		*n = size - *from;
		return b > 0 && size > 0 ? RANGE_PART : RANGE_BAD;
	}
	if (a >= size)
		return RANGE_BAD;
	*from = a;
	*n = (last && b < size ? b + 1 : size) - a;
	return RANGE_PART;
}

static int open_file(struct fleet *f, const char *path, struct stat *st)
{
	int fd = openat(f->publish_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return fail(errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? E_NOTFOUND : E_IO,
			    "%s: %s", path, strerror(errno));
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	close(fd);
	return fail(E_NOTFOUND, "%s: not a file", path);
}

static void give(const struct fleet_request *q, const struct stat *st, int fd, struct fleet_reply *r)
{
	enum range range = RANGE_NONE;
	if (q->if_none_match && has_tag(q->if_none_match, r->etag)) {
		r->status = 304;
		close(fd);
		return;
	}
	r->n = st->st_size;
	if (q->range && (!q->if_range || !strcmp(q->if_range, r->etag)))
		range = take_range(q->range, st->st_size, &r->from, &r->n);
	if (range == RANGE_BAD) {
		close(fd);
		fleet_say(r, 416, "no such range: the file has %" PRId64 " bytes", (int64_t)st->st_size);
		r->from = r->n = 0;
		r->cache = NULL;
	} else {
		r->status = range == RANGE_PART ? 206 : 200;
		r->file = fd;
	}
	r->of = range == RANGE_NONE ? 0 : st->st_size;
}

void fleet_static(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)c;
	struct stat st;
	const char *path = q->path + strlen("/v1/"), *cache = cache_of(path);
	int fd = cache && f->publish_fd >= 0 ? open_file(f, path, &st) : fail(E_NOTFOUND, "no such file");
	if (fd == E_NOTFOUND) {
		if (!cache)
			fleet_refuse(f, q, r, 404, COUNT_REQUEST, NULL, "no such path");
		else
			fleet_say(r, 404, "nothing is published there");
		return;
	}
	if (fd < 0) {
		fleet_say_fault(r, fd);
		return;
	}
	r->cache = cache;
	r->type = "application/octet-stream";
	make_etag(path, &st, r->etag, sizeof r->etag);
	give(q, &st, fd, r);
}
