/* SPDX-License-Identifier: Apache-2.0 */
/* Choices as a value, and their effect on the passes: with any set of choices the answer equals the
 * reference's. */
#include "kernels/graph/optimize.h"
#include "tests/lib/onnx_data.h"
#include "agent/cache/chosen.h"
#include "agent/run/plan.h"
#include "kernels/group/alternatives.h"
#include "kernels/onnx/import.h"
#include "platform/base/rng.h"
#include "tools/hone/onnx_case.h"

static const char head[] = "hone-choices 1\n";

static int parse(struct arena *a, const char *text, struct choices *out)
{
	return choices_parse(arena_printf(a, "%s%s", head, text), a, out);
}

TEST(text_parses_back)
{
	struct arena a = {0};
	struct choices c = {0}, again;
	struct buf one = {0}, two = {0};
	choices_set(&c, &a, CHOICE_LANES, "conv 1\n\\", 1);
	choices_set(&c, &a, CHOICE_JOIN, "b", 3);
	choices_set(&c, &a, CHOICE_JOIN, "a", 0);
	choices_set(&c, &a, CHOICE_JOIN, "b", 2);
	choices_set(&c, &a, CHOICE_JOIN, "gone", 2);
	choices_set(&c, &a, CHOICE_JOIN, "gone", -1);
	choices_set(&c, &a, CHOICE_JOIN, "never", -1);
	choices_set(&c, &a, CHOICE_LANES, "", CHOICE_MAX);
	choices_text(&c, &one);
	CHECK(!strcmp(buf_str(&one), "hone-choices 1\njoin 0 a\njoin 2 b\nlanes 1048576 \n"
				     "lanes 1 conv 1\\x0a\\x5c\n"));
	REQUIRE_OK(choices_parse(buf_str(&one), &a, &again));
	choices_text(&again, &two);
	CHECK(!strcmp(buf_str(&one), buf_str(&two)));
	CHECK(choices_equal(&c, &again));
	CHECK(choices_get(&again, CHOICE_LANES, "conv 1\n\\", 16) == 1);
	CHECK(choices_get(&again, CHOICE_LANES, "a", 16) == 16);
	CHECK(choices_get(NULL, CHOICE_JOIN, "a", 5) == 5);
	choices_set(&c, &a, CHOICE_JOIN, "a", 1);
	CHECK(!choices_equal(&c, &again));
	buf_free(&one);
	buf_free(&two);
	arena_free(&a);
}

TEST(hostile_text_is_corrupt)
{
	static const char *const bad[] = {"join 1 a",
					  "join 1a\n",
					  "join  1 a\n",
					  "join -1 a\n",
					  "join 01 a\n",
					  "join 1048577 a\n",
					  "join 99999999999 a",
					  "fuze 1 a\n",
					  "join 1 \\\n",
					  "join 1 \\x4\n",
					  "join 1 \\x41\n",
					  "join 1 \\x00\n",
					  "join 1 \\x0A\n",
					  "join 1 a\t\n",
					  "\n",
					  "join\n",
					  "join 1 b\njoin 1 a\n",
					  "join 1 a\njoin 2 a\n",
					  "lanes 1 a\njoin 1 a\n"};
	struct arena a = {0};
	struct choices c;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(parse(&a, bad[i], &c) == E_CORRUPT && !c.n);
	CHECK(choices_parse("hone-choices 2\n", &a, &c) == E_CORRUPT);
	CHECK(choices_parse("", &a, &c) == E_CORRUPT);
	CHECK_OK(parse(&a, "", &c));
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < 20000; i++) {
		char text[] = "join 12 a\\x0a\nlanes 1 b\n";
		struct buf b = {0};
		for (int k = 0; k < 3; k++)
			text[rng_below(&r, sizeof text - 1)] = (char)rng_below(&r, 256);
		if (parse(&a, text, &c) >= 0) {
			choices_text(&c, &b);
			CHECK(!strcmp(buf_str(&b) + sizeof head - 1, text));
		}
		buf_free(&b);
		arena_reset(&a);
	}
	arena_free(&a);
}

/* Random choices for a graph: about half of its nodes and values get one, some of them nonsense. */
static void random_choices(const struct graph *g, struct rng *r, struct arena *a, struct choices *c)
{
	static const int blocks[] = {1, 2, 4, 8, 16, 32, 0, 3, 128};
	*c = (struct choices){0};
	for (int i = 0; i < g->nnodes; i++)
		if (rng_below(r, 2))
			choices_set(c, a, CHOICE_JOIN, g->node[i].name, (int)rng_below(r, 5));
	for (int i = 0; i < g->nvalues; i++)
		if (!g->value[i].t.data && rng_below(r, 2))
			choices_set(c, a, CHOICE_LANES, g->value[i].name, blocks[rng_below(r, 9)]);
	choices_set(c, a, CHOICE_JOIN, "nobody", 1);
}

