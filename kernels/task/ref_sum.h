/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction of the reference with its addresses in tables. An element's offset is a sum over its dims (over
 * split dims too), and dims that only reduction axes index are the same at every point. */
#ifndef KERNELS_REF_SUM_H
#define KERNELS_REF_SUM_H

#include "kernels/task/task.h"

struct ref_dim {
	const struct index *x;
	int64_t extent;
	const int32_t *part;  /* per index of the dim: its share of the offset */
	const int32_t *moves; /* per step: what reduction axes add to the index; NULL: nothing */
	bool bent;            /* the sum of both is then divided, or taken modulo */
};

struct ref_read {
	const struct read *rd;
	const int32_t *fixed; /* per step: offset of the dims that only reduction axes index; -1: outside
			       * of the operand */
	int nmoving, nstill;  /* dims that spatial and reduction axes index; that only spatial axes index */
	struct ref_dim moving[MAX_RANK], still[MAX_RANK];
};

struct ref_sum {
	int nspatial;
	int32_t steps;
	int nreads; /* 2: the body is their product */
	struct ref_read read[2];
};

/* A read at one spatial point. */
struct ref_bound {
	int64_t base;         /* -1: outside at every step */
	int64_t at[MAX_RANK]; /* indexes of the moving dims */
};

/* *out NULL: stage k does not reduce one read or a product of two, or the tables would be too large. */
int ref_sum_plan(const struct task *t, int k, void *const *bufs, struct arena *a,
		 struct ref_sum **out) MUST_CHECK;
void ref_sum_bind(const struct stage *s, const struct ref_read *r, const struct operand *o, void *const *bufs,
		  const int64_t *at, struct ref_bound *out);
/* Sets the reduction axes' part of a point. */
void ref_sum_step(const struct stage *s, const struct ref_sum *sum, int32_t step, int64_t *at);

/* The floor of v / x->div, modulo x->mod. */
int64_t index_bend(const struct index *x, int64_t v);

/* Offset of the element that a step reads; -1: outside. */
static inline int64_t ref_sum_offset(const struct ref_read *r, const struct ref_bound *b, int32_t step)
{
	int64_t off = b->base + r->fixed[step];
	if (r->fixed[step] < 0)
		return -1;
	for (int j = 0; j < r->nmoving; j++) {
		int64_t i = b->at[j] + r->moving[j].moves[step];
		i = r->moving[j].bent ? index_bend(r->moving[j].x, i) : i;
		if (i < 0 || i >= r->moving[j].extent)
			return -1;
		off += r->moving[j].part[i];
	}
	return off;
}

#endif
