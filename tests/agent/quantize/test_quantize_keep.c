/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that stay fp32, values whose bytes are moved, forms of networks, and what is refused. */
#include "kernels/graph/optimize.h"
#include "tests/lib/quantize.h"

static struct zoo_conv conv(int64_t k, int64_t r)
{
	return (struct zoo_conv){.k = k, .r = r, .pad = r / 2, .stride = 1};
}

static struct zoo_conv conv_relu(int64_t k, int64_t r)
{
	struct zoo_conv c = conv(k, r);
	c.act = ACT_RELU;
	return c;
}

static struct graph *finish(struct zoo *z, int v)
{
	zoo_output(z, v, "y");
	CHECK_OK(z->rc);
	CHECK_OK(graph_infer(z->g));
	return z->g;
}

/* Four layers. Of the values between the second and the third, one channel is 300 times as large as the
 * others, but weighs as much: a step of u8 is larger than what the other channels hold. */
static struct graph *sensitive_net(void)
{
	enum { C = 12 };
	struct zoo z = net_begin("sensitive");
	struct fmap x = zoo_input(&z, "x", 3, 10, 10);
	for (int i = 0; i < 4; i++)
		x = zoo_conv(&z, x, i == 3 ? conv(6, 1) : conv_relu(C, 3));
	struct graph *g = finish(&z, x.value);
	for (int i = 0, layer = 0; i < g->nnodes; i++) {
		if (strcmp(node_type(&g->node[i]), "Conv") != 0)
			continue;
		float *w = g->value[g->node[i].in[1]].t.data;
		layer++;
		for (int k = 0; layer == 2 && k < C * 9; k++)
			w[k] *= 300;
		for (int k = 0; layer == 3 && k < C * C * 9; k++)
			w[k] /= k / 9 % C == 0 ? 300 : 1;
	}
	return g;
}

static double quantise_sensitive(struct quantised *q, double keep_above, double most)
{
	quantised_start(q);
	q->o.keep_above = keep_above;
	q->o.most = most;
	quantised_take(q, sensitive_net(), 1);
	CHECK_OK(quantised_run(q));
	return q->r.error;
}

TEST(a_sensitive_layer_stays_fp32)
{
	struct quantised all, some, limited;
	double error = quantise_sensitive(&all, 0, 0), kept = quantise_sensitive(&some, 0.05, 0);
	REQUIRE(all.out && some.out);
	CHECK(all.r.nquantised == 4 && error > 0.1);
	CHECK(some.r.nquantised == 2 && kept < error / 4);
	for (int i = 0; i < 4; i++) {
		const struct quantize_layer *l = &some.r.layer[i];
		CHECK((l->why != NULL) == (i == 1 || i == 2));
		CHECK(i != 2 || l->input_error > 3 * l->weights_error);
	}
	double least = quantise_sensitive(&limited, 0, error / 3);
	CHECK(least <= error / 3 && limited.r.nquantised == 2);
	CHECK(some.r.predicted < 0.05 && all.r.predicted > 0.1);
	quantised_end(&all);
	quantised_end(&some);
	quantised_end(&limited);
}

TEST(a_limit_that_no_layer_meets)
{
	struct quantised q;
	quantised_start(&q);
	q.o.most = 1e-9;
	quantised_take(&q, sensitive_net(), 1);
	CHECK_FAILS(quantised_run(&q), E_NOTFOUND, "no layer can be quantised within an error of 1e-09");
	quantised_end(&q);
	quantised_start(&q);
	q.o.keep_above = 1e-9;
	quantised_take(&q, sensitive_net(), 1);
	CHECK_FAILS(quantised_run(&q), E_NOTFOUND, "each one's error alone is above 1e-09");
	quantised_end(&q);
}

TEST(a_named_layer_stays_fp32)
{
	struct quantised q;
	quantised_start(&q);
	quantised_take(&q, sensitive_net(), 1);
	const char *name = q.g->node[0].name, *wrong = "Comv_2";
	q.o.keep = &name;
	q.o.nkeep = 1;
	REQUIRE_OK(quantised_run(&q));
	CHECK(q.r.nquantised == 3 && !strcmp(layer_named(&q, name)->why, "it was named"));
	quantised_end(&q);
	quantised_start(&q);
	quantised_take(&q, sensitive_net(), 1);
	q.o.keep = &wrong;
	q.o.nkeep = 1;
	CHECK_FAILS(quantised_run(&q), E_USAGE, "no layer 'Comv_2'; did you mean 'Conv_");
	quantised_end(&q);
}

