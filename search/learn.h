/* SPDX-License-Identifier: Apache-2.0 */
/* What a job measures, as samples for its cost model: one memory of all tasks, so that each of them profits
 * from what the others have shown. Samples are added as candidates are measured, and the model learns from
 * them between slices, never beside a measurement. */
#ifndef SEARCH_LEARN_H
#define SEARCH_LEARN_H

#include "platform/base/meas.h"
#include "search/cost.h"

enum { LEARN_MAX = 4096 /* samples: 0.8 MB */ };

struct learn {
	struct arena arena, samples;
	const struct cost *cost;
	void *model;           /* the cost's state */
	struct sample *sample; /* oldest first; room for cap, at most LEARN_MAX */
	int n, cap, fresh;     /* of those; the model has not seen the last `fresh` */
	int *count;            /* of each task */
	int ntasks;
};

/* cost: a model's name, NULL: the one that serves best. prior: as in search/cost.h; one
 * that is refused is left out, and the log says why. */
int learn_open(struct learn *l, int ntasks, const char *cost, const char *prior, size_t n,
	       uint64_t seed) MUST_CHECK;
void learn_close(struct learn *l);
/* f: of what was measured, in that task of the job. A measurement without a time teaches nothing. When there
 * is no room, the oldest sample of the task that has the most is forgotten. */
void learn_add(struct learn *l, int task, const float f[FEATURES], const struct meas *m);
/* The model learns what is new. */
void learn_fit(struct learn *l);

#endif
