/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what prevents good tuning on this machine: each finding says what it is and what to do about it. The
 * doctor only looks and changes nothing; no check can make it wait for more than a few seconds.
 *
 * To add a check: write a function in doctor_board.c (for what the kernel's files below the root say) or
 * doctor_place.c (folders, programs, this process) or a file of its own, and add its row in doctor.c. */
#ifndef AGENT_DOCTOR_H
#define AGENT_DOCTOR_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <signal.h>
#include <stdbool.h>

enum finding_kind {
	FINDING_OK,
	FINDING_NOTE,    /* good to know; tuning works as well as it can here */
	FINDING_WARNING, /* tuning works, but its results are worse, or it is slower or unreliable */
	FINDING_PROBLEM, /* tuning does not work, or its results are lost or wrong */
};

struct finding {
	enum finding_kind kind;
	const char *check;  /* "governor": stable, for scripts */
	const char *what;   /* one line */
	const char *remedy; /* one line; "" if nothing is to be done */
};

struct doctor_options {
	const char *sysroot; /* "": this machine. For another root, checks of this process are skipped */
	const char *cache;   /* folder; NULL: that of the honed that answers, else user_cache */
	const char *user_cache; /* NULL: there is none */
	const char *config;     /* of honed; NULL: CONF_FILE below the root */
	const char *socket; /* of honed; NULL: $HONE_SOCKET (of this machine), else the configuration's below
			       the root */
	volatile sig_atomic_t *stop; /* set by a signal handler: no further check begins; may be NULL */
	const char *worker; /* NULL: $HONE_WORKER, else beside this program */
};

/* Runs all checks. If a honed answers, its cache and its process's limits are looked at, not the caller's.
 * Findings are in the order of the checks, at least one for each check that applies here, and live in the
 * arena. Returns the count. */
int doctor_look(const struct doctor_options *o, struct arena *a, const struct finding **out) MUST_CHECK;
const char *finding_word(enum finding_kind k); /* "warning" */

#endif