/* ---- moved bytes ---- */

/* Conv, MaxPool, Transpose and back, a Concat of similar values, Conv. */
static struct graph *moving_net(float factor)
{
	struct zoo z = net_begin("moving");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 4, 12, 12), conv_relu(8, 3));
	struct fmap p = zoo_max_pool(&z, x, 3, 2, 1, false);
	const int64_t turned[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
	struct attr attr = zoo_attr_ints("perm", 4, turned);
	int t = zoo_node(&z, "Transpose", 1, &p.value, 1, &attr);
	attr = zoo_attr_ints("perm", 4, back);
	p.value = zoo_node(&z, "Transpose", 1, &t, 1, &attr);
	struct zoo_conv wide = conv_relu(8, 1);
	wide.gain = factor;
	x = zoo_concat(&z, zoo_conv(&z, p, conv_relu(8, 1)), zoo_conv(&z, p, wide));
	return finish(&z, zoo_conv(&z, x, conv(4, 1)).value);
}

static int bytes_of(const struct graph *g, const char *type)
{
	int n = 0;
	for (int i = 0; i < g->nnodes; i++)
		n += !g->node[i].dead && !strcmp(node_type(&g->node[i]), type) &&
		     g->value[g->node[i].out[0]].t.dtype == DT_U8;
	return n;
}

TEST(elements_are_moved_as_bytes)
{
	static const float factors[] = {1, 20};
	int same = 0;
	for (int i = 0; i < 2; i++) {
		struct quantised q;
		quantised_start(&q);
		quantised_take(&q, moving_net(factors[i]), 1);
		REQUIRE_OK(quantised_run(&q));
		struct graph *g = quantised_import(&q);
		CHECK_OK(graph_optimize(g));
		CHECK(bytes_of(g, "MaxPool") == count_type(g, "MaxPool") && bytes_of(g, "MaxPool") > 0);
		CHECK(bytes_of(g, "Transpose") == count_type(g, "Transpose"));
		CHECK(bytes_of(g, "Concat") == 1);
		/* one range for both would lose values: each input has its own, and becomes one of the result */
		int again = count_type(g, "QuantizeLinear");
		CHECK(i == 0 ? (same = again) > 0 : again > same);
		CHECK(count_type(g, "QLinearConv") == 4 && q.r.error < 0.03);
		graph_free(g);
		quantised_end(&q);
	}
}

/* ---- forms ---- */

static struct tensor *weights_of(struct graph *g, const char *type)
{
	for (int i = 0; i < g->nnodes; i++)
		if (!strcmp(node_type(&g->node[i]), type))
			return &g->value[g->node[i].in[1]].t;
	return NULL;
}

/* MatMul, bias, Relu, MatMul of rows; then a ConvTranspose has no integer form. */
TEST(products_of_matrices)
{
	struct quantised q;
	struct zoo z = net_begin("matrices");
	struct fmap x = zoo_input(&z, "x", 1, 7, 16);
	const struct shape s = {2, {16, 10}}, row = {1, {10}}, t = {2, {10, 10}};
	int w = zoo_normal(&z, "w", &s, 0, 0.3), b = zoo_normal(&z, "b", &row, 0, 1);
	int v = zoo_binary(&z, "Add", zoo_binary(&z, "MatMul", x.value, w), b);
	v = zoo_binary(&z, "MatMul", zoo_unary(&z, "Relu", v), zoo_normal(&z, "t", &t, 0, 0.3));
	quantised_start(&q);
	quantised_take(&q, finish(&z, v), 1);
	REQUIRE_OK(quantised_run(&q));
	struct graph *g = quantised_import(&q);
	CHECK_OK(graph_optimize(g));
	CHECK(count_type(g, "QLinearMatMul") == 2 && count_type(g, "MatMul") == 0 && q.r.error < 0.03);
	graph_free(g);
	quantised_end(&q);
}

