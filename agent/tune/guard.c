/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/guard.h"

#include "platform/machine/sysfile.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_NS (4 * NS_PER_MS) /* to wake up, to print the answer, and to end */
#define EXIT_NS_PER_MIB (90 * NS_PER_US)
#define MOST_STRETCH 3
#define LOOK_NS (20 * NS_PER_MS) /* near the end the memory is looked at so often */

struct guard {
	struct guard_options o;
	pthread_t thread;
	pthread_mutex_t mutex; /* guards closing */
	pthread_cond_t closes;
	bool closing;
};

/* The first two numbers of a file; false: it cannot be read. */
static bool two_numbers(const char *path, long long *a, long long *b)
{
	char text[128];
	int fd = sysfile_open("", path);
	int n = fd < 0 ? -1 : sysfile_read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	return n > 0 && sscanf(text, "%lld %lld", a, b) == 2;
}

/* How much longer everything takes, because the job's thread waits for its core so often. */
static double stretch(void)
{
	long long ran_ns, waited_ns;
	if (!two_numbers("/proc/self/schedstat", &ran_ns, &waited_ns) || ran_ns <= 0 || waited_ns < 0)
		return 1;
	double x = 1 + (double)waited_ns / (double)ran_ns;
	return x < MOST_STRETCH ? x : MOST_STRETCH;
}

int64_t guard_exit_ns(size_t more_bytes)
{
	long long all, resident;
	if (!two_numbers("/proc/self/statm", &all, &resident))
		resident = 0;
	int64_t bytes = resident * sysconf(_SC_PAGESIZE) + (int64_t)more_bytes;
	return (int64_t)(stretch() * (double)(ANSWER_NS + bytes / (1 << 20) * EXIT_NS_PER_MIB));
}

/* Time until the answer is due; a job with much time left is not looked at often. */
static int64_t wait_ns(const struct guard *g, int64_t *left_ns)
{
	*left_ns = g->o.end_ns - guard_exit_ns(0) - clock_now(g->o.clock);
	int64_t some = *left_ns / 4 > LOOK_NS ? *left_ns / 4 : LOOK_NS;
	return some < *left_ns ? some : *left_ns;
}

static struct timespec after(int64_t ns)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += t.tv_nsec + (int64_t)t.tv_sec * NS_PER_S;
	return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static void *watch(void *ctx)
{
	struct guard *g = ctx;
	int64_t left_ns = 1;
	pthread_mutex_lock(&g->mutex);
	while (!g->closing) {
		int64_t ns = wait_ns(g, &left_ns);
		if (left_ns <= 0)
			break;
		struct timespec until = after(ns);
		pthread_cond_timedwait(&g->closes, &g->mutex, &until);
	}
	bool late = !g->closing;
	pthread_mutex_unlock(&g->mutex);
	if (late)
		g->o.late(g->o.ctx);
	return NULL;
}

/* Blocks signals in the thread: the program's own threads handle them. */
static int start_thread(struct guard *g)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int e = pthread_create(&g->thread, NULL, watch, g);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e ? fail(E_NOMEM, "no thread for the end of the box: %s", strerror(e)) : E_OK;
}

static void destroy(struct guard *g)
{
	pthread_cond_destroy(&g->closes);
	pthread_mutex_destroy(&g->mutex);
	free(g);
}

int guard_open(const struct guard_options *o, struct guard **out)
{
	pthread_condattr_t monotonic;
	struct guard *g = calloc(1, sizeof *g);
	if (!g)
		return fail(E_NOMEM, "no memory for the end of the box");
	g->o = *o;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&g->mutex, NULL);
	pthread_cond_init(&g->closes, &monotonic);
	pthread_condattr_destroy(&monotonic);
	int rc = start_thread(g);
	if (rc < 0)
		destroy(g);
	else
		*out = g;
	return rc;
}

void guard_close(struct guard *g)
{
	if (!g)
		return;
	pthread_mutex_lock(&g->mutex);
	g->closing = true;
	pthread_cond_signal(&g->closes);
	pthread_mutex_unlock(&g->mutex);
	pthread_join(g->thread, NULL);
	destroy(g);
}
