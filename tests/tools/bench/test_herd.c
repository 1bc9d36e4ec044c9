/* SPDX-License-Identifier: Apache-2.0 */
/* Populations of candidates, the keys of known ones, and how measurements correct predictions. */
#include "platform/run/dev_sim.h"
#include "platform/base/hash.h"
#include "search/belief.h"
#include "platform/base/mix.h"
#include "tests/lib/test.h"

#include "tests/lib/tasks.h"

#include <math.h>

static struct {
	struct arena a;
	struct target t;
	struct guide guide;
	struct herd h;
} u;

static void open_herd(int cap)
{
	struct task *t;
	struct space *s;
	memset(&u, 0, sizeof u);
	dev_sim.probe(&u.t);
	t = ARENA_NEW(&u.a, struct task);
	CHECK_OK(task_parse(task_conv, t));
	CHECK_OK(space_make(&u.a, t, &u.t, NULL, &s));
	u.guide = (struct guide){.space = s, .cost = cost_find("draft")};
	herd_open(&u.h, &u.a, &u.guide, 1, cap);
}

static int draw(void *ctx, char cand[CAND_MAX])
{
	(void)ctx;
	return space_random(u.guide.space, &u.h.rng, cand);
}

static void tell(const char *cand, enum meas_status status, int64_t ns)
{
	const struct meas m = {.status = status, .runs = 3, .min_ns = ns};
	herd_tell(&u.h, cand, &m);
}

TEST(keys_grow)
{
	struct arena a = {0};
	struct keys k = {0};
	struct rng r;
	rng_seed(&r, 1);
	CHECK(!keys_has(&k, 0) && !keys_has(&k, 7));
	for (int i = 0; i < 5000; i++)
		keys_add(&a, &k, rng_u64(&r));
	keys_add(&a, &k, 0);
	keys_add(&a, &k, 0);
	CHECK(k.n == 5001 && keys_has(&k, 0) && k.cap >= 2 * k.n && k.cap <= 4 * k.n);
	rng_seed(&r, 1);
	for (int i = 0; i < 5000; i++)
		CHECK(keys_has(&k, rng_u64(&r)));
	for (int i = 0; i < 5000; i++)
		CHECK(!keys_has(&k, rng_u64(&r)));
	arena_free(&a);
}

TEST(a_pool_holds_different_candidates_and_the_best_of_them)
{
	open_herd(16);
	CHECK(herd_fill(&u.h, 16, draw, NULL) == 16);
	double slowest = 0, sum = 0, again = 0;
	for (int i = 0; i < 16; i++) {
		slowest = fmax(slowest, u.h.pool[i].log_ns);
		sum += u.h.pool[i].log_ns;
		CHECK_OK(space_legal(u.guide.space, u.h.pool[i].cand));
		CHECK(!herd_add(&u.h, &u.h.pool[i]));
		for (int k = 0; k < i; k++)
			CHECK(strcmp(u.h.pool[i].cand, u.h.pool[k].cand) != 0);
	}
	CHECK(herd_fill(&u.h, 64, draw, NULL) == 16);
	for (int i = 0; i < 16; i++) {
		again += u.h.pool[i].log_ns;
		CHECK(u.h.pool[i].log_ns <= slowest);
	}
	CHECK(again < sum);
	arena_free(&u.a);
}

TEST(proposed_and_measured_candidates_do_not_return)
{
	char cand[CAND_MAX], other[CAND_MAX];
	open_herd(16);
	CHECK_FAILS(herd_propose(&u.h, herd_best(&u.h, 0), cand), E_NOTFOUND, "nothing new");
	herd_fill(&u.h, 8, draw, NULL);
	REQUIRE_OK(herd_propose(&u.h, herd_best(&u.h, 0), cand));
	CHECK(u.h.npool == 7 && herd_knows(&u.h, cand));
	strcpy(other, u.h.pool[3].cand);
	tell(other, MEAS_OK, 1000);
	CHECK(u.h.npool == 6 && herd_knows(&u.h, other));
	struct member m = {0};
	member_set(&u.h, &m, cand);
	CHECK(!herd_add(&u.h, &m));
	member_set(&u.h, &m, other);
	CHECK(!herd_add(&u.h, &m) && u.h.npool == 6);
	arena_free(&u.a);
}

/* A failed candidate, or one of the same structure, is neither a parent nor a proposal; one crash of a
 * structure that ran before has no effect. */
TEST(failures)
{
	static const char bad[] = "lane=k:4 tile=k:2 outer=y | block=y:2",
			  twin[] = "lane=k:4 tile=k:2 outer=y", good[] = "lane=k:4 outer=y | block=y:2",
			  good_twin[] = "lane=k:4 outer=y";
	struct member m = {0};
	open_herd(16);
	member_set(&u.h, &m, twin);
	CHECK(herd_add(&u.h, &m));
	for (int s = MEAS_OK + 1; s < MEAS_STATUSES; s++)
		if (s != MEAS_ABORTED)
			tell(bad, (enum meas_status)s, 1);
	CHECK(u.h.ntold == 0 && !herd_parent(&u.h) && u.h.npool == 0 && !herd_add(&u.h, &m));
	tell(good, MEAS_ABORTED, 5);
	tell(good, MEAS_CRASH, 5);
	member_set(&u.h, &m, good_twin);
	CHECK(u.h.ntold == 0 && herd_add(&u.h, &m));
	arena_free(&u.a);
}

