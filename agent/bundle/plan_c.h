/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a plan as C source for firmware, which needs no file system, no allocator and nothing of hone.
 *
 * It writes four files into the folder, which is made if it is missing; either all of them or none:
 *
 *   NAME.h          for the application to include: tensors, memory, functions, how to build
 *   NAME.c          C99: the calls in order, copies, halos and, in plain C, the steps that no kernel covers.
 *                   It calls only memcpy, memset and the kernels, and functions of <math.h> if the header
 *                   says so
 *   NAME_kernels.o  the kernels' machine code, already linked: one section without relocations and data
 *   NAME_weights.o  packed weights: one read-only section, aligned to 64 bytes
 *
 * The symbols of the objects and the header contain a hash of all four files, so that files of different
 * plans do not link. If a file cannot be replaced, the old set stays. hone writes the objects without a
 * compiler: a board may have none, and the code that runs is the code that was measured. All public names
 * begin with NAME, so that several networks link into one program. The same plan gives the same bytes.
 *
 * Quantised networks are written as tasks over bytes (CHOICE_BYTES of kernels/group/choices.h), which give
 * the same bytes in plain C as in kernels: in a plan whose division leaves their operators to nodes, these
 * have no form.
 *
 * Nodes that only hone's own C evaluates cannot be written, except those of plan_c_node.c; the text of
 * E_UNSUPPORTED lists all such nodes of the plan. */
#ifndef AGENT_PLAN_C_H
#define AGENT_PLAN_C_H

#include "agent/run/plan.h"

enum { PLAN_C_NAME = 48 };

/* How NAME.h and NAME.c begin, with NAME for %s: these bytes tell the files from those of an application. */
#define PLAN_C_HEADER "/* %s: a neural network, made by hone "
#define PLAN_C_SOURCE "/* Made by hone; %s.h says what it is. */\n"

struct plan_c_sizes {
	size_t code_bytes, weight_bytes; /* sizes of the objects' sections */
	size_t source_bytes;             /* of NAME.c */
	size_t arena_bytes;              /* RAM, one thread */
	size_t thread_bytes;             /* part of it; each further thread needs as much */
	int kernels;                     /* number of different compiled kernels */
	int portable;                    /* steps in plain C */
};

/* Whether plan_c_write can write a node that is no task (STEP_HOST). */
bool plan_c_has_form(const struct graph *g, int node);
/* Turns any text into a prefix of C names: letters, digits, and single '_' between them (C++ reserves "__");
 * "net" is put first unless it begins with a letter, and if NAME.h would hide a header of the C library. */
void plan_c_name(const char *text, char out[PLAN_C_NAME]);
/* p: from plan_build_whole; name: from plan_c_name. */
int plan_c_write(const struct plan *p, const char *dir, const char *name,
		 struct plan_c_sizes *out) MUST_CHECK;

#endif
