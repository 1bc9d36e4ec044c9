/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as C source for firmware: no file system, no allocator, nothing of hone behind it.
 *
 * Into the folder (made where it is not there) go, as one set, all or none:
 *   NAME.h          what the application includes: tensors, memory, functions, how to build
 *   NAME.c          C99: the calls in order, copies, halos and, in plain C, the steps that no kernel covers;
 * it calls nothing but memcpy, memset and the kernels (and the library's mathematics where the header says
 * so) NAME_kernels.o  the kernels' machine code, linked among itself: one section without relocations, no
 * data NAME_weights.o  packed weights: one section to be read only, aligned to 64 bytes Names in the objects,
 * and the header, have a hash of all four: files of different plans do not link. What was there of that NAME
 * stays where a file cannot be replaced. The objects are written here and not by a compiler: a board may have
 * none, and what was measured is what runs. NAME begins all names that others see, so that several networks
 * link into one program. The same plan gives the same bytes.
 *
 * Nodes that only hone's own C evaluates cannot be written, but for those of plan_c_node.c; E_UNSUPPORTED
 * lists all that were met. */
#ifndef AGENT_PLAN_C_H
#define AGENT_PLAN_C_H

#include "agent/run/plan.h"

enum { PLAN_C_NAME = 48 };

struct plan_c_sizes {
	size_t code_bytes, weight_bytes; /* sizes of the objects' sections */
	size_t source_bytes;             /* of NAME.c */
	size_t arena_bytes;              /* RAM, one thread */
	size_t thread_bytes;             /* part of it; each further thread needs as much */
	int kernels;                     /* number of different compiled kernels */
	int portable;                    /* steps in plain C */
};

/* Turns any text into a prefix of C names: letters, digits and '_'; "net" is put first if needed. */
void plan_c_name(const char *text, char out[PLAN_C_NAME]);
/* p: from plan_build_whole; name: from plan_c_name. */
int plan_c_write(const struct plan *p, const char *dir, const char *name,
		 struct plan_c_sizes *out) MUST_CHECK;

#endif
