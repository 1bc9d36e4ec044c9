/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a plan's output with the evaluated graph's. */
#ifndef TESTS_PLAN_ERROR_H
#define TESTS_PLAN_ERROR_H

#include "agent/run/plan.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "tests/lib/test.h"

#include <math.h>

/* Largest difference of the plan's output to the evaluated graph's, relative to its largest value. */
static inline double plan_error(struct graph *g, const struct steps *s, const struct target *t,
				const struct kernel_source *src, int threads)
{
	struct arena a = {0};
	struct plan *p = NULL;
	struct pool *pool = NULL;
	struct rng r;
	struct tensor in, out, *ref = ARENA_ARRAY(&a, struct tensor, g->nvalues + 1);
	const struct tensor *x = &g->value[g->input[0]].t, *y = &g->value[g->output[0]].t;
	rng_seed(&r, 3);
	CHECK_OK(tensor_alloc(&a, DT_F32, &x->shape, &in));
	CHECK_OK(tensor_alloc(&a, DT_F32, &y->shape, &out));
	rng_fill(&r, in.data, (size_t)shape_count(&x->shape));
	if (threads > 1)
		CHECK_OK(pool_open(&pool, threads, NULL));
	CHECK_OK(plan_build(g, s, t, src, pool, &p));
	for (int run = 0; run < 2 && p; run++) /* the second run finds the memory as the first one left it */
		CHECK_OK(plan_run(p, &in, &out));
	CHECK_OK(eval_graph(g, &in, ref, &a));
	const float *got = out.data, *want = ref[g->output[0]].data;
	double worst = 0, top = 1e-30;
	for (int64_t i = 0; i < shape_count(&y->shape); i++) {
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
		top = fmax(top, fabs((double)want[i]));
	}
	plan_free(p);
	if (pool)
		pool_close(pool);
	arena_free(&a);
	return worst / top;
}

#endif
