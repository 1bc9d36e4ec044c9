/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of groups: where graph_steps makes a fused step, and plans that use it or its parts. */
#include "agent/tune/tune_net.h"
#include "kernels/group/alternatives.h"
#include "kernels/emit/emit.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/run/dev.h"
#include "tests/lib/net.h"
#include "tests/lib/plan_error.h"

#include <math.h>

static struct target machine(int64_t l2_bytes)
{
	struct target t;
	CHECK_OK(dev_find("cpu")->probe(&t));
	t.l2_bytes = l2_bytes;
	return t;
}

static struct zoo_conv conv(int64_t k, int64_t r, int64_t stride, int64_t groups)
{
	return (struct zoo_conv){k, r, stride, r / 2, groups, .act = r > 1 || k > 32 ? ACT_RELU6 : ACT_NONE};
}

/* 24 -> 40 -> 24 channels plus the input, which is itself an activation. */
static struct fmap inverted(struct zoo *z, struct fmap x, int64_t stride)
{
	struct fmap h = zoo_conv(z, x, conv(40, 1, 1, 1));
	h = zoo_conv(z, h, conv(40, 3, stride, 40));
	h = zoo_conv(z, h, conv(24, 1, 1, 1));
	return stride == 1 ? zoo_add(z, h, x) : h;
}

static struct steps *steps_of(struct graph *g, const struct target *t, struct arena *a)
{
	struct steps *s = NULL;
	CHECK_OK(graph_steps(g, t, NULL, a, &s));
	return s;
}

static const struct step *fused_step(const struct steps *s, int *parts)
{
	const struct step *found = NULL;
	*parts = 0;
	for (int i = 0; i < s->nsteps; i++) {
		found = s->step[i].fused ? &s->step[i] : found;
		*parts += s->step[i].fused_by >= 0;
		CHECK(s->step[i].fused_by < 0 || s->step[s->step[i].fused_by].fused);
	}
	return found;
}

TEST(blocks_that_are_fused)
{
	struct target small = machine(1000), large = machine(1 << 30);
	struct arena a = {0};
	int parts;
	struct zoo z = net_begin("block");
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 8, 14, 14), conv(24, 1, 1, 1));
	struct graph *g = net_end(&z, inverted(&z, x, 1).value);
	const struct step *s = fused_step(steps_of(g, &small, &a), &parts);
	REQUIRE(s != NULL);
	CHECK(s->task->nstages == 3 && parts == 3);
	CHECK(!fused_step(steps_of(g, &large, &a), &parts) && !parts); /* everything fits in cache */
	struct step_task *tasks;
	struct steps *steps = steps_of(g, &small, &a);
	CHECK(steps_tasks(steps, &a, &tasks) == steps->nsteps - 3); /* parts of a fused step are not tuned */
	struct choices c = {0};
	choices_set(&c, &a, CHOICE_FUSE, s->name, 3);
	REQUIRE_OK(graph_steps(g, &large, &c, &a, &steps));
	CHECK(fused_step(steps, &parts) && parts == 3);
	choices_set(&c, &a, CHOICE_FUSE, s->name, 2);
	REQUIRE_OK(graph_steps(g, &large, &c, &a, &steps));
	s = fused_step(steps, &parts);
	CHECK(s && s->task->nstages == 2 && parts == 2);
	choices_set(&c, &a, CHOICE_FUSE, s->name, 1); /* the last two may still be a block */
	REQUIRE_OK(graph_steps(g, &small, &c, &a, &steps));
	s = fused_step(steps, &parts);
	CHECK(s && s->task->nstages == 2 && parts == 2);
	choices_set(&c, &a, CHOICE_FUSE, s->name, 1);
	REQUIRE_OK(graph_steps(g, &small, &c, &a, &steps));
	CHECK(!fused_step(steps, &parts));
	graph_free(g);

	z = net_begin("block"); /* the depthwise's output is also read elsewhere: two groups are left */
	x = zoo_conv(&z, zoo_input(&z, "x", 8, 14, 14), conv(24, 1, 1, 1));
	x = zoo_conv(&z, x, conv(24, 3, 1, 24));
	zoo_output(&z, x.value, "also");
	g = net_end(&z, zoo_conv(&z, x, conv(24, 1, 1, 1)).value);
	s = fused_step(steps_of(g, &small, &a), &parts);
	CHECK(s && s->task->nstages == 2 && parts == 2);
	graph_free(g);

	z = net_begin(
	    "block"); /* a convolution and pooling; the next convolution reads windows of all channels */
	x = zoo_conv(&z, zoo_input(&z, "x", 3, 32, 32), conv(32, 3, 2, 1));
	x = zoo_max_pool(&z, x, 3, 2, 1, false);
	g = net_end(&z, zoo_conv(&z, x, conv(16, 3, 1, 1)).value);
	s = fused_step(steps_of(g, &small, &a), &parts);
	CHECK(s && s->task->nstages == 3 && parts == 3); /* includes the copy of the input */
	graph_free(g);
	arena_free(&a);
}

