/* SPDX-License-Identifier: Apache-2.0 */
/* Parts inside a whole: where operand_inside says so, every element lies where the part's own layout has it.
 */
#include "agent/run/plan_parts.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"
#include "tools/hone/zoo.h"

static void random_layout(struct rng *r, struct operand *o)
{
	int block = 1 << rng_below(r, 4), halo = (int)rng_below(r, 3);
	if (block > 1)
		layout_blocked(&o->layout, 4, 1, block);
	for (int d = 2; d < 4; d++)
		o->layout.lo[d] = o->layout.hi[d] = halo;
}

TEST(a_part_inside_lies_as_it_would_alone)
{
	struct rng r;
	int inside = 0;
	rng_seed(&r, 1);
	for (int round = 0; round < 4000; round++) {
		struct operand whole = {.dtype = DT_F32, .dims = {4, {1, 0, 0, 0}}}, part;
		int d = (int)rng_below(&r, 3);
		for (int e = 0; e < 4; e++)
			whole.dims.d[e] =
			    e == 0 && rng_below(&r, 4) ? 1 : 1 + (int)rng_below(&r, e == 1 ? 40 : 4);
		random_layout(&r, &whole);
		part = whole;
		if (!rng_below(&r, 4))
			random_layout(&r, &part);
		part.fill = rng_below(&r, 8) ? 0 : 1;
		part.dims.d[d] = 1 + rng_below(&r, (uint32_t)whole.dims.d[d]);
		int64_t room = whole.dims.d[d] - part.dims.d[d], i[4] = {0};
		int64_t at = rng_below(&r, (uint32_t)room + 1) / 8 * 8,
			from = operand_inside(&part, &whole, d, at);
		if (from < 0)
			continue;
		inside++;
		CHECK(layout_equal(&part.layout, &whole.layout));
		CHECK(from + operand_elems(&part) <= operand_elems(&whole));
		for (int64_t k = shape_count(&part.dims); k > 0; k--) {
			int64_t j[4] = {i[0], i[1], i[2], i[3]};
			j[d] += at;
			CHECK(operand_offset(&whole, j) == from + operand_offset(&part, i));
			for (int e = 3; e >= 0 && ++i[e] == part.dims.d[e]; e--)
				i[e] = 0;
		}
	}
	CHECK(inside > 500);
}

/* Parts that would share a block, a row or a halo with a neighbour stay apart. */
TEST(parts_that_lie_otherwise_are_copied)
{
	struct operand whole = {.dtype = DT_F32, .dims = {4, {1, 48, 5, 5}}}, part = whole;
	part.dims.d[1] = 24;
	CHECK(operand_inside(&part, &whole, 1, 24) == 24 * 25);
	layout_blocked(&whole.layout, 4, 1, 16);
	CHECK(operand_inside(&part, &whole, 1, 0) == -1);
	part.layout = whole.layout;
	CHECK(operand_inside(&part, &whole, 1, 0) == 0);
	CHECK(operand_inside(&part, &whole, 1, 16) == 16 * 25);
	CHECK(operand_inside(&part, &whole, 1, 24) == -1);
	part.layout.lo[2] = 1;
	CHECK(operand_inside(&part, &whole, 1, 16) == -1);
	whole.layout.lo[2] = 1;
	CHECK(operand_inside(&part, &whole, 1, 16) == 16 * 30);
	whole.fill = 1;
	CHECK(operand_inside(&part, &whole, 1, 16) == -1);
	whole.dims.d[0] = part.dims.d[0] = 2;
	whole.fill = 0;
	CHECK(operand_inside(&part, &whole, 1, 16) == -1);
}

/* A plain part of a blocked whole: a kernel converts it to where it belongs. */
TEST(inputs_of_concat_are_converted_in_place)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	struct zoo z = {.g = g, .opset = 17};
	struct target t;
	struct steps *s;
	rng_seed(&z.rng, 1);
	struct fmap x = zoo_input(&z, "x", 32, 9, 9), y;
	struct attr perm = zoo_attr_ints("perm", 4, (int64_t[]){0, 1, 3, 2});
	x.value = zoo_node(&z, "Transpose", 1, &x.value, 1, &perm);
	y = zoo_conv(&z, x, (struct zoo_conv){.k = 32, .r = 1, .stride = 1});
	y = zoo_concat(&z, x, y);
	struct choices c = {0};
	choices_set(&c, &a, CHOICE_LANES, g->value[x.value].name, 1);
	choices_set(&c, &a, CHOICE_LANES, g->value[y.value].name, 16);
	y = zoo_conv(&z, y, (struct zoo_conv){.k = 32, .r = 3, .stride = 1, .pad = 1});
	zoo_output(&z, y.value, "y");
	REQUIRE(z.rc >= 0 && graph_infer(g) >= 0 && graph_optimize(g) >= 0);
	REQUIRE(target_baseline("x86-64-v4", &t) >= 0 && graph_steps(g, &t, &c, &a, &s) >= 0);
	int joins = 0;
	for (int i = 0; i < s->nsteps; i++) {
		const struct step *st = &s->step[i];
		if (st->kind != STEP_HOST || strcmp(node_type(&g->node[st->node]), "Concat"))
			continue;
		const struct operand *whole = &s->value[g->node[st->node].out[0]].buf;
		joins++;
		CHECK(whole->layout.n == 5 && whole->layout.lo[2] == 1);
		for (int k = 0; k < 2; k++)
			CHECK(operand_inside(&s->value[st->host_in[k]].buf, whole, 1, 32 * k) >= 0);
		CHECK(st->host_in[0] >= g->nvalues && s->value[st->host_in[0]].of == x.value);
	}
	CHECK(joins == 1);
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
