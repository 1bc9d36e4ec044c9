/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised networks: standard files that run as integers, close to the network of floats; per-channel
 * weights; ranges; layers that stay fp32. */
#include "agent/quantize/quantize_parts.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/quantize.h"

enum { NETS = 12, MOST_NODES = 200 };

/* Checks the imported file: all products are of integers, and its answers are close. */
static void check_file(struct quantised *q, const struct graph *floats, int seed)
{
	struct arena a = {0};
	struct graph *g = quantised_import(q);
	double worst = 0;
	REQUIRE(g);
	CHECK_OK(graph_optimize(g));
	int left = count_type(g, "Conv") + count_type(g, "Gemm") + count_type(g, "MatMul");
	int bytes = count_type(g, "QLinearConv") + count_type(g, "QLinearMatMul");
	for (int i = 0; i < EXAMPLES; i++) {
		struct tensor ref = quantised_eval(floats, &q->example[i], &a);
		struct tensor got = quantised_eval(g, &q->example[i], &a);
		worst = fmax(worst, distance(&got, &ref));
	}
	if (left || bytes != q->r.nlayers || !(worst < 0.06) ||
	    !(worst < 4 * fmax(q->r.error, q->r.held_out_error) + 1e-3)) {
		printf("seed %d: %d of floats, %d of bytes, %d layers; error %.3g, reported %.3g\n", seed,
		       left, bytes, q->r.nlayers, worst, q->r.error);
		test_bad = 1;
	}
	graph_free(g);
	arena_free(&a);
}

TEST(random_networks_run_as_integers)
{
	for (int seed = 1; seed <= NETS; seed++) {
		struct quantised q;
		struct graph *floats = random_net(seed);
		quantised_start(&q);
		q.o.ranges = seed % 2 ? RANGES_MSE : RANGES_MINMAX;
		q.o.scan = seed % 4 == 0 ? 0 : 2;
		quantised_take(&q, random_net(seed), 1);
		CHECK_OK(quantised_run(&q));
		if (q.out) {
			CHECK(q.r.nquantised == q.r.nlayers && q.r.examples == 5 && q.r.held_out == 1);
			CHECK(q.r.held_out_error < 0.06 && q.r.held_out_error > 0);
			check_file(&q, floats, seed);
		}
		graph_free(floats);
		quantised_end(&q);
	}
}

/* The scan predicts too small an error for some networks: what counts is the error of all together. */
TEST(limits_hold_for_all_together)
{
	int more = 0;
	for (int seed = 1; seed <= NETS; seed++) {
		struct quantised q, limited;
		quantised_start(&q);
		q.o.scan = EXAMPLES;
		quantised_take(&q, random_net(seed), 1);
		REQUIRE_OK(quantised_run(&q));
		quantised_start(&limited);
		limited.o.scan = EXAMPLES;
		limited.o.most = (q.r.predicted + q.r.error) / 2;
		quantised_take(&limited, random_net(seed), 1);
		if (q.r.error > q.r.predicted) {
			more++;
			CHECK_OK(quantised_run(&limited));
			CHECK(limited.r.error <= limited.o.most && limited.r.nquantised < q.r.nquantised);
		}
		quantised_end(&limited);
		quantised_end(&q);
	}
	CHECK(more > 0);
}

/* ---- weights ---- */

static const struct node *node_named(const struct graph *g, const char *name)
{
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead && !strcmp(g->node[i].name, name))
			return &g->node[i];
	return NULL;
}

/* Checks a Conv's weights against the floats: each filter's largest weight is `most`. */
static void check_weights(const struct graph *g, const struct graph *floats, const char *name, int most)
{
	const struct node *n = node_named(g, name), *f = node_named(floats, name);
	REQUIRE(n && f);
	const struct node *d = &g->node[g->value[n->in[1]].producer];
	REQUIRE(!strcmp(node_type(d), "DequantizeLinear") && node_int(d, "axis", 1) == 0);
	const struct tensor *q = &g->value[d->in[0]].t, *s = &g->value[d->in[1]].t;
	const float *w = floats->value[f->in[1]].t.data;
	int64_t filters = q->shape.d[0], depth = shape_count(&q->shape) / filters;
	CHECK(q->dtype == DT_I8 && shape_count(&s->shape) == filters);
	for (int64_t k = 0; k < filters; k++) {
		double scale = tensor_get(s, k), largest = 0;
		for (int64_t i = k * depth; i < (k + 1) * depth; i++) {
			largest = fmax(largest, fabs(tensor_get(q, i)));
			CHECK(fabs(tensor_get(q, i) * scale - (double)w[i]) <= scale * 0.501);
		}
		CHECK(largest == most);
	}
}

TEST(weights_have_a_scale_for_each_filter)
{
	for (int bits = 7; bits <= 8; bits++) {
		struct quantised q;
		quantised_start(&q);
		q.o.weight_bits = bits;
		quantised_take(&q, random_net(3), 1);
		REQUIRE_OK(quantised_run(&q));
		struct graph *g = quantised_import(&q);
		for (int i = 0; i < q.r.nlayers; i++)
			if (!strcmp(q.r.layer[i].type, "Conv"))
				check_weights(g, q.g, q.r.layer[i].name, bits == 7 ? 63 : 127);
		graph_free(g);
		quantised_end(&q);
	}
}

