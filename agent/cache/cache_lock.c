/* SPDX-License-Identifier: Apache-2.0 */
/* One writer: DIR/lock. */
#include "agent/cache/cache_parts.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int lock_path(const char *dir, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/lock", dir) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path of cache folder %.80s... is too long", dir);
}

enum { HOLDER = 32 /* bytes of "PID\n", at most */ };

/* True: the file is empty, or a killed holder left its PID. Any other content may belong to a user. */
static bool is_ours(int fd)
{
	char text[HOLDER];
	ssize_t n = pread(fd, text, sizeof text, 0);
	if (n < 0 || n == HOLDER)
		return false;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] != '\n' && !isdigit((unsigned char)text[i]))
			return false;
	return true;
}

/* To hold a lock it is enough to open the file, so only users who may write the folder, and its owner, get
 * access: anybody else could keep every writer away. */
static void let_writers_lock(int fd, const char *dir)
{
	struct stat file, folder;
	if (fstat(fd, &file) < 0 || stat(dir, &folder) < 0 || file.st_nlink > 1 || !is_ours(fd))
		return;
	bool owners = file.st_uid == folder.st_uid || fchown(fd, folder.st_uid, (gid_t)-1) == 0;
	bool groups = file.st_gid == folder.st_gid || fchown(fd, (uid_t)-1, folder.st_gid) == 0;
	bool others_write = folder.st_mode & S_IWOTH, group_writes = folder.st_mode & S_IWGRP;
	unsigned mode = 0600 | (owners ? 0 : 044) | (others_write ? 06 : 0);
	if (groups ? group_writes : others_write)
		mode |= 060;
	if ((file.st_mode & 07777) != mode && fchmod(fd, (mode_t)mode) < 0)
		log_more("cannot change the mode of the cache's lock file: %s", strerror(errno));
}

/* Writes the process ID into the lock file, for the error message of a process that is refused. A file that
 * has another name may be a user's, linked here to be overwritten, so it is not written. */
static void write_holder(int fd)
{
	char text[HOLDER];
	struct stat st;
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (fstat(fd, &st) < 0 || st.st_nlink > 1)
		return;
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		log_more("cannot write the process id to the cache's lock file: %s", strerror(errno));
}

/* Writes "PID (COMMAND)" of the lock's holder. */
static void name_holder(const char *path, char *out, size_t size)
{
	char holder[HOLDER] = "", proc[64], words[120] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, holder, sizeof holder - 1);
	if (fd >= 0)
		close(fd);
	holder[n > 0 ? n : 0] = 0;
	holder[strspn(holder, "0123456789")] = 0;
	snprintf(proc, sizeof proc, "/proc/%s/cmdline", holder);
	fd = *holder ? open(proc, O_RDONLY | O_CLOEXEC) : -1;
	n = fd < 0 ? 0 : read(fd, words, sizeof words - 1);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i + 1 < n; i++) /* its words end with NUL */
		words[i] = words[i] ? words[i] : ' ';
	if (n == (ssize_t)sizeof words - 1) /* it goes on */
		memcpy(words + n - 3, "...", 3);
	log_one_line(words);
	snprintf(out, size, "%s%s%s%s", *holder ? holder : "(unknown)", *words ? " (" : "", words,
		 *words ? ")" : "");
}

/* Whether the command in "PID (COMMAND)" is a honed. */
static bool is_honed(const char *holder)
{
	const char *word = strchr(holder, '(');
	size_t n = word ? strcspn(word, " )") : 0;
	return n > 5 && !memcmp(word + n - 5, "honed", 5) && (word[n - 6] == '/' || word[n - 6] == '(');
}

static int busy(const char *dir, const char *path)
{
	char holder[200];
	name_holder(path, holder, sizeof holder);
	return fail(E_BUSY, "cache %s is in use by process %s; %s, or use another --cache folder", dir,
		    holder,
		    is_honed(holder)
			? "hone tune and hone-sync send it their records if HONE_SOCKET names its socket; "
			  "for others end it (systemctl stop honed, or its terminal)"
			: "wait for it to end (hone and hone-sync wait with --wait, longer with --wait=1h)");
}

