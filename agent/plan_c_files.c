/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a plan as C: all of them or none. */
#include "agent/plan_c_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Up to three pieces one behind the other. */
struct file {
	const char *suffix;
	int npieces;
	struct blob *piece;
	char *path, *temp;
	bool made, renamed;
};

static bool write_piece(int fd, const struct blob *b)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t put = write(fd, (const char *)b->p + at, b->n - at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		at += (size_t)put;
	}
	return true;
}

static int write_temp(struct file *f)
{
	int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	f->made = fd >= 0;
	bool good = fd >= 0;
	for (int i = 0; i < f->npieces && good; i++)
		good = write_piece(fd, &f->piece[i]);
	good = good && fsync(fd) == 0;
	int why = errno;
	if (fd >= 0 && close(fd) < 0 && good) {
		good = false;
		why = errno;
	}
	return good ? E_OK : fail(E_IO, "%s: %s", f->path, strerror(why));
}

/* All beside their paths, then all renamed. */
static int write_files(struct plan_c *c, const char *dir, struct file *f, int n)
{
	int rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++) {
		f[i].path = arena_printf(&c->a, "%s/%s%s", dir, c->name, f[i].suffix);
		f[i].temp = arena_printf(&c->a, "%s.%d", f[i].path, (int)getpid());
		rc = write_temp(&f[i]);
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		f[i].renamed = rename(f[i].temp, f[i].path) == 0;
		if (!f[i].renamed)
			rc = fail(E_IO, "%s: %s", f[i].path, strerror(errno));
	}
	for (int i = 0; i < n && rc < 0; i++)
		if (f[i].renamed)
			unlink(f[i].path);
		else if (f[i].made)
			unlink(f[i].temp);
	return rc;
}

/* The section's bytes of NAME_weights.o behind its head. */
static struct blob *weight_pieces(struct plan_c *c, const struct buf *head, const struct buf *tail, int *n)
{
	static const char zero[64];
	struct blob *piece = arena_try(&c->a, (size_t)c->nextra * 2 + 4, sizeof *piece);
	if (!piece)
		return NULL;
	piece[(*n)++] = (struct blob){head->p, head->n};
	piece[(*n)++] = (struct blob){c->p->weights.p, c->p->weight_bytes};
	int64_t at = (int64_t)c->p->weight_bytes;
	for (int i = 0; i < c->nextra; i++) {
		piece[(*n)++] = c->extra[i];
		at += c_round64((int64_t)c->extra[i].n);
		piece[(*n)++] =
		    (struct blob){zero, (size_t)c_round64((int64_t)c->extra[i].n) - c->extra[i].n};
	}
	piece[(*n)++] = (struct blob){zero, (size_t)(c->weight_bytes - at)};
	piece[(*n)++] = (struct blob){tail->p, tail->n};
	return piece;
}

int c_write(struct plan_c *c, const char *dir, const struct buf *header, const struct buf *source)
{
	struct buf head[2] = {{0}}, tail[2] = {{0}};
	struct object_symbol all = {arena_printf(&c->a, "%s_weights", c->name), 0, (uint64_t)c->weight_bytes};
	const struct object code = {
	    elf_machine(), true,       arena_printf(&c->a, ".text.%s_kernels", c->name),
	    c->code_align, c->image.n, c->symbol,
	    c->nsymbols};
	const struct object weights = {
	    elf_machine(), false, arena_printf(&c->a, ".rodata.%s", all.name), 64, all.bytes, &all, 1};
	struct blob text = {header->p, header->n}, program = {source->p, source->n};
	int rc = object_make(&code, &head[0], &tail[0]), n = 0;
	if (rc >= 0)
		rc = object_make(&weights, &head[1], &tail[1]);
	struct blob image[3] = {{head[0].p, head[0].n}, {c->image.p, c->image.n}, {tail[0].p, tail[0].n}};
	struct blob *piece = rc >= 0 ? weight_pieces(c, &head[1], &tail[1], &n) : NULL;
	struct file file[4] = {
	    {".h", 1, &text}, {".c", 1, &program}, {"_kernels.o", 3, image}, {"_weights.o", n, piece}};
	if (rc >= 0)
		rc = piece ? file_mkdirs(dir, 0755) : E_NOMEM;
	if (rc >= 0)
		rc = write_files(c, dir, file, 4);
	for (int i = 0; i < 2; i++) {
		buf_free(&head[i]);
		buf_free(&tail[i]);
	}
	return rc;
}
