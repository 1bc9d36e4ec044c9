/* SPDX-License-Identifier: Apache-2.0 */
/* Compares emitted code with the interpreter, bit for bit (NaNs are one class): single operations on special
 * values, then random programs, for the host and every x86 baseline that it can run. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/run/dev.h"
#include "platform/run/pool.h"
#include "platform/base/rng.h"
#include "tests/lib/host_targets.h"
#include "tests/lib/random_program.h"
#include "tests/lib/test.h"
#include <malloc.h>
#include <math.h>

enum { MARGIN = 64 };

static struct arena objects;

struct memory {
	float f[NBUFS][ELEMS + 2 * MARGIN];
	void *bufs[NBUFS];
};
static struct memory start, want, got;

static void fill_memory(struct memory *m, uint64_t seed)
{
	static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001,
					   0x007fffff, 0x00800000, 0x80800000, 0x7f800000,
					   0xff800000, 0x7fc00000, 0x3f800000, 0xbf000000};
	struct rng r;
	rng_seed(&r, seed);
	memset(m, 0, sizeof *m);
	for (int b = 0; b < NBUFS; b++)
		rng_fill(&r, m->f[b], ELEMS + 2 * MARGIN);
	for (int i = 0; i < ELEMS; i += 1 + (int)rng_below(&r, 40))
		memcpy(&m->f[B_B][MARGIN + i], &special[rng_below(&r, 12)], 4);
	for (int i = 0; i < ELEMS; i++) {
		int32_t t = (int32_t)rng_below(&r, 300);
		memcpy(&m->f[B_T][MARGIN + i], &t, 4);
	}
}

static void place(struct memory *m)
{
	memcpy(m, &start, sizeof *m);
	for (int b = 0; b < NBUFS; b++)
		m->bufs[b] = m->f[b] + MARGIN;
}

static bool same(float a, float b)
{
	return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b));
}

/* Reports the first difference in any buffer, margins included; false: none. */
static bool differ(const char *target, uint64_t seed)
{
	for (int b = 0; b < NBUFS; b++)
		for (int i = 0; i < ELEMS + 2 * MARGIN; i++)
			if (!same(want.f[b][i], got.f[b][i])) {
				uint32_t w, g;
				memcpy(&w, &want.f[b][i], 4);
				memcpy(&g, &got.f[b][i], 4);
				printf("seed %llu, %s: buffer %s[%d] is %08x, interpreted %08x\n",
				       (unsigned long long)seed, target, l.buf[b].name, i - MARGIN, g, w);
				return true;
			}
	return false;
}

static void run_object(const struct blob *o, const int64_t *params, const int64_t *extent)
{
	const struct dev *dev = dev_find("cpu");
	struct dev_code *code;
	REQUIRE_OK(dev->load(o->p, o->n, &code));
	unsigned old = fpu_flush();
	for (int e = 0; e < l.nentries; e++) {
		int k = dev->entry(code, l.entry[e].name);
		CHECK(k >= 0);
		/* in two parts, the second first */
		dev->run(code, k, got.bufs, params, extent[e] / 2, extent[e]);
		dev->run(code, k, got.bufs, params, 0, extent[e] / 2);
	}
	fpu_restore(old);
	dev->unload(code);
}

static int undivided; /* programs that divide where ARMv7 cannot */

/* Interprets and runs the program in `l`. True: the results are equal, or there is no code for an expected
 * reason (a spill; a division that ARMv7 has no instruction for). */
