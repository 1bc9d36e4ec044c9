/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops/lower.h"
#include "tests/lib/byte_cases.h"
#include "kernels/space/draft.h"
#include "kernels/space/sched.h"

static const char conv[] = "task syms=0\n"
			   "operand X in f32 [1,24,9,13] 0.1/16.2.3.1;2+1+1;3+1+1\n"
			   "operand W const f32 [40,24,3,3] plain\n"
			   "operand B const f32 [40] plain\n"
			   "operand Y out f32 [1,40,9,13] 0.1/16.2.3.1\n"
			   "stage n:1 k:40 y:9 x:13 | c:24 r:3 s:3\n"
			   "read X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\nread B [k]\n"
			   "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n";

TEST(conv_by_hand)
{
	static const char *const cands[] = {
	    "",
	    "lane=k:16 tile=k:2,x:7 par=3",
	    "lane=k:16 tile=k:2,x:6 unroll=c:2 par=2",
	    "lane=k:8 tile=k:3,x:4 unroll=c:8 order=y,k,n,x,r,c,s par=2",
	    "lane=k:16 tile=k:2,y:2,x:4 unroll=c:2,s:3 par=1 outer=k,y | block=k:1,y:2",
	    "lane=k:16 tile=k:2,x:5 par=2 outer=y | block=y:2",
	    "lane=k:16 tile=k:2,x:7 par=2 split=c:16",
	    "lane=k:16 tile=x:3 unroll=c:4 chains=4 hoist=0",
	};
	struct target tg = case_board(16, 32);
	for (size_t i = 0; i < sizeof cands / sizeof *cands; i++) {
		struct kcase c;
		struct rng r;
		bool infeasible;
		rng_seed(&r, i);
		REQUIRE_OK(case_parse(&c, conv, &r));
		double err = case_interpret(&c, cands[i], &tg, &infeasible);
		if (!(err >= 0 && err < 2e-6))
			printf("%s: error %g %s\n", cands[i], err, infeasible ? err_text() : "");
		CHECK(err >= 0 && err < 2e-6);
		arena_free(&c.a);
	}
}

/* Vectors along the tiled axis, transposed or interleaved: whole groups, tails of either axis, halos, 16, 8
 * and 4 lanes. */
