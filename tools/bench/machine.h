/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of machine code, from its disassembly (llvm-objdump-19), and what LLVM's models of processors say
 * of their instructions (llvm-mca-19). Both programs are of Debian's package llvm-19. */
#ifndef TOOLS_MACHINE_H
#define TOOLS_MACHINE_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include "platform/base/file.h"

struct machine_line {
	unsigned long at; /* byte in the object's code */
	const char *text; /* the instruction, as the model reads it */
	unsigned long to; /* a jump's target; 0: no jump, or to the start of the code */
	bool jumps;
};

/* A loop, or (the first one) the whole of a function. A loop is before those in it; loops side by side are in
 * the order in which they run. */
struct machine_loop {
	int parent, depth;
	double
	    cycles; /* machine_model: of one run of its own instructions, without those of the loops in it */
	int own;    /* their number */
};

struct machine {
	struct machine_line *line;
	int nlines;
	int *owner; /* per instruction: the innermost loop that it is in */
	struct machine_loop *loop;
	int nloops;
};

/* Whether the two programs are there. */
bool machine_is_here(void);
/* Disassembles a function ("k0") of an object. triple, features: of llvm-objdump ("aarch64-linux-gnu",
 * "+neon"). dir: a folder for files. E_IO: the program fails; E_NOTFOUND: there is no such function. */
int machine_read(struct arena *a, const char *dir, const struct blob *object, const char *function,
		 const char *triple, const char *features, struct machine *out) MUST_CHECK;
/* The same from the disassembler's text. */
int machine_parse(struct arena *a, const char *text, const char *function, struct machine *out) MUST_CHECK;
/* Fills in the cycles of all loops. cpu: a processor that LLVM has a model of ("cortex-a72"). A loop without
 * loops in it runs over and over in the model, so that it waits for its own results; so do the instructions
 * around other loops. E_IO: the program fails, or knows no such processor. */
int machine_model(const char *dir, const char *triple, const char *cpu, struct machine *m) MUST_CHECK;

#endif
