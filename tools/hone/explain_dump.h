/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a task at the stages of its way to code: `hone explain MODEL TASK -d LETTERS`. The text is the same
 * wherever the task, the target and the candidate are the same, so that golden files can hold it. */
#ifndef TOOLS_EXPLAIN_DUMP_H
#define TOOLS_EXPLAIN_DUMP_H

#include "agent/cache/cache.h"
#include "agent/cache/trials.h"
#include "kernels/task/level.h"
#include "kernels/task/task.h"
#include "platform/machine/target.h"

#define DUMP_LETTERS "tslcm"

struct dump {
	const struct task *task;
	const struct target *target;
	const char *cand; /* of the loops; NULL: the default schedule */
	const char *def;  /* the default schedule that tuning timed; NULL: it did not */
	enum level level;
	int threads;
	struct cache *cache;      /* of the code; NULL: none */
	const struct rec *best;   /* whose code and measurement are shown; NULL: none */
	const struct trials *log; /* NULL: none */
};

/* Appends the stages that `letters` name, in this order whatever theirs is: t the task's text, s the
 * default and the candidates that rules propose, each once, with their analytical cost, l the loop nest, c
 * the code's manifest and, for a device, its OpenCL C or PTX, m the measurements. E_USAGE: another letter;
 * E_INFEASIBLE, E_CORRUPT: the candidate is no schedule of the task; E_NOMEM. */
int explain_dump(const struct dump *d, const char *letters, struct buf *out) MUST_CHECK;

#endif