TEST(transposed)
{
	static const struct {
		const char *task, *cand;
	} k[] = {
	    {"operand X in f32 [1,35,5,21] 0.1/16.2.3.1;2+1+1;3+2+1\noperand Y out f32 [1,35,5,21] "
	     "plain\nstage n:1 c:35 y:5 "
	     "x:21\nread X [n,c,y,x]\nbody r0 2 mul\nwrite Y [n,c,y,x]\n",
	     "lane=x:16 tile=c:16"},
	    {"operand X in f32 [35,37] plain\noperand Y out f32 [35,37] 0/16.1.0\nstage c:35 x:37\nread X "
	     "[c,x]\nbody "
	     "r0\nwrite Y [c,x]\n",
	     "lane=c:16 tile=x:16"},
	    {"operand X in f32 [35,37] plain\noperand Y out f32 [37,35] plain\nstage a:37 b:35\nread X "
	     "[b,a]\nbody "
	     "r0\nwrite Y [a,b]\n",
	     "lane=b:8 tile=a:16"},
	    {"operand X in f32 [35,9] plain\noperand Z in f32 [9,35] plain\noperand Y out f32 [9,35] "
	     "plain\nstage a:9 "
	     "b:35\nread X [b,a]\nread Z [a,b]\nbody r0 r1 sub\nwrite Y [a,b]\n",
	     "lane=b:16 tile=a:9"},
	    {"operand X in f32 [21,5] plain\noperand Y out f32 [5,21] plain\nstage a:5 b:21\nread X "
	     "[b,a]\nbody r0\nwrite Y "
	     "[a,b]\n",
	     "lane=b:4 tile=a:4"},
	    /* sums, stored transposed: a last vector and a last tile in part; a long program; more points
	       than lanes */
	    {"operand X in f32 [1,32,37] 0.1/16.2.1\noperand W const f32 [20,32] plain\noperand B const f32 "
	     "[20] "
	     "plain\noperand Y out f32 [1,20,37] plain\nstage n:1 k:20 y:37 | c:32\nread X [n,c,y]\nread W "
	     "[k,c]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y]\n",
	     "lane=k:16 tile=k:2,y:8 unroll=c:2"},
	    {"operand X in f32 [1,32,37] 0.1/16.2.1\noperand W const f32 [20,32] plain\noperand B const f32 "
	     "[20] "
	     "plain\noperand Y out f32 [1,20,37] plain\nstage n:1 k:20 y:37 | c:32\nread X [n,c,y]\nread W "
	     "[k,c]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add silu\nwrite Y [n,k,y]\n",
	     "lane=k:8 tile=k:2,y:12 unroll=c:2"},
	    {"operand X in f32 [1,32,48] 0.1/16.2.1\noperand W const f32 [24,32] plain\noperand Y out f32 "
	     "[1,24,48] "
	     "0.2/16.1.2\nstage n:1 k:24 y:48 | c:32\nread X [n,c,y]\nread W [k,c]\nbody r0 r1 "
	     "mul\nsum\npost "
	     "acc gelu\nwrite Y [n,k,y]\n",
	     "lane=k:8 tile=y:16"},
	    /* sums, interleaved: a last vector in part, a residual; a long program and three points between
	       lanes; tiles of other axes, a split reduction */
	    {"operand X in f32 [1,8,3,37] plain\noperand W const f32 [8,2,5] plain\noperand R in f32 "
	     "[1,5,3,74] plain\noperand Y out f32 [1,5,3,74] plain\nstage n:1 k:5 xp:2 y:3 x:37 | c:8\n"
	     "read X [n,c,y,x]\nread W [c,xp,k]\nread R [n,k,y,xp+2*x]\nbody r0 r1 mul\nsum\npost acc r2 "
	     "add 0 max\nwrite Y [n,k,y,xp+2*x]\n",
	     "lane=x:16 tile=k:2,xp:2,x:2 unroll=c:2"},
	    {"operand X in f32 [1,32,37] plain\noperand W const f32 [3,32] plain\noperand Y out f32 [1,37,3] "
	     "plain\nstage n:1 k:3 y:37 | c:32\nread X [n,c,y]\nread W [k,c]\nbody r0 r1 mul\nsum\npost acc "
	     "sigmoid\nwrite Y [n,y,k]\n",
	     "lane=y:8 tile=k:3,y:2"},
	    {"operand X in f32 [1,64,40] plain\noperand W const f32 [2,64] plain\noperand Y out f32 [1,40,2] "
	     "plain\nstage n:1 k:2 y:40 | c:64\nread X [n,c,y]\nread W [k,c]\nbody r0 r1 mul\nsum\nwrite Y "
	     "[n,y,k]\n",
	     "lane=y:16 tile=k:2,y:2 unroll=c:2 split=c:32 chains=2"},
	};
	struct target tg = case_board(16, 32);
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct kcase c = {{0}};
		struct rng r;
		char text[1024];
		bool infeasible;
		struct loops *l;
		struct manifest m;
		struct buf b = {0};
		rng_seed(&r, 5 + i);
		snprintf(text, sizeof text, "task syms=0\n%s", k[i].task);
		REQUIRE_OK(case_parse(&c, text, &r));
		double err = case_interpret(&c, k[i].cand, &tg, &infeasible);
		CHECK(err >= 0 && err < 1e-6);
		REQUIRE_OK(lower(&c.t, k[i].cand, &tg, &c.a, &l, &m));
		loops_print(l, &b);
		CHECK(strstr(buf_str(&b), "trn1") || strstr(buf_str(&b), "lace"));
		buf_free(&b);
		arena_free(&c.a);
	}
}

