/* SPDX-License-Identifier: Apache-2.0 */
/* The search part of `hone tune` on recorded landscapes (agent/worker/landscape.h) instead of a machine:
 * tunes those of the model's tasks that are recorded, in a box on the replay's clock, with the same result
 * for the same seed.
 *
 * At LEVEL_INT8 the model is quantised as by tune_model; the recipe is o->recipe, else that of o->cache, else
 * that of o->recipes. If tasks of bytes are recorded, quantised operators are such tasks.
 *
 * No network is run: before is 0, default and after are sums of uses x time over those tasks, and elapsed is
 * virtual. Records (without code, of the recorded machine) are put into a cache only if o->cache names one.
 * o->threads, o->cpus and o->builders are ignored: the landscapes say how many threads were recorded. */
#ifndef AGENT_TUNE_REPLAY_H
#define AGENT_TUNE_REPLAY_H

#include "agent/tune/tune_model.h"

/* E_NOTFOUND: none of the model's tasks is recorded in the folder. */
int tune_replay(const struct tune_options *o, const char *dir, struct arena *a,
		struct tune_report *out) MUST_CHECK;

#endif
