/* SPDX-License-Identifier: Apache-2.0 */
/* A region gets power back: how many of its boards ask the fleet's server in any second, at the pace of
 * agent/sync/sync_pace.h, in virtual time.
 *
 * The server is there or not by the time alone, so that boards are independent of each other and simulated
 * one after the other; a tenth of a second is the finest that is counted. */
#ifndef TOOLS_HERD_POWER_H
#define TOOLS_HERD_POWER_H

#include "platform/base/err.h"
#include <stdint.h>

struct herd_power {
	const char *name;
	int boards;
	double every_s;              /* configured */
	double run_s;                /* of the simulation, which begins with power for all at once */
	double again_s;              /* all lose power so often, and have it back at once; 0: never */
	double fails_from, fails_to; /* the server, s */
	double retry_s;              /* its Retry-After then; 0: none */
	double poll_from, poll_s;    /* from then on it asks for that pace; 0: never */
	uint64_t seed;
};

struct herd_peak {
	int64_t asks, failed, starts;
	double planned;   /* asks a second: boards over the pace; over the faster one of two, until every
			     board must have heard of the slower */
	double one, ten;  /* most asks of any 1 s, and of any 10 s, over what is planned for so long */
	double one_at_s;  /* when that was */
	double mean_late; /* asks of the last quarter of the run over what is planned then */
};

/* E_NOMEM; E_USAGE: more than a week. */
int herd_power(const struct herd_power *c, struct herd_peak *out) MUST_CHECK;

#endif