/* Strided windows read an input from the caller's memory, unless it has another reader. */
TEST(inputs_without_a_copy)
{
	struct target t = machine(1 << 20);
	for (int i = 0; i < 4; i++) {
		struct arena a = {0};
		struct zoo z = net_begin("first");
		struct fmap x = zoo_input(&z, "x", 3, 20, 22),
			    y = zoo_conv(&z, x, conv(24, 3, 1 + (i != 1), 1));
		int parts;
		if (i == 2)
			y = zoo_add(&z, y, zoo_conv(&z, x, conv(24, 1, 2, 1)));
		if (i == 3)
			y = zoo_conv(&z, y, conv(24, 3, 1, 24));
		struct graph *g = net_end(&z, y.value);
		struct choices c = {0}, *other;
		struct steps *all = steps_of(g, &t, &a);
		const struct step *s = fused_step(all, &parts);
		CHECK(!s == (i == 1 || i == 2));
		CHECK(!s ||
		      (s->task->nstages == 2 && parts == 2 && s->block == 1 && s->value[0] == g->input[0]));
		CHECK(!s ||
		      all->value[s->value[0]].buf.layout.n + all->value[s->value[0]].buf.layout.lo[3] == 0);
		CHECK_OK(graph_alternatives(g, all, &c, &a, &other));
		graph_free(g);
		arena_free(&a);
	}
}

/* Compiles default schedules, or the next rule's if they spill. Without `blocks` no code is found for tasks
 * of several stages. */
struct compiler {
	const struct target *t;
	bool blocks;
	bool vectors; /* blocks are chains of products with vectors, else rings of an image's rows */
	int made;
};

static int compile(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		   enum kernel_origin *origin)
{
	struct compiler *c = ctx;
	struct space *s;
	struct loops *l;
	char cand[CAND_MAX];
	(void)text;
	if (t->nstages > 1 && !c->blocks)
		return E_NOTFOUND;
	int rc = space_make(a, t, c->t, NULL, &s);
	if (rc < 0)
		return rc;
	space_default(s, cand);
	CHECK(t->nstages == 1 || !strstr(cand, "ring=") == c->vectors);
	CHECK(!c->vectors || strstr(cand, "lane="));
	for (int rule = 0;;) {
		if ((rc = lower(t, cand, c->t, a, &l, &out->m)) >= 0)
			rc = emit_find("llvm")->emit(l, c->t, a, &out->object);
		if ((rc != E_INFEASIBLE && rc != E_SPILL) || space_portfolio(s, &rule, cand) < 0)
			break;
	}
	if (rc < 0)
		return rc;
	c->made += t->nstages > 1;
	*origin = FROM_DEFAULT;
	return E_OK;
}

