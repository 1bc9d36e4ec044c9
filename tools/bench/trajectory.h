/* SPDX-License-Identifier: Apache-2.0 */
/* Watches one search: `hone tune` as a child on one processor, with snapshots of its cache at moments counted
 * from the start of its process.
 *
 * Folders in `dir`: `cache`, the tuner's own, which begins empty unless `from` is given, and one named after
 * each moment (`5s`). `tune.json` is the tuner's output; `done` holds the stamp and the options and is
 * written at the end. A moment after the tuner's end has what the tuner left. */
#ifndef TOOLS_TRAJECTORY_H
#define TOOLS_TRAJECTORY_H

#include "kernels/task/level.h"
#include "platform/base/arena.h"
#include "tools/hone/quality.h"
#include <stdbool.h>

struct trajectory {
	const char *hone, *model, *dir;
	const char *strategy; /* NULL: the tuner's default */
	const char *from;     /* a cache to begin with; NULL: none */
	const char *stamp;    /* hash of the programs; NULL: any */
	uint64_t seed;
	enum level level;
	double budget_s;
	int cpu; /* everything runs there: one core searches, compiles and measures */
	int n;
	double at_s[MOMENTS_MAX]; /* ascending */
};

/* Runs the search. Fails if the tuner fails, or if it does not end within two seconds after its box. */
int trajectory_run(const struct trajectory *t) MUST_CHECK;
/* Instead runs one box per moment, each with a fresh cache: the result of `--budget 5s`. */
int trajectory_boxes(const struct trajectory *t) MUST_CHECK;
/* Reads a finished search: trials, times and moments without their qualities. E_NOTFOUND: there is none with
 * these moments, it did not finish, or its stamp or options differ. Text lives in the arena. */
int trajectory_read(const struct trajectory *t, struct arena *a, struct course *out) MUST_CHECK;
/* Hashes the bytes of both programs, into the arena. */
int trajectory_stamp(const char *hone, const char *worker, struct arena *a, const char **out) MUST_CHECK;
/* The folder of a moment: "DIR/5s". */
void trajectory_folder(const struct trajectory *t, int moment, char *out, size_t n);

#endif
