/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements of a job, as samples for its cost model. All tasks share one memory, so that each profits
 * from what the others have shown. Samples are added as candidates are measured. The model learns from them
 * between slices, never while something is measured. */
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
	int n, cap, fresh;     /* samples in use; the model has not seen the last `fresh` */
	int *count;            /* samples of each task */
	int ntasks;
};

/* cost: a model's name; NULL: the default one. prior: as in search/cost.h; a refused prior is ignored, and
 * the log says why. */
int learn_open(struct learn *l, int ntasks, const char *cost, const char *prior, size_t n,
	       uint64_t seed) MUST_CHECK;
void learn_close(struct learn *l);
/* Adds a sample: features f and measurement m of a candidate of that task of the job. A measurement without a
 * time is ignored. When there is no room, the oldest sample of the task that has the most is dropped. */
void learn_add(struct learn *l, int task, const float f[FEATURES], const struct meas *m);
/* Lets the model learn from the new samples. */
void learn_fit(struct learn *l);

#endif
