/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/clock.h"
#include "platform/base/until.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Advice about an errno, for the end of a message. */
static const char *remedy(int err)
{
	static const struct {
		int err;
		const char *text;
	} known[] = {
	    {ENOENT, "check the name"},
	    {EACCES, "check its permissions"},
	    {EPERM, "check its permissions"},
	    {EROFS, "use another folder"},
	    {ENOSPC, "the disk is full: free some space"},
	    {EDQUOT, "your quota is used up: free some space"},
	    {EISDIR, "it is a folder, and a file is needed"},
	    {ENOTDIR, "a part of the path is not a folder"},
	    {EMFILE, "raise the limit of open files (ulimit -n)"},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].err == err)
			return known[i].text;
	return "look at the disk";
}

static int io_fail(const char *path, const char *doing)
{
	int err = errno;
	return fail(err == ENOENT ? E_NOTFOUND : E_IO, "cannot %s %s: %s; %s", doing, path, strerror(err),
		    remedy(err));
}

/* Opens a regular file and returns its size. */
static int open_regular(const char *path, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return io_fail(path, "open");
	struct stat st;
	if (fstat(fd, &st) < 0) {
		int rc = io_fail(path, "examine");
		close(fd);
		return rc;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return fail(E_IO, "%s is %s; name a file", path,
			    S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
	}
	*n = (size_t)st.st_size;
	return fd;
}

static int read_all(int fd, const char *path, char *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		int rc = n > UNTIL_PIECE ? until_check() : E_OK;
		if (rc < 0)
			return fail_in(rc, "%s", path);
		ssize_t got = read(fd, p + at, n - at < UNTIL_PIECE ? n - at : UNTIL_PIECE);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return io_fail(path, "read");
		if (got == 0)
			return fail(E_IO, "%s became shorter while it was read; try again", path);
		at += (size_t)got;
		until_read(got);
	}
	return E_OK;
}

int file_read(struct arena *a, const char *path, size_t max_bytes, struct blob *out)
{
	int fd, rc = file_read_open(a, path, max_bytes, out, &fd);
	if (rc >= 0)
		close(fd);
	return rc;
}

int file_read_open(struct arena *a, const char *path, size_t max_bytes, struct blob *out, int *open)
{
	size_t n = 0, max = max_bytes ? max_bytes : (size_t)2 << 30;
	int fd = open_regular(path, &n), rc;
	if (fd < 0)
		return fd;
	char *p = NULL;
	if (n > max)
		rc = fail(E_NOMEM, "%s has %zu bytes, more than the %zu allowed", path, n, max);
	else if (!(p = arena_try(a, n + 1, 1)))
		rc = fail_in(E_NOMEM, "%s", path);
	else
		rc = read_all(fd, path, p, n);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*out = (struct blob){.p = p, .n = n};
	*open = fd;
	return rc;
}

static int write_all(int fd, const char *path, const struct blob *b)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t put = write(fd, (const char *)b->p + at, b->n - at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return io_fail(path, "write");
		if (put == 0)
			return fail(E_IO, "%s: cannot write any more", path);
		at += (size_t)put;
	}
	return E_OK;
}

/* Ignores errors: some file systems cannot sync a folder, which is not the caller's fault. */
static void sync_folder(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!fsync(fd);
	close(fd);
}

void file_sync_folder_of(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int len = slash ? (int)(slash - path) + (slash == path) : 1;
	snprintf(dir, sizeof dir, "%.*s", len, slash ? path : ".");
	sync_folder(dir);
}

/* Makes a new file beside the path. Its name is unique, also among files that killed processes left. Its mode
 * is open()'s: mkostemp's 0600 would hide it from other users, and umask() would act on the whole process. */
static int open_beside(const char *path, mode_t mode, char *temp, size_t n)
{
	int fd = -1;
	for (unsigned i = 0; i < 100 && fd < 0 && (!i || errno == EEXIST); i++) {
		uint64_t name = (uint64_t)clock_now(&clock_real) * 2654435761U + (uint64_t)getpid() + i;
		if (snprintf(temp, n, "%s.%08x", path, (unsigned)(name ^ name >> 32)) >= (int)n)
			return fail(E_IO, "the path %.60s... is too long", path);
		fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	}
	if (fd < 0 && errno == ENOENT)
		return fail(E_NOTFOUND, "cannot create %s: its folder does not exist; make the folder first",
			    path);
	return fd < 0 ? io_fail(path, "create a file beside") : fd;
}

bool file_is_unfinished(const char *name, const char *base)
{
	size_t n = strlen(base);
	return !strncmp(name, base, n) && name[n] == '.' && strlen(name + n + 1) == 8 &&
	       strspn(name + n + 1, "0123456789abcdef") == 8;
}

/* A device or a pipe is not replaced by a file. */
static int check_replaced(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return E_OK;
	return fail(E_IO, "%s is %s, not a regular file; name a file", path,
		    S_ISDIR(st.st_mode)	   ? "a folder"
		    : S_ISFIFO(st.st_mode) ? "a pipe"
		    : S_ISSOCK(st.st_mode) ? "a socket"
					   : "a device");
}

static int write_parts(const char *path, const struct blob *part, int nparts, unsigned most, bool durably)
{
	char temp[PATH_MAX];
	struct stat old;
	bool is_new = stat(path, &old) < 0;
	int rc = check_replaced(path);
	int fd = rc < 0 ? rc : open_beside(path, 0666 & most, temp, sizeof temp);
	if (fd < 0)
		return fd;
	for (int i = 0; i < nparts && rc >= 0; i++)
		rc = write_all(fd, path, &part[i]);
	if (rc >= 0 && !is_new && fchmod(fd, old.st_mode & 07777 & most) < 0)
		rc = io_fail(path, "set the mode of");
	if (rc >= 0 && durably && fsync(fd) < 0)
		rc = io_fail(path, "sync");
	if (close(fd) < 0 && rc >= 0)
		rc = io_fail(path, "write");
	if (rc >= 0 && rename(temp, path) < 0)
		rc = io_fail(path, "replace");
	if (rc < 0)
		unlink(temp);
	else if (durably)
		file_sync_folder_of(path);
	return rc;
}

