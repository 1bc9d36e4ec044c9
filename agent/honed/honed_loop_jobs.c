/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as children: each leads its own process group and has its end of a socket pair on CONTROL_FD. What it
 * writes to stderr is passed on, but its last error is kept, and told with its end (HE_ENDED). Nothing here
 * waits for a child: at idle priority it may take long to do anything, even to execute hone. */
#include "agent/honed/examine.h"
#include "agent/honed/honed_loop.h"
#include "agent/honed/shorten.h"
#include "platform/base/log.h"
#include "platform/base/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER INT64_MAX
#define ERROR_MARK "hone: error: " /* log_error writes it */
#define LATE_NS NS_PER_S           /* longest time between a job's end and the end of its connection */
enum {
	CONTROL_FD = 3 /* $HONE_CONTROL_FD holds the same */,
	IDLE_NICE = 19,
	MOST_ARGS = 24 + 2 * CONF_SHAPES,
	LINE_BYTES = 5 << 10 /* an error has at most 4 KiB (platform/base/err.h), and help may follow */
};

struct words { /* a job's command line */
	char *arg[MOST_ARGS];
	int n;
	char budget[32], threads[16], cpus[512];
};

static void word(struct words *w, const char *s)
{
	w->arg[w->n++] = (char *)(uintptr_t)s;
}

static void list_cpus(char *out, size_t size, const int *cpu, int n)
{
	size_t at = 0;
	*out = 0;
	for (int i = 0; i < n && at + 12 < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%d", i ? "," : "", cpu[i]);
}

static void command(const struct loop *l, const struct honed_action *a, struct words *w)
{
	snprintf(w->budget, sizeof w->budget, "%" PRId64 "ms", a->budget_ns / NS_PER_MS);
	snprintf(w->threads, sizeof w->threads, "%d", a->threads);
	list_cpus(w->cpus, sizeof w->cpus, a->cpus, a->ncpus);
	const char *const always[] = {l->o.job, "tune",     a->model->path, "--cache",
				      l->cache, "--budget", w->budget,      "-q"};
	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		word(w, always[i]);
	if (a->threads > 0) {
		word(w, "--threads");
		word(w, w->threads);
	}
	if (a->model->level != LEVEL_FP32) {
		word(w, "--level");
		word(w, level_name((int)a->model->level));
	}
	if (a->model->device) {
		word(w, "--device");
		word(w, a->model->device);
	}
	if (a->model->library) {
		word(w, "--library");
		word(w, a->model->library);
	}
	for (int i = 0; i < a->model->shapes.n; i++) {
		word(w, "--shape");
		word(w, a->model->shapes.shape[i]);
	}
	if (a->ncpus > 0) {
		word(w, "--cpus");
		word(w, w->cpus);
	}
	word(w, NULL);
}

struct ends { /* [0]: ours, [1]: the child's */
	int control[2], words[2];
};

/* This and the functions down to become() run in the child: they use only calls that are safe after fork. */

static void close_from(int first)
{
	if (syscall(SYS_close_range, (unsigned)first, ~0u, 0) == 0)
		return;
	for (int fd = first; fd < 65536; fd++)
		close(fd);
}

/* Failures are ignored: a container or a filter may forbid these calls. */
static void step_back(int nice_by)
{
	enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_IDLE = 3 << 13 };
	(void)!setpriority(PRIO_PROCESS, 0, nice_by);
	if (nice_by >= IDLE_NICE) {
		const struct sched_param none = {0};
		(void)!sched_setscheduler(0, SCHED_IDLE, &none);
		(void)!syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
	}
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, "900", 3);
	close(fd);
}

/* RLIMIT_DATA limits what a process may write. Reserved addresses, of which compilers and thread stacks have
 * many, are not limited, because they cost nothing. */
