/* SPDX-License-Identifier: Apache-2.0 */
/* A submission as a board makes it, with random values that it may have. */
#ifndef TESTS_SUBMISSION_H
#define TESTS_SUBMISSION_H

#include "platform/base/rng.h"
#include "tools/hone/submission.h"
#include <stdio.h>
#include <string.h>

static inline double some(struct rng *r, double least, double most)
{
	return least + (most - least) * rng_unit(r);
}

static inline void random_text(struct rng *r, char out[SUBMISSION_TEXT])
{
	static const char letters[] = "abcXYZ019 ._-+()|<";
	int n = 1 + (int)rng_below(r, 40);
	for (int i = 0; i < n; i++)
		out[i] = letters[rng_below(r, sizeof letters - 1)];
	out[0] = 'm';
	out[n] = 0;
}

static inline struct submission random_submission(uint64_t seed)
{
	static const char *const levels[] = {"fp32", "exact", "w16", "half"};
	struct submission s = {0};
	struct rng r;
	rng_seed(&r, seed);
	snprintf(s.hone, sizeof s.hone, "0.1.%u", rng_below(&r, 100));
	snprintf(s.date, sizeof s.date, "2026-11-%02u", 1 + rng_below(&r, 28));
	char *const texts[] = {s.board.file, s.board.model, s.board.soc,    s.board.revision, s.board.mode,
			       s.board.isa,  s.board.cpu,   s.board.kernel, s.network.name,   s.run.governor};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		random_text(&r, texts[i]);
	for (int i = 0; i < 64; i++)
		s.network.sha256[i] = "0123456789abcdef"[rng_below(&r, 16)];
	s.board.cores = 1 + rng_below(&r, 16);
	s.board.lanes = 4 << rng_below(&r, 3);
	s.board.regs = 16 << rng_below(&r, 2);
	s.board.l1_bytes = 32 << 10;
	s.board.l2_bytes = rng_below(&r, 1 << 22);
	s.board.gflops_per_core = some(&r, 1, 100);
	for (int i = 0; i < 4; i++)
		s.board.read_gbs[i] = some(&r, 1, 100);
	s.network.gflop = some(&r, .01, 10);
	s.network.kernels = 1 + rng_below(&r, 200);
	snprintf(s.run.level, sizeof s.run.level, "%s", levels[rng_below(&r, 4)]);
	s.run.threads = 1 + rng_below(&r, 8);
	s.run.rounds = 20 + rng_below(&r, 400);
	s.run.clock_mhz = s.run.clock_most_mhz = 1000 + rng_below(&r, 1000);
	s.run.temp_before_mc = 20000 + rng_below(&r, 60000);
	s.run.temp_after_mc = -1;
	s.run.throttled_before = (int)rng_below(&r, 3) - 1;
	s.run.share_pct = 90 + rng_below(&r, 11);
	s.run.others_pct = rng_below(&r, 26);
	s.check.outputs = 1 + rng_below(&r, 3);
	s.check.max_rel_err = some(&r, 1e-7, 1e-5);
	for (int k = 0; k < SUBMIT_KINDS; k++) {
		double least = 1e3 * s.network.gflop / s.board.gflops_per_core / (double)s.run.threads;
		double min = least * some(&r, 1.1, 3), median = min * some(&r, 1.02, 1.2);
		s.times[k] =
		    (struct submission_times){median, (min + median) / 2, 1.1 * median, min, 1.5 * median};
	}
	return s;
}

#endif
