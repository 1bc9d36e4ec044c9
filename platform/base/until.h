/* SPDX-License-Identifier: Apache-2.0 */
/* Until when a thread may work. Functions that can take long (reading files, importing, folding constants,
 * packing weights) check this between pieces of at most some milliseconds, and end early with E_TIMEOUT or
 * E_STOPPED. Each thread has its own; a thread that sets none has all the time. */
#ifndef PLATFORM_UNTIL_H
#define PLATFORM_UNTIL_H

#include "platform/base/clock.h"
#include "platform/base/err.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define UNTIL_PIECE (1 << 20) /* bytes, or elements, between two checks */

struct until {
	struct clock *clock;
	int64_t end_ns;              /* on the clock */
	volatile sig_atomic_t *stop; /* set by a signal handler; may be NULL */
	int64_t stopped_ns;          /* when until_stopped first saw it set; 0: it has not */
	/* what the thread has read from files so far; other threads may look */
	_Atomic int64_t read_bytes;
};

/* Sets the calling thread's limit, which must outlive its use; NULL: none. Returns the one before. */
struct until *until_set(struct until *u);
/* For loops that return nothing: once true, it stays true until another limit is set, so that the caller of
 * such a loop can ask until_check() whether the loop ended early. */
bool until_over(void);
/* The same, asked for once in UNTIL_PIECE elements: *next begins at 0. */
static inline bool until_over_at(int64_t element, int64_t *next)
{
	if (element < *next)
		return false;
	*next = element + UNTIL_PIECE;
	return until_over();
}
int until_check(void) MUST_CHECK; /* E_OK, E_TIMEOUT or E_STOPPED */
/* E_STOPPED: `stop` is set, and has been since a call at least so long ago. For waits that do no work of
 * their own, and whose end is worth waiting for if it is near. */
int until_stopped(int64_t grace_ns) MUST_CHECK;
void until_read(int64_t bytes); /* counts read_bytes */

#endif