static bool agree(const struct target *t, const int64_t *params, uint64_t seed, int *ran)
{
	struct blob o;
	int64_t extent[LOOPS_MAX_ENTRIES];
	arena_reset(&objects);
	int rc = emit_find("llvm")->emit(&l, t, &objects, &o);
	bool divides = rc == E_UNSUPPORTED && strstr(err_text(), "_ldivmod");
	undivided += divides;
	if (rc == E_SPILL || divides)
		return true;
	if (rc < 0) {
		printf("seed %llu, %s: %s\n", (unsigned long long)seed, t->isa, err_text());
		return false;
	}
	place(&want);
	place(&got);
	for (int e = 0; e < l.nentries; e++) {
		extent[e] = ix_eval(l.entry[e].extent, params, NULL, NULL);
		rc = loops_run(&l, e, want.bufs, params, extent[e] / 2, extent[e]);
		if (rc >= 0)
			rc = loops_run(&l, e, want.bufs, params, 0, extent[e] / 2);
		if (rc < 0) {
			printf("seed %llu: interpreter: %s\n", (unsigned long long)seed, err_text());
			return false;
		}
	}
	run_object(&o, params, extent);
	++*ran;
	memset(want.bufs, 0, sizeof want.bufs);
	memset(got.bufs, 0, sizeof got.bufs);
	return !differ(t->isa, seed);
}

/* Every operation on every pair of special values, for each number of lanes. */
static void all_operations(const struct target *t, enum vop op, int lanes)
{
	int v[5], ran = 0;
	begin_program(t->fma);
	loops_entry(&l, c(240 / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	for (int k = 0; k < 5; k++)
		v[k] = lv_new(&l, lanes);
	for (int k = 0; k < 4; k++)
		lv_load(&l, v[k], at(k < 2 ? B_A : B_B, ix_add(&l, i, c(k % 2 * 256))));
	if (op == V_LANE)
		lv_lane(&l, v[4], v[0], lanes - 1);
	else if (op == V_TRN0 || op == V_TRN1)
		lv_trn(&l, v[4], lanes > 1 ? op : V_COPY, v[0], v[1], lanes > 4 ? 2 : lanes / 2);
	else if (op == V_LACE && lanes > 1)
		lv_lace(&l, v[4], v[0], v[1], lanes > 2 ? 3 : 2, 1, 0);
	else
		lv_set(&l, v[4], op == V_LACE ? V_COPY : op, v[0], v[1], v[2], v[3]);
	lv_store(&l, v[4], at(B_O, i));
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
	if (!agree(t, NULL, op * 100u + (unsigned)lanes, &ran) || !ran) {
		printf("operation %s, %d lanes, %s\n", vop_info[op].name, lanes, t->isa);
		test_bad = 1;
	}
}

/* a[0..] and a[256..]: all pairs of 15 special values; b: such triples' third and fourth operand. Where MIN
 * and MAX keep subnormals (kernels/loops/loops.h), they get none. */
static void fill_specials(const struct target *t, enum vop op)
{
	static const uint32_t s[15] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
				       0x807fffff, 0x00800000, 0x80800001, 0x7f800000, 0xff800000,
				       0x7fc00000, 0x3f800001, 0xbf800000, 0x4b000001, 0xc0200000};
	bool mantissa = op == V_GETMANT || op == V_GETEXP;
	bool keeps =
	    strncmp(t->isa, "x86", 3) != 0 && (op == V_MIN || op == V_MAX || op == V_HMIN || op == V_HMAX);
	fill_memory(&start, 1);
	for (int i = 0; i < 240; i++) {
		float p, q;
		memcpy(&p, &s[i / 15 % 15], 4);
		memcpy(&q, &s[i % 15], 4);
		if (keeps && fpclassify(p) == FP_SUBNORMAL)
			p = 0;
		if (keeps && fpclassify(q) == FP_SUBNORMAL)
			q = 0;
		if (op == V_POW2)
			p = 0x1.8p23f + (float)(i + 8);
		if (mantissa)
			p = ldexpf(1 + (float)i / 240, i - 120);
		start.f[B_A][MARGIN + i] = p;
		start.f[B_A][MARGIN + 256 + i] = q;
		start.f[B_B][MARGIN + i] = (float)i;
		start.f[B_B][MARGIN + 256 + i] = -0x1p-126f * (float)(i % 7);
	}
}

TEST(operations_on_special_values)
{
	find_targets(false);
	for (int k = 0; k < ntargets && !test_bad; k++)
		for (enum vop op = V_COPY; op < V_F32_OPS; op++) {
			fill_specials(&targets[k], op);
			if (op != V_LOAD)
				for (int lanes = 1; lanes <= 16; lanes *= 2)
					all_operations(&targets[k], op, lanes);
		}
}

/* Products and quotients on both sides of 2^-126 - 2^-151: x86 detects tininess after rounding. */
TEST(tiny_results)
{
	find_targets(false);
	if (strncmp(targets[0].isa, "x86", 3) != 0)
		SKIP("this ISA may detect tininess otherwise");
	fill_memory(&start, 2);
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 240; i++) {
		float m = 1 + (float)rng_below(&r, 4000) * 0x1p-23f;
		int d = (int)rng_below(&r, 5) - 2;
		uint32_t u;
		float inv = (float)(1 / (double)m);
		memcpy(&u, &inv, 4);
		u += (uint32_t)d;
		memcpy(&inv, &u, 4);
		start.f[B_A][MARGIN + i] = m * 0x1p-63f;
		start.f[B_A][MARGIN + 256 + i] = inv * 0x1p-63f;
		start.f[B_B][MARGIN + i] = i % 3 ? 0 : i % 2 ? 0x1p-126f : -0x1p-126f;
	}
	for (int k = 0; k < ntargets; k++) {
		all_operations(&targets[k], V_MUL, 4);
		all_operations(&targets[k], V_FMA, 8);
	}
}

