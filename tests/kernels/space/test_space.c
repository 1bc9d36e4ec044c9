/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces of schedules: what they draw, change and cross is legal, and their drafts order it. Past 800 lines
 * because all of it looks at the same tasks and targets. */
#include "kernels/space/draft.h"
#include "kernels/loops/lower.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/tasks.h"

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

/* Every candidate of a space is legal and canonical, and can be lowered. */
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
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32), case_gpu()};
	for (uint64_t seed = 1; seed <= 200 && !test_bad; seed += test_share()) {
		struct kcase c;
		struct rng r;
		char a[CAND_MAX], b[CAND_MAX], x[CAND_MAX];
		const struct target *t = &tg[seed % 4];
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
		for (int rule = 0; space_portfolio(s, &rule, x) >= 0;)
			good(&c, s, t, x);
		CHECK(space_roofline(s) > 0);
		if (test_bad)
			printf("seed %llu\n", (unsigned long long)seed);
		arena_free(&c.a);
	}
}

/* Every register tile of a stage is a work item of its own, and nothing is for caches of a core. */
static void all_items(const struct kcase *c, const char *cand)
{
	struct sched x;
	CHECK_OK(sched_parse(&c->t, cand, &x));
	int ns = stage_spatial(&c->t.stage[0]);
	const struct sstage *s = &x.st[0];
	CHECK(c->t.nstages > 1 || s->wino.m || s->par == ns);
	CHECK(s->spread == (s->split_axis >= 0) && !s->prefetch && !s->wino.prefetch);
	CHECK(!s->wino.tiles || s->share_axis >= 0);
	for (int a = 0; a < ns; a++)
		CHECK(!s->outer[a]);
	if (test_bad)
		printf("%s\n", cand);
}

TEST(work_items_are_tiles)
{
	const struct target tg = case_gpu();
	for (uint64_t seed = 1; seed <= 200 && !test_bad; seed += test_share()) {
		struct kcase c;
		struct rng r;
		char a[CAND_MAX], b[CAND_MAX], x[CAND_MAX];
		struct space *s = space_of(&c, seed, &tg);
		REQUIRE(s);
		rng_seed(&r, seed);
		space_default(s, a);
		all_items(&c, a);
		for (int rule = 0; space_portfolio(s, &rule, x) >= 0;)
			all_items(&c, x);
		for (int i = 0; i < 10; i++) {
			CHECK_OK(space_random(s, &r, b));
			all_items(&c, b);
			CHECK_OK(space_mutate(s, &r, i % 2 ? a : b, x));
			all_items(&c, x);
			CHECK_OK(space_cross(s, &r, a, b, x));
			all_items(&c, x);
		}
		arena_free(&c.a);
	}
}

/* The lanes of each width are drawn, and the register tiles of narrow ones have more vectors; a processor's
 * vectors are never that narrow. */
TEST(work_items_have_vectors_of_any_width)
{
	const struct target tg[] = {case_gpu(), case_board(16, 32)};
	const char *text = "task syms=0\noperand X in f32 [1,32,28,64] plain\n"
			   "operand W const f32 [64,32] plain\noperand Y out f32 [1,64,28,64] plain\n"
			   "stage k:64 y:28 x:64 | c:32\nread X [0,c,y,x]\nread W [k,c]\n"
			   "body r0 r1 mul\nsum\nwrite Y [0,k,y,x]\n";
	const char *two = "lane=x:2 tile=k:4 par=3", *wide = "lane=x:16 tile=k:2 par=3";
	struct arena a = {0};
	struct space *gpu = case_space(&a, text, &tg[0]), *cpu = case_space(&a, text, &tg[1]);
	char cand[CAND_MAX];
	struct task t;
	struct rng r;
	unsigned seen = 0;
	int most[17] = {0};
	REQUIRE(gpu && cpu);
	CHECK_OK(task_parse(text, &t));
	CHECK_OK(space_legal(gpu, two));
	CHECK_OK(space_legal(gpu, wide));
	CHECK_FAILS(space_legal(gpu, "lane=x:3 par=3"), E_INFEASIBLE, "3 lanes");
	CHECK_FAILS(space_legal(cpu, two), E_INFEASIBLE, "2 lanes");
	rng_seed(&r, 1);
	for (int i = 0; i < 400; i++) {
		struct sched c;
		CHECK_OK(space_random(gpu, &r, cand));
		REQUIRE_OK(sched_parse(&t, cand, &c));
		int points = 1;
		for (int b = 0; b < 3; b++)
			points *= c.st[0].tile[b];
		seen |= 1u << c.st[0].lanes;
		most[c.st[0].lanes] = points > most[c.st[0].lanes] ? points : most[c.st[0].lanes];
	}
	CHECK(seen == (1u << 1 | 1u << 2 | 1u << 4 | 1u << 8 | 1u << 16));
	CHECK(most[4] <= target_vectors(&tg[0], 4) && most[4] > target_vectors(&tg[0], 16));
	CHECK(most[16] <= target_vectors(&tg[0], 16));
	arena_free(&a);
}

