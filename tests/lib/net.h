/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs for tests, made with the zoo's helpers. */
#ifndef TESTS_NET_H
#define TESTS_NET_H

#include "kernels/graph/graph.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/test.h"
#include "tools/hone/zoo.h"

static inline struct zoo net_begin(const char *name)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->name = name;
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	rng_seed(&z.rng, 7);
	return z;
}

/* Ends the graph with output y, and optimises it. */
static inline struct graph *net_end(struct zoo *z, int y)
{
	zoo_output(z, y, "y");
	CHECK_OK(z->rc);
	CHECK_OK(graph_infer(z->g));
	CHECK_OK(graph_optimize(z->g));
	return z->g;
}

#endif
