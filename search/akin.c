/* SPDX-License-Identifier: Apache-2.0 */
#include "search/akin.h"

#include <math.h>

void akin_add(struct akin *k, const struct task *t, int from, const char *cand)
{
	if (k->n == AKIN_MAX)
		return;
	k->w[k->n++] = (struct winner){.kind = task_kind(t),
				       .task = t,
				       .cand = arena_strdup(&k->arena, cand),
				       .from = from,
				       .flops = task_flops(t)};
}

void heard_open(struct heard *h, const struct task *t)
{
	*h = (struct heard){.kind = task_kind(t), .flops = task_flops(t)};
}

const struct winner *akin_next(const struct akin *k, struct heard *h, int self)
{
	int best = -1;
	double nearest = INFINITY;
	for (int i = 0; i < k->n; i++) {
		const struct winner *w = &k->w[i];
		double far = fabs(log((w->flops + 1) / (h->flops + 1)));
		if (h->told >> i & 1 || w->from == self || !key_equal(w->kind, h->kind) || far >= nearest)
			continue;
		best = i;
		nearest = far;
	}
	if (best < 0)
		return NULL;
	h->told |= UINT64_C(1) << best;
	return &k->w[best];
}
