/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between a service and its manager: sd_notify(3), sd_listen_fds(3) and sd_watchdog_enabled(3).
 * Their protocols are a datagram and some environment variables. Without a manager nothing is sent and
 * nothing is received. */
#ifndef PLATFORM_NOTIFY_H
#define PLATFORM_NOTIFY_H

#include "platform/base/err.h"
#include <stdint.h>

struct notify {
	char path[108];      /* of the manager's socket; first '@': abstract; "": no manager listens */
	int64_t watchdog_ns; /* the manager expects a message more often than this; 0: none */
	int listen_fds;      /* number of sockets given to us, from descriptor NOTIFY_FIRST_FD on */
};

enum { NOTIFY_FIRST_FD = 3 };

/* Reads these variables and removes them from the environment, so that children do not see them. Variables
 * for another process are ignored. The descriptors become close-on-exec. */
void notify_init(struct notify *n);
/* Sends lines of NAME=VALUE: "READY=1\nSTATUS=tuning". 1: sent; 0: no manager listens. */
int notify_send(const struct notify *n, const char *lines) MUST_CHECK;
/* Sends STATUS= and a text, which is made one plain line. */
int notify_status(const struct notify *n, const char *text) MUST_CHECK;
/* Sends RELOADING=1 with the time that the protocol requires; READY=1 ends it. */
int notify_reloading(const struct notify *n, int64_t now_ns) MUST_CHECK;

#endif
