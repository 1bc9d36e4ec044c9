/* SPDX-License-Identifier: Apache-2.0 */
/* Fallback kernels: shape-generic ones made at build time by hone-worker from the same operators and IR,
 * linked as data.
 *
 * An archive is: "HFB2", u32 count, then per kernel a 16-byte key (hash of the generic task's text; hi, lo)
 * and u32 length, then in the same order the code bytes (kernels/loops/code.h); little endian. Looking a key
 * up reads no code but its own. Where archives are kept: agent/run/fallback_data.h. */
#ifndef AGENT_FALLBACK_H
#define AGENT_FALLBACK_H

#include "kernels/loops/code.h"
#include "kernels/emit/emit.h"

/* Makes the archive of one ISA baseline: sample tasks -> generic -> default schedule -> code. Called by the
 * worker. Kernels that cannot be made are left out. few: only windows over
 * images, no LRN of images with halos, and residual sums run as a map of their own; on targets with 32 vector
 * registers, whose kernels are longer, so do the clamp to 6, and all that follows a product but its bias.
 * Half the bytes. Returns their number. */
int fallback_make(const char *isa, const struct emit *e, bool few, const char *path) MUST_CHECK;
/* A task as fallback kernels know it: its reduction, weights blocked by output channel, with the whole
 * epilogue or with nothing but a bias; and a map over the output, in place, that does the rest. of[i]: the
 * task's operand. rest.nstages 0: no rest. */
struct fallback_parts {
	struct task core, rest;
	int core_of[MAX_OPERANDS], rest_of[MAX_OPERANDS];
};
/* whole: the core keeps the epilogue. E_UNSUPPORTED: no such form. */
int fallback_split(const struct task *t, int lanes, bool whole, struct fallback_parts *out) MUST_CHECK;
/* The kernel that does most of a task, from the best archive that `host` runs, with parameters bound; code is
 * for parts->core. E_NOTFOUND: none. */
int fallback_find(const struct task *t, const struct target *host, struct arena *a,
		  struct fallback_parts *parts, struct code *out) MUST_CHECK;

#endif
