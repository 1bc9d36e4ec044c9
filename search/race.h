/* SPDX-License-Identifier: Apache-2.0 */
/* The race that decides whether a challenger replaces the incumbent.
 *
 * Among many single timings the luckiest wins. So the candidates and the incumbent run interleaved; the
 * best of them then meets the incumbent alone, in fresh rounds, until their difference is larger than its
 * noise or clearly too small to matter. The incumbent loses only to a gain of at least 1 % that is also
 * above RACE_SIGMAS standard errors of the comparison. An incumbent of the cache loses to the default by the
 * same rule (search/tune_first.c).
 *
 * Only that duel is TIME_QUIET: its times are recorded. The rounds before it are
 * interleaved, so other work on the machine slows all candidates alike and need not be stopped for them. */
#ifndef SEARCH_RACE_H
#define SEARCH_RACE_H

#include "search/box.h"

#define RACE_GAIN 0.01
#define RACE_SIGMAS 2.5

struct verdict {
	int winner_at;           /* 0: the incumbent stays */
	double ratio;            /* winner's time over the incumbent's, in the duel */
	struct meas winner;      /* the winner's measurement in the duel */
	bool lost[BOX_MAX_RACE]; /* too slow to be worth another race, or failed; [0]: only it failed */
	int failed;              /* it lost the worker, so that nothing else is known; -1: none did */
	enum meas_status how;    /* it hung (MEAS_TIMEOUT), or lost its device or process (MEAS_CRASH) */
};

/* code[0] is the incumbent, which takes about ns; n >= 2. */
int race_run(struct box *b, const struct built *code, int n, int64_t ns, struct verdict *v) MUST_CHECK;

/* Races an incumbent, pair[0], against one challenger: begins with so many rounds, and goes on with more,
 * fresh ones as long as noise could explain the difference. m: their times in the last rounds; v: as of
 * race_run with n = 2. */
int race_pair(struct box *b, const struct built pair[2], int rounds, struct meas m[2],
	      struct verdict *v) MUST_CHECK;

#endif