/* Groups are drawn up to the device's limit, and mutated alone; texts without one mean what they meant. */
TEST(work_items_are_in_groups)
{
	const char *text = "task syms=0\noperand X in f32 [64,64] plain\noperand Y out f32 [64] plain\n"
			   "stage y:64 | x:64\nread X [x,y]\nbody r0\nsum\nwrite Y [y]\n";
	struct target tg = case_gpu(), none = tg, cpu = case_board(4, 32);
	struct arena a = {0};
	struct rng r;
	char cand[CAND_MAX], x[CAND_MAX];
	unsigned drawn = 0, alone = 0;
	tg.group = 128;
	none.group = 0;
	struct space *s = case_space(&a, text, &tg), *other = case_space(&a, text, &none),
		     *host = case_space(&a, text, &cpu);
	REQUIRE(s && other && host);
	CHECK_OK(space_legal(s, "lane=y:4 par=1"));
	CHECK_OK(space_legal(s, "lane=y:4 par=1 group=128"));
	CHECK_FAILS(space_legal(s, "lane=y:4 par=1 group=256"), E_INFEASIBLE, "to the device's 128");
	CHECK_FAILS(space_legal(s, "lane=y:4 par=1 group=8"), E_INFEASIBLE, "from 16");
	CHECK_FAILS(space_legal(s, "lane=y:4 par=1 group=96"), E_INFEASIBLE, "power of two");
	CHECK_FAILS(space_legal(s, "lane=y:4 par=1 group=0"), E_CORRUPT, "under 1");
	CHECK_FAILS(space_legal(s, "group=64 par=1"), E_CORRUPT, "order");
	CHECK_FAILS(space_legal(other, "par=1 group=16"), E_INFEASIBLE, "the device's 0");
	CHECK_FAILS(space_legal(host, "par=1 group=16"), E_INFEASIBLE, "work items");
	rng_seed(&r, 3);
	for (int i = 0; i < 300; i++) {
		CHECK_OK(space_random(s, &r, cand));
		const char *at = strstr(cand, " group=");
		drawn |= at ? (unsigned)atoi(at + 7) : 0;
		CHECK_OK(space_mutate(s, &r, cand, x));
		size_t same = at ? (size_t)(at - cand) : strlen(cand);
		alone += !strncmp(cand, x, same) && (!x[same] || !strncmp(x + same, " group=", 7));
		CHECK_OK(space_random(other, &r, cand));
		CHECK(!strstr(cand, "group="));
		CHECK_OK(space_random(host, &r, cand));
		CHECK(!strstr(cand, "group="));
	}
	CHECK(drawn == (16 | 32 | 64 | 128) && alone > 5);
	arena_free(&a);
}

/* Units run several groups side by side on CUDA only, and no more threads than each of them can. */
TEST(units_run_several_blocks)
{
	const char *text =
	    "task syms=0\noperand X in f32 [512,512] plain\noperand W const f32 [512,512] plain\n"
	    "operand Y out f32 [512,512] plain\nstage y:512 x:512 | k:512\nread X [y,k]\n"
	    "read W [k,x]\nbody r0 r1 mul\nsum\nwrite Y [y,x]\n";
	struct target opencl = case_gpu(), cuda = opencl;
	struct arena a = {0};
	struct rng r;
	char cand[CAND_MAX], x[CAND_MAX];
	int drawn = 0, alone = 0;
	strcpy(cuda.isa, "cuda");
	struct space *s = case_space(&a, text, &cuda), *other = case_space(&a, text, &opencl);
	REQUIRE(s && other);
	CHECK_OK(space_legal(s, "par=2 group=64 blocks=16"));
	CHECK_OK(space_legal(s, "par=2 blocks=2 threads=y:8,x:16 share=k:16"));
	CHECK_OK(space_legal(s, "par=2 blocks=4 threads=k:256"));
	CHECK_FAILS(space_legal(s, "par=2 blocks=2"), E_INFEASIBLE, "groups or threads");
	CHECK_FAILS(space_legal(s, "par=2 group=256 blocks=5"), E_INFEASIBLE, "1024 threads");
	CHECK_FAILS(space_legal(s, "par=2 group=32 blocks=17"), E_CORRUPT, "over 16");
	CHECK_FAILS(space_legal(s, "par=2 group=32 blocks=1"), E_CORRUPT, "canonical");
	CHECK_FAILS(space_legal(s, "par=2 blocks=2 group=32"), E_CORRUPT, "order");
	CHECK_FAILS(space_legal(other, "par=2 group=64 blocks=2"), E_INFEASIBLE, "CUDA");
	rng_seed(&r, 5);
	for (int i = 0; i < 300; i++) {
		CHECK_OK(space_random(s, &r, cand));
		CHECK_OK(space_mutate(s, &r, cand, x));
		drawn += strstr(cand, " blocks=") != NULL;
		alone += strstr(x, " blocks=") && !strstr(cand, " blocks=");
		CHECK_OK(space_random(other, &r, cand));
		CHECK(!strstr(cand, "blocks="));
	}
	CHECK(drawn > 30 && alone > 5);
	arena_free(&a);
}

/* A 3x3 convolution of 512 channels at 7x7: its tiles fill a ninth of a GPU, so parts of its sums are worth a
 * second launch. 128x128 pixels fill it alone. */
