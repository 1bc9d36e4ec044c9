/* SPDX-License-Identifier: Apache-2.0 */
/* A client of honed's control socket for commands: sends a request and returns its reply. Whatever the other
 * end does, a call ends at its deadline (of clock_real; INT64_MAX: none) and takes no more memory than
 * CONTROL_SAID. */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"

/* Errors name these commands, which hold without systemd, too. */
#define HONED_START "systemctl start honed (without systemd: honed --config FILE, as root)"
#define HONED_SAYS "systemctl status honed (without systemd, what honed prints)"

struct client;

/* The socket's path: `socket`, else $HONE_SOCKET, else CONTROL_SOCKET. */
const char *client_socket(const char *socket);
/* socket: as above. E_NOTFOUND: no daemon listens there (most callers do not
 * treat this as an error); E_UNSUPPORTED: the daemon has another version. */
int client_open(const char *socket, int64_t deadline_ns, struct client **out) MUST_CHECK;
void client_close(struct client *c);
/* Returns the reply's line, valid until the next call; events before it are skipped. If honed refuses,
 * returns honed's error with its text. E_TIMEOUT: the deadline passed; E_IO: honed is gone; E_CORRUPT: the
 * other end is not honed; after these three the connection is useless. E_STOPPED: a signal was caught; the
 * caller may ask again. */
int client_ask(struct client *c, const struct request *r, int64_t deadline_ns, const char **reply) MUST_CHECK;
/* Returns the next event's line (after `watch`). Errors as for client_ask; after E_TIMEOUT and E_STOPPED the
 * connection can still be used. */
int client_next(struct client *c, int64_t deadline_ns, const char **event) MUST_CHECK;

#endif
