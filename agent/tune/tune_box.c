/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the box: what its last part is reserved for, and the answer of a box that ends too early. */
#include "agent/tune/tune_parts.h"

#include <stdio.h>

#define SLOWEST_READ 100 /* bytes per us: flash of a board, while nothing was read yet */
#define LEAST_READ 2     /* bytes per us: the slowest that is believed */
#define AFTER_READ_NS NS_PER_S
#define MOST_CLOSING_NS (60 * NS_PER_MS)
enum { COMMIT_PART = 8 }; /* at most this part of the box is held back for one commit */
enum { READS = 4 };       /* import, packing and a first run take about three times as long as reading */

int64_t tune_commit_ns(const struct session *s)
{
	int64_t most_ns = s->o->budget_ns / COMMIT_PART;
	return s->store.commit_ns < most_ns ? s->store.commit_ns : most_ns;
}

int64_t tune_runs_end_ns(const struct session *s)
{
	int64_t commit_ns = tune_commit_ns(s);
	return s->times.end_ns - commit_ns - (tune_closing_ns(s, 0) - commit_ns) / 2;
}

int64_t tune_search_end_ns(const struct session *s)
{
	return s->times.end_ns - s->times.reserve_ns - s->times.commits_ns;
}

/* Time for the last commit, to answer and to release everything, even on a busy machine. */
int64_t tune_closing_ns(const struct session *s, size_t more_bytes)
{
	int64_t share_ns = s->o->budget_ns / 100;
	return 10 * NS_PER_MS + (share_ns < MOST_CLOSING_NS ? share_ns : MOST_CLOSING_NS) +
	       guard_exit_ns(more_bytes) + tune_commit_ns(s);
}

void tune_limit(struct session *s)
{
	s->until.end_ns = s->times.end_ns - tune_closing_ns(s, 0);
}

int64_t tune_left_ns(const struct session *s)
{
	return s->times.end_ns - tune_closing_ns(s, 0) - clock_now(s->clock);
}

/* 1, 2 or 5 times a power of ten, in seconds. */
static int64_t round_up_s(int64_t ns)
{
	int64_t s = 1;
	for (int i = 0; s * NS_PER_S < ns && s < 1000000; i++)
		s = i % 3 == 1 ? s / 2 * 5 : s * 2;
	return s;
}

/* Expected length of a box that reads the model and finds a few kernels. */
static int64_t enough_ns(const struct session *s, int64_t read_bytes, int64_t all_bytes)
{
	int64_t now_ns = clock_now(s->clock);
	int64_t reading_ns = s->times.reading_ns ? s->times.reading_ns : now_ns; /* 0: not yet begun */
	int64_t before_ns = reading_ns - (s->times.end_ns - s->o->budget_ns);
	int64_t took_ns = now_ns - reading_ns;
	double whole_ns = read_bytes > 0 ? (double)took_ns * (double)all_bytes / (double)read_bytes
					 : (double)all_bytes * (double)NS_PER_US / SLOWEST_READ;
	double most_ns = (double)took_ns + (double)all_bytes * (double)NS_PER_US / LEAST_READ;
	whole_ns = whole_ns < most_ns ? whole_ns : most_ns; /* the first bytes say little of the others */
	return before_ns + (int64_t)(READS * (whole_ns > (double)took_ns ? whole_ns : (double)took_ns)) +
	       AFTER_READ_NS;
}

int tune_too_short(const struct session *s)
{
	int64_t read = atomic_load(&s->until.read_bytes), all = atomic_load(&s->all_bytes);
	all = all > read ? all : read;
	return fail(E_TIMEOUT,
		    "%s: the box of %lld ms ended while the model was read (%.1f of %.1f MB); nothing was "
		    "changed. Give --budget %llds or more",
		    s->o->model, (long long)(s->o->budget_ns / NS_PER_MS), (double)read / 1e6,
		    (double)all / 1e6, (long long)round_up_s(enough_ns(s, read, all)));
}

void tune_publish(struct session *s, int trials)
{
	pthread_mutex_lock(&s->late.mutex);
	s->late.report = *s->report;
	s->late.report.trials = trials;
	s->late.read = true;
	pthread_mutex_unlock(&s->late.mutex);
}

void tune_publish_kept(struct session *s)
{
	tune_rows_update(s);
	pthread_mutex_lock(&s->late.mutex);
	struct tune_report *late = &s->late.report;
	late->kept = s->report->kept;
	late->nkernels = s->report->nkernels;
	late->kernel = s->report->kernel;
	late->missing = s->report->missing;
	pthread_mutex_unlock(&s->late.mutex);
}

/* Runs on the guard's thread, which keeps the mutex: the job must not publish while the answer is printed. */
static void answer_late(void *session)
{
	struct session *s = session;
	pthread_mutex_lock(&s->late.mutex);
	struct tune_report r = s->late.report;
	r.elapsed_s = (double)(clock_since_start(s->clock) - s->o->waited_ns) / 1e9;
	r.late = true;
	if (s->late.read)
		tune_say_late(s, &r);
	s->o->late(s->o->ctx, s->late.read ? E_OK : tune_too_short(s), &r);
}

int tune_box_open(struct session *s)
{
	s->until = (struct until){.clock = s->clock, .end_ns = s->times.end_ns, .stop = s->o->stop};
	tune_limit(s);
	until_set(&s->until);
	pthread_mutex_init(&s->late.mutex, NULL);
	const struct guard_options o = {
	    .clock = s->clock, .end_ns = s->times.end_ns, .ctx = s, .late = answer_late};
	return s->o->late ? guard_open(&o, &s->late.guard) : E_OK;
}

void tune_box_close(struct session *s)
{
	until_set(NULL);
	guard_close(s->late.guard);
	pthread_mutex_destroy(&s->late.mutex);
}
