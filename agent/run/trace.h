/* SPDX-License-Identifier: Apache-2.0 */
/* A trace: which thread ran which kernel when, for the runs that plan_trace selected. Every thread writes
 * into its own part, so nothing is locked; events that do not fit are only counted. One run at a time. */
#ifndef AGENT_TRACE_H
#define AGENT_TRACE_H

#include "platform/base/clock.h"
#include "platform/base/err.h"

/* In the place of a kernel: a copy of a tensor between the processor's memory and the device's. */
enum { TRACE_TO_DEVICE = -1, TRACE_FROM_DEVICE = -2 };

struct trace_event {
	int kernel; /* index of plan_kernels, or a copy */
	int64_t begin_ns, end_ns;
};

struct trace;

int trace_open(struct trace **out, struct clock *clock, int threads, int events_per_thread) MUST_CHECK;
struct clock *trace_clock(const struct trace *t);
void trace_add(struct trace *t, int thread, struct trace_event e);
/* Events of a thread in the order of their ends. Returns their number. */
int trace_events(const struct trace *t, int thread, const struct trace_event **out);
int trace_threads(const struct trace *t);
int64_t trace_lost(const struct trace *t);
void trace_close(struct trace *t);

#endif
