/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that talk to honed share: whether it is there, its replies as JSON, and what holds
 * without it: inhibit files in the run folder, which a honed heeds once it starts. */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

#include "agent/control/client.h"
#include "platform/base/arena.h"
#include <jansson.h>

#define DAEMON_NS (5 * NS_PER_S) /* what a command waits for an answer that needs no time */

/* A row for the table of options. */
#define OPT_SOCKET                                                                                           \
	{                                                                                                    \
		"socket", OPT_STR, "PATH", "honed's socket (default: $HONE_SOCKET, else " CONTROL_SOCKET ")" \
	}

/* 1: honed is there; 0: it is not, and *out is NULL; < 0: what is there does not talk to us. */
int daemon_open(const char *socket, struct client **out) MUST_CHECK;
/* The reply as an object, which is the caller's. */
int daemon_ask(struct client *c, const struct request *r, int64_t deadline_ns, json_t **reply) MUST_CHECK;
/* Opens, asks for the status and closes. 1, 0 and < 0 as daemon_open's. */
int daemon_status(const char *socket, json_t **out) MUST_CHECK;
int64_t daemon_deadline(int64_t ns); /* so long from now */

/* Of an object from outside: what is missing or of another type is the fallback. */
const char *daemon_text(const json_t *o, const char *key, const char *fallback);
double daemon_num(const json_t *o, const char *key, double fallback);
bool daemon_flag(const json_t *o, const char *key);

/* $HONE_RUN, else /run/hone. */
const char *daemon_run_folder(void);
/* Inhibit files, with the reason as text, which a honed that starts heeds. In its folder `inhibit`, which is
 * honed's and root's, named USER-NUMBER-UNTIL (UNTIL: nanoseconds of the monotonic clock, 0: for ever); any
 * other one, and all in `inhibit.d`, where everybody may make some, inhibit while they are there. */
enum { INHIBIT_NAME = 64 };
/* For ns, 0: until it is removed; name: of INHIBIT_NAME bytes. lasts: where nobody would end it,
 * E_UNSUPPORTED. */
int inhibit_write(int64_t ns, bool lasts, const char *why, char *name) MUST_CHECK;
int inhibit_remove(const char *name) MUST_CHECK; /* E_NOTFOUND: no such file; E_USAGE: no such name */
struct daemon_inhibit {
	const char *name, *why;
	unsigned uid;
	double left_s; /* INFINITY: for ever */
};
/* Those that hold, sorted by name, in the arena, as plain text; their number. Without a folder there are
 * none. */
int inhibit_list(struct arena *a, struct daemon_inhibit **out);

#endif