static void limit(int64_t memory_bytes)
{
	const struct rlimit none = {0, 0}, data = {(rlim_t)memory_bytes, (rlim_t)memory_bytes};
	struct rlimit files;
	(void)!setrlimit(RLIMIT_CORE, &none);
	if (memory_bytes > 0 && !SANITIZED_ADDRESS)
		(void)!setrlimit(RLIMIT_DATA, &data);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 1024) {
		files.rlim_cur = 1024;
		(void)!setrlimit(RLIMIT_NOFILE, &files);
	}
}

void loop_confine(pid_t parent, int64_t memory_bytes)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	close_from(STDERR_FILENO + 1);
	step_back(IDLE_NICE);
	limit(memory_bytes);
}

static bool place(int control, int words)
{
	control = fcntl(control, F_DUPFD, 16);
	words = fcntl(words, F_DUPFD, 16);
	int null = open("/dev/null", O_RDWR);
	bool good = control >= 0 && words >= 0 && null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
		    dup2(words, 2) == 2 && dup2(control, CONTROL_FD) == CONTROL_FD;
	close_from(CONTROL_FD + 1);
	return good;
}

static void write_text(const char *s)
{
	(void)!write(STDERR_FILENO, s, strlen(s));
}

static void become(char *const argv[], const struct honed_action *a, const struct ends *e, pid_t parent)
{
	sigset_t none;
	sigemptyset(&none);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && place(e->control[1], e->words[1])) {
		step_back(a->nice);
		limit(a->memory_bytes);
		execv(argv[0], argv);
		const char *why = strerrordesc_np(errno);
		write_text(ERROR_MARK "cannot start ");
		write_text(argv[0]);
		write_text(": ");
		write_text(why ? why : "no reason given");
		write_text("\n");
	}
	_exit(127);
}

/* From here on in honed again. */

static int open_ends(struct ends *e)
{
	*e = (struct ends){{-1, -1}, {-1, -1}};
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->control) < 0 ||
		       pipe2(e->words, O_CLOEXEC) < 0 || fcntl(e->words[0], F_SETFL, O_NONBLOCK) < 0
		   ? fail(E_IO, "cannot start a job: no socket or pipe: %s", strerror(errno))
		   : E_OK;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* On success e->control[0] and e->words[0] stay open. */
static int spawn(struct loop *l, const struct honed_action *a, pid_t *pid, struct ends *e)
{
	struct words w = {.n = 0};
	command(l, a, &w);
	int rc = open_ends(e);
	pid_t parent = getpid();
	if (rc >= 0 && (*pid = fork()) == 0)
		become(w.arg, a, e, parent);
	if (rc >= 0 && *pid < 0)
		rc = fail(E_IO, "cannot start a job: %s", strerror(errno));
	if (rc >= 0)
		(void)!setpgid(*pid, *pid); /* here and in the child: whoever is first */
	close_one(&e->control[1]);
	close_one(&e->words[1]);
	if (rc < 0) {
		close_one(&e->control[0]);
		close_one(&e->words[0]);
	}
	return rc;
}

/* A job's stderr. */

struct loop_words {
	uv_poll_t poll;
	int fd;
	size_t n;
	char line[LINE_BYTES];  /* the incomplete line */
	char error[LINE_BYTES]; /* the last error, which is not passed on yet, without its mark; "": none */
};

static bool is_error(const struct loop_words *w)
{
	return w->n >= strlen(ERROR_MARK) && !strncmp(w->line, ERROR_MARK, strlen(ERROR_MARK));
}

static void pass_error_on(struct loop_words *w)
{
	if (w->error[0])
		dprintf(STDERR_FILENO, ERROR_MARK "%s\n", w->error);
	w->error[0] = 0;
}

/* Passes on what there is of a line, or keeps it if it is an error. */
static void end_line(struct loop_words *w, const char *end)
{
	w->line[w->n] = 0;
	if (is_error(w)) {
		pass_error_on(w);
		snprintf(w->error, sizeof w->error, "%s", w->line + strlen(ERROR_MARK));
		log_plain(w->error);
		char *help = strstr(w->error, HELP_OF_HONE);
		if (help)
			*help = 0;
	} else {
		dprintf(STDERR_FILENO, "%s%s", w->line, end);
	}
	w->n = 0;
}