TEST(schedules_that_do_not_fit)
{
	struct target tg = case_board(16, 32);
	struct kcase c;
	struct rng r;
	struct loops *l;
	struct manifest m;
	rng_seed(&r, 1);
	REQUIRE_OK(case_parse(&c, conv, &r));
	CHECK_FAILS(lower(&c.t, "lane=q:16", &tg, &c.a, &l, &m), E_CORRUPT, "no axis");
	CHECK_FAILS(lower(&c.t, "tile=x:7 lane=k:16", &tg, &c.a, &l, &m), E_CORRUPT, "out of order");
	CHECK_FAILS(lower(&c.t, "lane=k:16  tile=x:7", &tg, &c.a, &l, &m), E_CORRUPT, "not canonical");
	CHECK_FAILS(lower(&c.t, "lane=k:16 | block=y:2", &tg, &c.a, &l, &m), E_CORRUPT, "no outer loop");
	CHECK_FAILS(lower(&c.t, "lane=x:5", &tg, &c.a, &l, &m), E_INFEASIBLE, "lanes");
	CHECK_FAILS(lower(&c.t, "lane=k:16 tile=x:14", &tg, &c.a, &l, &m), E_INFEASIBLE,
		    "exceeds its extent");
	CHECK_FAILS(lower(&c.t, "lane=k:16 unroll=c:3", &tg, &c.a, &l, &m), E_INFEASIBLE, "unroll");
	CHECK_FAILS(lower(&c.t, "lane=k:16 split=c:8", &tg, &c.a, &l, &m), E_INFEASIBLE, "split");
	CHECK_FAILS(lower(&c.t, "lane=k:16 par=2 outer=c", &tg, &c.a, &l, &m), E_INFEASIBLE, "outer");
	tg.lanes = 8;
	CHECK_FAILS(lower(&c.t, "lane=k:16", &tg, &c.a, &l, &m), E_INFEASIBLE, "8");
	arena_free(&c.a);
}

/* One random (task, schedule): schedule 0 is the default. A failing seed is printed. */
static void one_random(uint64_t seed, const struct target *tg, void (*make)(struct buf *b, struct rng *r))
{
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct space *s;
	char cand[CAND_MAX], again[CAND_MAX];
	bool infeasible = false;
	rng_seed(&r, seed);
	make(&text, &r);
	int rc = case_parse(&c, buf_str(&text), &r);
	if (rc >= 0)
		rc = space_make(&c.a, &c.t, tg, NULL, &s);
	if (rc < 0) {
		printf("seed %llu: %s\n%s", (unsigned long long)seed, err_text(), buf_str(&text));
		CHECK(rc >= 0);
		return;
	}
	space_default(s, cand);
	if (seed % 4)
		CHECK_OK(space_random(s, &r, cand));
	if (seed % 4 == 3) {
		memcpy(again, cand, sizeof again);
		CHECK_OK(space_mutate(s, &r, again, cand));
	}
	CHECK_OK(space_legal(s, cand));
	double err = case_interpret(&c, cand, tg, &infeasible);
	if (!(err >= 0 && err < case_tolerance(buf_str(&text), cand))) {
		printf("seed %llu: error %g %s\n%s\n%s", (unsigned long long)seed, err,
		       err < 0 ? err_text() : "", cand, buf_str(&text));
		CHECK(false);
	}
	buf_free(&text);
	arena_free(&c.a);
}

static void many_random(int n, void (*make)(struct buf *b, struct rng *r))
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	const char *from = getenv("SEED");
	uint64_t first = from ? strtoull(from, NULL, 0) : 1;
	for (uint64_t seed = first;
	     seed <
		 first + (from ? 1 : (getenv("SEEDS") ? strtoull(getenv("SEEDS"), NULL, 0) : (uint64_t)n)) &&
	     !test_bad;
	     seed++)
		one_random(seed, &tg[seed % 3], make);
}

TEST(random_schedules)
{
	many_random(600, case_text);
}

/* Bytes equal the reference's bit for bit. */
TEST(random_schedules_of_bytes)
{
	many_random(900, byte_text);
	many_random(300, byte_rows_text);
}

/* A sum that f32 cannot hold: the bias leaves only its last digits. */
static void fill_all(struct kcase *c, int operand, float v)
{
	const struct operand *o = &c->t.operand[operand];
	for (int64_t i = 0; i < shape_count(&o->dims); i++)
		((float *)c->plain[operand])[i] = v;
	operand_pack(o, c->plain[operand], c->phys[operand]);
	operand_pack(o, c->plain[operand], c->ref[operand]);
}

/* n products of 27/16 and 1 add up to n 27/16, which f16 holds exactly for n up to 76, and f32 for all of
 * these tasks: a longer sum in f16 gives another result. */
