/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/image.h"
#include "agent/run/halo.h"
#include "agent/run/plan_parts.h"
#include "kernels/onnx/foreign.h"
#include "platform/base/file.h"
#include "platform/base/mix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 80, WEIGHTS_CRC = 72, ALIGN = 4096, MOST_LABEL = 4096 };
static const uint64_t most_meta = UINT64_C(256) << 20;
static const char magic[] = "HIM7";

static bool read_all(int fd, void *p, size_t n, off_t from)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = pread(fd, (char *)p + at, n - at, from + (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

/* Writes the version that can read it, and the sizes of that version's structures in memory. */
static void put_version(struct buf *b)
{
	buf_printf(b, HONE_VERSION " %zu %zu %zu", sizeof(struct window), sizeof(struct segment),
		   sizeof(struct pstep));
}

static void put_label(struct buf *b, const struct image *im)
{
	put_version(b);
	buf_puts(b, "\n");
	target_text(&im->target, b);
	buf_printf(b, "\n%d %d %s", im->threads, im->level, im->name);
}

static void put_key(struct buf *b, struct key k)
{
	buf_u64(b, k.hi);
	buf_u64(b, k.lo);
}

/* Everything before the weights. */
static void make_head(struct buf *b, const struct image *im, const struct plan *p, const struct buf *meta)
{
	static const char zero[64];
	struct buf rest = {0}, label = {0};
	put_label(&label, im);
	put_key(&rest, im->key);
	put_key(&rest, im->same);
	put_key(&rest, im->note);
	buf_u64(&rest, meta->n);
	buf_u64(&rest, p->weight_bytes);
	buf_u32(&rest, crc32c(0, p->weights.p, p->weight_bytes));
	buf_u32(&rest, (uint32_t)label.n);
	buf_add(&rest, label.p, label.n);
	buf_add(&rest, meta->p, meta->n);
	while ((rest.n + 8) % ALIGN)
		buf_add(&rest, zero, (ALIGN - (rest.n + 8) % ALIGN - 1) % sizeof zero + 1);
	buf_puts(b, magic);
	buf_u32(b, crc32c(0, rest.p, rest.n));
	buf_add(b, rest.p, rest.n);
	b->failed |= rest.failed || label.failed;
	buf_free(&rest);
	buf_free(&label);
}

/* Checks that a reader would accept the image: a plan may exceed a reader's limits. */
static int check_described(const char *path, const struct plan *p, const struct buf *meta)
{
	struct plan *again;
	int rc = meta->n > most_meta ? fail(E_UNSUPPORTED, "its description has %zu bytes", meta->n)
				     : plan_restore(meta->p, meta->n, p->pool, &again);
	if (rc >= 0) {
		plan_copy_constants(p, again);
		rc = plan_check(again);
		plan_free(again);
	}
	return rc < 0 ? fail_in(rc == E_CORRUPT ? E_UNSUPPORTED : rc,
				"%s: this plan cannot be written as an image", path)
		      : E_OK;
}

int image_write(const char *path, const struct image *im, const struct plan *p, const struct buf *meta)
{
	struct buf head = {0};
	int rc = buf_ok(meta) ? check_described(path, p, meta) : E_NOMEM;
	if (rc >= 0)
		make_head(&head, im, p, meta);
	const struct blob part[] = {{head.p, head.n}, {p->weights.p, p->weight_bytes}};
	if (rc == E_NOMEM || !buf_ok(&head))
		rc = fail(E_NOMEM, "no memory to write the image %s", path);
	if (rc >= 0)
		rc = file_write_parts(path, part, 2, 0644);
	buf_free(&head);
	return rc;
}

static bool others_write(const struct stat *st)
{
	bool mine = st->st_uid == geteuid() || st->st_uid == 0;
	bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
	return !mine || (st->st_mode & (S_IWGRP | S_IWOTH) && !sticky);
}

static int not_ours(const char *path)
{
	return fail(E_USAGE,
		    "%s holds machine code, and users other than you and root can write to it or its folder: "
		    "chown and chmod go-w both",
		    path);
}

int image_folder_check(const char *path)
{
	char dir[4096];
	struct stat st;
	const char *slash = strrchr(path, '/');
	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	return stat(dir, &st) < 0 || others_write(&st) ? not_ours(path) : E_OK;
}

/* Reports errno of open(). */
static int cannot_open(const char *path)
{
	int why = errno;
	if (why == ENOENT || why == ENOTDIR)
		return fail(E_NOTFOUND, "no image %s", path);
	if (why == ELOOP)
		return fail(E_USAGE, "%s is a link, which is refused for machine code: name the file itself",
			    path);
	return fail(E_IO, "cannot open the image %s: %s", path, strerror(why));
}

static int open_own(const char *path, uint64_t *bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return cannot_open(path);
	int rc = fstat(fd, &st) < 0     ? fail(E_IO, "%s: %s", path, strerror(errno))
		 : !S_ISREG(st.st_mode) ? fail(E_USAGE, "the image %s is not a regular file", path)
		 : others_write(&st)    ? not_ours(path)
					: image_folder_check(path);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*bytes = (uint64_t)st.st_size;
	return fd;
}

static int damaged(const char *path)
{
	return fail(E_CORRUPT, "%s is damaged: copy it again, or compile it again", path);
}

static struct key get_key(struct cur *c)
{
	struct key k = {.hi = cur_u64(c)};
	k.lo = cur_u64(c);
	return k;
}

/* The lines of a label, whose bytes were checked. */
static int read_label(const char *path, char *text, const struct target *here, struct image *im)
{
	struct buf mine = {0};
	char *target = strchr(text, '\n'), *last = target ? strchr(target + 1, '\n') : NULL, *end;
	if (!last)
		return damaged(path);
	*target++ = *last++ = 0;
	put_version(&mine);
	int rc =
	    strcmp(text, buf_str(&mine)) == 0
		? E_OK
		: fail(E_UNSUPPORTED, "%s was compiled by hone %.40s, and this is hone %s: compile it again",
		       path, text, buf_str(&mine));
	buf_free(&mine);
	if (rc < 0 || (rc = target_parse(target, &im->target)) < 0)
		return fail_in(rc, "%s", path);
	if (!target_runs(here, &im->target))
		return fail(E_UNSUPPORTED,
			    "%s was compiled for %s (%s), and this machine is %s (%s): compile it here", path,
			    im->target.isa, im->target.soc, here->isa, here->soc);
	im->threads = (int)strtol(last, &end, 10);
	long level = strtol(end, &end, 10);
	im->level = level > 0 && level < LEVELS ? (enum level)level : LEVEL_FP32;
	snprintf(im->name, sizeof im->name, "%s", *end == ' ' ? end + 1 : end);
	return E_OK;
}

/* The head of a file. */
struct head {
	uint32_t crc;
	uint64_t meta_bytes, weight_bytes;
	uint32_t label_bytes;
};

static int read_start(int fd, const char *path, struct image *im, struct head *h)
{
	uint8_t bytes[HEAD];
	struct cur c = {.p = bytes, .n = sizeof bytes, .at = 4};
	if (!read_all(fd, bytes, sizeof bytes, 0) || memcmp(bytes, magic, 3))
		return damaged(path);
	if (memcmp(bytes, magic, 4))
		return fail(E_UNSUPPORTED, "%s was compiled by another version of hone: compile it again",
			    path);
	h->crc = cur_u32(&c);
	im->key = get_key(&c);
	im->same = get_key(&c);
	im->note = get_key(&c);
	h->meta_bytes = cur_u64(&c);
	h->weight_bytes = cur_u64(&c);
	(void)cur_u32(&c);
	h->label_bytes = cur_u32(&c);
	return E_OK;
}

/* Reads and checks everything up to the weights: *n bytes at *p. */
static int read_head(int fd, const char *path, const struct head *h, uint64_t bytes, char **p, size_t *n)
{
	if (h->meta_bytes > most_meta || h->label_bytes > MOST_LABEL)
		return damaged(path);
	*n = ((size_t)h->meta_bytes + h->label_bytes + HEAD + ALIGN - 1) / ALIGN * ALIGN;
	if (*n > bytes || bytes - *n != h->weight_bytes)
		return damaged(path);
	*p = malloc(*n);
	if (!*p)
		return fail(E_NOMEM, "no memory for %s", path);
	return read_all(fd, *p, *n, 0) && crc32c(0, *p + 8, *n - 8) == h->crc ? E_OK : damaged(path);
}

/* Sums each part while its bytes are still in the processor's cache, so that the checksum reads no memory. */
static bool read_weights(int fd, void *to, size_t n, size_t from, uint32_t want)
{
	enum { PART = 240 << 10 }; /* fast for crc32c, and half of a small L2 cache */
	uint32_t crc = 0;
	for (size_t at = 0; at < n; at += PART) {
		size_t part = n - at < PART ? n - at : PART;
		if (!read_all(fd, (char *)to + at, part, (off_t)(from + at)))
			return false;
		crc = crc32c(crc, (char *)to + at, part);
	}
	return crc == want;
}

static int restore(int fd, const char *path, const struct head *h, char *p, size_t n,
		   const struct target *here, struct pool *pool, struct image *im, struct plan **out)
{
	char label[MOST_LABEL + 1];
	struct cur crc = {.p = (uint8_t *)p + WEIGHTS_CRC, .n = 4};
	memcpy(label, p + HEAD, h->label_bytes);
	label[h->label_bytes] = 0;
	int rc = read_label(path, label, here, im);
	if (rc >= 0)
		rc = fail_in(plan_restore(p + HEAD + h->label_bytes, h->meta_bytes, pool, out), "%s", path);
	if (rc >= 0 && ((*out)->weight_bytes != h->weight_bytes ||
			!read_weights(fd, (*out)->weights.p, h->weight_bytes, n, cur_u32(&crc))))
		rc = damaged(path);
	if (rc >= 0)
		rc = fail_in(plan_check(*out), "%s", path);
	return rc;
}

int image_read(const char *path, const struct key *key, const struct target *here, struct pool *pool,
	       struct image *im, struct plan **out)
{
	struct head h;
	char *head = NULL;
	size_t n = 0;
	uint64_t bytes;
	struct plan *p = NULL;
	int fd = open_own(path, &bytes);
	if (fd < 0)
		return fd;
	int rc = read_start(fd, path, im, &h);
	if (rc >= 0 && key && !key_equal(*key, im->key))
		rc = fail(E_NOTFOUND, "%s was compiled for another model or other options", path);
	if (rc >= 0)
		rc = read_head(fd, path, &h, bytes, &head, &n);
	if (rc >= 0)
		rc = restore(fd, path, &h, head, n, here, pool, im, &p);
	close(fd);
	free(head);
	if (rc < 0)
		plan_free(p);
	else
		*out = p;
	return rc < 0 ? rc : E_OK;
}

struct key image_note_begin(const struct choices *c)
{
	struct buf text = {0};
	choices_text(c, &text);
	struct key k = hash_text(buf_str(&text));
	buf_free(&text);
	return k;
}

struct key image_note(struct key before, const struct code *found, enum kernel_origin origin)
{
	return hash_join(before, mix_bytes(found->object.p, found->object.n, (uint64_t)origin));
}

int image_peek(const char *path, struct image *im)
{
	struct head h;
	uint64_t bytes;
	int fd = open_own(path, &bytes);
	if (fd < 0)
		return fd;
	int rc = read_start(fd, path, im, &h);
	close(fd);
	return rc;
}

bool image_find(const char *path, char *out, size_t n)
{
	char begin[sizeof magic] = "";
	if (file_is_dir(path))
		return (size_t)snprintf(out, n, "%s/" IMAGE_FILE, path) < n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool found = fd >= 0 && pread(fd, begin, 3, 0) == 3 && !memcmp(begin, magic, 3);
	if (fd >= 0)
		close(fd);
	return found && (size_t)snprintf(out, n, "%s", path) < n;
}

/* Recognises a pack (agent/cache/segment.h) and a signed document (agent/sync/signed.h). */
static int pack_is_no_model(const char *path)
{
	static const char pack[] = "HSEG", document[] = "hone-signed ";
	char begin[sizeof document] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? pread(fd, begin, sizeof begin - 1, 0) : -1;
	if (fd >= 0)
		close(fd);
	if (n > 4 && !memcmp(begin, pack, 4))
		return fail(
		    E_USAGE,
		    "%s is a pack or a part of a cache, and holds kernels, no model: `hone import` reads a "
		    "pack, `hone show --cache FOLDER` the folder of a cache",
		    path);
	if (n > 0 && !strcmp(begin, document))
		return fail(
		    E_USAGE,
		    "%s is signed by hone, and no model: `hone import NAME.seg` reads a pack whose signature "
		    "is NAME.seg.sig, `hone sync` a fleet's lists",
		    path);
	return E_OK;
}

int image_is_no_model(const char *path)
{
	char file[4096];
	int rc = foreign_folder(path);
	if (rc >= 0)
		rc = pack_is_no_model(path);
	if (rc < 0)
		return rc;
	if (!image_find(path, file, sizeof file))
		return E_OK;
	if (file_is_dir(path) && !file_exists(file))
		return fail(E_USAGE, "%s is a folder without a compiled model; name a model file", path);
	return fail(E_USAGE, "%s is a compiled model%s; name the model file that it was compiled from", path,
		    file_is_dir(path) ? " (a folder that hone compile wrote)" : "");
}
