/* SPDX-License-Identifier: Apache-2.0 */
/* Cost models: the table; guesses are finite, certain to some degree, and depend on the candidate alone; the
 * draft's guess is the space's draft. */
#include "search/cost.h"
#include "platform/base/rng.h"
#include "platform/run/dev_sim.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <math.h>

TEST(table_and_find)
{
	CHECK(cost_find("draft") && cost_find("none") && cost_find(COST_DEFAULT));
	CHECK(!cost_find("") && !cost_find("mlp") && !cost_find("trees"));
	for (int i = 0; cost_table[i]; i++)
		CHECK(cost_find(cost_table[i]->name) == cost_table[i]);
}

/* Random candidates of several tasks. */
TEST(guesses_of_random_candidates)
{
	static const char *const texts[] = {task_conv, task_matmul, task_dense};
	struct rng r;
	rng_seed(&r, 1);
	for (int k = 0; k < 3; k++) {
		struct arena a = {0};
		struct target tg;
		struct space *s;
		struct task *t = ARENA_NEW(&a, struct task);
		char cand[CAND_MAX];
		float f[FEATURES];
		dev_sim.probe(&tg);
		REQUIRE_OK(task_parse(texts[k], t));
		REQUIRE_OK(space_make(&a, t, &tg, NULL, &s));
		for (int i = 0; i < 200; i++) {
			REQUIRE_OK(space_random(s, &r, cand));
			space_features(s, cand, f);
			for (int c = 0; cost_table[c]; c++) {
				struct guess g = cost_table[c]->guess(f);
				CHECK(isfinite(g.ns) && g.ns > 0 && g.sd > 0 && g.sd <= 1);
			}
			CHECK(fabs(cost_find("draft")->guess(f).ns / space_draft(s, cand) - 1) < 1e-4);
			CHECK(cost_find("none")->guess(f).ns == 1);
		}
		arena_free(&a);
	}
}

TEST_MAIN
