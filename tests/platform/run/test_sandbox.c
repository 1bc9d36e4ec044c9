/* SPDX-License-Identifier: Apache-2.0 */
/* What a confined process cannot do and what it still can; and hone-worker is confined. */
#include "agent/worker/wire.h"
#include "platform/run/sandbox.h"
#include "platform/machine/target.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each attempt returns its system call's result. */
typedef long attempt(void);

static int a_file, a_socket; /* opened before the sandbox is entered */

static long open_to_write(void)
{
	return open("/dev/null", O_WRONLY);
}

static long open_to_make(void)
{
	return open("hone-test-sandbox", O_CREAT | O_RDWR, 0600);
}

static long open_secret(void)
{
	return open("/etc/shadow", O_RDONLY);
}

static long remove_file(void)
{
	return unlink("hone-test-sandbox");
}

static long make_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long make_local_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long connect_somewhere(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/run/hone/honed.sock"};
	return connect(a_socket, (struct sockaddr *)&a, sizeof a);
}

static long send_descriptor(void)
{
	char c = 0;
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	return sendmsg(a_socket, &m, 0);
}

static long start_program(void)
{
	char *const argv[] = {"/bin/true", NULL};
	return execv(argv[0], argv);
}

static long start_process(void)
{
	return fork();
}

static long trace_parent(void)
{
	return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static long kill_parent(void)
{
	return kill(getppid(), SIGTERM);
}

static long kill_thread_of_parent(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), SIGTERM);
}

static long read_parent(void)
{
	char c;
	struct iovec here = {&c, 1}, there = {(void *)(uintptr_t)&a_file, 1};
	return process_vm_readv(getppid(), &here, 1, &there, 1, 0);
}

static long move_parent(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return sched_setaffinity(getppid(), sizeof one, &one);
}

static long limit_parent(void)
{
	return prlimit(getppid(), RLIMIT_NOFILE, &(struct rlimit){8, 8}, NULL);
}

static long mapped(void *p)
{
	return p == MAP_FAILED ? -1 : 0;
}

