/* SPDX-License-Identifier: Apache-2.0 */
/* Runners (platform/run/runner.h) and landscapes (agent/worker/landscape.h): one that records what another
 * measures, and one that needs no machine because it answers from what was recorded, on a virtual clock.
 *
 * Replay: a build takes the recorded time, of the slowest candidate of the same structure where that
 * structure is built for the first time, of the fastest from then on; a timing takes rounds + 1 runs. A
 * candidate that is not recorded is answered by the nearest recorded one of its task: least distance of their
 * features (kernels/space/features.h), each divided by its deviation over the task's candidates, among those
 * that run the same algorithm if there are any. Everything is a function of the landscapes and the seed. */
#ifndef AGENT_REPLAY_H
#define AGENT_REPLAY_H

#include "agent/worker/landscape.h"
#include "platform/run/runner.h"

/* Noise of a single run: sigma of its logarithm; above 0 there are also slow phases, as on a shared machine:
 * a quarter second at half speed, one in eight. 0: every run takes what was recorded. */
struct replay_noise {
	uint64_t seed;
	double sigma;
};

/* n >= 1 landscapes of one machine and thread count (E_USAGE: not so), which outlive the runner. Its clock
 * begins at 0. A task that is not among them is E_NOTFOUND, which says what to do; there is no code to hand
 * over: it is empty. */
int runner_replay(const struct landscape *l, int n, struct replay_noise noise,
		  struct runner **out) MUST_CHECK;
/* Another one of the same landscapes, which neither depends on what became of that one nor moves its clock;
 * one of them may be made from `of`, and run, in each thread, once `of` has made one. `of` outlives it. */
int replay_another(struct runner *of, struct replay_noise noise, struct runner **out) MUST_CHECK;
/* The point that answers for a candidate of landscape i of the runner's; E_CORRUPT, E_INFEASIBLE: of none of
 * its space. */
int replay_point(struct runner *replay, int i, const char *cand) MUST_CHECK;

/* Everything that `inner`, which it closes, builds and times in this state of the weights goes into the
 * folder too. What cannot be written later on is said once in the log, and nothing more is recorded. */
int runner_record(struct runner *inner, const char *dir, bool cold, struct runner **out) MUST_CHECK;

#endif
