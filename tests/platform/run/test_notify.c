/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/notify.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

/* Opens a manager's socket at $NOTIFY_SOCKET. */
static int manager(bool abstract)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char name[100];
	snprintf(dir, sizeof dir, "/tmp/hone-notify-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	snprintf(name, sizeof name, "%s%s/s", abstract ? "@" : "", dir);
	memcpy(at.sun_path, name, strlen(name) + 1);
	if (abstract)
		at.sun_path[0] = 0;
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + !abstract);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&at, n) < 0)
		abort();
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void end(int fd)
{
	char path[80];
	snprintf(path, sizeof path, "%s/s", dir);
	close(fd);
	unlink(path);
	CHECK(rmdir(dir) == 0);
}

static const char *heard(int fd)
{
	static char text[1024];
	ssize_t n = recv(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static void tells(bool abstract)
{
	struct notify n;
	int fd = manager(abstract);
	notify_init(&n);
	CHECK(!getenv("NOTIFY_SOCKET"));
	CHECK(notify_send(&n, "READY=1") == 1);
	CHECK(!strcmp(heard(fd), "READY=1"));
	CHECK(notify_status(&n, "zone \xff at 71\nREADY=1") == 1);
	CHECK(!strcmp(heard(fd), "STATUS=zone ? at 71 READY=1"));
	CHECK(notify_reloading(&n, 5000999) == 1);
	CHECK(!strcmp(heard(fd), "RELOADING=1\nMONOTONIC_USEC=5000"));
	end(fd);
}

TEST(tells_the_manager)
{
	tells(false);
}

TEST(abstract_socket)
{
	tells(true);
}

TEST(no_listener)
{
	struct notify n;
	unsetenv("NOTIFY_SOCKET");
	notify_init(&n);
	CHECK(notify_send(&n, "READY=1") == 0);
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	notify_init(&n);
	CHECK(notify_send(&n, "READY=1") == 0);
	char path[200];
	memset(path, 'x', sizeof path);
	path[0] = '/';
	path[sizeof path - 1] = 0;
	setenv("NOTIFY_SOCKET", path, 1);
	notify_init(&n);
	CHECK(notify_send(&n, "READY=1") == 0);
}

TEST(a_manager_that_is_gone_or_reads_nothing)
{
	struct notify n;
	int fd = manager(false), rc = 1;
	notify_init(&n);
	for (int i = 0; i < 10000 && rc == 1; i++)
		rc = notify_send(&n, "WATCHDOG=1");
	CHECK(rc == E_IO);
	end(fd);
	CHECK_FAILS(notify_send(&n, "READY=1"), E_IO, "'READY=1'");
}

TEST(watchdog)
{
	static const struct {
		const char *usec, *pid;
		int64_t ns;
	} cases[] = {{"60000000", NULL, 60000000000},
		     {"60000000", "1", 0},
		     {"60000000", "x", 0},
		     {"0", NULL, 0},
		     {"-5", NULL, 0},
		     {"9223372036854775807", NULL, 0},
		     {"99999999999999999999", NULL, 0},
		     {"12s", NULL, 0},
		     {"", NULL, 0},
		     {NULL, NULL, 0}};
	struct notify n;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (cases[i].usec)
			setenv("WATCHDOG_USEC", cases[i].usec, 1);
		if (cases[i].pid)
			setenv("WATCHDOG_PID", cases[i].pid, 1);
		notify_init(&n);
		CHECK(n.watchdog_ns == cases[i].ns);
		CHECK(!getenv("WATCHDOG_USEC") && !getenv("WATCHDOG_PID"));
	}
}

/* Runs in a child, because the test may have inherited descriptor 3. Returns how many were taken; 100: one is
 * not close-on-exec. */
static int taken(const char *fds, bool ours, int open_fds)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct notify n;
		char self[16];
		int null = open("/dev/null", O_RDONLY);
		for (int fd = 3; fd < 40; fd++)
			if (fd < 3 + open_fds ? dup2(null, fd) < 0 : close(fd) < -1)
				_exit(101);
		snprintf(self, sizeof self, "%d", ours ? (int)getpid() : 1);
		setenv("LISTEN_FDS", fds, 1);
		setenv("LISTEN_PID", self, 1);
		notify_init(&n);
		for (int i = 0; i < n.listen_fds; i++)
			if (!(fcntl(NOTIFY_FIRST_FD + i, F_GETFD) & FD_CLOEXEC))
				_exit(100);
		_exit(getenv("LISTEN_FDS") ? 102 : n.listen_fds);
	}
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(sockets_given)
{
	CHECK(taken("1", true, 2) == 1);
	CHECK(taken("2", true, 2) == 2);
	CHECK(taken("2", false, 2) == 0);
	CHECK(taken("3", true, 2) == 2);
	CHECK(taken("1000000", true, 2) == 0);
	CHECK(taken("-1", true, 2) == 0);
	CHECK(taken("", true, 2) == 0);
}

TEST_MAIN
