/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that are inlined into their readers: equal answers with one stage less. */
#include "kernels/group/compose.h"
#include "kernels/group/group_parts.h"
#include "tests/lib/kernel_cases.h"

static struct task parse(const char *text)
{
	struct task t;
	CHECK_OK(task_parse(text, &t));
	return t;
}

static bool inline_first(struct task *t)
{
	for (int k = 0; k + 1 < t->nstages; k++)
		if (t->stage[k].comb == COMB_NONE)
			return task_inline(t, k);
	return false;
}

TEST(softmax_without_its_row)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 20; i++) {
		struct buf b = {0};
		struct kcase with, without;
		gen_rows(&b, &r);
		REQUIRE_OK(case_parse(&with, buf_str(&b), &r));
		without = with;
		char label[96];
		task_label(&with.t, label);
		CHECK(!strncmp(label, "softmax ", 8));
		REQUIRE(inline_first(&without.t));
		REQUIRE_OK(task_check(&without.t));
		CHECK(without.t.nstages == 3 && without.t.noperands == with.t.noperands - 1);
		void *bufs[MAX_OPERANDS] = {with.phys[0], NULL, NULL, with.phys[4]};
		REQUIRE_OK(task_reference(&without.t, bufs, &with.a));
		CHECK(case_error(&with, with.phys[4]) < 1e-6); /* E was rounded to float */
		arena_free(&with.a);
		buf_free(&b);
	}
}

TEST(strided_reads_of_a_map)
{
	/* a slice of a transposed sum, of which every other row is read */
	struct task t = parse("task syms=0\noperand X in f32 [8,9] plain\noperand Z in f32 [8] plain\n"
			      "operand T tmp f32 [5,8] plain\noperand Y out f32 [4,5] plain\n"
			      "stage i:5 j:8\nread X [j,i+3]\nread Z [j]\nbody r0 r1 add\nwrite T [i,j]\n"
			      "stage y:4 x:5\nread T [x,2*y+1]\nbody r0 2 mul\nwrite Y [y,x]\n");
	struct task want = parse("task syms=0\noperand X in f32 [8,9] plain\noperand Z in f32 [8] plain\n"
				 "operand Y out f32 [4,5] plain\nstage y:4 x:5\nread X [2*y+1,x+3]\n"
				 "read Z [2*y+1]\nbody r0 r1 add 2 mul\nwrite Y [y,x]\n");
	REQUIRE(task_inline(&t, 0));
	CHECK(key_equal(task_key(&t), task_key(&want)));
}

TEST(stages_that_cannot_join_their_reader)
{
	struct task t = parse("task syms=0\noperand X in f32 [8] plain\noperand T tmp f32 [8] plain\n"
			      "operand Y out f32 [8] plain\nstage i:8\nread X [i]\nbody r0\nwrite T [i]\n"
			      "stage y:8\nread T [(y+1)%8]\nbody r0\nwrite Y [y]\n");
	struct key before = task_key(&t);
	CHECK(!task_inline(&t, 0)); /* its reader wraps around */
	CHECK(key_equal(before, task_key(&t)));
	t = parse("task syms=0\noperand X in f32 [8,2] plain\noperand T tmp f32 [8] plain\n"
		  "operand Y out f32 [8] plain\nstage i:8 | j:2\nread X [i,j]\nbody r0\nsum\nwrite T [i]\n"
		  "stage y:8\nread T [y]\nbody r0\nwrite Y [y]\n");
	CHECK(!task_inline(&t, 0)); /* it reduces */
	CHECK(!task_inline(&t, 1)); /* it is the task's output */
}

/* A copy with a border, as of an input of the model, and the maximum over windows that reach into the border:
 * the input, which would be read in its stead, has another fill. */
TEST(borders_keep_their_fill)
{
	static const char form[] =
	    "task syms=0\noperand X in f32 [5] plain\noperand T tmp f32 [5] plain%s\n"
	    "operand Y out f32 [3] plain\nstage i:5\nread X [i]\nbody r0\nwrite T [i]\n"
	    "stage y:3 | r:3\nread T [2*y+r-1]\nbody r0\nmax\nwrite Y [y]\n";
	char text[400];
	float x[] = {-1, -2, -3, -4, -5}, y[3];
	struct arena a = {0};
	snprintf(text, sizeof text, form, " fill=-9");
	struct task t = parse(text);
	CHECK(!task_inline(&t, 0));
	snprintf(text, sizeof text, form, "");
	t = parse(text);
	REQUIRE(task_inline(&t, 0));
	REQUIRE_OK(task_reference(&t, (void *[]){x, y}, &a));
	CHECK(y[0] == 0 && y[1] == -2 && y[2] == 0);
	arena_free(&a);
}

/* A block's intermediate is read with one fill. */
TEST(a_block_whose_parts_read_other_fills_is_none)
{
	struct task made = parse("task syms=0\noperand X in f32 [5] plain\noperand T out f32 [5] plain\n"
				 "stage i:5\nread X [i]\nbody r0\nwrite T [i]\n");
	struct task reads =
	    parse("task syms=0\noperand T in f32 [5] plain fill=3\noperand U in f32 [5] plain\n"
		  "operand Y out f32 [5] plain\nstage y:5\nread T [y-1]\nread U [y+1]\n"
		  "body r0 r1 add\nwrite Y [y]\n");
	for (int same = 0; same < 2; same++) {
		struct arena a = {0};
		struct block b = {.task = ARENA_NEW(&a, struct task)};
		reads.operand[1].fill = same ? 3 : 0;
		REQUIRE(block_add(&b, &made, (int[]){0, 1}, false));
		CHECK(block_add(&b, &reads, (int[]){1, 1, 2}, true) == same);
		arena_free(&a);
	}
}

TEST(factor_behind_the_sum)
{
	static const char text[] = "task syms=0\noperand X in f32 [4,8] plain\noperand Z in f32 [4] "
				   "plain\noperand P tmp f32 [4,8] plain\n"
				   "operand V in f32 [8,5] plain\noperand Y out f32 [4,5] plain\nstage i:4 "
				   "j:8\nread X [i,j]\nread Z [%s]\n"
				   "body r0 r1 mul\nwrite P [i,j]\nstage m:4 n:5 | k:8\nread P [m,k]\nread V "
				   "[k,n]\nbody r0 r1 mul\nsum\n"
				   "post acc 1 add\nwrite Y [m,n]\n";
	char one[1024];
	snprintf(one, sizeof one, text, "i");
	struct task t = parse(one);
	struct task want =
	    parse("task syms=0\noperand X in f32 [4,8] plain\noperand Z in f32 [4] plain\n"
		  "operand V in f32 [8,5] plain\noperand Y out f32 [4,5] plain\n"
		  "stage m:4 n:5 | k:8\nread X [m,k]\nread V [k,n]\nread Z [m]\nbody r0 r1 mul\n"
		  "sum\npost acc r2 mul 1 add\nwrite Y [m,n]\n");
	CHECK(task_delay_factor(&t) == 2);
	CHECK(key_equal(task_key(&t), task_key(&want)));
	CHECK(task_delay_factor(&t) == -1);       /* one stage is left */
	snprintf(one, sizeof one, text, "(j)%4"); /* the factor changes along the sum */
	t = parse(one);
	CHECK(task_delay_factor(&t) == -1);
}

TEST_MAIN
