/* SPDX-License-Identifier: Apache-2.0 */
/* One run of an application's evaluator (agent/calibrate/app.h): with errors in its models' outputs, it says
 * whether the application works well enough. It runs in a process group of its own, with standard input empty
 * and both outputs in a file; the group is killed if it takes longer than its timeout, or the caller is to
 * stop. */
#ifndef AGENT_EVALUATE_H
#define AGENT_EVALUATE_H

#include "agent/calibrate/app.h"

#include <signal.h>

struct evaluate_want {
	const struct app *app;
	const char *page, *output; /* files: struct inject_page, and what the evaluator prints */
	const double *error;       /* per network */
	const double *norm; /* per network: root mean square of its output without error; 0: not known */
	int number;         /* of the evaluation; errors differ between two with the same point */
	uint64_t seed;
	volatile sig_atomic_t *stop; /* may be NULL */
};

struct evaluation {
	bool tolerated, scored;
	double score, seconds;
	/* Per network. */
	unsigned long long runs[BOUNDARY_AXES];
	double reached[BOUNDARY_AXES]; /* the error of all runs; NAN: there was nothing to put it into */
	double norm[BOUNDARY_AXES];    /* as measured by a run without errors, of regression */
};

/* E_CHILD: the evaluator failed, and the text says how; E_TIMEOUT; E_STOPPED: *stop was set; E_IO, E_NOMEM:
 * it was not started. E_USAGE: it ran, but without any of the networks, or it answered yes without one of
 * them, or its score is out of range. */
int evaluate(const struct evaluate_want *w, struct evaluation *out) MUST_CHECK;

#endif
