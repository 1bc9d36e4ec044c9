/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/gpu_state.h"
#include "platform/base/clock.h"
#include "platform/run/gpu_parts.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t patience_ns = NS_PER_S;

enum { ASK_OPEN = 1, ASK_READ, ASK_CLOSE };

/* Shared with the thread that asks the source; who leaves last frees it. */
struct gpu_watch {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int ask;   /* what the thread is to do; 0: nothing */
	bool left; /* the caller is gone, or waits no more */
	bool dead; /* the source did not answer */
	int rc;
	char why[160];
	struct gpu_state state;
	/* The thread's. */
	bool shares;
	char uuid[48], root[256], library[512];
	struct nvml *nvml;
	struct jetson *jetson;
};

void gpu_watch_patience(int64_t ns)
{
	patience_ns = ns;
}

static void destroy(struct gpu_watch *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	free(w);
}

static int source_open(struct gpu_watch *w)
{
	return w->shares && jetson_is(w->root)
		   ? jetson_open(w->root, &w->jetson)
		   : nvml_open(*w->library ? w->library : NULL, w->uuid, &w->nvml);
}

static void source_read(struct gpu_watch *w, struct gpu_state *out)
{
	if (w->jetson)
		jetson_read(w->jetson, out);
	else
		nvml_read(w->nvml, out);
	gpu_state_clean(out);
}

static void source_close(struct gpu_watch *w)
{
	jetson_close(w->jetson);
	nvml_close(w->nvml);
	w->jetson = NULL;
	w->nvml = NULL;
}

static void *thread(void *arg)
{
	struct gpu_watch *w = arg;
	struct gpu_state s = GPU_STATE_NONE;
	pthread_mutex_lock(&w->lock);
	for (int ask = 0, rc = E_OK; ask != ASK_CLOSE && !w->left;) {
		while (!w->ask && !w->left)
			pthread_cond_wait(&w->changed, &w->lock);
		if (w->left)
			break;
		ask = w->ask;
		pthread_mutex_unlock(&w->lock);
		if (ask == ASK_OPEN)
			rc = source_open(w);
		else if (ask == ASK_READ)
			source_read(w, &s);
		else
			source_close(w);
		pthread_mutex_lock(&w->lock);
		w->rc = rc;
		if (rc < 0)
			snprintf(w->why, sizeof w->why, "%s", err_text());
		w->state = s;
		w->ask = 0;
		pthread_cond_broadcast(&w->changed);
	}
	bool last = w->left;
	w->left = true;
	pthread_mutex_unlock(&w->lock);
	if (last) {
		source_close(w);
		destroy(w);
	}
	return NULL;
}

/* False: no answer in time. The lock is held. */
static bool ask(struct gpu_watch *w, int what)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	int64_t ns = end.tv_nsec + patience_ns;
	end.tv_sec += ns / NS_PER_S;
	end.tv_nsec = ns % NS_PER_S;
	w->ask = what;
	pthread_cond_broadcast(&w->changed);
	while (w->ask && !w->dead)
		w->dead = pthread_cond_timedwait(&w->changed, &w->lock, &end) != 0 && w->ask;
	return !w->dead;
}

/* The thread is told to go, or is left with a source that hangs. */
static void leave(struct gpu_watch *w)
{
	pthread_mutex_lock(&w->lock);
	if (!w->dead)
		(void)ask(w, ASK_CLOSE);
	bool last = w->left;
	w->left = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (last)
		destroy(w);
}

