/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/guard.h"
#include "agent/cache/json.h"
#include "agent/control/leash.h"
#include "agent/run/plan_device.h"
#include "agent/worker/device.h"
#include "agent/worker/driver_words.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "platform/base/out.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/model.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What both processes see. */
struct shared {
	struct plan_device_watch watch;
	atomic_bool done;
	atomic_int ends; /* 1 + the status with which the child ends at once; 0: it does not */
};

/* The child's last word. */
struct word {
	int rc;
	bool answered; /* it has printed its object */
	char text[600];
};

static int64_t patience_ns = 90 * NS_PER_S;
static struct shared *shared;
static volatile pid_t child_pid;
static volatile sig_atomic_t came; /* SIGINT or SIGTERM, while the child ran; 0: neither */

int guard_done(void)
{
	int rc = shared ? out_flush() : E_OK;
	if (shared && rc >= 0)
		atomic_store(&shared->done, true);
	return rc;
}

void guard_ends(int status)
{
	if (shared)
		atomic_store(&shared->ends, status + 1);
}

void guard_patience(int64_t ns)
{
	patience_ns = ns;
}

/* A terminal's Ctrl-C reaches the child, too; what another process sends to us is passed on. */
static void pass_on(int sig, siginfo_t *info, void *ctx)
{
	(void)ctx;
	came = sig;
	if (info->si_code != SI_KERNEL && child_pid > 0)
		kill(child_pid, sig);
}

static const int passed[] = {SIGINT, SIGTERM};
enum { PASSED = 2 };

static void pass_signals(struct sigaction *old)
{
	const struct sigaction sa = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
	came = 0;
	for (int i = 0; i < PASSED; i++) {
		sigaction(passed[i], NULL, &old[i]);
		if (old[i].sa_handler != SIG_IGN)
			sigaction(passed[i], &sa, NULL);
	}
}

static void pass_no_more(const struct sigaction *old)
{
	for (int i = 0; i < PASSED; i++)
		sigaction(passed[i], &old[i], NULL);
}

/* Ends this process as the signal would have done before. */
static void end_by(int sig)
{
	signal(sig, SIG_DFL);
	raise(sig);
}

