/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the portable path share: host.c makes stages ready, host_run.c runs them. */
#ifndef AGENT_HOST_PARTS_H
#define AGENT_HOST_PARTS_H

#include "agent/run/host.h"
#include "agent/run/host_flat.h"

enum { ROWS = 8, RUN = HOST_BLOCK / ROWS, GUARDS = 3 };

/* A read. Offset of a row at reduction point p: offset of the row's first element at p = 0, plus delta[p], if
 * every dim is affine or of one kind of axes ("fast"); else element by element. */
struct view {
	const struct read *r;
	const struct operand *o;
	int naxes;
	struct phys_axis ax[MAX_SPLITS];
	bool fast;
	int64_t step;   /* elements per step along the run */
	int64_t *delta; /* per reduction point; NULL: all 0 */
	int nguards, guard_dim[GUARDS];
	int64_t *guard_delta[GUARDS]; /* index of the guarded dim moves by */
};

struct hstage {
	const struct stage *s;
	int nspatial, axis; /* axis: the run's */
	int64_t run, extent, points;
	struct view view[MAX_OPERANDS];
	const struct operand *out;
	struct view to;
	int64_t out_step;
	bool product;      /* body is r0 r1 mul, summed, both fast */
	struct flat *flat; /* if set, only s and extent of the above are used */
};

struct host_task {
	const struct task *t;
	struct operand operand[MAX_OPERANDS]; /* with constants as they are packed */
	struct hstage stage[MAX_STAGES];
};

/* The part of an offset that dim d gives at logical index i, of n physical axes of o. */
static inline int64_t host_offset(const struct phys_axis *ax, int n, const struct operand *o, int d,
				  int64_t i)
{
	int64_t off = 0;
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != d)
			continue;
		int64_t v = i + o->layout.lo[d];
		if (ax[j].div > 1)
			v /= ax[j].div;
		off += (ax[j].mod ? v % ax[j].mod : v) * ax[j].stride;
	}
	return off;
}

bool host_is_split(const struct operand *o, int d); /* dim d is more than one physical axis */

#endif
