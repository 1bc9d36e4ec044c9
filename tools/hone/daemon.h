/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands that talk to honed: whether it runs, its replies as JSON, and inhibit files in the
 * run folder, which work without a running honed because honed reads them when it starts. */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

#include "agent/control/client.h"
#include "platform/base/arena.h"
#include <jansson.h>

/* How honed reads its configuration again; a user may have started it without systemd. */
#define DAEMON_RELOAD "systemctl reload honed (without systemd: kill -HUP its process)"
#define DAEMON_NS (5 * NS_PER_S) /* timeout for an answer that honed can give at once */

/* A row for the table of options. */
#define OPT_SOCKET                                                                                           \
	{                                                                                                    \
		"socket", OPT_STR, "PATH", "honed's socket (default: $HONE_SOCKET, else " CONTROL_SOCKET ")" \
	}

/* 1: connected to honed; 0: honed does not run, and *out is NULL; < 0: something listens there that does not
 * speak our protocol. */
int daemon_open(const char *socket, struct client **out) MUST_CHECK;
/* Writes that honed does not run: which socket was tried, how to name another, and the command that starts a
 * honed there. */
enum { DAEMON_ABSENT = 640 };
void daemon_absent(const char *socket, char out[DAEMON_ABSENT]);
/* Writes the command that starts the usual honed of the machine below `root` ("": this one): its unit, else
 * the program beside this one with a configuration, without which it tunes nothing; with sudo, unless the
 * user is root. */
void daemon_start(const char *root, char out[DAEMON_ABSENT]);
/* Whether systemd runs on the machine (below `root`) and knows a unit, such as "honed.service". */
bool daemon_has_unit(const char *root, const char *unit);
/* Sends the request. The reply is an object that the caller owns. */
int daemon_ask(struct client *c, const struct request *r, int64_t deadline_ns, json_t **reply) MUST_CHECK;
/* Opens, asks for the status and closes. Returns 1, 0 or < 0 as daemon_open does. */
int daemon_status(const char *socket, json_t **out) MUST_CHECK;
/* True: a honed runs that lends no processors now; *why says the reason, of an inhibit also who, since when
 * and what ends it. now: to a job with --now, which waits for none of load, pressure, hours and settling. */
enum { DAEMON_CLOSED = 512 };
bool daemon_is_closed(const char *socket, bool now, char *why, size_t n);
int64_t daemon_deadline(int64_t ns); /* the time `ns` from now */

/* Read a field of an object that comes from outside: if it is missing or has another type, the fallback is
 * returned. */
const char *daemon_text(const json_t *o, const char *key, const char *fallback);
double daemon_num(const json_t *o, const char *key, double fallback);
bool daemon_flag(const json_t *o, const char *key);
/* The process of the honed that gave this status; 0: not known. */
int daemon_pid(const json_t *status);
/* The configuration of that honed, in the arena; NULL: it is not known. honed may have been given a path that
 * begins in its working directory. */
const char *daemon_config(const json_t *status, struct arena *a);

/* The folder of the socket that the user gave (daemon_use), else $HONE_RUN, else the folder of $HONE_SOCKET,
 * else /run/hone. */
const char *daemon_run_folder(void);
/* Looks for honed's inhibit files beside this socket. NULL: not given. */
void daemon_use(const char *socket);
/* Inhibit files, which hold the reason as text; honed reads them when it starts. In its folder `inhibit`,
 * which only honed and root can write, names are USER-NUMBER-UNTIL (UNTIL: nanoseconds of the monotonic
 * clock, 0: for ever). Files with other names there, and all files in `inhibit.d`, where every user may
 * create some, inhibit as long as they exist. */
enum { INHIBIT_NAME = 64 };
/* Writes an inhibit file for ns (0: until it is removed) and returns its name in `name`, INHIBIT_NAME bytes.
 * lasts: fail with E_UNSUPPORTED if nothing would ever end it. */
int inhibit_write(int64_t ns, bool lasts, const char *why, char *name) MUST_CHECK;
int inhibit_remove(const char *name) MUST_CHECK; /* E_NOTFOUND: no such file; E_USAGE: not a valid name */
struct daemon_inhibit {
	const char *name, *why;
	unsigned uid;
	double left_s; /* INFINITY: for ever */
};
/* Lists the inhibits in force, sorted by name, in the arena, as plain text. Returns their number; 0 if there
 * is no folder. */
int inhibit_list(struct arena *a, struct daemon_inhibit **out);

#endif
