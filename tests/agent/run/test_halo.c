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
		halo_set(s, n, DT_F32, 1, p);
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

static void check_bytes(struct arena *a, const struct operand *o, int fill)
{
	struct segment *s = NULL;
	int64_t elems = operand_elems(o), count = shape_count(&o->dims);
	uint8_t *plain = ARENA_ARRAY(a, uint8_t, count), *want = ARENA_ARRAY(a, uint8_t, elems),
		*got = ARENA_ARRAY(a, uint8_t, elems + 1);
	memset(plain, 99, (size_t)count);
	operand_pack(o, plain, want);
	memset(got, 99, (size_t)elems + 1);
	int n = halo_find(o, a, &s);
	REQUIRE_OK(n);
	halo_set(s, n, o->dtype, (float)fill, got);
	CHECK(!memcmp(got, want, (size_t)elems) && got[elems] == 99);
}

/* The halo of bytes is their zero point, and no byte around it changes. */
TEST(halo_of_bytes)
{
	struct arena a = {0};
	struct rng r;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		rng_seed(&r, seed);
		struct operand o = random_operand(&r);
		int fill = (int)rng_below(&r, 256);
		o.dtype = seed % 2 ? DT_U8 : DT_I8;
		fill -= o.dtype == DT_I8 ? 128 : 0;
		o.fill = (float)fill;
		check_bytes(&a, &o, fill);
		arena_reset(&a);
	}
	struct segment all = {0, 1};
	uint8_t byte = 1;
	halo_set(&all, 1, DT_U8, -1e30f, &byte);
	CHECK(byte == 0);
	halo_set(&all, 1, DT_I8, 1e30f, &byte);
	CHECK(byte == 127);
	arena_free(&a);
}

TEST_MAIN
