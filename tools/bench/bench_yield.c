/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-yield: how tuning disturbs a robot. A stand-in process wakes every 10 ms and works for about a
 * millisecond on a core on which a real honed tunes; honed is inhibited and released in turns. Three tables:
 *
 * robot: the 99.9th percentile of the delay of its wake-up, and of its completion, in us after the due time,
 * without and with tuning; the median of all pairs' differences is within 5 % or 50 us
 *
 * yield: for each signal that the board may give, ms until no process of the job uses processor time any
 * more. The board (tools/bench/yield_board.h) is pretended: `1 of 4` means that a robot begins to use one of
 * four processors, of which the gate sees what the kernel counts, in steps of 10 ms
 *
 * lease: extra us per build or timing for its lease, without honed (the board is checked before and after)
 * and through honed; as a share of a box with a hundred of them per second
 *
 * ARGS="[--seconds 10] [--pairs 10] [--yields 20] [--cpu N] [--model M] [--fifo]": a pair takes twice the
 * seconds. With --fifo the robot has real-time priority, as control loops do, so that other programs on the
 * machine do not count. */
#include "agent/control/client.h"
#include "agent/control/leash.h"
#include "kernels/onnx/import.h"
#include "platform/base/file.h"
#include "platform/base/stats.h"
#include "tools/bench/yield_board.h"
#include "tools/hone/zoo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS (10 * NS_PER_MS)
#define WORK_NS NS_PER_MS
#define QUIET_NS (200 * NS_PER_MS) /* the job counts as stopped after so long without processor time */
#define SETTLE_NS (500 * NS_PER_MS)
enum { MOST_TURNS = 100000, MOST_PAIRS = 1000, BUFFER = 64 << 10 };

struct bench {
	int seconds, pairs, yields, cpu;
	const char *model;
	bool fifo; /* the robot has real-time priority */
	char dir[64], log[80], honed[PATH_MAX], socket[128];
	pid_t pid;
	struct client *client;
	struct yield_board board;
};

struct robot { /* one phase; ns after the due time */
	int n;
	double late[MOST_TURNS], done[MOST_TURNS];
};

static int64_t now(void)
{
	return clock_now(&clock_real);
}

static void keep_to(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	(void)sched_setaffinity(0, sizeof set, &set);
}

static uint32_t work(uint32_t *p, int64_t rounds)
{
	uint32_t x = 1;
	for (int64_t i = 0; i < rounds; i++) {
		x = x * 1664525 + 1013904223 + p[x % (BUFFER / sizeof *p)];
		p[i % (BUFFER / (int)sizeof *p)] = x;
	}
	return x;
}

/* Calibrates: loop rounds that take WORK_NS on an undisturbed core. */
static int64_t calibrate(uint32_t *p)
{
	enum { SOME = 20000 };
	int64_t best = INT64_MAX;
	for (int i = 0; i < 200; i++) {
		int64_t start = now();
		work(p, SOME);
		int64_t ns = now() - start;
		best = ns < best ? ns : best;
	}
	return SOME * WORK_NS / (best > 0 ? best : 1);
}

