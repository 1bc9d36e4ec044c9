/* SPDX-License-Identifier: Apache-2.0 */
/* What cost models that learn have in common. They learn differences of log time within a task (Burges et al.
 * 2005, RankNet, with how much is between two instead of only which is faster), from batches of one task
 * each; pairs of fast candidates count most, and few samples make no model better than the draft. */
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
	float weight[BATCH]; /* 1: the fastest of its task, half for one that takes a quarter more */
};

/* Samples of one task, which is drawn by how many it has. */
void lesson_draw(const struct lesson *l, struct rng *r, struct lesson_batch *b);
/* What pairs pull at corrections have[i][h] of a batch's samples, by `heads` models that do not know of each
 * other: slope[i][h] is the derivative of the loss. Huber's, whose second derivative by one of them alone
 * is at most curve[i]; NULL: not asked for. */
void batch_pull(const struct lesson_batch *b, int heads, const float *have, float *slope, float *curve);

/* How much of a correction to believe, 0 to 1, after a lesson and a prior that was made of `known` samples.
 */
float lesson_trust(float known, const struct lesson *l);
/* The same for samples that are all in a prior, and back. */
float trust_of(float known);
float trust_known(float trust);
/* Deviation of log times, after new samples of which a model that had not learnt them leaves left[i] of s[i];
 * noise: what it was before. What is the same for all of a task does not count. */
float lesson_noise(float noise, const struct lesson *fresh, const float *left);
/* What a model thinks the draft is wrong by; *spread: how much its parts differ. */
typedef float correct_fn(const void *model, const float f[FEATURES], float *spread);
/* Takes samples that the model has not learnt for evidence; it believes `trust` of its corrections. */
void lesson_witness(struct evidence *e, struct arena *a, const struct sample *s, int n, correct_fn *correct,
		    const void *model, float trust);

#endif