/* Random programs. */

static void random_programs(uint64_t first, uint64_t last)
{
	int ran = 0, made = 0;
	undivided = 0;
	find_targets(false);
	for (uint64_t seed = first; seed <= last && !test_bad; seed += (uint64_t)test_share()) {
		int64_t params[2];
		const struct target *t = &targets[seed % (uint64_t)ntargets];
		random_program(seed, t->fma, params);
		fill_memory(&start, seed);
		int rc = loops_check(&l);
		made++;
		if (rc < 0 || !agree(t, params, seed, &ran)) {
			struct buf b = {0};
			if (rc < 0)
				printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
			loops_print(&l, &b);
			if (getenv("HONE_PRINT"))
				puts(buf_str(&b));
			buf_free(&b);
			test_bad = 1;
		}
	}
	printf("%d of %d programs ran, %d divide\n", ran, made, undivided);
	CHECK(ran > 0 && ran >= (made - undivided) / 2);
}

TEST(random_programs_equal_the_interpreter)
{
	const char *seed = getenv("HONE_SEED");
	if (seed)
		random_programs(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
	else
		random_programs(1, 1000);
}

/* acc[i] += a * b over n accumulators of the target's lanes. */
static void tile(const struct target *t, int n)
{
	const struct ix *k;
	int x = lv_new(&l, t->lanes), y = lv_new(&l, t->lanes), first = l.nvars;
	loops_entry(&l, c(1));
	for (int i = 0; i < n; i++)
		lv_const(&l, lv_new(&l, t->lanes), 0);
	struct stmt *f = for_begin(&l, c(0), c(8), 1, true, &k);
	lv_load(&l, x, at(B_A, ix_mul(&l, k, c(16))));
	for (int i = 0; i < n; i++) {
		struct mem m = {.buf = B_B, .at = ix_add(&l, ix_mul(&l, k, c(64)), c(i))};
		lv_load(&l, y, m);
		lv_set(&l, first + i, V_FMA, x, y, first + i, -1);
	}
	for_end(&l, f);
	for (int i = 0; i < n; i++)
		lv_store(&l, first + i, at(B_O, c(i * t->lanes)));
	loops_entry_end(&l);
}

/* Arm has no memory operands, and LLVM loads two vectors more ahead. */
static void spills_on(const struct target *t)
{
	struct blob o;
	begin_program(t->fma);
	tile(t, t->regs - (strncmp(t->isa, "arm", 3) ? 4 : 6));
	CHECK_OK(emit_find("llvm")->emit(&l, t, &objects, &o));
	begin_program(t->fma);
	tile(t, t->regs + 4);
	CHECK_FAILS(emit_find("llvm")->emit(&l, t, &objects, &o), E_SPILL, "spill:");
}

TEST(spills_are_infeasible)
{
	static const char *const others[] = {"armv8-a", "armv7-neon"};
	struct target t;
	find_targets(false);
	for (int k = 0; k < ntargets; k++)
		spills_on(&targets[k]);
	for (int k = 0; k < 2; k++) {
		REQUIRE_OK(target_baseline(others[k], &t));
		spills_on(&t);
	}
}

TEST(other_targets_get_whole_objects)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv7-neon"};
	for (int i = 0; i < 5; i++)
		for (uint64_t seed = 1; seed <= 12; seed += (uint64_t)test_share()) {
			struct target t;
			struct blob o;
			int64_t params[2];
			REQUIRE_OK(target_baseline(names[i], &t));
			random_program(seed, t.fma, params);
			arena_reset(&objects);
			int rc = emit_find("llvm")->emit(&l, &t, &objects, &o);
			/* ARMv7 does not divide numbers that may be negative and need 64 bits. */
			bool divides = rc == E_UNSUPPORTED && i == 4 && strstr(err_text(), "_ldivmod");
			if (rc < 0 && rc != E_INFEASIBLE && rc != E_SPILL && !divides) {
				printf("%s, seed %d: %s\n", names[i], (int)seed, err_text());
				test_bad = 1;
			}
		}
}

