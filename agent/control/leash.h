/* SPDX-License-Identifier: Apache-2.0 */
/* A job's side of the control connection: leases, records for honed's cache, progress, and honed's order to
 * yield. Without a honed, leases are granted at once, and only the board's own vitals taint a measurement
 * (platform/machine/vitals.h).
 *
 * A thread reads the connection, so that a yield takes effect while the job waits for its worker: local
 * workers are in the job's process group, which honed stops; workers behind a socket end because their
 * streams are shut down (child_rest_all does both). All functions but leash_say_last are called by the job's
 * one thread. */
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
	const char *cache;  /* folder that the job uses; a honed that owns another folder is not used */
	const char *model;
	const char *device; /* that the job tunes for, "opencl:0", "cpu:cortex-a53"; NULL: the processor, on a
			     * board with several clusters the fastest. Its leases are for it */
	bool syncs;         /* true: it only brings records (put, forget, commit), and is not a job */
	int threads;
	struct clock *clock;
	const char *sysroot;         /* root of the system files for the vitals; NULL: $HONE_SYSROOT */
	volatile sig_atomic_t *stop; /* set when honed sends "stop", or when the connection to the honed that
					started this process ends */
};

/* Whether a honed started this process as one of its jobs. */
bool leash_is_child(void);
/* Succeeds without a honed, too. */
int leash_open(const struct leash_options *o, struct leash **out) MUST_CHECK;
void leash_close(struct leash *l);
bool leash_held(const struct leash *l); /* true: connected to a honed, which owns the cache */
/* Call when honed has closed the connection. E_OK: connected to a new honed; E_NOTFOUND: none runs;
 * E_STOPPED: the old one had started this process, which must end. */
int leash_again(struct leash *l) MUST_CHECK;
/* Waits until the lease is granted; E_TIMEOUT at deadline_ns, E_STOPPED when told to stop. */
int leash_lease(struct leash *l, enum lease kind, int64_t deadline_ns) MUST_CHECK;
/* *taint: NULL, or the reason why measurements under this lease are not to be trusted. A rest of the job just
 * before the lease taints, too, as its workers may have ended then. */
int leash_release(struct leash *l, const char **taint) MUST_CHECK;
const char *leash_last_taint(const struct leash *l); /* the last reason that there was; "": none */
int leash_put(struct leash *l, int type, struct key k, const void *p, size_t n) MUST_CHECK;
int leash_forget(struct leash *l, int type, struct key k) MUST_CHECK;
int leash_commit(struct leash *l) MUST_CHECK; /* durable when it returns >= 0 */
void leash_say(struct leash *l, const struct request *progress_or_done);
/* For another thread than the job's, whose process then ends at once: sends it unless the job's thread is
 * sending just now. */
void leash_say_last(struct leash *l, const struct request *done);

/* A runner that takes a lease for each call: LEASE_COMPUTE for a build, LEASE_MEASURE for timing, or
 * LEASE_QUIET with TIME_QUIET. A result is discarded, and the call repeated, if the lease was tainted (unless
 * it is a build that succeeded), or if a worker timed out before the deadline while this process was stopped
 * for most of the call (SIGSTOP, from any sender). Pauses between the calls double, up to 1 s. E_TIMEOUT: the
 * deadline came first; E_STOPPED: TAINTED_TRIES calls in a row were tainted. Neither counts against a
 * candidate. Deadlines are on the leash's clock. Closes inner. */
enum { TAINTED_TRIES = 100 };
int runner_leashed(struct runner *inner, struct leash *l, struct runner **out) MUST_CHECK;

#endif
