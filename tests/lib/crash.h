/* SPDX-License-Identifier: Apache-2.0 */
/* Power cuts without a machine: records what a run does to its files through platform/base/disk.h, and makes
 * from that any state in which a cut at any point may leave the file system.
 *
 * The process may die before that (crash.dies_at), between two calls or in the middle of a write: what it did
 * stays as it is, synced or not, and a new process continues from there.
 *
 * The modelled file system promises this: what was written before a file's last sync is there; of later
 * writes any subset, each whole or torn at TEAR bytes, in any order. Changes of names happen in order: those
 * before the folder's last sync have happened, and of later ones the first few. */
#ifndef TESTS_CRASH_H
#define TESTS_CRASH_H

#include "platform/base/disk.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CRASH_OPS = 8192, CRASH_FILES = 512 };

enum crash_kind { OP_CREATE, OP_WRITE, OP_SYNC, OP_RENAME, OP_UNLINK, OP_SYNC_DIR };

struct crash_op {
	enum crash_kind kind;
	int file;
	int64_t at;
	size_t n;
	char *data;
	char name[64], to[64];
};

static struct {
	struct crash_op op[CRASH_OPS];
	int n, nfiles;
	ino_t ino[CRASH_FILES];
	bool deaf;   /* syncs are ignored: a broken cache */
	int dies_at; /* it dies after so many operations; 0: never */
	bool dead;   /* it has died: no call has an effect */
} crash;

static struct crash_op *crash_add(enum crash_kind kind)
{
	if (crash.n == CRASH_OPS)
		abort();
	struct crash_op *op = &crash.op[crash.n++];
	*op = (struct crash_op){.kind = kind};
	return op;
}

static void crash_name(char out[64], const char *path)
{
	const char *slash = strrchr(path, '/');
	snprintf(out, 64, "%s", slash ? slash + 1 : path);
}

/* The newest file with this inode, as numbers of removed files are used again. */
static int crash_file(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		abort();
	for (int i = crash.nfiles - 1; i >= 0; i--)
		if (crash.ino[i] == st.st_ino)
			return i;
	abort();
}

static bool crash_dies(void)
{
	crash.dead |= crash.dies_at && crash.n >= crash.dies_at;
	return crash.dead;
}

static int crash_create(const char *path, unsigned mode)
{
	if (crash_dies())
		return -EIO;
	int fd = disk_system.create(path, mode);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || crash.nfiles == CRASH_FILES)
		abort();
	struct crash_op *op = crash_add(OP_CREATE);
	crash.ino[op->file = crash.nfiles++] = st.st_ino;
	crash_name(op->name, path);
	return fd;
}

static int crash_write(int fd, const void *p, size_t n, int64_t at)
{
	if (crash.dead)
		return -EIO;
	if (crash_dies())
		n /= 2;
	struct crash_op *op = crash_add(OP_WRITE);
	op->file = crash_file(fd);
	op->at = at;
	op->n = n;
	op->data = malloc(n + 1);
	memcpy(op->data, p, n);
	int rc = disk_system.write(fd, p, n, at);
	return crash.dead ? -EIO : rc;
}

static int crash_sync(int fd)
{
	if (crash_dies())
		return -EIO;
	if (!crash.deaf)
		crash_add(OP_SYNC)->file = crash_file(fd);
	return 0;
}

static int crash_rename(const char *from, const char *to)
{
	if (crash_dies())
		return -EIO;
	struct crash_op *op = crash_add(OP_RENAME);
	crash_name(op->name, from);
	crash_name(op->to, to);
	return disk_system.rename(from, to);
}

static int crash_unlink(const char *path)
{
	if (crash_dies())
		return -EIO;
	crash_name(crash_add(OP_UNLINK)->name, path);
	return disk_system.unlink(path);
}

static int crash_sync_dir(const char *path)
{
	(void)path;
	if (crash_dies())
		return -EIO;
	if (!crash.deaf)
		crash_add(OP_SYNC_DIR);
	return 0;
}

static int64_t crash_read(int fd, void *p, size_t n, int64_t at)
{
	return disk_system.read(fd, p, n, at);
}

static const struct disk crash_disk = {
    crash_create, crash_write, crash_read, crash_sync, crash_rename, crash_unlink, crash_sync_dir,
};

static void crash_forget(void)
{
	for (int i = 0; i < crash.n; i++)
		free(crash.op[i].data);
	crash.n = crash.nfiles = crash.dies_at = 0;
	crash.dead = false;
}

