/* SPDX-License-Identifier: Apache-2.0 */
/* How workers are started. Part of the worker's client (runner_worker.c, builders.c), and of a box that looks
 * for one before it makes anything (agent/tune/tune_machine.c); not for others.
 *
 * A worker is one that the service manager starts behind a socket, in a unit of its own (hone-worker.socket):
 * $HONE_WORKER_SOCKET, else WORKER_SOCKET if somebody listens there and accepts us. Otherwise it is a child:
 * the program that the caller names, else $HONE_WORKER, else hone-worker beside this program. A caller that
 * names a program, or sets $HONE_WORKER or an empty $HONE_WORKER_SOCKET, gets a child; so does a job on a
 * device, because that unit may open none. */
#ifndef AGENT_HIRE_H
#define AGENT_HIRE_H

#include "platform/run/child.h"
#include <limits.h>
#include <stdbool.h>

#define WORKER_SOCKET "/run/hone/worker.sock"

struct hire {
	char socket[108]; /* "": none */
	bool only_socket; /* the socket was named explicitly */
	char path[PATH_MAX];
};

/* path NULL: no program is named. E_NOTFOUND: there is neither a socket nor a program. */
int hire_find(struct hire *h, const char *path) MUST_CHECK;
/* Starts one worker, which has not received HELLO yet. A socket that was only found, and does not answer, is
 * not tried again. */
int hire(struct hire *h, struct clock *clock, int64_t deadline_ns, struct child *out) MUST_CHECK;
/* From now on workers are children. */
void hire_program(struct hire *h);
/* Call it when the worker at the socket did not accept us. 1: from now on workers are children; 0: there is
 * no other way. */
bool hire_elsewhere(struct hire *h);

#endif
