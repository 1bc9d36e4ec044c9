/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C in commands that measure: the first signal makes them end early, print what was measured so far, and
 * exit with status 130. SIGTERM, with which a service manager ends a process, does the same with status 143,
 * but a job of honed, which honed ends so, keeps its status. A second signal of the same kind that comes half
 * a second later or more kills the process. */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include "platform/base/err.h"
#include <signal.h>
#include <stdbool.h>

enum { INTERRUPT_STATUS = 130, TERMINATE_STATUS = 143 };

extern volatile sig_atomic_t interrupt_stop; /* 1 after SIGINT or SIGTERM */

/* Handles both signals. The calling thread's long calls end early, too, with E_STOPPED
 * (platform/base/until.h). */
void interrupt_catch(void);
bool interrupted(void);
/* The command's exit status: rc, or that of the signal that came, of SIGINT if both did. If the command
 * failed because it was stopped, a line says that nothing was measured. */
int interrupt_status(int rc) MUST_CHECK;
/* done: what the command would have done instead of "measured". */
int interrupt_status_of(int rc, const char *done) MUST_CHECK;

#endif
