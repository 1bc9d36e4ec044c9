/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a box as JSON: what hone tune prints with --json. */
#ifndef TOOLS_TUNE_JSON_H
#define TOOLS_TUNE_JSON_H

#include "agent/cache/json.h"
#include "agent/tune/tune_model.h"

const char *tune_rigor_name(enum rigor r); /* "patient" */
/* The headline's factor; of a replay, which knows no noise, the times' own. NAN: there is none. */
double tune_speedup(const struct tune_report *r);
/* Prints the report. unkept: the cache was not written. held: why honed lent no processors; NULL: it did, or
 * none runs. */
int tune_json(const struct tune_options *o, const struct tune_report *r, bool unkept,
	      const char *held) MUST_CHECK;

#endif
