/* SPDX-License-Identifier: Apache-2.0 */
/* Whole networks through groups, layouts and the plan, within the fp32 gate: vectors of every length, older
 * instruction sets. Each way takes its share of the models; test_networks.c runs all on this machine's
 * kernels. */
#include "kernels/graph/optimize.h"
#include "tests/lib/onnx_data.h"
#include "tests/lib/onnx_make.h"
#include "agent/run/fallback.h"
#include "agent/run/plan.h"
#include "agent/run/trace.h"
#include "kernels/onnx/import.h"
#include "tools/hone/onnx_case.h"
#include "tools/hone/zoo.h"

#include <stdlib.h>
#include <string.h>

/* A way to run a network. */
struct way {
	int lanes, threads, runs;
	bool optimize, take;
	const char *isa; /* with the fallback kernels of that baseline */
};

static int run_plan(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	const struct way *w = ctx;
	struct target t = {.lanes = w->lanes};
	if (w->isa && target_baseline(w->isa, &t) < 0)
		return E_NOTFOUND;
	struct pool *pool = NULL;
	struct plan *plan = NULL;
	struct steps *steps;
	int rc = w->optimize ? graph_optimize(g) : E_OK;
	if (rc >= 0)
		rc = graph_steps(g, &t, NULL, a, &steps);
	if (rc >= 0 && w->threads > 1)
		rc = pool_open(&pool, w->threads, NULL);
	if (rc >= 0)
		rc = (w->take ? plan_build_take : plan_build)(g, steps, &t, NULL, pool, &plan);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(a, x->dtype, &x->shape, &out[i]);
	}
	for (int i = 0; i < w->runs && rc >= 0; i++)
		rc = plan_run(plan, in, out);
	plan_free(plan);
	if (pool)
		pool_close(pool);
	return rc;
}

enum { SHARES = 3 };

static void check_share(const char *folder, const struct way *w, int share)
{
	struct arena a = {0};
	char **cases;
	const struct case_runner runner = {run_plan, (void *)w};
	int n = case_find(&a, folder, &cases);
	REQUIRE_OK(n);
	for (int i = share % SHARES; i < n; i += SHARES) {
		char why[512] = "";
		double worst = 0;
		enum case_result r = case_check(cases[i], &runner, &case_gate_fp32, why, &worst);
		if (r != CASE_PASSED)
			printf("%s, %d lanes, %d threads: %.1e %s\n", cases[i], w->lanes, w->threads, worst,
			       why);
		CHECK(r == CASE_PASSED);
	}
	arena_free(&a);
}

TEST(models_in_portable_c)
{
	static const struct way ways[] = {
	    {16, 1, 2, true, true, NULL}, {8, 3, 1, false, true, NULL}, {4, 1, 1, true, false, NULL}};
	char dir[512];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	snprintf(dir, sizeof dir, "%s/models", test_data());
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		check_share(dir, &ways[i], (int)i);
}

/* Uses each ISA that this machine has. */
TEST(models_on_fallback_kernels)
{
	static const char *const isas[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
	struct target host, t;
	char dir[512];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE_OK(target_host(&host));
	snprintf(dir, sizeof dir, "%s/models", test_data());
	for (int i = 0; i < 3; i++) {
		const struct way w = {0, 1 + i, 2, true, i != 1, isas[i]};
		if (target_baseline(isas[i], &t) >= 0 && target_runs(&host, &t))
			check_share(dir, &w, i);
	}
}

/* A kernel takes the whole epilogue, in whatever order its sums are written. */
TEST(sums_of_an_epilogue)
{
	static const char *const posts[] = {"acc r2 add r3 add", "r3 acc r2 add add", "r3 r2 acc add add",
					    "r3 acc r2 add add 0 max", "r2 acc add r3 add 0 max"};
	struct target host;
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct fallback_parts *parts = ARENA_NEW(&a, struct fallback_parts);
	struct code *code = ARENA_NEW(&a, struct code);
	char text[700];
	REQUIRE_OK(target_host(&host));
	for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
		snprintf(text, sizeof text,
			 "task syms=0\noperand X in f32 [1,32,9,7] 0.1/%d.2.3.1\noperand W const f32 "
			 "[48,32,1,1] plain\noperand B const f32 [48] plain\noperand Z in f32 [1,48,9,7] "
			 "0.1/%d.2.3.1\noperand Y out f32 [1,48,9,7] 0.1/%d.2.3.1\nstage n:1 k:48 y:9 x:7 | "
			 "c:32\nread X [n,c,y,x]\nread W [k,c,0,0]\nread B [k]\nread Z [n,k,y,x]\nbody r0 "
			 "r1 mul\nsum\npost %s\nwrite Y [n,k,y,x]\n",
			 host.lanes, host.lanes, host.lanes, posts[i]);
		REQUIRE_OK(task_parse(text, t));
		REQUIRE_OK(fallback_find(t, &host, &a, parts, code));
		CHECK(parts->rest.nstages == 0);
	}
	arena_free(&a);
}

static int broken_find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		       enum kernel_origin *origin)
{
	(void)ctx, (void)t, (void)text, (void)a, (void)out, (void)origin;
	return fail(E_IO, "the flash is gone");
}

