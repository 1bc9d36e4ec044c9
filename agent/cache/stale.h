/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which records are stale: they may well name the best kernel, but their time is not believed until
 * it is measured again. A stale record serves as long as it has code. A box first makes missing code, then
 * times every incumbent beside its task's default, stale or not; an incumbent that is slower or no longer
 * works is replaced by the default (search/job.h). With `--rigor estimate` only stale ones are timed.
 *
 * No reason depends on the date: boards have no trustworthy clock. Temperature counts by what it does to the
 * clock frequency. */
#ifndef AGENT_STALE_H
#define AGENT_STALE_H

#include "agent/cache/cache.h"
#include "platform/machine/target.h"

enum stale {
	STALE_NOT,
	STALE_MACHINE,   /* measured on another machine: only a candidate for this one */
	STALE_NUMBERS,   /* not a kernel that worked, or numbers that no measurement gives */
	STALE_EMITTER,   /* another version of the emitter made its code; the present one makes different
			    code */
	STALE_CODE,      /* it has no code that runs here: it was imported, evicted, or made before an
			    upgrade */
	STALE_CLOCK,     /* the clock frequency changed by STALE_CLOCK_PCT or more while it was measured, or
			    differs by as much from that of the default, which every box measures */
	STALE_THROTTLED, /* the device began or ceased to throttle in every try to time it */
	STALE_AGE, /* the last STALE_BOXES boxes of its task (agent/cache/trials.h) had no time to measure
		      it */
	STALES
};

enum { STALE_CLOCK_PCT = 10, STALE_BOXES = 8, STALE_MOST_THREADS = 1024 };

/* Returns the first reason of the list. emitter: the present one's name and version; "": not known, so
 * STALE_EMITTER is not checked. */
enum stale stale_rec(struct cache *c, const struct rec *r, const struct target *t, const char *emitter);
const char *stale_name(enum stale s); /* "code"; STALE_NOT: "" */
/* "its code is missing" */
const char *stale_words(enum stale s);
/* True: the numbers can come from a measurement. Times of a failed measurement are not checked. */
bool stale_plausible(const struct rec *r);

#endif