struct window {
	int side, stride;
	const char *layout, *post;
};

static void window_text(const struct window *w, char *text, size_t n)
{
	const char *twice = w->stride == 2 ? "2*" : "";
	int in = w->side * w->stride;
	snprintf(
	    text, n,
	    "task syms=0\noperand X in f32 [1,96,%d,%d] %s;2+1+1;3+1+1\noperand W const f32 [96,1,3,3] "
	    "plain\n"
	    "operand B const f32 [96] plain\noperand Y out f32 [1,96,%d,%d] %s\n"
	    "stage n:1 k:96 y:%d x:%d | r:3 s:3\nread X [n,k,%sy+r-1,%sx+s-1]\nread W [k,0,r,s]\nread B [k]\n"
	    "body r0 r1 mul\nsum\npost acc r2 add%s\nwrite Y [n,k,y,x]\n",
	    in, in, w->layout, w->side, w->side, w->layout, w->side, w->side, twice, twice, w->post);
}

/* The default schedule of a 3x3 window, with lanes over channels and over pixels: all taps are in one body if
 * the filters fit the registers, and nothing spills. */
static void window_on(const struct window *w, const char *isa)
{
	char text[1024], cand[CAND_MAX];
	struct target tg;
	struct task t;
	struct space *s;
	struct loops *loops;
	struct manifest m;
	struct blob o;
	arena_reset(&objects);
	window_text(w, text, sizeof text);
	REQUIRE_OK(target_baseline(isa, &tg));
	REQUIRE_OK(task_parse(text, &t));
	REQUIRE_OK(space_make(&objects, &t, &tg, NULL, &s));
	space_default(s, cand);
	CHECK_OK(lower(&t, cand, &tg, &objects, &loops, &m));
	CHECK_OK(emit_find("llvm")->emit(loops, &tg, &objects, &o));
	CHECK(tg.regs < 32 || strstr(cand, "unroll=r:3,s:3"));
}

TEST(windows_keep_to_the_registers)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv7-neon"};
	static const struct window cases[] = {
	    {22, 1, "0.1/16.2.3.1", ""},
	    {10, 1, "0.1/16.2.3.1", " 0 max 6 min"},
	    {20, 1, "0.1/16.2.3.1", " acc r2 add 3 add 0 max 6 min 0.25 mul mul"},
	    {11, 2, "0.1/16.2.3.1", " 0 max"},
	    {40, 1, "plain", ""},
	};
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			window_on(&cases[j], names[i]);
}

