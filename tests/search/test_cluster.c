/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster strategy: a round begins with members of different clusters, and what they take decides the
 * rest of the round. */
#include "search/herd.h"
#include "tests/lib/strategy_setup.h"
#include "tests/lib/tasks.h"

enum { SEEDS = 40, MOST_CLUSTERS = 6 };

static bool unrolls(const char *cand)
{
	return strstr(cand, "unroll=") != NULL;
}

/* Asks for the first round, where either candidates with an unrolled loop or those without take six times the
 * draft. Returns how many of the proposals after the clusters' unroll a loop. */
static int late_unrolled(const char *text, uint64_t seed, bool bad)
{
	const struct strategy *s = strategy_find("cluster");
	struct setup u;
	int n = 0;
	open_task(&u, s, "draft", text, seed);
	for (int i = 0; i < HERD_ROUND; i++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		double ns = space_draft(u.space, cand) * (unrolls(cand) == bad ? 6 : 1);
		n += i >= MOST_CLUSTERS && unrolls(cand);
		tell_ns(&u, s, cand, (int64_t)ns + 1);
	}
	arena_free(&u.a);
	return n;
}

/* Without the correction both counts are equal, as the pool is. */
TEST(what_is_measured_decides_what_comes_next)
{
	static const char *const texts[] = {task_conv, task_matmul, task_dense};
	int good = 0, bad = 0, all = 3 * SEEDS * (HERD_ROUND - MOST_CLUSTERS);
	for (int i = 0; i < 3; i++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			bad += late_unrolled(texts[i], seed, true);
			good += late_unrolled(texts[i], seed, false);
		}
	if (good - bad < all / 10)
		printf("%d of %d unroll where that is slow, %d where it is fast\n", bad, all, good);
	CHECK(good - bad >= all / 10);
}

TEST_MAIN
