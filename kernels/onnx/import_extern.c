/* SPDX-License-Identifier: Apache-2.0 */
/* External data: bytes of a file in the model's folder or below it, or below the folder in which the model's
 * own file lies if that is reached through a link, and never elsewhere. The path is opened
 * component by component without following symbolic links, so neither "..", a link nor a race leads outside.
 * If a component is a link, the file is opened through it, and the kernel is asked where the open file lies:
 * in that folder, or in the one where the model's open file really lies, or below them. Data is read, not
 * mapped: a file that shrinks later is an error here and not a SIGBUS in the application. */
#include "kernels/onnx/onnx_pb.h"
#include "platform/base/until.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
	const char *location;
	int64_t offset, length; /* length -1: not given */
};

static int read_number(const char *key, const char *text, int64_t *out)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < 0)
		return fail(E_CORRUPT, "external data: %s '%.40s' is not a size", key, text);
	*out = v;
	return E_OK;
}

static int read_place(const Onnx__TensorProto *p, struct place *out)
{
	*out = (struct place){NULL, 0, -1};
	for (size_t i = 0; i < p->n_external_data; i++) {
		const char *key = p->external_data[i]->key, *value = p->external_data[i]->value;
		int rc = E_OK;
		if (!key || !value)
			continue;
		if (!strcmp(key, "location"))
			out->location = value;
		else if (!strcmp(key, "offset"))
			rc = read_number(key, value, &out->offset);
		else if (!strcmp(key, "length"))
			rc = read_number(key, value, &out->length);
		if (rc < 0)
			return rc;
	}
	return out->location ? E_OK : fail(E_CORRUPT, "external data without a location");
}

static int open_error(const char *location)
{
	return fail(errno == ENOENT ? E_NOTFOUND : E_IO,
		    "external data '%.200s': %s: put the file beside the model", location, strerror(errno));
}

/* Writes the path of an open file; false: the kernel does not tell it. */
static bool real_path(int fd, char out[PATH_MAX])
{
	char link[32];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Whether the open file lies below the open folder or, with `beside`, below that of the open file. */
static bool lies_below(int fd, int of, bool beside)
{
	char file[PATH_MAX], folder[PATH_MAX];
	if (!real_path(fd, file) || !real_path(of, folder))
		return false;
	char *slash = strrchr(folder, '/');
	if (slash && beside)
		*slash = 0;
	size_t n = strlen(folder);
	return !strncmp(file, folder, n) && file[n] == '/';
}

/* Opens the path below `dir`, the component of which is a symbolic link. */
static int open_through(int dir, const char *path, const struct pb_home *home, const char *location)
{
	int own = open(home->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool in = fd >= 0 && (lies_below(fd, own, false) || lies_below(fd, home->model, true));
	if (own >= 0)
		close(own);
	if (fd < 0)
		return open_error(location);
	if (in)
		return fd;
	close(fd);
	return fail(E_CORRUPT,
		    "external data '%.200s' is a symbolic link that leads elsewhere: copy the data into "
		    "the model's folder",
		    location);
}

/* Opens a relative path below `folder`, component by component. Returns the descriptor. */
static int open_below(const struct pb_home *home, const char *location)
{
	if (location[0] == '/' || strlen(location) > 1024)
		return fail(E_CORRUPT, "external data '%.200s' lies outside the model's folder", location);
	int dir = open(home->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return fail(E_IO, "folder %s: %s", home->folder, strerror(errno));
	for (const char *p = location;;) {
		size_t n = strcspn(p, "/");
		bool last = !p[n];
		char part[256];
		if (n == 0 || n >= sizeof part || (n == 2 && !memcmp(p, "..", 2))) {
			close(dir);
			return fail(E_CORRUPT, "external data '%.200s' lies outside the model's folder",
				    location);
		}
		memcpy(part, p, n);
		part[n] = 0;
		int fd =
		    openat(dir, part,
			   (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
			fd = open_through(dir, p, home, location);
			last = true;
		} else if (fd < 0) {
			fd = open_error(location);
		}
		close(dir);
		if (fd < 0)
			return fd;
		if (last)
			return fd;
		dir = fd;
		p += n + 1;
	}
}

static int read_at(int fd, const char *location, void *data, size_t bytes, int64_t offset)
{
	for (size_t done = 0; done < bytes;) {
		size_t most = bytes - done < UNTIL_PIECE ? bytes - done : UNTIL_PIECE;
		int rc = until_check();
		if (rc < 0)
			return fail_in(rc, "external data '%.200s'", location);
		ssize_t n = pread(fd, (char *)data + done, most, (off_t)offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(E_IO, "external data '%.200s': %s", location, strerror(errno));
		if (n == 0)
			return fail(E_CORRUPT, "external data '%.200s' became shorter while it was read",
				    location);
		done += (size_t)n;
		until_read(n);
	}
	return E_OK;
}

int pb_external(const Onnx__TensorProto *p, const struct pb_home *home, void *data, size_t bytes)
{
	struct place at;
	int rc = read_place(p, &at);
	if (rc < 0)
		return rc;
	if (!home->folder)
		return fail(E_UNSUPPORTED,
			    "external data '%.200s' needs the model's folder: import it as a file",
			    at.location);
	if (at.length >= 0 && (uint64_t)at.length != bytes)
		return fail(E_CORRUPT,
			    "external data '%.200s': length %" PRId64 " where the dimensions say %zu",
			    at.location, at.length, bytes);
	int fd = open_below(home, at.location);
	if (fd < 0)
		return fd;
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = fail(E_CORRUPT, "external data '%.200s' is not a regular file", at.location);
	else if (at.offset > st.st_size || (uint64_t)(st.st_size - at.offset) < bytes)
		rc = fail(E_CORRUPT,
			  "external data '%.200s' has %" PRId64 " bytes; %zu are wanted at %" PRId64
			  ": copy the whole file again",
			  at.location, (int64_t)st.st_size, bytes, at.offset);
	else if (data)
		rc = read_at(fd, at.location, data, bytes, at.offset);
	close(fd);
	return rc;
}
