/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a calibration (agent/calibrate/calibrate.h): read as a whole, then appended to, under a lock. */
#ifndef AGENT_EVAL_LOG_H
#define AGENT_EVAL_LOG_H

#include "agent/calibrate/calibrate.h"

struct eval_log {
	int fd;
	int n, cap;
	struct calibrate_answer *answer; /* in the arena */
	struct arena *a;
	int nnets;
	const char *path;
};

/* Makes the file, or reads it. E_BUSY: another process has it; E_USAGE, E_CORRUPT: as calibrate. */
int eval_log_open(const struct calibrate_opts *o, struct arena *a, struct eval_log *out) MUST_CHECK;
/* Returns when the answer is on the disk. */
int eval_log_add(struct eval_log *l, const double *error, const struct evaluation *e) MUST_CHECK;
void eval_log_close(struct eval_log *l);

#endif