static double error(struct graph *g, const struct steps *s, struct compiler *c, int threads)
{
	return plan_error(g, s, c->t, &(struct kernel_source){.ctx = c, .find = compile}, threads);
}

/* Networks that differ in whether the first and the second have code for the block; otherwise its parts are
 * used. */
TEST(served_are_the_steps_of_both_networks)
{
	for (int i = 0; i < 4; i++) {
		struct target t = machine(1000);
		struct arena a = {0};
		struct zoo z = net_begin("block");
		struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 8, 14, 14), conv(24, 1, 1, 1));
		x = zoo_conv(&z, inverted(&z, x, 1), conv(16, 3, 2, 1));
		struct graph *g = net_end(&z, zoo_unary(&z, "Hardmax", x.value)); /* runs on the host */
		struct steps *s = steps_of(g, &t, &a);
		struct net n[2];
		struct served *k;
		int expected = 0, seen = 0;
		for (int j = 0; j < 2; j++) {
			struct compiler c = {&t, i >> j & 1, false, 0};
			const struct kernel_source src = {.ctx = &c, .find = compile};
			REQUIRE_OK(net_open(&n[j], g, s, &t, &src, NULL, &clock_real, NULL));
			CHECK(c.made == (i >> j & 1));
			REQUIRE_OK(net_run_kernels(&n[j], &clock_real));
		}
		const struct plan_kernel *one, *other;
		int count = net_served(&n[0], &n[1], s, &a, &k);
		for (int r = 0; r < SERVED_ROUNDS + 1; r++)
			net_served_round(&n[0], &n[1], count, k);
		plan_kernels(n[0].plan, &one);
		plan_kernels(n[1].plan, &other);
		for (int at = 0; at < s->nsteps; at++) {
			const struct step *p = &s->step[at];
			bool there = p->fused ? i == 3 : p->fused_by < 0 || i == 0;
			if (p->kind != STEP_TASK || !there)
				continue;
			expected++;
			for (int m = 0; m < count; m++)
				seen += key_equal(k[m].task, task_key(p->task)) &&
					one[k[m].default_at].step == at && other[k[m].best_at].step == at &&
					k[m].rounds == SERVED_ROUNDS &&
					k[m].default_ns[SERVED_ROUNDS - 1] == one[k[m].default_at].ns &&
					k[m].best_ns[0] == other[k[m].best_at].ns;
		}
		CHECK(count == expected && seen == expected && expected >= 2);
		for (int j = 0; j < 2; j++)
			net_close(&n[j]);
		graph_free(g);
		arena_free(&a);
	}
}

/* Each run reads the tensor that it is given, at any address, and does not change it. */
TEST(inputs_are_read_in_place)
{
	struct target t = machine(1 << 20);
	struct arena a = {0};
	struct zoo z = net_begin("first");
	struct graph *g = net_end(&z, zoo_conv(&z, zoo_input(&z, "x", 3, 20, 22), conv(24, 3, 2, 1)).value);
	const struct tensor *y = &g->value[g->output[0]].t;
	enum { IN = 3 * 20 * 22 };
	int64_t n = shape_count(&y->shape);
	float *held = ARENA_ARRAY(&a, float, 3 * IN + 4), *kept = ARENA_ARRAY(&a, float, 3 * IN + 4);
	struct rng r;
	rng_seed(&r, 5);
	rng_fill(&r, held, 3 * IN + 4);
	memcpy(kept, held, sizeof *held * (3 * IN + 4));
	for (int blocks = 0; blocks < 2; blocks++) {
		struct compiler c = {&t, blocks, false, 0};
		const struct kernel_source src = {.ctx = &c, .find = compile};
		struct plan *p;
		REQUIRE_OK(plan_build(g, steps_of(g, &t, &a), &t, &src, NULL, &p));
		CHECK(c.made == blocks);
		for (int run = 0; run < 3; run++) { /* none of them aligned */
			struct tensor in = g->value[g->input[0]].t, out,
				      *ref = ARENA_ARRAY(&a, struct tensor, g->nvalues + 1);
			in.data = held + run * (IN + 1) + 1;
			REQUIRE_OK(tensor_alloc(&a, DT_F32, &y->shape, &out));
			REQUIRE_OK(plan_run(p, &in, &out));
			REQUIRE_OK(eval_graph(g, &in, ref, &a));
			const float *got = out.data, *want = ref[g->output[0]].data;
			for (int64_t i = 0; i < n; i++)
				REQUIRE(fabsf(got[i] - want[i]) < 1e-5f * (1 + fabsf(want[i])));
		}
		plan_free(p);
	}
	CHECK(!memcmp(kept, held, sizeof *held * (3 * IN + 4)));
	graph_free(g);
	arena_free(&a);
}