TEST(a_value_inside_may_be_an_output)
{
	struct quantised q;
	struct zoo z = net_begin("outputs");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 3, 8, 8), conv_relu(6, 3));
	struct fmap y = zoo_conv(&z, x, conv(5, 3));
	struct graph *g = finish(&z, y.value);
	g->output = ARENA_ARRAY(&g->arena, int, 2);
	g->output[0] = y.value;
	g->output[1] = x.value;
	g->noutputs = 2;
	g->value[x.value].is_output = true;
	g->value[x.value].name = "inside";
	quantised_start(&q);
	quantised_take(&q, g, 1);
	REQUIRE_OK(quantised_run(&q));
	struct graph *made = quantised_import(&q);
	CHECK(made->noutputs == 2 && !strcmp(made->value[made->output[1]].name, "inside"));
	CHECK_OK(graph_optimize(made));
	CHECK(count_type(made, "QLinearConv") == 2 && q.r.error < 0.03);
	graph_free(made);
	quantised_end(&q);
}

/* ---- refusals ---- */

static void check_refused(struct graph *g, int rc, const char *part)
{
	struct quantised q;
	quantised_start(&q);
	quantised_take(&q, g, 1);
	CHECK_FAILS(quantised_run(&q), rc, part);
	CHECK(!q.out);
	quantised_end(&q);
}

static struct graph *small_net(void)
{
	struct zoo z = net_begin("small");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 3, 6, 6), conv_relu(4, 3));
	return finish(&z, zoo_conv(&z, x, conv(4, 1)).value);
}

TEST(models_without_layers_and_quantised_ones)
{
	struct quantised q;
	struct zoo z = net_begin("none");
	check_refused(finish(&z, zoo_act(&z, zoo_input(&z, "x", 3, 6, 6), ACT_RELU).value), E_USAGE,
		      "no Conv, Gemm or MatMul");
	quantised_start(&q);
	quantised_take(&q, small_net(), 1);
	REQUIRE_OK(quantised_run(&q));
	check_refused(quantised_import(&q), E_USAGE, "quantised already");
	quantised_end(&q);
}

/* Values grow until they are no floats any more. */
static struct graph *overflowing_net(void)
{
	struct zoo z = net_begin("overflowing");
	struct fmap x = zoo_input(&z, "x", 3, 6, 6);
	struct zoo_conv c = conv_relu(4, 3);
	c.gain = 1e17f;
	for (int i = 0; i < 3; i++)
		x = zoo_conv(&z, x, c);
	return finish(&z, x.value);
}

TEST(values_that_are_no_numbers)
{
	struct quantised q;
	quantised_start(&q);
	quantised_take(&q, overflowing_net(), 1);
	CHECK_FAILS(quantised_run(&q), E_CORRUPT, "NaN or infinite");
	CHECK(strstr(err_text(), "example 0 makes '") != NULL);
	quantised_end(&q);
	quantised_start(&q);
	quantised_take(&q, small_net(), 1);
	((float *)q.example[3].in[0].data)[7] = INFINITY;
	CHECK_FAILS(quantised_run(&q), E_CORRUPT, "example 3: a value for input 'x' is NaN or infinite");
	quantised_end(&q);
	quantised_start(&q);
	quantised_take(&q, small_net(), 1e25f);
	CHECK_FAILS(quantised_run(&q), E_NOTFOUND, "no layer can be quantised");
	quantised_end(&q);
}

/* A layer with huge weights stays fp32, and the others are quantised. */
TEST(huge_weights_stay_fp32)
{
	struct quantised q;
	struct graph *g = small_net();
	((float *)weights_of(g, "Conv")->data)[0] = 1e19f;
	quantised_start(&q);
	quantised_take(&q, g, 1e-15f);
	CHECK_OK(quantised_run(&q));
	CHECK(q.r.nlayers == 2 && q.r.nquantised == 1);
	CHECK(q.r.layer[0].why && strstr(q.r.layer[0].why, "above 1e18"));
	quantised_end(&q);
}

TEST(examples_that_do_not_fit)
{
	struct quantised q;
	quantised_start(&q);
	quantised_take(&q, small_net(), 1);
	struct tensor wrong = q.example[2].in[0];
	wrong.shape.d[2]--;
	q.example[2].in = &wrong;
	CHECK_FAILS(quantised_run(&q), E_USAGE, "example 2 is f32 1x3x5x6; input 'x' is f32 1x3x6x6");
	CHECK_FAILS(quantize_graph(q.g, q.example, 0, &q.o, &q.arena, &q.r, &q.out), E_USAGE, "no examples");
	CHECK_OK(quantize_graph(q.g, q.example, 1, &q.o, &q.arena, &q.r, &q.out));
	CHECK(q.r.held_out == 0 && isnan(q.r.held_out_error) && q.r.examples == 1);
	quantised_end(&q);
}

TEST_MAIN
