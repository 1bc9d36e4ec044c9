/* SPDX-License-Identifier: Apache-2.0 */
/* honed keeps struct marks (agent/honed/honed.h) between boots in a small text file:
 *
 *	hone marks 1
 *	unclean 0
 *	flash DAY BYTES
 *	cache FILES RECORDS CODE KEY KEY KEY KEY
 *	model KEY boxed promise missing before_ms now_ms rough
 *	end
 *
 * flash: bytes written to flash on a day (UTC, since 1970); may be absent. cache: the cache's inventory
 * (agent/cache/inventory.h), with up to four keys; former versions wrote none, and ignore a file that has
 * one. FILES, KEY: 32 hex digits; boxed: 0 or 1;
 * promise: a number, -1: not known; missing: number of kernels; before_ms, now_ms: 0: not known; rough: 0:
 * MARK_CERTAIN; 1: MARK_GAINS, or MARK_FIRST if before_ms has a + in front. Former versions read that as 1,
 * and wrote no +; still earlier ones wrote nothing behind missing, which is read as 0 0 0. A file that is not
 * whole is ignored: honed finds its content out again. */
#ifndef AGENT_MARKS_H
#define AGENT_MARKS_H

#include "agent/honed/honed.h"

/* E_CORRUPT leaves *out empty, as if there were no file; E_NOTFOUND: there is none. */
int marks_parse(const char *text, struct marks *out) MUST_CHECK;
void marks_print(const struct marks *m, struct buf *out);
/* day: today's. Bytes of another day are forgotten. */
int marks_read(const char *path, int64_t day, struct marks *out) MUST_CHECK;
/* Forgets what the marks say of kernels and times, which is no longer true of the cache. The models stay
 * known: boxes that were cut off still count. Returns whether they said anything of that. */
bool marks_doubt(struct marks *m);
/* The day since 1970, UTC. */
int64_t marks_day(void);
/* durable; after a power cut the old or the new file, never a part */
int marks_write(const char *path, const struct marks *m) MUST_CHECK;

#endif