static void be_a_robot(struct robot *r, int64_t ns, int64_t rounds, uint32_t *p)
{
	struct timespec t;
	int64_t due = now() + PERIOD_NS, end = due + ns;
	for (r->n = 0; due < end && r->n < MOST_TURNS; due += PERIOD_NS, r->n++) {
		t = (struct timespec){due / NS_PER_S, due % NS_PER_S};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		r->late[r->n] = (double)(now() - due);
		p[0] += work(p, rounds);
		r->done[r->n] = (double)(now() - due);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double quantile(double *v, int n, double q)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	int i = (int)(q * n);
	return n ? v[i < n ? i : n - 1] : 0;
}

static int ask(struct bench *b, const struct request *r, json_t **out)
{
	const char *line;
	int rc = client_ask(b->client, r, now() + 10 * NS_PER_S, &line);
	if (rc >= 0 && out)
		*out = json_loads(line, 0, NULL);
	return rc;
}

static int inhibit(struct bench *b, bool on)
{
	struct request r = {.op = OP_RESUME};
	if (on)
		r = (struct request){.op = OP_INHIBIT, .text = "bench-yield"};
	return ask(b, &r, NULL);
}

/* Process of the first job; 0: none. */
static pid_t job_pid(struct bench *b)
{
	json_t *s = NULL;
	if (ask(b, &(struct request){.op = OP_STATUS}, &s) < 0)
		return 0;
	json_t *job = json_array_get(json_object_get(s, "jobs"), 0);
	pid_t pid = (pid_t)json_integer_value(json_object_get(job, "pid"));
	json_decref(s);
	return pid;
}

/* Processor time in ns of all threads of a process. */
static int64_t used_by(const char *pid)
{
	char path[300], text[64];
	int64_t sum = 0;
	snprintf(path, sizeof path, "/proc/%.20s/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/schedstat", pid, e->d_name);
		FILE *f = isdigit((unsigned char)e->d_name[0]) ? fopen(path, "re") : NULL;
		sum += f && fgets(text, sizeof text, f) ? strtoll(text, NULL, 10) : 0;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}

/* Whether the process is in the group; its stat is "pid (name) state ppid pgrp". */
static bool belongs(const char *pid, pid_t group)
{
	char path[64], text[512];
	int of = 0;
	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	FILE *f = fopen(path, "re");
	const char *p = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
	if (f)
		fclose(f);
	return p && sscanf(p + 1, " %*c %*d %d", &of) == 1 && of == group;
}

enum { MOST_OF_JOB = 64 };

static int members(pid_t group, char pid[MOST_OF_JOB][24])
{
	int n = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d)) && n < MOST_OF_JOB;)
		if (isdigit((unsigned char)e->d_name[0]) && belongs(e->d_name, group))
			snprintf(pid[n++], sizeof *pid, "%.20s", e->d_name);
	if (d)
		closedir(d);
	return n;
}

static int64_t used(int n, char pid[MOST_OF_JOB][24])
{
	int64_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += used_by(pid[i]);
	return sum;
}

/* The processes of the job, whose processor time the board counts. */
static struct {
	pthread_mutex_t lock;
	int n;
	char pid[MOST_OF_JOB][24];
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t job_used(void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&job.lock);
	int64_t ns = used(job.n, job.pid);
	pthread_mutex_unlock(&job.lock);
	return ns;
}

static void know_job(int n, char pid[MOST_OF_JOB][24])
{
	pthread_mutex_lock(&job.lock);
	job.n = n;
	memcpy(job.pid, pid, sizeof job.pid);
	pthread_mutex_unlock(&job.lock);
}

/* Waits until the job uses processor time. */
static int await_job(struct bench *b)
{
	char pid[MOST_OF_JOB][24];
	for (int64_t end = now() + 60 * NS_PER_S; now() < end;) {
		pid_t leader = job_pid(b);
		int n = leader > 0 ? members(leader, pid) : 0;
		know_job(n, pid);
		int64_t before = used(n, pid);
		clock_real.sleep(&clock_real, SETTLE_NS);
		if (n && used(n, pid) > before + SETTLE_NS / 20)
			return E_OK;
	}
	return fail(E_TIMEOUT, "honed does not tune; see its status");
}

static int let_go(struct bench *b)
{
	int rc = inhibit(b, false);
	return rc < 0 ? rc : await_job(b);
}

static int make_busy(struct bench *b, bool on)
{
	b->board.busy = on;
	return E_OK;
}

static int make_hot(struct bench *b, bool on)
{
	board_heat(&b->board, on);
	return E_OK;
}

static int throttle(struct bench *b, bool on)
{
	board_throttle(&b->board, on);
	return E_OK;
}

static int take_memory(struct bench *b, bool on)
{
	board_memory(&b->board, on);
	return E_OK;
}

