/* SPDX-License-Identifier: Apache-2.0 */
/* Fallback kernels: shape-generic ones made at build time by hone-worker from the same operators and IR,
 * linked as data.
 *
 * An archive is: "HFB1", u32 count, then per kernel a 16-byte key (hash of the generic task's text), u32
 * length and code bytes (kernels/code.h). The linked data is: u32 number of archives, per archive u32 length
 * and the archive; all little endian, each archive at a multiple of 8. */
#ifndef AGENT_FALLBACK_H
#define AGENT_FALLBACK_H

#include "kernels/code.h"
#include "kernels/emit.h"

/* Makes the archive of one ISA baseline: sample tasks -> generic -> default schedule -> code. Called by the
 * worker. Kernels that cannot be made are left out. Returns their number. */
int fallback_make(const char *isa, const struct emit *e, const char *path) MUST_CHECK;
/* The kernel for a task from the best archive that `host` runs, with parameters bound. E_NOTFOUND: none. */
int fallback_find(const struct task *t, const struct target *host, struct arena *a,
		  struct code *out) MUST_CHECK;
/* The part of a task that fallback kernels cover: its first stage without epilogue, but for adding a bias.
 * False: nothing was left out. `rest` is a map over the output that gives the whole task's result in place.
 */
bool fallback_split(const struct task *t, struct task *core, struct task *rest);

#endif
