/* SPDX-License-Identifier: Apache-2.0 */
/* The optional data folder's landscape/: schedules of another code generator, timed on another machine (its
 * README says what the columns are), as far as candidates of ours can say them, for judging models.
 *
 * Said are: register tile, channel unroll, unrolled kernel positions, flattened pixels of a 1x1 convolution,
 * outer tiles and their order, partial sums over channels. Left out, and counted: loops around tiles in
 * another order than those in them (ours share one), depthwise positions outside of the tile, and what is
 * illegal here. Whether weights are packed for each tile is not looked at: it is worth 2 %. Its machine is
 * described by the peaks measured there. */
#ifndef TOOLS_RECORDED_H
#define TOOLS_RECORDED_H

#include "agent/worker/landscape.h"
#include "tools/hone/judge.h"

struct recorded_count {
	int all, said;
};

/* $HONE_DATA, else ../shared, if it holds recorded schedules; NULL: none. */
const char *recorded_folder(void);
/* Its tasks on the machine with 32 registers of 16 lanes, or on that with 16 of 8. Returns their number. */
int recorded_problems(const char *folder, bool narrow, struct arena *a, struct problem **out,
		      struct recorded_count *count) MUST_CHECK;

/* The same for replays (agent/worker/replay.h): a landscape for each task; of a 1x1 convolution, of the form
 * in which more was recorded. Returns their number. */
int recorded_landscapes(const char *folder, bool narrow, struct arena *a, struct landscape **out) MUST_CHECK;

#endif