/* Compiles the default schedule and the Winograd schedules of a 3x3 convolution: none may spill, as a board
 * without FMA would begin with a failed compile, and with the direct form. Returns how many use Winograd. */
static int winograds_on(int c, int k, int side, const char *isa)
{
	char text[1024], cand[CAND_MAX];
	struct target tg;
	struct task t;
	struct space *s;
	int n = 0, pos = 0, rc;
	arena_reset(&objects);
	CHECK_OK(target_baseline(isa, &tg));
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/%d.2.3.1;2+1+1;3+1+1\n"
		 "operand W const f32 [%d,%d,3,3] plain\noperand B const f32 [%d] plain\n"
		 "operand Y out f32 [1,%d,%d,%d] 0.1/%d.2.3.1\n"
		 "stage n:1 k:%d y:%d x:%d | c:%d r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\n"
		 "read B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
		 c, side, side, tg.lanes, k, c, k, k, side, side, tg.lanes, k, side, side, c);
	CHECK_OK(task_parse(text, &t));
	if (space_make(&objects, &t, &tg, NULL, &s) < 0)
		return 0;
	space_default(s, cand);
	do {
		struct loops *loops;
		struct manifest m;
		struct blob o;
		if (!strstr(cand, "winograd="))
			continue;
		n++;
		CHECK_OK(lower(&t, cand, &tg, &objects, &loops, &m));
		rc = emit_find("llvm")->emit(loops, &tg, &objects, &o);
		if (rc < 0)
			printf("%s, %d to %d channels, side %d: %s\n", isa, c, k, side, cand);
		CHECK_OK(rc);
	} while (space_portfolio(s, &pos, cand) >= 0);
	return n;
}

TEST(winograd_keeps_to_the_registers)
{
	static const int cases[][3] = {
	    {64, 64, 56}, {256, 256, 14}, {512, 512, 7}, {16, 64, 55}, {48, 192, 13}};
	for (int i = 0; i < 5; i++) {
		CHECK(winograds_on(cases[i][0], cases[i][1], cases[i][2], "x86-64-v2") > 0);
		CHECK(winograds_on(cases[i][0], cases[i][1], cases[i][2], "x86-64-v3") > 0);
	}
}

/* A contraction in the layout of blocked channels: a convolution of side x side taps, or a product. */
struct contraction {
	int c, k, side, taps, stride;
	const char *want; /* in the default of a board of 4 lanes without FMA */
};

static void contraction_text(const struct contraction *x, int lanes, char *text, size_t n)
{
	const char *twice = x->stride == 2 ? "2*" : "", *taps = x->taps == 3 ? " r:3 s:3" : "",
		   *r = x->taps == 3 ? "+r-1" : "", *s = x->taps == 3 ? "+s-1" : "",
		   *at = x->taps == 3 ? "r,s" : "0,0", *halo = x->taps == 3 ? ";2+1+1;3+1+1" : "";
	int in = x->side * x->stride;
	snprintf(text, n,
		 "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/%d.2.3.1%s\n"
		 "operand W const f32 [%d,%d,%d,%d] plain\noperand B const f32 [%d] plain\n"
		 "operand Y out f32 [1,%d,%d,%d] 0.1/%d.2.3.1\n"
		 "stage n:1 k:%d y:%d x:%d | c:%d%s\nread X [n,c,%sy%s,%sx%s]\nread W [k,c,%s]\n"
		 "read B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
		 x->c, in, in, lanes, halo, x->k, x->c, x->taps, x->taps, x->k, x->k, x->side, x->side, lanes,
		 x->k, x->side, x->side, x->c, taps, twice, r, twice, s, at);
}