/* How a cut treats writes that were not synced. */
enum crash_how { CUT_KEEPS, CUT_DROPS, CUT_TEARS_512, CUT_TEARS_4096, CUT_HOWS };

static const int crash_tear[] = {[CUT_TEARS_512] = 512, [CUT_TEARS_4096] = 4096};

struct crash_image {
	char *bytes;
	int64_t n, cap;
};

static void image_put(struct crash_image *f, const char *p, int64_t n, int64_t at)
{
	if (at + n > f->cap) {
		f->cap = (at + n) * 2;
		f->bytes = realloc(f->bytes, (size_t)f->cap);
	}
	if (at > f->n)
		memset(f->bytes + f->n, 0, (size_t)(at - f->n));
	if (p)
		memcpy(f->bytes + at, p, (size_t)n);
	else if (at + n > f->n)
		memset(f->bytes + (at > f->n ? at : f->n), 0, (size_t)(at + n - (at > f->n ? at : f->n)));
	f->n = at + n > f->n ? at + n : f->n;
}

/* Applies a write that was not synced. */
static void image_tear(struct crash_image *f, const struct crash_op *op, enum crash_how how, struct rng *r)
{
	if (how == CUT_KEEPS)
		image_put(f, op->data, (int64_t)op->n, op->at);
	if (how <= CUT_DROPS)
		return;
	int64_t end = op->at + (int64_t)op->n, step = crash_tear[how];
	uint32_t fate = rng_below(r, 4);  /* whole, gone, or torn */
	if (fate == 1 && rng_below(r, 2)) /* the file has its size but not the bytes */
		image_put(f, NULL, (int64_t)op->n, op->at);
	for (int64_t at = op->at, next; at < end && fate != 1; at = next) {
		next = (at / step + 1) * step < end ? (at / step + 1) * step : end;
		if (fate == 0 || rng_below(r, 2))
			image_put(f, op->data + (at - op->at), next - at, at);
	}
}

static int crash_last(enum crash_kind kind, int file, int before)
{
	for (int i = before - 1; i >= 0; i--)
		if (crash.op[i].kind == kind && (kind == OP_SYNC_DIR || crash.op[i].file == file))
			return i;
	return -1;
}

/* The names after some operations, and the file of each; -1: none. */
struct crash_names {
	char name[CRASH_FILES][64];
	int file[CRASH_FILES], n;
};

static int *crash_entry(struct crash_names *d, const char *name)
{
	for (int i = 0; i < d->n; i++)
		if (!strcmp(d->name[i], name))
			return &d->file[i];
	snprintf(d->name[d->n], sizeof *d->name, "%s", name);
	d->file[d->n] = -1;
	return &d->file[d->n++];
}

static void crash_list(struct crash_names *d, int n)
{
	d->n = 0;
	for (int i = 0; i < n; i++) {
		const struct crash_op *op = &crash.op[i];
		if (op->kind == OP_CREATE)
			*crash_entry(d, op->name) = op->file;
		if (op->kind == OP_UNLINK)
			*crash_entry(d, op->name) = -1;
		if (op->kind == OP_RENAME) {
			int *from = crash_entry(d, op->name), file = *from;
			*from = -1;
			*crash_entry(d, op->to) = file;
		}
	}
}

/* Fills the empty folder `dir` with a state that a cut before operation `cut` may leave. */
static void crash_make(const char *dir, int cut, enum crash_how how, struct rng *r)
{
	static struct crash_names d;
	int named = crash_last(OP_SYNC_DIR, 0, cut) + 1;
	int names = how == CUT_KEEPS   ? cut
		    : how == CUT_DROPS ? named
				       : named + (int)rng_below(r, (uint32_t)(cut - named + 1));
	crash_list(&d, names);
	for (int i = 0; i < d.n; i++) {
		struct crash_image f = {0};
		char path[PATH_MAX];
		if (d.file[i] < 0)
			continue;
		int synced = crash_last(OP_SYNC, d.file[i], cut);
		for (int j = 0; j < cut; j++)
			if (crash.op[j].kind == OP_WRITE && crash.op[j].file == d.file[i])
				image_tear(&f, &crash.op[j], j < synced ? CUT_KEEPS : how, r);
		snprintf(path, sizeof path, "%s/%s", dir, d.name[i]);
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, f.bytes, (size_t)f.n) != f.n)
			abort();
		close(fd);
		free(f.bytes);
	}
}

#endif
