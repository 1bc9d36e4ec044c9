/* SPDX-License-Identifier: Apache-2.0 */
/* What honed keeps between boots (struct marks of agent/honed/honed.h), as a small text file:
 *
 *	hone marks 1
 *	unclean 0
 *	model KEY boxed promise missing
 *	end
 *
 * KEY: 32 hex digits; boxed: 0 or 1; promise: a number, -1: not known; missing: how many kernels.
 * A file that is not whole is none at all: what it said is found out again. */
#ifndef AGENT_MARKS_H
#define AGENT_MARKS_H

#include "agent/honed/honed.h"

/* E_CORRUPT leaves *out as if there were no file; E_NOTFOUND: there is none. */
int marks_parse(const char *text, struct marks *out) MUST_CHECK;
void marks_print(const struct marks *m, struct buf *out);
int marks_read(const char *path, struct marks *out) MUST_CHECK;
int marks_write(const char *path, const struct marks *m) MUST_CHECK; /* durable; old or new, never a part */

#endif
