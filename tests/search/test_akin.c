/* SPDX-License-Identifier: Apache-2.0 */
#include "search/akin.h"
#include "tests/lib/test.h"

static struct task small, middle, large, map;
static struct akin akin;

static void make(struct task *t, int size)
{
	char text[256];
	snprintf(text, sizeof text,
		 "task syms=0\noperand A in f32 [%d,40] plain\noperand B const f32 [40,32] plain\n"
		 "operand C out f32 [%d,32] plain\nstage m:%d n:32 | k:40\nread A [m,k]\nread B [k,n]\n"
		 "body r0 r1 mul\nsum\nwrite C [m,n]\n",
		 size, size, size);
	REQUIRE_OK(task_parse(text, t));
}

static void make_all(void)
{
	akin = (struct akin){0};
	make(&small, 8);
	make(&middle, 20);
	make(&large, 200);
	REQUIRE_OK(task_parse("task syms=0\noperand X in f32 [7] plain\noperand Y out f32 [7] plain\n"
			      "stage n:7\nread X [n]\nbody r0\nwrite Y [n]\n",
			      &map));
}

TEST(nearest_of_its_kind_first_and_once)
{
	struct heard h;
	make_all();
	akin_add(&akin, &large, 2, "large");
	akin_add(&akin, &map, 3, "map");
	akin_add(&akin, &small, 0, "small");
	akin_add(&akin, &middle, 1, "own");
	heard_open(&h, &middle);
	const struct winner *w = akin_next(&akin, &h, 1);
	REQUIRE(w && !strcmp(w->cand, "small") && w->task == &small);
	w = akin_next(&akin, &h, 1);
	REQUIRE(w && !strcmp(w->cand, "large"));
	CHECK(!akin_next(&akin, &h, 1));
	akin_add(&akin, &small, 0, "better");
	w = akin_next(&akin, &h, 1);
	REQUIRE(w && !strcmp(w->cand, "better"));
	arena_free(&akin.arena);
}

TEST(room_ends)
{
	struct heard h;
	int told = 0;
	make_all();
	for (int i = 0; i < AKIN_MAX + 9; i++)
		akin_add(&akin, &small, -1, "x");
	heard_open(&h, &large);
	while (akin_next(&akin, &h, 0))
		told++;
	CHECK(told == AKIN_MAX);
	arena_free(&akin.arena);
}

TEST_MAIN