TEST(the_fastest_are_kept)
{
	open_herd(1);
	for (int i = 0; i < 3 * HERD_TOLD; i++) {
		char cand[CAND_MAX];
		REQUIRE_OK(space_random(u.guide.space, &u.h.rng, cand));
		tell(cand, MEAS_OK, 1000 + i * 37 % 96);
	}
	CHECK(u.h.ntold == HERD_TOLD);
	for (int i = 0; i < HERD_TOLD; i++)
		CHECK(fabs(u.h.told[i].log_ns - log(1000 + i)) < 1e-9 && u.h.told[i].cand);
	double sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += (double)(herd_parent(&u.h) - u.h.told) / 1000;
	CHECK(sum > 6 && sum < 14); /* the mean of the better of two draws is a third of the way */
	arena_free(&u.a);
}

TEST(one_of_each_structure_first)
{
	static const char *const twins[] = {"lane=k:4 outer=y", "lane=k:4 outer=y | block=y:2",
					    "lane=k:4 outer=y | block=y:3"};
	struct member m = {0};
	char cand[CAND_MAX];
	open_herd(16);
	herd_round(&u.h);
	for (int i = 0; i < 3; i++) {
		member_set(&u.h, &m, twins[i]);
		CHECK(herd_add(&u.h, &m));
	}
	member_set(&u.h, &m, "");
	CHECK(herd_add(&u.h, &m)); /* scalar: predicted to be the slowest */
	REQUIRE_OK(herd_propose(&u.h, herd_best(&u.h, 0), cand));
	CHECK(!strncmp(cand, twins[0], 16) && herd_in_round(&u.h, mix_text(twins[0]).lo));
	REQUIRE_OK(herd_propose(&u.h, herd_best(&u.h, 0), cand));
	CHECK(!cand[0]);
	REQUIRE_OK(herd_propose(&u.h, herd_best(&u.h, 0), cand));
	CHECK(!strncmp(cand, twins[0], 16));
	herd_round(&u.h);
	CHECK(!herd_in_round(&u.h, mix_text(twins[0]).lo));
	arena_free(&u.a);
}

/* The memory of a pool does not grow with the number of candidates that pass through it. */
TEST(memory)
{
	open_herd(96);
	herd_fill(&u.h, 500, draw, NULL);
	size_t used = u.a.used_bytes;
	herd_fill(&u.h, 5000, draw, NULL);
	CHECK(u.a.used_bytes - used < 20000);
	CHECK(sizeof(struct member) * (96 + HERD_TOLD) + (96 + HERD_TOLD) * 256 < 80 << 10);
	arena_free(&u.a);
}

/* ---- belief ---- */

TEST(belief_follows_what_is_measured)
{
	struct belief b;
	double before, after, sd_before, sd_after;
	open_herd(32);
	herd_fill(&u.h, 32, draw, NULL);
	belief_form(&b, &u.h);
	belief_of(&b, &u.h.pool[0], &before, &sd_before);
	CHECK(fabs(before - log(u.h.pool[0].guess.ns)) < 1e-9);
	/* All measurements are twice the draft: all candidates are then predicted to take twice as long, with
	 * less uncertainty. */
	for (int i = 31; i > 11; i--)
		tell(u.h.pool[i].cand, MEAS_OK, (int64_t)(2 * u.h.pool[i].guess.ns));
	belief_form(&b, &u.h);
	belief_of(&b, &u.h.pool[0], &after, &sd_after);
	CHECK(fabs(after - before - log(2)) < 0.02 && sd_after < sd_before / 2);
	belief_settle(&b, &u.h);
	CHECK(u.h.npool && u.h.pool[0].log_ns == after && u.h.pool[0].guess.sd == sd_after);
	arena_free(&u.a);
}

TEST(gain_is_of_the_fast_and_of_the_uncertain)
{
	struct belief b;
	open_herd(4);
	herd_fill(&u.h, 2, draw, NULL);
	tell("", MEAS_OK, 100000);
	struct member m = u.h.pool[0];
	belief_form(&b, &u.h);
	double last = 1;
	for (int i = -2; i <= 2; i++) { /* from much faster to much slower than the incumbent */
		m.log_ns = log(100000) + i * 0.5;
		m.guess.sd = 0.1;
		double gain = belief_gain(&b, &m);
		CHECK(gain >= 0 && gain < last);
		last = gain;
	}
	CHECK(last < 1e-6);
	m.guess.sd = 2;
	CHECK(belief_gain(&b, &m) > 0.05);
	arena_free(&u.a);
}

TEST_MAIN
