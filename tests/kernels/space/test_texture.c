/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules whose weights are a texture: where they are drawn and legal, and what they are lowered to. */
#include "kernels/loops/lower.h"
#include "kernels/space/transfer.h"
#include "tests/lib/items_cases.h"

static const char product[] =
    "task syms=0\noperand X in f32 [24,128] plain\noperand W const f32 [128,64] plain\n"
    "operand B const f32 [64] plain\noperand Y out f32 [24,64] plain\nstage m:24 n:64 | k:128\n"
    "read X [m,k]\nread W [k,n]\nread B [n]\nbody r0 r1 mul\nsum\npost acc r2 add\nwrite Y [m,n]\n";

static const char windows[] =
    "task syms=0\noperand X in f32 [1,8,18,18] plain\noperand W const f32 [8,8,3,3] plain\n"
    "operand Y out f32 [1,8,16,16] plain\nstage n:1 o:8 y:16 x:16 | c:8 r:3 s:3\n"
    "read X [n,c,y+r,x+s]\nread W [o,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,o,y,x]\n";

static struct space *open_space(struct arena *a, const struct task *t, const struct target *tg)
{
	struct space *s = NULL;
	CHECK_OK(space_make(a, t, tg, NULL, &s));
	return s;
}

/* Every drawn candidate can be lowered, and its weights alone are a texture. */
TEST(drawn_textures_are_lowered)
{
	int drawn = 0, left = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct arena a = {0};
		struct buf text = {0};
		struct rng r;
		struct task *t = ARENA_NEW(&a, struct task);
		const struct target tg = textures_board(seed);
		char cand[CAND_MAX], next[CAND_MAX];
		rng_seed(&r, seed);
		products_text(&text, &r);
		REQUIRE_OK(task_parse(buf_str(&text), t));
		struct space *s = open_space(&a, t, &tg);
		REQUIRE_OK(space_random(s, &r, cand));
		for (int i = 0; i < 30; i++) {
			struct loops *l;
			struct manifest m;
			int textures = 0;
			REQUIRE_OK(space_mutate(s, &r, cand, next));
			strcpy(cand, next);
			REQUIRE_OK(space_legal(s, cand));
			REQUIRE_OK(lower(t, cand, &tg, &a, &l, &m));
			for (int b = 0; b < m.nbufs; b++) {
				CHECK(l->buf[b].texture == m.buf[b].texture);
				CHECK(!m.buf[b].texture || (m.buf[b].role == BUF_CONST && m.buf[b].packed));
				textures += m.buf[b].texture;
			}
			CHECK((textures > 0) == (strstr(cand, "texture=1") != NULL));
			CHECK_OK(loops_check(l));
			drawn += textures > 0;
			left += !textures;
		}
		buf_free(&text);
		arena_free(&a);
	}
	printf("%d with textures, %d without\n", drawn, left);
	CHECK(drawn > 200 && left > 200);
}

TEST(only_where_a_device_has_a_cache_for_them)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct target with = textures_board(1), without = items_board(1), processor = textures_board(1);
	char cand[CAND_MAX], other[CAND_MAX];
	int at = 0, rules = 0;
	processor.serial = 1;
	REQUIRE_OK(task_parse(product, t));
	struct space *s = open_space(&a, t, &with);
	CHECK(case_drawn(s, 3, 200, "texture=1") > 40);
	CHECK(case_drawn(open_space(&a, t, &without), 3, 200, "texture=1") == 0);
	CHECK(case_drawn(open_space(&a, t, &processor), 3, 200, "texture=1") == 0);
	space_default(s, cand);
	CHECK(!strstr(cand, "texture"));
	while (space_portfolio(s, &at, cand) >= 0)
		if (strstr(cand, "texture=1"))
			rules++, strcpy(other, cand);
	REQUIRE(rules == 1);
	CHECK_FAILS(space_legal(open_space(&a, t, &without), other), E_INFEASIBLE, "the device has none");
	CHECK_OK(space_legal(open_space(&a, t, &processor), other));
	CHECK_OK(space_transfer(s, t, 0, other, cand));
	CHECK(strstr(cand, "texture=1"));
	CHECK_OK(space_transfer(open_space(&a, t, &without), t, 0, other, cand));
	CHECK(!strstr(cand, "texture"));
	arena_free(&a);
}