TEST(plans)
{
	for (int i = 0; i < 8; i++) {
		struct target t = machine(1000);
		struct arena a = {0};
		struct zoo z = net_begin("block");
		int size = 20 + i, parts;
		struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 8, size, size + 3), conv(24, 1, 1, 1));
		x = i & 1 ? inverted(&z, inverted(&z, x, 2), 1) : inverted(&z, inverted(&z, x, 1), 2);
		if (i & 2) {
			x = zoo_conv(&z, x, conv(40, 3, 1, 1));
			x = zoo_max_pool(&z, x, 3, 2, 1, false);
		}
		struct graph *g = net_end(&z, zoo_conv(&z, x, conv(16, 1, 1, 1)).value);
		const struct steps *s = steps_of(g, &t, &a);
		CHECK(fused_step(s, &parts) && parts >= 5);
		struct compiler with = {&t, true, false, 0}, without = {&t, false, false, 0};
		CHECK(error(g, s, &with, 1 + i / 4 * 2) < 1e-5 && with.made >= 2);
		CHECK(error(g, s, &without, 1) < 1e-5 && without.made == 0);
		graph_free(g);
		arena_free(&a);
	}
}

/* 40 -> sizes[0] -> ... with an activation behind each product but the last. */
struct mlp {
	int rows, n;
	int64_t size[8];
	int also;   /* product whose output is also an output of the graph; 0: none */
	bool twice; /* two products read the first one's output */
};

static struct graph *mlp(const struct mlp *m)
{
	struct zoo z = net_begin("mlp");
	int x = zoo_input(&z, "x", 40, m->rows, 1).value;
	if (m->rows > 1) {
		struct attr perm = zoo_attr_ints("perm", 4, (int64_t[]){0, 2, 1, 3});
		x = zoo_node(&z, "Transpose", 1, &x, 1, &perm);
		struct attr axis = zoo_attr_int("axis", 2);
		x = zoo_node(&z, "Flatten", 1, &x, 1, &axis);
	} else {
		x = zoo_node(&z, "Flatten", 1, &x, 0, NULL);
	}
	int64_t from = 40;
	int y = zoo_unary(&z, "Abs", x), first = -1;
	for (int i = 0; i < m->n; i++) {
		y = zoo_dense(&z, y, from, m->size[i], 1);
		if (i + 1 < m->n)
			y = zoo_unary(&z, i & 1 ? "Tanh" : "Sigmoid", y);
		first = i ? first : y;
		if (m->also == i + 1)
			zoo_output(&z, y, "also");
		from = m->size[i];
	}
	if (m->twice)
		y = zoo_binary(&z, "Add", y, zoo_dense(&z, first, m->size[0], from, 1));
	return net_end(&z, y);
}