struct way {
	struct rng rng;
	int lanes, changed;
	bool alternatives; /* tries the proposals of kernels/group/alternatives.h in turn, instead of
			    * random choices */
	int turn;
};

static int choose(struct way *w, struct graph *g, const struct target *t, struct arena *a, struct choices *c)
{
	struct steps *s;
	struct choices *other;
	if (!w->alternatives) {
		random_choices(g, &w->rng, a, c);
		return E_OK;
	}
	*c = (struct choices){0};
	int rc = graph_steps(g, t, NULL, a, &s);
	int n = rc < 0 ? rc : graph_alternatives(g, s, c, a, &other);
	if (n > 0)
		*c = other[w->turn++ % n];
	return n;
}

static bool changed(const struct steps *x, const struct steps *y)
{
	bool same = x->nsteps == y->nsteps;
	for (int i = 0; same && i < x->nsteps; i++)
		if (x->step[i].kind == STEP_TASK)
			same = y->step[i].kind == STEP_TASK &&
			       key_equal(task_key(x->step[i].task), task_key(y->step[i].task));
	return !same;
}

static int run_plan(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	struct way *w = ctx;
	struct target t = {.lanes = w->lanes};
	struct plan *plan = NULL;
	struct steps *steps, *plain;
	struct choices c;
	int rc = graph_optimize(g);
	if (rc >= 0)
		rc = choose(w, g, &t, a, &c);
	if (rc >= 0)
		rc = graph_steps(g, &t, NULL, a, &plain);
	if (rc >= 0)
		rc = graph_steps(g, &t, &c, a, &steps);
	if (rc >= 0)
		rc = plan_build(g, steps, &t, NULL, NULL, &plan);
	if (rc >= 0)
		w->changed += changed(plain, steps);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(a, x->dtype, &x->shape, &out[i]);
	}
	if (rc >= 0)
		rc = plan_run(plan, in, out);
	plan_free(plan);
	return rc;
}

/* Of a share, the three calls run every third network each, from the first, the second and the third on. */
static void check_models(struct way w, size_t third)
{
	static const char *const names[] = {
	    "fastestdet_352",          "yunet_s_320", "pulp_dronet_v2", "mnist_8",
	    "super_resolution_core",   "policy_go1",  "mnist_opt",      "dtln_1",
	    "hand_keypoint_classifier"};
	const struct case_runner runner = {run_plan, &w};
	char dir[512];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	rng_seed(&w.rng, 11 + (uint64_t)w.lanes);
	const bool share = test_share() > 1;
	for (size_t i = share ? third : 0; i < sizeof names / sizeof *names; i += share ? 3 : 1) {
		char why[512] = "";
		double worst = 0;
		snprintf(dir, sizeof dir, "%s/models/%s", test_data(), names[i]);
		enum case_result r = case_check(dir, &runner, &case_gate_fp32, why, &worst);
		if (r != CASE_PASSED)
			printf("%s, %d lanes: %.1e %s\n", names[i], w.lanes, worst, why);
		CHECK(r == CASE_PASSED);
	}
	CHECK(w.changed > (share ? 0 : 2));
}

TEST(any_choices_give_the_answer)
{
	check_models((struct way){.lanes = 16}, 0);
	check_models((struct way){.lanes = 8}, 1);
}

TEST(alternatives_give_the_answer)
{
	check_models((struct way){.lanes = 16, .alternatives = true}, 2);
}

TEST(a_cache_keeps_choices)
{
	struct arena a = {0};
	struct cache *cache;
	struct graph g = {.name = "empty"};
	struct target t = {.lanes = 16};
	struct choices c = {0}, got;
	char dir[64] = "/tmp/hone-test-choices-XXXXXX";
	REQUIRE(mkdtemp(dir));
	REQUIRE_OK(cache_open(&cache, dir, false, 0));
	choices_set(&c, &a, CHOICE_JOIN, "conv", 0);
	struct chosen_for f = {cache, &t, 1, true}, four = {cache, &t, 4, false}, none = {NULL, &t, 1, true};
	CHECK(chosen_load(&four, &g, &a, &got) == 0 && got.n == 0);
	CHECK_OK(chosen_save(&f, &g, &c));
	CHECK(chosen_load(&four, &g, &a, &got) == 0 && choices_equal(&got, &c));
	CHECK(chosen_load(&none, &g, &a, &got) == 0 && got.n == 0);
	choices_set(&c, &a, CHOICE_JOIN, "conv", 1);
	CHECK_OK(chosen_save(&four, &g, &c));
	CHECK(chosen_load(&four, &g, &a, &got) == 0 && choices_equal(&got, &c));
	CHECK(chosen_load(&f, &g, &a, &got) == 0 && !choices_equal(&got, &c));
	t.lanes = 8; /* another machine */
	CHECK(chosen_load(&four, &g, &a, &got) == 0 && got.n == 0);
	cache_close(cache);
	REQUIRE(system(arena_printf(&a, "rm -r %s", dir)) == 0);
	arena_free(&a);
}

TEST_MAIN