/* A source that finds nothing is a miss; a source that fails is an error, with the plan half built. */
TEST(a_failing_source_is_an_error)
{
	const struct kernel_source src = {.ctx = NULL, .find = broken_find};
	struct target t = {.lanes = 8};
	struct arena a = {0};
	struct graph *g;
	struct steps *s;
	struct plan *p = NULL;
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, &t, NULL, &a, &s));
	CHECK_FAILS(plan_build(g, s, &t, &src, NULL, &p), E_IO, "the flash is gone");
	plan_free(p);
	graph_free(g);
	arena_free(&a);
}

static struct tensor *run_once(struct plan *p, const struct graph *g, struct arena *a)
{
	struct tensor *out = ARENA_ARRAY(a, struct tensor, g->noutputs + 1),
		      *in = ARENA_ARRAY(a, struct tensor, g->ninputs + 1);
	for (int i = 0; i < g->ninputs; i++) {
		const struct tensor *t = &g->value[g->input[i]].t;
		CHECK_OK(tensor_alloc(a, t->dtype, &t->shape, &in[i]));
		for (int64_t k = 0; k < shape_count(&t->shape); k++)
			tensor_set(&in[i], k, (double)(k % 7) / 7);
	}
	for (int i = 0; i < g->noutputs; i++) {
		const struct tensor *t = &g->value[g->output[i]].t;
		CHECK_OK(tensor_alloc(a, t->dtype, &t->shape, &out[i]));
	}
	CHECK_OK(plan_run(p, in, out));
	return out;
}

/* A plan beside another one takes no memory for constants that both have in one form, and gives the same
 * answer; in blocks of other lanes, some have another form. */
TEST(plans_beside_one_another_share_constants)
{
	const struct target wide = {.lanes = 8}, narrow = {.lanes = 4};
	struct arena a = {0};
	struct graph *g;
	struct steps *s, *other;
	struct plan *p[4];
	struct tensor *y[4];
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, &wide, NULL, &a, &s));
	REQUIRE_OK(graph_steps(g, &narrow, NULL, &a, &other));
	REQUIRE_OK(plan_build_beside(g, s, &wide, NULL, NULL, NULL, &p[0]));
	REQUIRE_OK(plan_build_beside(g, s, &wide, NULL, NULL, p[0], &p[1]));
	REQUIRE_OK(plan_build_beside(g, other, &narrow, NULL, NULL, p[1], &p[2]));
	REQUIRE_OK(plan_build(g, other, &narrow, NULL, NULL, &p[3]));
	for (int i = 0; i < 4; i++)
		y[i] = run_once(p[i], g, &a);
	struct plan_memory first = plan_memory(p[0]), same = plan_memory(p[1]), third = plan_memory(p[2]);
	CHECK(first.weights_bytes > 0 && same.weights_bytes == first.weights_bytes);
	CHECK(plan_bytes(p[1]) == same.values_bytes);
	CHECK(third.weights_bytes == plan_memory(p[3]).weights_bytes && plan_bytes(p[2]) < plan_bytes(p[3]));
	for (int i = 0; i < g->noutputs; i++) {
		size_t bytes = (size_t)shape_count(&y[0][i].shape) * 4;
		CHECK(!memcmp(y[0][i].data, y[1][i].data, bytes));
		CHECK(!memcmp(y[2][i].data, y[3][i].data, bytes));
	}
	for (int i = 3; i >= 0; i--)
		plan_free(p[i]);
	graph_free(g);
	arena_free(&a);
}

/* Counts the events of one run of a product [1, k] x [k, n] with two threads, on a machine whose peaks nobody knows. */
static void product_events(int64_t k, int64_t n, int *events)
{
	struct target t = {.lanes = 8};
	struct onnx_maker m;
	struct arena a = {0};
	struct graph *g;
	struct steps *s;
	struct plan *p;
	struct pool *pool;
	struct trace *trace;
	char x[32], w[48];
	mk_start(&m, 13, 4);
	snprintf(x, sizeof x, "1 %lld", (long long)k);
	snprintf(w, sizeof w, "%lld %lld", (long long)k, (long long)n);
	mk_input(&m, "x", 1, x);
	mk_init(&m, "w", 1, w, ARENA_ARRAY(&a, float, k * n), (size_t)(k * n) * sizeof(float));
	mk_node(&m, "MatMul", "x w", "y");
	mk_output(&m, "y");
	const struct import_opts none = {0};
	REQUIRE_OK(mk_import(&m, ".", &none, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, &t, NULL, &a, &s));
	REQUIRE_OK(pool_open(&pool, 2, NULL));
	REQUIRE_OK(plan_build(g, s, &t, NULL, pool, &p));
	REQUIRE_OK(trace_open(&trace, &clock_real, 2, 100));
	plan_trace(p, trace);
	run_once(p, g, &a);
	const struct trace_event *e;
	*events = trace_events(trace, 0, &e) + trace_events(trace, 1, &e);
	plan_free(p);
	trace_close(trace);
	pool_close(pool);
	graph_free(g);
	arena_free(&a);
}

/* A tiny network is not divided among threads, which would have to be woken. */
TEST(tiny_networks_run_on_one_thread)
{
	int small = 0, large = 0;
	product_events(64, 512, &small);
	product_events(1024, 2048, &large);
	CHECK(small == 1 && large > 1);
}

TEST_MAIN
