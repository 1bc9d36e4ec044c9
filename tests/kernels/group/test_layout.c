/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts by cost: compares the solver with brute force, and checks its results on small graphs. */
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/group/min_sum.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"
#include "tests/lib/net.h"

#include <math.h>

enum { MANY = 100000, FEW = 9, MOST = 40 };

/* ---- the solver ---- */

struct random_problem {
	struct min_sum_problem p;
	int states[FEW];
	double cost[FEW][MIN_SUM_STATES], table[MOST][MIN_SUM_STATES * MIN_SUM_STATES];
	struct min_sum_pair pair[MOST];
};

static double draw_cost(struct rng *r)
{
	return rng_below(r, 8) ? rng_below(r, 100) : INFINITY;
}

/* A tree with `more` further pairs. */
static void draw_problem(struct rng *r, int n, int more, struct random_problem *x)
{
	*x = (struct random_problem){.p = {n, n - 1 + more, x->states, x->cost, x->pair}};
	for (int v = 0; v < n; v++) {
		x->states[v] = 1 + (int)rng_below(r, 4);
		for (int s = 0; s < x->states[v]; s++)
			x->cost[v][s] = draw_cost(r);
	}
	for (int i = 0; i < x->p.npairs; i++) {
		int a = i < n - 1 ? i + 1 : 1 + (int)rng_below(r, (uint32_t)n - 1);
		x->pair[i] = (struct min_sum_pair){a, (int)rng_below(r, (uint32_t)a), x->table[i]};
		for (int k = 0; k < MIN_SUM_STATES * MIN_SUM_STATES; k++)
			x->table[i][k] = draw_cost(r);
	}
}

/* The least cost of all assignments; *first: the first one of finite cost. */
static double best_of_all(const struct min_sum_problem *p, int *first)
{
	int state[FEW] = {0}, v;
	double best = INFINITY;
	do {
		double c = min_sum_cost(p, state);
		if (c < INFINITY && best == INFINITY)
			memcpy(first, state, sizeof state);
		best = fmin(best, c);
		for (v = p->nvars - 1; v >= 0 && ++state[v] == p->states[v]; v--)
			state[v] = 0;
	} while (v >= 0);
	return best;
}

static void check_random(int more, bool exact)
{
	struct rng r;
	int solved = 0;
	rng_seed(&r, 5 + (uint64_t)more);
	for (int i = 0; i < 300; i++) {
		struct random_problem x;
		int state[FEW] = {0};
		draw_problem(&r, exact ? 2 + (int)rng_below(&r, 6) : FEW, more, &x);
		double best = best_of_all(&x.p, state), given = min_sum_cost(&x.p, state);
		if (best == INFINITY)
			continue;
		CHECK_OK(min_sum_solve(&x.p, state));
		double got = min_sum_cost(&x.p, state);
		CHECK(exact ? got == best : got >= best && got <= given);
		solved++;
	}
	CHECK(solved > 20);
}

TEST(trees_and_few_variables_are_exact)
{
	check_random(0, true);
	check_random(3, true); /* at most 7 variables: 6 neighbours, one of which goes first */
}

TEST(dense_problems_never_get_worse)
{
	check_random(30, false);
}

TEST(the_nearest_gain_misleads)
{
	/* The second variable alone prefers 1, and so does each pair of neighbours that begins there, but all
	 * together are cheaper with 0. */
	const int states[] = {2, 2, 2};
	const double cost[][MIN_SUM_STATES] = {{0, INFINITY}, {5, 0}, {0, 9}}, differ[] = {0, 4, 4, 0};
	const struct min_sum_pair pair[] = {{0, 1, differ}, {1, 2, differ}};
	const struct min_sum_problem p = {3, 2, states, cost, pair};
	int state[] = {0, 1, 0};
	CHECK(min_sum_cost(&p, state) == 8);
	CHECK_OK(min_sum_solve(&p, state));
	CHECK(!state[0] && !state[1] && !state[2] && min_sum_cost(&p, state) == 5);
}

TEST(nothing_to_choose)
{
	const int states[] = {1, 1};
	const double cost[][MIN_SUM_STATES] = {{3}, {4}}, both[] = {2};
	const struct min_sum_pair pair[] = {{1, 0, both}};
	const struct min_sum_problem p = {2, 1, states, cost, pair}, none = {0};
	int state[] = {0, 0};
	CHECK_OK(min_sum_solve(&p, state));
	CHECK(!state[0] && !state[1] && min_sum_cost(&p, state) == 9);
	CHECK_OK(min_sum_solve(&none, state));
	CHECK(min_sum_cost(&none, state) == 0);
}

