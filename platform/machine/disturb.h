/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the machine left a measurement alone: the share of the processor time that this process wanted and
 * got, what others used meanwhile, and what happened to the clocks. A value that the machine does not report
 * is -1 and disturbs nothing.
 *
 * Others count on all processors, also on those that a pinned process does not use: they share caches, memory
 * and the power budget with it. Load on another core often leaves the median of a pinned process unchanged.
 * So others_pct is reported as a fact, and share_pct tells whether this process had to wait.
 *
 * Sources, below a root ("": the real one): /proc/self/task/N/schedstat (ns that a thread ran, and that it
 * waited for a processor), /proc/stat, and those of vitals_taint (platform/machine/vitals.h). */
#ifndef PLATFORM_DISTURB_H
#define PLATFORM_DISTURB_H

#include "platform/base/buf.h"
#include "platform/machine/vitals.h"

enum {
	DISTURB_SHARE_PCT = 90,  /* a smaller share is a disturbance */
	DISTURB_OTHERS_PCT = 25, /* so is a larger use by others, in % of one processor */
};

struct disturbance {
	int share_pct;  /* of the processor time that this process wanted, what it got; at most 100 */
	int others_pct; /* time of other processes and of a hypervisor, in % of one processor */
	char clock[80]; /* why the clocks make the measurement unreliable; "": they do not */
};

struct disturb {
	const char *root;
	struct vitals_reader *reader; /* NULL: the board cannot be read */
	struct vitals before;
	int64_t at_ns, ran_ns, waited_ns, own_ns;
};

/* root NULL: $HONE_SYSROOT, else the real one. It must outlive the measurement. Each begin needs one end. */
void disturb_begin(struct disturb *d, const char *root);
void disturb_end(struct disturb *d, struct disturbance *out);

bool disturbed(const struct disturbance *d);
/* Makes *worst the worse of both in each respect. Begin with DISTURBANCE_NONE. */
#define DISTURBANCE_NONE ((struct disturbance){-1, -1, ""})
void disturbance_add(struct disturbance *worst, const struct disturbance *d);
/* "this process got 82 % of the processor time that it wanted; others used 140 % of a processor"; nothing, if
 * nothing disturbed the measurement. */
void disturbance_words(const struct disturbance *d, struct buf *out);

#endif
