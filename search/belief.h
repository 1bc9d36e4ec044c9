/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements of a task say about a model's guesses of its candidates.
 *
 * The logarithm of (measured / guessed) is taken for a Gaussian: a mean that all of a task's candidates
 * share, what near ones differ from that (kernel regression over the features, shrunk to nothing where
 * nothing near was measured), and a deviation that is the model's own, scaled by how far off it was until
 * now. What is believed of the incumbent is what was measured of it. */
#ifndef SEARCH_BELIEF_H
#define SEARCH_BELIEF_H

#include "search/herd.h"

struct belief {
	const struct herd *herd;
	double mean, scale; /* of log(measured / guessed); of the model's sd */
	double best;        /* log ns that a candidate has to beat by RACE_GAIN */
	double rest[HERD_TOLD];
};

/* Of what the herd was told; its guesses are the present ones. Before anything was told everything is
 * believed as it is guessed. */
void belief_form(struct belief *b, const struct herd *h);
/* Of one candidate: log ns and its deviation. */
void belief_of(const struct belief *b, const struct member *m, double *log_ns, double *sd);
/* The pool's guesses become what is believed (log_ns and guess.sd), until its next round. Some 2 us each. */
void belief_settle(const struct belief *b, struct herd *h);
/* Expected gain of a settled candidate over the incumbent, as a share of its time; one that is slower gains
 * nothing. */
double belief_gain(const struct belief *b, const struct member *m);

#endif