/* Adds a letter to the line. A line that is too long loses its end if it is an error, and else is passed on
 * in parts. */
static void add(struct loop_words *w, char c)
{
	if (c == '\n') {
		end_line(w, "\n");
		return;
	}
	if (w->n == sizeof w->line - 1 && !is_error(w))
		end_line(w, "");
	if (w->n < sizeof w->line - 1)
		w->line[w->n++] = c ? c : '?';
}

/* Reads at most the content of a full pipe; a job that writes more waits for its turn. */
static void pass_on(struct loop_words *w)
{
	enum { PIPE_BYTES = 64 << 10 };
	char text[2048];
	for (int k = 0; k < PIPE_BYTES / (int)sizeof text; k++) {
		ssize_t n = read(w->fd, text, sizeof text);
		if (n < 0)
			return;
		if (n == 0) {
			uv_poll_stop(&w->poll);
			return;
		}
		for (ssize_t i = 0; i < n; i++)
			add(w, text[i]);
		if (n < (ssize_t)sizeof text)
			return;
	}
}

static void on_words(uv_poll_t *p, int status, int events)
{
	(void)status, (void)events;
	pass_on(p->data);
}

static void on_words_closed(uv_handle_t *h)
{
	struct loop_words *w = h->data;
	close(w->fd);
	free(w);
}

/* Takes ownership of the descriptor. Without memory the job's stderr is closed. */
static struct loop_words *listen_to(struct loop *l, int fd)
{
	struct loop_words *w = calloc(1, sizeof *w);
	if (!w || uv_poll_init(&l->uv, &w->poll, fd) < 0) {
		close(fd);
		free(w);
		return NULL;
	}
	w->fd = fd;
	w->poll.data = w;
	uv_poll_start(&w->poll, UV_READABLE, on_words);
	return w;
}

static void listen_no_more(struct loop_job *j)
{
	if (j->words && j->words->n)
		end_line(j->words, "\n");
	if (j->words)
		pass_error_on(j->words);
	if (j->words)
		uv_close((uv_handle_t *)&j->words->poll, on_words_closed);
	j->words = NULL;
}

static struct loop_job *slot(struct loop *l)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (!l->job[i].number)
			return &l->job[i];
	return NULL;
}

static int start(struct loop *l, const struct honed_action *a, pid_t *pid, int *client)
{
	struct loop_job *j = slot(l);
	struct ends e;
	if (!j || l->later.nstarted == HONED_JOBS)
		return fail(E_BUSY, "there are already %d jobs, the most that honed runs", HONED_JOBS);
	int rc = spawn(l, a, pid, &e);
	if (rc < 0)
		return rc;
	*client = loop_adopt(l, e.control[0], *pid);
	if (*client < 0) { /* the job's end of the pair sees the end of the stream */
		kill(-*pid, SIGKILL);
		while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
			;
		close(e.words[0]);
		return *client;
	}
	*j = (struct loop_job){.number = a->job, .pid = *pid, .client = *client, .by_ns = NEVER};
	j->words = listen_to(l, e.words[0]);
	l->tree_ns = 0;
	loop_pressure(l, true);
	return E_OK;
}

void loop_start(struct loop *l, const struct honed_action *a)
{
	pid_t pid = 0;
	int client = -1, rc = start(l, a, &pid, &client), n = l->later.nstarted;
	if (n == HONED_JOBS)
		return;
	l->later.started[n].job = a->job;
	l->later.started[n].rc = rc;
	l->later.started[n].pid = pid;
	l->later.started[n].client = client;
	snprintf(l->later.started[n].text, sizeof l->later.started[n].text, "%s", rc < 0 ? err_text() : "");
	l->later.nstarted++;
}

void loop_signal(struct loop *l, int job, int sig)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (l->job[i].number == job && l->job[i].pid > 0)
			kill(-l->job[i].pid, sig);
}

static int jobs_living(const struct loop *l)
{
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		n += l->job[i].number != 0;
	return n;
}

