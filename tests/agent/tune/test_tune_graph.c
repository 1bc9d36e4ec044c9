/* SPDX-License-Identifier: Apache-2.0 */
/* Compares divisions of a graph on a clock that ticks at each look: every kernel takes one tick, so the
 * division with fewer kernels wins. */
#include "agent/tune/tune_graph.h"

#include "agent/cache/chosen_rec.h"
#include "agent/cache/hint.h"
#include "kernels/graph/eval.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t ticking(struct clock *c)
{
	return c->virtual_ns += 1000;
}

/* A runner that cannot build any kernel, so that fallbacks run. */
struct barren {
	struct runner r;
	int rc, builds, stop_at; /* stop_at: number of the build during which a stop is requested; 0: none */
	volatile sig_atomic_t stop;
};

static int barren_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct barren *b = (struct barren *)r;
	CHECK(*task && *cand && deadline_ns > 0);
	if (++b->builds == b->stop_at)
		b->stop = 1;
	*handle = -1;
	m->status = MEAS_INFEASIBLE;
	return b->rc < 0 ? fail(b->rc, "asked for") : E_OK;
}

static void barren_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	CHECK(r && handle == -1 && deadline_ns > 0);
}

static const struct runner_ops barren_ops = {.build = barren_build, .drop = barren_drop};

struct bench {
	struct graph *g;
	struct arena a;
	struct clock clock;
	struct target target;
	struct cache *cache;
	struct chosen_for chosen;
	struct barren runner;
	struct choices choices;
	struct steps *steps;
	char dir[64];
};

static int weights(struct graph *g)
{
	struct shape s = {4, {16, 16, 3, 3}};
	struct rng r;
	int w = graph_add_value(g, "w");
	rng_seed(&r, 1);
	CHECK_OK(tensor_alloc(&g->arena, DT_F32, &s, &g->value[w].t));
	rng_fill(&r, g->value[w].t.data, (size_t)shape_count(&s));
	return w;
}

/* x -> conv -> + x -> Relu, 16 channels */
static struct graph *residual(void)
{
	static const int64_t pads[] = {1, 1, 1, 1};
	struct attr attr = {.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = pads};
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->input = ARENA_ARRAY(&g->arena, int, 1);
	g->output = ARENA_ARRAY(&g->arena, int, 1);
	g->ninputs = g->noutputs = 1;
	int x = g->input[0] = graph_add_value(g, "x"), w = weights(g);
	g->value[x].is_input = true;
	g->value[x].t = (struct tensor){DT_F32, {4, {1, 16, 6, 6}}, NULL};
	int c = graph_add_value(g, "c"), s = graph_add_value(g, "s"), y = graph_add_value(g, "y");
	CHECK_OK(graph_add_node(g, "Conv", "conv", 13, 2, (int[]){x, w}, 1, &c, 1, &attr));
	CHECK_OK(graph_add_node(g, "Add", "add", 13, 2, (int[]){c, x}, 1, &s, 0, NULL));
	CHECK_OK(graph_add_node(g, "Relu", "relu", 13, 1, &s, 1, &y, 0, NULL));
	g->output[0] = y;
	g->value[y].is_output = true;
	CHECK_OK(graph_infer(g));
	return g;
}

static void set_up(struct bench *b, const struct choices *first)
{
	*b = (struct bench){.g = residual(), .clock = {.now = ticking}, .target = {.lanes = 16}};
	snprintf(b->dir, sizeof b->dir, "/tmp/hone-tune-graph-XXXXXX");
	REQUIRE(mkdtemp(b->dir));
	REQUIRE_OK(cache_open(&b->cache, b->dir, false, 0));
	b->chosen = (struct chosen_for){b->cache, &b->target, 1, false};
	b->runner.r = (struct runner){&barren_ops, &b->clock, &b->target, 1};
	if (first)
		REQUIRE_OK(chosen_save(&b->chosen, b->g, first));
	REQUIRE_OK(chosen_steps(&b->chosen, b->g, &b->a, &b->choices, &b->steps));
}

static struct graph_search *open_search(struct bench *b, int64_t ticks)
{
	static const int64_t run_ns = 3000;
	const struct tune_graph_options o = {.chosen = &b->chosen,
					     .clock = &b->clock,
					     .run_ns = run_ns,
					     .stop = &b->runner.stop,
					     .deadline_ns = b->clock.virtual_ns + ticks * 1000};
	struct graph_search *x = NULL;
	CHECK_OK(graph_search_open(&o, b->g, &b->runner.r, &b->a, &b->choices, b->steps, &x));
	return x;
}

/* Compares all alternatives. */
static int tune(struct bench *b, int64_t ticks)
{
	struct graph_search *x = open_search(b, ticks);
	int rc = 0, changed = 0;
	while (rc >= 0 && graph_search_promise(x) > 0) {
		rc = graph_search_next(x, &b->choices, &b->steps);
		changed |= rc > 0;
	}
	CHECK(graph_search_next(x, &b->choices, &b->steps) == 0); /* no alternative is left */
	graph_search_close(x);
	return rc < 0 ? rc : changed;
}

static void tear_down(struct bench *b)
{
	char cmd[128];
	cache_close(b->cache);
	graph_free(b->g);
	arena_free(&b->a);
	snprintf(cmd, sizeof cmd, "rm -r %s", b->dir);
	CHECK(system(cmd) == 0);
}

static int kept(struct bench *b)
{
	struct choices c;
	CHECK_OK(chosen_load(&b->chosen, b->g, &b->a, &c));
	return c.n;
}

