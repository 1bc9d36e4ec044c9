/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the parts of a task's tuning share: tune.c proposes, races and counts slices, tune_first.c
 * finds the first kernels, tune_trial.c measures and keeps trials, tried.c reports them. `trial` and `i` are
 * indices of trials, because adding a trial moves them. */
#ifndef SEARCH_TUNE_PARTS_H
#define SEARCH_TUNE_PARTS_H

#include "search/tune.h"

/* Whether the caller offers this candidate from outside of the space: it has no features and no twins, and
 * the strategy does not hear of it. */
bool tune_is_offer(const struct tune *t, const char *cand);
/* Whether the task can have this candidate: it is in the space, or an offer. */
int tune_legal(const struct tune *t, const char *cand) MUST_CHECK;
/* tune_offer.c: tries the offers that are not known yet. */
int tune_try_offers(struct tune *t) MUST_CHECK;
/* While the incumbent is an offer: keeps the best candidate of the space beside it, found by races, and hands
 * it to the sink. */
int tune_keep_own(struct tune *t) MUST_CHECK;

int tune_find(const struct tune *t, const char *cand); /* its trial; -1: none */
bool tune_knows(const struct tune *t, const char *cand);
int tune_add(struct tune *t, const char *cand); /* adds a trial, proposed by t->by; returns its index */
int tune_rounds(const struct tune *t);          /* rounds in which a trial is timed */
/* Both build and time a trial and set *m to its result. Only tune_try_trial counts it as tried and reports
 * it. */
int tune_measure(struct tune *t, int trial, int64_t abort_ns, struct meas *m) MUST_CHECK;
int tune_try_trial(struct tune *t, int trial, struct meas *m) MUST_CHECK;
/* Counts what was measured since start_ns as tried, and reports it. */
void tune_count(struct tune *t, int trial, const struct meas *m, int64_t start_ns);
int tune_try(struct tune *t, const char *cand, int *trial, struct meas *m) MUST_CHECK; /* tries a new one */
void tune_set_best(struct tune *t, int trial, int64_t ns);
/* Replaces an incumbent that failed by the fastest other trial that works, if there is one, and saves that.
 */
int tune_replace(struct tune *t) MUST_CHECK;
/* Offers the incumbent to tasks of the same kind, where it may also beat the default. */
void tune_tell_akin(struct tune *t);
/* Hands a result to the caller at once, so that a stop at any moment loses nothing. */
int tune_save(struct tune *t, bool best, int trial, const struct meas *m) MUST_CHECK;
int tune_save_own(struct tune *t, int trial, const struct meas *m) MUST_CHECK;

/* tried.c: reports trials, and recalls those of earlier boxes. */
void tune_believe(struct tune *t, int i, const float f[FEATURES]); /* before it is built */
void tune_tried(struct tune *t, int i, const struct meas *m, int64_t start_ns);
void tune_lost(struct tune *t, int i);
/* It lost the worker in a timed run, so that it is not chosen any more. If it was the incumbent, there is
 * none until tune_replace(). */
void tune_failed(struct tune *t, int i, enum meas_status how);
/* Counts what earlier boxes tried as tried; call it once the default is measured. */
void tune_recall(struct tune *t);

#endif
