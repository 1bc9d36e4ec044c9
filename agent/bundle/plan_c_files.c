/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the files of a plan as C: all of them or none. */
#include "agent/bundle/plan_c_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file made of up to three pieces, one after the other. */
struct file {
	const char *suffix;
	int npieces;
	struct blob *piece;
	char *path, *fresh, *old; /* old: where a previous file is kept meanwhile */
	bool kept, renamed;
};

static int replace(struct file *f)
{
	f->kept = rename(f->path, f->old) == 0;
	if (f->kept || errno == ENOENT)
		f->renamed = rename(f->fresh, f->path) == 0;
	return f->renamed ? E_OK : fail(E_IO, "%s: %s", f->path, strerror(errno));
}

static void put_back(const struct file *f)
{
	if (f->kept)
		(void)!rename(f->old, f->path);
	else if (f->renamed)
		unlink(f->path);
}

/* Refuses a path that is a folder, as a folder could be renamed, too. */
static int check_path(const struct file *f)
{
	struct stat st;
	return lstat(f->path, &st) == 0 && S_ISDIR(st.st_mode) ? fail(E_IO, "%s is a folder", f->path) : E_OK;
}

/* Writes all files into a folder of their own, then renames them. Previous files that could not be put back
 * stay in that folder. */
static int write_files(struct plan_c *c, const char *dir, struct file *f, int n)
{
	int rc = E_OK;
	char *own = arena_printf(&c->a, "%s/.%s.XXXXXX", dir, c->name);
	if (!mkdtemp(own))
		return fail(E_IO, "%s: %s", own, strerror(errno));
	for (int i = 0; i < n && rc >= 0; i++) {
		f[i].path = arena_printf(&c->a, "%s/%s%s", dir, c->name, f[i].suffix);
		f[i].fresh = arena_printf(&c->a, "%s/%s%s", own, c->name, f[i].suffix);
		f[i].old = arena_printf(&c->a, "%s.old", f[i].fresh);
		rc = check_path(&f[i]);
	}
	for (int i = 0; i < n && rc >= 0; i++)
		rc = file_write_parts(f[i].fresh, f[i].piece, f[i].npieces, 0644);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = replace(&f[i]);
	for (int i = n - 1; i >= 0 && rc < 0; i--)
		put_back(&f[i]);
	for (int i = 0; i < n && f[i].path; i++)
		unlink(rc < 0 ? f[i].fresh : f[i].old);
	rmdir(own);
	file_sync_folder_of(own);
	return rc;
}

/* The bytes of the section of NAME_weights.o after its head. */
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

/* The header has no tag yet. */
int c_set_tag(struct plan_c *c)
{
	struct buf header = {0};
	struct key k = {0};
	c_header(c, &header);
	const struct blob part[] = {{header.p, header.n},
				    {c->image.p, c->image.n},
				    {c->functions.p, c->functions.n},
				    {c->tables.p, c->tables.n},
				    {c->calls.p, c->calls.n},
				    {c->fixed.p, c->fixed.n},
				    {c->p->weights.p, c->p->weight_bytes}};
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		k = hash_join(k, hash_bytes(part[i].p, part[i].n));
	for (int i = 0; i < c->nextra; i++)
		k = hash_join(k, hash_bytes(c->extra[i].p, c->extra[i].n));
	snprintf(c->tag, sizeof c->tag, "%08x", (unsigned)(k.lo & UINT32_MAX));
	bool good = buf_ok(&header);
	buf_free(&header);
	return good ? E_OK : fail(E_NOMEM, "no memory for a header");
}

static const char *tagged(struct plan_c *c, const char *what)
{
	return arena_printf(&c->a, "%s_%s_%s", c->name, what, c->tag);
}

int c_write(struct plan_c *c, const char *dir, const struct buf *header, const struct buf *source)
{
	struct buf head[2] = {{0}}, tail[2] = {{0}};
	struct object_symbol all = {tagged(c, "weights"), 0, (uint64_t)c->weight_bytes};
	for (int i = 0; i < c->nsymbols; i++)
		c->symbol[i].name = tagged(c, c->symbol[i].name);
	const struct object code = {
	    elf_machine(), true,       arena_printf(&c->a, ".text.%s_kernels", c->name),
	    c->code_align, c->image.n, c->symbol,
	    c->nsymbols};
	const struct object weights = {
	    elf_machine(), false, arena_printf(&c->a, ".rodata.%s_weights", c->name), 64, all.bytes, &all, 1};
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