TEST(reductions_in_parts_fill_the_device)
{
	static const struct {
		int k, size;
		const char *cand[2];
		bool worth;
	} image[] = {
	    {512, 7, {"lane=k:4 tile=x:7 par=3", "lane=k:4 tile=x:7 par=3 split=c:64 spread=1"}, true},
	    {64, 128, {"lane=k:4 tile=x:8 par=3", "lane=k:4 tile=x:8 par=3 split=c:16 spread=1"}, false}};
	const struct target tg = case_gpu(), cpu = case_board(4, 32);
	for (int i = 0; i < 2; i++) {
		struct arena a = {0};
		struct buf text = {0};
		struct rng r;
		char cand[CAND_MAX], x[CAND_MAX];
		int k = image[i].k, n = image[i].size, drawn = 0;
		double ns[2];
		buf_printf(&text,
			   "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/4.2.3.1;2+1+1;3+1+1\n"
			   "operand W const f32 [%d,%d,3,3] plain\n"
			   "operand Y out f32 [1,%d,%d,%d] 0.1/4.2.3.1\n"
			   "stage k:%d y:%d x:%d | c:%d r:3 s:3\nread X [0,c,y+r-1,x+s-1]\nread W [k,c,r,s]\n"
			   "body r0 r1 mul\nsum\nwrite Y [0,k,y,x]\n",
			   k, n, n, k, k, k, n, n, k, n, n, k);
		struct space *s = case_space(&a, buf_str(&text), &tg),
			     *host = case_space(&a, buf_str(&text), &cpu);
		REQUIRE(s && host);
		rng_seed(&r, 5);
		for (int d = 0; d < 400; d++) {
			CHECK_OK(space_random(s, &r, cand));
			drawn += strstr(cand, "spread=1") != NULL;
			CHECK_OK(space_mutate(s, &r, cand, x));
			CHECK_OK(space_legal(s, x));
		}
		CHECK(drawn > 40 && drawn < 340);
		ns[0] = space_draft(s, image[i].cand[0]);
		ns[1] = space_draft(s, image[i].cand[1]);
		CHECK((ns[1] < .7 * ns[0]) == image[i].worth);
		if (test_bad)
			printf("%d: %g ns in one launch, %g in two, %d drawn\n", n, ns[0], ns[1], drawn);
		CHECK_OK(space_legal(s, "lane=k:4 par=3 split=c:16 spread=1"));
		CHECK_FAILS(space_legal(s, "lane=k:4 par=3 spread=1"), E_INFEASIBLE, "spread");
		CHECK_FAILS(space_legal(s, "lane=k:4 par=2 split=c:16 spread=1"), E_INFEASIBLE, "spread");
		CHECK_FAILS(space_legal(s, "lane=k:4 par=3 split=c:4 spread=1"), E_INFEASIBLE, "over 16 MB");
		CHECK_FAILS(space_legal(host, "lane=k:4 par=3 split=c:16 spread=1"), E_INFEASIBLE, "spread");
		buf_free(&text);
		arena_free(&a);
	}
}

/* The default of a GPU goes through the channels first, which lie far apart; a rule goes through pixels. */
TEST(a_rule_brings_neighbours_together)
{
	const char *text = "task syms=0\noperand X in f32 [1,64,56,56] 0.1/4.2.3.1\n"
			   "operand W const f32 [64,64] plain\noperand Y out f32 [1,64,56,56] 0.1/4.2.3.1\n"
			   "stage k:64 y:56 x:56 | c:64\nread X [0,c,y,x]\nread W [k,c]\n"
			   "body r0 r1 mul\nsum\nwrite Y [0,k,y,x]\n";
	const struct target tg = case_gpu();
	struct arena a = {0};
	struct space *s = case_space(&a, text, &tg);
	struct task t;
	struct sched c;
	char first[CAND_MAX], x[CAND_MAX];
	int by_pixel = 0, by_parts = 0;
	REQUIRE(s);
	CHECK_OK(task_parse(text, &t));
	space_default(s, first);
	REQUIRE_OK(sched_parse(&t, first, &c));
	CHECK(c.st[0].order[2] == 0);
	for (int at = 0; space_portfolio(s, &at, x) >= 0;) {
		REQUIRE_OK(sched_parse(&t, x, &c));
		by_pixel += c.st[0].order[2] == 2 && !c.st[0].spread && c.st[0].tile[2] < 56;
		by_parts += c.st[0].order[2] == 2 && c.st[0].spread;
	}
	CHECK(by_pixel == 1 && by_parts == 1);
	arena_free(&a);
}

/* A processor is not faster with narrow vectors, and calls a function for each group; a GPU hides both. */
TEST(items_on_a_processor)
{
	const char *text = "task syms=0\noperand X in f32 [1,64,32,64] plain\n"
			   "operand W const f32 [64,64] plain\noperand Y out f32 [1,64,32,64] plain\n"
			   "stage k:64 y:32 x:64 | c:64\nread X [0,c,y,x]\nread W [k,c]\n"
			   "body r0 r1 mul\nsum\nwrite Y [0,k,y,x]\n";
	const struct target gpu = case_gpu(), slow = case_slow_items();
	struct arena a = {0};
	struct space *fast = case_space(&a, text, &gpu), *s = case_space(&a, text, &slow);
	REQUIRE(fast && s);
	double two = space_draft(s, "lane=x:2 tile=k:4 par=3"),
	       four = space_draft(s, "lane=x:4 tile=k:4 par=3"),
	       spilled = space_draft(s, "lane=x:2 tile=k:32 par=3"),
	       fits = space_draft(s, "lane=x:4 tile=k:16 par=3"),
	       group = space_draft(s, "lane=x:4 tile=k:4 par=3 group=64");
	CHECK(two > 1.4 * four);
	CHECK(spilled > 1.2 * fits);
	CHECK(group < four);
	CHECK(space_draft(fast, "lane=x:2 tile=k:32 par=3") <
	      1.2 * space_draft(fast, "lane=x:4 tile=k:16 par=3"));
	arena_free(&a);
}

