/* SPDX-License-Identifier: Apache-2.0 */
/* The last resort at the end of a box: a thread that answers in time for a job that does not end by itself,
 * because a step of it can neither be foreseen nor cancelled. The kernel takes long to free the memory of a
 * process (0.06 to 0.08 ms per MiB on the machine of our figures), so the answer comes earlier the more
 * memory the process has. */
#ifndef AGENT_GUARD_H
#define AGENT_GUARD_H

#include "platform/base/clock.h"
#include "platform/base/err.h"

#include <stddef.h>

struct guard;

struct guard_options {
	struct clock *clock;
	int64_t end_ns; /* when the process should be gone */
	void *ctx;
	/* Called by the guard's thread, once, while the job still runs: it answers, and ends the process at
	 * once (_exit). If it returns, the guard has no more to do. */
	void (*late)(void *ctx);
};

/* Reads options only; `late` is called from now on. */
int guard_open(const struct guard_options *o, struct guard **out) MUST_CHECK;
/* The job ended in time. If `late` runs already, waits for it. NULL: nothing. */
void guard_close(struct guard *g);
/* Time that the end of this process takes, given the memory that it has now, and so much more, and the share
 * that it got of its core. */
int64_t guard_exit_ns(size_t more_bytes);

#endif