TEST(sums_in_f16_are_short)
{
	struct target tg = case_board(4, 32);
	int halves = 0, long_sums = 0;
	strcpy(tg.isa, "armv8-a");
	strcpy(tg.features, "+fullfp16");
	const struct space_want want = {.level = LEVEL_HALF_SUM};
	for (uint64_t seed = 1; seed <= 120; seed += test_share()) {
		struct rng r;
		struct kcase c;
		struct space *s;
		struct buf text = {0};
		char cand[CAND_MAX];
		bool infeasible;
		rng_seed(&r, seed);
		int at = 0, k = 2 * (seed < 20 ? 64 + (int)seed : pick(&r, 1, 600));
		if (seed % 2)
			buf_printf(
			    &text,
			    "task syms=0\noperand X in f32 [9,%d] plain\noperand W const f32 [12,%d] plain\n"
			    "operand B const f32 [12] plain\noperand Y out f32 [9,12] plain\n"
			    "stage m:9 n:12 | k:%d\nread X [m,k]\nread W [n,k]\nread B [n]\n"
			    "body r0 r1 mul\nsum\npost acc r2 add\nwrite Y [m,n]\n",
			    k, k, k);
		else
			paired_conv(&text, &r, 40);
		REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
		fill_all(&c, 0, 27.f / 16);
		fill_all(&c, 1, 1);
		fill_all(&c, 2, 3);
		REQUIRE_OK(task_reference(&c.t, c.ref, &c.a));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, &want, &s));
		for (int i = 0; i < 4; i++) {
			REQUIRE_OK(i ? space_random(s, &r, cand) : space_portfolio(s, &at, cand));
			double err = case_interpret(&c, cand, &tg, &infeasible);
			if (err != 0)
				printf("seed %d: error %g\n%s\n%s", (int)seed, err, cand, buf_str(&text));
			CHECK(err == 0);
			halves += cand_pairs(cand) == DT_F16;
			long_sums += cand_pairs(cand) == DT_F16 && stage_steps(&c.t.stage[0]) > 144;
		}
		buf_free(&text);
		arena_free(&c.a);
	}
	printf("%d kernels sum in f16, %d of them in parts\n", halves, long_sums);
	CHECK(test_share() > 1 || (halves > 200 && long_sums > 100));
}

TEST(sums_beyond_f32)
{
	static const char *const weights[] = {"u8", "i8"}; /* single bytes; groups */
	struct target tg = case_board(16, 32);
	for (int i = 0; i < 2; i++)
		for (int n = 256; n <= 1028; n += 4 * test_share()) {
			struct kcase c;
			struct rng r;
			struct space *s;
			char text[512], cand[CAND_MAX];
			bool infeasible;
			int32_t sum = 0;
			snprintf(
			    text, sizeof text,
			    "task syms=0\noperand X in u8 [%d] plain\noperand W const %s [20,%d] plain\n"
			    "operand B const i32 [20] plain\noperand Y out u8 [20] plain\n"
			    "stage k:20 | c:%d\nread X [c]\nread W [k,c]\nread B [k]\nbody r0 r1 mul\nsum\n"
			    "post acc r2 add\nwrite Y [k]\n",
			    n, weights[i], n, n);
			rng_seed(&r, (uint64_t)n);
			REQUIRE_OK(case_parse(&c, text, &r));
			for (int k = 0; k < 20 * n; k++) { /* all rows alike */
				uint8_t w = (uint8_t)((i ? 127 : 255) - k % n % 2);
				((uint8_t *)c.plain[1])[k] = ((uint8_t *)c.phys[1])[k] =
				    ((uint8_t *)c.ref[1])[k] = w;
				if (k < n) {
					((uint8_t *)c.phys[0])[k] = ((uint8_t *)c.ref[0])[k] = 255;
					sum += 255 * w;
				}
			}
			for (int k = 0; k < 20; k++)
				((int32_t *)c.phys[2])[k] = ((int32_t *)c.ref[2])[k] = 7 * k - sum;
			REQUIRE_OK(task_reference(&c.t, c.ref, &c.a));
			for (int k = 0; k < 20; k++)
				CHECK(((uint8_t *)c.ref[3])[k] == 7 * k);
			REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
			space_default(s, cand);
			CHECK(case_interpret(&c, cand, &tg, &infeasible) == 0);
			arena_free(&c.a);
		}
}

/* Copies a task's text and gives some operands another type. */
static void mix_types(const char *s, struct rng *r, struct buf *out)
{
	static const char *const types[] = {"u8", "i8", "f32", "i32"};
	for (; *s; s += strcspn(s, "\n") + 1) {
		char name[9], role[9], type[9];
		int at = 0;
		if (sscanf(s, "operand %8s %8s %8s%n", name, role, type, &at) == 3 && pick(r, 0, 2) == 0) {
			buf_printf(out, "operand %s %s %s", name, role, types[rng_below(r, 20) % 10 % 4]);
			s += at;
		}
		buf_add(out, s, strcspn(s, "\n") + 1);
	}
}

