/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of the portable path that reduce nothing, or over one point, and whose operands all lie in memory as
 * loops with constant steps: the same or another order of axes, blocked or plain, halos, broadcasts,
 * nearest-neighbour factors; no tables and no guards. Loops that continue each other are one; programs run
 * over blocks of up to HOST_BLOCK floats. */
#ifndef AGENT_HOST_FLAT_H
#define AGENT_HOST_FLAT_H

#include "agent/run/host_prog.h"

enum { FLAT_LOOPS = 2 * MAX_AXES, FLAT_OUT = MAX_OPERANDS, FLAT_REFS };

/* What a loop adds to the element of each reference: reads are numbered as the stage's, the output is
 * FLAT_OUT. */
struct flat_loop {
	int64_t n, step[FLAT_REFS];
};

struct flat_nest {
	int nloops; /* the innermost one runs over pieces of rows */
	struct flat_loop loop[FLAT_LOOPS];
	int64_t base[FLAT_REFS], step[FLAT_REFS]; /* of a piece's elements */
	int64_t row, piece;                       /* elements */
	int64_t pitch;                            /* of pieces in a block: whole vectors, if they are long */
	int64_t pieces;                           /* in total */
	bool lines; /* a block ends with the loop before the last, along which short rows have values in
		       common */
	struct host_prog body, post;
};

struct flat {
	const struct stage *s;
	struct flat_nest nest[2]; /* whole blocks; rest of the split axis (no pieces: none) */
	bool copy;
};

/* Stage k of t; `operand` are the task's, with constants as they are packed: another layout may be chosen for
 * them if `may_pack`. *out is NULL if the stage has no such form. */
int flat_make(const struct task *t, int k, struct operand operand[MAX_OPERANDS], bool may_pack,
	      struct arena *a, struct flat **out) MUST_CHECK;
int64_t flat_extent(const struct flat *f);
size_t flat_scratch_bytes(void); /* per thread */
void flat_run(const struct flat *f, void *const *bufs, int64_t begin, int64_t end, void *scratch);

#endif
