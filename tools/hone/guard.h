/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that use a device with a driver run in a process of their own, because drivers crash and hang. If
 * one does, or the device fails otherwise, the command runs again on the processor, or is an error. SIGINT
 * and SIGTERM reach both processes: if they end the child, they end this one, too, and nothing runs again. */
#ifndef TOOLS_GUARD_H
#define TOOLS_GUARD_H

#include "tools/hone/cmd.h"

enum guard {
	GUARD_LEAVES, /* runs on the processor instead, after a line that says why */
	GUARD_FAILS   /* an error that names the device */
};

/* Runs the command's body; in a child process, if --device names a device that is apart. Its status or
 * error. */
int guard_run(const struct args *a, int (*body)(const struct args *a), enum guard g) MUST_CHECK;
/* Called by a body once the answer is written: a driver that then crashes changes nothing. E_IO: standard
 * output does not take it. */
int guard_done(void) MUST_CHECK;
/* Called by a body that ends its process at once, after its last words: the command's status is this one. */
void guard_ends(int status);
/* For tests: how long a driver may take for one call (default: 90 s). */
void guard_patience(int64_t ns);

#endif
