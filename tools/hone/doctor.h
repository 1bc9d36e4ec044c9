/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the way of good tuning on this machine: findings, each with what it is and what to do about
 * it. Looks only; changes nothing, and nothing it looks at can make it wait for more than a few seconds.
 *
 * To add a check: a function in doctor_board.c (what the kernel's files tell, below the root) or
 * doctor_place.c (folders, programs, this process), and its row in doctor.c. */
#ifndef AGENT_DOCTOR_H
#define AGENT_DOCTOR_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <stdbool.h>

enum finding_kind {
	FINDING_OK,
	FINDING_NOTE,    /* good to know; tuning is as good as it can be here */
	FINDING_WARNING, /* tuning works, but worse, more slowly or not always */
	FINDING_PROBLEM, /* tuning does not work, or what it yields is lost or wrong */
};

struct finding {
	enum finding_kind kind;
	const char *check;  /* "governor": stable, for scripts */
	const char *what;   /* one line */
	const char *remedy; /* one line; "" for what is well */
};

struct doctor_options {
	const char *sysroot; /* "": this machine. Else what concerns this process is not asked */
	const char *cache;   /* folder; NULL: none is known */
	const char
	    *socket; /* of honed; NULL: $HONE_SOCKET (of this machine), else CONTROL_SOCKET below the root */
	const char *worker; /* NULL: $HONE_WORKER, else beside this program */
};

/* In the order of the checks; at least one of each that applies here. Lives in the arena. The count. */
int doctor_look(const struct doctor_options *o, struct arena *a, const struct finding **out) MUST_CHECK;
const char *finding_word(enum finding_kind k); /* "warning" */

#endif