static void over(struct loop *l, struct loop_job *j)
{
	struct loop_job was = *j;
	*j = (struct loop_job){0};
	loop_tell(
	    l, &(struct honed_event){
		   .kind = HE_ENDED, .job = was.number, .rc = was.rc, .text = was.text[0] ? was.text : NULL});
	if (was.eof)
		loop_gone(l, was.client);
	if (!jobs_living(l))
		loop_pressure(l, false);
}

static void explain(struct loop_job *j, const siginfo_t *s)
{
	if (j->words)
		pass_on(j->words);
	if (j->words && j->words->n)
		end_line(j->words, "\n");
	j->rc = s->si_code == CLD_EXITED && s->si_status == 0 ? E_OK : E_CHILD;
	if (s->si_code == CLD_EXITED && j->words && j->words->error[0]) {
		shorten(j->words->error, j->text, sizeof j->text);
		j->words->error[0] = 0; /* the line about the job's end tells it */
	} else if (s->si_code == CLD_EXITED && s->si_status)
		snprintf(j->text, sizeof j->text, "hone tune ended with status %d; the log says why",
			 s->si_status);
	else if (s->si_code != CLD_EXITED)
		snprintf(j->text, sizeof j->text, "hone tune was killed by signal %d (%s)", s->si_status,
			 strsignal(s->si_status));
	listen_no_more(j);
}

/* Kills its process group, while the group's number cannot be reused yet. What the job wrote last is read
 * before HE_ENDED is sent. */
static void reap(struct loop *l, struct loop_job *j)
{
	siginfo_t s = {0};
	if (waitid(P_PID, (id_t)j->pid, &s, WEXITED | WNOHANG | WNOWAIT) < 0 || s.si_pid != j->pid)
		return;
	kill(-j->pid, SIGKILL);
	waitpid(j->pid, NULL, WNOHANG);
	explain(j, &s);
	j->pid = 0;
	l->tree_ns = 0;
	if (j->eof)
		over(l, j);
	else
		j->by_ns = loop_now() + LATE_NS;
}

void loop_reap(struct loop *l)
{
	if (l->examiner > 0 && waitpid(l->examiner, NULL, WNOHANG) != 0)
		l->examiner = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		if (l->job[i].number && l->job[i].pid > 0)
			reap(l, &l->job[i]);
	loop_arm(l);
}

bool loop_job_eof(struct loop *l, int client)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct loop_job *j = &l->job[i];
		if (!j->number || j->client != client)
			continue;
		if (l->over)
			return false;
		j->eof = true;
		if (j->pid > 0)
			j->by_ns = loop_now() + LATE_NS;
		else
			over(l, j);
		loop_arm(l);
		return true;
	}
	return false;
}

/* Stops waiting for a job that closed its connection but still lives, or for the connection of a job that
 * ended, if something else holds it open. */
void loop_jobs_late(struct loop *l, int64_t now_ns)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct loop_job *j = &l->job[i];
		if (!j->number || now_ns < j->by_ns)
			continue;
		j->by_ns = NEVER;
		if (j->pid > 0) {
			int client = j->client;
			j->client = -1;
			loop_gone(l, client);
		} else { /* its connection may have been paused */
			loop_take_last(l, j->client);
			loop_hang_up(l, j->client);
			over(l, j);
		}
	}
}

int64_t loop_jobs_wakeup(const struct loop *l)
{
	int64_t at = NEVER;
	for (int i = 0; i < HONED_JOBS; i++)
		if (l->job[i].number && l->job[i].by_ns < at)
			at = l->job[i].by_ns;
	return at;
}

void loop_jobs_kill(struct loop *l)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct loop_job *j = &l->job[i];
		if (j->number && j->pid > 0) {
			kill(-j->pid, SIGKILL);
			waitpid(j->pid, NULL, 0);
		}
		listen_no_more(j);
		if (j->number && j->eof)
			loop_gone(l, j->client);
		j->number = 0;
	}
}
