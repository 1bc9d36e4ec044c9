/* SPDX-License-Identifier: Apache-2.0 */
/* Error calibration: finds how much error in its networks an application tolerates (search/boundary.h), by
 * running its evaluator (agent/calibrate/evaluate.h) again and again. First it runs without errors, which
 * must be tolerated.
 *
 * Every answer is appended to a log and synced before the next run begins. A calibration that was
 * interrupted, in whatever way, goes on from there: the answers of the log are told to the boundary again.
 * The log is JSON, a line for the application and one for each answer:
 *
 *   {"calibration":1,"evaluator":"./replay.sh","wrong":0,"pass":0,"seed":1,
 *    "networks":[{"name":"heading","model":KEY,"error":"regression","most":0.5,"output":null}]}
 *   {"number":0,"errors":[0],"tolerated":true,"score":null,"seconds":1.5,"runs":[812],"reached":[0],
 *    "norm":[3.2]}
 *
 * A last line that is not whole was being written when the machine stopped; it is removed. Number 0 and, if
 * answers may be wrong, further ones with errors of 0 are the runs without errors. */
#ifndef AGENT_CALIBRATE_H
#define AGENT_CALIBRATE_H

#include "agent/calibrate/evaluate.h"

enum { CALIBRATE_TRIES = 3 /* of an evaluator that fails, before the calibration ends */ };

struct calibrate_answer {
	const double *error; /* per network */
	struct evaluation e;
};

struct calibrate_opts {
	const struct app *app;
	const char *log; /* file; LOG.page and LOG.output lie beside it */
	uint64_t seed;
	volatile sig_atomic_t *stop; /* may be NULL */
	/* Told before each run: ask NULL: without errors. `left`: runs that are allowed yet, with this one.
	 */
	void (*begins)(void *ctx, const struct boundary_ask *ask, int number, int left);
	/* Told after each run; `again`: it was read from the log. */
	void (*ended)(void *ctx, const struct calibrate_answer *answer, int number, bool again);
	/* The evaluator failed, and is run once more: err_text says why. */
	void (*failed)(void *ctx, int number);
	void *ctx;
};

struct calibrate {
	struct boundary *boundary;
	double norm[BOUNDARY_AXES]; /* root mean square of each output without error; 0: of no regression */
	int nanswers, nfresh;       /* all; not read from the log */
	const struct calibrate_answer *answer;
	bool all_decided; /* there is nothing left to ask */
};

/* E_WRONG: without errors the application does not work. E_STOPPED: *stop was set. E_CHILD, E_TIMEOUT,
 * E_USAGE: as evaluate. After each of these, *out has what is known so far, if out->boundary is set, and the
 * same call goes on. E_USAGE: the log is of another application, or the options changed. E_CORRUPT: it is
 * damaged. */
int calibrate(const struct calibrate_opts *o, struct arena *a, struct calibrate *out) MUST_CHECK;

#endif
