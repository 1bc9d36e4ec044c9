/* SPDX-License-Identifier: Apache-2.0 */
/* Small fleets that search, on made-up landscapes (make bench-herd ARGS=--search: on recorded ones). */
#include "kernels/space/space.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "search/share.h"
#include "tests/lib/tasks.h"
#include "platform/base/mix.h"
#include "tests/lib/test.h"
#include "tools/bench/herd_search.h"

#include <math.h>

enum { NTASKS = 2, POINTS = 250, BOARDS = 24, BOOTS = 3 };

static struct {
	struct arena a;
	struct landscape land[NTASKS];
} world;

static const int uses[NTASKS] = {2, 1};

/* Makes times from the draft and from properties of the structure that the draft does not know. */
static void draw_points(struct landscape *l, const struct space *s, struct rng *r)
{
	char cand[CAND_MAX], structure[CAND_MAX];
	l->point = ARENA_ARRAY(&world.a, struct landscape_point, POINTS);
	for (int tries = 0; l->n < POINTS && tries < 50 * POINTS; tries++) {
		space_default(s, cand);
		if (l->n && (space_random(s, r, cand) < 0 || landscape_find(l, cand) >= 0))
			continue;
		space_structure(cand, structure);
		double off = (double)(mix_text(structure).lo % 1000) / 1000;
		int64_t ns = (int64_t)(1e6 + 1000 * space_draft(s, cand) * (1 + 0.5 * off));
		l->point[l->n++] = (struct landscape_point){.status = MEAS_OK,
							    .min_ns = ns,
							    .low_ns = ns,
							    .runs = 10,
							    .build_ns = 60 * NS_PER_MS,
							    .cand = arena_strdup(&world.a, cand)};
	}
}

static void open_world(void)
{
	static const char *const texts[NTASKS] = {task_conv, task_matmul};
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < NTASKS && !world.land[i].n; i++) {
		struct landscape *l = &world.land[i];
		struct task *t = ARENA_NEW(&world.a, struct task);
		struct space *s;
		*l = (struct landscape){
		    .task = texts[i], .label = i ? "product" : "conv", .threads = 1, .protocol = "made up"};
		REQUIRE_OK(target_baseline("x86-64-v3", &l->target));
		REQUIRE_OK(task_parse(texts[i], t));
		REQUIRE_OK(space_make(&world.a, t, &l->target, NULL, &s));
		draw_points(l, s, &r);
	}
}

static int run(enum herd_mode mode, int liars, int threads, struct herd_boot out[BOOTS])
{
	open_world();
	const struct herd_search c = {.land = world.land,
				      .nland = NTASKS,
				      .uses = uses,
				      .boards = BOARDS,
				      .liars = liars,
				      .boots = BOOTS,
				      .mode = mode,
				      .parts = 4,
				      .quorum = {1, 2, 3},
				      .box_ns = 2500 * NS_PER_MS,
				      .sigma = 0.02,
				      .seed = 1,
				      .threads = threads};
	return herd_search(&c, out);
}

static void say(const char *what, const struct herd_boot b[BOOTS])
{
	if (getenv("TEST_TIMES"))
		for (int i = 0; i < BOOTS; i++)
			printf("%s, boot %d: %.3f, %.3f\n", what, i + 1, b[i].median, b[i].tenth);
}

TEST(divided_searches_are_sooner)
{
	struct herd_boot alone[BOOTS], divided[BOOTS];
	REQUIRE_OK(run(HERD_ALONE, 0, 2, alone));
	REQUIRE_OK(run(HERD_DIVIDED, 0, 2, divided));
	say("alone", alone);
	say("divided", divided);
	CHECK(divided[BOOTS - 1].median > alone[BOOTS - 1].median);
	CHECK(divided[BOOTS - 1].tenth > alone[BOOTS - 1].tenth);
	CHECK(divided[BOOTS - 1].median <= 1.0001 && alone[0].median > 0.3 && divided[0].trials > 3);
}

/* A tenth of liars does no harm, and the number of threads changes nothing. */
TEST(a_tenth_that_lies_does_no_harm)
{
	struct herd_boot lied[BOOTS], four[BOOTS];
	REQUIRE_OK(run(HERD_DIVIDED, 2, 1, lied));
	REQUIRE_OK(run(HERD_DIVIDED, 2, 4, four));
	say("lied to", lied);
	CHECK(lied[BOOTS - 1].median > 0.95);
	for (int i = 0; i < BOOTS; i++)
		CHECK(lied[i].median == four[i].median && lied[i].tenth == four[i].tenth &&
		      lied[i].trials == four[i].trials);
}

TEST(fleets_that_cannot_be)
{
	struct herd_boot out[BOOTS];
	CHECK_FAILS(run(HERD_DIVIDED, BOARDS, 1, out), E_USAGE, "liars");
}

TEST_MAIN
