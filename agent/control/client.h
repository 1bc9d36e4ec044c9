/* SPDX-License-Identifier: Apache-2.0 */
/* honed's control socket from a command: a request, its reply. Whoever is at the other end, a call ends at
 * its deadline (of clock_real; INT64_MAX: none) and takes no more memory than CONTROL_SAID. */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"

struct client;

/* socket NULL: $HONE_SOCKET, else CONTROL_SOCKET. E_NOTFOUND: no daemon listens there (not an error to most
 * callers); E_UNSUPPORTED: one of another version. */
int client_open(const char *socket, int64_t deadline_ns, struct client **out) MUST_CHECK;
void client_close(struct client *c);
/* The reply's line, until the next call; events that come before it are passed over. What honed refuses is
 * its error with its text. E_TIMEOUT: at the deadline; E_IO: honed is gone; E_CORRUPT: that is no honed;
 * after these the connection is of no use. E_STOPPED: a signal was caught; ask again or not. */
int client_ask(struct client *c, const struct request *r, int64_t deadline_ns, const char **reply) MUST_CHECK;
/* The next event's line (after `watch`). Errors as client_ask's; E_TIMEOUT and E_STOPPED leave the connection
 * good. */
int client_next(struct client *c, int64_t deadline_ns, const char **event) MUST_CHECK;

#endif
