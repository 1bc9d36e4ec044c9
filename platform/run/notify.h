/* SPDX-License-Identifier: Apache-2.0 */
/* What a service says to its manager, and is given by it: sd_notify(3), sd_listen_fds(3) and
 * sd_watchdog_enabled(3), whose protocols are a datagram and a few variables of the environment. Without a
 * manager nothing is said, and nothing is given. */
#ifndef PLATFORM_NOTIFY_H
#define PLATFORM_NOTIFY_H

#include "platform/base/err.h"
#include <stdint.h>

struct notify {
	char path[108];      /* of the manager's socket, '@' first: abstract; "": nobody listens */
	int64_t watchdog_ns; /* it wants to hear of us more often than this; 0: no */
	int listen_fds;      /* sockets given to us, from descriptor NOTIFY_FIRST_FD on */
};

enum { NOTIFY_FIRST_FD = 3 };

/* Takes it all from the environment, where children do not find it then; what is meant for another process
 * is left out. The descriptors become close-on-exec. */
void notify_take(struct notify *n);
/* Lines of NAME=VALUE: "READY=1\nSTATUS=tuning". 1: sent, 0: nobody listens. */
int notify_send(const struct notify *n, const char *lines) MUST_CHECK;
/* STATUS= and a text, made one plain line of. */
int notify_status(const struct notify *n, const char *text) MUST_CHECK;
/* RELOADING=1 with the time it wants beside it; READY=1 ends it. */
int notify_reloading(const struct notify *n, int64_t now_ns) MUST_CHECK;

#endif