/* Makes the values of i32 so small that no product leaves s32. */
static void shrink_words(struct kcase *c)
{
	for (int i = 0; i < c->t.noperands; i++) {
		const struct operand *o = &c->t.operand[i];
		bool values = o->dtype == DT_I32 && o->role != ROLE_OUT && !case_is_table(c, i);
		for (int64_t j = 0; values && j < shape_count(&o->dims); j++)
			((int32_t *)c->plain[i])[j] %= 50;
		if (values) {
			operand_pack(o, c->plain[i], c->phys[i]);
			operand_pack(o, c->plain[i], c->ref[i]);
		}
	}
	REQUIRE_OK(task_reference(&c->t, c->ref, &c->a));
}

/* Every mixture of types that task_check accepts is lowered to a nest that loops_check accepts; integers are
 * right. */
TEST(types_in_any_mixture)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	int ran = 0;
	for (uint64_t seed = 1; seed <= 1500; seed += test_share()) {
		struct rng r;
		struct buf text = {0}, mixed = {0};
		struct kcase c;
		struct space *s;
		char cand[CAND_MAX];
		bool infeasible;
		rng_seed(&r, seed);
		(seed % 3 ? byte_text : case_text)(&text, &r);
		mix_types(buf_str(&text), &r, &mixed);
		int rc = case_parse(&c, buf_str(&mixed), &r);
		if (rc >= 0) {
			shrink_words(&c);
			REQUIRE_OK(space_make(&c.a, &c.t, &tg[seed % 3], NULL, &s));
			space_default(s, cand);
			if (seed % 2)
				REQUIRE_OK(space_random(s, &r, cand));
			double err = case_interpret(&c, cand, &tg[seed % 3], &infeasible);
			bool bytes = c.t.operand[c.t.stage[c.t.nstages - 1].out.operand].dtype != DT_F32;
			if (err < 0 || (bytes && err != 0))
				printf("seed %llu: %g %s\n%s\n%s", (unsigned long long)seed, err,
				       err < 0 ? err_text() : "", cand, buf_str(&mixed));
			REQUIRE(err >= 0 && (!bytes || err == 0));
			ran++;
		} else {
			CHECK(rc == E_CORRUPT);
		}
		buf_free(&text);
		buf_free(&mixed);
		arena_free(&c.a);
	}
	CHECK(test_share() > 1 || ran > 500);
}

/* A constant that is read outside of its bounds gives its fill value there, although packing supports only
 * 0. */
TEST(constants_with_a_fill_value)
{
	const struct target tg = case_board(16, 32);
	static const char text[] =
	    "task syms=0\noperand X in f32 [4,16] plain\n"
	    "operand W const f32 [4,16] plain fill=3\noperand Y out f32 [4,16] plain\n"
	    "stage a:4 b:16\nread X [a,b]\nread W [a-1,b]\nbody r0 r1 add\nwrite Y [a,b]\n";
	struct rng r;
	struct kcase c;
	struct space *s;
	char cand[CAND_MAX];
	bool infeasible = false;
	rng_seed(&r, 1);
	REQUIRE_OK(case_parse(&c, text, &r));
	REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
	space_default(s, cand);
	double err = case_interpret_task(&c, &c.t, NULL, cand, &tg, &infeasible);
	CHECK(err >= 0 && err < 1e-6);
	arena_free(&c.a);
}

/* A quotient by a constant is that of a division: one ulp less, and the floor of a multiple is one less. */
TEST(floor_of_a_quotient)
{
	const struct target tg = case_board(16, 32);
	static const int by[] = {41, 47, 55, 61, 82, 83};
	for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
		struct rng r;
		struct kcase c;
		char text[400];
		bool infeasible = false;
		snprintf(
		    text, sizeof text,
		    "task syms=0\noperand X in f32 [9,16] plain\noperand Y out f32 [9,16] plain\n"
		    "stage a:9 b:16\nread X [a,b]\nbody r0 100 mul rint %d mul %d div floor\nwrite Y [a,b]\n",
		    by[i], by[i]);
		rng_seed(&r, 1);
		REQUIRE_OK(case_parse(&c, text, &r));
		double err = case_interpret_task(&c, &c.t, NULL, "lane=b:16", &tg, &infeasible);
		CHECK(err == 0);
		arena_free(&c.a);
	}
}

