/* SPDX-License-Identifier: Apache-2.0 */
/* When a board may ask again. These functions are pure, and the simulation of a million boards uses them, too
 * (tools/bench/herd_power.h).
 *
 * Every wait has full jitter, after success, failure and start alike: uniform in [0, 2 x every] after a
 * success (the mean is `every`), and after the n-th failure in a row uniform in [0, min(most, 2^n x every)],
 * never before Retry-After, which is itself stretched by up to a half. (Full jitter: M. Brooker, "Exponential
 * Backoff And Jitter", 2015.) After a failure, `every` counts as PACE_BASE at least, and most is the larger
 * of PACE_MOST and 2 x every. A Retry-After of more than PACE_RETRY_MOST counts as that: no answer silences a
 * board for good.
 *
 * After a start, a board waits for the rest of a wait, as if it had always asked at that pace and started at
 * a random moment of it: density (1 - x / (2 x every)) / every in [0, 2 x every], mean 2/3 of every (D. R.
 * Cox, "Renewal Theory", 1962, chapter 5). So boards that all get power at one moment ask at the mean rate
 * from then on, neither more nor less; waits uniform in [0, every] would peak at e^(1/2) times that rate.
 * Failures do not make boards ask sooner than successes: a server that fails for an hour is not asked more
 * than one that answers. */
#ifndef AGENT_SYNC_PACE_H
#define AGENT_SYNC_PACE_H

#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include <stdint.h>

#define PACE_BASE_NS (30 * NS_PER_S)
#define PACE_JOIN_NS (600 * NS_PER_S) /* `every` of boards that have not joined yet, at most */
#define PACE_DAY_NS (24 * 3600 * NS_PER_S)
#define PACE_MOST_NS PACE_DAY_NS
#define PACE_EVERY_MOST_NS (366 * PACE_DAY_NS)
#define PACE_RETRY_MOST_NS (7 * PACE_DAY_NS)

enum pace_end { PACE_START, PACE_GOOD, PACE_FAILED, PACE_END_COUNT };

struct sync_pace {
	int failures;    /* in a row */
	int64_t next_ns; /* time of the next run, on the clock that the caller counts by */
	int64_t day;     /* day of use: each 24 h of being on count as one, as boards have no date */
	int64_t bytes;   /* traffic on that day */
};

/* Sets next_ns after a run, or at start. retry_after_ns 0: the server sent none. A start keeps the count of
 * failures. */
void pace_next(struct sync_pace *p, enum pace_end end, int64_t now_ns, int64_t every_ns,
	       int64_t retry_after_ns, struct rng *r);
/* Returns the bytes that may still be moved today; INT64_MAX: no limit (day_bytes 0). A clock that was set
 * back does not begin a new day. */
int64_t pace_left(struct sync_pace *p, int64_t now_ns, int64_t day_bytes);
void pace_moved(struct sync_pace *p, int64_t now_ns, int64_t bytes);

#endif