/* The peak tells how wide a processor's instructions are, and with it, which vectors are fast. */
TEST(vectors_of_items_on_a_processor)
{
	static const struct {
		double gflops;
		int cores, width;
	} cases[] = {{0, 1, 4}, {30, 1, 4}, {110, 1, 8}, {440, 4, 8}, {160, 1, 16}};
	const char *text =
	    "task syms=0\noperand X in f32 [96,128] plain\noperand W const f32 [128,256] plain\n"
	    "operand Y out f32 [96,256] plain\nstage y:96 x:256 | c:128\nread X [y,c]\n"
	    "read W [c,x]\nbody r0 r1 mul\nsum\nwrite Y [y,x]\n";
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena a = {0};
		struct target tg = case_slow_items();
		tg.fma_gflops = cases[i].gflops;
		tg.cores = cases[i].cores;
		memset(tg.bw_gbs, 0, sizeof tg.bw_gbs);
		CHECK(draft_width(&tg) == cases[i].width);
		struct space *s = case_space(&a, text, &tg);
		REQUIRE(s);
		double four = space_draft(s, "lane=x:4 tile=y:6,x:2 par=2"),
		       eight = space_draft(s, "lane=x:8 tile=y:6 par=2");
		CHECK(cases[i].width == 4 ? eight > .8 * four : eight < .8 * four);
		if (test_bad)
			printf("%g GFLOP/s: %g and %g ns\n", cases[i].gflops, four, eight);
		arena_free(&a);
	}
}

/* All chunks of a ring are in one launch, and tensors are read once. */
TEST(rings_of_items_on_a_processor)
{
	const struct target slow = case_slow_items();
	struct arena a = {0};
	char *text = arena_strdup(&a, task_softmax);
	for (char *at;
	     (at = strstr(text, "i:5 ")) || (at = strstr(text, "[5,")) || (at = strstr(text, "[5]"));)
		at[at[0] == 'i' ? 2 : 1] = '8';
	struct space *s = case_space(&a, text, &slow);
	REQUIRE(s);
	static const char stages[] = "lane=j:4; lane=j:4; lane=j:4 tile=j:4 ring=i:";
	char one[CAND_MAX], all[CAND_MAX];
	snprintf(one, sizeof one, "%s1", stages);
	snprintf(all, sizeof all, "%s8", stages);
	REQUIRE_OK(space_legal(s, one));
	REQUIRE_OK(space_legal(s, all));
	CHECK(space_draft(s, one) < 1.5 * space_draft(s, all));
	arena_free(&a);
}

/* The time of a launch is the measured one, that in a graph first. */
TEST(launches_take_the_measured_time)
{
	static const double floors[][2] = {{0, 0}, {9000, 0}, {9000, 500}};
	static const double expected_ns[] = {2000, 9000, 500};
	const char *text = "task syms=0\noperand X in f32 [64,64] plain\noperand Y out f32 [64,64] plain\n"
			   "stage y:64 x:64\nread X [y,x]\nbody r0\nwrite Y [y,x]\n";
	struct arena a = {0};
	double first_ns = 0;
	for (int i = 0; i < 3; i++) {
		struct target tg = case_gpu();
		memcpy(tg.launch_ns, floors[i], sizeof tg.launch_ns);
		struct space *s = case_space(&a, text, &tg);
		REQUIRE(s);
		double ns = space_draft(s, "lane=x:4 tile=x:1 par=2");
		if (i == 0)
			first_ns = ns;
		CHECK(fabs(ns - first_ns - (expected_ns[i] - expected_ns[0])) < 1e-6 * first_ns);
	}
	arena_free(&a);
}

/* Threads share tiles on devices whose items run side by side, and nowhere else; the draft knows what they
 * save. */
