/* SPDX-License-Identifier: Apache-2.0 */
/* Imports any bytes as a model: the result is an error or a graph, in bounded memory; a small graph is also
 * run. */
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include "kernels/onnx/look.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MAX_NODES = 32, MAX_ELEMS = 512 };

static bool is_small(const struct graph *g)
{
	bool small = g->nnodes <= MAX_NODES;
	for (int v = 0; small && v < g->nvalues; v++)
		small = shape_count(&g->value[v].t.shape) <= MAX_ELEMS;
	return small;
}

static void run(const struct graph *g)
{
	struct arena a = {.cap_bytes = 256 << 20};
	struct tensor *in = ARENA_ARRAY(&a, struct tensor, g->ninputs + 1);
	struct tensor *t = ARENA_ARRAY(&a, struct tensor, g->nvalues + 1);
	int rc = 0;
	for (int i = 0; rc >= 0 && i < g->ninputs; i++) {
		const struct tensor *like = &g->value[g->input[i]].t;
		rc = tensor_alloc(&a, like->dtype, &like->shape, &in[i]);
		for (int64_t k = 0; rc >= 0 && k < shape_count(&like->shape); k++)
			tensor_set(&in[i], k, (double)(k % 7 - 3));
	}
	if (rc >= 0)
		rc = eval_graph(g, in, t, &a);
	arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const struct import_opts o = {.max_bytes = 256 << 20};
	struct graph *g;
	struct arena seen = {0};
	struct onnx_look look;
	(void)!look_bytes(p, n, NULL, &seen, &look);
	arena_free(&seen);
	if (import_bytes(p, n, NULL, &o, &g) < 0)
		return 0;
	struct buf b = {0};
	graph_print(g, &b);
	buf_free(&b);
	if (is_small(g))
		run(g);
	graph_free(g);
	return 0;
}
