/* SPDX-License-Identifier: Apache-2.0 */
/* The first run of a candidate, in a child process where kernels run for real: its crash or hang is data. */
#include "agent/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STACK_BYTES = 1 << 20,
	STACK_GUARD_BYTES = 1 << 16, /* at its low end: a multiple of every page size */
	CRASH_STACK_BYTES = 1 << 16, /* after that */
};

static void run_flushed(const struct local *l, const struct built *b)
{
	unsigned old = fpu_flush();
	built_run(b, l->dev, NULL);
	fpu_restore(old);
}

/* 200 times what the machine's peaks allow, and 0.2 s for a busy machine. */
static int64_t patience_ns(const struct local *l, const struct exercise *x)
{
	double gflops = l->target.fma_gflops > 0 ? l->target.fma_gflops : 1;
	double gbs = l->target.bw_gbs[3] > 0 ? l->target.bw_gbs[3] : 1;
	double ns = task_flops(&x->task) / gflops + task_bytes(&x->task, true) / gbs;
	return (int64_t)(ns * 200) + 200 * NS_PER_MS;
}

/* Waits until the other end of the pipe closes; false: the time was over first. */
static bool wait_closed(int fd, int64_t end_ns)
{
	for (;;) {
		int64_t left = end_ns - clock_now(&clock_real);
		if (left <= 0)
			return false;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t ms = left / NS_PER_MS + 1;
		if (poll(&p, 1, ms > 1000 ? 1000 : (int)ms) > 0)
			return true;
	}
}

/* A candidate that crashed left its frames marked in the sanitizer's map of the stack that the next one gets.
 */
#define NO_SHADOW __attribute__((no_sanitize_address))

struct first_run {
	const struct local *l;
	const struct built *b;
	pid_t parent;
};

/* Not by default action: that would dump the worker's memory, which is the candidate's too. */
NO_SHADOW static void crash(int sig)
{
	_exit(sig);
}

NO_SHADOW static void catch_crashes(void *stack)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
	const stack_t s = {.ss_sp = stack, .ss_size = CRASH_STACK_BYTES};
	struct sigaction act = {.sa_handler = crash, .sa_flags = SA_ONSTACK};
	sigaltstack(&s, NULL);
	for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
		sigaction(fatal[i], &act, NULL);
}

NO_SHADOW static int be_the_candidate(void *ctx)
{
	const struct first_run *f = ctx;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_crashes((char *)f->l->stack + STACK_GUARD_BYTES);
	if (getppid() == f->parent)
		run_flushed(f->l, f->b);
	return 0;
}

static int open_stack(struct local *l)
{
	if (l->stack)
		return E_OK;
	void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	if (p == MAP_FAILED || mprotect(p, STACK_GUARD_BYTES, PROT_NONE) < 0)
		return fail(E_NOMEM, "no memory for the stack of candidates: %s", strerror(errno));
	l->stack = p;
	return E_OK;
}

/* Runs in a process of its own that shares this one's memory: forking a worker with a compiler in it copies
 * page tables and faults afterwards. A crash or hang is the child's alone; a wild write is not. */
static int run_isolated(struct local *l, const struct built *b, int64_t deadline_ns, enum meas_status *status)
{
	int fd[2], rc = open_stack(l);
	struct first_run f = {l, b, getpid()};
	if (rc < 0)
		return rc;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return fail(E_IO, "no pipe for a candidate: %s", strerror(errno));
	pid_t pid = clone(be_the_candidate, (char *)l->stack + STACK_BYTES, CLONE_VM | SIGCHLD, &f);
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return fail(E_IO, "no process for a candidate: %s; free some memory or processes",
			    strerror(errno));
	}
	int64_t end = clock_now(&clock_real) + patience_ns(l, b->x);
	bool finished = wait_closed(fd[0], end < deadline_ns ? end : deadline_ns);
	close(fd[0]);
	if (!finished)
		kill(pid, SIGKILL);
	int how = 0;
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	*status = !finished ? MEAS_TIMEOUT : WIFEXITED(how) && WEXITSTATUS(how) == 0 ? MEAS_OK : MEAS_CRASH;
	if (!finished && end >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline came while a candidate ran for the first time");
	return E_OK;
}

int local_first_run(struct local *l, const struct built *b, int64_t deadline_ns, enum meas_status *status)
{
	exercise_poison(b->x);
	if (l->isolate)
		return run_isolated(l, b, deadline_ns, status);
	run_flushed(l, b);
	return E_OK;
}

void local_first_close(struct local *l)
{
	if (l->stack)
		munmap(l->stack, STACK_BYTES);
}