TEST(chains_of_products)
{
	static const struct {
		struct mlp m;
		int64_t l2_bytes;
		int stages, offered; /* groups of the last fused step, 0: none; groups of the longest possible
				      * block, 1: none */
	} k[] = {
	    {{1, 3, {64, 48, 12}}, 1 << 20, 4, 4},
	    {{1, 2, {17, 3}}, 1 << 20, 3, 3},
	    /* a block of the largest size, and a second one */
	    {{1, 8, {8, 8, 8, 8, 8, 8, 8, 8}}, 1 << 20, 3, 6},
	    {{1, 1, {64}}, 1 << 20, 0, 1},         /* no intermediate */
	    {{4, 3, {64, 48, 12}}, 1 << 20, 0, 1}, /* the weights would be read for each row */
	    /* a value that is read outside ends the block */
	    {{1, 3, {64, 48, 12}, .also = 2}, 1 << 20, 3, 3},
	    {{1, 3, {64, 48, 12}, .also = 1}, 1 << 20, 2, 2}, /* and another block begins after it */
	    {{1, 2, {64, 12}, .twice = true}, 1 << 20, 0, 1}, /* two readers */
	    {{1, 3, {8, 8, 600}}, 1 << 13, 3, 3},             /* the last product's weights exceed the L2 */
	    {{1, 3, {64, 48, 12}}, 1 << 13, 0, 1},
	    {{1, 3, {600, 300, 12}}, 1 << 20, 0, 4}, /* several threads may be faster: measured */
	    {{1, 2, {5000, 12}}, 1 << 24, 0, 1},     /* the intermediate exceeds the L1 */
	};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct arena a = {0};
		struct target t = machine(k[i].l2_bytes);
		struct graph *g = mlp(&k[i].m);
		int parts, offered = 0;
		t.l1_bytes = 1 << 15;
		const struct steps *s = steps_of(g, &t, &a);
		const struct step *f = fused_step(s, &parts);
		for (int j = 0; j < s->nsteps; j++)
			offered = s->step[j].block > offered ? s->step[j].block : offered;
		if ((f ? f->task->nstages : 0) != k[i].stages || offered != k[i].offered)
			printf("case %zu: %d stages, %d offered\n", i, f ? f->task->nstages : 0, offered);
		CHECK((f ? f->task->nstages : 0) == k[i].stages && offered == k[i].offered);
		graph_free(g);
		arena_free(&a);
	}
}

TEST(chains_chosen)
{
	struct arena a = {0};
	struct target t = machine(1 << 20);
	struct mlp large = {1, 3, {600, 300, 12}}, small = {1, 3, {64, 48, 12}};
	struct graph *g = mlp(&large);
	struct steps *s = steps_of(g, &t, &a);
	struct choices c = {0}, *other;
	int parts, n = graph_alternatives(g, s, &c, &a, &other);
	REQUIRE(n == 1 && other[0].n == 1 && other[0].choice[0].number == 4);
	REQUIRE_OK(graph_steps(g, &t, &other[0], &a, &s));
	CHECK(fused_step(s, &parts) && parts == 4);
	graph_free(g);
	g = mlp(&small);
	s = steps_of(g, &t, &a);
	n = graph_alternatives(g, s, &c, &a, &other);
	REQUIRE(n == 1);
	REQUIRE_OK(graph_steps(g, &t, &other[0], &a, &s));
	CHECK(!fused_step(s, &parts) && !parts);
	graph_free(g);
	arena_free(&a);
}

TEST(chains_give_the_answer)
{
	static const struct mlp k[] = {{1, 3, {64, 48, 12}},
				       {1, 2, {17, 3}},
				       {1, 5, {33, 1, 16, 5, 100}},
				       {1, 4, {64, 48, 12, 7}, .also = 2}};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct arena a = {0};
		struct target t = machine(1 << 20);
		struct graph *g = mlp(&k[i]);
		const struct steps *s = steps_of(g, &t, &a);
		struct compiler with = {&t, true, true, 0}, without = {&t, false, true, 0};
		if (!k[i].also) {
			CHECK(error(g, s, &with, 1 + (int)i % 2 * 2) < 1e-5 && with.made >= 1);
			CHECK(error(g, s, &without, 1) < 1e-5 && without.made == 0);
		}
		graph_free(g);
		arena_free(&a);
	}
}

TEST_MAIN