/* Without FMA, the default holds as many points as the registers allow, and does not spill: else the box
 * begins with failed compiles, and the default is the schedule of a last resort, with one point. */
TEST(contractions_without_fma_keep_to_the_registers)
{
	static const struct contraction cases[] = {
	    {256, 32, 27, 1, 1, "tile=k:4,x:2 unroll=c:4"}, {512, 64, 13, 1, 1, "tile=k:4,x:2 unroll=c:4"},
	    {64, 256, 13, 1, 1, "tile=k:4,x:2 unroll=c:4"}, {64, 128, 28, 3, 2, "unroll=r:2,s:3"},
	    {128, 256, 14, 3, 2, "unroll=r:2,s:3"},         {256, 512, 7, 3, 2, "unroll=r:2,s:3"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[1024], cand[CAND_MAX];
		struct target tg;
		struct task t;
		struct space *s;
		struct loops *loops;
		struct manifest m;
		struct blob o;
		arena_reset(&objects);
		REQUIRE_OK(target_baseline("x86-64-v2", &tg));
		contraction_text(&cases[i], tg.lanes, text, sizeof text);
		REQUIRE_OK(task_parse(text, &t));
		REQUIRE_OK(space_make(&objects, &t, &tg, NULL, &s));
		space_default(s, cand);
		CHECK(strstr(cand, cases[i].want) && !strstr(cand, "feed=1"));
		CHECK_OK(lower(&t, cand, &tg, &objects, &loops, &m));
		int rc = emit_find("llvm")->emit(loops, &tg, &objects, &o);
		if (rc < 0 || !strstr(cand, cases[i].want))
			printf("%d to %d channels, side %d: %s\n", cases[i].c, cases[i].k, cases[i].side,
			       cand);
		CHECK_OK(rc);
	}
}

TEST(failures_say_why)
{
	struct target t;
	struct blob o;
	int64_t params[2];
	const struct emit *e = emit_find("llvm");
	REQUIRE(e && !emit_find("lvm"));
	CHECK(strncmp(e->version(), "llvm-", 5) == 0 && strchr(e->version(), '/'));
	find_targets(false);
	random_program(1, true, params);
	t = targets[0];
	strcpy(t.isa, "sim");
	CHECK_FAILS(e->emit(&l, &t, &objects, &o), E_UNSUPPORTED, "ISA sim");
	begin_program(true);
	int a = lv_new(&l, 4);
	loops_entry(&l, c(1));
	lv_set(&l, a, V_NEG, a, -1, -1, -1);
	loops_entry_end(&l);
	CHECK_FAILS(e->emit(&l, &targets[0], &objects, &o), E_CORRUPT, "entry k0, statement 0");
	/* a fused multiply-add would be a library call on a target without one */
	CHECK_OK(target_baseline("x86-64-v2", &t));
	begin_program(true);
	tile(&t, 4);
	CHECK_FAILS(e->emit(&l, &t, &objects, &o), E_UNSUPPORTED, "fmaf");
}

TEST(same_input_same_bytes_and_no_growth)
{
	struct blob o, p;
	int64_t params[2];
	int rc = E_UNSUPPORTED;
	find_targets(false);
	for (uint64_t seed = 5; seed < 15 && rc == E_UNSUPPORTED; seed++) { /* ARMv7 lacks divisions */
		random_program(seed, targets[0].fma, params);
		arena_reset(&objects);
		rc = emit_find("llvm")->emit(&l, &targets[0], &objects, &o);
	}
	REQUIRE_OK(rc);
	REQUIRE_OK(emit_find("llvm")->emit(&l, &targets[0], &objects, &p));
	CHECK(o.n == p.n && memcmp(o.p, p.p, o.n) == 0);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 100; i++) {
		arena_reset(&objects);
		CHECK_OK(emit_find("llvm")->emit(&l, &targets[0], &objects, &o));
	}
	CHECK(mallinfo2().uordblks < before + 100000);
}

TEST_MAIN
