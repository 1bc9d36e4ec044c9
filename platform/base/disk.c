/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Gives the file to the group of its folder. Returns whether that worked. */
static bool give_to_group(int fd, const char *path)
{
	char dir[PATH_MAX];
	struct stat folder, file;
	const char *slash = strrchr(path, '/');
	int n = slash ? (int)(slash - path) + (slash == path) : 1;
	return snprintf(dir, sizeof dir, "%.*s", n, slash ? path : ".") < (int)sizeof dir &&
	       stat(dir, &folder) == 0 && fstat(fd, &file) == 0 &&
	       (file.st_gid == folder.st_gid || fchown(fd, (uid_t)-1, folder.st_gid) == 0);
}

/* Makes a new file of our own, even if another user left one there. The mode is `mode`, whatever the
 * umask. */
static int create(const char *path, unsigned mode)
{
	unlink(path);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (!give_to_group(fd, path))
		mode = (mode & ~070u) | (mode & 07) << 3;
	if (fchmod(fd, (mode_t)mode) < 0 && errno != EPERM) {
		int err = errno;
		close(fd);
		return -err;
	}
	return fd;
}

static int write_all(int fd, const void *p, size_t n, int64_t at)
{
	for (size_t put = 0; put < n;) {
		ssize_t r = pwrite(fd, (const char *)p + put, n - put, at + (int64_t)put);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ENOSPC;
		put += (size_t)r;
	}
	return 0;
}

static int64_t read_all(int fd, void *p, size_t n, int64_t at)
{
	size_t got = 0;
	while (got < n) {
		ssize_t r = pread(fd, (char *)p + got, n - got, at + (int64_t)got);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (int64_t)got;
}

static int sync_data(int fd)
{
	return fdatasync(fd) < 0 ? -errno : 0;
}

static int rename_file(const char *from, const char *to)
{
	return rename(from, to) < 0 ? -errno : 0;
}

static int unlink_file(const char *path)
{
	return unlink(path) < 0 ? -errno : 0;
}

static int sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP ? -errno : 0;
	close(fd);
	return rc;
}

const struct disk disk_system = {
    create, write_all, read_all, sync_data, rename_file, unlink_file, sync_dir,
};
const struct disk *disk = &disk_system;

const char *disk_remedy(int rc)
{
	static const struct {
		int err;
		const char *text;
	} known[] = {
	    {ENOSPC, "make room there"},
	    {EDQUOT, "make room within your quota"},
	    {EFBIG, "raise the limit of file sizes"},
	    {EROFS, "its file system is read-only: mount it writable"},
	    {EMFILE, "close files, or raise their limit (ulimit -n)"},
	    {EACCES, "check its permissions"},
	    {EPERM, "check its permissions"},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].err == -rc)
			return known[i].text;
	return "look at the disk";
}