/* Interprets the generic form of a random task by its default schedule, with its sizes as parameters. */
static void one_generic(uint64_t seed, const struct target *tg)
{
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct task g;
	struct space *s;
	int64_t syms[MAX_SYMS];
	char cand[CAND_MAX] = "";
	bool infeasible = false;
	rng_seed(&r, seed);
	case_text(&text, &r);
	REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
	if (task_abstract(&c.t, &g, syms) >= 0) {
		REQUIRE_OK(space_make(&c.a, &g, tg, NULL, &s));
		space_default(s, cand);
		CHECK_OK(space_legal(s, cand));
		double err = case_interpret_task(&c, &g, syms, cand, tg, &infeasible);
		if (!(infeasible && g.nstages > 1) &&
		    !(err >= 0 && err < case_tolerance(buf_str(&text), cand))) {
			printf("seed %llu: error %g %s\n%s\n%s", (unsigned long long)seed, err,
			       err < 0 ? err_text() : "", cand, buf_str(&text));
			CHECK(false);
		}
	}
	buf_free(&text);
	arena_free(&c.a);
}

TEST(generic_tasks)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	const char *from = getenv("SEED");
	uint64_t first = from ? strtoull(from, NULL, 0) : 1;
	for (uint64_t seed = first; seed < first + (from ? 1 : 300) && !test_bad; seed += test_share())
		one_generic(seed, &tg[seed % 3]);
}

/* Interprets a generic matrix product by a schedule with tiles of 6 rows and `v` vectors. */
static void one_rest(int m, int n, int v, const struct target *tg)
{
	struct rng r;
	struct kcase c;
	struct task g;
	int64_t syms[MAX_SYMS];
	char text[400], cand[CAND_MAX];
	bool infeasible = false;
	snprintf(text, sizeof text,
		 "task syms=0\noperand A in f32 [%d,61] plain\noperand B const f32 [61,%d] plain\n"
		 "operand Y out f32 [%d,%d] plain\nstage m:%d n:%d | k:61\nread A [m,k]\nread B [k,n]\n"
		 "body r0 r1 mul\nsum\nwrite Y [m,n]\n",
		 m, n, m, n, m, n);
	snprintf(cand, sizeof cand, v > 1 ? "lane=n:8 tile=m:6,n:%d" : "lane=n:8 tile=m:6", v);
	rng_seed(&r, (uint64_t)(m * 100 + n));
	REQUIRE_OK(case_parse(&c, text, &r));
	REQUIRE_OK(task_abstract(&c.t, &g, syms));
	double err = case_interpret_task(&c, &g, syms, cand, tg, &infeasible);
	CHECK(err >= 0 && err < 1e-5);
	arena_free(&c.a);
}

/* The rows and vectors that a generic tile leaves are one tile, of every size: each size has its own code. */
TEST(rests_of_generic_tiles)
{
	const struct target tg = case_board(8, 16);
	static const char text[] =
	    "task syms=1\noperand A in f32 [$0,61] plain\noperand B const f32 [61,8] plain\n"
	    "operand Y out f32 [$0,8] plain\nstage m:$0 n:8 | k:61\nread A [m,k]\nread B [k,n]\n"
	    "body r0 r1 mul\nsum\nwrite Y [m,n]\n";
	struct arena a = {0};
	struct loops *l;
	struct manifest m;
	struct task *g = ARENA_NEW(&a, struct task);
	struct buf b = {0};
	for (int rows = 1; rows < 15; rows++) {
		one_rest(rows, 8, 1, &tg);
		one_rest(rows, 5 + rows * 4, 2, &tg);
		one_rest(7, rows * 3, 4, &tg);
	}
	REQUIRE_OK(task_parse(text, g));
	REQUIRE_OK(lower(g, "lane=n:8 tile=m:6", &tg, &a, &l, &m));
	loops_print(l, &b);
	int fmas = 0;
	for (const char *p = buf_str(&b); (p = strstr(p, " = fma ")); p++)
		fmas++;
	CHECK(fmas == 6 + 5 + 4 + 3 + 2 + 1);
	buf_free(&b);
	arena_free(&a);
}

TEST_MAIN
