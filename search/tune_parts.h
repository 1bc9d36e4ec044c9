/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a task's tuning share: tune.c proposes, races and counts slices, tune_first.c finds what
 * it begins with, tune_trial.c measures and keeps trials, tried.c tells of them. `trial` and `i`: of a trial,
 * by index, because adding one moves them. */
#ifndef SEARCH_TUNE_PARTS_H
#define SEARCH_TUNE_PARTS_H

#include "search/tune.h"

bool tune_knows(const struct tune *t, const char *cand);
int tune_add(struct tune *t, const char *cand); /* a trial, of t->by; returns its index */
int tune_rounds(const struct tune *t);          /* in which a trial is timed */
/* Builds and times it. *m is what became of it; it counts as tried with tune_try_trial alone, which also
 * tells of it. */
int tune_measure(struct tune *t, int trial, int64_t abort_ns, struct meas *m) MUST_CHECK;
int tune_try_trial(struct tune *t, int trial, struct meas *m) MUST_CHECK;
/* What was measured since start_ns counts as tried, and is told. */
void tune_count(struct tune *t, int trial, const struct meas *m, int64_t start_ns);
int tune_try(struct tune *t, const char *cand, int *trial, struct meas *m) MUST_CHECK; /* a new one */
void tune_set_best(struct tune *t, int trial, int64_t ns);
/* What is better than the default here may be so in tasks of the same kind. */
void tune_tell_akin(struct tune *t);
/* Hands a result to the caller at once, so that a stop at any moment loses nothing. */
int tune_save(struct tune *t, bool best, int trial, const struct meas *m) MUST_CHECK;

/* tried.c: what is told of trials, and of those of earlier boxes. */
void tune_believe(struct tune *t, int i, const float f[FEATURES]); /* before it is built */
void tune_tried(struct tune *t, int i, const struct meas *m, int64_t start_ns);
void tune_lost(struct tune *t, int i);
/* Once the default is measured: what earlier boxes tried counts as tried. */
void tune_recall(struct tune *t);

#endif
