/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction of the reference with its addresses in tables: an element's offset is a sum over its dims, for
 * layouts split dims only, and the dims that reduction axes alone decide are the same at every point. */
#ifndef KERNELS_REF_SUM_H
#define KERNELS_REF_SUM_H

#include "kernels/task/task.h"

struct ref_dim {
	const struct index *x;
	int64_t extent;
	const int32_t *part;  /* what each of its indexes adds to the offset */
	const int32_t *moves; /* by step: what reduction axes add to the index; NULL: they do not */
};

struct ref_read {
	const struct read *rd;
	const int32_t *fixed; /* by step: what dims of reduction axes alone add; -1: outside the operand */
	int nmoving, nstill;  /* dims that spatial axes decide too, and alone */
	struct ref_dim moving[MAX_RANK], still[MAX_RANK];
};

struct ref_sum {
	int nspatial;
	int32_t steps;
	int nreads; /* 2: their product */
	struct ref_read read[2];
};

/* A read at one spatial point. */
struct ref_bound {
	int64_t base;         /* -1: outside, whatever the step */
	int64_t at[MAX_RANK]; /* of the moving dims */
};

/* *out NULL: stage k reduces something else than one read or a product of two, or too much. */
int ref_sum_plan(const struct task *t, int k, void *const *bufs, struct arena *a,
		 struct ref_sum **out) MUST_CHECK;
void ref_sum_bind(const struct stage *s, const struct ref_read *r, const struct operand *o, void *const *bufs,
		  const int64_t *at, struct ref_bound *out);
/* The reduction axes' part of a point. */
void ref_sum_step(const struct stage *s, const struct ref_sum *sum, int32_t step, int64_t *at);

/* Of the element that a step reads; -1: outside. */
static inline int64_t ref_sum_offset(const struct ref_read *r, const struct ref_bound *b, int32_t step)
{
	int64_t off = b->base + r->fixed[step];
	if (r->fixed[step] < 0)
		return -1;
	for (int j = 0; j < r->nmoving; j++) {
		int64_t i = b->at[j] + r->moving[j].moves[step];
		if (i < 0 || i >= r->moving[j].extent)
			return -1;
		off += r->moving[j].part[i];
	}
	return off;
}

#endif