/* Weights that are 0 or tiny beside their bias. */
TEST(scales_are_normal_numbers)
{
	struct quantised q;
	struct zoo z = net_begin("tiny");
	struct fmap x = zoo_input(&z, "x", 3, 6, 6);
	x = zoo_conv(&z, x, (struct zoo_conv){.k = 8, .r = 3, .pad = 1, .stride = 1, .act = ACT_RELU});
	x = zoo_conv(&z, x, (struct zoo_conv){.k = 4, .r = 1, .stride = 1});
	zoo_output(&z, x.value, "y");
	REQUIRE_OK(graph_infer(z.g));
	float *w = z.g->value[z.g->node[0].in[1]].t.data;
	for (int i = 0; i < 3 * 27; i++)
		w[i] = i < 27 ? 0 : i < 54 ? 1e-40f : 1e-12f;
	quantised_start(&q);
	quantised_take(&q, z.g, 1);
	REQUIRE_OK(quantised_run(&q));
	CHECK(q.r.error < 0.05);
	for (int v = 0; v < q.out->nvalues; v++) {
		const struct tensor *t = &q.out->value[v].t;
		for (int64_t i = 0;
		     t->data && strstr(q.out->value[v].name, "_scale") && i < shape_count(&t->shape); i++)
			CHECK(isnormal(tensor_get(t, i)) && tensor_get(t, i) > 1e-37);
	}
	quantised_end(&q);
}

TEST(inputs_of_zeros_are_possible)
{
	struct quantised q;
	quantised_start(&q);
	quantised_take(&q, random_net(2), 0);
	CHECK_OK(quantised_run(&q));
	quantised_end(&q);
}

/* ---- bias ---- */

/* Sum of the absolute mean errors of the channels of a Conv's output. */
static double mean_errors(struct quantised *q, const struct graph *floats)
{
	struct arena a = {0};
	double sum[64] = {0}, total = 0;
	int64_t channels = 1;
	for (int i = 0; i < EXAMPLES - 1; i++) {
		struct tensor ref = quantised_eval(floats, &q->example[i], &a);
		struct tensor got = quantised_eval(q->out, &q->example[i], &a);
		channels = ref.shape.d[1];
		int64_t n = shape_count(&ref.shape), inner = n / channels;
		for (int64_t k = 0; k < n; k++)
			sum[k / inner] += (tensor_get(&got, k) - tensor_get(&ref, k)) / (double)inner;
	}
	for (int64_t k = 0; k < channels; k++)
		total += fabs(sum[k]);
	arena_free(&a);
	return total;
}

/* A Conv of values that are not 0 in the mean. */
static struct graph *biased_net(void)
{
	struct zoo z = net_begin("biased");
	struct fmap x = zoo_input(&z, "x", 8, 9, 9);
	x = zoo_act(&z, x, ACT_RELU);
	x = zoo_conv(&z, x, (struct zoo_conv){.k = 16, .r = 3, .pad = 1, .stride = 1});
	zoo_output(&z, x.value, "y");
	CHECK_OK(graph_infer(z.g));
	return z.g;
}

TEST(bias_correction_removes_the_mean_error)
{
	double error[2];
	struct graph *floats = biased_net();
	for (int off = 0; off < 2; off++) {
		struct quantised q;
		quantised_start(&q);
		q.o.no_bias_correction = off;
		quantised_take(&q, biased_net(), 1);
		REQUIRE_OK(quantised_run(&q));
		error[off] = mean_errors(&q, floats);
		quantised_end(&q);
	}
	graph_free(floats);
	CHECK(error[1] > 0 && error[0] < error[1] / 4);
}

/* ---- ranges ---- */

TEST(parameters_contain_zero)
{
	static const double ranges[][2] = {{0, 1}, {-1, 1},         {2, 3},   {-3, -2},
					   {0, 0}, {-1e-44, 1e-44}, {0, 1e17}};
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		float s;
		uint8_t z;
		double low = fmin(0, ranges[i][0]), high = fmax(0, ranges[i][1]);
		quantize_params(ranges[i][0], ranges[i][1], &s, &z);
		CHECK(isnormal(s) && s > 0);
		CHECK((0 - z) * (double)s <= low + (double)s * 0.51);
		CHECK((255 - z) * (double)s >= high - (double)s * 0.51);
	}
}

/* A normal distribution with one value far outside. */
TEST(least_squares_shrink_a_range)
{
	struct arena a = {0};
	struct qgroup g = {.low = -60, .high = 60};
	double low, high, per = (g.high - g.low) / QUANTIZE_BINS;
	g.count = ARENA_ARRAY(&a, double, QUANTIZE_BINS);
	g.sum = ARENA_ARRAY(&a, double, QUANTIZE_BINS);
	for (int i = 0; i < QUANTIZE_BINS; i++) {
		double v = g.low + (i + 0.5) * per;
		g.count[i] = 1e6 * exp(-v * v / 2) + (i == QUANTIZE_BINS - 1);
		g.sum[i] = g.count[i] * v;
	}
	quantize_mse(&g, &low, &high);
	CHECK(high < 40 && high >= 17 && low == -high);
	g.count[QUANTIZE_BINS - 1] = 1e6; /* now it is not rare */
	g.sum[QUANTIZE_BINS - 1] = 1e6 * g.high;
	quantize_mse(&g, &low, &high);
	CHECK(high > 55);
	arena_free(&a);
}

TEST_MAIN
