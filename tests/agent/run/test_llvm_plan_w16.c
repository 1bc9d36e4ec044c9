/* SPDX-License-Identifier: Apache-2.0 */
/* Plans whose kernels store weights as f16: their results and memory, and weights that f16 does not hold. */
#include "agent/run/plan_parts.h"
#include "kernels/emit/emit.h"
#include "kernels/graph/eval.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "tests/lib/net.h"

#include <math.h>

static struct target host;

/* Gives each task the first schedule of the portfolio that stores f16, or the default one. */
struct maker {
	bool w16;
	int made;
};

/* Whether this machine can run such kernels. */
static bool can(void)
{
	CHECK_OK(target_host(&host));
	return target_converts_f16(&host);
}

static int find_code(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		     enum kernel_origin *origin)
{
	struct maker *m = ctx;
	struct space *space;
	struct loops *l;
	char cand[CAND_MAX];
	const struct space_want want = {.level = LEVEL_W16};
	int at = 0, rc = space_make(a, t, &host, &want, &space);
	(void)text;
	if (rc < 0)
		return rc;
	space_default(space, cand);
	while (m->w16 && !strstr(cand, "w16=1"))
		if (space_portfolio(space, &at, cand) < 0)
			return E_NOTFOUND;
	if ((rc = lower(t, cand, &host, a, &l, &out->m)) < 0)
		return rc;
	rc = emit_find("llvm")->emit(l, &host, a, &out->object);
	m->made += rc >= 0;
	*origin = FROM_CACHE;
	return rc == E_SPILL ? E_OK : rc;
}

/* A 3x3 convolution with 64 channels of 12 x 12, a mean, and a product with a matrix. */
static struct graph *make_net(void)
{
	struct zoo z = net_begin("w16");
	struct fmap x = zoo_input(&z, "x", 64, 12, 12);
	x = zoo_conv(&z, x, (struct zoo_conv){.k = 64, .r = 3, .stride = 1, .pad = 1, .act = ACT_RELU});
	x = zoo_mean(&z, x);
	return net_end(&z, zoo_dense(&z, x.value, 64, 100, 1));
}

/* Multiplies all weights that are matrices or filters. */
static void scale_weights(struct graph *g, float by)
{
	for (int v = 0; v < g->nvalues; v++) {
		struct tensor *t = &g->value[v].t;
		for (int64_t i = 0; t->data && t->shape.rank > 1 && i < shape_count(&t->shape); i++)
			((float *)t->data)[i] *= by;
	}
}

static void run(struct plan *p, const struct graph *g, float *y)
{
	static float x[64 * 12 * 12];
	struct rng r;
	rng_seed(&r, 3);
	rng_fill(&r, x, sizeof x / sizeof *x);
	struct tensor in = g->value[g->input[0]].t, out = g->value[g->output[0]].t;
	in.data = x;
	out.data = y;
	CHECK_OK(plan_run(p, &in, &out));
}

static double distance(const float *got, const float *want)
{
	double diff = 0, all = 0;
	for (int i = 0; i < 100; i++) {
		diff += pow((double)got[i] - (double)want[i], 2);
		all += pow((double)want[i], 2);
	}
	return sqrt(diff / all);
}

static int count_w16(const struct plan *p, enum kernel_origin from)
{
	const struct plan_kernel *k;
	int n = plan_kernels(p, &k), found = 0;
	for (int i = 0; i < n; i++)
		found += strstr(k[i].label, " w16") != NULL && k[i].origin == from;
	return found;
}

TEST(weights_of_half_the_size)
{
	if (!can())
		SKIP("this machine does not convert f16");
	struct arena a = {0};
	struct maker plain = {.w16 = false}, half = {.w16 = true};
	const struct kernel_source full = {.ctx = &plain, .find = find_code}, less = {.ctx = &half, .find = find_code};
	struct graph *g = make_net();
	struct steps *s;
	struct plan *p, *q, *again;
	struct buf image = {0};
	float want[100], got[100], restored[100];
	REQUIRE_OK(graph_steps(g, &host, NULL, &a, &s));
	REQUIRE_OK(plan_build(g, s, &host, &full, NULL, &p));
	run(p, g, want);
	CHECK(count_w16(p, FROM_CACHE) == 0);
	REQUIRE_OK(plan_build_described(g, s, &host, &less, NULL, &image, &q));
	run(q, g, got);
	CHECK(half.made == 2 && count_w16(q, FROM_CACHE) == 2);
	double error = distance(got, want);
	CHECK(error > 1e-6 && error < 2e-3); /* one is the rounding of weights, the other a wrong answer */
	CHECK(plan_memory(q).weights_bytes < plan_memory(p).weights_bytes * .6);
	REQUIRE_OK(plan_restore(image.p, image.n, NULL, &again));
	memcpy(again->weights.p, q->weights.p, q->weight_bytes);
	run(again, g, restored);
	CHECK(!memcmp(restored, got, sizeof got));
	plan_free(again);
	plan_free(q);
	plan_free(p);
	buf_free(&image);
	graph_free(g);
	arena_free(&a);
}

/* The kernel is as good as missing. */
TEST(weights_that_f16_does_not_hold)
{
	if (!can())
		SKIP("this machine does not convert f16");
	static const float by[] = {1e7f, 1e-4f, INFINITY};
	for (int i = 0; i < 3; i++) {
		struct arena a = {0};
		struct maker half = {.w16 = true};
		const struct kernel_source less = {.ctx = &half, .find = find_code};
		struct graph *g = make_net();
		struct steps *s;
		struct plan *p;
		int held = 0, tasks = 0;
		scale_weights(g, by[i]);
		REQUIRE_OK(graph_steps(g, &host, NULL, &a, &s));
		for (int k = 0; k < s->nsteps; k++)
			if (s->step[k].kind == STEP_TASK && s->step[k].task->stage[0].nreads > 2) {
				tasks++;
				held += step_holds_f16(g, s, &s->step[k]);
			}
		CHECK(tasks == 2 && held == 0);
		REQUIRE_OK(plan_build(g, s, &host, &less, NULL, &p));
		CHECK(half.made == 2 && count_w16(p, FROM_CACHE) == 0);
		plan_free(p);
		graph_free(g);
		arena_free(&a);
	}
}

TEST(weights_that_f16_holds)
{
	if (!can())
		SKIP("this machine does not convert f16");
	struct arena a = {0};
	struct graph *g = make_net();
	struct steps *s;
	REQUIRE_OK(graph_steps(g, &host, NULL, &a, &s));
	for (int k = 0; k < s->nsteps; k++)
		CHECK(s->step[k].kind != STEP_TASK || step_holds_f16(g, s, &s->step[k]));
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
