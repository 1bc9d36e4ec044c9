/* SPDX-License-Identifier: Apache-2.0 */
/* A job's side of the control connection: leases, records to honed's cache, progress, and honed's word to
 * yield. Where no honed is, leases are granted at once, and the board's own signs alone taint
 * (platform/machine/vitals.h).
 *
 * A thread reads the connection, so that a yield takes effect while the job waits for its worker: local
 * workers are in the job's process group, which honed stops; of workers behind a socket the streams are shut
 * down, by which they end (child_rest_all does both). Everything else is called by the job's one thread. */
#ifndef AGENT_LEASH_H
#define AGENT_LEASH_H

#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/base/file.h"
#include "platform/run/runner.h"
#include <signal.h>

struct leash;

struct leash_options {
	const char *socket; /* NULL: $HONE_CONTROL_FD, else $HONE_SOCKET, else CONTROL_SOCKET */
	const char *cache;  /* folder that the job uses: a honed that owns another one is left alone */
	const char *model;
	bool syncs; /* it brings records, and is no job: nothing but put, forget, commit */
	int threads;
	struct clock *clock;
	const char *sysroot;         /* of the vitals; NULL: $HONE_SYSROOT */
	volatile sig_atomic_t *stop; /* raised when honed says stop, or is gone and had started us */
};

/* Good without a honed, too. */
int leash_open(const struct leash_options *o, struct leash **out) MUST_CHECK;
void leash_close(struct leash *l);
bool leash_held(const struct leash *l); /* a honed is at the other end, and owns the cache */
/* The honed that held it is gone. E_OK: there is another one; E_NOTFOUND: none; E_STOPPED: it had started us.
 */
int leash_again(struct leash *l) MUST_CHECK;
/* Waits until it is granted; E_TIMEOUT at deadline_ns, E_STOPPED when told to stop. */
int leash_lease(struct leash *l, enum lease kind, int64_t deadline_ns) MUST_CHECK;
/* *taint: NULL, or why nothing that was measured meanwhile may be believed: also where the job rested just
 * before, as its workers may have gone then. */
int leash_release(struct leash *l, const char **taint) MUST_CHECK;
int leash_put(struct leash *l, int type, struct key k, const void *p, size_t n) MUST_CHECK;
int leash_forget(struct leash *l, int type, struct key k) MUST_CHECK;
int leash_commit(struct leash *l) MUST_CHECK; /* durable when it returns good */
void leash_say(struct leash *l, const struct request *progress_or_done);

/* A runner under a leash: builds hold LEASE_COMPUTE, timings LEASE_MEASURE, or LEASE_QUIET where TIME_QUIET
 * says so. Times that were tainted, builds that failed meanwhile, and what took too long as this process
 * stood still (SIGSTOP, whoever sent it) are thrown away and done again, with
 * pauses that double (1 s at most) until the deadline: E_TIMEOUT; TAINTED_TRIES in a row: E_STOPPED. Never a
 * candidate's fault. Deadlines are on the leash's clock. Closes inner. */
enum { TAINTED_TRIES = 100 };
int runner_leashed(struct runner *inner, struct leash *l, struct runner **out) MUST_CHECK;

#endif
