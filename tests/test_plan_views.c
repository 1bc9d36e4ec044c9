/* SPDX-License-Identifier: Apache-2.0 */
/* Parts inside a whole: where plan_inside says so, every element lies where the part's own layout has it. */
#include "agent/plan_parts.h"
#include "platform/rng.h"
#include "tests/test.h"

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
			from = plan_inside(&part, &whole, d, at);
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

/* What would share a block, a row or a halo with its neighbour stays apart. */
TEST(what_lies_otherwise_is_copied)
{
	struct operand whole = {.dtype = DT_F32, .dims = {4, {1, 48, 5, 5}}}, part = whole;
	part.dims.d[1] = 24;
	CHECK(plan_inside(&part, &whole, 1, 24) == 24 * 25);
	layout_blocked(&whole.layout, 4, 1, 16);
	CHECK(plan_inside(&part, &whole, 1, 0) == -1);
	part.layout = whole.layout;
	CHECK(plan_inside(&part, &whole, 1, 0) == 0);
	CHECK(plan_inside(&part, &whole, 1, 16) == 16 * 25);
	CHECK(plan_inside(&part, &whole, 1, 24) == -1);
	part.layout.lo[2] = 1;
	CHECK(plan_inside(&part, &whole, 1, 16) == -1);
	whole.layout.lo[2] = 1;
	CHECK(plan_inside(&part, &whole, 1, 16) == 16 * 30);
	whole.fill = 1;
	CHECK(plan_inside(&part, &whole, 1, 16) == -1);
	whole.dims.d[0] = part.dims.d[0] = 2;
	whole.fill = 0;
	CHECK(plan_inside(&part, &whole, 1, 16) == -1);
}

TEST_MAIN
