/* SPDX-License-Identifier: Apache-2.0 */
/* A network of the zoo with all of its values, as the reference computes them of seeded inputs. */
#ifndef TESTS_ZOO_VALUES_H
#define TESTS_ZOO_VALUES_H

#include "kernels/graph/eval.h"
#include "tests/lib/test.h"
#include "tools/hone/model.h"
#include "tools/hone/zoo.h"

/* Makes the network; *t, in the arena, gets a tensor for each value. Returns the graph, for graph_free; NULL
 * after a failed check. */
static inline struct graph *zoo_values(const char *name, struct arena *a, struct tensor **t)
{
	struct graph *g = NULL;
	struct tensor *in;
	int rc = zoo_make(name, 1, &g);
	*t = rc < 0 ? NULL : ARENA_ARRAY(a, struct tensor, g->nvalues);
	if (rc >= 0)
		rc = model_inputs(g, 1, a, &in);
	if (rc >= 0)
		rc = eval_graph(g, in, *t, a);
	CHECK_OK(rc);
	return g;
}

#endif