int gpu_watch_open(const char *uuid, bool shares, const char *root, const char *library,
		   struct gpu_watch **out)
{
	const char *set = root ? root : getenv("HONE_SYSROOT");
	pthread_t t;
	struct gpu_watch *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory for the state of a GPU");
	*w = (struct gpu_watch){.shares = shares, .state = GPU_STATE_NONE};
	snprintf(w->uuid, sizeof w->uuid, "%s", uuid);
	snprintf(w->root, sizeof w->root, "%s", set ? set : "");
	snprintf(w->library, sizeof w->library, "%s", library ? library : "");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	if (pthread_create(&t, NULL, thread, w) != 0) {
		destroy(w);
		return fail(E_NOMEM, "no thread for the state of a GPU");
	}
	pthread_detach(t);
	pthread_mutex_lock(&w->lock);
	bool good = ask(w, ASK_OPEN);
	int rc = good ? w->rc
		      : fail(E_NOTFOUND, "the state of the GPU is not told in %g s",
			     (double)patience_ns / NS_PER_S);
	if (good && rc < 0)
		rc = fail(rc, "%s", w->why);
	pthread_mutex_unlock(&w->lock);
	if (rc < 0)
		leave(w);
	else
		*out = w;
	return rc;
}

void gpu_watch_read(struct gpu_watch *w, struct gpu_state *out)
{
	*out = GPU_STATE_NONE;
	pthread_mutex_lock(&w->lock);
	if (!w->dead && ask(w, ASK_READ))
		*out = w->state;
	pthread_mutex_unlock(&w->lock);
}

void gpu_watch_close(struct gpu_watch *w)
{
	if (w)
		leave(w);
}

static int64_t bounded(int64_t v, int64_t least, int64_t most)
{
	return v >= least && v <= most ? v : -1;
}

void gpu_state_clean(struct gpu_state *s)
{
	s->clock_mhz = bounded(s->clock_mhz, 1, 100000);
	s->clock_most_mhz = bounded(s->clock_most_mhz, 1, 100000);
	s->memory_mhz = bounded(s->memory_mhz, 1, 100000);
	s->temp_mc = bounded(s->temp_mc, 1, 200000);
	s->power_mw = bounded(s->power_mw, 1, 10000000);
	s->load_pct = (int)bounded(s->load_pct, 0, 100);
	s->slowed &= 31;
	s->events = bounded(s->events, 0, INT64_MAX);
}

static void put(char **at, int *room, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(*at, (size_t)*room, fmt, ap);
	va_end(ap);
	n = n < *room ? n : *room - 1;
	*at += n;
	*room -= n;
}

static void put_slowed(char **at, int *room, unsigned slowed)
{
	static const char *const names[] = {"its power limit", "heat", "its hardware", "the power supply",
					    "the board"};
	const char *before = "held down by ";
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (slowed >> i & 1) {
			put(at, room, "%s%s", before, names[i]);
			before = " and ";
		}
}

void gpu_state_text(const struct gpu_state *s, char *out, int n)
{
	const char *next = "";
	*out = 0;
	if (s->clock_mhz >= 0) {
		put(&out, &n, "%lld", (long long)s->clock_mhz);
		if (s->clock_most_mhz >= 0)
			put(&out, &n, " of %lld", (long long)s->clock_most_mhz);
		put(&out, &n, " MHz");
		next = ", ";
	}
	if (s->memory_mhz >= 0) {
		put(&out, &n, "%smemory %lld MHz", next, (long long)s->memory_mhz);
		next = ", ";
	}
	if (s->temp_mc >= 0) {
		put(&out, &n, "%s%lld C", next, (long long)(s->temp_mc + 500) / 1000);
		next = ", ";
	}
	if (s->power_mw >= 0) {
		put(&out, &n, "%s%.1f W", next, (double)s->power_mw / 1e3);
		next = ", ";
	}
	if (s->load_pct >= 0) {
		put(&out, &n, "%s%d %% busy", next, s->load_pct);
		next = ", ";
	}
	if (s->slowed) {
		put(&out, &n, "%s", next);
		put_slowed(&out, &n, s->slowed);
	}
}

const char *gpu_state_taint(const struct gpu_state *before, const struct gpu_state *after)
{
	const unsigned was = before->slowed & ~(unsigned)GPU_SLOWED_POWER,
		       is = after->slowed & ~(unsigned)GPU_SLOWED_POWER;
	if (before->events < 0 || after->events < 0)
		return NULL;
	if (is & ~was)
		return "the GPU began to throttle";
	if (was & ~is)
		return "the GPU ceased to throttle";
	return after->events != before->events ? "the board throttled" : NULL;
}
