/* SPDX-License-Identifier: Apache-2.0 */
/* Items that make several tiles of a window one after the other: each row is loaded once, and the draft and
 * the portfolio know them. */
#include "kernels/loops/lower.h"
#include "tests/lib/items_cases.h"
#include "tests/lib/test.h"

static int loads_of(const struct stmt *s, int buf)
{
	int n = 0;
	for (; s; s = s->next) {
		n += s->op == ST_SET && s->vop == V_LOAD && s->mem.buf == buf;
		if (s->op == ST_FOR || s->op == ST_IF)
			n += loads_of(s->body, buf) + (s->op == ST_IF ? loads_of(s->other, buf) : 0);
	}
	return n;
}

static int find_buf(const struct loops *l, const char *name)
{
	for (int i = 0; i < l->nbufs; i++)
		if (!strcmp(l->buf[i].name, name))
			return i;
	return -1;
}

static void depthwise(char text[800], int size, int taps, int stride)
{
	int h = (size - 1) * stride + 1;
	snprintf(text, 800,
		 "task syms=0\noperand X in f32 [1,32,%d,%d] 0.1/16.2.3.1;2+2+2;3+2+2\n"
		 "operand W const f32 [32,1,%d,%d] plain\noperand Y out f32 [1,32,%d,%d] 0.1/16.2.3.1\n"
		 "stage k:32 y:%d x:%d | r:%d s:%d\nread X [0,k,%d*y+r-%d,%d*x+s-%d]\nread W [k,0,r,s]\n"
		 "body r0 r1 mul\nsum\nwrite Y [0,k,y,x]\n",
		 h, h, taps, taps, size, size, size, size, taps, taps, stride, taps / 2, stride, taps / 2);
	for (char *p; stride == 1 && (p = strstr(text, "1*"));)
		memmove(p, p + 2, strlen(p + 2) + 1);
}

/* An item loads as many rows as its tiles' windows cover, not those of each window. */
TEST(each_row_is_loaded_once)
{
	static const struct {
		int taps, stride, x, y, down;
	} cases[] = {{3, 1, 4, 1, 7}, {3, 1, 4, 2, 7},  {3, 2, 2, 1, 7},
		     {5, 1, 2, 1, 4}, {3, 1, 1, 1, 14}, {5, 2, 2, 1, 4}};
	const struct target tg = case_gpu();
	struct arena a = {0};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[800], cand[CAND_MAX];
		struct task *t = ARENA_NEW(&a, struct task);
		struct loops *l;
		struct manifest m;
		int taps = cases[i].taps, step = cases[i].stride, rows = cases[i].y * cases[i].down;
		depthwise(text, 28, taps, step);
		REQUIRE_OK(task_parse(text, t));
		int n = snprintf(cand, sizeof cand, "lane=k:4");
		if (cases[i].y > 1 || cases[i].x > 1)
			n += snprintf(cand + n, sizeof cand - (size_t)n, " tile=");
		if (cases[i].y > 1)
			n += snprintf(cand + n, sizeof cand - (size_t)n, "y:%d,", cases[i].y);
		if (cases[i].x > 1)
			n += snprintf(cand + n, sizeof cand - (size_t)n, "x:%d", cases[i].x);
		snprintf(cand + n, sizeof cand - (size_t)n, " unroll=r:%d,s:%d par=3 down=y:%d", taps, taps,
			 cases[i].down);
		int rc = lower(t, cand, &tg, &a, &l, &m);
		CHECK_OK(rc);
		if (rc < 0) {
			printf("%s\n", cand);
			continue;
		}
		int got = loads_of(l->entry[0].body, find_buf(l, "X")),
		    want = ((rows - 1) * step + taps) * ((cases[i].x - 1) * step + taps);
		if (got != want)
			printf("%s: %d loads, not %d\n", cand, got, want);
		CHECK(got == want && loads_of(l->entry[0].body, find_buf(l, "W")) == taps * taps);
	}
	arena_free(&a);
}

TEST(what_is_refused)
{
	static const struct {
		const char *cand, *why;
	} bad[] = {{"lane=k:4 unroll=r:3 par=3 down=y:7", "taps are all in the body"},
		   {"lane=k:4 unroll=r:3,s:3 par=2 down=y:7", "taps are all in the body"},
		   {"lane=k:4 unroll=r:3,s:3 par=3 down=k:2", "beside the lanes"},
		   {"lane=k:4 tile=y:3 unroll=r:3,s:3 par=3 down=y:11", "two tiles or more"},
		   {"lane=k:4 tile=x:14 unroll=r:3,s:3 par=3 down=y:7", "882 products"},
		   {"unroll=r:3,s:3 par=3 down=k:4", "no rows in common"}};
	const struct target tg = case_gpu(), cpu = case_board(4, 32);
	struct arena a = {0};
	char text[800];
	depthwise(text, 28, 3, 1);
	struct space *s = case_space(&a, text, &tg), *c = case_space(&a, text, &cpu);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(space_legal(s, bad[i].cand), E_INFEASIBLE, bad[i].why);
	CHECK_OK(space_legal(s, "lane=k:4 tile=x:4 unroll=r:3,s:3 par=3 down=y:7"));
	CHECK_FAILS(space_legal(c, "lane=k:4 tile=x:4 unroll=r:3,s:3 par=3 down=y:7"), E_INFEASIBLE,
		    "work items");
	arena_free(&a);
}

/* The portfolio has them for windows on GPUs, and those whose neighbours are channels have as good a draft as
 * the best other one. */
TEST(windows_are_proposed)
{
	const struct target cpu = case_board(4, 32);
	struct target tg = case_gpu();
	struct arena a = {0};
	tg.cores = 8;
	tg.fma_gflops = 1300;
	for (int i = 0; i < 4; i++)
		tg.bw_gbs[i] = i < 3 ? 400 : 60;
	for (int size = 28; size <= 112; size *= 2)
		for (int on = 0; on < 2; on++) {
			char text[800], cand[CAND_MAX];
			int at = 0, n = 0;
			double best = 1e30, other = 1e30;
			depthwise(text, size, 3, 1);
			struct space *s = case_space(&a, text, on ? &cpu : &tg);
			while (space_portfolio(s, &at, cand) >= 0) {
				bool down = strstr(cand, "down=");
				double *of = down ? &best : &other, ns = space_draft(s, cand);
				*of = ns < *of ? ns : *of;
				n += down;
			}
			CHECK(on ? !n : n >= 2 && best < 1.2 * other);
			CHECK(on || case_drawn(s, 1, 200, "down=") > 5);
		}
	arena_free(&a);
}

TEST_MAIN