/* A signal waits until both processes are ready for it. */
static pid_t fork_ready(const struct sigaction *old)
{
	sigset_t held, before;
	sigemptyset(&held);
	for (int i = 0; i < PASSED; i++)
		sigaddset(&held, passed[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	child_pid = fork();
	if (child_pid == 0)
		pass_no_more(old);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return child_pid;
}

/* Ends without the handlers that drivers leave for the end of a process. */
static void be_the_child(const struct args *a, int (*body)(const struct args *a), int fd)
{
	struct word w = {0};
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	plan_device_watched_by(&shared->watch);
	driver_words_keep();
	w.rc = body(a);
	int written = out_flush();
	w.rc = w.rc >= 0 && written < 0 ? written : w.rc;
	w.answered = json_out_done();
	bool ends_early = w.rc < 0 || w.rc == INTERRUPT_STATUS || w.rc == TERMINATE_STATUS;
	snprintf(w.text, sizeof w.text, "%s", ends_early ? err_text() : "");
	if (ends_early)
		driver_words_show();
	fflush(NULL);
	_exit(write(fd, &w, sizeof w) != (ssize_t)sizeof w);
}

static bool hangs(void)
{
	int64_t since_ns = atomic_load(&shared->watch.since_ns);
	return since_ns > 0 && clock_now(&clock_real) - since_ns > patience_ns;
}

/* Waits for the word; false: there is none, because the child has ended, or *hung in a driver. */
static bool read_word(int fd, struct word *w, bool *hung)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	for (;;) {
		int n = poll(&p, 1, 50);
		if (n > 0)
			return read(fd, w, sizeof *w) == (ssize_t)sizeof *w;
		if (n < 0 && errno != EINTR)
			return false;
		*hung = hangs();
		if (*hung)
			return false;
	}
}

/* Returns the wait status of a child that is about to end, or hangs; not for long, because the kernel's
 * driver may hold it. */
static int end_child(bool hung)
{
	int status = 0;
	for (int ms = 0; ms < 3000; ms++) {
		if (hung || ms == 1000)
			kill(child_pid, SIGKILL);
		pid_t got = waitpid(child_pid, &status, WNOHANG);
		if (got == child_pid || (got < 0 && errno != EINTR))
			break;
		usleep(1000);
	}
	return status;
}

/* Says how a child ended that gave no word. *by: the signal that ended it, and is to end this process, too. */
static int without_word(const char *device, bool hung, int *by)
{
	int status = end_child(hung), sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	bool own = sig == SIGPIPE; /* nobody reads the command's output any more */
	if (own || (came && (sig == SIGINT || sig == SIGTERM))) {
		*by = sig;
		return fail(E_STOPPED, "stopped");
	}
	int ends = atomic_load(&shared->ends);
	if (ends > 0) /* it has said all */
		return ends - 1;
	if (atomic_load(&shared->done))
		return E_OK;
	if (hung)
		return fail(E_TIMEOUT, "%s: its driver did not answer in %g s", device,
			    (double)patience_ns / NS_PER_S);
	if (sig)
		return fail(E_CHILD, "%s: its driver crashed with signal %d", device, sig);
	return fail(E_CHILD, "%s: its driver ended the process", device);
}

/* *lost: the device is at fault. *by: as of without_word. */
static int watch_child(const char *device, int fd, bool *lost, int *by)
{
	struct word w;
	bool hung = false, said = read_word(fd, &w, &hung);
	if (!said) {
		int rc = without_word(device, hung, by);
		*lost = rc < 0 && !*by;
		return rc;
	}
	(void)end_child(false);
	*lost = w.rc < 0 && atomic_load(&shared->watch.failed);
	w.text[sizeof w.text - 1] = 0;
	if (w.answered)
		json_out_left();
	if (w.rc >= 0 && w.text[0])
		(void)fail(E_STOPPED, "%s", w.text);
	if (w.rc >= 0 || w.rc < E_LAST)
		return w.rc < 0 ? fail(E_CHILD, "%s: its driver broke the process", device) : w.rc;
	return *lost && !strstr(w.text, device) ? fail(w.rc, "%s: %s", device, w.text)
						: fail(w.rc, "%s", w.text);
}

static int apart(const struct args *a, int (*body)(const struct args *a), bool *lost)
{
	int end[2], by = 0;
	struct sigaction old[PASSED];
	const char *device = model_device(a);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe2(end, O_CLOEXEC) < 0)
		return fail(E_IO, "cannot start a process: %s", strerror(errno));
	fflush(NULL);
	pass_signals(old);
	if (fork_ready(old) == 0)
		be_the_child(a, body, end[1]);
	close(end[1]);
	int rc = child_pid < 0 ? fail(E_IO, "cannot start a process: %s", strerror(errno))
			       : watch_child(device, end[0], lost, &by);
	child_pid = 0;
	pass_no_more(old);
	close(end[0]);
	munmap(shared, sizeof *shared);
	shared = NULL;
	if (by)
		end_by(by);
	return rc;
}

int guard_run(const struct args *a, int (*body)(const struct args *a), enum guard g)
{
	bool lost = false;
	if (!model_device(a) || leash_is_child()) /* honed watches its jobs */
		return body(a);
	int rc = apart(a, body, &lost);
	if (!lost)
		return rc;
	char why[700];
	snprintf(why, sizeof why, "%s", err_text());
	if (g == GUARD_FAILS)
		return fail(rc, "%s; without --device, the processor does it", why);
	if (came)
		end_by(came);
	log_notice("hone: %s; the network runs on the processor instead", why);
	model_leave_device(why);
	return body(a);
}
