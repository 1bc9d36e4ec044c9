/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: the service manager passes it, or we make it. Also ensures that only one honed uses a
 * run folder. */
#include "agent/honed/honed_loop.h"
#include "platform/base/log.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int run_folder(struct loop *l)
{
	char path[PATH_MAX];
	int rc = file_mkdirs(l->o.run, 0755);
	if (rc >= 0 && snprintf(path, sizeof path, "%s/honed.lock", l->o.run) >= (int)sizeof path)
		rc = fail(E_USAGE, "the path is too long");
	if (rc >= 0)
		rc = file_lock(path, OTHERS_NS, &l->lock_fd);
	if (rc == E_BUSY)
		return fail(E_BUSY,
			    "another honed already uses the run folder %s; stop it, or use another --run",
			    l->o.run);
	return fail_in(rc, "run folder %s (--run names another)", l->o.run);
}

static int address(const char *path, struct sockaddr_un *to)
{
	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof to->sun_path)
		return fail(E_USAGE, "control socket %s: the path of a socket can have at most %zu bytes",
			    path, sizeof to->sun_path - 1);
	memcpy(to->sun_path, path, strlen(path) + 1);
	return E_OK;
}

/* Whether somebody listens there. Not for a socket of the service manager: connecting would start the
 * service. */
static bool is_taken(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool taken =
	    fd >= 0 && (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return taken;
}

/* Binds under another name first, so that the socket's file never exists without a listener. */
static int bind_at(struct loop *l, const char *path, const struct sockaddr_un *at)
{
	char temp[PATH_MAX];
	struct sockaddr_un to;
	snprintf(temp, sizeof temp, "%s.%d", path, (int)getpid());
	int rc = address(temp, &to);
	if (rc < 0)
		return rc;
	unlink(temp);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && chmod(temp, 0666) == 0 &&
	    listen(fd, 511) == 0 && rename(temp, at->sun_path) == 0) {
		l->listen_fd = fd;
		l->bound = true;
		return E_OK;
	}
	const char *slash = strrchr(path, '/');
	if (errno == ENOENT && slash > path)
		rc =
		    fail(E_IO,
			 "control socket %s: the folder %.*s does not exist: make it, or name another socket "
			 "(--socket)",
			 path, (int)(slash - path), path);
	else
		rc = fail(E_IO, "control socket %s: %s; --socket names another", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	unlink(temp);
	return rc;
}

/* A box does without a socket if one exists already: the honed that starts after it answers the clients
 * there. */
static int make_socket(struct loop *l)
{
	const char *path = l->o.socket;
	struct sockaddr_un at;
	struct stat st;
	int rc = address(path, &at);
	if (rc < 0)
		return rc;
	bool is = lstat(path, &st) == 0;
	if (is && l->o.box)
		return E_OK;
	if (is && !S_ISSOCK(st.st_mode))
		return fail(E_USAGE, "control socket %s: not a socket; remove it, or use another --socket",
			    path);
	if (is && is_taken(&at))
		return fail(E_BUSY,
			    "control socket %s: another process listens there; stop it, or use another "
			    "--socket",
			    path);
	return bind_at(l, path, &at);
}

/* Finds the socket's group; its members are owners. */
static void find_group(struct loop *l)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;
	socklen_t n = sizeof at - 1;
	l->has_group = l->listen_fd >= 0 && getsockname(l->listen_fd, (struct sockaddr *)&at, &n) == 0 &&
		       at.sun_path[0] && stat(l->bound ? l->o.socket : at.sun_path, &st) == 0;
	l->group = l->has_group ? st.st_gid : 0;
}

int loop_socket(struct loop *l)
{
	l->listen_fd = l->lock_fd = -1;
	int rc = run_folder(l);
	if (rc >= 0 && l->notify.listen_fds > 0)
		l->listen_fd = NOTIFY_FIRST_FD;
	else if (rc >= 0)
		rc = make_socket(l);
	if (rc >= 0)
		find_group(l);
	return rc;
}

void loop_socket_close(struct loop *l)
{
	if (l->bound)
		unlink(l->o.socket);
	if (l->listen_fd >= 0)
		close(l->listen_fd);
	if (l->lock_fd >= 0)
		file_unlock(l->lock_fd);
}