TEST(rules_stay_where_nothing_is_faster)
{
	struct bench b;
	set_up(&b, NULL);
	int before = b.steps->nsteps;
	CHECK(tune(&b, 1000000) == 0);
	CHECK(b.runner.builds >= 3); /* the conv with the sum, the conv, the sum */
	CHECK(b.choices.n == 0 && b.steps->nsteps == before && kept(&b) == 0);
	tear_down(&b);
}

/* The cache keeps the old division: the caller saves the new one once it has kernels. */
TEST(the_faster_division_is_taken)
{
	struct bench b;
	struct arena a = {0};
	struct choices c = {0};
	choices_set(&c, &a, CHOICE_JOIN, "conv", 0);
	set_up(&b, &c);
	CHECK(b.choices.n == 1 && kept(&b) == 1);
	b.chosen.threads = 3; /* another number of threads takes the choices of the nearest */
	CHECK(kept(&b) == 1);
	b.chosen.threads = 1;
	int before = b.steps->nsteps;
	CHECK(tune(&b, 1000000) == 1);
	CHECK(b.choices.n == 0 && b.steps->nsteps < before && kept(&b) == 1);
	CHECK_OK(chosen_save(&b.chosen, b.g, &b.choices));
	CHECK(kept(&b) == 0);
	tear_down(&b);
	arena_free(&a);
}

/* Puts a hint as hone-sync does. */
static void put_hint(struct bench *b, const struct choices *c)
{
	struct buf text = {0}, record = {0};
	choices_text(c, &text);
	const struct chosen_rec r = {.model = graph_key(b->g),
				     .target_key = target_key(&b->target),
				     .device = "cpu",
				     .threads = 1,
				     .choices = buf_str(&text)};
	chosen_rec_text(&r, &record);
	CHECK_OK(hint_bring(b->cache, CACHE_HINT_CHOICES, chosen_rec_key(&r), record.p, record.n));
	buf_free(&text);
	buf_free(&record);
}

static int hints(struct bench *b)
{
	struct cache_state st;
	cache_state(b->cache, &st);
	return st.count[CACHE_HINT_CHOICES];
}

/* A stranger's choices divide no graph before they were compared here, and afterwards only if they won. */
TEST(choices_of_strangers_are_compared)
{
	struct bench b;
	struct arena a = {0};
	struct choices slow = {0};
	const struct choices fast = {0};
	choices_set(&slow, &a, CHOICE_JOIN, "conv", 0);
	for (int poisoned = 0; poisoned < 2; poisoned++) {
		set_up(&b, poisoned ? NULL : &slow);
		int before = b.steps->nsteps;
		put_hint(&b, poisoned ? &slow : &fast);
		CHECK(kept(&b) == !poisoned && hints(&b) == 1);
		REQUIRE_OK(chosen_steps(&b.chosen, b.g, &b.a, &b.choices, &b.steps));
		CHECK(b.steps->nsteps == before);
		CHECK(tune(&b, 3) == 0 && hints(&b) == 1); /* no time to compare */
		CHECK(tune(&b, 1000000) == !poisoned);
		CHECK(b.choices.n == 0 && (poisoned ? b.steps->nsteps == before : b.steps->nsteps < before));
		CHECK(hints(&b) == 0);
		tear_down(&b);
	}
	struct choices nothing = {0};
	choices_set(&nothing, &a, CHOICE_JOIN, "no such node", 1);
	set_up(&b, NULL);
	put_hint(&b, &nothing); /* they change no task, so no later box looks at them again */
	CHECK(hints(&b) == 1 && tune(&b, 1000000) == 0 && hints(&b) == 0);
	tear_down(&b);
	arena_free(&a);
}

TEST(a_dying_worker_or_the_end_of_the_box_change_nothing)
{
	static const int rcs[] = {E_CHILD, E_TIMEOUT};
	struct arena a = {0};
	struct choices c = {0};
	choices_set(&c, &a, CHOICE_JOIN, "conv", 0);
	for (int i = 0; i < 3; i++) {
		struct bench b;
		set_up(&b, &c);
		b.runner.rc = i < 2 ? rcs[i] : 0;
		CHECK(tune(&b, i < 2 ? 1000000 : 12) == 0);
		CHECK(b.choices.n == 1 && kept(&b) == 1);
		tear_down(&b);
	}
	arena_free(&a);
}

/* After a stop nothing more is built, not even other kernels of the division that is being compared. */
TEST(nothing_is_built_after_a_stop)
{
	for (int at = 1; at <= 3; at++) {
		struct bench b;
		set_up(&b, NULL);
		b.runner.stop_at = at;
		CHECK(tune(&b, 1000000) == 0);
		CHECK(b.runner.builds == at);
		tear_down(&b);
	}
}

/* An alternative promises more the more time differs, and less after one that saved nothing. */
TEST(promises)
{
	struct bench b;
	set_up(&b, NULL);
	struct graph_search *x = open_search(&b, 1000000);
	double first = graph_search_promise(x);
	CHECK(first > 0 && first < 1 && graph_search_promise(x) == first);
	CHECK(graph_search_next(x, &b.choices, &b.steps) == 0);
	CHECK(graph_search_promise(x) < first);
	graph_search_close(x);
	x = open_search(&b, 20); /* too few ticks for a comparison */
	CHECK(graph_search_promise(x) == 0);
	CHECK(graph_search_next(x, &b.choices, &b.steps) == 0);
	graph_search_close(x);
	graph_search_close(NULL);
	CHECK(graph_search_promise(NULL) == 0);
	tear_down(&b);
}

TEST_MAIN
