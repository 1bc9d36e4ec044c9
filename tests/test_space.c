/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel_cases.h"

static struct target board(int lanes, int regs)
{
	return (struct target){.isa = "x86-64-v4",
			       .lanes = lanes,
			       .regs = regs,
			       .fma = true,
			       .l1_bytes = 32768,
			       .l2_bytes = 1 << 20,
			       .l3_bytes = 32 << 20,
			       .cores = 1};
}

static struct space *space_of(struct kcase *c, uint64_t seed, const struct target *tg)
{
	struct rng r;
	struct buf text = {0};
	struct space *s = NULL;
	memset(c, 0, sizeof *c);
	rng_seed(&r, seed);
	case_text(&text, &r);
	CHECK_OK(task_parse(buf_str(&text), &c->t));
	CHECK_OK(space_make(&c->a, &c->t, tg, NULL, &s));
	buf_free(&text);
	return s;
}

/* Whatever a space gives is legal, canonical and lowers. */
static void good(struct kcase *c, const struct space *s, const struct target *tg, const char *cand)
{
	struct loops *l;
	struct manifest m;
	CHECK_OK(space_legal(s, cand));
	CHECK_OK(lower(&c->t, cand, tg, &c->a, &l, &m));
	double ns = space_draft(s, cand);
	CHECK(ns > 0 && ns < 1e12);
}

TEST(whatever_is_drawn_lowers)
{
	const struct target tg[] = {board(16, 32), board(8, 16), board(4, 32)};
	for (uint64_t seed = 1; seed <= 200 && !test_bad; seed++) {
		struct kcase c;
		struct rng r;
		char a[CAND_MAX], b[CAND_MAX], x[CAND_MAX];
		const struct target *t = &tg[seed % 3];
		struct space *s = space_of(&c, seed, t);
		REQUIRE(s);
		rng_seed(&r, seed + 1000);
		space_default(s, a);
		good(&c, s, t, a);
		CHECK_OK(space_random(s, &r, b));
		good(&c, s, t, b);
		CHECK_OK(space_mutate(s, &r, b, x));
		good(&c, s, t, x);
		CHECK_OK(space_cross(s, &r, a, b, x));
		good(&c, s, t, x);
		for (int i = 0; space_portfolio(s, i, x) >= 0; i++)
			good(&c, s, t, x);
		CHECK(space_roofline(s) > 0);
		if (test_bad)
			printf("seed %llu\n", (unsigned long long)seed);
		arena_free(&c.a);
	}
}

TEST(structure_is_what_stands_before_the_bar)
{
	char out[CAND_MAX];
	space_structure("lane=k:16 outer=y | block=y:8", out);
	CHECK(!strcmp(out, "lane=k:16 outer=y"));
	space_structure("lane=k:16", out);
	CHECK(!strcmp(out, "lane=k:16"));
}

/* Damaged text is refused with a reason, never a crash. */
TEST(damaged_text)
{
	static const char letters[] = "kxyn:=, |;0123456789lane";
	struct target tg = board(16, 32);
	struct kcase c;
	struct rng r;
	char cand[CAND_MAX];
	struct space *s = space_of(&c, 2, &tg);
	REQUIRE(s);
	rng_seed(&r, 5);
	for (int i = 0; i < 3000; i++) {
		CHECK_OK(space_random(s, &r, cand));
		size_t n = strlen(cand);
		for (int k = 0; n && k < 2; k++)
			cand[rng_below(&r, (uint32_t)n)] = letters[rng_below(&r, sizeof letters - 1)];
		int rc = space_legal(s, cand);
		CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_INFEASIBLE);
	}
	CHECK_FAILS(space_legal(s, "tile"), E_CORRUPT, "schedule");
	CHECK_FAILS(space_mutate(s, &r, "nonsense", cand), E_CORRUPT, "schedule");
	arena_free(&c.a);
}

TEST_MAIN