static const struct signal_kind {
	const char *name;
	int cpus; /* of the board */
	int (*set)(struct bench *b, bool on);
} signals[] = {
    {"hone inhibit", 1, inhibit},   {"heat", 1, make_hot},          {"throttling", 1, throttle},
    {"memory", 1, take_memory},     {"load, 1 of 1", 1, make_busy}, {"load, 1 of 2", 2, make_busy},
    {"load, 1 of 4", 4, make_busy},
};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* Gives the signal; *out: ns until the last processor time that was seen. */
static int yield_ns(struct bench *b, const struct signal_kind *s, double *out)
{
	char pid[MOST_OF_JOB][24];
	int n = members(job_pid(b), pid), rc;
	int64_t start = now(), last = start, before = used(n, pid);
	rc = s->set(b, true);
	for (int64_t at = now(); rc >= 0 && at - last < QUIET_NS; at = now()) {
		int64_t sum = used(n, pid);
		if (sum != before)
			last = at;
		before = sum;
		clock_real.sleep(&clock_real, 200 * NS_PER_US);
	}
	*out = (double)(last - start);
	return rc;
}

static int yields_to(struct bench *b, const struct signal_kind *s)
{
	double *ns = malloc(sizeof *ns * (size_t)(b->yields + 1));
	int rc = ns ? E_OK : E_NOMEM, n = 0;
	b->board.cpus = s->cpus;
	while (rc >= 0 && n < b->yields) {
		rc = s->set(b, false);
		if (rc >= 0)
			rc = await_job(b);
		/* signals come at any moment between two looks of the gate */
		clock_real.sleep(&clock_real, (int64_t)n * 7 % 25 * NS_PER_MS);
		if (rc >= 0)
			rc = yield_ns(b, s, &ns[n]);
		n += rc >= 0;
	}
	if (rc >= 0 && n)
		printf("ms of %d yields to %-12s: median %.1f, 90th percentile %.1f, longest %.1f\n", n,
		       s->name, quantile(ns, n, 0.5) / 1e6, quantile(ns, n, 0.9) / 1e6,
		       quantile(ns, n, 1) / 1e6);
	free(ns);
	return rc < 0 ? rc : s->set(b, false);
}

static int yields(struct bench *b)
{
	int rc = inhibit(b, false);
	for (int i = 0; i < SIGNALS && rc >= 0; i++)
		rc = yields_to(b, &signals[i]);
	return rc;
}

static int lease_us(const char *socket, const char *cache, double *out)
{
	enum { TIMES = 1000 };
	const struct leash_options o = {
	    .socket = socket, .cache = cache, .model = "bench", .threads = 1, .clock = &clock_real};
	static double us[TIMES];
	struct leash *l;
	const char *taint;
	int rc = leash_open(&o, &l);
	if (rc < 0)
		return rc;
	for (int i = 0; i < TIMES && rc >= 0; i++) {
		int64_t start = now();
		rc = leash_lease(l, LEASE_COMPUTE, INT64_MAX);
		if (rc >= 0)
			rc = leash_release(l, &taint);
		us[i] = (double)(now() - start) / 1e3;
	}
	leash_close(l);
	*out = quantile(us, TIMES, 0.5);
	return rc;
}

static int leases(struct bench *b)
{
	enum { A_SECOND = 100 };
	double alone = 0, through = 0;
	char cache[128];
	snprintf(cache, sizeof cache, "%s/cache", b->dir);
	int rc = lease_us("/dev/null/none", cache, &alone);
	if (rc >= 0)
		rc = let_go(b);
	if (rc >= 0)
		rc = lease_us(b->socket, cache, &through);
	if (rc >= 0)
		printf("lease, us: alone %.1f (%.2f %% of a box), through honed %.1f (%.2f %%)\n", alone,
		       alone * A_SECOND / 1e4, through, through * A_SECOND / 1e4);
	return rc;
}

