/* SPDX-License-Identifier: Apache-2.0 */
/* Random layouts: the halo is every element that no logical index reaches, but for padding lanes. */
#include "tests/lib/test.h"
#include "agent/run/halo.h"
#include "platform/base/rng.h"

static struct operand random_operand(struct rng *r)
{
	struct operand o = {.dtype = DT_F32, .dims = {4, {0}}};
	int dim = (int)rng_below(r, 4), block = 1 << rng_below(r, 3);
	for (int d = 0; d < 4; d++)
		o.dims.d[d] = (1 + rng_below(r, 5)) * (d == dim ? block : 1);
	if (block > 1)
		layout_blocked(&o.layout, 4, dim, block);
	for (int d = 0; d < 4; d++)
		if (d != dim) {
			o.layout.lo[d] = rng_below(r, 3);
			o.layout.hi[d] = rng_below(r, 3);
		}
	return o;
}

TEST(halo_is_what_no_index_reaches)
{
	struct arena a = {0};
	struct rng r;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		rng_seed(&r, seed);
		struct operand o = random_operand(&r);
		struct segment *s = NULL;
		int64_t elems = operand_elems(&o), i[4] = {0};
		float *p = ARENA_ARRAY(&a, float, elems);
		int n = halo_find(&o, &a, &s);
		REQUIRE_OK(n);
		halo_set(s, n, 1, p);
		int64_t count = shape_count(&o.dims), set = 0;
		for (int64_t k = 0; k < count; k++) {
			CHECK(p[operand_offset(&o, i)] == 0);
			for (int d = 3; d >= 0 && ++i[d] == o.dims.d[d]; d--)
				i[d] = 0;
		}
		for (int64_t k = 0; k < elems; k++)
			set += p[k] == 1;
		CHECK(set == elems - count);
		arena_reset(&a);
	}
	arena_free(&a);
}

TEST_MAIN
