/* SPDX-License-Identifier: Apache-2.0 */
/* landscape/ in the optional data folder: schedules of another code generator, timed on another machine (its
 * README describes the columns), as far as our candidates can express them, for judging models.
 *
 * Candidates express: register tile, channel unroll, unrolled kernel positions, flattened pixels of a 1x1
 * convolution, outer tiles and their order, partial sums over channels. Left out, and counted: loops around
 * tiles in another order than the loops inside (ours share one order), depthwise positions outside of the
 * tile, and schedules that are illegal here. Whether weights are packed for each tile is ignored: it changes
 * times by 2 %. The machine is described by the peaks measured there. */
#ifndef TOOLS_RECORDED_H
#define TOOLS_RECORDED_H

#include "agent/worker/landscape.h"
#include "tools/bench/judge.h"

struct recorded_count {
	int all, said;
};

/* $HONE_DATA, else ../shared, if it contains recorded schedules; NULL: none. */
const char *recorded_folder(void);
/* The tasks recorded on the machine with 32 registers of 16 lanes or, if narrow, on that with 16 of 8.
 * Returns their number. */
int recorded_problems(const char *folder, bool narrow, struct arena *a, struct problem **out,
		      struct recorded_count *count) MUST_CHECK;

/* The same as landscapes for replays (agent/worker/replay.h), one per task; for a 1x1 convolution, of the
 * form with more recorded schedules. Returns their number. */
int recorded_landscapes(const char *folder, bool narrow, struct arena *a, struct landscape **out) MUST_CHECK;

#endif