static const double shares[] = {0.5, 0.99, 0.999}; /* the last one is the criterion */
enum { SHARES = sizeof shares / sizeof *shares, LAST = SHARES - 1 };

struct series { /* per pair: without and with tuning */
	double late[SHARES][2][MOST_PAIRS], done[SHARES][2][MOST_PAIRS];
};

static void sum_up(const char *what, double share_of, double off[], double on[], int n)
{
	static double more[MOST_PAIRS], share[MOST_PAIRS];
	for (int i = 0; i < n; i++) {
		more[i] = on[i] - off[i];
		share[i] = off[i] > 0 ? 100 * more[i] / off[i] : 0;
	}
	double us = quantile(more, n, 0.5) / 1e3, pct = quantile(share, n, 0.5);
	printf("%-6s p%.1f us: off %.0f, on %.0f; pairs differ by %+.0f us, %+.1f %%: %s\n", what,
	       100 * share_of, quantile(off, n, 0.5) / 1e3, quantile(on, n, 0.5) / 1e3, us, pct,
	       us <= 50 || pct <= 5 ? "within 5 % or 50 us" : "NOT within 5 % or 50 us");
}

static int pairs(struct bench *b, struct robot *r, uint32_t *p)
{
	static struct series s;
	int64_t rounds = calibrate(p);
	int rc = E_OK;
	for (int i = 0; i < b->pairs && rc >= 0; i++) {
		for (int k = 0; k < 2 && rc >= 0; k++) {
			int on = (i + k) % 2;
			rc = on ? let_go(b) : inhibit(b, true);
			clock_real.sleep(&clock_real, SETTLE_NS);
			if (rc < 0)
				break;
			be_a_robot(r, b->seconds * NS_PER_S, rounds, p);
			for (int q = 0; q < SHARES; q++) {
				s.late[q][on][i] = quantile(r->late, r->n, shares[q]);
				s.done[q][on][i] = quantile(r->done, r->n, shares[q]);
			}
		}
		if (rc >= 0)
			printf("pair %2d: wakes off %6.0f on %6.0f, done off %6.0f on %6.0f us\n", i + 1,
			       s.late[LAST][0][i] / 1e3, s.late[LAST][1][i] / 1e3, s.done[LAST][0][i] / 1e3,
			       s.done[LAST][1][i] / 1e3);
	}
	for (int q = 0; q < SHARES && rc >= 0 && b->pairs; q++) {
		sum_up("wakes", shares[q], s.late[q][0], s.late[q][1], b->pairs);
		sum_up("done", shares[q], s.done[q][0], s.done[q][1], b->pairs);
	}
	return rc;
}

static int write_conf(const struct bench *b, const char *path)
{
	struct buf t = {0};
	buf_printf(&t,
		   "[honed]\ncache = %s/cache\n[idle]\nsettle = 1s\nslice = 10m\npressure = "
		   "100%%\n[limits]\nwrites = 1G\n[model it]\npath = %s\nthreads = 1\n",
		   b->dir, b->model);
	int rc = buf_ok(&t) ? file_write(path, t.p, t.n) : E_NOMEM;
	buf_free(&t);
	return rc;
}

