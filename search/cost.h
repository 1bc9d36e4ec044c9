/* SPDX-License-Identifier: Apache-2.0 */
/* Cost models: how long a candidate takes, before it is built, and how sure that is. One file cost_NAME.c
 * defines `const struct cost cost_NAME`; the Makefile writes cost_table[].
 *
 * A model sees a candidate as its features (kernels/space/features.h) and learns the error of the draft:
 * log(measured / drafted). One state serves all tasks of a job, so that they share what they learn. Samples
 * are compared only within a task, because an error that all of a task's candidates share changes no choice.
 * State lives in the arena given to start(), at most 64 KB of it. */
#ifndef SEARCH_COST_H
#define SEARCH_COST_H

#include "kernels/space/features.h"
#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"

struct sample {
	int task;
	float log_ratio; /* log(measured ns / drafted ns) */
	float f[FEATURES];
};

struct guess {
	double ns;
	double sd; /* standard deviation of its logarithm */
};

struct cost {
	const char *name;
	/* prior: text (n bytes; 0: none). E_UNSUPPORTED: it belongs to another
	 * model or other features; E_CORRUPT: it is damaged. Without a prior, or after an error, a model
	 * starts as the draft. */
	int (*start)(struct arena *a, const char *prior, size_t n, uint64_t seed, void **state);
	/* All samples of the job so far, oldest first; the last `fresh` of them are new. Takes some 0.1 ms
	 * for each new sample. */
	void (*learn)(void *state, const struct sample *s, int n, int fresh);
	struct guess (*guess)(const void *state, const float f[FEATURES]);
	/* Writes what the model knows as a prior; nothing, for a model that learns nothing. */
	void (*save)(const void *state, struct buf *out);
};

extern const struct cost *const cost_table[];
const struct cost *cost_find(const char *name); /* NULL: unknown */

#endif