TEST(what_cannot_be_a_texture)
{
	static const struct {
		const char *cand, *why;
	} all[] = {{"lane=n:2 par=1 texture=1", "vectors of 4, 8 or 16 lanes"},
		   {"lane=m:4 par=1 texture=1", "no packed weights"},
		   {"par=1 texture=1", "no packed weights"},
		   {"lane=n:4 par=1 prefetch=2 texture=1", "not prefetched"},
		   {"lane=n:4 par=2 texture=1 threads=m:4,n:4 share=k:8", "threads share the weights"}};
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	const struct target tg = textures_board(1);
	REQUIRE_OK(task_parse(product, t));
	struct space *s = open_space(&a, t, &tg);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		CHECK_FAILS(space_legal(s, all[i].cand), E_INFEASIBLE, all[i].why);
	CHECK_OK(space_legal(s, "lane=n:4 par=2 texture=1 threads=k:32"));
	REQUIRE_OK(task_parse(windows, t));
	s = open_space(&a, t, &tg);
	CHECK_FAILS(space_legal(s, "lane=o:4 winograd=2 gemm=4x4 texture=1"), E_INFEASIBLE, "not with winograd");
	arena_free(&a);
}

/* The checker refuses other accesses than those that a device can make. */
TEST(accesses_of_textures_are_checked)
{
	static const struct {
		int lanes, stride, at, step;
		bool valid;
		enum buf_role role;
		const char *why; /* NULL: it is right */
	} all[] = {{4, 1, 8, 4, false, BUF_CONST, NULL},
		   {8, 1, 4, 4, false, BUF_CONST, NULL},
		   {16, 1, 0, 16, false, BUF_CONST, NULL},
		   {2, 1, 0, 4, false, BUF_CONST, "no vector of 4"},
		   {4, 0, 0, 4, false, BUF_CONST, "no vector of 4"},
		   {4, 2, 0, 4, false, BUF_CONST, "no vector of 4"},
		   {4, 1, 0, 4, true, BUF_CONST, "no vector of 4"},
		   {4, 1, 2, 4, false, BUF_CONST, "inside of a texel"},
		   {4, 1, 0, 2, false, BUF_CONST, "inside of a texel"},
		   {4, 1, 0, 4, false, BUF_IN, "no constant"}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct arena a = {0};
		struct loops *l = ARENA_NEW(&a, struct loops);
		loops_init(l, &a, true);
		int w = loops_buf(l, "W", all[i].role, DT_F32, ix_c(l, 256)),
		    y = loops_buf(l, "Y", BUF_OUT, DT_F32, ix_c(l, 256));
		l->buf[w].texture = true;
		int e = loops_entry(l, ix_c(l, 4)), v = lv_new(l, all[i].lanes);
		const struct ix *x = ix_mul(l, ix_var(l, l->entry[e].var), ix_c(l, all[i].step));
		lv_load(l, v,
			(struct mem){.buf = w,
				     .at = ix_add(l, x, ix_c(l, all[i].at)),
				     .stride = all[i].stride,
				     .valid = all[i].valid ? ix_c(l, 3) : NULL});
		lv_store(l, v, (struct mem){.buf = y, .at = ix_mul(l, x, ix_c(l, 4)), .stride = 1});
		loops_entry_end(l);
		if (all[i].why)
			CHECK_FAILS(loops_check(l), E_INFEASIBLE, all[i].why);
		else
			CHECK_OK(loops_check(l));
		arena_free(&a);
	}
}

TEST_MAIN
