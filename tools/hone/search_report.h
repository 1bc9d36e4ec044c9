/* SPDX-License-Identifier: Apache-2.0 */
/* Output of `make bench-search`: tables, one JSON object, a plot. */
#ifndef TOOLS_SEARCH_REPORT_H
#define TOOLS_SEARCH_REPORT_H

#include "platform/machine/disturb.h"
#include "platform/machine/target.h"
#include "tools/hone/quality.h"

struct search_net {
	const char *name, *path;
	const char *best;     /* folder of the cache with the best kernels ever found */
	const char *origin;   /* the search that found it */
	double ms, median_ms; /* times of the network with that cache */
	double standard;      /* quality of default schedules */
	double fallback;      /* quality of fallback kernels alone */
};

struct search_report {
	struct target target;
	int cpu, openings, rounds;
	bool boxes;
	double
	    reference_s;  /* length of the box that was run first for each network, as a reference; 0: none */
	const char *best; /* folder of the best kernels ever found */
	struct disturbance machine; /* while the scores were measured: if disturbed, there is no verdict */
	const char *date;           /* UTC */
	int nnets, n;
	const struct search_net *net;
	const struct course *course; /* grouped by network, then by strategy */
};

json_t *search_json(const struct search_report *r);
void search_print(const struct search_report *r, bool color);
/* Writes DIR/search.json and DIR/search.svg. */
int search_write(const struct search_report *r, const char *dir) MUST_CHECK;
/* Plots quality over wall time: each course of a network as a faint line, and the mean of each strategy over
 * them. */
void search_svg(const struct search_report *r, struct buf *out);

#endif
