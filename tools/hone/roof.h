/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of the roofline, the same in all commands, with what they count and why some exceed 100 %.
 *
 * A kernel's roofline is the longer of two times: its own multiplications and additions at the peak, and its
 * bytes at the bandwidth, constants as read from memory and activations as held by the smallest cache that
 * they fit in (agent/run/plan.h), both as measured of one core, divided by the cores used. Its share is that
 * over its time. */
#ifndef TOOLS_ROOF_H
#define TOOLS_ROOF_H

#include "agent/run/plan.h"
#include "platform/base/buf.h"

struct roof {
	double ns; /* one core; 0: not known */
	bool memory_bound;
};

/* Of a task with a candidate's algorithm: Winograd multiplies less often, weights in f16 have fewer bytes. */
struct roof roof_of_task(const struct target *t, const struct task *task, const char *cand);
struct roof roof_of_kernel(const struct target *t, const struct plan_kernel *k);
/* Of a kernel that ran on the target `t`, though the plan was made for another one; s: the kernel's step. */
struct roof roof_of_step(const struct target *t, const struct step *s, const struct plan_kernel *k);
double roof_pct(const struct roof *r, int cores, double ns); /* 0: not known */
/* The cores that a kernel of a plan runs on, of a machine with so many, with so many threads: one, if it has
 * too little work for more. */
int roof_cores(const struct target *t, int threads, const struct plan_kernel *k);
/* Why a share is above 100 %; NULL: it is not. */
const char *roof_why(const struct roof *r, double pct);
/* Whether the reason is that the peak was measured too low. */
bool roof_low(const struct roof *r, double pct);
/* Why a kernel's share of the f32 peak alone is above 105 %, as clocks vary by a few; NULL: it is not. */
const char *roof_peak_why(double pct, bool on_bytes, bool on_pairs);

/* The reasons among the rows of a table. */
struct roof_notes {
	int n;
	const char *why[2];
};

/* "97 %", "147 % [1]", "-": the number is that of the reason in the notes. */
void roof_cell(struct roof_notes *n, const struct roof *r, double pct, char out[24]);
/* What the shares count, then the reasons, each a line after `before` and before `after`. */
void roof_notes_text(const struct roof_notes *n, const char *before, const char *after, struct buf *out);
void roof_notes_print(const struct roof_notes *n, bool shown); /* shown: the column was printed */

#endif
