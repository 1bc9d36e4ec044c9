/* SPDX-License-Identifier: Apache-2.0 */
/* The draft of GPUs ranks schedules whose neighbouring items use neighbouring bytes before those whose items
 * each move a cache line of their own. */
#include "tests/lib/kernel_cases.h"

static const char map[] =
    "task syms=0\noperand X in f32 [8192,8192] plain\noperand Y out f32 [8192,8192] plain\n"
    "stage y:8192 x:8192\nread X [y,x]\nbody r0 0.5 mul\nwrite Y [y,x]\n";
static const char product[] =
    "task syms=0\noperand X in f32 [512,512] plain\noperand V in f32 [512,512] plain\n"
    "operand Y out f32 [512,512] plain\nstage y:512 x:512 | k:512\nread X [y,k]\nread V [k,x]\n"
    "body r0 r1 mul\nsum\nwrite Y [y,x]\n";
static const char turned[] =
    "task syms=0\noperand X in f32 [512,512] plain\noperand V in f32 [512,512] plain\n"
    "operand Y out f32 [512,512] plain\nstage y:512 x:512 | k:512\nread X [k,y]\nread V [x,k]\n"
    "body r0 r1 mul\nsum\nwrite Y [x,y]\n";
static const char blocked[] =
    "task syms=0\noperand X in f32 [1,256,512,512] 0.1/4.2.3.1\noperand Y out f32 [1,256,512,512] "
    "0.1/4.2.3.1\n"
    "stage c:256 y:512 x:512\nread X [0,c,y,x]\nbody r0 0.5 mul\nwrite Y [0,c,y,x]\n";

static double ns_of(const char *text, const char *cand, const struct target *tg)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(&a, t, tg, NULL, &s));
	int rc = space_legal(s, cand);
	if (rc < 0)
		printf("%s: %s\n", cand, err_text());
	CHECK_OK(rc);
	double ns = rc < 0 ? 0 : space_draft(s, cand);
	arena_free(&a);
	return ns;
}

TEST(neighbouring_bytes_are_moved_together)
{
	static const struct {
		const char *task, *near, *far;
		double least; /* of how many times as long the other takes */
	} pairs[] = {
	    {map, "par=2", "order=x,y par=2", 2},
	    {map, "lane=x:4 par=2", "lane=x:4 order=x,y par=2", 1.3},
	    {map, "tile=x:16 par=2", "tile=x:16 order=x,y par=2", .99}, /* whole lines */
	    {map, "lane=x:4 par=2", "lane=y:4 par=2", 1},
	    {product, "tile=y:8 par=2", "tile=y:8 order=x,y,k par=2", 1.2},
	    {product, "lane=x:4 tile=y:4 par=2", "lane=x:4 tile=y:4 order=x,y,k par=2", 1.1},
	    {turned, "tile=x:8 order=x,y,k par=2", "tile=x:8 par=2", 1.2},
	    {blocked, "lane=c:4 par=3", "lane=c:4 order=y,x,c par=3", 1.3},
	};
	const struct target tg = case_gpu();
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		double near = ns_of(pairs[i].task, pairs[i].near, &tg),
		       far = ns_of(pairs[i].task, pairs[i].far, &tg);
		if (!(far > pairs[i].least * near))
			printf("%s: %.0f ns, %s: %.0f ns\n", pairs[i].near, near, pairs[i].far, far);
		CHECK(far > pairs[i].least * near);
	}
}

/* Threads are neighbours along the axis that they divide. A processor's units have none. */
TEST(threads_and_processors)
{
	struct target tg = case_gpu(), serial = tg;
	serial.serial = 1;
	CHECK(ns_of(product, "par=2 threads=x:64 share=k:16", &tg) <
	      ns_of(product, "par=2 threads=y:64 share=k:16", &tg));
	double a = ns_of(map, "par=2", &serial), b = ns_of(map, "order=x,y par=2", &serial);
	CHECK(a < 1.01 * b && b < 1.01 * a);
}

TEST_MAIN
