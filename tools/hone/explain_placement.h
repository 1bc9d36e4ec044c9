/* SPDX-License-Identifier: Apache-2.0 */
/* `hone explain --placement`: for each task the alternatives that were timed, hone's own best kernel and
 * those of libraries, and which of them runs. */
#ifndef TOOLS_EXPLAIN_PLACEMENT_H
#define TOOLS_EXPLAIN_PLACEMENT_H

#include "kernels/group/group.h"
#include "agent/cache/trials.h"
#include "platform/machine/target.h"
#include <jansson.h>

struct placement_of {
	struct cache *cache;
	const struct target *target;
	int threads;
	enum level level;
	const struct step_task *task;
	int ntasks;
};

/* Prints a table, one row for each task, and what else to know. Returns how many tasks a library runs. */
int explain_placement_words(const struct placement_of *p, bool color);
/* {"placement": [{"number", "label", "uses", "winner", "alternatives": [{"backend", "us", "status"}]}]}; us
 * is null where it was not timed. */
json_t *explain_placement_json(const struct placement_of *p);

#endif
