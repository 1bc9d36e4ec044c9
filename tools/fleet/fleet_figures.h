/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet in figures, for its page and API: read from the database at most every FIGURES_NS, whoever asks,
 * as it takes time that grows with the fleet. */
#ifndef TOOLS_FLEET_FIGURES_H
#define TOOLS_FLEET_FIGURES_H

#include "tools/fleet/fleet_html.h"
#include "tools/fleet/fleet_parts.h"

#define FIGURES_NS (10 * NS_PER_S)
enum { FIGURES_BARS = 11 };
extern const char *const figures_bars[FIGURES_BARS]; /* "1.5": speed-ups of 1.5 and more, below the next */

struct figures {
	int64_t boards, silent, revoked, struck, classes, kernels, on[CHANNELS], records_revoked, waiting;
	int64_t day_bytes, over;     /* that boards sent today; boards that were told to send no more today */
	int64_t left_out;            /* records for which channels have no room */
	int64_t taken[STORE_COUNTS]; /* of all time (enum store_count) */
	bool stopped;
	int64_t start_s, step_s;              /* of what follows: CHART_POINTS steps, to now */
	int64_t joined[CHART_POINTS];         /* boards, by when they joined */
	int64_t came[CHANNELS][CHART_POINTS]; /* kernels, by when what they have came to the channel */
	enum channel widest;                  /* the widest channel that has a kernel, of which: */
	int64_t speedups[FIGURES_BARS], sped; /* kernels; of how many the time before is known */
	double mean;                          /* geometric, of their speed-ups; 0: none */
};

int fleet_figures(struct fleet *f, struct db_conn *c, struct figures *out) MUST_CHECK;
/* Of one class alone: kernels, on, speed-ups; not kept. */
int class_figures(struct db_conn *c, const char *cls, struct figures *out) MUST_CHECK;
json_t *figures_json(const struct figures *g); /* NULL: no memory */

struct fleet_kept; /* in struct fleet */
int figures_open(struct fleet_kept **out) MUST_CHECK;
void figures_close(struct fleet_kept *k); /* NULL: nothing */

#endif
