/* SPDX-License-Identifier: Apache-2.0 */
/* The posterior of candidates' times: a model's guesses, corrected by the measurements of the task.
 *
 * log(measured / guessed) is modelled as a Gaussian. It has a mean that all candidates of the task share, a
 * local difference from it (kernel regression over the features, shrunk to 0 where nothing near was
 * measured), and the model's own deviation, scaled by how wrong the model has been so far. The incumbent's
 * time is taken as it was measured. */
#ifndef SEARCH_BELIEF_H
#define SEARCH_BELIEF_H

#include "search/herd.h"

struct belief {
	const struct herd *herd;
	double mean, scale; /* of log(measured / guessed); of the model's sd */
	double best;        /* log ns that a candidate has to beat by RACE_GAIN */
	double rest[HERD_TOLD];
};

/* Forms the posterior from what the herd was told; the herd's guesses must be up to date. As long as nothing
 * was told, the posterior is the guess. */
void belief_form(struct belief *b, const struct herd *h);
/* Posterior of one candidate: log ns and its standard deviation. */
void belief_of(const struct belief *b, const struct member *m, double *log_ns, double *sd);
/* Replaces the pool's guesses (log_ns and guess.sd) by the posterior, until the pool's next round. About 2 us
 * for each candidate. */
void belief_settle(const struct belief *b, struct herd *h);
/* Expected gain of a settled candidate over the incumbent, as a share of the incumbent's time; being slower
 * counts as a gain of 0. */
double belief_gain(const struct belief *b, const struct member *m);

#endif
