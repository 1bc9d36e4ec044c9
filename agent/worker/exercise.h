/* SPDX-License-Identifier: Apache-2.0 */
/* A task made runnable: inputs and constants of seeded random values, a poisoned output, and the answers that
 * a kernel must give.
 *
 * Answers are double-precision values at sampled points, computed once; later kernels are also compared in
 * full with the output of the first accepted one. Halos of the output must stay poisoned, and nothing else
 * may. All kernels of a task share its exercise; guard pages end its memory. */
#ifndef AGENT_EXERCISE_H
#define AGENT_EXERCISE_H

#include "kernels/loops/code.h"
#include "platform/base/pages.h"

/* |got - want| <= TOLERANCE_REL * max |want| + TOLERANCE_ABS */
#define TOLERANCE_REL 2e-4
#define TOLERANCE_ABS 1e-6

struct packed; /* a constant in one packing */

struct exercise {
	struct exercise *next; /* the runner's list, newest use first */
	int users;             /* built kernels that use it */
	struct key key;        /* hash of the text */
	struct task task;
	int out;                         /* operand that the last stage writes */
	int64_t elems[MAX_OPERANDS];     /* physical */
	float *plain[MAX_OPERANDS];      /* constants, row-major: bufs[i] if that is too, else malloc'd */
	struct pages data[MAX_OPERANDS]; /* physical, except tmp; the output shared with children */
	void *bufs[MAX_OPERANDS];        /* data[i].p, in the form that the reference takes */
	unsigned char *kind;             /* enum elem_kind per physical element of the output */
	int nsamples;
	int64_t *sample_at; /* physical element of the output */
	double *sample;
	double absmax;   /* of the samples */
	float *accepted; /* the first accepted output, malloc'd; NULL: none yet */
	double accepted_absmax;
	struct packed *packed;
};

int exercise_open(const char *text, struct exercise **out) MUST_CHECK; /* E_CORRUPT: not a task; E_NOMEM */
void exercise_close(struct exercise *x);
/* Returns the constant of buffer `b`, packed. All users of one packing share it; each call needs one
 * exercise_unpack. */
int exercise_pack(struct exercise *x, const struct code_buf *b, struct packed **out) MUST_CHECK;
void exercise_unpack(struct exercise *x, struct packed *p);
void *packed_data(const struct packed *p);
size_t packed_bytes(const struct packed *p);
void exercise_poison(struct exercise *x);
/* Judges the output: E_OK, or E_WRONG with a text that says where. Keeps the first good output. */
int exercise_check(struct exercise *x, double *max_rel_err) MUST_CHECK;

#endif