int file_write_parts(const char *path, const struct blob *part, int nparts, unsigned most)
{
	return write_parts(path, part, nparts, most, true);
}

int file_write_soon(const char *path, const void *p, size_t n)
{
	return write_parts(path, &(struct blob){p, n}, 1, 07777, false);
}

int file_write(const char *path, const void *p, size_t n)
{
	return file_write_parts(path, &(struct blob){p, n}, 1, 07777);
}

int file_can_write(const char *path)
{
	char temp[PATH_MAX];
	int rc = check_replaced(path);
	int fd = rc < 0 ? rc : open_beside(path, 0600, temp, sizeof temp);
	if (fd < 0)
		return fd;
	close(fd);
	unlink(temp);
	return E_OK;
}

int file_can_mkdirs(const char *path)
{
	char part[PATH_MAX];
	if (!*path || snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return fail(E_IO, "'%.60s' cannot name a folder", path);
	while (!file_exists(part)) { /* cuts to the nearest folder that exists */
		char *slash = strrchr(part, '/');
		if (!slash)
			strcpy(part, ".");
		else
			slash[slash == part] = 0;
	}
	if (!file_is_dir(part))
		errno = ENOTDIR;
	else if (access(part, W_OK | X_OK) == 0)
		return E_OK;
	return io_fail(part, "write into");
}

int file_mkdirs(const char *path, unsigned mode)
{
	char part[PATH_MAX];
	if (!*path)
		return fail(E_IO, "the name of the folder is empty");
	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return fail(E_IO, "the path %.60s... is too long", path);
	for (char *at = part + 1;; at++) {
		if (*at && *at != '/')
			continue;
		char end = *at;
		*at = 0;
		int why = mkdir(part, (mode_t)mode) == 0 ? 0 : errno;
		if (!why) {
			file_sync_folder_of(part);
		} else if (!file_is_dir(part)) {
			if (why == EEXIST)
				return fail(E_IO,
					    "cannot make the folder %s: %s; a file has that name: name "
					    "another folder",
					    part, strerror(ENOTDIR));
			errno = why;
			return io_fail(part, "make the folder");
		}
		if (!end)
			return E_OK;
		*at = end;
	}
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

bool file_ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);
	return n >= m && !strcmp(path + n - m, end);
}

bool file_is_dir(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int file_self_dir(char *out, size_t n)
{
	char self[PATH_MAX];
	ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
	if (got < 0)
		return io_fail("/proc/self/exe", "read");
	self[got] = 0;
	char *slash = strrchr(self, '/');
	if (slash && slash != self)
		*slash = 0;
	if (snprintf(out, n, "%s", self) >= (int)n)
		return fail(E_IO, "the path %.60s... is too long", self);
	return E_OK;
}

int file_cache_dir(char *out, size_t n)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int len;
	if (xdg && xdg[0] == '/')
		len = snprintf(out, n, "%s/hone", xdg);
	else if (home && home[0] == '/')
		len = snprintf(out, n, "%s/.cache/hone", home);
	else
		return fail(E_NOTFOUND,
			    "no cache folder: neither XDG_CACHE_HOME nor HOME is set; give --cache DIR");
	return len >= (int)n ? fail(E_IO, "the path of the cache folder is too long; give --cache DIR")
			     : E_OK;
}

/* Follows no link: a link in the lock's place could make any file be created or locked. */
static int open_lock(const char *path)
{
	struct stat st;
	enum { FLAGS = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
	int f = open(path, O_RDWR | O_CREAT | FLAGS, 0600);
	if (f < 0 && errno == EACCES) { /* another user made it; a lock needs only read access */
		f = open(path, O_RDONLY | FLAGS);
		errno = f < 0 && errno == ENOENT ? EACCES : errno; /* nobody did: the folder is closed */
	}
	if (f < 0)
		return io_fail(path, "open");
	if (fstat(f, &st) == 0 && S_ISREG(st.st_mode))
		return f;
	close(f);
	return fail(E_IO, "%s is not a regular file; remove it, or use another folder", path);
}

/* Checks that the locked file still has its name. A former owner may have removed it, and the next process
 * would lock a new file. */
static bool has_name(int f)
{
	struct stat st;
	return fstat(f, &st) == 0 && st.st_nlink > 0;
}

/* 1: we hold the lock; 0: another process holds it now. */
static int try_lock(const char *path, int *fd)
{
	int f = open_lock(path);
	if (f < 0)
		return f;
	int rc = flock(f, LOCK_EX | LOCK_NB), error = errno;
	if (rc == 0 && has_name(f)) {
		*fd = f;
		return 1;
	}
	close(f);
	errno = error;
	return rc == 0 || error == EWOULDBLOCK || error == EINTR ? 0 : io_fail(path, "lock");
}

int file_lock(const char *path, int64_t wait_ns, int *fd)
{
	int64_t end = clock_now(&clock_real) + wait_ns;
	for (int rc; (rc = try_lock(path, fd)) <= 0;) {
		if (rc < 0)
			return rc;
		if (clock_now(&clock_real) >= end)
			return fail(E_BUSY,
				    "%s is locked by another process; wait for it or use another folder",
				    path);
		clock_real.sleep(&clock_real, 5 * NS_PER_MS);
	}
	return E_OK;
}

void file_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}
