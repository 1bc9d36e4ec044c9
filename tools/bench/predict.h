/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts how long a kernel takes on a processor that is not here, from what needs no clock: the loops of
 * its machine code with the cycles that LLVM's model of the processor gives them (tools/bench/machine.h), how
 * often each of them runs (tools/bench/nest.h), and the bytes that cross each level of its caches
 * (tools/bench/lru.h). A prediction is no measurement: how far it is off was measured on x86 alone
 * (tools/bench/bench_predict.c). */
#ifndef TOOLS_PREDICT_H
#define TOOLS_PREDICT_H

#include "kernels/task/task.h"
#include "platform/machine/target.h"
#include "tools/bench/lru.h"
#include "tools/bench/machine.h"

/* A processor: what code is made for, and what is said of its speed. */
struct predict_cpu {
	struct target target;          /* with caches; its peaks are of the draft alone */
	char triple[48], features[64]; /* of llvm-objdump-19 */
	char model[32];                /* of llvm-mca-19 */
	double mhz;                    /* clock; 0: not known */
	double gbs[4];                 /* read speed of L1, L2, L3 and memory; 0: not known */
};

/* What a kernel does, without a clock. */
struct predict_work {
	double cycles;   /* of all instructions, if all data are in the first cache */
	double bytes[3]; /* that come from, or go back to, L2, L3 (0: there is none) and memory */
	double instructions;
	int loops, unmatched; /* loops of the program, and those without a loop of machine code */
};

/* How much of each part of the work a processor cannot hide behind the others; fitted by bench_predict. */
struct predict_constants {
	double core;    /* factor of the model's cycles */
	double move[3]; /* factors of the times that the bytes take at the speeds of L2, L3 and memory */
	double overlap; /* 1: moving bytes adds to the rest; the higher, the more it is hidden behind it */
};
extern const struct predict_constants predict_fitted;

/* The work of a kernel in a network: its constants come from memory, its inputs were just made. dir: a folder
 * for files. E_INFEASIBLE: there is no such kernel. One that spills counts. */
int predict_work(const struct task *t, const char *cand, const struct predict_cpu *cpu, const char *dir,
		 struct predict_work *out) MUST_CHECK;
/* Nanoseconds. The clock must be known, and the speed of each level that has bytes. */
double predict_ns(const struct predict_work *w, const struct predict_cpu *cpu,
		  const struct predict_constants *c);

#endif
