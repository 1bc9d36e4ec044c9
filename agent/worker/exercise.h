/* SPDX-License-Identifier: Apache-2.0 */
/* A task made runnable: inputs and constants of seeded random values, a poisoned output, and the answers that
 * a kernel must give.
 *
 * Answers are double-precision values at sampled points, computed once; later kernels are also compared in
 * full with the output of the first accepted one; bytes must be equal. Halos of the output must stay
 * poisoned, and nothing else may. As every byte is a possible value, a kernel that writes bytes runs twice,
 * with the opposite poison (exercise_again). All kernels of a task share its exercise, and exercises share
 * constants (agent/worker/constants.h); guard pages end its memory. */
#ifndef AGENT_EXERCISE_H
#define AGENT_EXERCISE_H

#include "agent/worker/constants.h"

/* |got - want| <= TOLERANCE_REL * max |want| + TOLERANCE_ABS */
#define TOLERANCE_REL 2e-4
#define TOLERANCE_ABS 1e-6
/* TOLERANCE_REL for a kernel that rounds its operands to bf16, which has 8 digits, or that rounds sums to
 * f16, which has 11 digits, up to 72 times. */
#define TOLERANCE_PAIRS 1e-2

struct exercise {
	struct exercise *next; /* the runner's list, newest use first */
	int users;             /* built kernels that use it */
	struct key key;        /* hash of the text */
	struct task task;
	int out;                         /* operand that the last stage writes */
	int64_t elems[MAX_OPERANDS];     /* physical */
	int past[MAX_OPERANDS];          /* and those past the end that kernels read, task_past */
	struct constant **constants;     /* of all exercises of the runner */
	struct constant *constant[MAX_OPERANDS]; /* NULL: not a constant of floats or bytes */
	/* Physical, except tmp; the output is shared with children, a constant's memory is its own. */
	struct pages data[MAX_OPERANDS];
	void *bufs[MAX_OPERANDS];        /* data[i].p, in the form that the reference takes */
	bool again;                      /* the second poison of bytes */
	bool *kept;                      /* per byte of the output: the first run left its poison */
	unsigned char *kind;             /* enum elem_kind per physical element of the output */
	int nsamples;
	int64_t *sample_at; /* physical element of the output */
	double *sample;
	double absmax;   /* of the samples */
	void *accepted;  /* the first accepted output, malloc'd; NULL: none yet */
	double accepted_absmax;
	double tolerance; /* during a check */
};

/* constants: the list that exercises share, empty at first; it outlives them. */
int exercise_open(const char *text, struct constant **constants,
		  struct exercise **out) MUST_CHECK; /* E_CORRUPT: not a task; E_NOMEM */
void exercise_close(struct exercise *x);
void exercise_poison(struct exercise *x);
/* After a run: poisons an output of bytes for the second run and returns true; false: one run is enough. */
bool exercise_again(struct exercise *x);
/* Judges the output: E_OK, or E_WRONG with a text that says where. tolerance: TOLERANCE_REL or
 * TOLERANCE_PAIRS. Keeps the first good output of a kernel with the smaller one. */
int exercise_check(struct exercise *x, double tolerance, double *max_rel_err) MUST_CHECK;

#endif