/* MANY variables in a chain, around a hub, and in a strip that is wider than the limit. */
TEST(many_variables)
{
	static const double differ[] = {0, 1, 1, 0};
	static double cost[MANY][MIN_SUM_STATES];
	static int states[MANY], state[MANY];
	static struct min_sum_pair pair[2 * MANY];
	for (int shape = 0; shape < 3; shape++) {
		struct min_sum_problem p = {MANY, 0, states, cost, pair};
		for (int v = 0; v < MANY; v++) {
			states[v] = 2;
			state[v] = v % 2;
			cost[v][0] = v % 3 == 0;
			cost[v][1] = v % 3 != 0;
			int before = shape == 1 ? 0 : v - 1, far = v - 50;
			if (v)
				pair[p.npairs++] = (struct min_sum_pair){before, v, differ};
			if (shape == 2 && far >= 0)
				pair[p.npairs++] = (struct min_sum_pair){far, v, differ};
		}
		double given = min_sum_cost(&p, state);
		CHECK_OK(min_sum_solve(&p, state));
		double got = min_sum_cost(&p, state);
		CHECK(shape == 2 ? got < given : got == (MANY + 2) / 3);
	}
}

/* ---- graphs ---- */

static const struct target machine = {
    .lanes = 16, .regs = 32, .fma = true, .l1_bytes = 1 << 15, .l2_bytes = 1 << 20};

static struct zoo_conv conv(int64_t k, int64_t r, int64_t stride)
{
	return (struct zoo_conv){.k = k, .r = r, .stride = stride, .pad = r / 2, .groups = 1};
}

static struct steps *steps_of(struct graph *g, const struct choices *c, struct arena *a)
{
	struct steps *s = NULL;
	CHECK_OK(graph_steps(g, &machine, c, a, &s));
	return s;
}

static bool blocked(const struct steps *s, int value)
{
	const struct layout *l = &s->value[value].buf.layout;
	for (int i = 0; i < l->n; i++)
		if (l->ax[i].div > 1)
			return true;
	return false;
}

static int conversions(const struct steps *s)
{
	int n = 0;
	for (int i = 0; i < s->nsteps; i++)
		n += s->step[i].kind == STEP_TASK && s->step[i].anchor < 0;
	return n;
}

/* The value made by the convolution that reads `value`. */
static int after(const struct graph *g, int value)
{
	for (int n = 0; n < g->nnodes; n++)
		for (int i = 0; i < g->node[n].nin; i++)
			if (g->node[n].in[i] == value && !g->node[n].dead)
				return g->node[n].out[0];
	return -1;
}

TEST(strided_convolutions_to_few_channels)
{
	/* By rule all values stay plain, because rows of 32 fill vectors and 12 channels do not; but every
	 * second pixel of a row of 16 is read. */
	struct arena a = {0};
	struct zoo z = net_begin("stem");
	struct fmap x = zoo_input(&z, "x", 6, 128, 128);
	int at = x.value;
	x = zoo_conv(&z, x, conv(12, 3, 2));
	x = zoo_conv(&z, x, conv(24, 3, 2));
	x = zoo_conv(&z, x, conv(48, 3, 2));
	struct graph *g = net_end(&z, x.value);
	const struct steps *s = steps_of(g, NULL, &a);
	int first = after(g, at), second = after(g, first);
	CHECK(blocked(s, first) && blocked(s, second));
	graph_free(g);
	arena_free(&a);
}

TEST(joined_values_agree)
{
	struct arena a = {0};
	struct zoo z = net_begin("joins");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 3, 64, 64), conv(64, 3, 2)), y = x;
	for (int i = 0; i < 3; i++)
		y = zoo_add(&z, zoo_conv(&z, zoo_conv(&z, y, conv(64, 3, 1)), conv(64, 3, 1)), y);
	y = zoo_concat(&z, y, zoo_conv(&z, x, conv(64, 1, 1)));
	y = zoo_conv(&z, y, conv(64, 3, 1));
	struct graph *g = net_end(&z, y.value);
	const struct steps *s = steps_of(g, NULL, &a);
	CHECK(conversions(s) <= 1); /* of the output */
	for (int i = 0; i < s->nsteps; i++)
		CHECK(s->step[i].kind != STEP_HOST || blocked(s, g->node[s->step[i].node].out[0]));
	graph_free(g);
	arena_free(&a);
}

