/* SPDX-License-Identifier: Apache-2.0 */
/* The part that learning cost models share. They learn differences of log time within a task (Burges et al.
 * 2005, RankNet, but with the size of the difference instead of only its sign), from batches of one task
 * each. Pairs of fast candidates count most. Too few samples leave the draft uncorrected. */
#ifndef SEARCH_LESSON_H
#define SEARCH_LESSON_H

#include "platform/base/arena.h"
#include "platform/base/rng.h"
#include "search/cost.h"
#include "search/evidence.h"

enum { BATCH = 24 /* samples of one task, at most */ };

/* Samples by task: those of task t are s[at[first[t]]] to s[at[first[t + 1] - 1]]. */
struct lesson {
	const struct sample *s;
	int n, ntasks, *first, *at;
	float *best; /* log of the shortest time of each task */
};

struct lesson lesson_make(struct arena *a, const struct sample *s, int n);

struct lesson_batch {
	int n;
	const struct sample *s[BATCH];
	float weight[BATCH]; /* 1: the fastest of its task; 1/2: one that takes a quarter longer */
};

/* Draws a batch of samples of one task; tasks are drawn in proportion to their number of samples. */
void lesson_draw(const struct lesson *l, struct rng *r, struct lesson_batch *b);
/* Gradient of the pairwise loss by the corrections have[i][h] of a batch's samples, for `heads` independent
 * models: slope[i][h] is the derivative of the Huber loss. Its second derivative by one correction alone is
 * at most curve[i]; curve NULL: not needed. */
void batch_pull(const struct lesson_batch *b, int heads, const float *have, float *slope, float *curve);

/* How much of a correction to believe, 0 to 1, after a lesson and a prior that was made of `known`
 * samples. */
float lesson_trust(float known, const struct lesson *l);
/* The same for a prior's samples alone, and its inverse. */
float trust_of(float known);
float trust_known(float trust);
/* New standard deviation of log times: left[i] is the residual of new sample s[i] under a model that had not
 * learnt it yet, and `noise` the previous deviation. A residual that all samples of a task share does not
 * count. */
float lesson_noise(float noise, const struct lesson *fresh, const float *left);
/* A model's correction of the draft, in log time; *spread: variance among its parts. */
typedef float correct_fn(const void *model, const float f[FEATURES], float *spread);
/* Updates the evidence with samples that the model has not learnt yet; it believes `trust` of its
 * corrections. */
void lesson_witness(struct evidence *e, struct arena *a, const struct sample *s, int n, correct_fn *correct,
		    const void *model, float trust);

#endif
