/* SPDX-License-Identifier: Apache-2.0 */
/* The first run of a candidate. On a processor it happens in a child process, so that a crash or hang is
 * data. */
#include "agent/worker/local.h"

#include "platform/base/log.h"
#include "platform/run/foreign.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STACK_BYTES = 1 << 20,
	STACK_GUARD_BYTES = 1 << 16, /* at its low end: a multiple of every page size */
	CRASH_STACK_BYTES = 1 << 16, /* size of the signal stack, which follows it */
	FAILED = 199,                /* ... of a library that says that it could not compute */
	UNCAGED = 200,               /* exit status of a process that cannot confine itself */
};

static void run_flushed(const struct local *l, const struct local_built *b)
{
	unsigned old = fpu_flush();
	built_run(b, l->dev, NULL);
	fpu_restore(old);
}

/* Timeout in processor time, so that a process that was stopped, or waits for others, does not count as hung:
 * 200 times the minimum by the machine's peaks, at most a minute, plus 0.2 s. */
static int64_t patience_ns(const struct local *l, const struct exercise *x)
{
	double gflops = l->target.fma_gflops > 0 ? l->target.fma_gflops : 1;
	double gbs = l->target.bw_gbs[3] > 0 ? l->target.bw_gbs[3] : 1;
	double ns = task_flops(&x->task) / gflops + task_bytes(&x->task, true) / gbs;
	return (int64_t)(ns * 200 < 6e10 ? ns * 200 : 6e10) + 200 * NS_PER_MS;
}

/* A candidate that crashed leaves its frames marked in the sanitizer's shadow of the stack, which the next
 * candidate uses. */
#define NO_SHADOW __attribute__((no_sanitize_address))

struct first_run {
	const struct local *l;
	const struct local_built *b;
	pid_t parent;
	int64_t patience_ns, left_ns; /* of processor time; to the deadline */
};

/* The default action would dump core, and with it the worker's memory, which the child shares. */
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

/* The child ends itself when its time is over, because its parent may not be able to stop it. */
NO_SHADOW static void set_alarm(int which, int sig, int64_t ns)
{
	const struct itimerval t = {.it_value = {ns / NS_PER_S, ns % NS_PER_S / 1000 + 1}};
	signal(sig, SIG_DFL);
	setitimer(which, &t, NULL);
}

NO_SHADOW static void set_alarms(const struct first_run *f)
{
	sigset_t all;
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	set_alarm(ITIMER_PROF, SIGPROF, f->patience_ns);
	set_alarm(ITIMER_REAL, SIGALRM, f->left_ns);
}

NO_SHADOW static int be_the_candidate(void *ctx)
{
	const struct first_run *f = ctx;
	const struct local *l = f->l;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_crashes((char *)l->stack + STACK_GUARD_BYTES);
	set_alarms(f);
	if (getppid() != f->parent)
		return 0;
	if (l->cage && !l->cage(l->cage_ctx))
		return UNCAGED;
	run_flushed(l, f->b);
	return foreign_good(f->b->object->code, NULL) ? 0 : FAILED;
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

static enum meas_status judge(int how)
{
	if (WIFSIGNALED(how) && (WTERMSIG(how) == SIGPROF || WTERMSIG(how) == SIGALRM))
		return MEAS_TIMEOUT;
	return WIFEXITED(how) && WEXITSTATUS(how) == 0 ? MEAS_OK : MEAS_CRASH;
}

/* A library allocates memory and takes locks while it runs, so its child gets memory of its own; only the
 * output is shared. */
static pid_t start_child(const struct local *l, const struct local_built *b, struct first_run *f)
{
	if (!foreign_is(b->object->bytes, b->object->n))
		return clone(be_the_candidate, (char *)l->stack + STACK_BYTES, CLONE_VM | SIGCHLD, f);
	pid_t pid = fork();
	if (pid == 0)
		_exit(be_the_candidate(f));
	return pid;
}

/* Runs in a child process that shares this one's memory: a fork of a worker that holds a compiler copies page
 * tables and causes page faults afterwards. A crash or hang affects only the child, but a wild write affects
 * the worker. An emulator of single programs cannot make such a process: there, a crash ends the worker,
 * which is replaced. */
static int run_isolated(struct local *l, const struct local_built *b, int64_t deadline_ns,
			enum meas_status *status)
{
	int64_t left_ns = deadline_ns - clock_now(&clock_real);
	int how = 0, rc = open_stack(l);
	struct first_run f = {l, b, getpid(), patience_ns(l, b->x), left_ns};
	if (rc < 0)
		return rc;
	if (left_ns <= 0)
		return fail(E_TIMEOUT, "the deadline came before a candidate ran for the first time");
	pid_t pid = start_child(l, b, &f);
	if (pid < 0 && errno == EINVAL) {
		log_info("candidates run in hone-worker itself: this emulator has no processes that share "
			 "memory");
		l->isolate = false;
		run_flushed(l, b);
		return E_OK;
	}
	if (pid < 0)
		return fail(E_IO, "cannot start a process for a candidate: %s; free some memory or processes",
			    strerror(errno));
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	*status = judge(how);
	if (*status == MEAS_TIMEOUT && WTERMSIG(how) == SIGALRM)
		return fail(E_TIMEOUT, "the deadline came while a candidate ran for the first time");
	if (WIFEXITED(how) && WEXITSTATUS(how) == UNCAGED)
		return fail(E_IO, "cannot set the system-call filter of a candidate's process");
	return E_OK;
}

static int run_first(struct local *l, struct local_built *b, int64_t deadline_ns, enum meas_status *status)
{
	if (b->own)
		return own_first_run(b, patience_ns(l, b->x), deadline_ns, status);
	if (l->isolate)
		return run_isolated(l, b, deadline_ns, status);
	run_flushed(l, b);
	return E_OK;
}

int local_first_run(struct local *l, struct local_built *b, int64_t deadline_ns, enum meas_status *status)
{
	exercise_poison(b->x);
	int rc = run_first(l, b, deadline_ns, status);
	if (rc >= 0 && *status == MEAS_OK && exercise_again(b->x))
		rc = run_first(l, b, deadline_ns, status);
	return rc;
}

void local_first_close(struct local *l)
{
	if (l->stack)
		munmap(l->stack, STACK_BYTES);
}
