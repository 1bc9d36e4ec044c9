/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers stay fp32 so that the error is within a limit: generated chains of layers of which one is bad.
 */
#include "tests/lib/quantize.h"

#include <stdlib.h>

enum { CHANNELS = 8, BAD_CHANNEL = 3, CASES = 12 };

static struct graph *chain_net(int seed, int layers)
{
	struct zoo z = net_begin("chain");
	rng_seed(&z.rng, (uint64_t)seed);
	struct fmap x = zoo_input(&z, "x", 3, 9, 9);
	for (int i = 0; i < layers; i++) {
		struct zoo_conv c = {.k = i == layers - 1 ? 5 : CHANNELS, .r = 1, .stride = 1};
		if (maybe(&z, 2))
			c = (struct zoo_conv){.k = c.k, .r = 3, .pad = 1, .stride = 1};
		c.act = i == layers - 1 ? ACT_NONE : ACT_RELU;
		x = zoo_conv(&z, x, c);
	}
	zoo_output(&z, x.value, "y");
	CHECK_OK(z.rc);
	CHECK_OK(graph_infer(z.g));
	return z.g;
}

/* Input i of the layer-th convolution: 1 its weights, 2 its bias. */
static struct tensor *part_of(const struct graph *g, int layer, int i)
{
	for (int n = 0; n < g->nnodes; n++)
		if (!strcmp(node_type(&g->node[n]), "Conv") && layer-- == 0)
			return &g->value[g->node[n].in[i]].t;
	return NULL;
}

static void scale_filter(struct tensor *w, float factor)
{
	int64_t n = w->shape.d[1] * w->shape.d[2] * w->shape.d[3];
	for (int64_t i = 0; i < n; i++)
		((float *)w->data)[BAD_CHANNEL * n + i] *= factor;
}

static void scale_channel(struct tensor *w, float factor)
{
	int64_t n = w->shape.d[2] * w->shape.d[3];
	for (int64_t k = 0; k < w->shape.d[0]; k++)
		for (int64_t i = 0; i < n; i++)
			((float *)w->data)[(k * w->shape.d[1] + BAD_CHANNEL) * n + i] *= factor;
}

/* One channel between the layers `bad` and bad + 1 is 300 times as large as the others, but weighs as much.
 */
static void make_bad(struct graph *g, int bad)
{
	scale_filter(part_of(g, bad, 1), 300);
	((float *)part_of(g, bad, 2)->data)[BAD_CHANNEL] *= 300;
	scale_channel(part_of(g, bad + 1, 1), 1.0f / 300);
}

/* The channel behind the first layer is 0 on all examples but those that are held out: the range that
 * calibration sees is much too small for these. */
static void make_bad_held_out(struct quantised *q)
{
	struct tensor *w = part_of(q->g, 0, 1);
	const float steep = 40;
	int64_t taps = w->shape.d[2] * w->shape.d[3];
	scale_filter(w, 0);
	((float *)w->data)[BAD_CHANNEL * 3 * taps + taps / 2] = steep;
	((float *)part_of(q->g, 0, 2)->data)[BAD_CHANNEL] = -steep * 1.5f;
	scale_channel(part_of(q->g, 1, 1), 2 / steep);
	for (int i = 0; i < EXAMPLES; i++)
		for (int k = 0; k < 3 * 81; k++)
			((float *)q->example[i].in[0].data)[k] *= k >= 81 || i == 4 ? 4 : 1;
}

static double larger_error(const struct quantised *q)
{
	return fmax(q->r.error, q->r.held_out_error);
}

/* The network of a seed: which layer is bad, and in which way. */
static int start(struct quantised *q, int seed, bool held_out)
{
	int layers = 3 + seed % 4, bad = held_out ? 0 : seed / 2 % (layers - 1);
	quantised_start(q);
	quantised_take(q, chain_net(seed, layers), 1);
	if (held_out)
		make_bad_held_out(q);
	else
		make_bad(q->g, bad);
	return bad;
}

/* The error that the others make, with a tenth to spare; 0: the bad layer is not worse than they are. */
static double error_of_others(int seed, bool held_out)
{
	struct quantised q;
	const char *keep[2];
	int bad = start(&q, seed, held_out);
	CHECK_OK(quantised_run(&q));
	double all = larger_error(&q);
	quantised_end(&q);
	start(&q, seed, held_out);
	for (int i = 0, n = 0; i < q.g->nnodes; i++)
		if (!strcmp(node_type(&q.g->node[i]), "Conv") && (n++ == bad || n == bad + 2))
			keep[n - 1 - bad] = q.g->node[i].name;
	q.o.keep = keep;
	q.o.nkeep = 2;
	CHECK_OK(quantised_run(&q));
	double others = larger_error(&q) * 1.1;
	quantised_end(&q);
	return others < all / 2 ? others : 0;
}

TEST(one_bad_layer_leaves_the_others)
{
	int n = getenv("HONE_TEST_CHAINS") ? atoi(getenv("HONE_TEST_CHAINS")) : CASES, tried = 0;
	for (int seed = 1; seed <= n; seed++) {
		struct quantised q;
		bool held_out = seed % 2;
		double most = error_of_others(seed, held_out);
		if (!(most > 0))
			continue;
		tried++;
		start(&q, seed, held_out);
		q.o.most = most;
		CHECK_OK(quantised_run(&q));
		bool good = larger_error(&q) <= most && q.r.nquantised >= q.r.nlayers - 2;
		CHECK(good);
		if (!good)
			printf("seed %d: %d of %d layers, error %g, limit %g\n", seed, q.r.nquantised,
			       q.r.nlayers, larger_error(&q), most);
		quantised_end(&q);
	}
	CHECK(tried > n / 2);
}

TEST_MAIN
