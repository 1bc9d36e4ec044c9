/* SPDX-License-Identifier: Apache-2.0 */
/* A region gets power back: simulates in virtual time how many of its boards ask the fleet's server in any
 * second, at the pace of agent/sync/sync_pace.h.
 *
 * Whether the server answers depends on the time alone, so boards are independent of each other and are
 * simulated one after the other. Requests are counted in bins of a tenth of a second. */
#ifndef TOOLS_HERD_POWER_H
#define TOOLS_HERD_POWER_H

#include "platform/base/err.h"
#include <stdint.h>

struct herd_power {
	const char *name;
	int boards;
	double every_s;              /* configured interval between requests */
	double run_s;                /* length of the simulation, which begins when all boards get power */
	double again_s;              /* interval at which all lose power and get it back at once; 0: never */
	double fails_from, fails_to; /* the server fails in this span, s */
	double retry_s;              /* Retry-After that it sends then; 0: none */
	double poll_from, poll_s;    /* from poll_from on the server asks for the interval poll_s; 0: never */
	uint64_t seed;
};

struct herd_peak {
	int64_t asks, failed, starts;
	double planned;   /* requests a second: boards over the interval; over the shorter one of two until
			   * every board must have heard of the longer */
	double one, ten;  /* most requests of any 1 s, and of any 10 s, over the planned number */
	double one_at_s;  /* when the peak of 1 s was */
	double mean_late; /* requests in the last quarter of the run over the planned number */
};

/* E_NOMEM; E_USAGE: more than a week. */
int herd_power(const struct herd_power *c, struct herd_peak *out) MUST_CHECK;

#endif
