/* SPDX-License-Identifier: Apache-2.0 */
/* Quantises small networks in tests, and runs what comes out. */
#ifndef TESTS_QUANTIZE_H
#define TESTS_QUANTIZE_H

#include "agent/quantize/quantize.h"
#include "agent/run/machine.h"
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include "tests/lib/net.h"
#include "tests/lib/scratch.h"

#include <math.h>

enum { EXAMPLES = 6 };

static inline int maybe(struct zoo *z, int of)
{
	return (int)rng_below(&z->rng, (uint32_t)of);
}

static inline struct fmap random_conv(struct zoo *z, struct fmap x, int64_t k, int64_t r, int64_t groups)
{
	return zoo_conv(z, x,
			(struct zoo_conv){.k = k,
					  .r = r,
					  .stride = 1,
					  .pad = r / 2,
					  .groups = groups,
					  .norm = maybe(z, 2),
					  .act = (enum act)maybe(z, ACT_RELU6 + 1)});
}

/* 3x3, depthwise and 1x1 convolutions, a sum, a Concat, pools, and a classifier, as the seed says. */
static inline struct graph *random_net(int seed)
{
	struct zoo z = net_begin("random");
	rng_seed(&z.rng, (uint64_t)seed);
	int64_t k = 4 + 2 * maybe(&z, 6);
	struct fmap x = random_conv(&z, zoo_input(&z, "x", 1 + maybe(&z, 5), 12, 11), k, 3, 0);
	struct fmap y = random_conv(&z, random_conv(&z, x, k, 3, k), k, 1, 0);
	y = maybe(&z, 2) ? zoo_add(&z, x, y) : zoo_concat(&z, x, y);
	if (maybe(&z, 2))
		y = zoo_act(&z, y, ACT_RELU);
	if (maybe(&z, 2))
		y = zoo_max_pool(&z, y, 3, 2, 1, false);
	y = random_conv(&z, y, 8, 1, maybe(&z, 2) ? 2 : 0);
	int v = seed % 3 ? zoo_dense(&z, zoo_mean(&z, y).value, 8, 5, 1) : y.value;
	zoo_output(&z, v, "y");
	CHECK_OK(z.rc);
	CHECK_OK(graph_infer(z.g));
	return z.g;
}

/* A network, its examples and what quantize_graph made of them. */
struct quantised {
	struct arena arena;
	struct target target;
	struct quantize_opts o;
	struct quantize_example example[EXAMPLES];
	struct graph *g, *out;
	struct quantize_report r;
};

static inline void quantised_start(struct quantised *q)
{
	*q = (struct quantised){.o = {.weight_bits = 8, .scan = 2}};
	CHECK_OK(target_host(&q->target));
	CHECK_OK(machine_pool(1, false, &q->o.pool));
	q->o.target = &q->target;
}

/* Takes the network, and makes seeded examples of its inputs: numbers of [-1, 1] times `factor`. */
static inline void quantised_take(struct quantised *q, struct graph *g, float factor)
{
	struct rng rng;
	rng_seed(&rng, 99);
	q->g = g;
	for (int i = 0; i < EXAMPLES; i++) {
		struct tensor *in = ARENA_ARRAY(&q->arena, struct tensor, g->ninputs + 1);
		for (int k = 0; k < g->ninputs; k++) {
			const struct tensor *t = &g->value[g->input[k]].t;
			int64_t n = shape_count(&t->shape);
			CHECK_OK(tensor_alloc(&q->arena, t->dtype, &t->shape, &in[k]));
			rng_fill(&rng, in[k].data, (size_t)n);
			for (int64_t j = 0; j < n; j++)
				((float *)in[k].data)[j] *= factor;
		}
		q->example[i] = (struct quantize_example){arena_printf(&q->arena, "example %d", i), in};
	}
}

static inline int quantised_run(struct quantised *q)
{
	return quantize_graph(q->g, q->example, EXAMPLES, &q->o, &q->arena, &q->r, &q->out);
}

static inline void quantised_end(struct quantised *q)
{
	graph_free(q->out);
	graph_free(q->g);
	pool_close(q->o.pool);
	arena_free(&q->arena);
}

/* The result as a file, read again. */
static inline struct graph *quantised_import(const struct quantised *q)
{
	struct graph *g = NULL;
	const char *path = scratch("out.onnx");
	CHECK_OK(export_file(q->out, path));
	CHECK_OK(import_file(path, NULL, &g));
	return g;
}

/* The first output of a graph on an example, by the reference. */
static inline struct tensor quantised_eval(const struct graph *g, const struct quantize_example *e,
					   struct arena *a)
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->nvalues + 1);
	CHECK_OK(eval_graph(g, e->in, t, a));
	return t[g->output[0]];
}

/* |x - y| / |y| of floats. */
static inline double distance(const struct tensor *x, const struct tensor *y)
{
	double diff = 0, most = 0;
	for (int64_t i = 0; i < shape_count(&y->shape); i++) {
		double d = tensor_get(x, i) - tensor_get(y, i);
		diff += d * d;
		most += tensor_get(y, i) * tensor_get(y, i);
	}
	return sqrt(diff / (most > 0 ? most : 1));
}

static inline int count_type(const struct graph *g, const char *type)
{
	int n = 0;
	for (int i = 0; i < g->nnodes; i++)
		n += !g->node[i].dead && !strcmp(node_type(&g->node[i]), type);
	return n;
}

static inline const struct quantize_layer *layer_named(const struct quantised *q, const char *name)
{
	for (int i = 0; i < q->r.nlayers; i++)
		if (!strcmp(q->r.layer[i].name, name))
			return &q->r.layer[i];
	return NULL;
}

#endif
