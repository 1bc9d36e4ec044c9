/* SPDX-License-Identifier: Apache-2.0 */
/* Which records are stale: what they name may well be the best kernel, but their time is not believed before
 * it was measured again. A stale record serves as long as it has code. A box first makes the code that is
 * missing, then times every incumbent beside its task's default, stale or not; the one that turns out slower,
 * or does not work any more, gives its place to the default (search/job.h). `--rigor estimate` does so for
 * stale ones alone.
 *
 * No reason asks for the date: boards have no trustworthy clock. Temperature counts by what it does to the
 * clock frequency. */
#ifndef AGENT_STALE_H
#define AGENT_STALE_H

#include "agent/cache/cache.h"
#include "platform/machine/target.h"

enum stale {
	STALE_NOT,
	STALE_MACHINE, /* measured on another machine: only a candidate for this one */
	STALE_NUMBERS, /* not a kernel that worked, or numbers that no measurement gives */
	STALE_EMITTER, /* another version of the emitter made its code; the present one makes different
			  code */
	STALE_CODE,    /* it has no code that runs here: it was imported, evicted, or made before an
			  upgrade */
	STALE_CLOCK, /* the clock frequency changed by STALE_CLOCK_PCT or more while it was measured, or
			differs by as much from that of the default, which every box measures */
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