/* A killed holder left the lock file, and since then the folder's permissions changed. */
static int left(int rc, const char *dir, const char *path)
{
	if (access(path, R_OK) == 0 || access(dir, W_OK) < 0 || access(path, F_OK) < 0)
		return rc;
	return fail(rc, "%s belongs to another user; if that user runs no hone, remove it: rm -f %s", path,
		    path);
}

int cache_lock(struct cache *c, const char *dir, int64_t wait_ns)
{
	char path[PATH_MAX];
	int rc = lock_path(dir, path);
	if (rc >= 0)
		rc = file_lock(path, wait_ns, &c->lock_fd);
	if (rc < 0) {
		c->lock_fd = -1;
		return rc == E_BUSY ? busy(dir, path) : left(rc, dir, path);
	}
	let_writers_lock(c->lock_fd, dir);
	write_holder(c->lock_fd);
	return rc;
}

int cache_lock_wait(const char *dir, int64_t wait_ns, int *lock_fd)
{
	char path[PATH_MAX], holder[200];
	int64_t start_ns = clock_now(&clock_real), nap_ns = 5 * NS_PER_MS;
	int rc = lock_path(dir, path);
	*lock_fd = -1;
	if (rc < 0 || access(path, F_OK) < 0)
		return rc;
	rc = file_lock(path, 0, lock_fd);
	if (rc == E_BUSY && wait_ns > 0) {
		name_holder(path, holder, sizeof holder);
		log_info("hone: cache %s is in use by process %s; waiting until it ends", dir, holder);
	}
	while (rc == E_BUSY && clock_now(&clock_real) - start_ns < wait_ns) {
		clock_real.sleep(&clock_real, nap_ns);
		nap_ns = nap_ns < 100 * NS_PER_MS ? nap_ns * 2 : nap_ns;
		rc = file_lock(path, 0, lock_fd);
	}
	if (rc == E_BUSY)
		return busy(dir, path);
	if (rc < 0) {
		*lock_fd = -1;
		return E_OK;
	}
	let_writers_lock(*lock_fd, dir);
	write_holder(*lock_fd);
	return E_OK;
}

int cache_refuse_honed(const char *dir, int64_t wait_ns)
{
	char path[PATH_MAX], holder[160];
	int fd = -1, rc = lock_path(dir, path);
	if (rc < 0 || access(path, F_OK) < 0)
		return rc;
	name_holder(path, holder, sizeof holder);
	if (!is_honed(holder))
		return E_OK;
	rc = file_lock(path, wait_ns, &fd);
	if (rc == E_BUSY)
		return fail(
		    E_BUSY,
		    "another honed, process %s, already writes the cache %s; stop it, or name another "
		    "cache in honed.conf",
		    holder, dir);
	if (rc >= 0)
		cache_unlock(dir, fd);
	return E_OK;
}

/* Returns how many names this file has, if DIR/lock is one of them; else 0. */
static int is_named(const char *dir, int fd, char path[PATH_MAX])
{
	struct stat here, ours;
	bool same = lock_path(dir, path) >= 0 && lstat(path, &here) == 0 && fstat(fd, &ours) == 0 &&
		    here.st_ino == ours.st_ino && here.st_dev == ours.st_dev;
	return same ? (int)ours.st_nlink : 0;
}

/* Removes the lock file, since the next holder may be another user who was given the folder meanwhile. A
 * process that waits for the lock sees that the file is gone (file_lock). */
void cache_unlock(const char *dir, int fd)
{
	char path[PATH_MAX];
	if (is_named(dir, fd, path) == 1 && unlink(path) < 0)
		log_more("cannot remove the cache's lock file: %s", strerror(errno));
	file_unlock(fd);
}

int cache_hold(struct cache *c)
{
	const char *dir = cache_dir(c);
	char path[PATH_MAX];
	if (is_named(dir, c->lock_fd, path))
		return E_OK;
	int old = c->lock_fd, rc = file_mkdirs(dir, 0755);
	if (rc >= 0)
		rc = cache_lock(c, dir, 0);
	if (rc < 0) {
		char why[512];
		snprintf(why, sizeof why, "%s", err_text());
		c->lock_fd = old;
		return fail(E_IO, "cache %s was removed or moved: %s", dir, why);
	}
	cache_unlock(dir, old);
	log_info("hone: cache %s was removed or moved: new results go to a new one", dir);
	return cache_reload(c);
}