static long map_writable_code(void)
{
	return mapped(
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static long map_anonymous_code(void)
{
	return mapped(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static long map_shared_code(void)
{
	return mapped(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, a_file, 0));
}

static long map_shared_writable(void)
{
	return mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, a_file, 0));
}

static long make_code_of_data(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? 0 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static const struct {
	const char *name;
	attempt *fn;
	bool sanitizers_need; /* sanitizers inspect themselves with it */
} forbidden[] = {
    {"open a file to write", open_to_write},
    {"make a file", open_to_make},
    {"open a secret", open_secret, true},
    {"remove a file", remove_file},
    {"internet socket", make_socket},
    {"local socket", make_local_socket},
    {"connect", connect_somewhere},
    {"send a message", send_descriptor},
    {"another program", start_program},
    {"another process", start_process, true},
    {"trace", trace_parent, true},
    {"kill the parent", kill_parent, true},
    {"kill a thread of the parent", kill_thread_of_parent, true},
    {"read another's memory", read_parent, true},
    {"move another process", move_parent},
    {"limit another process", limit_parent},
    {"writable code", map_writable_code},
    {"anonymous code", map_anonymous_code},
    {"shared code", map_shared_code},
    {"a writable view of a memory file", map_shared_writable},
    {"data made code", make_code_of_data},
};
enum { FORBIDDEN = sizeof forbidden / sizeof *forbidden };

#ifdef __SANITIZE_ADDRESS__
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* The wait status of a process that exits with the result of what(ctx). */
static int in_process(int (*what)(void *ctx), void *ctx)
{
	int how = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(what(ctx));
	if (pid < 0 || waitpid(pid, &how, 0) != pid)
		return -1;
	return how;
}

static bool confined(void)
{
	int pair[2];
	a_file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool good = a_file >= 0 && ftruncate(a_file, 4096) == 0 &&
		    socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && sandbox_enter() >= 0;
	a_socket = pair[0];
	return good;
}

static int try_forbidden(void *ctx)
{
	attempt *fn = ctx;
	if (!confined())
		return 2;
	errno = 0;
	long got = fn();
	return got == -1 && errno == EPERM ? 0 : 3;
}

TEST(forbidden_things_fail)
{
	signal(SIGTERM, SIG_IGN); /* in case one reaches us */
	for (int i = 0; i < FORBIDDEN; i++) {
		if (sanitized && forbidden[i].sanitizers_need)
			continue;
		int how = in_process(try_forbidden, (void *)(uintptr_t)forbidden[i].fn);
		if (how != 0)
			printf("%s: status %x\n", forbidden[i].name, how);
		CHECK(how == 0);
	}
	signal(SIGTERM, SIG_DFL);
}

/* Without the sandbox the same attempts do not fail in this way: so the test sees the filter, not the
 * machine. */
static int try_freely(void *ctx)
{
	static attempt *const harmless[] = {open_to_write,     make_socket,        make_local_socket,
					    map_writable_code, map_anonymous_code, make_code_of_data};
	(void)ctx;
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		if (harmless[i]() < 0)
			return (int)i + 1;
	return 0;
}

TEST(they_are_no_failures_elsewhere)
{
	int how = in_process(try_freely, NULL);
	if (how)
		SKIP("this machine forbids sockets or writable code by itself");
	CHECK(how == 0);
}

static int do_the_allowed(void *ctx)
{
	(void)ctx;
	char c[4096] = {1};
	if (!confined())
		return 2;
	int fd = memfd_create("code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || pwrite(fd, c, sizeof c, 0) != sizeof c ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return 3;
	if (mmap(NULL, sizeof c, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_POPULATE, fd, 0) == MAP_FAILED)
		return 4;
	char *big = malloc(64 << 20);
	if (!big || close(fd) < 0)
		return 5;
	memset(big, 1, 64 << 20);
	free(big);
	cpu_set_t all;
	if (sched_getaffinity(0, sizeof all, &all) < 0 || sched_setaffinity(0, sizeof all, &all) < 0)
		return 6;
	struct timespec t = {0, 1000};
	return nanosleep(&t, NULL) < 0 || fcntl(0, F_DUPFD, 16) >= 0 ? 7 : 0;
}

TEST(workers_keep_the_calls_they_need)
{
	CHECK(in_process(do_the_allowed, NULL) == 0);
}

static atomic_int stage;

static void *other_thread(void *ctx)
{
	(void)ctx;
	while (atomic_load(&stage) == 0)
		sched_yield();
	return (void *)(intptr_t)(make_local_socket() < 0 && errno == EPERM);
}

static int confine_beside_a_thread(void *ctx)
{
	pthread_t t;
	void *refused = NULL;
	(void)ctx;
	if (pthread_create(&t, NULL, other_thread, NULL) || !confined())
		return 2;
	atomic_store(&stage, 1);
	pthread_join(t, &refused);
	return refused ? 0 : 3;
}

TEST(threads_that_run_already_are_confined_too)
{
	CHECK(in_process(confine_beside_a_thread, NULL) == 0);
}

static int abort_itself(void *ctx)
{
	(void)ctx;
	const struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	if (!confined())
		return 2;
	abort();
}

TEST(a_worker_may_abort)
{
	int how = in_process(abort_itself, NULL);
	CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

static int (*in_cage)(void);

static int leave(void)
{
	return 0;
}

static int ask_for_its_number(void)
{
	syscall(SYS_getpid);
	return 0;
}

static int write_something(void)
{
	return write(2, "", 0) < 0;
}

static int be_caged(void *ctx)
{
	const struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	if (!sandbox_cage_enter(ctx))
		return 2;
	syscall(SYS_exit_group, in_cage()); /* sanitizers do more in _exit() */
	return 4;
}

static int be_caged_in_the_sandbox(void *ctx)
{
	return confined() ? be_caged(ctx) : 3;
}

TEST(a_candidate_may_only_leave)
{
	static int (*const does[])(void) = {leave, ask_for_its_number, write_something};
	struct sandbox_cage *c;
	REQUIRE_OK(sandbox_cage_make(&c));
	/* A filter requires no_new_privs, which sandbox_enter sets. */
	for (int i = 0; i < 3; i++) {
		in_cage = does[i];
		int how = in_process(be_caged_in_the_sandbox, c);
		if (i == 0 && how)
			printf("leaving: status %x\n", how);
		CHECK(i == 0 ? how == 0 : WIFSIGNALED(how) && WTERMSIG(how) == SIGSYS);
	}
	free(c);
}

static const struct sandbox_limits small = {.memory_bytes = INT64_C(256) << 20,
					    .data_bytes = INT64_C(100) << 20,
					    .cpu_s = 7,
					    .file_bytes = 1 << 20,
					    .files = 40};

static int be_limited(void *ctx)
{
	struct rlimit l;
	(void)ctx;
	if (sandbox_limit(&small) < 0 || !confined())
		return 2;
	if (getrlimit(RLIMIT_CPU, &l) < 0 || l.rlim_max != 7 || getrlimit(RLIMIT_NOFILE, &l) < 0 ||
	    l.rlim_max != 40 || getrlimit(RLIMIT_CORE, &l) < 0 || l.rlim_max != 0)
		return 3;
	int fd = memfd_create("big", MFD_CLOEXEC);
	if (pwrite(fd, "x", 1, 2 << 20) >= 0 || errno != EFBIG)
		return 4;
	for (int i = 0; i < 64; i++)
		if (memfd_create("many", 0) < 0)
			return sanitized || mapped(mmap(NULL, (size_t)110 << 20, PROT_READ | PROT_WRITE,
							MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) < 0
				   ? 0
				   : 6;
	return 5;
}

TEST(limits_hold)
{
	CHECK(in_process(be_limited, NULL) == 0);
}

/* ---- the worker itself ---- */

static const char *worker(void)
{
	const char *path = getenv("HONE_WORKER");
	return path && access(path, X_OK) == 0 ? path : NULL;
}

static struct runner *open_worker(int threads)
{
	struct target t;
	struct runner *r = NULL;
	if (target_host(&t) < 0 || runner_worker(NULL, "cpu", &t, threads, &r) < 0) {
		printf("no worker: %s\n", err_text());
		exit(1);
	}
	return r;
}

static int status_of(const char *path, const char *name)
{
	char line[256];
	int value = -1;
	size_t n = strlen(name);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, name, n) == 0)
			value = atoi(line + n);
	if (f)
		fclose(f);
	return value;
}

static int only_child(void)
{
	char path[64];
	int pid = -1;
	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = -1;
	if (f)
		fclose(f);
	return pid;
}

/* Checks that every thread of the worker has the filter and cannot gain rights. Returns the number of
 * threads. */
static int check_threads(int pid)
{
	char path[600];
	int n = 0;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", pid, e->d_name);
		CHECK(status_of(path, "Seccomp:") == 2 && status_of(path, "NoNewPrivs:") == 1);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

TEST(the_worker_is_confined_and_works)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int threads = 1; threads <= 3; threads += 2) {
		struct runner *r = open_worker(threads);
		struct arena a = {0};
		struct blob code;
		struct meas m;
		int h, pid = only_child();
		REQUIRE(pid > 0);
		CHECK(check_threads(pid) >= threads);
		REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:3", INT64_MAX, &h, &m));
		REQUIRE(h >= 0 && m.status == MEAS_OK);
		REQUIRE_OK(r->ops->time(r, &h, 1, 3, 0, TIME_COLD, INT64_MAX, &m));
		CHECK(m.runs == 3 && m.min_ns > 0 && m.threads == threads);
		CHECK_OK(r->ops->code(r, h, INT64_MAX, &a, &code));
		REQUIRE_OK(r->ops->build(r, task_conv, "nonsense", INT64_MAX, &h, &m));
		CHECK(h == -1 && m.status == MEAS_INFEASIBLE && only_child() == pid);
		arena_free(&a);
		r->ops->close(r);
	}
}

/* A task that needs more memory than a worker has. */
static const char huge[] = "task syms=0\n"
			   "operand X in f32 [100000000] plain\n"
			   "operand Y out f32 [100000000] plain\n"
			   "stage i:100000000\n"
			   "read X [i]\n"
			   "body r0\n"
			   "write Y [i]\n";

static int build_in_little_memory(void *ctx)
{
	struct meas m;
	int h;
	(void)ctx;
	if (sandbox_limit(&(struct sandbox_limits){.memory_bytes = INT64_C(400) << 20}) < 0)
		return 2;
	struct runner *r = open_worker(1);
	int pid = only_child();
	if (r->ops->build(r, huge, "", INT64_MAX, &h, &m) < 0 || h != -1 || m.status != MEAS_BUILD)
		return 3;
	if (r->ops->build(r, task_conv, "tile=x:3", INT64_MAX, &h, &m) < 0 || m.status != MEAS_OK)
		return 4;
	if (only_child() != pid)
		return 5;
	r->ops->close(r);
	return 0;
}

TEST(memory_that_runs_out_is_data)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	if (sanitized)
		SKIP("sanitizers need all the address space");
	int how = in_process(build_in_little_memory, NULL);
	if (how)
		printf("status %x\n", how);
	CHECK(how == 0);
}

TEST_MAIN
