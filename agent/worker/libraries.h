/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that compete with hone's kernels (kernels/library/library.h), as a job sees them. Only workers
 * open a library that was not checked before: one that crashes or hangs when it is opened takes its worker
 * with it, and not the job.
 *
 * Names are separated by commas. A name is a known library's ("openblas"), or the absolute path of a user's.
 */
#ifndef AGENT_LIBRARIES_H
#define AGENT_LIBRARIES_H

#include "kernels/library/library.h"

struct library_state {
	char name[LIBRARY_FILE];
	bool named; /* by itself, not by "all" */
	bool open;
	struct library_found found; /* if open */
	char why[256];              /* if not */
};

/* Asks a worker (its path, or NULL: the installed one) which of them can be opened; "all": the known ones.
 * Returns their number. E_USAGE: an unknown name, or more than LIBRARY_MOST; E_NOTFOUND: no worker. One that
 * does not answer within 20 s, or ends, leaves the rest not open. */
int libraries_find(const char *names, const char *worker, struct library_state out[LIBRARY_MOST]) MUST_CHECK;
/* The worker's side: opens them and prints a line for each, a tab between: name, then word and file, or "!"
 * and why it is not open. */
int libraries_describe(const char *names) MUST_CHECK;
/* Opens them in this process, a worker, for good; the log says which cannot be opened. */
void libraries_open(const char *names);

#endif
