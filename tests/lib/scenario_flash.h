/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that can be full, and whose power can be cut: writes that were not synced are then lost, kept or
 * torn at random. Changes of names are durable at once (tests/agent/cache/test_torture.c cuts those, too). */
#ifndef TESTS_SCENARIO_FLASH_H
#define TESTS_SCENARIO_FLASH_H

#include "platform/base/disk.h"
#include "platform/base/rng.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct undo {
	int fd;
	ino_t inode;
	int64_t at, size; /* place of the write; the file's size before it */
	size_t n;         /* bytes that were there, at most those written */
	char *old;
};

static struct {
	bool full, dead;
	int n, cap;
	struct undo *undo;
	int64_t writes, refused;
} flash;

static inline int flash_gone(bool needs_room)
{
	bool full = flash.full && needs_room;
	flash.refused += full;
	return flash.dead ? -EIO : full ? -ENOSPC : 0;
}

static inline int flash_create(const char *path, unsigned mode)
{
	int rc = flash_gone(true);
	return rc < 0 ? rc : disk_system.create(path, mode);
}

static inline int flash_write(int fd, const void *p, size_t n, int64_t at)
{
	struct stat st;
	int rc = flash_gone(true);
	if (rc < 0 || fstat(fd, &st) < 0)
		return rc < 0 ? rc : -errno;
	if (flash.n == flash.cap)
		flash.undo =
		    realloc(flash.undo, sizeof *flash.undo * (size_t)(flash.cap = 2 * flash.cap + 16));
	struct undo u = {.fd = dup(fd), .inode = st.st_ino, .at = at, .size = st.st_size, .old = malloc(n)};
	ssize_t had = u.old ? pread(fd, u.old, n, at) : -1;
	if (u.fd < 0 || !u.old || !flash.undo)
		abort();
	u.n = had > 0 ? (size_t)had : 0;
	flash.undo[flash.n++] = u;
	flash.writes++;
	return disk_system.write(fd, p, n, at);
}

static inline void flash_let_go(struct undo *u)
{
	close(u->fd);
	free(u->old);
}

static inline int flash_sync(int fd)
{
	struct stat st;
	int rc = flash_gone(false), left = 0;
	if (rc < 0 || fstat(fd, &st) < 0)
		return rc < 0 ? rc : -errno;
	for (int i = 0; i < flash.n; i++)
		if (flash.undo[i].inode == st.st_ino)
			flash_let_go(&flash.undo[i]);
		else
			flash.undo[left++] = flash.undo[i];
	flash.n = left;
	return 0;
}

static inline int flash_rename(const char *from, const char *to)
{
	int rc = flash_gone(false);
	return rc < 0 ? rc : disk_system.rename(from, to);
}

static inline int flash_unlink(const char *path)
{
	int rc = flash_gone(false);
	return rc < 0 ? rc : disk_system.unlink(path);
}

static inline int flash_sync_dir(const char *path)
{
	(void)path;
	return flash_gone(false);
}

/* Undoes a write from its byte `part` on. */
static inline void flash_undo(const struct undo *u, size_t part)
{
	if (u->n > part && pwrite(u->fd, u->old + part, u->n - part, u->at + (int64_t)part) < 0)
		abort();
	int64_t keep = u->at + (int64_t)part > u->size ? u->at + (int64_t)part : u->size;
	struct stat st;
	if (fstat(u->fd, &st) == 0 && st.st_size > keep && ftruncate(u->fd, keep) < 0)
		abort();
}

/* Call this after the writer has ended with flash.dead. A power cut may undo writes that were not synced; a
 * kill undoes nothing. */
static inline void flash_restart(struct rng *r, bool power_cut)
{
	for (int i = flash.n - 1; i >= 0; i--) {
		struct undo *u = &flash.undo[i];
		int fate = power_cut ? (int)rng_below(r, 3) : 0;
		if (fate)
			flash_undo(u, fate == 1 ? 0 : u->n / 2);
		flash_let_go(u);
	}
	flash.n = 0;
	flash.dead = false;
}

static inline int64_t flash_read(int fd, void *p, size_t n, int64_t at)
{
	return disk_system.read(fd, p, n, at);
}

static const struct disk flash_disk = {flash_create, flash_write,  flash_read,    flash_sync,
				       flash_rename, flash_unlink, flash_sync_dir};

#endif