TEST(threads_share_tiles)
{
	const char *text =
	    "task syms=0\noperand X in f32 [512,512] plain\noperand W const f32 [512,512] plain\n"
	    "operand Y out f32 [512,512] plain\nstage y:512 x:512 | k:512\nread X [y,k]\n"
	    "read W [k,x]\nbody r0 r1 mul\nsum\nwrite Y [y,x]\n";
	struct target tg = case_gpu(), serial = tg, cpu = case_board(4, 32);
	struct arena a = {0};
	serial.serial = true;
	struct space *s = case_space(&a, text, &tg), *loops = case_space(&a, text, &serial),
		     *host = case_space(&a, text, &cpu);
	REQUIRE(s && loops && host);
	static const char items[] = "lane=x:4 tile=y:4,x:2 par=2";
	char shared[CAND_MAX];
	snprintf(shared, sizeof shared, "%s threads=y:8,x:16 share=k:16", items);
	CHECK_OK(space_legal(s, shared));
	CHECK(space_draft(s, shared) < .9 * space_draft(s, items));
	CHECK(space_draft(loops, shared) > 5 * space_draft(loops, items));
	static const struct {
		const char *add, *why;
	} bad[] = {{"threads=y:8,x:16", "share nothing"},
		   {"share=k:16", "without threads"},
		   {"threads=y:8,x:3 share=k:16", "x ends"},
		   {"threads=y:8 share=k:17", "not in whole blocks"},
		   {"threads=y:8 share=x:16", "first loop"},
		   {"threads=y:64,x:32 share=k:1", "more than 1024"},
		   {"threads=y:8,x:16 share=k:64", "bytes of"},
		   {"threads=y:8,x:8 share=k:512", "a box of"},
		   {"group=64 threads=y:8 share=k:16", "other keys"},
		   {"threads=y:8,x:16 share=k:32x2", "bytes of"},
		   {"threads=y:8,x:8 share=k:256x3", "a ring of 3"},
		   {"split=k:64 threads=y:8 share=k:16", "not spread"},
		   {"split=k:72 spread=1 threads=y:8 share=k:16", "not spread in whole boxes"},
		   {"split=k:160 spread=1 threads=y:8 share=k:16x3", "not spread in whole boxes"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char cand[CAND_MAX];
		snprintf(cand, sizeof cand, "%s %s", items, bad[i].add);
		CHECK_FAILS(space_legal(s, cand), E_INFEASIBLE, bad[i].why);
	}
	CHECK_FAILS(space_legal(host, shared), E_INFEASIBLE, "threads");
	CHECK_FAILS(space_legal(s, "par=2 threads=y:8,x:8 share=k:16x4"), E_CORRUPT, "over 3");
	CHECK_FAILS(space_legal(s, "par=2 threads=y:8,x:8 share=k:16x1"), E_CORRUPT, "under 2");
	double once = space_draft(s, "par=2 threads=y:16,x:16 share=k:16"),
	       ring = space_draft(s, "par=2 threads=y:16,x:16 share=k:16x2"),
	       large = space_draft(s, "par=2 threads=y:8,x:8 share=k:128"),
	       larger = space_draft(s, "par=2 threads=y:8,x:8 share=k:128x3");
	CHECK(ring < once);
	CHECK(larger > large); /* its boxes leave room for two groups */
	CHECK_OK(space_legal(s, "par=2 split=k:192 spread=1 threads=y:8,x:8 share=k:16x3"));
	char few[CAND_MAX], parts[CAND_MAX]; /* 16 blocks on 132 units, or 64 */
	snprintf(few, sizeof few, "lane=x:4 tile=y:8,x:4 par=2 threads=y:16,x:8 share=k:16");
	snprintf(parts, sizeof parts,
		 "lane=x:4 tile=y:8,x:4 par=2 split=k:128 spread=1 threads=y:16,x:8 share=k:16");
	CHECK(space_draft(s, parts) < .7 * space_draft(s, few));
	CHECK(case_drawn(s, 3, 300, "spread=1") > 50);
	CHECK(case_drawn(s, 3, 300, "threads=") > 50);
	CHECK(case_drawn(loops, 3, 300, "threads=") == 0);
	CHECK(case_drawn(host, 3, 100, "threads=") == 0);
	arena_free(&a);
}

/* Threads share the sums of few long rows, in one launch. */
TEST(threads_share_sums)
{
	const char *text = "task syms=0\noperand X in f32 [48,16384] plain\noperand Y out f32 [48] plain\n"
			   "stage y:48 | x:16384\nread X [y,x]\nbody r0\nsum\nwrite Y [y]\n";
	const struct target tg = case_gpu();
	struct target serial = tg, cpu = case_board(4, 32), small = tg, most = tg, warps = tg;
	struct arena a = {0};
	serial.serial = true;
	small.group = 16;
	most.group = TARGET_MOST_GROUP;
	strcpy(warps.features, "+cl_khr_subgroup_shuffle");
	struct space *s = case_space(&a, text, &tg), *direct = case_space(&a, text, &warps),
		     *loops = case_space(&a, text, &serial), *host = case_space(&a, text, &cpu),
		     *few = case_space(&a, text, &small), *large = case_space(&a, text, &most);
	REQUIRE(s && direct && loops && host && few && large);
	static const char team[] = "lane=x:4 par=1 threads=x:256";
	CHECK_OK(space_legal(s, team));
	CHECK(space_draft(s, team) < .2 * space_draft(s, "lane=x:4 par=1"));
	CHECK(space_draft(s, team) < space_draft(s, "lane=y:4 par=1 split=x:256 spread=1"));
	CHECK(space_draft(s, "lane=x:4 par=1 threads=x:32") > space_draft(s, team));
	static const struct {
		const char *cand, *why;
	} bad[] = {{"par=1 threads=x:16", "power of two"},
		   {"par=1 threads=x:96", "power of two"},
		   {"par=1 threads=x:2048", "power of two"},
		   {"threads=x:64", "loops parallel"},
		   {"lane=y:16 tile=y:2 par=1 threads=x:64", "y ends"},
		   {"par=1 threads=y:2,x:64", "one reduction"},
		   {"par=1 threads=x:64 share=x:64", "other keys"},
		   {"par=1 split=x:64 threads=x:64", "other keys"},
		   {"par=1 group=64 threads=x:64", "other keys"},
		   {"tile=y:16 par=1 threads=x:1024", "are over"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(space_legal(s, bad[i].cand), E_INFEASIBLE, bad[i].why);
	CHECK_OK(space_legal(direct, "tile=y:16 par=1 threads=x:1024")); /* 32 places of each point */
	CHECK_FAILS(space_legal(host, team), E_INFEASIBLE, "power of two");
	CHECK_FAILS(space_legal(few, "par=1 threads=x:32"), E_INFEASIBLE, "power of two");
	CHECK_FAILS(space_legal(large, "par=1 threads=x:2048"), E_INFEASIBLE, "power of two");
	CHECK(case_drawn(s, 3, 300, "threads=x") > 30);
	CHECK(case_drawn(loops, 3, 300, "threads=x") == 0);
	CHECK(case_drawn(host, 3, 100, "threads=x") == 0);
	char cand[CAND_MAX];
	int at = 0, teams = 0;
	while (space_portfolio(s, &at, cand) >= 0)
		teams += strstr(cand, "threads=x") != NULL;
	CHECK(teams == 2);
	arena_free(&a);
}

/* Threads run a chain of long rows together. */
TEST(threads_run_chains)
{
	const char *text = "task syms=0\noperand X in f32 [48,2048] plain\noperand M tmp f32 [48] plain\n"
			   "operand E tmp f32 [48,2048] plain\noperand Y out f32 [48,2048] plain\n"
			   "stage y:48 | x:2048\nread X [y,x]\nbody r0\nmax\nwrite M [y]\n"
			   "stage y:48 x:2048\nread X [y,x]\nread M [y]\nbody r0 r1 sub exp\nwrite E [y,x]\n"
			   "stage y:48 x:2048\nread E [y,x]\nbody r0 2 mul\nwrite Y [y,x]\n";
	const struct target tg = case_gpu();
	struct target serial = tg, cpu = case_board(4, 32);
	struct arena a = {0};
	serial.serial = true;
	struct space *s = case_space(&a, text, &tg), *loops = case_space(&a, text, &serial),
		     *host = case_space(&a, text, &cpu);
	REQUIRE(s && loops && host);
	static const char crew[] = "lane=x:4 threads=x:256; lane=x:4 threads=x:256; lane=x:4 threads=x:256";
	CHECK_OK(space_legal(s, crew));
	CHECK(space_draft(s, crew) < .5 * space_draft(s, "lane=x:4; lane=x:4; lane=x:4"));
	static const struct {
		const char *cand, *why;
	} bad[] = {{"threads=x:64; threads=x:64; threads=x:32", "not the same number"},
		   {"threads=x:64; threads=x:64; ", "not the same number"},
		   {"threads=x:16; threads=x:16; threads=x:16", "power of two"},
		   {"threads=y:48; threads=y:48; threads=y:48", "power of two"},
		   {"threads=y:64; threads=y:64; threads=y:64", "one axis of each"},
		   {"threads=x:64; tile=x:3 threads=x:64; threads=x:64", "whole tiles"},
		   {"threads=x:64; threads=x:64; threads=x:64 share=x:64", "one axis of each"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(space_legal(s, bad[i].cand), E_INFEASIBLE, bad[i].why);
	CHECK_FAILS(space_legal(host, crew), E_INFEASIBLE, "power of two");
	CHECK(case_drawn(s, 3, 200, "threads=x") > 50);
	CHECK(case_drawn(loops, 3, 200, "threads=x") == 0);
	CHECK(case_drawn(host, 3, 100, "threads=x") == 0);
	char cand[CAND_MAX];
	int at = 0, crews = 0;
	while (space_portfolio(s, &at, cand) >= 0)
		crews += strstr(cand, "threads=x") != NULL;
	CHECK(crews == 2);
	arena_free(&a);
}

/* A group of all lanes of a unit takes as long as a smaller one, and one that leaves units idle longer. */
TEST(groups_that_fill_the_units)
{
	const char *text = "task syms=0\noperand X in f32 [2112,512] plain\noperand Y out f32 [2112] plain\n"
			   "stage y:2112 | x:512\nread X [y,x]\nbody r0\nsum\nwrite Y [y]\n";
	struct target tg = case_gpu();
	struct arena a = {0};
	tg.fma_gflops /= 8; /* 19 lanes in a unit */
	struct space *s = case_space(&a, text, &tg);
	REQUIRE(s);
	double small = space_draft(s, "par=1 group=32"), half = space_draft(s, "par=1 group=16"),
	       large = space_draft(s, "par=1 group=256");
	CHECK(large > 1.5 * small); /* 9 of 132 units have groups */
	CHECK(half >= small);
	arena_free(&a);
}

/* Work that is worth several threads has enough indexes for all; other work has the same schedule as with one
 * thread. */
TEST(indexes_for_all_threads)
{
	static const struct {
		const char *text;
		int least; /* indexes, for four threads */
	} cases[] = {
	    {"task syms=0\noperand X in f32 [2,200,304] plain\noperand Y out f32 [2,200,304] plain\n"
	     "stage i:2 j:200 k:304\nread X [i,j,k]\nbody r0 0 max\nwrite Y [i,j,k]\n",
	     16},
	    {"task syms=0\noperand X in f32 [1,16,160,160] 0.1/16.2.3.1\noperand Y out f32 [1,16,80,80] "
	     "0.1/16.2.3.1\n"
	     "stage n:1 c:16 y:80 x:80 | r:2 s:2\nread X [n,c,2*y+r,2*x+s]\nbody r0\nmax\nwrite Y "
	     "[n,c,y,x]\n",
	     16},
	    {"task syms=0\noperand X in f32 [4,64] plain\noperand Y out f32 [4,64] plain\n"
	     "stage i:4 j:64\nread X [i,j]\nbody r0 0 max\nwrite Y [i,j]\n",
	     1},
	};
	struct arena a = {0};
	struct target tg = {.isa = "x86-64-v4",
			    .lanes = 16,
			    .regs = 32,
			    .fma = true,
			    .l1_bytes = 32768,
			    .l2_bytes = 1 << 20,
			    .cores = 4};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct task t;
		int64_t extent[2];
		for (int k = 0; k < 2; k++) {
			const struct space_want want = {false, k ? 4 : 1};
			struct space *s;
			struct loops *l;
			struct manifest m;
			char cand[CAND_MAX];
			REQUIRE_OK(task_parse(cases[i].text, &t));
			REQUIRE_OK(space_make(&a, &t, &tg, &want, &s));
			space_default(s, cand);
			REQUIRE_OK(lower(&t, cand, &tg, &a, &l, &m));
			extent[k] = code_extent(&m, 0, m.param);
		}
		CHECK(extent[1] >= cases[i].least && (cases[i].least > 1 || extent[0] == extent[1]));
	}
	arena_free(&a);
}

/* One vector of outputs: the taps of a row are unrolled if points share what they read, and a single channel
 * is summed along its lanes. With two vectors neither happens. */
TEST(few_channels)
{
	static const struct {
		const char *image, *filters, *out, *axes, *read, *has, *lacks;
	} k[] = {
	    {"1,16,30,40", "16,16,3,3", "1,16,30,40", "n:1 k:16 y:30 x:40 | c:16 r:3 s:3", "y+r-1,x+s-1",
	     "s:3", "s:2"},
	    {"1,3,96,96", "16,3,6,6", "1,16,48,48", "n:1 k:16 y:48 x:48 | c:3 r:6 s:6", "2*y+r-2,2*x+s-2",
	     "s:6", "s:2"},
	    {"1,64,40,40", "1,64,1,1", "1,1,40,40", "n:1 k:1 y:40 x:40 | c:64 r:1 s:1", "y+r,x+s",
	     "lane=c:16", "lane=x"},
	    {"1,16,30,40", "32,16,3,3", "1,32,30,40", "n:1 k:32 y:30 x:40 | c:16 r:3 s:3", "y+r-1,x+s-1",
	     "k:2", "s:3"},
	};
	struct target tg = case_board(16, 32);
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct kcase c = {.a = {0}};
		struct space *s;
		struct buf text = {0};
		char cand[CAND_MAX];
		buf_printf(
		    &text,
		    "task syms=0\noperand X in f32 [%s] 0.1/16.2.3.1;2+2+2;3+2+2\noperand W const f32 [%s] "
		    "plain\n"
		    "operand Y out f32 [%s] 0.1/16.2.3.1\nstage %s\nread X [n,c,%s]\nread W [k,c,r,s]\n"
		    "body r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
		    k[i].image, k[i].filters, k[i].out, k[i].axes, k[i].read);
		REQUIRE_OK(task_parse(buf_str(&text), &c.t));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, &(struct space_want){.level = LEVEL_EXACT}, &s));
		space_default(s, cand);
		good(&c, s, &tg, cand);
		CHECK(strstr(cand, k[i].has) && !strstr(cand, k[i].lacks));
		if (test_bad)
			printf("%s\n", cand);
		buf_free(&text);
		arena_free(&c.a);
	}
}

/* Vector operations at least, of any schedule. */
TEST(arithmetic_of_tasks)
{
	static const struct {
		const char *stage;
		double slots;
	} of[] = {
	    {"stage n:64\nread X [n]\nbody r0\nwrite Y [n]\n", 0},
	    {"stage n:64\nread X [n]\nbody r0 0 max 6 min\nwrite Y [n]\n", 2 * 64 / 16},
	    {"stage n:64 | k:1\nread X [n]\nbody r0\nmax\npost acc 2 mul\nwrite Y [n]\n", 2 * 64 / 16},
	    {"stage n:64 | k:5\nread X [n]\nbody r0 r0 mul\nsum\nwrite Y [n]\n", 5 * 64 / 16},
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		char text[512];
		struct task t;
		snprintf(text, sizeof text,
			 "task syms=0\noperand X in f32 [64] plain\noperand Y out f32 [64] plain\n%s",
			 of[i].stage);
		REQUIRE_OK(task_parse(text, &t));
		CHECK(draft_arithmetic(&t, 16) == of[i].slots);
		CHECK(draft_arithmetic(&t, 8) == 2 * of[i].slots);
	}
}

/* Several rows are summed at a time, unless they come from beyond the L2. */
TEST(short_rows_together)
{
	static const struct {
		int rows, n, ring;
	} of[] = {{196, 192, 16}, {196, 512, 8}, {3136, 512, 0}, {12, 192, 0}};
	struct target tg = case_board(16, 32);
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct arena a = {0};
		char text[512], cand[CAND_MAX];
		struct task t;
		struct space *s;
		int m = of[i].rows, n = of[i].n;
		snprintf(text, sizeof text,
			 "task syms=0\noperand X in f32 [%d,%d] plain\noperand U tmp f32 [%d,1] plain\n"
			 "operand Y out f32 [%d,%d] plain\nstage y:%d | x:%d\nread X [y,x]\nbody r0\nsum\n"
			 "write U [y,0]\nstage y:%d x:%d\nread X [y,x]\nread U [y,0]\nbody r0 r1 sub\n"
			 "write Y [y,x]\n",
			 m, n, m, m, n, m, n, m, n);
		REQUIRE_OK(task_parse(text, &t));
		REQUIRE_OK(space_make(&a, &t, &tg, NULL, &s));
		space_default(s, cand);
		const char *ring = strstr(cand, "ring=y:");
		CHECK((ring ? atoi(ring + 7) : 0) == of[i].ring);
		arena_free(&a);
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

/* Twins of random candidates are legal, new, and of the same structure; candidates with an outer loop have
 * twins. */
TEST(twins_compile_nothing)
{
	struct target tg = case_board(16, 32);
	int twins = 0, none = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct kcase c;
		struct rng r;
		struct space *s = space_of(&c, seed, &tg);
		REQUIRE(s);
		rng_seed(&r, seed);
		for (int i = 0; i < 50; i++) {
			char cand[CAND_MAX], twin[CAND_MAX], of[CAND_MAX], as[CAND_MAX];
			CHECK_OK(space_random(s, &r, cand));
			int rc = space_twin(s, &r, cand, twin);
			CHECK(rc == E_OK || rc == E_NOTFOUND);
			CHECK(rc == E_OK || !strstr(cand, " | "));
			twins += rc == E_OK;
			none += rc == E_NOTFOUND;
			if (rc < 0)
				continue;
			space_structure(cand, of);
			space_structure(twin, as);
			CHECK(!strcmp(of, as) && strcmp(cand, twin) != 0);
			CHECK_OK(space_legal(s, twin));
		}
		char twin[CAND_MAX];
		CHECK_FAILS(space_twin(s, &r, "nonsense", twin), E_CORRUPT, "schedule");
		arena_free(&c.a);
	}
	CHECK(twins > 50 && none > 50);
}

/* Damaged text is refused with a reason, never a crash. */
TEST(damaged_text)
{
	static const char letters[] = "kxyn:=, |;0123456789lane";
	struct target tg = case_board(16, 32);
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
	static const char *const winograds[] = {"tiles=8", "gemm=2x2", "chunk=4",
						"raw=4",   "parts=2",  "pixels=1"};
	for (size_t i = 0; i < sizeof winograds / sizeof *winograds; i++) /* without winograd */
		CHECK_FAILS(space_legal(s, winograds[i]), E_CORRUPT, "not canonical");
	CHECK_FAILS(space_legal(s, "tile"), E_CORRUPT, "schedule");
	CHECK_FAILS(space_mutate(s, &r, "nonsense", cand), E_CORRUPT, "schedule");
	arena_free(&c.a);
}

/* With 16 registers a generic tile has up to 7 pixels, so that each rest of a row is one tile; with 32 more.
 * Depthwise it has 7, which are enough sums to hide the latency of an FMA. */
TEST(pixels_of_generic_tiles)
{
	static const char *const text[] = {
	    "task syms=0\noperand X in f32 [1,48,31,33] 0.1/8.2.3.1\noperand W const f32 [37,48,3,3] plain\n"
	    "operand Y out f32 [1,37,29,31] 0.1/8.2.3.1\nstage n:1 k:37 y:29 x:31 | c:48 r:3 s:3\n"
	    "read X [n,c,y+r,x+s]\nread W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
	    "task syms=0\noperand X in f32 [1,37,31,33] 0.1/8.2.3.1\noperand W const f32 [37,1,3,3] "
	    "0/8.1.2.3.0\n"
	    "operand Y out f32 [1,37,29,31] 0.1/8.2.3.1\nstage n:1 k:37 y:29 x:31 | r:3 s:3\n"
	    "read X [n,k,y+r,x+s]\nread W [k,0,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n"};
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task), *g = ARENA_NEW(&a, struct task);
	int64_t params[MAX_SYMS];
	for (int i = 0; i < 4; i++) {
		bool few = i < 2, depthwise = i % 2;
		const struct target tg = case_board(8, few ? 16 : 32);
		struct space *s;
		struct sched c;
		char cand[CAND_MAX];
		REQUIRE_OK(task_parse(text[i % 2], t));
		REQUIRE_OK(task_abstract(t, g, params));
		REQUIRE_OK(space_make(&a, g, &tg, NULL, &s));
		space_default(s, cand);
		REQUIRE_OK(sched_parse(g, cand, &c));
		int pixels = c.st[0].tile[3];
		CHECK(!few || pixels <= 7);
		CHECK(!few || !depthwise || (pixels == 7 && c.st[0].tile[2] == 1));
		CHECK(few || depthwise || pixels > 7);
	}
	arena_free(&a);
}

TEST_MAIN
