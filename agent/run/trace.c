/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/trace.h"

#include <stdbool.h>
#include <stdlib.h>

/* One thread's events; cache lines of its own, as threads write at the same time. */
struct lane {
	_Alignas(64) int n;
	int64_t lost;
	struct trace_event *event;
};

struct trace {
	struct clock *clock;
	int threads, cap;
	struct lane *lane;
};

int trace_open(struct trace **out, struct clock *clock, int threads, int events_per_thread)
{
	struct trace *t = calloc(1, sizeof *t);
	if (t)
		*t = (struct trace){clock, threads, events_per_thread,
				    aligned_alloc(64, sizeof(struct lane) * (size_t)threads)};
	if (!t || !t->lane) {
		free(t);
		return fail(E_NOMEM, "no memory for a trace of %d threads", threads);
	}
	bool whole = true;
	for (int i = 0; i < threads; i++) {
		t->lane[i] =
		    (struct lane){.event = calloc((size_t)events_per_thread, sizeof(struct trace_event))};
		whole &= t->lane[i].event != NULL;
	}
	if (!whole) {
		trace_close(t);
		return fail(E_NOMEM, "no memory for %d events of a trace", events_per_thread);
	}
	*out = t;
	return E_OK;
}

struct clock *trace_clock(const struct trace *t)
{
	return t->clock;
}

void trace_add(struct trace *t, int thread, struct trace_event e)
{
	struct lane *l = &t->lane[thread];
	if (l->n < t->cap)
		l->event[l->n++] = e;
	else
		l->lost++;
}

int trace_events(const struct trace *t, int thread, const struct trace_event **out)
{
	*out = t->lane[thread].event;
	return t->lane[thread].n;
}

int trace_threads(const struct trace *t)
{
	return t->threads;
}

int64_t trace_lost(const struct trace *t)
{
	int64_t n = 0;
	for (int i = 0; i < t->threads; i++)
		n += t->lane[i].lost;
	return n;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->threads; i++)
		free(t->lane[i].event);
	free(t->lane);
	free(t);
}