static int start(struct bench *b)
{
	char conf[128], board[128];
	snprintf(conf, sizeof conf, "%s/honed.conf", b->dir);
	snprintf(board, sizeof board, "%s/board", b->dir);
	snprintf(b->socket, sizeof b->socket, "%s/honed.sock", b->dir);
	int rc = write_conf(b, conf);
	if (rc >= 0)
		rc = board_open(&b->board, board);
	if (rc >= 0)
		rc = board_start(&b->board, job_used, NULL);
	if (rc < 0)
		return rc;
	b->pid = fork();
	if (b->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		keep_to(b->cpu);
		setenv("HONE_SEEDS", "", 1);
		int log = open(b->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		(void)!dup2(log, 2);
		execl(b->honed, "honed", "--config", conf, "--run", b->dir, "--state", b->dir, "--sysroot",
		      board, NULL);
		_exit(127);
	}
	for (int i = 0; i < 100 && (rc = client_open(b->socket, now() + NS_PER_S, &b->client)) < 0; i++)
		clock_real.sleep(&clock_real, 50 * NS_PER_MS);
	return rc;
}

static int prepare(struct bench *b)
{
	char dir[PATH_MAX - 16], path[128];
	snprintf(b->dir, sizeof b->dir, "/tmp/hone-yield-XXXXXX");
	int rc = file_self_dir(dir, sizeof dir);
	if (rc >= 0 && !mkdtemp(b->dir))
		rc = fail(E_IO, "/tmp: %s", strerror(errno));
	snprintf(b->log, sizeof b->log, "%s/log", b->dir);
	snprintf(b->honed, sizeof b->honed, "%s/../honed", dir);
	snprintf(path, sizeof path, "%s/mobilenet_v2.onnx", b->dir);
	if (rc >= 0 && !b->model) {
		struct graph *g;
		rc = zoo_make("mobilenet_v2", 1, &g);
		if (rc >= 0) {
			rc = export_file(g, path);
			graph_free(g);
		}
		b->model = strdup(path);
	}
	return rc;
}

static void finish(struct bench *b)
{
	char words[96];
	client_close(b->client);
	board_end(&b->board);
	if (b->pid > 0) {
		kill(b->pid, SIGTERM);
		waitpid(b->pid, NULL, 0);
	}
	snprintf(words, sizeof words, "rm -rf %s", b->dir);
	if (system(words) != 0)
		fprintf(stderr, "%s stays\n", b->dir);
}

/* Sets real-time priority; 0: back to normal. */
static int rise(int priority)
{
	const struct sched_param p = {.sched_priority = priority};
	if (sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &p) < 0)
		return fail(E_IO, "--fifo: %s; run as root", strerror(errno));
	return E_OK;
}

static int bench(struct bench *b)
{
	struct robot *r = malloc(sizeof *r);
	uint32_t *p = calloc(1, BUFFER);
	int rc = r && p ? prepare(b) : E_NOMEM;
	if (rc >= 0)
		rc = start(b);
	if (rc >= 0) {
		keep_to(b->cpu);
		(void)mlockall(MCL_CURRENT);
		memset(r, 0, sizeof *r);
		rc = b->fifo ? rise(50) : E_OK;
	}
	if (rc >= 0)
		rc = pairs(b, r, p);
	if (rc >= 0 && b->fifo)
		rc = rise(0);
	if (rc >= 0)
		rc = yields(b);
	if (rc >= 0)
		rc = leases(b);
	finish(b);
	free(p);
	free(r);
	return rc;
}

int main(int argc, char **argv)
{
	enum { SECONDS = 1, PAIRS, YIELDS, CPU, MODEL, FIFO };
	static const struct option options[] = {{"seconds", required_argument, 0, SECONDS},
						{"pairs", required_argument, 0, PAIRS},
						{"yields", required_argument, 0, YIELDS},
						{"cpu", required_argument, 0, CPU},
						{"model", required_argument, 0, MODEL},
						{"fifo", no_argument, 0, FIFO},
						{0}};
	struct bench b = {
	    .seconds = 10, .pairs = 10, .yields = 20, .cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1};
	int *const number[] = {
	    [SECONDS] = &b.seconds, [PAIRS] = &b.pairs, [YIELDS] = &b.yields, [CPU] = &b.cpu};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == FIFO)
			b.fifo = true;
		else if (c == MODEL)
			b.model = optarg;
		else if (c >= SECONDS && c <= CPU)
			*number[c] = atoi(optarg);
		else
			return 2;
	}
	if (b.pairs > MOST_PAIRS || b.seconds < 1 || b.seconds * 100 > MOST_TURNS || b.cpu < 0)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	int rc = bench(&b);
	if (rc < 0)
		fprintf(stderr, "bench-yield: %s\n", err_text());
	return rc < 0;
}