TEST(nothing_is_free)
{
	struct arena a = {0};
	struct zoo z = net_begin("dense");
	struct fmap x = zoo_mean(&z, zoo_input(&z, "x", 64, 1, 1));
	struct graph *g = net_end(&z, zoo_dense(&z, x.value, 64, 10, 1));
	const struct steps *s = steps_of(g, NULL, &a);
	for (int v = 0; v < s->nvalues; v++)
		CHECK(!blocked(s, v));
	graph_free(g);
	arena_free(&a);
}

TEST(choices_come_first)
{
	struct arena a = {0};
	struct zoo z = net_begin("chosen");
	struct fmap x = zoo_input(&z, "x", 3, 64, 64);
	int at = x.value;
	x = zoo_conv(&z, x, conv(64, 3, 2));
	x = zoo_conv(&z, x, conv(64, 3, 1));
	x = zoo_mean(&z, zoo_conv(&z, x, conv(64, 3, 1)));
	struct graph *g = net_end(&z, zoo_dense(&z, x.value, 64, 10, 1));
	struct choices c = {0};
	int first = after(g, at), second = after(g, first);
	CHECK(blocked(steps_of(g, NULL, &a), second));
	choices_set(&c, &a, CHOICE_LANES, g->value[second].name, 1);
	const struct steps *s = steps_of(g, &c, &a);
	CHECK(!blocked(s, second) && blocked(s, first));
	choices_set(&c, &a, CHOICE_LANES, g->value[first].name, 1);
	choices_set(&c, &a, CHOICE_LANES, g->value[second].name, 8);
	s = steps_of(g, &c, &a);
	CHECK(blocked(s, second) && !blocked(s, first));
	/* an impossible choice does not affect the others */
	choices_set(&c, &a, CHOICE_LANES, g->value[g->output[0]].name, 16);
	choices_set(&c, &a, CHOICE_LANES, g->value[g->input[0]].name, 16);
	s = steps_of(g, &c, &a);
	CHECK(blocked(s, second) && !blocked(s, first) && !blocked(s, g->output[0]) &&
	      !blocked(s, g->input[0]));
	graph_free(g);
	arena_free(&a);
}

TEST(measured_peaks_do_not_matter)
{
	struct graph *g;
	struct arena a = {0};
	struct steps *x, *y;
	struct target slow = machine;
	slow.fma_gflops = 10;
	slow.copy_gbs = 1;
	for (int i = 0; i < 4; i++)
		slow.bw_gbs[i] = 1;
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, &machine, NULL, &a, &x));
	REQUIRE_OK(graph_steps(g, &slow, NULL, &a, &y));
	CHECK(x->nsteps == y->nsteps);
	for (int i = 0; i < x->nsteps && x->nsteps == y->nsteps; i++)
		CHECK(x->step[i].kind != STEP_TASK ||
		      key_equal(task_key(x->step[i].task), task_key(y->step[i].task)));
	graph_free(g);
	arena_free(&a);
}

/* Divides the same graph for another machine, and again for the first one. */
TEST(costs_are_of_one_machine)
{
	struct arena a = {0};
	struct zoo z = net_begin("machines");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 3, 64, 64), conv(64, 3, 2));
	struct graph *g = net_end(&z, zoo_mean(&z, zoo_conv(&z, x, conv(64, 3, 1))).value);
	struct target narrow = machine;
	struct steps *s;
	narrow.lanes = 8;
	const struct steps *first = steps_of(g, NULL, &a);
	const struct layout_costs *kept = g->costs;
	CHECK(kept && steps_of(g, NULL, &a)->nsteps == first->nsteps && g->costs == kept);
	REQUIRE_OK(graph_steps(g, &narrow, NULL, &a, &s));
	CHECK(g->costs != kept);
	CHECK(blocked(s, x.value) && s->value[x.value].buf.layout.ax[1].div == 8);
	s = steps_of(g, NULL, &a);
	CHECK(blocked(s, x.value) && s->value[x.value].buf.layout.ax[1].div == 16);
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
