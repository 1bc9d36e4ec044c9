/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of the commands: statistics, pieces of graphs, names, JSON of text from outside. */
#include "platform/base/rng.h"
#include "tests/lib/zoo_values.h"
#include "tools/hone/cut.h"
#include "agent/cache/json.h"
#include "tools/hone/onnx_case.h"
#include "platform/base/stats.h"
#include <math.h>
#include <unistd.h>

TEST(quantiles)
{
	double v[] = {5, 1, 4, 2, 3, 10, 6, 9, 8, 7};
	CHECK(stats_median(v, 10) == 5.5);
	CHECK(stats_quantile(v, 10, 0.9) == 9);
	CHECK(stats_quantile(v, 10, 1) == 10 && stats_quantile(v, 10, 0) == 1);
	double one[] = {3};
	CHECK(stats_median(one, 1) == 3 && stats_quantile(one, 1, 0.99) == 3);
}

/* The interval holds the true median in at least 95 of 100 samples; fewer than 93, or all, mean a wrong
 * formula. */
TEST(interval_covers_the_median)
{
	static const int sizes[] = {6, 12, 25, 40};
	struct rng r;
	rng_seed(&r, 1);
	for (int s = 0; s < 4; s++) {
		int covered = 0, trials = 1000, n = sizes[s];
		for (int i = 0; i < trials; i++) {
			double v[40];
			for (int k = 0; k < n; k++)
				v[k] = exp(rng_normal(&r));
			struct interval x = stats_interval(v, n);
			covered += x.low <= 1 && 1 <= x.high;
			CHECK(x.low <= x.median && x.median <= x.high);
		}
		if (covered <= trials * 0.93 || covered == trials)
			printf("%d values: %d of %d\n", n, covered, trials);
		CHECK(covered > trials * 0.93 && covered < trials);
	}
}

TEST(few_values_give_the_whole_range)
{
	double v[] = {3, 1, 2};
	struct interval x = stats_interval(v, 3);
	CHECK(x.median == 2 && x.low == 1 && x.high == 3);
}

TEST(names_of_models)
{
	struct arena a = {0};
	CHECK(!strcmp(model_name("/x/resnet18.onnx", &a), "resnet18"));
	CHECK(!strcmp(model_name("/x/net/model.onnx", &a), "net"));
	CHECK(!strcmp(model_name("/x/net//model.onnx", &a), "net"));
	CHECK(!strcmp(model_name("model.onnx", &a), "model"));
	CHECK(!strcmp(model_name("//model.onnx", &a), "model"));
	CHECK(!strcmp(model_name("/model.onnx", &a), "model"));
	CHECK(!strcmp(model_name("odd", &a), "odd"));
	arena_free(&a);
}

TEST(json_takes_any_bytes)
{
	json_t *j = json_text("a\xff\xfe z"), *n = json_num(NAN);
	CHECK(json_is_string(j) && !strcmp(json_string_value(j), "a?? z"));
	CHECK(json_is_null(n));
	json_decref(j);
	json_decref(n);
}

/* The second layer of the steering network, cut out, computes the same as in the whole network. */
TEST(a_piece_computes_the_same)
{
	struct arena a = {0};
	struct tensor *t;
	struct graph *piece, *g = zoo_values("steering", &a, &t);
	int *from;
	REQUIRE(!test_bad);
	int begin = g->node[1].out[0], end = g->node[3].out[0]; /* behind the first and the second Elu */
	bool *stop = ARENA_ARRAY(&a, bool, g->nvalues);
	stop[begin] = true;
	REQUIRE_OK(cut_graph(g, end, stop, &piece, &from));
	CHECK(piece->nnodes == 2 && piece->ninputs == 1 && piece->noutputs == 1);
	CHECK(from[piece->input[0]] == begin && from[piece->output[0]] == end);
	char dir[64], cmd[96], why[512];
	snprintf(dir, sizeof dir, "/tmp/hone-test-cut-%d", (int)getpid());
	REQUIRE_OK(cut_write(piece, from, t, dir));
	CHECK(case_check(dir, &case_reference, &case_gate_fp32, why, NULL) == CASE_PASSED);
	((float *)t[end].data)[5] += 1;
	REQUIRE_OK(cut_write(piece, from, t, dir));
	CHECK(case_check(dir, &case_reference, &case_gate_fp32, why, NULL) == CASE_FAILED);
	snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
	CHECK(system(cmd) == 0);
	CHECK_FAILS(cut_graph(g, g->input[0], stop, &piece, &from), E_NOTFOUND, "no node writes");
	graph_free(piece);
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
