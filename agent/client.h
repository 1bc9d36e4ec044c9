/* SPDX-License-Identifier: Apache-2.0 */
/* honed's control socket from a command: a request, its reply. */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include "agent/control.h"
#include "platform/clock.h"
#include "platform/err.h"

struct client;

/* socket NULL: $HONE_SOCKET, else CONTROL_SOCKET. E_NOTFOUND: no daemon listens there (not an error to most
 * callers); E_UNSUPPORTED: one of another version. */
int client_open(const char *socket, int64_t deadline_ns, struct client **out) MUST_CHECK;
void client_close(struct client *c);
/* The reply's line, until the next call. What honed refuses is its error with its text. */
int client_ask(struct client *c, const struct request *r, int64_t deadline_ns, const char **reply) MUST_CHECK;
/* The next event's line (after `watch`). */
int client_next(struct client *c, int64_t deadline_ns, const char **event) MUST_CHECK;

#endif
