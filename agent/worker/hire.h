/* SPDX-License-Identifier: Apache-2.0 */
/* Where workers come from. Part of the worker's client (runner_worker.c, builders.c); not for others.
 *
 * A socket at which the service manager starts one in a unit of its own (hone-worker.socket):
 * $HONE_WORKER_SOCKET, else WORKER_SOCKET where somebody listens there who lets us in. Otherwise a child: the
 * program that the caller names, else $HONE_WORKER, else hone-worker beside this program. Who names a
 * program, or sets $HONE_WORKER or an empty $HONE_WORKER_SOCKET, gets a child. */
#ifndef AGENT_HIRE_H
#define AGENT_HIRE_H

#include "platform/run/child.h"
#include <limits.h>
#include <stdbool.h>

#define WORKER_SOCKET "/run/hone/worker.sock"

struct hire {
	char socket[108]; /* "": none */
	bool only_socket; /* it was asked for by name */
	char path[PATH_MAX];
};

/* path NULL: none is named. E_NOTFOUND: there is neither. */
int hire_find(struct hire *h, const char *path) MUST_CHECK;
/* One worker, that has not been spoken with. A socket that was only found, and does not answer, is given up
 * for good. */
int hire(struct hire *h, struct clock *clock, int64_t deadline_ns, struct child *out) MUST_CHECK;
/* The worker at the socket did not take us on: 1: from now on there are children; 0: there is nothing else.
 */
bool hire_elsewhere(struct hire *h);

#endif
