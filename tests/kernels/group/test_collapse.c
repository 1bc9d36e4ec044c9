/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and dims that are merged, as text before and after. */
#include "kernels/group/group_parts.h"
#include "tests/lib/test.h"

static void check_simplified(const char *from, const char *to)
{
	struct task t;
	struct buf text = {0};
	REQUIRE_OK(task_parse(from, &t));
	task_simplify(&t);
	REQUIRE_OK(task_check(&t));
	task_text(&t, &text);
	bool same = !strcmp(buf_str(&text), to);
	if (!same)
		printf("%s", buf_str(&text));
	CHECK(same);
	buf_free(&text);
}

TEST(a_map_is_one_row)
{
	check_simplified("task syms=0\noperand xa in f32 [2,3,4] plain\noperand yb out f32 [2,3,4] plain\n"
			 "stage n:2 c:3 x:4\nread xa [n,c,x]\nbody r0 0 max\nwrite yb [n,c,x]\n",
			 "task syms=0\noperand xa in f32 [24] plain\noperand yb out f32 [24] plain\n"
			 "stage n:24\nread xa [n]\nbody r0 0 max\nwrite yb [n]\n");
}

#define SUM_OF_IMAGE                                                                                         \
	"stage c:3 | y:4 x:5\nread xa [c,y,x]\nbody r0\nsum\npost acc 0.0500000007 mul\nwrite ub [c,0,0]\n"
#define IMAGES                                                                                               \
	"task syms=0\noperand xa in f32 [3,4,5] plain\noperand ub tmp f32 [3,1,1] plain\noperand yc out "    \
	"f32 [3,4,5] plain\n"

TEST(axes_that_all_stages_of_a_chain_sum_over)
{
	check_simplified(IMAGES SUM_OF_IMAGE
			 "stage c:3 y:4 x:5\nread xa [c,y,x]\nread ub [c,0,0]\nbody r0 r1 sub\n"
			 "write yc [c,y,x]\n",
			 "task syms=0\noperand xa in f32 [3,20] plain\noperand ub tmp f32 [3,1,1] plain\n"
			 "operand yc out f32 [3,20] plain\n"
			 "stage c:3 | y:20\nread xa [c,y]\nbody r0\nsum\npost acc 0.0500000007 mul\nwrite ub "
			 "[c,0,0]\n"
			 "stage c:3 y:20\nread xa [c,y]\nread ub [c,0,0]\nbody r0 r1 sub\nwrite yc [c,y]\n");
}

/* The last stage reads the image transposed, in windows, or with a constant index along one of its dims. */
TEST(one_stage_that_disagrees_keeps_them_apart)
{
	static const char *const stages[] = {
	    "stage c:3 y:5 x:4\nread xa [c,x,y]\nread ub [c,0,0]\nbody r0 r1 sub\nwrite yc [c,x,y]\n",
	    "stage c:3 y:4 x:5\nread xa [c,y,x-1]\nread ub [c,0,0]\nbody r0 r1 sub\nwrite yc [c,y,x]\n",
	    "stage c:3 y:4 x:5\nread xa [c,0,x]\nread ub [c,0,0]\nbody r0 r1 sub\nwrite yc [c,y,x]\n",
	};
	for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
		char text[1024];
		snprintf(text, sizeof text, "%s%s%s", IMAGES, SUM_OF_IMAGE, stages[i]);
		check_simplified(text, text);
	}
	/* A gain for each column: dims of an operand that only the last stage reads. */
	const char *gains = "task syms=0\noperand xa in f32 [3,4,5] plain\noperand ub tmp f32 [3,1,1] plain\n"
			    "operand yc out f32 [3,4,5] plain\noperand wd const f32 [5] plain\n" SUM_OF_IMAGE
			    "stage c:3 y:4 x:5\nread xa [c,y,x]\nread ub [c,0,0]\nread wd [x]\n"
			    "body r0 r1 sub r2 mul\nwrite yc [c,y,x]\n";
	check_simplified(gains, gains);
}

/* Rows of images are not merged, because rings run along them. */
TEST(chains_of_maps_stay)
{
	const char *text = "task syms=0\noperand xa in f32 [3,4,5] plain\noperand ub tmp f32 [3,4,5] plain\n"
			   "operand yc out f32 [3,4,5] plain\nstage c:3 y:4 x:5\nread xa [c,y,x]\nbody r0 "
			   "neg\nwrite ub [c,y,x]\n"
			   "stage c:3 y:4 x:5\nread ub [c,y,x]\nbody r0 abs\nwrite yc [c,y,x]\n";
	check_simplified(text, text);
}

TEST_MAIN
