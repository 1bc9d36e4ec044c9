/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/child.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t in_ms(int ms)
{
	return clock_now(&clock_real) + ms * NS_PER_MS;
}

TEST(echo)
{
	struct child c;
	static char out[300000], in[300000];
	memset(out, 'x', sizeof out);
	REQUIRE_OK(child_start(&c, (char *[]){"/bin/cat", NULL}, NULL));
	for (int i = 0; i < 10; i++) {
		CHECK_OK(fd_write_full(c.in, "hello", 5, &clock_real, in_ms(5000)));
		CHECK_OK(fd_read_full(c.out, in, 5, &clock_real, in_ms(5000)));
		CHECK(memcmp(in, "hello", 5) == 0);
	}
	/* More bytes than the pipes hold: the child stops reading, and we must not hang. */
	CHECK_FAILS(fd_write_full(c.in, out, sizeof out, &clock_real, in_ms(50)), E_TIMEOUT, "deadline");
	int status = child_stop(&c, 0);
	CHECK(WIFSIGNALED(status));
	CHECK(child_stop(&c, 0) == 0 && c.pid == 0 && c.in == -1);
}

/* A clock that stands still and jumps at its n-th look, as after a SIGSTOP; the data arrives at the look
 * after that. */
static int looks, jump_at, write_at, write_to;

static int64_t jumping(struct clock *c)
{
	(void)c;
	if (++looks == write_at && write(write_to, "x", 1) != 1)
		return 0;
	return looks >= jump_at ? 5 * NS_PER_S + looks * NS_PER_MS : looks * NS_PER_MS;
}

/* The other side was stopped with us: after the jump over the deadline it gets one more slice, and then no
 * more. */
TEST(a_jump_over_the_deadline_is_no_hang)
{
	struct clock c = {.now = jumping};
	int fd[2];
	char byte;
	REQUIRE(pipe(fd) == 0);
	write_to = fd[1];
	for (int i = 0; i < 2; i++) {
		looks = 0;
		jump_at = 3;
		write_at = i ? 3 : 1000;
		int rc = fd_read_full(fd[0], &byte, 1, &c, NS_PER_S);
		CHECK(rc == (i ? E_OK : E_TIMEOUT));
		CHECK(looks <= 5);
	}
	looks = 0;
	jump_at = 1; /* the wait began too late */
	CHECK_FAILS(fd_read_full(fd[0], &byte, 1, &c, NS_PER_S), E_TIMEOUT, "deadline");
	close(fd[0]);
	close(fd[1]);
}

TEST(end_of_stream_ends_the_child)
{
	struct child c;
	REQUIRE_OK(child_start(&c, (char *[]){"/bin/cat", NULL}, NULL));
	int status = child_stop(&c, 5 * NS_PER_S);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(silent_child)
{
	struct child c;
	char b[4];
	REQUIRE_OK(child_start(&c, (char *[]){"/bin/sleep", "100", NULL}, NULL));
	int64_t start = clock_now(&clock_real);
	CHECK_FAILS(fd_read_full(c.out, b, 4, &clock_real, in_ms(30)), E_TIMEOUT, "deadline");
	CHECK(clock_now(&clock_real) - start >= 30 * NS_PER_MS);
	int status = child_stop(&c, 10 * NS_PER_MS);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(dead_child)
{
	struct child c;
	char b[8];
	REQUIRE_OK(child_start(&c, (char *[]){"/bin/sh", "-c", "printf abc", NULL}, NULL));
	CHECK_FAILS(fd_read_full(c.out, b, 8, &clock_real, in_ms(5000)), E_CHILD, "closed");
	static char big[100000];
	CHECK_FAILS(fd_write_full(c.in, big, sizeof big, &clock_real, in_ms(5000)), E_CHILD,
		    "closed"); /* no SIGPIPE */
	(void)child_stop(&c, NS_PER_S);
}

TEST(no_such_program)
{
	struct child c;
	CHECK_FAILS(child_start(&c, (char *[]){"/no/such/program", NULL}, NULL), E_NOTFOUND,
		    "/no/such/program");
	CHECK(c.pid == 0 && c.in == -1 && c.out == -1);
	CHECK_FAILS(child_start(&c, (char *[]){"/etc/passwd", NULL}, NULL), E_IO, "/etc/passwd");
}

TEST(limits_and_descriptors)
{
	struct child c;
	char b[64] = "";
	struct child_limits lim = {.memory_bytes = 64 << 20, .cpu_s = 7};
	REQUIRE(dup2(0, 9) == 9); /* not close-on-exec, and still not inherited */
	REQUIRE_OK(child_start(
	    &c,
	    (char *[]){"/bin/sh", "-c", "echo $(ulimit -v) $(ulimit -t) $(ls /proc/self/fd | wc -l)@", NULL},
	    &lim));
	size_t n = 0;
	while (n < sizeof b - 1 && fd_read_full(c.out, b + n, 1, &clock_real, in_ms(5000)) >= 0 &&
	       b[n++] != '@')
		;
	CHECK(strncmp(b, "65536 7 ", 8) == 0);
	CHECK(atoi(b + 8) <= 4);
	(void)child_stop(&c, NS_PER_S);
	close(9);
}

TEST(dies_with_its_parent)
{
	int report[2];
	REQUIRE(pipe(report) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct child c;
		if (child_start(&c, (char *[]){"/bin/sleep", "1000", NULL}, NULL) < 0)
			_exit(1);
		(void)!write(report[1], &c.pid, sizeof c.pid);
		_exit(0);
	}
	pid_t grandchild = 0;
	CHECK(read(report[0], &grandchild, sizeof grandchild) == sizeof grandchild);
	waitpid(pid, NULL, 0);
	int gone = 0;
	for (int i = 0; i < 500 && !gone; i++) {
		char path[64], state[256] = "";
		snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
		FILE *f = fopen(path, "r");
		gone = !f || !fgets(state, sizeof state, f) || strstr(state, ") Z") != NULL;
		if (f)
			fclose(f);
		clock_real.sleep(&clock_real, 10 * NS_PER_MS);
	}
	CHECK(gone);
	close(report[0]);
	close(report[1]);
}

TEST_MAIN
