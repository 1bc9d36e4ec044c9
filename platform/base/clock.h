/* SPDX-License-Identifier: Apache-2.0 */
/* The clock is an argument everywhere: nothing else calls clock_gettime. All times are int64_t nanoseconds on
 * a monotonic scale with an arbitrary zero. A virtual clock only moves when told, so whole boxes run in
 * milliseconds. */
#ifndef PLATFORM_CLOCK_H
#define PLATFORM_CLOCK_H

#include <stdint.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)

struct clock {
	int64_t (*now)(struct clock *c);            /* ns */
	void (*sleep)(struct clock *c, int64_t ns); /* ns <= 0: returns at once */
	int64_t virtual_ns;                         /* the virtual clock's time */
};

extern struct clock clock_real; /* CLOCK_MONOTONIC; stateless, shared by all threads */
struct clock clock_virtual(int64_t start_ns);
void clock_advance(struct clock *virtual_clock, int64_t ns);
static inline int64_t clock_now(struct clock *c)
{
	return c->now(c);
}
/* ns since the kernel started this process (its start time from /proc/self/stat, 10 ms granularity; if that
 * cannot be read, since the first call). Boxes are counted from here. */
int64_t clock_since_start(struct clock *c);

#endif
