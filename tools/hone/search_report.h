/* SPDX-License-Identifier: Apache-2.0 */
/* What `make bench-search` says: tables, one JSON object, a plot. */
#ifndef TOOLS_SEARCH_REPORT_H
#define TOOLS_SEARCH_REPORT_H

#include "platform/machine/target.h"
#include "tools/hone/quality.h"

struct search_net {
	const char *name, *path;
	const char *best;     /* folder of the best cache ever found */
	const char *origin;   /* what found it */
	double ms, median_ms; /* with that, and */
	double standard;      /* quality of default schedules */
	double fallback;      /* of fallback kernels alone */
};

struct search_report {
	struct target target;
	int cpu, openings, rounds;
	bool boxes;
	const char *date; /* UTC */
	int nnets, n;
	const struct search_net *net;
	const struct course *course; /* of a network in a row, of a strategy in a row */
};

json_t *search_json(const struct search_report *r);
void search_print(const struct search_report *r, bool color);
/* Both as files: DIR/search.json, DIR/search.svg. */
int search_write(const struct search_report *r, const char *dir) MUST_CHECK;
/* Quality over wall time: the network's courses faint, the mean of each strategy over them. */
void search_svg(const struct search_report *r, struct buf *out);

#endif
