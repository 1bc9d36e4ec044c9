/* SPDX-License-Identifier: Apache-2.0 */
/* A timeout for another process. When a process was stopped (SIGSTOP, a suspended machine), hours may have
 * passed in which the other one was stopped too, or could not be heard. So of the time between two looks,
 * only one slice counts. Look at least every PATIENCE_SLICE_NS. */
#ifndef PLATFORM_PATIENCE_H
#define PLATFORM_PATIENCE_H

#include "platform/base/clock.h"

#define PATIENCE_SLICE_NS (100 * NS_PER_MS)
/* A look that is late by more than this was delayed by more than a busy machine. */
#define PATIENCE_LATE_NS (150 * NS_PER_MS)

struct patience {
	int64_t end_ns, looked_ns;
};

static inline struct patience patience_until(int64_t now_ns, int64_t end_ns)
{
	return (struct patience){end_ns, now_ns};
}

/* The time left; <= 0: none. */
static inline int64_t patience_left(struct patience *p, int64_t now_ns)
{
	int64_t late_ns = now_ns - p->looked_ns - PATIENCE_SLICE_NS;
	p->looked_ns = now_ns;
	if (late_ns > PATIENCE_LATE_NS && p->end_ns < INT64_MAX - late_ns)
		p->end_ns += late_ns;
	return p->end_ns == INT64_MAX ? INT64_MAX : p->end_ns - now_ns;
}

#endif
