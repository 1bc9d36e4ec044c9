/* SPDX-License-Identifier: Apache-2.0 */
/* Runs graphs with the kernels that need no tuning. */
#include "agent/cache/chosen.h"
#include "agent/quantize/quantize_parts.h"
#include "platform/base/until.h"

static int alloc_outputs(struct qnet *net)
{
	const struct graph *g = net->g;
	net->out = ARENA_ARRAY(&net->arena, struct tensor, g->noutputs + 1);
	for (int i = 0; i < g->noutputs; i++) {
		const struct tensor *t = &g->value[g->output[i]].t;
		int rc = tensor_alloc(&net->arena, t->dtype, &t->shape, &net->out[i]);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int qnet_open(struct graph *g, const struct quantize_opts *o, struct qnet *net)
{
	const struct chosen_for f = {NULL, o->target, pool_threads(o->pool), LEVEL_EXACT};
	struct choices choices;
	struct steps *steps;
	*net = (struct qnet){.g = g};
	int rc = chosen_steps(&f, g, &net->arena, &choices, &steps);
	if (rc >= 0)
		rc = plan_build(g, steps, o->target, NULL, o->pool, &net->plan);
	if (rc >= 0)
		rc = alloc_outputs(net);
	if (rc < 0)
		qnet_close(net);
	return rc;
}

int qnet_run(struct qnet *net, const struct quantize_example *e)
{
	int rc = until_check();
	return rc < 0 ? rc : fail_in(plan_run(net->plan, e->in, net->out), "%s", e->name);
}

void qnet_close(struct qnet *net)
{
	plan_free(net->plan);
	graph_free(net->g);
	arena_free(&net->arena);
	*net = (struct qnet){0};
}
