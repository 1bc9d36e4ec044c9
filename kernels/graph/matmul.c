/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/matmul.h"

int matmul_plan(const struct shape *a, const struct shape *b, struct matmul *p)
{
	*p = (struct matmul){.m = 1, .n = 1};
	if (a->rank < 1 || b->rank < 1)
		return fail(E_CORRUPT, "a scalar has no matrix product");
	p->k = a->d[a->rank - 1];
	int64_t k = b->rank > 1 ? b->d[b->rank - 2] : b->d[0];
	if (p->k != k)
		return fail(E_CORRUPT, "inner sizes %lld and %lld differ", (long long)p->k, (long long)k);
	if (a->rank > 1)
		p->m = a->d[a->rank - 2];
	if (b->rank > 1)
		p->n = b->d[b->rank - 1];
	p->a = (struct shape){.rank = a->rank > 2 ? a->rank - 2 : 0};
	p->b = (struct shape){.rank = b->rank > 2 ? b->rank - 2 : 0};
	for (int i = 0; i < p->a.rank; i++)
		p->a.d[i] = a->d[i];
	for (int i = 0; i < p->b.rank; i++)
		p->b.d[i] = b->d[i];
	int rc = shape_broadcast(&p->a, &p->b, &p->batch);
	if (rc < 0)
		return rc;
	p->out = p->batch;
	if (a->rank > 1)
		p->out.d[p->out.rank++] = p->m;
	if (b->rank > 1)
		p->out.d[p->out.rank++] = p->n;
	return E_OK;
}
