/* SPDX-License-Identifier: Apache-2.0 */
/* One search, watched: `hone tune` as a child on one processor, with snapshots of its cache at moments
 * counted from the start of its process.
 *
 * Folders in `dir`: `cache`, the tuner's own, which begins empty unless `from` says otherwise, and one named
 * after each moment (`5s`). `tune.json` is what the tuner said, `done` the stamp and the options, written at
 * the end. A moment after the tuner's end has what it left. */
#ifndef TOOLS_TRAJECTORY_H
#define TOOLS_TRAJECTORY_H

#include "platform/base/arena.h"
#include "tools/hone/quality.h"
#include <stdbool.h>

struct trajectory {
	const char *hone, *model, *dir;
	const char *strategy; /* NULL: the tuner's default */
	const char *from;     /* a cache to go on from; NULL: none */
	const char *stamp;    /* of the programs; NULL: does not matter */
	uint64_t seed;
	bool exact;
	double budget_s;
	int cpu; /* all of it runs there: one core searches, compiles and measures */
	int n;
	double at_s[MOMENTS_MAX]; /* ascending */
};

/* Runs it. A tuner that fails is an error; so is one that does not end two
 * seconds after its box. */
int trajectory_run(const struct trajectory *t) MUST_CHECK;
/* Runs a box of its own for each moment instead, with a fresh cache: what `--budget 5s` gives. */
int trajectory_boxes(const struct trajectory *t) MUST_CHECK;
/* What was run before: trials, times and moments without their qualities. E_NOTFOUND: nothing of these
 * moments, not to its end, or with another stamp or options. Text lives in the arena. */
int trajectory_read(const struct trajectory *t, struct arena *a, struct course *out) MUST_CHECK;
/* Of the bytes of both programs, in the arena. */
int trajectory_stamp(const char *hone, const char *worker, struct arena *a, const char **out) MUST_CHECK;
/* The folder of a moment: "DIR/5s". */
void trajectory_folder(const struct trajectory *t, int moment, char *out, size_t n);

#endif
