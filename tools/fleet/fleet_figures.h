/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet in figures, for its page and API. Reading them takes time that grows with the fleet, so they are
 * read from the database at most once in FIGURES_NS and kept. */
#ifndef TOOLS_FLEET_FIGURES_H
#define TOOLS_FLEET_FIGURES_H

#include "tools/fleet/fleet_html.h"
#include "tools/fleet/fleet_parts.h"

#define FIGURES_NS (10 * NS_PER_S)
enum { FIGURES_BARS = 11 };
extern const char *const figures_bars[FIGURES_BARS]; /* "1.5": speed-ups of at least 1.5, below the next */

struct figures {
	int64_t boards, silent, revoked, struck, classes, kernels, on[CHANNELS], records_revoked, waiting;
	int64_t day_bytes, over;     /* bytes sent today; boards over their limit today */
	int64_t left_out;            /* records for which channels have no room */
	int64_t taken[STORE_COUNTS]; /* counts of all time, by enum store_count */
	bool stopped;
	int64_t start_s, step_s;              /* start and step of the two series below, which end now */
	int64_t joined[CHART_POINTS];         /* number of boards, by the time when they joined */
	int64_t came[CHANNELS][CHART_POINTS]; /* kernels on a channel, by the time when they came there */
	enum channel widest;                  /* the widest channel that has a kernel; of it: */
	int64_t speedups[FIGURES_BARS], sped; /* kernels by speed-up; kernels whose untuned time is known */
	double mean;                          /* geometric mean of their speed-ups; 0: none */
};

int fleet_figures(struct fleet *f, struct db_conn *c, struct figures *out) MUST_CHECK;
/* Figures of one class: kernels, on, speed-ups. They are not kept. */
int class_figures(struct db_conn *c, const char *cls, struct figures *out) MUST_CHECK;
json_t *figures_json(const struct figures *g); /* NULL: no memory */

struct fleet_kept; /* the kept figures, in struct fleet */
int figures_open(struct fleet_kept **out) MUST_CHECK;
void figures_close(struct fleet_kept *k); /* NULL: nothing */

#endif
