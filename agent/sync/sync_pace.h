/* SPDX-License-Identifier: Apache-2.0 */
/* When a board may ask again: pure, and the same in the simulation of a million boards
 * (tools/bench/herd_power.h).
 *
 * Every wait is jittered in full, after success, failure and start alike: uniform in [0, 2 x every] after a
 * success (the mean is `every`), and after the n-th failure in a row uniform in [0, min(most, 2^n x every)],
 * never before Retry-After, which is itself stretched by up to a half. (Full jitter: M. Brooker, "Exponential
 * Backoff And Jitter", 2015.) `every` is PACE_BASE at least in that, and most the larger of PACE_MOST and 2 x
 * every. A Retry-After of more than PACE_RETRY_MOST counts as that: no answer silences a board for good.
 *
 * After a start a board waits for as long as one that has asked at that pace forever still has to wait at any
 * moment: density (1 - x / (2 x every)) / every in [0, 2 x every], mean 2/3 of every (D. R. Cox, "Renewal
 * Theory", 1962, chapter 5). So boards that all get power at one moment ask at the mean rate from then on,
 * neither more nor less; uniform in [0, every] they would come to e^(1/2) of it. Nor do failures ask sooner
 * than successes: a server that fails for an hour is not asked more than one that answers. */
#ifndef AGENT_SYNC_PACE_H
#define AGENT_SYNC_PACE_H

#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include <stdint.h>

#define PACE_BASE_NS (30 * NS_PER_S)
#define PACE_DAY_NS (24 * 3600 * NS_PER_S)
#define PACE_MOST_NS PACE_DAY_NS
#define PACE_EVERY_MOST_NS (366 * PACE_DAY_NS)
#define PACE_RETRY_MOST_NS (7 * PACE_DAY_NS)

enum pace_end { PACE_START, PACE_GOOD, PACE_FAILED, PACE_END_COUNT };

struct sync_pace {
	int failures;    /* in a row */
	int64_t next_ns; /* not before, on the clock that the caller counts by */
	int64_t day;     /* of use: days of 24 h of being on, as there is no date */
	int64_t bytes;   /* of traffic on that day */
};

/* After a run, or at start: sets next_ns. retry_after_ns: 0: the server said nothing. A start keeps the count
 * of failures. */
void pace_next(struct sync_pace *p, enum pace_end end, int64_t now_ns, int64_t every_ns,
	       int64_t retry_after_ns, struct rng *r);
/* Bytes that may still be moved today; INT64_MAX: no limit (day_bytes 0). A clock that was set back begins no
 * new day. */
int64_t pace_left(struct sync_pace *p, int64_t now_ns, int64_t day_bytes);
void pace_moved(struct sync_pace *p, int64_t now_ns, int64_t bytes);

#endif
