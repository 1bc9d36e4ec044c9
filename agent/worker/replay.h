/* SPDX-License-Identifier: Apache-2.0 */
/* Runners (platform/run/runner.h) and landscapes (agent/worker/landscape.h): one records what another runner
 * measures; one needs no machine, because it answers from recorded landscapes on a virtual clock.
 *
 * Replay: a build takes a recorded time: that of the slowest candidate of the same structure when the
 * structure is built for the first time, of the fastest afterwards. A timing takes rounds + 1 runs. A
 * candidate that is not recorded gets the answer of the nearest recorded one of its task: least distance of
 * their features (kernels/space/features.h), each divided by its deviation over the task's candidates, among
 * those with the same algorithm if there are any. All results depend only on the landscapes and the seed. */
#ifndef AGENT_REPLAY_H
#define AGENT_REPLAY_H

#include "agent/worker/landscape.h"
#include "platform/run/runner.h"

/* Noise of a single run: sigma of its logarithm. Above 0 there are also slow phases, as on a shared machine:
 * a quarter second at half speed, one in eight. 0: every run takes the recorded time. */
struct replay_noise {
	uint64_t seed;
	double sigma;
};

/* n >= 1 landscapes of one machine and thread count (else E_USAGE), which must outlive the runner. Its clock
 * begins at 0. A task that is not among them is E_NOTFOUND, with a text that says what to do. There is no
 * code: code() returns an empty blob. */
int runner_replay(const struct landscape *l, int n, struct replay_noise noise,
		  struct runner **out) MUST_CHECK;
/* Makes another replay of the same landscapes. It neither depends on the state of `of` nor moves its clock.
 * After `of` has made one replay, each thread may make and run its own. `of` must outlive it. */
int replay_another(struct runner *of, struct replay_noise noise, struct runner **out) MUST_CHECK;
/* Returns the point that answers for a candidate of the runner's i-th landscape; E_CORRUPT, E_INFEASIBLE: the
 * candidate is not of its space. */
int replay_point(struct runner *replay, int i, const char *cand) MUST_CHECK;

/* Also writes everything that `inner`, which it closes, builds and times with this state of the weights into
 * the folder. If writing fails later on, that is logged once, and nothing more is recorded. */
int runner_record(struct runner *inner, const char *dir, bool cold, struct runner **out) MUST_CHECK;

#endif
